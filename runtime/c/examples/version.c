/* Checks that the library has all that this program's header has. */
#include <stdio.h>
#include "isochron.h"

int main(void)
{
  int major, minor;
  isochron_abi(&major, &minor);
  printf("libisochron has version %d.%d, and this program needs %d.%d\n", major, minor,
         ISOCHRON_ABI_MAJOR, ISOCHRON_ABI_MINOR);
  return major != ISOCHRON_ABI_MAJOR || minor < ISOCHRON_ABI_MINOR;
}

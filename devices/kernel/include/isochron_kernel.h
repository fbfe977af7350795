/* The interface of computational kernels in shared libraries. Made by cbindgen from devices/kernel/src/abi.rs. */

#ifndef ISOCHRON_KERNEL_H
#define ISOCHRON_KERNEL_H

#include <stdint.h>

#if defined(_WIN32)
#define ISOCHRON_KERNEL_EXPORT __declspec(dllexport)
#else
#define ISOCHRON_KERNEL_EXPORT __attribute__((visibility("default")))
#endif

/* A number that another thread writes. */
typedef volatile int32_t isochron_flag_t;

// Version of the interface. A library made for another one is refused.
#define ISOCHRON_KERNEL_ABI 1

// A function of the kernel succeeded.
#define ISOCHRON_KERNEL_OK 0

// The run stopped because it was interrupted.
#define ISOCHRON_KERNEL_INTERRUPTED -1

// There is not enough memory for the size.
#define ISOCHRON_KERNEL_NO_MEMORY -2

// A kernel: the work of one iteration of an application's main loop, without its communication.
//
// A shared library exports its kernel as `isochron_kernel`, or each of several as `isochron_kernel_NAME`. The functions
// are called from one thread at a time, in the order initialize, execute (any number of times), finalize. They return
// ISOCHRON_KERNEL_OK, one of the other results above, or a positive number of the kernel's own that names its failure.
typedef struct {
  // ISOCHRON_KERNEL_ABI. It comes first in every version.
  uint32_t abi;
  // Name of the kernel for reports, ended by a zero.
  const char *name;
  // Returns the useful work of d units: floating-point operations, or d itself if they cannot be counted.
  double (*complexity)(uint64_t d);
  // Allocates and fills the data of d units, and stores their address in *context.
  int32_t (*initialize)(uint64_t d, void **context);
  // Computes one iteration. A kernel that may run for long reads *interrupted now and then. If it is not 0, the kernel
  // returns ISOCHRON_KERNEL_INTERRUPTED.
  int32_t (*execute)(void *context, const isochron_flag_t *interrupted);
  // Gives the data back.
  int32_t (*finalize)(void *context);
} isochron_kernel_t;

#endif  /* ISOCHRON_KERNEL_H */

#ifdef __cplusplus
extern "C" {
#endif

/* A library with one kernel defines it. */
extern ISOCHRON_KERNEL_EXPORT const isochron_kernel_t isochron_kernel;

/* Declares one of several kernels of a library, which is called as FILE:NAME; `_` stands for `-`. */
#define ISOCHRON_DECLARE_KERNEL(NAME) \
  extern ISOCHRON_KERNEL_EXPORT const isochron_kernel_t isochron_kernel_##NAME

#ifdef __cplusplus
}
#endif

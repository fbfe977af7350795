/* A program whose OpenMP threads compute beside a session, which leaves them cores:
 * mpirun -n 2 openmp_host CORES UNITS LEFT: the logical numbers of the cores that are reserved (0,1), their hardware threads,
 * and the number of the other cores. */
#define _GNU_SOURCE
#include <dirent.h>
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "checks.h"
#include "isochron.h"

enum { N = 120, THREADS = 3, PRODUCTS = 10, MOST_RANKS = 16, MOST_KNOWN = 256 };

static int ranks;
static isochron_session_t *session;
static cpu_set_t granted, reserved;
/* The threads of the program, and those that were there before the session. */
static pid_t team[THREADS], known[MOST_KNOWN];
static int n_known;
static double a[N * N], b[N * N], c[N * N], wanted[N * N], own[THREADS][N * N];

/* Multiplies by a plain triple loop. */
static void multiply(double *product)
{
  for (int row = 0; row < N; row++)
    for (int col = 0; col < N; col++) {
      double sum = 0.0;
      for (int k = 0; k < N; k++)
        sum += a[row + k * N] * b[k + col * N];
      product[row + col * N] = sum;
    }
}

static isochron_matrix_t describe(double *elements)
{
  isochron_matrix_t made = {.struct_size = sizeof made, .kind = ISOCHRON_ON_ONE, .rows = N, .cols = N, .ld = N};
  made.data = elements;
  return made;
}

/* Lists the threads of this process. Returns their number. */
static int list_threads(pid_t *threads)
{
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry; folder && (entry = readdir(folder)) && count < MOST_KNOWN;)
    if (*entry->d_name != '.')
      threads[count++] = (pid_t)atoi(entry->d_name);
  if (folder)
    closedir(folder);
  return count;
}

static int is_among(pid_t thread, const pid_t *threads, int count)
{
  for (int i = 0; i < count; i++)
    if (threads[i] == thread)
      return 1;
  return 0;
}

/* Returns 1 if a thread of this process has the name of a thread that computes for a device of cores. */
static int is_named_cpu(pid_t thread)
{
  char path[64], name[4] = "";
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)thread);
  FILE *file = fopen(path, "r");
  if (file && !fgets(name, sizeof name, file))
    name[0] = '\0';
  if (file)
    fclose(file);
  return strcmp(name, "cpu") == 0;
}

/* Checks that the team is bound, and that every other new thread keeps off the reserved cores. Returns where the threads that
 * compute may run. */
static cpu_set_t find_session_cores(void)
{
  pid_t threads[MOST_KNOWN];
  cpu_set_t all, mask, both;
  CPU_ZERO(&all);
  for (int i = list_threads(threads); i-- > 0;) {
    if (sched_getaffinity(threads[i], sizeof mask, &mask) != 0)
      continue;
    if (is_among(threads[i], team, THREADS))
      expect("a thread of the program is where it was bound", CPU_EQUAL(&mask, &reserved));
    else if (!is_among(threads[i], known, n_known)) {
      CPU_AND(&both, &mask, &reserved);
      expect("a thread of the session keeps off the reserved cores", CPU_COUNT(&both) == 0);
      if (is_named_cpu(threads[i]))
        CPU_OR(&all, &all, &mask);
    }
  }
  return all;
}

/* The session's threads leave the reserved cores alone and use all others. Ranks share these out if there are enough. */
static void check_cores(int cores_left)
{
  cpu_set_t mine = find_session_cores(), all[MOST_RANKS], used;
  int sum = 0;
  expect("the session has threads on cores of its own", CPU_COUNT(&mine) > 0);
  MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
  CPU_ZERO(&used);
  for (int other = 0; other < ranks; other++) {
    CPU_OR(&used, &used, &all[other]);
    sum += CPU_COUNT(&all[other]);
  }
  expect("no core is used twice", cores_left < ranks || sum == CPU_COUNT(&used));
  CPU_OR(&used, &used, &reserved);
  expect("every core is used", CPU_EQUAL(&used, &granted));
}

/* The first thread, which may call MPI, multiplies by the session. */
static void run_products(void)
{
  double one = 1.0, zero = 0.0;
  isochron_matrix_t on_a = describe(a), on_b = describe(b), on_c = describe(c);
  for (int i = 0; i < PRODUCTS; i++)
    check(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &on_a, &on_b, &zero, &on_c));
}

/* Has the team bind itself to the reserved cores, and compute while the session does. */
static void run_team(void)
{
#pragma omp parallel num_threads(THREADS)
  {
    int thread = omp_get_thread_num();
    team[thread] = (pid_t)syscall(SYS_gettid);
    sched_setaffinity(0, sizeof reserved, &reserved);
#pragma omp barrier
    if (thread == 0)
      run_products();
    else
      for (int i = 0; i < PRODUCTS; i++)
        multiply(own[thread]);
  }
}

static void read_reserved(const char *units)
{
  CPU_ZERO(&reserved);
  for (const char *at = units; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
    CPU_SET(atoi(at), &reserved);
}

int main(int argc, char **argv)
{
  int provided;
  char settings[1000];
  if (argc < 4)
    return 2;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < N * N; i++)
    a[i] = i % 7 - 3, b[i] = i % 11 - 5;
  multiply(wanted);
  sched_getaffinity(0, sizeof granted, &granted);
  read_reserved(argv[2]);
  n_known = list_threads(known);
  snprintf(settings, sizeof settings, "reserved_cores=%s blas=embedded strategy=homogeneous", argv[1]);
  check(isochron_open_comm(MPI_COMM_WORLD, settings, &session));
  run_team();
  check_cores(atoi(argv[3]));
  expect("the session's product is right", rank != 0 || memcmp(c, wanted, sizeof c) == 0);
  for (int thread = 1; thread < THREADS; thread++)
    expect("a thread's product is right", memcmp(own[thread], wanted, sizeof wanted) == 0);
  check(isochron_close(session));
  find_session_cores(); /* the team stays bound */
  MPI_Allreduce(MPI_IN_PLACE, &n_failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && n_failed == 0)
    printf("the program and its session computed beside each other\n");
  MPI_Finalize();
  return n_failed > 0;
}

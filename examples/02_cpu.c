// Adds up one number of each rank. The ranks are processes on host memory.
//
//   cc 02_cpu.c -o 02_cpu $(pkg-config --cflags --libs plait) -Wl,-rpath,$(pkg-config --variable=libdir plait)
//   ./02_cpu 4
#define _DEFAULT_SOURCE
#include <plait/plait.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

// Ends this rank if a call failed; the library tells the others.
static void check(plaitResult_t result) {
  if (result == plaitSuccess) return;
  fprintf(stderr, "%s: %s\n", plaitGetErrorString(result), plaitGetLastError(NULL));
  exit(1);
}

static void run_rank(int rank, int ranks, plaitUniqueId id) {
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.device = PLAIT_DEVICE_HOST;
  plaitComm_t comm;
  check(plaitCommInitRankConfig(&comm, ranks, id, rank, &config));

  float number = (float)rank, sum = 0;
  check(plaitAllReduce(&number, &sum, 1, plaitFloat32, plaitSum, comm, NULL));
  printf("rank %d of %d: the sum is %g\n", rank, ranks, sum);

  check(plaitCommDestroy(comm));
}

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? atoi(argv[1]) : 4;
  plaitUniqueId id;
  check(plaitGetUniqueId(&id));
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    run_rank(rank, ranks, id);
    exit(0);
  }
  int failed = 0, status;
  while (wait(&status) > 0) failed += status != 0;
  return failed == 0 ? 0 : 1;
}

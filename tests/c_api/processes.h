// Ranks as processes of a test.
#ifndef PLAIT_TESTS_PROCESSES_H
#define PLAIT_TESTS_PROCESSES_H

#include <sys/wait.h>

#include "testing.h"

typedef void (*RankBody)(int rank, int ranks, plaitUniqueId id);

// Runs the body as `ranks` processes; each one that fails a check or dies counts as a failure here.
static void run_processes(int ranks, RankBody body) {
  plaitUniqueId id;
  OK(plaitGetUniqueId(&id));
  for (int rank = 0; rank < ranks; ++rank) {
    if (fork() != 0) continue;
    alarm(100);
    checks = failures = 0;
    body(rank, ranks, id);
    fflush(NULL);
    _exit(failures == 0 && checks > 0 ? 0 : 1);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    int status = 0;
    CHECK(wait(&status) > 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

#endif

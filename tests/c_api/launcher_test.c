// Communicators of the processes that a launcher started, which find rank and size in their environment.
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "processes.h"

static void set(const char* name, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

// What `plait run` gives to a rank.
static void be_launched(int rank, int ranks) {
  set("PLAIT_RANK", rank);
  set("PLAIT_WORLD_SIZE", ranks);
  set("PLAIT_LOCAL_RANK", rank);
  set("PLAIT_JOB", (int)getppid());
}

static plaitConfig_t on_host(void) {
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.device = PLAIT_DEVICE_HOST;
  return config;
}

static int sum_of_ranks(plaitComm_t comm) {
  int rank = -1, sum = -1;
  OK(plaitCommUserRank(comm, &rank));
  OK(plaitAllReduce(&rank, &sum, 1, plaitInt, plaitSum, comm, NULL));
  return sum;
}

static void several_communicators(int rank, int ranks, plaitUniqueId id) {
  (void)id;
  be_launched(rank, ranks);
  int local_rank = -1;
  OK(plaitGetLocalRank(&local_rank));
  CHECK(local_rank == rank);
  const plaitConfig_t config = on_host();
  for (int sequence = 0; sequence < 3; ++sequence) {
    plaitComm_t comm = NULL;
    OK(plaitCommInitLauncher(&comm, sequence, &config));
    int own = -1, all = -1;
    OK(plaitCommUserRank(comm, &own));
    OK(plaitCommCount(comm, &all));
    CHECK(own == rank && all == ranks);
    CHECK(sum_of_ranks(comm) == ranks * (ranks - 1) / 2);
    OK(plaitCommDestroy(comm));
  }
}

static void in_group(int rank, int ranks, plaitUniqueId id) {
  (void)id;
  be_launched(rank, ranks);
  const plaitConfig_t config = on_host();
  plaitComm_t comm = NULL;
  OK(plaitGroupStart());
  OK(plaitCommInitLauncher(&comm, 0, &config));
  CHECK(comm == NULL);
  OK(plaitGroupEnd());
  CHECK(sum_of_ranks(comm) == ranks * (ranks - 1) / 2);
  OK(plaitCommDestroy(comm));
}

// The environment says that another rank is to come.
static void incomplete(int rank, int ranks, plaitUniqueId id) {
  (void)id;
  (void)ranks;
  set("PLAIT_RANK", rank);
  unsetenv("PLAIT_WORLD_SIZE");
  const plaitConfig_t config = on_host();
  plaitComm_t comm = NULL;
  FAILS(plaitCommInitLauncher(&comm, 0, &config), plaitInvalidUsage, "PLAIT_WORLD_SIZE");
  CHECK(comm == NULL);
  int local_rank = -1;
  FAILS(plaitGetLocalRank(&local_rank), plaitInvalidUsage, "PLAIT_WORLD_SIZE");
}

static void alone(void) {
  const plaitConfig_t config = on_host();
  plaitComm_t comm = NULL;
  int local_rank = -1, ranks = -1;
  OK(plaitGetLocalRank(&local_rank));
  CHECK(local_rank == 0);
  OK(plaitCommInitLauncher(&comm, 0, &config));
  OK(plaitCommCount(comm, &ranks));
  CHECK(ranks == 1 && sum_of_ranks(comm) == 0);
  OK(plaitCommDestroy(comm));
  FAILS(plaitCommInitLauncher(NULL, 0, &config), plaitInvalidArgument, "plaitCommInitLauncher: comm is NULL");
  FAILS(plaitCommInitLauncher(&comm, -1, &config), plaitInvalidArgument, "sequence is -1");
  FAILS(plaitGetLocalRank(NULL), plaitInvalidArgument, "plaitGetLocalRank: localRank is NULL");
}

int main(void) {
  begin_test();
  run_processes(4, several_communicators);
  run_processes(2, in_group);
  run_processes(2, incomplete);
  alone();
  return end_test("launcher_test");
}

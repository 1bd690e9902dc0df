// Ranks as processes: everything that a program with one rank a process does, and what it is told when ranks disagree.
#define _DEFAULT_SOURCE
#include "processes.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <time.h>

#include "collectives.h"

// All collectives on one communicator that this process has one rank of.
static void check_collectives(plaitComm_t comm) {
  static Buffers buffers;
  int rank = -1, ranks = -1;
  OK(plaitCommUserRank(comm, &rank));
  OK(plaitCommCount(comm, &ranks));
  for (int kind = 0; kind < kKinds; ++kind) {
    fill(&buffers, kind, rank, ranks);
    OK(call(&buffers, kind, ranks, comm));
    CHECK(wrong(&buffers, kind, rank, ranks) == 0);
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void pause_seconds(double seconds) {
  const struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

static plaitComm_t join_ranks(int rank, int ranks, plaitUniqueId id) {
  plaitComm_t comm = NULL;
  OK(plaitCommInitRank(&comm, ranks, id, rank));
  CHECK(comm != NULL);
  return comm;
}

static void everything(int rank, int ranks, plaitUniqueId id) {
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.timeoutSeconds = 20;
  config.scratchBytes = 64 << 10;
  config.device = PLAIT_DEVICE_HOST;
  config.algorithm = "all_reduce:ring";
  plaitComm_t comm = NULL;
  OK(plaitCommInitRankConfig(&comm, ranks, id, rank, &config));
  int device = 0;
  OK(plaitCommCuDevice(comm, &device));
  CHECK(device == PLAIT_DEVICE_HOST);
  check_collectives(comm);

  // Types that NCCL lacks, and those with more than one name.
  short small[3] = {(short)rank, 2, -3};
  OK(plaitAllReduce(small, small, 3, plaitInt16, plaitMax, comm, NULL));
  CHECK(small[0] == ranks - 1 && small[1] == 2 && small[2] == -3);
  double number = rank + 1.0;
  OK(plaitAllReduce(&number, &number, 1, plaitDouble, plaitAvg, comm, NULL));
  CHECK(number == (ranks + 1) / 2.0);
  OK(plaitAllReduce(NULL, NULL, 0, plaitFloat8e5m2, plaitProd, comm, NULL));
  OK(plaitGather(NULL, NULL, 0, plaitInt16, 0, comm, NULL));
  OK(plaitScatter(NULL, NULL, 0, plaitInt16, ranks - 1, comm, NULL));
  OK(plaitAlltoAll(NULL, NULL, 0, plaitInt16, comm, NULL));

  // Gather and scatter in place, which only the root can do.
  int table[kMostRanks], part = -1;
  for (int i = 0; i < kMostRanks; ++i) table[i] = 100 * rank + i;
  OK(plaitGather(table + rank, rank == 0 ? table : NULL, 1, plaitInt, 0, comm, NULL));
  for (int i = 0; i < ranks; ++i) CHECK(table[i] == (rank == 0 ? 101 * i : 100 * rank + i));
  OK(plaitScatter(rank == 0 ? table : NULL, rank == 0 ? table : &part, 1, plaitInt, 0, comm, NULL));
  CHECK((rank == 0 ? table[0] : part) == 101 * rank);

  void* memory = NULL;
  void* handle = NULL;
  OK(plaitMemAlloc(&memory, 1 << 20));
  CHECK(memory != NULL && (size_t)memory % 256 == 0);
  OK(plaitCommRegister(comm, memory, 1 << 20, &handle));
  memset(memory, rank, 1 << 20);
  OK(plaitBcast(memory, 1 << 20, plaitChar, 0, comm, NULL));
  CHECK(((char*)memory)[(1 << 20) - 1] == 0);
  OK(plaitCommDeregister(comm, handle));
  OK(plaitMemFree(memory));

  plaitResult_t state = plaitInternalError;
  OK(plaitCommGetAsyncError(comm, &state));
  CHECK(state == plaitSuccess);
  OK(plaitCommFinalize(comm));
  FAILS(plaitBarrier(comm, NULL), plaitInvalidUsage, "plaitBarrier: comm was finalized");
  OK(plaitCommFinalize(comm));
  int count = 0;
  OK(plaitCommCount(comm, &count));
  CHECK(count == ranks);
  OK(plaitCommDestroy(comm));
}

// Odd and even ranks, each half backwards; then one rank leaves.
static void split(int rank, int ranks, plaitUniqueId id) {
  plaitComm_t comm = join_ranks(rank, ranks, id);
  plaitComm_t half = NULL;
  OK(plaitCommSplit(comm, rank % 2, -rank, &half, NULL));
  int half_rank = -1, half_ranks = -1;
  OK(plaitCommUserRank(half, &half_rank));
  OK(plaitCommCount(half, &half_ranks));
  CHECK(half_ranks == (ranks + 1 - rank % 2) / 2);
  CHECK(half_rank == half_ranks - 1 - rank / 2);
  check_collectives(half);
  int members[kMostRanks];
  OK(plaitAllGather(&rank, members, 1, plaitInt, half, NULL));
  for (int i = 1; i < half_ranks; ++i) CHECK(members[i] == members[i - 1] - 2);

  plaitComm_t rest = half;
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.scratchBytes = 1 << 20;
  OK(plaitCommSplit(comm, rank == 1 ? PLAIT_SPLIT_NOCOLOR : 7, 0, &rest, &config));
  CHECK((rest == NULL) == (rank == 1));
  if (rest != NULL) {
    int rest_rank = -1;
    OK(plaitCommUserRank(rest, &rest_rank));
    CHECK(rest_rank == (rank == 0 ? 0 : rank - 1));  // equal keys: in the old order
    check_collectives(rest);
  }
  OK(plaitCommDestroy(comm));  // the others do not need it
  if (rest != NULL) check_collectives(rest);
  OK(plaitCommDestroy(half));
  OK(plaitCommDestroy(rest));
}

static void bad_split(int rank, int ranks, plaitUniqueId id) {
  plaitComm_t comm = join_ranks(rank, ranks, id);
  plaitComm_t part = comm;
  if (rank == 1) {
    FAILS(plaitCommSplit(comm, -5, 0, &part, NULL), plaitInvalidArgument, "color is -5");
  } else {
    FAILS(plaitCommSplit(comm, 0, 0, &part, NULL), plaitInvalidUsage,
          "the arguments of rank 1 cannot be used, so nothing was divided: color is -5");
  }
  CHECK(part == NULL);
  if (rank == 1) {
    FAILS(plaitCommSplit(comm, 0, 0, NULL, NULL), plaitInvalidArgument, "newcomm is NULL");
  } else {
    FAILS(plaitCommSplit(comm, 0, 0, &part, NULL), plaitInvalidUsage,
          "rank 1 cannot be used, so nothing was divided: newcomm");
  }
  check_collectives(comm);  // nothing has happened
  OK(plaitCommDestroy(comm));
}

// A rank that cannot open another file: all hear of it at once, and the communicator goes on.
static void full_split(int rank, int ranks, plaitUniqueId id) {
  plaitComm_t comm = join_ranks(rank, ranks, id), part = NULL;
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  const rlim_t before = limit.rlim_cur;
  const double begin = now();
  for (int full = 0; full < 2; ++full) {  // the one that makes the part's id, and another
    if (rank == full) {
      const int next = dup(0);
      close(next);
      limit.rlim_cur = (rlim_t)next;
      CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
      FAILS(plaitCommSplit(comm, 0, 0, &part, NULL), plaitSystemError, "ulimit -n");
      limit.rlim_cur = before;
      CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    } else {
      FAILS(plaitCommSplit(comm, 0, 0, &part, NULL), plaitRemoteError,
            full == 0 ? "rank 0 could not open a socket for the ranks of color 0"
                      : "rank 1 could not open a socket for the ranks of color 0");
    }
    CHECK(part == NULL);
    check_collectives(comm);
  }
  CHECK(now() - begin < 20);  // nobody waited for one that did not come
  OK(plaitCommSplit(comm, 0, 0, &part, NULL));
  check_collectives(part);
  OK(plaitCommDestroy(part));
  OK(plaitCommDestroy(comm));
}

static void mismatch(int rank, int ranks, plaitUniqueId id) {
  plaitComm_t comm = join_ranks(rank, ranks, id);
  int values[20] = {0};
  const size_t count = rank == 0 ? 10 : 20;
  FAILS(plaitAllReduce(values, values, count, plaitInt, plaitSum, comm, NULL), plaitInvalidUsage,
        "differs between ranks");
  plaitResult_t state = plaitSuccess;
  OK(plaitCommGetAsyncError(comm, &state));
  CHECK(state == plaitInvalidUsage);
  CHECK(strstr(plaitGetLastError(comm), "differs between ranks") != NULL);
  FAILS(plaitBarrier(comm, NULL), plaitInvalidUsage, "differs between ranks");  // for ever
  OK(plaitCommDestroy(comm));
}

static void mismatched_split(int rank, int ranks, plaitUniqueId id) {
  plaitComm_t comm = join_ranks(rank, ranks, id), part = NULL;
  int values[2] = {0};
  FAILS(rank == 0 ? plaitCommSplit(comm, 0, 0, &part, NULL)
                  : plaitAllGather(&values[rank], values, 1, plaitInt, comm, NULL),
        plaitInvalidUsage, "rank 0 called split of the communicator");
  OK(plaitCommDestroy(comm));
}

static void death(int rank, int ranks, plaitUniqueId id) {
  plaitComm_t comm = join_ranks(rank, ranks, id);
  OK(plaitBarrier(comm, NULL));
  if (rank == 1) _exit(0);
  FAILS(plaitBarrier(comm, NULL), plaitRemoteError, "rank 1");
  OK(plaitCommDestroy(comm));
}

static void late(int rank, int ranks, plaitUniqueId id) {
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.timeoutSeconds = 0.3;
  plaitComm_t comm = NULL;
  OK(plaitCommInitRankConfig(&comm, ranks, id, rank, &config));
  if (rank == 0) {
    FAILS(plaitBarrier(comm, NULL), plaitTimeout, "rank 1");
  } else {
    plaitResult_t state = plaitSuccess;
    for (int i = 0; i < 1000 && state == plaitSuccess; ++i) {
      pause_seconds(0.01);
      OK(plaitCommGetAsyncError(comm, &state));
    }
    CHECK(state == plaitTimeout);  // of a call that this rank has not made
    CHECK(strstr(plaitGetLastError(NULL), "(found by rank 0)") != NULL);
    FAILS(plaitGetVersion(NULL), plaitInvalidArgument, "version is NULL");
  }
  OK(plaitCommDestroy(comm));
  CHECK(strstr(plaitGetLastError(NULL), "PLAIT_TIMEOUT_SEC") != NULL);
}

// Settings that must be the same on all ranks, and are not.
static void other_settings(int rank, int ranks, plaitUniqueId id) {
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.timeoutSeconds = 20 + rank;  // need not
  config.scratchBytes = (size_t)(rank + 1) << 20;
  plaitComm_t comm = (plaitComm_t)&config;
  FAILS(plaitCommInitRankConfig(&comm, ranks, id, rank, &config), plaitInvalidUsage,
        "(PLAIT_SCRATCH_KIB, or of the config) differs between ranks");
  CHECK(comm == NULL);
}

static void never_joins(int rank, int ranks, plaitUniqueId id) {
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.bootstrapTimeoutSeconds = 0.5;
  plaitComm_t comm = (plaitComm_t)&config;
  if (rank == 1) {
    ++checks;
    return;
  }
  FAILS(plaitCommInitRankConfig(&comm, ranks, id, rank, &config), plaitTimeout, "plaitCommInitRankConfig: ");
  CHECK(comm == NULL);
}

static void* abort_soon(void* comm) {
  pause_seconds(0.3);
  plaitResult_t result = plaitCommAbort((plaitComm_t)comm);
  return result == plaitSuccess ? comm : NULL;
}

// Rank 0 waits for a rank that does not call; another of its threads ends that, for both ranks.
static void abort_from_thread(int rank, int ranks, plaitUniqueId id) {
  plaitComm_t comm = join_ranks(rank, ranks, id);
  const double begin = now();
  if (rank == 0) {
    pthread_t thread;
    void* aborted = NULL;
    CHECK(pthread_create(&thread, NULL, abort_soon, comm) == 0);
    FAILS(plaitBarrier(comm, NULL), plaitRemoteError, "plaitCommAbort was called");
    FAILS(plaitBarrier(comm, NULL), plaitInvalidArgument, "destroyed or aborted");
    CHECK(pthread_join(thread, &aborted) == 0);
    CHECK(aborted == comm);
  } else {
    plaitResult_t state = plaitSuccess;
    while (state == plaitSuccess && now() - begin < 20) {
      OK(plaitCommGetAsyncError(comm, &state));
      pause_seconds(0.01);
    }
    CHECK(state == plaitRemoteError);
    FAILS(plaitBarrier(comm, NULL), plaitRemoteError, "rank 0 aborted");
    FAILS(plaitGetVersion(NULL), plaitInvalidArgument, "version is NULL");
    OK(plaitCommAbort(comm));
    CHECK(strstr(plaitGetLastError(NULL), "rank 0 aborted") != NULL);
  }
  CHECK(now() - begin < 20);
}

// A second thread that calls while the first one waits is refused; the first one's call goes on.
static void* call_while_busy(void* comm) {
  pause_seconds(0.3);
  return plaitBarrier((plaitComm_t)comm, NULL) == plaitInvalidUsage ? comm : NULL;
}
static void two_threads(int rank, int ranks, plaitUniqueId id) {
  plaitComm_t comm = join_ranks(rank, ranks, id);
  if (rank == 0) {
    pthread_t thread;
    void* refused = NULL;
    CHECK(pthread_create(&thread, NULL, call_while_busy, comm) == 0);
    OK(plaitBarrier(comm, NULL));
    CHECK(pthread_join(thread, &refused) == 0);
    CHECK(refused == comm);
  } else {
    pause_seconds(0.8);
    OK(plaitBarrier(comm, NULL));
  }
  OK(plaitCommDestroy(comm));
}

// All ranks are elsewhere than in the process that made their id.
static void test_foreign_id(void) {
  int bytes[2], end[2], status = 0;
  CHECK(pipe(bytes) == 0 && pipe(end) == 0);
  const pid_t maker = fork();
  plaitUniqueId id;
  if (maker == 0) {
    close(end[1]);
    const int made = plaitGetUniqueId(&id) == plaitSuccess && write(bytes[1], &id, sizeof(id)) == (ssize_t)sizeof(id);
    const int told = read(end[0], &id, 1) == 0;  // the end of the pipe
    _exit(made && told ? 0 : 1);
  }
  CHECK(read(bytes[0], &id, sizeof(id)) == (ssize_t)sizeof(id));
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.bootstrapTimeoutSeconds = 0.3;
  plaitComm_t comm = NULL;
  FAILS(plaitCommInitRankConfig(&comm, 2, id, 0, &config), plaitInvalidArgument, "in the process that created the id");
  FAILS(plaitCommInitRankConfig(&comm, 2, id, 1, &config), plaitTimeout, "rank 0 did not take part");
  close(end[1]);
  CHECK(waitpid(maker, &status, 0) == maker && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  FAILS(plaitCommInitRankConfig(&comm, 2, id, 1, &config), plaitRemoteError, "nobody waits for ranks with this id");
  close(end[0]);
  close(bytes[0]);
  close(bytes[1]);
}

int main(void) {
  begin_test();
  test_foreign_id();
  run_processes(1, everything);
  run_processes(4, everything);
  run_processes(5, split);
  run_processes(3, bad_split);
  run_processes(3, full_split);
  run_processes(2, mismatch);
  run_processes(2, mismatched_split);
  run_processes(3, death);
  run_processes(2, late);
  run_processes(2, other_settings);
  run_processes(2, never_joins);
  run_processes(2, abort_from_thread);
  run_processes(2, two_threads);
  return end_test("processes_test");
}

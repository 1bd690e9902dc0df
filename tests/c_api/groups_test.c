// One thread that drives several ranks: communicators made and divided in groups, collectives in groups, and groups
// that fail.
#define _DEFAULT_SOURCE
#include <pthread.h>

#include "collectives.h"

enum { kRanks = 4 };

// Every collective over all ranks, one group each; then all of them in one group.
static void check_all(plaitComm_t* comms, int ranks) {
  static Buffers buffers[kKinds][kMostRanks];
  for (int together = 0; together < 2; ++together) {
    if (together) OK(plaitGroupStart());
    for (int kind = 0; kind < kKinds; ++kind) {
      OK(plaitGroupStart());
      for (int rank = 0; rank < ranks; ++rank) {
        fill(&buffers[kind][rank], kind, rank, ranks);
        OK(call(&buffers[kind][rank], kind, ranks, comms[rank]));
      }
      OK(plaitGroupEnd());
    }
    if (together) OK(plaitGroupEnd());
    for (int kind = 0; kind < kKinds; ++kind) {
      for (int rank = 0; rank < ranks; ++rank) CHECK(wrong(&buffers[kind][rank], kind, rank, ranks) == 0);
    }
  }
}

static void destroy_all(plaitComm_t* comms, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) OK(plaitCommDestroy(comms[rank]));
}

static void test_init_all(void) {
  for (int ranks = 1; ranks <= kMostRanks; ranks += 3) {
    plaitComm_t comms[kMostRanks];
    const int host[kMostRanks] = {-1, -1, -1, -1, -1, -1, -1, -1};
    OK(plaitCommInitAll(comms, ranks, ranks == 1 ? NULL : host));
    check_all(comms, ranks);
    destroy_all(comms, ranks);
  }
}

// *comm is set by the end of the group alone; two communicators, made and used in one group each.
static void test_init_in_group(void) {
  plaitUniqueId ids[2];
  plaitComm_t comms[2][kRanks];
  OK(plaitGroupStart());
  for (int i = 0; i < 2; ++i) {
    OK(plaitGetUniqueId(&ids[i]));
    for (int rank = kRanks - 1; rank >= 0; --rank) {
      OK(plaitCommInitRank(&comms[i][rank], kRanks, ids[i], rank));
      CHECK(comms[i][rank] == NULL);
    }
  }
  OK(plaitGroupEnd());
  for (int i = 0; i < 2; ++i) check_all(comms[i], kRanks);

  // Both at once: neither may wait for the other.
  int values[2][kRanks];
  OK(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int i = 0; i < 2; ++i) {
      values[i][rank] = rank + i;
      OK(plaitAllReduce(&values[i][rank], &values[i][rank], 1, plaitInt, plaitSum, comms[i][rank], NULL));
      CHECK(values[i][rank] == rank + i);
    }
  }
  OK(plaitGroupEnd());
  for (int rank = 0; rank < kRanks; ++rank) CHECK(values[0][rank] == 6 && values[1][rank] == 10);

  plaitComm_t halves[kRanks];
  OK(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) OK(plaitCommSplit(comms[0][rank], rank % 2, -rank, &halves[rank], NULL));
  OK(plaitGroupEnd());
  for (int color = 0; color < 2; ++color) {
    plaitComm_t backwards[2] = {halves[color + 2], halves[color]};
    check_all(backwards, 2);
  }
  destroy_all(halves, kRanks);
  destroy_all(comms[0], kRanks);
  destroy_all(comms[1], kRanks);
}

// A call that cannot be noted: nothing of the group is done, and the communicator lives on.
// Parts of one communicator in one group: those of each rank are made in the order noted, whatever ranks come first.
static void test_several_splits(void) {
  enum { kParts = 4 };
  plaitComm_t comms[kRanks], parts[kParts][kRanks];
  const int host[kRanks] = {-1, -1, -1, -1};
  OK(plaitCommInitAll(comms, kRanks, host));
  for (int round = 0; round < 10; ++round) {
    OK(plaitGroupStart());
    for (int rank = 0; rank < kRanks; ++rank) {
      OK(plaitCommSplit(comms[rank], 0, -rank, &parts[0][rank], NULL));
      OK(plaitCommSplit(comms[rank], rank, 0, &parts[1][rank], NULL));
      OK(plaitCommSplit(comms[rank], rank < 3 ? 7 : PLAIT_SPLIT_NOCOLOR, 0, &parts[2][rank], NULL));
      OK(plaitCommSplit(comms[rank], rank % 2, 0, &parts[3][rank], NULL));
    }
    OK(plaitGroupEnd());
    for (int rank = 0; rank < kRanks; ++rank) {
      const int sizes[kParts] = {kRanks, 1, 3, 2}, ranks[kParts] = {kRanks - 1 - rank, 0, rank, rank / 2};
      for (int part = 0; part < kParts; ++part) {
        const plaitComm_t comm = parts[part][rank];
        CHECK((comm == NULL) == (part == 2 && rank == 3));
        if (comm == NULL) continue;
        int size = 0, own = -1;
        OK(plaitCommCount(comm, &size));
        OK(plaitCommUserRank(comm, &own));
        CHECK(size == sizes[part] && own == ranks[part]);
        OK(plaitCommDestroy(comm));
      }
    }
  }
  check_all(comms, kRanks);
  destroy_all(comms, kRanks);
}

// Where one of several ranks is wrong, the group says why, and not that another rank has heard of it. The other parts
// are made.
static void test_refused_split(void) {
  plaitComm_t comms[kRanks], parts[kRanks], others[kRanks];
  const int host[kRanks] = {-1, -1, -1, -1};
  OK(plaitCommInitAll(comms, kRanks, host));
  for (int round = 0; round < 10; ++round) {
    OK(plaitGroupStart());
    for (int rank = 0; rank < kRanks; ++rank) {
      OK(plaitCommSplit(comms[rank], rank == 3 ? -7 : 0, 0, &parts[rank], NULL));
      OK(plaitCommSplit(comms[rank], 0, 0, &others[rank], NULL));
    }
    FAILS(plaitGroupEnd(), plaitInvalidArgument, "plaitGroupEnd: plaitCommSplit: color is -7");
    for (int rank = 0; rank < kRanks; ++rank) CHECK(parts[rank] == NULL && others[rank] != NULL);
    destroy_all(others, kRanks);
  }
  check_all(comms, kRanks);
  destroy_all(comms, kRanks);
}

static void test_refused_group(void) {
  plaitComm_t comms[2];
  int values[2] = {1, 2};
  OK(plaitCommInitAll(comms, 2, NULL));
  OK(plaitGroupStart());
  OK(plaitAllReduce(&values[0], &values[0], 1, plaitInt, plaitSum, comms[0], NULL));
  FAILS(plaitAllReduce(NULL, &values[1], 1, plaitInt, plaitSum, comms[1], NULL), plaitInvalidArgument,
        "plaitAllReduce: sendbuff is NULL");
  FAILS(plaitReduce(&values[1], &values[1], 1, plaitInt, plaitSum, 9, comms[1], NULL), plaitInvalidArgument,
        "root is 9");
  FAILS(plaitGroupEnd(), plaitInvalidArgument, "plaitGroupEnd: plaitAllReduce: sendbuff is NULL");
  CHECK(values[0] == 1 && values[1] == 2);
  check_all(comms, 2);

  OK(plaitCommFinalize(comms[1]));
  OK(plaitGroupStart());
  OK(plaitBarrier(comms[0], NULL));
  FAILS(plaitBarrier(comms[1], NULL), plaitInvalidUsage, "finalized");
  FAILS(plaitGroupEnd(), plaitInvalidUsage, "finalized");
  destroy_all(comms, 2);
}

// A call that fails when it is issued: no other rank may wait for it.
static void test_failing_group(void) {
  plaitComm_t comms[3], others[2];
  int values[3][8] = {{0}};
  int good[2] = {1, 2};
  OK(plaitCommInitAll(comms, 3, NULL));
  OK(plaitCommInitAll(others, 2, NULL));
  OK(plaitGroupStart());
  for (int rank = 0; rank < 3; ++rank) {  // rank 1's buffers overlap
    int* send = values[rank];
    OK(plaitAllReduce(send, rank == 1 ? send + 1 : send, 4, plaitInt, plaitSum, comms[rank], NULL));
  }
  for (int rank = 0; rank < 2; ++rank) {
    OK(plaitAllReduce(&good[rank], &good[rank], 1, plaitInt, plaitSum, others[rank], NULL));
  }
  FAILS(plaitGroupEnd(), plaitInvalidArgument, "overlap");  // the cause, not its echo on other ranks
  CHECK(strstr(plaitGetLastError(comms[0]), "overlap") != NULL);
  CHECK(good[0] == 3 && good[1] == 3);
  for (int rank = 0; rank < 3; ++rank) {
    plaitResult_t state = plaitSuccess;
    OK(plaitCommGetAsyncError(comms[rank], &state));
    CHECK(state == plaitRemoteError);
    OK(plaitCommAbort(comms[rank]));
  }
  check_all(others, 2);

  OK(plaitGroupStart());
  for (int rank = 0; rank < 2; ++rank) {
    OK(plaitAllReduce(values[0], values[0], (size_t)rank + 1, plaitInt, plaitSum, others[rank], NULL));
  }
  FAILS(plaitGroupEnd(), plaitInvalidUsage, "differs between ranks");
  destroy_all(others, 2);

  OK(plaitCommInitAll(others, 2, NULL));
  OK(plaitGroupStart());
  OK(plaitBarrier(others[0], NULL));
  OK(plaitBarrier(others[1], NULL));
  OK(plaitCommDestroy(others[1]));
  const plaitResult_t result = plaitGroupEnd();  // the one is stale, the other waits for it
  CHECK(result == plaitInvalidArgument || result == plaitRemoteError);
  OK(plaitCommDestroy(others[0]));

  // A rank that is missing in a group of inits ends the others.
  plaitUniqueId id;
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.bootstrapTimeoutSeconds = 0.3;
  OK(plaitGetUniqueId(&id));
  OK(plaitGroupStart());
  OK(plaitCommInitRankConfig(&comms[0], 3, id, 0, &config));
  OK(plaitCommInitRankConfig(&comms[2], 3, id, 2, &config));
  CHECK(plaitGroupEnd() != plaitSuccess);
  CHECK(comms[0] == NULL && comms[2] == NULL);
}

// Replaces this thread's last error by another one.
static void forget_failure(void) { FAILS(plaitGetVersion(NULL), plaitInvalidArgument, "version is NULL"); }

static void expect_last_error(const char* words) { CHECK(strstr(plaitGetLastError(NULL), words) != NULL); }

static void expect_state(plaitComm_t comm, plaitResult_t expected) {
  plaitResult_t state = plaitInternalError;
  OK(plaitCommGetAsyncError(comm, &state));
  CHECK(state == expected);
}

// Whoever asks for a communicator's failure, or ends one that has failed, has it as the last error; of one that has not
// failed nothing is said.
static void test_last_error(void) {
  const char* const reason = "differs between ranks";
  plaitComm_t comms[4], healthy[4];
  int values[4][2] = {{0}};
  OK(plaitCommInitAll(comms, 4, NULL));
  OK(plaitCommInitAll(healthy, 4, NULL));
  OK(plaitGroupStart());
  for (int rank = 0; rank < 4; ++rank) {
    OK(plaitAllReduce(values[rank], values[rank], rank == 2 ? 2 : 1, plaitInt, plaitSum, comms[rank], NULL));
  }
  FAILS(plaitGroupEnd(), plaitInvalidUsage, reason);
  for (int rank = 0; rank < 4; ++rank) {
    forget_failure();
    expect_state(comms[rank], plaitInvalidUsage);
    expect_last_error(reason);
  }

  forget_failure();
  OK(plaitCommAbort(comms[0]));
  expect_last_error(reason);
  forget_failure();
  OK(plaitCommDestroy(comms[1]));
  expect_last_error(reason);
  for (int rank = 2; rank < 4; ++rank) {
    forget_failure();
    OK(plaitCommFinalize(comms[rank]));
    expect_last_error(reason);
    forget_failure();
    expect_state(comms[rank], plaitInvalidUsage);  // not forgotten
    expect_last_error(reason);
    forget_failure();
    CHECK(strstr(plaitGetLastError(comms[rank]), reason) != NULL);
    forget_failure();
    OK(rank == 2 ? plaitCommDestroy(comms[rank]) : plaitCommAbort(comms[rank]));
    expect_last_error(reason);
  }

  forget_failure();
  OK(plaitCommFinalize(healthy[0]));
  expect_state(healthy[0], plaitSuccess);
  OK(plaitCommDestroy(healthy[0]));
  OK(plaitCommDestroy(healthy[1]));
  OK(plaitCommAbort(healthy[2]));
  expect_last_error("version is NULL");
  OK(plaitCommDestroy(healthy[3]));  // which the abort has ended
  expect_last_error("rank 2 aborted: plaitCommAbort was called");
}

// What is not noted acts at once.
static void test_at_once(void) {
  plaitComm_t comms[2];
  int values[2] = {1, 2};
  void* memory = NULL;
  void* handle = NULL;
  OK(plaitGroupStart());
  OK(plaitCommInitAll(comms, 2, NULL));
  for (int rank = 0; rank < 2; ++rank) {
    OK(plaitAllReduce(&values[rank], &values[rank], 1, plaitInt, plaitSum, comms[rank], NULL));
  }
  OK(plaitMemAlloc(&memory, 8));
  CHECK(memory != NULL);
  OK(plaitCommRegister(comms[0], memory, 8, &handle));
  CHECK(values[0] == 1 && values[1] == 2);
  OK(plaitMemFree(memory));
  OK(plaitGroupEnd());
  CHECK(values[0] == 3 && values[1] == 3);

  OK(plaitGroupStart());
  OK(plaitBarrier(comms[0], NULL));
  OK(plaitCommAbort(comms[0]));
  FAILS(plaitCommDestroy(comms[0]), plaitInvalidArgument, "destroyed or aborted");
  FAILS(plaitGroupEnd(), plaitInvalidArgument, "destroyed or aborted");
  OK(plaitCommDestroy(comms[1]));
}

// Groups belong to their thread.
static void* end_foreign_group(void* unused) {
  (void)unused;
  return plaitGroupEnd() == plaitInvalidUsage ? &checks : NULL;
}

static void test_balance(void) {
  FAILS(plaitGroupEnd(), plaitInvalidUsage, "there is no plaitGroupStart");
  OK(plaitGroupStart());
  OK(plaitGroupStart());
  OK(plaitGroupEnd());
  pthread_t thread;
  void* refused = NULL;
  CHECK(pthread_create(&thread, NULL, end_foreign_group, NULL) == 0);
  CHECK(pthread_join(thread, &refused) == 0);
  CHECK(refused != NULL);
  OK(plaitGroupEnd());
  FAILS(plaitGroupEnd(), plaitInvalidUsage, "there is no plaitGroupStart");
}

int main(void) {
  begin_test();
  test_balance();
  test_init_all();
  test_init_in_group();
  test_several_splits();
  test_refused_split();
  test_refused_group();
  test_failing_group();
  test_last_error();
  test_at_once();
  return end_test("groups_test");
}

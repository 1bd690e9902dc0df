// Tests what a communicator says of its machine.
#define _DEFAULT_SOURCE
#include "testing.h"

enum { kRanks = 6 };

static void make(plaitComm_t comms[kRanks], const char* machine) {
  int devices[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) devices[rank] = PLAIT_DEVICE_HOST;
  setenv("PLAIT_TOPOLOGY", machine, 1);
  OK(plaitCommInitAll(comms, kRanks, devices));
  unsetenv("PLAIT_TOPOLOGY");
}

static void end(plaitComm_t comms[kRanks]) {
  for (int rank = 0; rank < kRanks; ++rank) OK(plaitCommDestroy(comms[rank]));
}

static void check_groups(plaitComm_t comm, const int expected[kRanks]) {
  int groups[kRanks + 1];
  for (int rank = 0; rank <= kRanks; ++rank) groups[rank] = -7;
  OK(plaitCommGroups(comm, groups));
  for (int rank = 0; rank < kRanks; ++rank) CHECK(groups[rank] == expected[rank]);
  CHECK(groups[kRanks] == -7);
}

static void test_this_machine(void) {
  plaitComm_t comms[kRanks];
  make(comms, "");
  const char* json = NULL;
  OK(plaitCommTopology(comms[0], &json));
  CHECK(json[0] == '{' && strstr(json, "\"devices\"") != NULL);
  const char* of_other = NULL;
  OK(plaitCommTopology(comms[1], &of_other));
  CHECK(strcmp(json, of_other) == 0 && json != of_other);
  end(comms);
}

// Each of its two sockets has three GPUs, which NVLink joins.
static void test_described_machine(void) {
  const int of_sockets[kRanks] = {0, 0, 0, 1, 1, 1};
  plaitComm_t comms[kRanks];
  make(comms, "summit");
  const char *json = NULL, *again = NULL;
  OK(plaitCommTopology(comms[5], &json));
  OK(plaitCommTopology(comms[5], &again));
  CHECK(strstr(json, "summit") != NULL && json == again);
  for (int rank = 0; rank < kRanks; ++rank) check_groups(comms[rank], of_sockets);
  // A finalized communicator can be asked, also for the first time.
  for (int rank = 4; rank < kRanks; ++rank) {
    OK(plaitCommFinalize(comms[rank]));
    check_groups(comms[rank], of_sockets);
    OK(plaitCommTopology(comms[rank], &again));
    CHECK(strstr(again, "summit") != NULL);
  }
  CHECK(strstr(json, "summit") != NULL);  // as before
  end(comms);
}

// Its four GPUs a node have no NVLink.
static void test_several_nodes(void) {
  plaitComm_t comms[kRanks];
  const int each_its_own[kRanks] = {0, 1, 2, 3, 4, 5};
  make(comms, "kesch:nodes=2");
  check_groups(comms[0], each_its_own);
  end(comms);
}

// A group is a color.
static void test_division(void) {
  plaitComm_t comms[kRanks], parts[kRanks];
  int sums[kRanks], ranks[kRanks];
  make(comms, "summit");
  OK(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    int groups[kRanks];
    OK(plaitCommGroups(comms[rank], groups));
    OK(plaitCommSplit(comms[rank], groups[rank], rank, &parts[rank], NULL));
  }
  OK(plaitGroupEnd());
  OK(plaitGroupStart());
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks[rank] = rank;
    OK(plaitAllReduce(&ranks[rank], &sums[rank], 1, plaitInt, plaitSum, parts[rank], NULL));
  }
  OK(plaitGroupEnd());
  for (int rank = 0; rank < kRanks; ++rank) CHECK(sums[rank] == (rank < 3 ? 0 + 1 + 2 : 3 + 4 + 5));
  end(parts);
  end(comms);
}

static void test_arguments(void) {
  plaitComm_t comms[kRanks];
  const char* json = NULL;
  int groups[kRanks];
  make(comms, "");
  FAILS(plaitCommTopology(comms[0], NULL), plaitInvalidArgument, "plaitCommTopology: json is NULL");
  FAILS(plaitCommGroups(comms[0], NULL), plaitInvalidArgument, "plaitCommGroups: groups is NULL");
  FAILS(plaitCommTopology(NULL, &json), plaitInvalidArgument, "plaitCommTopology: comm is NULL");
  FAILS(plaitCommGroups(NULL, groups), plaitInvalidArgument, "plaitCommGroups: comm is NULL");
  end(comms);
  FAILS(plaitCommTopology(comms[0], &json), plaitInvalidArgument, "was destroyed or aborted");
  FAILS(plaitCommGroups(comms[0], groups), plaitInvalidArgument, "was destroyed or aborted");
}

int main(void) {
  begin_test();
  test_this_machine();
  test_described_machine();
  test_several_nodes();
  test_division();
  test_arguments();
  return end_test("c_api/machine");
}

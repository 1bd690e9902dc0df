// Sends and receives on host memory, all ranks in one thread: alone, in groups, beside collectives, and those that are
// refused.
#define _DEFAULT_SOURCE
#include <string.h>

#include "testing.h"

enum { kRanks = 4, kCount = 3000 };

static plaitComm_t comms[kRanks];

static int value(int from, int to, int i) { return from * 1000000 + to * 10000 + i; }

static void make_comms(void) {
  const int host[kRanks] = {-1, -1, -1, -1};
  OK(plaitCommInitAll(comms, kRanks, host));
}

static void destroy_comms(void) {
  for (int rank = 0; rank < kRanks; ++rank) OK(plaitCommDestroy(comms[rank]));
}

// Every rank sends a block to every rank, itself too; a collective is noted in between.
static void test_all_to_all(void) {
  static int sent[kRanks][kRanks][kCount], received[kRanks][kRanks][kCount];
  int sums[kRanks];
  make_comms();
  for (int round = 0; round < 3; ++round) {
    for (int rank = 0; rank < kRanks; ++rank) {
      sums[rank] = rank;
      for (int peer = 0; peer < kRanks; ++peer) {
        for (int i = 0; i < kCount; ++i) {
          sent[rank][peer][i] = value(rank, peer, i + round);
          received[rank][peer][i] = -1;
        }
      }
    }
    OK(plaitGroupStart());
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int peer = 0; peer < kRanks; ++peer) {
        OK(plaitSend(sent[rank][peer], kCount, plaitInt32, peer, comms[rank], NULL));
        if (peer == 1) OK(plaitAllReduce(&sums[rank], &sums[rank], 1, plaitInt32, plaitSum, comms[rank], NULL));
        OK(plaitRecv(received[rank][peer], kCount, plaitInt32, peer, comms[rank], NULL));
      }
    }
    OK(plaitGroupEnd());
    int wrong = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      wrong += sums[rank] != 6;
      for (int peer = 0; peer < kRanks; ++peer) {
        for (int i = 0; i < kCount; ++i) wrong += received[rank][peer][i] != value(peer, rank, i + round);
      }
    }
    CHECK(wrong == 0);
  }
  destroy_comms();
}

// A small send does not wait for its receive; messages keep their order; the type may differ where the bytes agree.
static void test_alone(void) {
  make_comms();
  for (int i = 0; i < 3; ++i) OK(plaitSend(&i, 1, plaitInt32, 2, comms[0], NULL));
  OK(plaitSend(NULL, 0, plaitFloat64, 2, comms[0], NULL));
  unsigned char bytes[4] = {9, 9, 9, 9};
  for (int i = 0; i < 3; ++i) {
    OK(plaitRecv(bytes, 4, plaitUint8, 0, comms[2], NULL));
    CHECK(memcmp(bytes, &i, 4) == 0);
  }
  OK(plaitRecv(NULL, 0, plaitInt8, 0, comms[2], NULL));
  destroy_comms();
}

// Nothing of a group with a message that cannot be is done, and its communicators go on.
static void test_refused(void) {
  make_comms();
  int one = 1, two[2] = {0, 0}, sum = 5;
  FAILS(plaitSend(&one, 1, plaitInt32, kRanks, comms[0], NULL), plaitInvalidArgument, "peer is 4; expected 0 to 3");
  FAILS(plaitRecv(&one, 1, plaitInt32, -1, comms[0], NULL), plaitInvalidArgument, "peer is -1");
  FAILS(plaitSend(NULL, 1, plaitInt32, 1, comms[0], NULL), plaitInvalidArgument, "sendbuff is NULL");
  FAILS(plaitRecv(NULL, 1, plaitInt32, 1, comms[0], NULL), plaitInvalidArgument, "recvbuff is NULL");
  FAILS(plaitSend(&one, 1, (plaitDataType_t)77, 1, comms[0], NULL), plaitInvalidArgument, "datatype is 77");
  FAILS(plaitSend(&one, 1, plaitInt32, 1, NULL, NULL), plaitInvalidArgument, "comm");
  FAILS(plaitSend(&one, 1, plaitInt32, 0, comms[0], NULL), plaitInvalidArgument, "other end");
  OK(plaitGroupStart());
  OK(plaitAllReduce(&sum, &sum, 1, plaitInt32, plaitSum, comms[0], NULL));
  OK(plaitSend(&one, 1, plaitInt32, 0, comms[0], NULL));
  OK(plaitRecv(two, 2, plaitInt32, 0, comms[0], NULL));
  FAILS(plaitGroupEnd(), plaitInvalidArgument, "another size");
  CHECK(sum == 5 && two[0] == 0);
  plaitResult_t state = plaitInternalError;
  OK(plaitCommGetAsyncError(comms[0], &state));
  CHECK(state == plaitSuccess);
  OK(plaitGroupStart());
  OK(plaitSend(&one, 1, plaitInt32, 1, comms[0], NULL));
  OK(plaitRecv(two, 1, plaitInt32, 0, comms[1], NULL));
  OK(plaitGroupEnd());
  CHECK(two[0] == 1);
  destroy_comms();
}

// Ends that differ in size end the communicator on both sides, in words.
static void test_mismatch(void) {
  make_comms();
  int data[3] = {1, 2, 3};
  OK(plaitGroupStart());
  OK(plaitSend(data, 3, plaitInt32, 3, comms[1], NULL));
  OK(plaitRecv(data, 2, plaitInt32, 1, comms[3], NULL));
  FAILS(plaitGroupEnd(), plaitInvalidUsage, "rank 1 sent 12 bytes");
  FAILS(plaitSend(data, 1, plaitInt32, 0, comms[2], NULL), plaitInvalidUsage, "12 bytes");
  destroy_comms();
}

int main(void) {
  begin_test();
  test_all_to_all();
  test_alone();
  test_refused();
  test_mismatch();
  return end_test("messages_test");
}

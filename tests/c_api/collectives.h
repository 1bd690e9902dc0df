// Every collective once, on host memory, with a result that is known.
#ifndef PLAIT_TESTS_COLLECTIVES_H
#define PLAIT_TESTS_COLLECTIVES_H

#include "testing.h"

enum { kCount = 1000, kMostRanks = 8 };

// The buffers of one rank.
typedef struct {
  int send[kCount * kMostRanks];
  int receive[kCount * kMostRanks];
} Buffers;

enum {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kBcast,
  kReduce,
  kGather,
  kScatter,
  kAlltoAll,
  kAlltoAllInPlace,
  kBarrier,
  kKinds
};

static int value_of(int rank, int i) { return (rank + 1) * 1000 + i % 97; }

// The sum over all ranks of value_of.
static int sum_of(int ranks, int i) { return ranks * (ranks + 1) / 2 * 1000 + ranks * (i % 97); }

static void fill(Buffers* buffers, int kind, int rank, int ranks) {
  for (int i = 0; i < kCount * ranks; ++i) {
    buffers->send[i] = value_of(rank, i);
    buffers->receive[i] = kind == kBcast || kind == kAlltoAllInPlace ? value_of(rank, i) : -1;
  }
}

// The buffer of gather and scatter that only the root needs is NULL on the other ranks.
static plaitResult_t call(Buffers* buffers, int kind, int ranks, plaitComm_t comm) {
  const int* send = buffers->send;
  int* receive = buffers->receive;
  const int root = ranks - 1;
  int rank = -1;
  if (plaitCommUserRank(comm, &rank) != plaitSuccess) return plaitInternalError;
  switch (kind) {
    case kAllReduce:
      return plaitAllReduce(send, receive, kCount, plaitInt32, plaitSum, comm, NULL);
    case kReduceScatter:
      return plaitReduceScatter(send, receive, kCount, plaitInt, plaitSum, comm, NULL);
    case kAllGather:
      return plaitAllGather(send, receive, kCount, plaitInt, comm, NULL);
    case kBroadcast:
      return plaitBroadcast(send, receive, kCount, plaitInt, root, comm, NULL);
    case kBcast:
      return plaitBcast(receive, kCount, plaitInt, root, comm, NULL);
    case kReduce:
      return plaitReduce(send, receive, kCount, plaitInt, plaitSum, root, comm, NULL);
    case kGather:
      return plaitGather(send, rank == root ? receive : NULL, kCount, plaitInt, root, comm, NULL);
    case kScatter:
      return plaitScatter(rank == root ? send : NULL, receive, kCount, plaitInt, root, comm, NULL);
    case kAlltoAll:
      return plaitAlltoAll(send, receive, kCount, plaitInt, comm, NULL);
    case kAlltoAllInPlace:
      return plaitAlltoAll(receive, receive, kCount, plaitInt, comm, NULL);
    default:
      return plaitBarrier(comm, NULL);
  }
}

// How many elements of the result are wrong.
static int wrong(const Buffers* buffers, int kind, int rank, int ranks) {
  const int root = ranks - 1;
  const int all_to_all = kind == kAlltoAll || kind == kAlltoAllInPlace;
  const int several = kind == kAllGather || kind == kGather || all_to_all;
  const int elements = several ? kCount * ranks : kind == kBarrier ? 0 : kCount;
  int count = 0;
  for (int i = 0; i < elements; ++i) {
    int expected = sum_of(ranks, i);
    if (kind == kReduceScatter) expected = sum_of(ranks, rank * kCount + i);
    if (kind == kAllGather || kind == kGather) expected = value_of(i / kCount, i % kCount);
    if (all_to_all) expected = value_of(i / kCount, rank * kCount + i % kCount);
    if (kind == kScatter) expected = value_of(root, rank * kCount + i);
    if (kind == kBroadcast || kind == kBcast) expected = value_of(root, i);
    if ((kind == kReduce || kind == kGather) && rank != root) expected = -1;
    count += buffers->receive[i] != expected;
  }
  return count;
}

#endif  // PLAIT_TESTS_COLLECTIVES_H

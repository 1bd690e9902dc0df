// Collectives with a count for each rank, between processes: random counts, displacements and gaps against what every
// rank computes by itself, and what C programs are told when they disagree.
#define _DEFAULT_SOURCE
#include "processes.h"

enum { kMostRanks = 16, kMostCount = 4000, kMostGap = 3, kRoom = kMostRanks * (kMostCount + kMostGap), kNothing = -7 };

// All ranks draw the same numbers.
static unsigned long long state;
static size_t draw(size_t below) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (size_t)(state >> 33) % below;
}

// The blocks of one buffer: a number for each rank, in a random order with gaps.
typedef struct {
  size_t counts[kMostRanks], displacements[kMostRanks];
} Blocks;

static void lay_out(Blocks* blocks, int ranks) {
  size_t next = 0;
  const int first = (int)draw((size_t)ranks);
  for (int i = 0; i < ranks; ++i) {
    const int block = (first + i) % ranks;
    next += draw(kMostGap + 1);
    blocks->displacements[block] = next;
    next += blocks->counts[block];
  }
}

static size_t draw_count(void) {
  const size_t kind = draw(4);
  return kind == 0 ? 0 : draw(kind == 1 ? 4 : kind == 2 ? 100 : kMostCount);
}

// Element i of what rank `from` gives to rank `to`.
static int value_of(int from, int to, size_t i) { return from * 1000003 + to * 10007 + (int)i; }

static int given[kRoom], got[kRoom];

static void fill(const Blocks* blocks, int ranks, int from) {
  for (size_t i = 0; i < kRoom; ++i) given[i] = got[i] = kNothing;
  for (int to = 0; to < ranks; ++to) {
    for (size_t i = 0; i < blocks->counts[to]; ++i) given[blocks->displacements[to] + i] = value_of(from, to, i);
  }
}

// Whether `got` has block r from rank r to this rank or, if `alike`, to itself, and nothing else.
static int is_right(const Blocks* blocks, int ranks, int rank, int alike) {
  static int right[kRoom];
  for (size_t i = 0; i < kRoom; ++i) right[i] = kNothing;
  for (int from = 0; from < ranks; ++from) {
    for (size_t i = 0; i < blocks->counts[from]; ++i) {
      right[blocks->displacements[from] + i] = value_of(from, alike ? from : rank, i);
    }
  }
  return memcmp(right, got, sizeof got) == 0;
}

static void all_to_all(plaitComm_t comm, int rank, int ranks) {
  static size_t counts[kMostRanks][kMostRanks];
  static Blocks sends[kMostRanks], receives[kMostRanks];
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      sends[from].counts[to] = receives[to].counts[from] = counts[from][to] = draw_count();
    }
  }
  for (int r = 0; r < ranks; ++r) {
    lay_out(&sends[r], ranks);
    lay_out(&receives[r], ranks);
  }
  const Blocks *mine = &sends[rank], *theirs = &receives[rank];
  fill(mine, ranks, rank);
  OK(plaitAlltoAllv(given, mine->counts, mine->displacements, got, theirs->counts, theirs->displacements, plaitInt,
                    comm, NULL));
  CHECK(is_right(theirs, ranks, rank, 0));
}

static void gathers_and_scatters(plaitComm_t comm, int rank, int ranks) {
  static Blocks blocks;
  for (int r = 0; r < ranks; ++r) blocks.counts[r] = draw_count();
  lay_out(&blocks, ranks);
  const size_t *counts = blocks.counts, *displacements = blocks.displacements, own = counts[rank];
  const int root = (int)draw((size_t)ranks), in_place = (int)draw(2);
  int* const own_of_got = got + displacements[rank];

  // What a rank gives to itself stands for what it gives to all.
  static int block[kMostCount];
  for (size_t i = 0; i < own; ++i) block[i] = value_of(rank, rank, i);
  fill(&blocks, ranks, rank);
  memcpy(in_place ? own_of_got : block, block, own * sizeof *block);
  OK(plaitAllGatherv(in_place ? own_of_got : block, got, counts, displacements, plaitInt, comm, NULL));
  CHECK(is_right(&blocks, ranks, rank, 1));

  const int here = rank == root;
  fill(&blocks, ranks, rank);
  if (here && in_place) memcpy(own_of_got, block, own * sizeof *block);
  OK(plaitGatherv(here && in_place ? own_of_got : block, own, here ? got : NULL, here ? counts : NULL,
                  here ? displacements : NULL, plaitInt, root, comm, NULL));
  if (here) CHECK(is_right(&blocks, ranks, rank, 1));

  fill(&blocks, ranks, rank);
  OK(plaitScatterv(here ? given : NULL, here ? counts : NULL, here ? displacements : NULL, got, own, plaitInt, root,
                   comm, NULL));
  int wrong = 0;
  for (size_t i = 0; i < own; ++i) wrong += got[i] != value_of(root, rank, i);
  CHECK(wrong == 0 && got[own] == kNothing);

  fill(&blocks, ranks, rank);
  int* const result = in_place ? given + displacements[rank] : got;
  OK(plaitReduceScatterv(given, result, counts, displacements, plaitInt, plaitMax, comm, NULL));
  for (size_t i = 0; i < own; ++i) wrong += result[i] != value_of(ranks - 1, rank, i);
  CHECK(wrong == 0);
}

static void without_displacements(plaitComm_t comm, int rank, int ranks) {
  size_t counts[kMostRanks], before = 0;
  for (int r = 0; r < ranks; ++r) {
    counts[r] = (size_t)(r + 1) * 2;
    before += r < rank ? counts[r] : 0;
  }
  for (size_t i = 0; i < counts[rank]; ++i) given[i] = value_of(rank, 0, i);
  OK(plaitAllGatherv(given, got, counts, NULL, plaitInt, comm, NULL));
  CHECK(got[before] == value_of(rank, 0, 0) && got[0] == value_of(0, 0, 0));
}

static void refusals(plaitComm_t comm, int ranks) {
  size_t counts[kMostRanks] = {2, 2}, places[kMostRanks] = {0, 1}, none[kMostRanks] = {0};
  FAILS(plaitAllGatherv(given, got, NULL, NULL, plaitInt, comm, NULL), plaitInvalidArgument,
        "plaitAllGatherv: recvcounts is NULL");
  FAILS(plaitAlltoAllv(given, NULL, NULL, got, none, NULL, plaitInt, comm, NULL), plaitInvalidArgument,
        "plaitAlltoAllv: sendcounts is NULL");
  FAILS(plaitScatterv(given, none, NULL, got, 0, plaitInt, 99, comm, NULL), plaitInvalidArgument, "root is 99");
  FAILS(plaitAlltoAllv(given, none, NULL, got, none, NULL, (plaitDataType_t)77, comm, NULL), plaitInvalidArgument,
        "datatype is 77");
  counts[0] = (size_t)1 << 62;
  FAILS(plaitAllGatherv(given, got, counts, NULL, plaitInt, comm, NULL), plaitInvalidArgument,
        "ends behind any memory");
  counts[0] = 2;
  FAILS(plaitAllGatherv(NULL, NULL, counts, NULL, plaitInt, comm, NULL), plaitInvalidArgument, "is null");
  if (ranks > 1) {
    FAILS(plaitAllGatherv(given, got, counts, places, plaitInt, comm, NULL), plaitInvalidArgument,
          "blocks 0 and 1 of the output overlap");
  }
  OK(plaitAlltoAllv(NULL, none, NULL, NULL, none, NULL, plaitInt, comm, NULL));
  OK(plaitAllGatherv(NULL, NULL, none, NULL, plaitInt, comm, NULL));
  OK(plaitGatherv(NULL, 0, NULL, none, NULL, plaitInt, 0, comm, NULL));
}

static void everything(int rank, int ranks, plaitUniqueId id) {
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.device = PLAIT_DEVICE_HOST;
  config.scratchBytes = ranks % 2 == 0 ? 64 << 10 : 0;
  plaitComm_t comm = NULL;
  OK(plaitCommInitRankConfig(&comm, ranks, id, rank, &config));
  refusals(comm, ranks);
  state = 4711 + (unsigned)ranks;
  for (int round = 0; round < 12; ++round) {
    all_to_all(comm, rank, ranks);
    gathers_and_scatters(comm, rank, ranks);
  }
  without_displacements(comm, rank, ranks);
  OK(plaitCommDestroy(comm));
}

// Rank 0 expects more of rank 1 than that gives.
static void disagreement(int rank, int ranks, plaitUniqueId id) {
  plaitComm_t comm = NULL;
  OK(plaitCommInitRank(&comm, ranks, id, rank));
  const size_t sends[2] = {3, 3}, receives[2] = {3, rank == 0 ? 4 : 3};
  plaitResult_t result = plaitAlltoAllv(given, sends, NULL, got, receives, NULL, plaitInt, comm, NULL);
  if (result == plaitSuccess) result = plaitBarrier(comm, NULL);
  FAILS(result, plaitInvalidUsage, "rank 1 gives 3 elements to rank 0, which expects 4");
  OK(plaitCommDestroy(comm));
}

// One thread that drives all ranks, in groups.
static void in_a_group(void) {
  enum { kRanks = 3 };
  const int host[kRanks] = {PLAIT_DEVICE_HOST, PLAIT_DEVICE_HOST, PLAIT_DEVICE_HOST};
  plaitComm_t comms[kRanks];
  OK(plaitCommInitAll(comms, kRanks, host));
  size_t counts[kRanks] = {1, 2, 0};
  const int inputs[kRanks][2] = {{5, 0}, {6, 7}, {0, 0}};
  int outputs[kRanks][3] = {{0}};
  OK(plaitGroupStart());
  for (int r = 0; r < kRanks; ++r) OK(plaitAllGatherv(inputs[r], outputs[r], counts, NULL, plaitInt, comms[r], NULL));
  counts[0] = counts[1] = 9;  // they have been read
  OK(plaitGroupEnd());
  for (int r = 0; r < kRanks; ++r) CHECK(outputs[r][0] == 5 && outputs[r][1] == 6 && outputs[r][2] == 7);
  for (int r = 0; r < kRanks; ++r) OK(plaitCommDestroy(comms[r]));
}

int main(void) {
  begin_test();
  const int worlds[] = {1, 2, 3, 4, 7, 16};
  for (size_t i = 0; i < sizeof worlds / sizeof *worlds; ++i) run_processes(worlds[i], everything);
  run_processes(2, disagreement);
  in_a_group();
  return end_test("by_counts");
}

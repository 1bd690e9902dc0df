// A program in NCCL's names alone, compiled with plait/nccl/nccl.h for libplait. Its ranks are processes on host
// memory.
#define _DEFAULT_SOURCE
#include <nccl.h>
#include <stdint.h>

#include "processes.h"

enum { kRanks = 3, kCount = 1000 };

typedef struct {
  int rank, ranks;
  ncclComm_t comm;
} Rank;

static int number(int rank, int i) { return (rank * 7 + i) % 11 + 1; }

static int sum(int ranks, int i) {
  int all = 0;
  for (int rank = 0; rank < ranks; ++rank) all += number(rank, i);
  return all;
}

static void fill(int* data, int count, int rank) {
  for (int i = 0; i < count; ++i) data[i] = number(rank, i);
}

// NCCL's numbers, which programs write to files and send to each other.
static void check_numbers(void) {
  const ncclDataType_t types[] = {ncclInt8,       ncclUint8,      ncclInt32,   ncclUint32,  ncclInt64,
                                  ncclUint64,     ncclFloat16,    ncclFloat32, ncclFloat64, ncclBfloat16,
                                  ncclFloat8e4m3, ncclFloat8e5m2, ncclNumTypes};
  for (int i = 0; i <= 12; ++i) CHECK((int)types[i] == i);
  CHECK(ncclChar == ncclInt8 && ncclInt == ncclInt32 && ncclHalf == ncclFloat16);
  CHECK(ncclFloat == ncclFloat32 && ncclDouble == ncclFloat64);
  const ncclRedOp_t ops[] = {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg, ncclNumOps};
  for (int i = 0; i <= 5; ++i) CHECK((int)ops[i] == i);
  const ncclResult_t results[] = {ncclSuccess,         ncclUnhandledCudaError, ncclSystemError, ncclInternalError,
                                  ncclInvalidArgument, ncclInvalidUsage,       ncclRemoteError, ncclInProgress,
                                  ncclTimeout,         ncclNumResults};
  for (int i = 0; i <= 9; ++i) CHECK((int)results[i] == i);
  CHECK(ncclScalarDevice == 0 && ncclScalarHostImmediate == 1 && NCCL_SPLIT_NOCOLOR == -1);
  CHECK(sizeof(ncclUniqueId) == NCCL_UNIQUE_ID_BYTES && NCCL_UNIQUE_ID_BYTES == 128);
}

static void check_version(void) {
  int version = 0;
  OK(ncclGetVersion(&version));
  CHECK(version == NCCL_VERSION_CODE && version == 22600 && NCCL_VERSION(2, 8, 3) == 2803);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0) || NCCL_MAJOR != 2 || NCCL_MINOR != 26
#error "the version that programs see is not 2.26"
#endif
  FAILS(ncclGetVersion(NULL), ncclInvalidArgument, "version is NULL");
}

static void check_reductions(Rank it) {
  static int send[kCount * kRanks], receive[kCount * kRanks];
  const int root = it.ranks - 1;
  int wrong = 0;
  fill(send, kCount * it.ranks, it.rank);
  OK(ncclAllReduce(send, receive, kCount, ncclInt32, ncclSum, it.comm, NULL));
  for (int i = 0; i < kCount; ++i) wrong += receive[i] != sum(it.ranks, i);
  OK(ncclReduceScatter(send, receive, kCount, ncclInt, ncclSum, it.comm, NULL));
  for (int i = 0; i < kCount; ++i) wrong += receive[i] != sum(it.ranks, it.rank * kCount + i);
  receive[0] = -1;
  OK(ncclReduce(send, it.rank == root ? receive : NULL, kCount, ncclInt, ncclSum, root, it.comm, NULL));
  for (int i = 0; i < kCount && it.rank == root; ++i) wrong += receive[i] != sum(it.ranks, i);
  CHECK(wrong == 0);

  // Three ranks have 2, 3 and 4.
  const float mine = (float)it.rank + 2;
  const float expected[] = {9, 24, 4, 2, 3};
  for (int op = ncclSum; op < ncclNumOps; ++op) {
    float result = 0;
    OK(ncclAllReduce(&mine, &result, 1, ncclFloat32, (ncclRedOp_t)op, it.comm, NULL));
    CHECK(result == expected[op]);
  }
  double factor = 10, product = 0;
  const double one = 1;
  ncclRedOp_t scaled;
  OK(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat64, ncclScalarHostImmediate, it.comm));
  CHECK(scaled > ncclNumOps && scaled <= ncclMaxRedOp);
  OK(ncclAllReduce(&one, &product, 1, ncclFloat64, scaled, it.comm, NULL));
  CHECK(product == 10 * it.ranks);
  OK(ncclRedOpDestroy(scaled, it.comm));
}

static void check_types(Rank it) {
  const struct {
    ncclDataType_t type;
    size_t bytes;
  } types[] = {{ncclInt8, 1},    {ncclUint8, 1},    {ncclInt32, 4},      {ncclUint32, 4},
               {ncclInt64, 8},   {ncclUint64, 8},   {ncclFloat16, 2},    {ncclFloat32, 4},
               {ncclFloat64, 8}, {ncclBfloat16, 2}, {ncclFloat8e4m3, 1}, {ncclFloat8e5m2, 1}};
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); ++i) {
    unsigned char all[kRanks * 8 + 1], mine[8];
    memset(all, 0x55, sizeof(all));
    memset(mine, it.rank + 1, sizeof(mine));
    OK(ncclAllGather(mine, all, 1, types[i].type, it.comm, NULL));
    int wrong = 0;
    for (size_t byte = 0; byte < it.ranks * types[i].bytes; ++byte) wrong += all[byte] != byte / types[i].bytes + 1;
    CHECK(wrong == 0 && all[it.ranks * types[i].bytes] == 0x55);
  }
}

static void check_copies(Rank it) {
  static int send[kCount * kRanks], receive[kCount * kRanks];
  int* const mine = receive + it.rank * kCount;
  int wrong = 0;
  fill(send, kCount * it.ranks, it.rank);
  OK(ncclAllGather(send, receive, kCount, ncclInt32, it.comm, NULL));
  for (int i = 0; i < kCount * it.ranks; ++i) wrong += receive[i] != number(i / kCount, i % kCount);
  OK(ncclBroadcast(send, receive, kCount, ncclInt32, 1, it.comm, NULL));
  for (int i = 0; i < kCount; ++i) wrong += receive[i] != number(1, i);
  fill(receive, kCount, it.rank);
  OK(ncclBcast(receive, kCount, ncclInt32, 2, it.comm, NULL));
  for (int i = 0; i < kCount; ++i) wrong += receive[i] != number(2, i);
  OK(ncclAlltoAll(send, receive, kCount, ncclInt32, it.comm, NULL));
  for (int i = 0; i < kCount * it.ranks; ++i) wrong += receive[i] != number(i / kCount, it.rank * kCount + i % kCount);
  OK(ncclGather(send, receive, kCount, ncclInt32, 0, it.comm, NULL));
  for (int i = 0; i < kCount * it.ranks && it.rank == 0; ++i) wrong += receive[i] != number(i / kCount, i % kCount);
  OK(ncclScatter(send, mine, kCount, ncclInt32, 2, it.comm, NULL));
  for (int i = 0; i < kCount; ++i) wrong += mine[i] != number(2, it.rank * kCount + i);
  CHECK(wrong == 0);
}

// Around a ring, in memory of ncclMemAlloc that is registered.
static void check_messages(Rank it) {
  void *send = NULL, *receive = NULL, *handle = NULL;
  const int before = (it.rank + it.ranks - 1) % it.ranks;
  int wrong = 0;
  OK(ncclMemAlloc(&send, kCount * sizeof(int)));
  OK(ncclMemAlloc(&receive, kCount * sizeof(int)));
  OK(ncclCommRegister(it.comm, send, kCount * sizeof(int), &handle));
  fill((int*)send, kCount, it.rank);
  OK(ncclGroupStart());
  OK(ncclSend(send, kCount, ncclInt32, (it.rank + 1) % it.ranks, it.comm, NULL));
  OK(ncclRecv(receive, kCount, ncclInt32, before, it.comm, NULL));
  OK(ncclGroupEnd());
  for (int i = 0; i < kCount; ++i) wrong += ((const int*)receive)[i] != number(before, i);
  CHECK(wrong == 0);
  OK(ncclCommDeregister(it.comm, handle));
  OK(ncclMemFree(send));
  OK(ncclMemFree(receive));
}

static void check_split(Rank it) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t part = NCCL_COMM_NULL;
  config.blocking = 1;
  OK(ncclCommSplit(it.comm, it.rank == 0 ? NCCL_SPLIT_NOCOLOR : 0, -it.rank, &part, &config));
  CHECK((part == NCCL_COMM_NULL) == (it.rank == 0));
  if (part != NCCL_COMM_NULL) {
    int rank = -1, ranks = -1, device = 0;
    OK(ncclCommUserRank(part, &rank));
    OK(ncclCommCount(part, &ranks));
    OK(ncclCommCuDevice(part, &device));
    CHECK(rank == it.ranks - 1 - it.rank && ranks == it.ranks - 1 && device == -1);
    OK(ncclCommFinalize(part));
    FAILS(ncclAllReduce(&rank, &rank, 1, ncclInt, ncclSum, part, NULL), ncclInvalidUsage, "finalized");
    OK(ncclCommDestroy(part));
  }
  OK(ncclCommSplit(it.comm, 0, 0, &part, NULL));
  OK(ncclCommDestroy(part));
}

static void program(int rank, int ranks, ncclUniqueId id) {
  Rank it = {rank, ranks, NCCL_COMM_NULL};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.maxCTAs = 16;
  OK(ncclCommInitRankConfig(&it.comm, ranks, id, rank, &config));
  check_reductions(it);
  check_types(it);
  check_copies(it);
  check_messages(it);
  check_split(it);
  ncclResult_t state = ncclInternalError;
  OK(ncclCommGetAsyncError(it.comm, &state));
  CHECK(state == ncclSuccess);
  CHECK(strcmp(ncclGetErrorString(state), ncclGetErrorString(ncclInvalidUsage)) != 0);
  OK(ncclCommDestroy(it.comm));
}

// Ranks that one thread has, and an end by force.
static void check_one_process(void) {
  ncclComm_t comms[kRanks];
  const int devices[kRanks] = {0, 1, 2};  // PLAIT_NCCL_DEVICE puts them on host memory all the same
  int numbers[kRanks] = {1, 10, 100};
  OK(ncclCommInitAll(comms, kRanks, devices));
  for (int rank = 0; rank < kRanks; ++rank) OK(ncclCommDestroy(comms[rank]));
  OK(ncclCommInitAll(comms, kRanks, NULL));
  OK(ncclGroupStart());
  for (int i = 0; i < kRanks; ++i) OK(ncclAllReduce(&numbers[i], &numbers[i], 1, ncclInt32, ncclSum, comms[i], NULL));
  OK(ncclGroupEnd());
  CHECK(numbers[0] == 111 && numbers[2] == 111);
  OK(ncclCommAbort(comms[0]));
  FAILS(ncclAllReduce(&numbers[1], &numbers[1], 1, ncclInt32, ncclSum, comms[1], NULL), ncclRemoteError, "abort");
  CHECK(strstr(ncclGetLastError(comms[1]), "abort") != NULL);
  for (int rank = 1; rank < kRanks; ++rank) OK(ncclCommAbort(comms[rank]));
  FAILS(ncclCommInitAll(comms, 0, NULL), ncclInvalidArgument, "ndev");
}

static void try_config(const ncclConfig_t* config, const char* words) {
  ncclUniqueId id;
  ncclComm_t comm = NCCL_COMM_NULL;
  ncclConfig_t changed = *config;
  OK(ncclGetUniqueId(&id));
  FAILS(ncclCommInitRankConfig(&comm, 1, id, 0, &changed), ncclInvalidArgument, words);
  CHECK(comm == NCCL_COMM_NULL);
}

static void check_configs(void) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  try_config(&config, "blocking is 0");
  config.blocking = 1;
  config.maxCTAs = 4;
  try_config(&config, "maxSms is 4; expected 8");
  config.maxCTAs = 0;
  try_config(&config, "maxSms is -1");
  memset(&config, 0, sizeof(config));
  try_config(&config, "INITIALIZER");
}

int main(void) {
  begin_test();
  check_numbers();
  check_version();
  run_processes(kRanks, program);
  check_one_process();
  check_configs();
  return end_test("nccl_names_test");
}

// Bad arguments of every function: refused with words that name function and argument, and without harm.
#define _DEFAULT_SOURCE
#include <string.h>

#include "testing.h"

static plaitUniqueId new_id(void) {
  plaitUniqueId id;
  OK(plaitGetUniqueId(&id));
  return id;
}

static void test_results_and_version(void) {
  int version = 0;
  OK(plaitGetVersion(&version));
  CHECK(version == PLAIT_VERSION_CODE && version == PLAIT_VERSION(PLAIT_MAJOR, PLAIT_MINOR, PLAIT_PATCH));
  FAILS(plaitGetVersion(NULL), plaitInvalidArgument, "plaitGetVersion: version is NULL");
  for (int result = 0; result <= plaitNumResults; ++result) {
    const char* text = plaitGetErrorString((plaitResult_t)result);
    CHECK(text != NULL && strlen(text) > 5);
    CHECK((strcmp(text, "unknown result") == 0) == (result == plaitNumResults));
  }
  // The numbers that programs written for NCCL have compiled in.
  CHECK(plaitInvalidArgument == 4 && plaitRemoteError == 6 && plaitInProgress == 7);
  CHECK(plaitFloat16 == 6 && plaitFloat32 == 7 && plaitFloat64 == 8 && plaitBfloat16 == 9 && plaitFloat8e5m2 == 11);
  CHECK(plaitProd == 1 && plaitAvg == 4 && sizeof(plaitUniqueId) == 128);
  CHECK(plaitMaxRedOp == 0x7fffffff && plaitScalarDevice == 0 && plaitScalarHostImmediate == 1);
}

static void test_init(void) {
  plaitComm_t comm = (plaitComm_t)&comm;
  plaitUniqueId id = new_id();
  FAILS(plaitGetUniqueId(NULL), plaitInvalidArgument, "plaitGetUniqueId: uniqueId is NULL");
  FAILS(plaitCommInitRank(NULL, 1, id, 0), plaitInvalidArgument, "plaitCommInitRank: comm is NULL");
  FAILS(plaitCommInitRank(&comm, 0, id, 0), plaitInvalidArgument, "nranks is 0");
  CHECK(comm == NULL);
  FAILS(plaitCommInitRank(&comm, 2, id, 2), plaitInvalidArgument, "rank is 2; expected 0 to 1");
  FAILS(plaitCommInitRank(&comm, 2, id, -1), plaitInvalidArgument, "rank is -1");
  plaitUniqueId zeros;
  memset(&zeros, 0, sizeof(zeros));
  FAILS(plaitCommInitRank(&comm, 1, zeros, 0), plaitInvalidArgument, "are not a Plait id");
  OK(plaitCommInitRank(&comm, 1, id, 0));
  plaitComm_t again = comm;
  FAILS(plaitCommInitRank(&again, 1, id, 0), plaitInvalidArgument, "already used");
  CHECK(again == NULL);
  OK(plaitCommDestroy(comm));

  plaitComm_t comms[2];
  const int devices[2] = {0, 5};
  const int mixed[2] = {PLAIT_DEVICE_HOST, 0};
  FAILS(plaitCommInitAll(NULL, 2, NULL), plaitInvalidArgument, "plaitCommInitAll: comms is NULL");
  FAILS(plaitCommInitAll(comms, 0, NULL), plaitInvalidArgument, "ndev is 0");
  FAILS(plaitCommInitAll(comms, 2, devices), plaitInvalidArgument, "devlist[0] is 0");
  FAILS(plaitCommInitAll(comms, 2, mixed), plaitInvalidArgument, "devlist[0] is -1");
  CHECK(comms[0] == NULL && comms[1] == NULL);

  setenv("PLAIT_WAIT", "patiently", 1);
  FAILS(plaitCommInitRank(&comm, 1, new_id(), 0), plaitInvalidUsage, "PLAIT_WAIT");
  unsetenv("PLAIT_WAIT");
}

static void try_config(const plaitConfig_t* config, const char* words) {
  plaitComm_t comm = NULL;
  FAILS(plaitCommInitRankConfig(&comm, 1, new_id(), 0, config), plaitInvalidArgument, words);
  CHECK(comm == NULL);
}

static void test_config(void) {
  const plaitConfig_t fresh = PLAIT_CONFIG_INITIALIZER;
  plaitComm_t comm = NULL;
  OK(plaitCommInitRankConfig(&comm, 1, new_id(), 0, NULL));
  OK(plaitCommDestroy(comm));
  OK(plaitCommInitRankConfig(&comm, 1, new_id(), 0, &fresh));
  OK(plaitCommDestroy(comm));

  plaitConfig_t config = fresh;
  config.magic = 0;
  try_config(&config, "PLAIT_CONFIG_INITIALIZER");
  config = fresh;
  config.size = 16;
  try_config(&config, "PLAIT_CONFIG_INITIALIZER");
  config = fresh;
  config.reserved = 1;
  try_config(&config, "config->reserved is 1");
  config = fresh;
  config.device = 3;
  try_config(&config, "config->device is 3; this process can use 0 CUDA devices");
  config.device = -7;
  try_config(&config, "config->device is -7");
  config.device = PLAIT_DEVICE_CUDA;  // never host memory instead
  try_config(&config, "config->device is PLAIT_DEVICE_CUDA, but no CUDA device can be used here: ");
  CHECK(PLAIT_DEVICE_HOST == -1 && PLAIT_DEVICE_CURRENT == -2 && PLAIT_DEVICE_CUDA == -3);
  config = fresh;
  config.timeoutSeconds = -1;
  try_config(&config, "plaitCommInitRankConfig: config->timeoutSeconds is -1");
  config.timeoutSeconds = 604801;
  try_config(&config, "config->timeoutSeconds is 604801; expected more than 0 and at most 604800 s");
  config.timeoutSeconds = 604800;
  OK(plaitCommInitRankConfig(&comm, 1, new_id(), 0, &config));
  OK(plaitCommDestroy(comm));
  config = fresh;
  config.bootstrapTimeoutSeconds = 1e9;
  try_config(&config, "config->bootstrapTimeoutSeconds is 1e+09");
  config = fresh;
  config.scratchBytes = 1000;
  try_config(&config, "config->scratchBytes is 1000");
  config = fresh;
  config.maxSms = 4;
  try_config(&config, "config->maxSms is 4; expected 8 to 1024");
  config = fresh;
  config.algorithm = "all_reduce:nonsense";
  try_config(&config, "nonsense");
  config = fresh;
  config.launch = "LL";  // also where no GPU needs it
  try_config(&config, "PLAIT_LAUNCH is 'LL'");

  // A header of the future: a field that this library does not know may be there as long as it is not set.
  struct {
    plaitConfig_t known;
    size_t novelty;
  } later;
  memset(&later, 0, sizeof(later));
  later.known = fresh;
  later.known.size = sizeof(later);
  OK(plaitCommInitRankConfig(&comm, 1, new_id(), 0, &later.known));
  OK(plaitCommDestroy(comm));
  later.novelty = 1;
  try_config(&later.known, "does not have");
}

// Every function that takes a handle, with one that cannot be used.
static void try_handle(plaitComm_t comm, const char* words) {
  int value = 0;
  plaitResult_t state = plaitSuccess;
  plaitComm_t part = NULL;
  void* handle = NULL;
  FAILS(plaitAllReduce(&value, &value, 1, plaitInt, plaitSum, comm, NULL), plaitInvalidArgument, words);
  FAILS(plaitBroadcast(&value, &value, 1, plaitInt, 0, comm, NULL), plaitInvalidArgument, words);
  FAILS(plaitBcast(&value, 1, plaitInt, 0, comm, NULL), plaitInvalidArgument, words);
  FAILS(plaitReduce(&value, &value, 1, plaitInt, plaitSum, 0, comm, NULL), plaitInvalidArgument, words);
  FAILS(plaitAllGather(&value, &value, 1, plaitInt, comm, NULL), plaitInvalidArgument, words);
  FAILS(plaitReduceScatter(&value, &value, 1, plaitInt, plaitSum, comm, NULL), plaitInvalidArgument, words);
  FAILS(plaitGather(&value, &value, 1, plaitInt, 0, comm, NULL), plaitInvalidArgument, words);
  FAILS(plaitScatter(&value, &value, 1, plaitInt, 0, comm, NULL), plaitInvalidArgument, words);
  FAILS(plaitAlltoAll(&value, &value, 1, plaitInt, comm, NULL), plaitInvalidArgument, words);
  FAILS(plaitBarrier(comm, NULL), plaitInvalidArgument, words);
  FAILS(plaitCommSplit(comm, 0, 0, &part, NULL), plaitInvalidArgument, words);
  FAILS(plaitCommCount(comm, &value), plaitInvalidArgument, words);
  FAILS(plaitCommUserRank(comm, &value), plaitInvalidArgument, words);
  FAILS(plaitCommCuDevice(comm, &value), plaitInvalidArgument, words);
  FAILS(plaitCommGetAsyncError(comm, &state), plaitInvalidArgument, words);
  FAILS(plaitCommRegister(comm, &value, 4, &handle), plaitInvalidArgument, words);
  FAILS(plaitCommDeregister(comm, handle), plaitInvalidArgument, words);
  plaitRedOp_t op = plaitSum;
  FAILS(plaitRedOpCreatePreMulSum(&op, &value, plaitInt, plaitScalarHostImmediate, comm), plaitInvalidArgument, words);
  FAILS(plaitRedOpDestroy(op, comm), plaitInvalidArgument, words);
  CHECK(plaitGetLastError(comm) != NULL);
}

static void test_handles(void) {
  try_handle(NULL, "comm is NULL");
  OK(plaitCommFinalize(NULL));
  OK(plaitCommDestroy(NULL));
  OK(plaitCommAbort(NULL));

  plaitComm_t comm = NULL;
  OK(plaitCommInitRank(&comm, 1, new_id(), 0));
  OK(plaitCommDestroy(comm));
  try_handle(comm, "comm is the handle of a communicator that was destroyed or aborted");
  FAILS(plaitCommDestroy(comm), plaitInvalidArgument, "plaitCommDestroy: comm is the handle");
  FAILS(plaitCommFinalize(comm), plaitInvalidArgument, "plaitCommFinalize: comm is the handle");
  FAILS(plaitCommAbort(comm), plaitInvalidArgument, "plaitCommAbort: comm is the handle");

  static size_t nothing[64];
  try_handle((plaitComm_t)nothing, "comm is not a handle that Plait made");

  OK(plaitCommInitRank(&comm, 1, new_id(), 0));
  OK(plaitCommAbort(comm));
  try_handle(comm, "destroyed or aborted");
}

static void test_collectives(void) {
  plaitComm_t comm = NULL;
  OK(plaitCommInitRank(&comm, 1, new_id(), 0));
  int a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8];
  const plaitStream_t stream = (plaitStream_t)a;
  const size_t huge = (size_t)-1 / 2;
  FAILS(plaitAllReduce(a, b, 8, (plaitDataType_t)12, plaitSum, comm, NULL), plaitInvalidArgument,
        "plaitAllReduce: datatype is 12");
  FAILS(plaitAllGather(a, b, 8, (plaitDataType_t)66, comm, NULL), plaitInvalidArgument, "datatype is 66");
  FAILS(plaitReduceScatter(a, b, 8, plaitInt, (plaitRedOp_t)5, comm, NULL), plaitInvalidArgument,
        "plaitReduceScatter: op is 5");
  FAILS(plaitReduce(a, b, 8, plaitInt, plaitSum, 1, comm, NULL), plaitInvalidArgument, "plaitReduce: root is 1");
  FAILS(plaitBroadcast(a, b, 8, plaitInt, -1, comm, NULL), plaitInvalidArgument, "plaitBroadcast: root is -1");
  FAILS(plaitBcast(NULL, 8, plaitInt, 0, comm, NULL), plaitInvalidArgument, "plaitBcast: buff is NULL");
  FAILS(plaitAllReduce(NULL, b, 8, plaitInt, plaitSum, comm, NULL), plaitInvalidArgument, "sendbuff is NULL");
  FAILS(plaitAllGather(a, NULL, 8, plaitInt, comm, NULL), plaitInvalidArgument, "plaitAllGather: recvbuff is NULL");
  FAILS(plaitAllReduce(a, b, 8, plaitInt, plaitSum, comm, stream), plaitInvalidArgument, "stream is not NULL");
  FAILS(plaitGather(a, b, 8, plaitInt, 1, comm, NULL), plaitInvalidArgument, "plaitGather: root is 1; expected 0 to 0");
  FAILS(plaitScatter(a, b, 8, plaitInt, -1, comm, NULL), plaitInvalidArgument, "plaitScatter: root is -1");
  FAILS(plaitAlltoAll(a, b, 8, (plaitDataType_t)-1, comm, NULL), plaitInvalidArgument, "plaitAlltoAll: datatype is -1");
  FAILS(plaitGather(NULL, b, 8, plaitInt, 0, comm, NULL), plaitInvalidArgument, "plaitGather: sendbuff is NULL");
  FAILS(plaitGather(a, NULL, 8, plaitInt, 0, comm, NULL), plaitInvalidArgument, "plaitGather: recvbuff is NULL");
  FAILS(plaitScatter(NULL, b, 8, plaitInt, 0, comm, NULL), plaitInvalidArgument, "plaitScatter: sendbuff is NULL");
  FAILS(plaitScatter(a, NULL, 8, plaitInt, 0, comm, NULL), plaitInvalidArgument, "plaitScatter: recvbuff is NULL");
  FAILS(plaitAlltoAll(NULL, b, 8, plaitInt, comm, NULL), plaitInvalidArgument, "plaitAlltoAll: sendbuff is NULL");
  FAILS(plaitAlltoAll(a, NULL, 8, plaitInt, comm, NULL), plaitInvalidArgument, "plaitAlltoAll: recvbuff is NULL");
  FAILS(plaitAlltoAll(a, b, 8, plaitInt, comm, stream), plaitInvalidArgument, "plaitAlltoAll: stream is not NULL");
  FAILS(plaitAlltoAll(a, b, huge, plaitInt, comm, NULL), plaitInvalidArgument, "larger than any memory");
  FAILS(plaitAlltoAll(a, a + 1, 4, plaitInt, comm, NULL), plaitInvalidArgument, "overlap");
  FAILS(plaitGather(a, a + 1, 4, plaitInt, 0, comm, NULL), plaitInvalidArgument, "input = output + rank * count");
  FAILS(plaitScatter(a, a + 1, 4, plaitInt, 0, comm, NULL), plaitInvalidArgument, "output = input + rank * count");
  FAILS(plaitBarrier(comm, stream), plaitInvalidArgument, "plaitBarrier: stream is not NULL");
  OK(plaitAllReduce(a, b, 8, plaitInt, plaitSum, comm, PLAIT_BLOCKING));
  CHECK(memcmp(a, b, sizeof a) == 0);
  OK(plaitGroupStart());
  FAILS(plaitBarrier(comm, PLAIT_BLOCKING), plaitInvalidUsage, "stream is PLAIT_BLOCKING, and calls of a group");
  FAILS(plaitGroupEnd(), plaitInvalidUsage, "stream is PLAIT_BLOCKING");
  FAILS(plaitAllReduce(a, b, huge, plaitInt, plaitSum, comm, NULL), plaitInvalidArgument, "larger than any memory");
  FAILS(plaitAllReduce(a, a + 1, 4, plaitInt, plaitSum, comm, NULL), plaitInvalidArgument, "overlap");
  FAILS(plaitCommSplit(comm, 0, 0, NULL, NULL), plaitInvalidArgument, "plaitCommSplit: newcomm is NULL");
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.device = 4;
  plaitComm_t part = comm;
  FAILS(plaitCommSplit(comm, 0, 0, &part, &config), plaitInvalidArgument, "plaitCommSplit: config->device is 4");
  CHECK(strstr(plaitGetLastError(comm), "plaitCommSplit: plaitCommSplit") == NULL);
  CHECK(part == NULL);
  config.device = PLAIT_DEVICE_CUDA;
  FAILS(plaitCommSplit(comm, 0, 0, &part, &config), plaitInvalidArgument,
        "plaitCommSplit: config->device is PLAIT_DEVICE_CUDA, but comm is on host memory");
  CHECK(part == NULL);
  FAILS(plaitCommCount(comm, NULL), plaitInvalidArgument, "plaitCommCount: count is NULL");
  FAILS(plaitCommUserRank(comm, NULL), plaitInvalidArgument, "plaitCommUserRank: rank is NULL");
  FAILS(plaitCommCuDevice(comm, NULL), plaitInvalidArgument, "plaitCommCuDevice: device is NULL");
  FAILS(plaitCommGetAsyncError(comm, NULL), plaitInvalidArgument, "asyncError is NULL");
  FAILS(plaitCommRegister(comm, NULL, 4, (void**)&part), plaitInvalidArgument, "plaitCommRegister: buff is NULL");
  FAILS(plaitCommRegister(comm, a, 4, NULL), plaitInvalidArgument, "plaitCommRegister: handle is NULL");

  // None of it did any harm.
  OK(plaitAllReduce(a, b, 8, plaitInt, plaitSum, comm, NULL));
  CHECK(memcmp(a, b, sizeof(a)) == 0);

  // Host buffers begin anywhere, and any handle is deregistered.
  char odd[1 + sizeof(a)], other[3 + sizeof(a)];
  memcpy(odd + 1, a, sizeof(a));
  OK(plaitAllReduce(odd + 1, other + 3, 8, plaitInt, plaitSum, comm, NULL));
  CHECK(memcmp(a, other + 3, sizeof(a)) == 0);
  OK(plaitCommDeregister(comm, NULL));
  OK(plaitCommDeregister(comm, odd));
  OK(plaitCommDestroy(comm));
}

static void test_memory(void) {
  void* memory = &memory;
  OK(plaitMemAlloc(&memory, 0));
  CHECK(memory == NULL);
  OK(plaitMemFree(NULL));
  FAILS(plaitMemAlloc(NULL, 8), plaitInvalidArgument, "plaitMemAlloc: ptr is NULL");
  FAILS(plaitMemAlloc(&memory, (size_t)-1), plaitSystemError, "bytes of memory");
  CHECK(memory == NULL);
}

int main(void) {
  begin_test();
  CHECK(strcmp(plaitGetLastError(NULL), "") == 0);
  test_results_and_version();
  test_init();
  test_config();
  test_handles();
  test_collectives();
  test_memory();
  return end_test("arguments_test");
}

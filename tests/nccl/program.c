// A program as users have it: it makes a communicator with a config, splits it, calls collectives in a group, and ends
// it. The stand-in behind the drop-in tells what arrived.
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/nccl/abi_types.h"
/* After the types. */
#include "api/nccl/abi.h"

static int failures = 0;
static void check_at(int good, const char* what, int line) {
  if (good) return;
  ++failures;
  fprintf(stderr, "program.c:%d: failed: %s (last error: '%s')\n", line, what, ncclGetLastError(NULL));
}
#define CHECK(condition) check_at((condition) != 0, #condition, __LINE__)
#define OK(call) check_at((call) == ncclSuccess, #call, __LINE__)

static const char kExpected[] =
    "ncclGetVersion ncclGetUniqueId ncclCommInitRankConfig ncclCommSplit ncclGroupStart ncclAllReduce ncclGroupStart "
    "ncclSend ncclRecv ncclGroupEnd ncclAllReduce ncclGroupEnd ncclCommGetAsyncError ncclCommAbort ncclCommFinalize "
    "ncclCommDestroy ";

int main(void) {
  int version = 0;
  OK(ncclGetVersion(&version));
  CHECK(version == 23201);

  void* stand_in = dlopen(getenv("STAND_IN"), RTLD_NOW);
  if (stand_in == NULL) return 1;
  int (*last)(const char*, char*, size_t);
  const char* (*sequence)(void);
  *(void**)&last = dlsym(stand_in, "stand_in_last");
  *(void**)&sequence = dlsym(stand_in, "stand_in_sequence");

  ncclUniqueId id;
  OK(ncclGetUniqueId(&id));
  for (size_t i = 0; i < sizeof(id); ++i) id.internal[i] = (char)(i * 7);
  const ncclComm_t comm = (ncclComm_t)(void*)&version;
  ncclComm_t made = NULL;
  struct {
    ncclConfig_t known;
    int newer[40]; /* a config of a later version is longer */
  } config = {{sizeof(config), 0xcafebeefu, 29900, 1, INT_MIN, INT_MIN, INT_MIN}, {1, 2, 3}};
  OK(ncclCommInitRankConfig(&made, 4, id, 3, &config.known));
  char arrived[1024];
  CHECK(last("ncclCommInitRankConfig", arrived, sizeof(arrived)) == 8 + 4 + 128 + 4 + 8);
  CHECK(memcmp(arrived + 12, &id, sizeof(id)) == 0);
  ncclConfig_t* passed;
  memcpy(&passed, arrived + 144, sizeof(passed));
  CHECK(passed == &config.known);

  OK(ncclCommSplit(comm, 1, 2, &made, &config.known));
  double numbers[4];
  OK(ncclGroupStart());
  OK(ncclAllReduce(numbers, numbers, 4, ncclFloat64, ncclSum, comm, NULL));
  OK(ncclGroupStart());
  OK(ncclSend(numbers, 1, ncclFloat64, 1, comm, NULL));
  OK(ncclRecv(numbers, 1, ncclFloat64, 1, comm, NULL));
  OK(ncclGroupEnd());
  OK(ncclAllReduce(numbers, numbers, 4, (ncclDataType_t)99, (ncclRedOp_t)77, comm, NULL)); /* NCCL judges, not Plait */
  OK(ncclGroupEnd());
  ncclResult_t error;
  OK(ncclCommGetAsyncError(comm, &error));
  OK(ncclCommAbort(comm));
  OK(ncclCommFinalize(comm));
  OK(ncclCommDestroy(comm));

  const char* calls = sequence(); /* the drop-in itself asks for the version, too */
  const size_t length = strlen(calls), expected = sizeof(kExpected) - 1;
  CHECK(length >= expected && strcmp(calls + length - expected, kExpected) == 0);
  printf("program: %d failed\n", failures);
  return failures == 0 ? 0 : 1;
}

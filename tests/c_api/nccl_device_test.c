// plait/nccl/nccl.h where there is no GPU: programs of NCCL get an error, and never host memory instead.
#define _DEFAULT_SOURCE
#include <nccl.h>

#include "testing.h"

int main(void) {
  begin_test();
  const char* const words = "no CUDA device can be used here";
  ncclUniqueId id;
  ncclComm_t comm = NCCL_COMM_NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  const int device = 0;
  OK(ncclGetUniqueId(&id));
  FAILS(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidArgument, words);
  FAILS(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument, words);
  FAILS(ncclCommInitRankConfig(&comm, 1, id, 0, NULL), ncclInvalidArgument, words);
  FAILS(ncclCommInitAll(&comm, 1, NULL), ncclInvalidArgument, "can use 0 CUDA devices");
  FAILS(ncclCommInitAll(&comm, 1, &device), ncclInvalidArgument, "can use 0 CUDA devices");
  CHECK(comm == NCCL_COMM_NULL);

  // A part of a communicator is where the whole is, whatever this header's default.
  const int host = PLAIT_DEVICE_HOST;
  ncclComm_t part = NCCL_COMM_NULL;
  OK(plaitCommInitAll(&comm, 1, &host));
  OK(ncclCommSplit(comm, 0, 0, &part, &config));
  OK(ncclCommDestroy(part));
  OK(ncclCommDestroy(comm));
  return end_test("nccl_device_test");
}

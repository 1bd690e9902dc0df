// A library that calls NCCL, as PyTorch's do: one function that all versions have, and one that came with 2.28.
#include "api/nccl/abi_types.h"
/* After the types. */
#include "api/nccl/abi.h"

ncclResult_t consume(const void* input, void* output, ncclComm_t comm);
ncclResult_t consume(const void* input, void* output, ncclComm_t comm) {
  const ncclResult_t result = ncclAllReduce(input, output, 1, ncclInt32, ncclSum, comm, NULL);
  return result != ncclSuccess ? result : ncclAlltoAll(input, output, 1, ncclInt32, comm, NULL);
}

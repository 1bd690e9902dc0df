// A call by Plait.
#pragma once

#include "api/nccl/companion.hpp"
#include "api/nccl/nccl_call.hpp"

namespace plait::nccl {

// Performs a call by Plait's communicator `comm`; `op` is Plait's operation. Within Plait's groups it is recorded.
ncclResult_t perform(plaitComm_t comm, const NcclCall& call, plaitRedOp_t op);

// A result of Plait as NCCL's. A failure becomes what ncclGetLastError says; `comm` may be null.
ncclResult_t to_nccl(plaitResult_t result, plaitComm_t comm);

}  // namespace plait::nccl

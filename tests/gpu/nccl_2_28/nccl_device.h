// For nccl-tests on libplait.so alone: what their sources name of NCCL's windows and device API where they see NCCL
// 2.28. They call ncclAlltoAll, ncclGather and ncclScatter there, and messages where they see an older one. So this
// takes the place of Plait's own nccl_device.h, which refuses to be compiled.
//
// Nothing of it works. Windows (-R 2) and device communicators (-D, which needs windows) return an error before a
// kernel could use them, and a kernel that did would trap.
#pragma once

#include <cuda/atomic>

#include "nccl.h"

#undef NCCL_WIN_COLL_SYMMETRIC
#define NCCL_WIN_COLL_SYMMETRIC 1
#define ncclWindow_t AbsentWindow
#define ncclCommWindowRegister absent_call
#define ncclCommWindowDeregister absent_call
#define ncclDevCommCreate absent_call
#define ncclDevCommDestroy absent_call

using AbsentWindow = void*;
template <class... Arguments>
ncclResult_t absent_call(const Arguments&...) {
  return ncclInvalidUsage;
}

struct ncclDevCommRequirements {
  int lsaBarrierCount;
  bool lsaMultimem;
};
struct ncclDevComm {
  int rank, nRanks, lsaBarrier;
};

struct ncclCoopCta {};
struct AbsentTeam {};
__device__ inline AbsentTeam ncclTeamLsa(const ncclDevComm&) { return {}; }
__device__ inline AbsentTeam ncclTeamTagLsa() { return {}; }
__device__ inline void* ncclGetLsaPointer(AbsentWindow, size_t, int) {
  __trap();
  return nullptr;
}
__device__ inline void* ncclGetLsaMultimemPointer(AbsentWindow, size_t, const ncclDevComm&) {
  __trap();
  return nullptr;
}

template <class Cooperative>
struct ncclLsaBarrierSession {
  template <class... Arguments>
  __device__ ncclLsaBarrierSession(const Arguments&...) {}
  __device__ void sync(Cooperative, cuda::memory_order) { __trap(); }
};

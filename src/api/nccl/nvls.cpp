// NCCL's conditions for NVLS.
#include "api/nccl/nvls.hpp"

namespace plait::nccl {
namespace {

constexpr int kFirstRead = 22703, kLastRead = 23007;  // versions whose sources say what nvls.hpp says
constexpr int kLastThatNeedsThree = 22803;

bool is_reduced_by_switches(ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclInt32:
    case ncclUint32:
    case ncclInt64:
    case ncclUint64:
    case ncclFloat16:
    case ncclBfloat16:
      return op == ncclSum || op == ncclMax || op == ncclMin;
    case ncclFloat32:
    case ncclFloat64:
      return op == ncclSum;
    default:
      return false;
  }
}

}  // namespace

NvlsUse nvls_use(int nccl_version, int ranks) {
  if (nccl_version < kFirstRead || nccl_version > kLastRead) return NvlsUse::kAnyCall;
  const int fewest = nccl_version <= kLastThatNeedsThree ? 3 : 2;
  return ranks < fewest ? NvlsUse::kNoCall : NvlsUse::kSomeCalls;
}

bool may_use_nvls(NvlsUse use, CallKind kind, ncclDataType_t type, ncclRedOp_t op) {
  if (use != NvlsUse::kSomeCalls) return use == NvlsUse::kAnyCall;
  switch (kind) {
    case CallKind::kAllGather:
      return true;
    case CallKind::kAllReduce:
    case CallKind::kReduceScatter:
      return is_reduced_by_switches(type, op);
    default:
      return false;
  }
}

}  // namespace plait::nccl

// A collective or message of NCCL's interface, as a value.
#pragma once

#include <cstddef>
#include <string>

#include "api/nccl/abi_types.h"

namespace plait::nccl {

enum class CallKind {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAlltoAll,
  kGather,
  kScatter,
  kSend,
  kRecv
};
inline constexpr int kCollectiveKinds = 8;  // the others are messages

inline bool is_message(CallKind kind) { return static_cast<int>(kind) >= kCollectiveKinds; }
inline bool is_reducing(CallKind kind) {
  return kind == CallKind::kAllReduce || kind == CallKind::kReduceScatter || kind == CallKind::kReduce;
}
inline bool is_rooted(CallKind kind) {
  return kind == CallKind::kBroadcast || kind == CallKind::kReduce || kind == CallKind::kGather ||
         kind == CallKind::kScatter;
}
// Whether `count` is that of a block, of which there is one for each rank.
inline bool has_blocks(CallKind kind) {
  return kind == CallKind::kAllGather || kind == CallKind::kReduceScatter || kind == CallKind::kAlltoAll ||
         kind == CallKind::kGather || kind == CallKind::kScatter;
}
const char* name(CallKind kind);  // "all_reduce", as in tables of wins

struct NcclCall {
  CallKind kind;
  const void* input;
  void* output;
  size_t count;  // as NCCL's function has it
  ncclDataType_t type;
  ncclRedOp_t op;  // ncclSum where nothing is reduced
  int root;        // or peer
  ncclComm_t comm;
  cudaStream_t stream;
};

// "all_reduce of 1024 float32 (sum), 4 KiB", "send of 4 int8 to rank 1, 4 bytes". `is_premul`: its operation is a
// pre-multiplied sum.
std::string text_of(const NcclCall& call, bool is_premul);

// Bytes of an element; 0 for a type that the drop-in does not know.
size_t element_bytes(ncclDataType_t type);

// The real NCCL's function.
ncclResult_t forward(const NcclCall& call);

}  // namespace plait::nccl

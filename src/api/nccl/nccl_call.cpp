// Facts about calls, and their way to NCCL.
#include "api/nccl/nccl_call.hpp"

#include <iterator>
#include <nccl_functions.hpp>

namespace plait::nccl {
namespace {

constexpr const char* kCallNames[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                      "all_to_all", "gather",     "scatter",        "send",      "receive"};
constexpr size_t kElementBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static_assert(std::size(kElementBytes) == ncclNumTypes);

}  // namespace

const char* name(CallKind kind) { return kCallNames[static_cast<size_t>(kind)]; }

size_t element_bytes(ncclDataType_t type) {
  const auto index = static_cast<size_t>(type);
  return index < std::size(kElementBytes) ? kElementBytes[index] : 0;
}

ncclResult_t forward(const NcclCall& c) {
  switch (c.kind) {
    case CallKind::kAllReduce:
      return real::ncclAllReduce(c.input, c.output, c.count, c.type, c.op, c.comm, c.stream);
    case CallKind::kAllGather:
      return real::ncclAllGather(c.input, c.output, c.count, c.type, c.comm, c.stream);
    case CallKind::kReduceScatter:
      return real::ncclReduceScatter(c.input, c.output, c.count, c.type, c.op, c.comm, c.stream);
    case CallKind::kBroadcast:
      return real::ncclBroadcast(c.input, c.output, c.count, c.type, c.root, c.comm, c.stream);
    case CallKind::kReduce:
      return real::ncclReduce(c.input, c.output, c.count, c.type, c.op, c.root, c.comm, c.stream);
    case CallKind::kAlltoAll:
      return real::ncclAlltoAll(c.input, c.output, c.count, c.type, c.comm, c.stream);
    case CallKind::kGather:
      return real::ncclGather(c.input, c.output, c.count, c.type, c.root, c.comm, c.stream);
    case CallKind::kScatter:
      return real::ncclScatter(c.input, c.output, c.count, c.type, c.root, c.comm, c.stream);
    case CallKind::kSend:
      return real::ncclSend(c.input, c.count, c.type, c.root, c.comm, c.stream);
    case CallKind::kRecv:
      return real::ncclRecv(c.output, c.count, c.type, c.root, c.comm, c.stream);
  }
  return ncclInternalError;
}

}  // namespace plait::nccl

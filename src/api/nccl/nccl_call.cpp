// Facts about calls, and their way to NCCL.
#include "api/nccl/nccl_call.hpp"

#include <iterator>
#include <nccl_functions.hpp>

#include "api/nccl/wins.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/types.hpp"

namespace plait::nccl {
namespace {

constexpr const char* kCallNames[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce",
                                      "all_to_all", "gather",     "scatter",        "send",      "receive"};
constexpr size_t kElementBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
static_assert(std::size(kElementBytes) == ncclNumTypes);

// NCCL's types have the numbers of Plait's first ones.
static_assert(static_cast<int>(DataType::kFloat8E5M2) == ncclFloat8e5m2);

std::string name_of_type(ncclDataType_t type) {
  return element_bytes(type) == 0 ? join("elements of type ", static_cast<int>(type))
                                  : name(static_cast<DataType>(type));
}

std::string name_of_reduction(ncclRedOp_t op, bool is_premul) {
  if (is_premul) return name_of_operation(ncclNumOps);
  return op >= 0 && op < ncclNumOps ? name_of_operation(op) : join("operation ", static_cast<int>(op));
}

}  // namespace

const char* name(CallKind kind) { return kCallNames[static_cast<size_t>(kind)]; }

size_t element_bytes(ncclDataType_t type) {
  const auto index = static_cast<size_t>(type);
  return index < std::size(kElementBytes) ? kElementBytes[index] : 0;
}

std::string text_of(const NcclCall& call, bool is_premul) {
  std::string text = join(name(call.kind), " of ", call.count, ' ', name_of_type(call.type));
  if (is_reducing(call.kind)) text += join(" (", name_of_reduction(call.op, is_premul), ')');
  if (is_rooted(call.kind)) text += join(", root ", call.root);
  if (is_message(call.kind)) text += join(call.kind == CallKind::kSend ? " to rank " : " from rank ", call.root);
  const double bytes = static_cast<double>(call.count) * static_cast<double>(element_bytes(call.type));
  if (element_bytes(call.type) != 0) text += join(", ", bytes_text(bytes), has_blocks(call.kind) ? " a rank" : "");
  return text;
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

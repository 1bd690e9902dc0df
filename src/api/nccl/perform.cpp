// NCCL's calls as Plait's, which have the same arguments.
#include "api/nccl/perform.hpp"

#include "api/nccl/drop_in.hpp"
#include "api/nccl/forward.hpp"
#include "base/error.hpp"

namespace plait::nccl {
namespace {

constexpr int kFirstWithTimeout = 23000;  // NCCL 2.30 knows ncclTimeout

plaitResult_t issue(const PlaitLibrary& plait, plaitComm_t comm, const NcclCall& c, plaitRedOp_t op) {
  const auto type = static_cast<plaitDataType_t>(c.type);
  switch (c.kind) {
    case CallKind::kAllReduce:
      return plait.AllReduce(c.input, c.output, c.count, type, op, comm, c.stream);
    case CallKind::kAllGather:
      return plait.AllGather(c.input, c.output, c.count, type, comm, c.stream);
    case CallKind::kReduceScatter:
      return plait.ReduceScatter(c.input, c.output, c.count, type, op, comm, c.stream);
    case CallKind::kBroadcast:
      return plait.Broadcast(c.input, c.output, c.count, type, c.root, comm, c.stream);
    case CallKind::kReduce:
      return plait.Reduce(c.input, c.output, c.count, type, op, c.root, comm, c.stream);
    case CallKind::kAlltoAll:
      return plait.AlltoAll(c.input, c.output, c.count, type, comm, c.stream);
    case CallKind::kGather:
      return plait.Gather(c.input, c.output, c.count, type, c.root, comm, c.stream);
    case CallKind::kScatter:
      return plait.Scatter(c.input, c.output, c.count, type, c.root, comm, c.stream);
    case CallKind::kSend:
      return plait.Send(c.input, c.count, type, c.root, comm, c.stream);
    case CallKind::kRecv:
      return plait.Recv(c.output, c.count, type, c.root, comm, c.stream);
  }
  return plaitInternalError;
}

}  // namespace

ncclResult_t to_nccl(plaitResult_t result, plaitComm_t comm) {
  if (result == plaitSuccess) return ncclSuccess;
  DropIn& drop_in = DropIn::of_this_process();
  remember_own_error(join("Plait, in the place of NCCL: ", drop_in.plait().GetLastError(comm)));
  if (result == plaitTimeout && drop_in.real().version() < kFirstWithTimeout) return ncclRemoteError;
  return static_cast<ncclResult_t>(result);
}

ncclResult_t perform(plaitComm_t comm, const NcclCall& call, plaitRedOp_t op) {
  const PlaitLibrary& plait = DropIn::of_this_process().plait();
  return to_nccl(issue(plait, comm, call, op), comm);
}

}  // namespace plait::nccl

// Collectives and messages: by Plait, or by NCCL.
#include <exception>
#include <nccl_functions.hpp>

#include "api/nccl/drop_in.hpp"
#include "api/nccl/kept_calls.hpp"
#include "api/nccl/perform.hpp"
#include "api/nccl/side_table.hpp"
#include "base/error.hpp"

namespace plait::nccl {
namespace {

// Plait's own line about the call, with its plan, comes when it performs it.
void log_call(Companion& companion, const NcclCall& call, const char* why) {
  const bool is_premul = is_reducing(call.kind) && companion.find_premul(call.op).has_value();
  const char* when = thread_state.depth > 0 ? "by Plait, unless the group has calls for NCCL" : "by Plait";
  const std::string by = why == nullptr ? when : join("by NCCL, since ", why);
  DropIn::of_this_process().notices().say_call(companion.rank(), join(text_of(call, is_premul), ": ", by));
}

ncclResult_t route_known(Companion& companion, plaitComm_t comm, const NcclCall& call) {
  plaitRedOp_t op = plaitSum;
  const char* why = companion.why_forwarded(call, op);
  if (DropIn::of_this_process().notices().shows_calls()) log_call(companion, call, why);
  if (thread_state.depth > 0) return KeptCalls::of_this_thread().add(companion, call, op, why);
  return why == nullptr ? perform(comm, call, op) : forward(call);
}

ncclResult_t route(const NcclCall& call) noexcept {
  if (!is_inside_nccl()) {
    Companion* companion = SideTable::of_this_process().find(call.comm);
    plaitComm_t comm = companion == nullptr ? nullptr : companion->plait();
    if (comm != nullptr) {
      try {
        return route_known(*companion, comm, call);
      } catch (const std::exception&) {
        return ncclSystemError;  // no memory
      }
    }
  }
  return forward(call);
}

}  // namespace

ncclResult_t watched::ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream) {
  return route({CallKind::kAllReduce, input, output, count, type, op, -1, comm, stream});
}

ncclResult_t watched::ncclReduce(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                 int root, ncclComm_t comm, cudaStream_t stream) {
  return route({CallKind::kReduce, input, output, count, type, op, root, comm, stream});
}

// Older than ncclBroadcast, which NCCL makes of it, too.
ncclResult_t watched::ncclBcast(void* data, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                cudaStream_t stream) {
  const Companion* companion = is_inside_nccl() ? nullptr : SideTable::of_this_process().find(comm);
  if (companion == nullptr || companion->plait() == nullptr) {
    return real::ncclBcast(data, count, type, root, comm, stream);
  }
  return route({CallKind::kBroadcast, data, data, count, type, ncclSum, root, comm, stream});
}

ncclResult_t watched::ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                                    ncclComm_t comm, cudaStream_t stream) {
  return route({CallKind::kBroadcast, input, output, count, type, ncclSum, root, comm, stream});
}

ncclResult_t watched::ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type,
                                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return route({CallKind::kReduceScatter, input, output, count, type, op, -1, comm, stream});
}

ncclResult_t watched::ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type, ncclComm_t comm,
                                    cudaStream_t stream) {
  return route({CallKind::kAllGather, input, output, count, type, ncclSum, -1, comm, stream});
}

ncclResult_t watched::ncclAlltoAll(const void* input, void* output, size_t count, ncclDataType_t type, ncclComm_t comm,
                                   cudaStream_t stream) {
  return route({CallKind::kAlltoAll, input, output, count, type, ncclSum, -1, comm, stream});
}

ncclResult_t watched::ncclGather(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream) {
  return route({CallKind::kGather, input, output, count, type, ncclSum, root, comm, stream});
}

ncclResult_t watched::ncclScatter(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                                  ncclComm_t comm, cudaStream_t stream) {
  return route({CallKind::kScatter, input, output, count, type, ncclSum, root, comm, stream});
}

ncclResult_t watched::ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream) {
  return route({CallKind::kSend, data, nullptr, count, type, ncclSum, peer, comm, stream});
}

ncclResult_t watched::ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream) {
  return route({CallKind::kRecv, nullptr, data, count, type, ncclSum, peer, comm, stream});
}

ncclResult_t watched::ncclGroupStart() {
  const ncclResult_t result = real::ncclGroupStart();
  if (result == ncclSuccess && !is_inside_nccl()) ++thread_state.depth;
  return result;
}

// Plait's calls go first. So does what NCCL makes of a group with collectives and messages, and ranks that have one
// without the other need it.
ncclResult_t watched::ncclGroupEnd() {
  if (is_inside_nccl() || thread_state.depth == 0) return real::ncclGroupEnd();
  const bool is_outermost = --thread_state.depth == 0;
  KeptCalls* group = is_outermost ? thread_state.group : nullptr;
  if (group == nullptr) return real::ncclGroupEnd();
  const ncclResult_t by_plait = group->perform_all();
  const ncclResult_t by_nccl = real::ncclGroupEnd();
  group->finish_joining(by_nccl);
  KeptCalls::drop_of_this_thread();
  return by_plait != ncclSuccess ? by_plait : by_nccl;
}

// Ends the group without performing it, and says how long NCCL would take: it shall see all calls.
ncclResult_t watched::ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  if (is_inside_nccl() || thread_state.depth == 0) return real::ncclGroupSimulateEnd(info);
  const bool is_outermost = --thread_state.depth == 0;
  if (is_outermost && thread_state.group != nullptr) {
    thread_state.group->hand_over(nullptr);
    KeptCalls::drop_of_this_thread();
  }
  return real::ncclGroupSimulateEnd(info);
}

// Operations belong to one rank, and those of Plait's go with NCCL's.
ncclResult_t watched::ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                               ncclScalarResidence_t residence, ncclComm_t comm) {
  const ncclResult_t result = real::ncclRedOpCreatePreMulSum(op, scalar, type, residence, comm);
  Companion* companion = is_inside_nccl() ? nullptr : SideTable::of_this_process().find(comm);
  plaitComm_t plait = companion == nullptr ? nullptr : companion->plait();
  if (result != ncclSuccess || plait == nullptr || element_bytes(type) == 0) return result;
  const PlaitLibrary& library = DropIn::of_this_process().plait();
  plaitRedOp_t ours = plaitSum;
  const plaitResult_t made = library.RedOpCreatePreMulSum(&ours, scalar, static_cast<plaitDataType_t>(type),
                                                          static_cast<plaitScalarResidence_t>(residence), plait);
  // Plait refuses on all ranks alike, or for want of memory. Calls with the operation then go to NCCL.
  if (made == plaitSuccess) companion->add_premul(*op, {type, ours});
  return result;
}

ncclResult_t watched::ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  Companion* companion = is_inside_nccl() ? nullptr : SideTable::of_this_process().find(comm);
  if (companion != nullptr) {
    const auto pair = companion->take_premul(op);
    plaitComm_t plait = companion->plait();
    if (pair && plait != nullptr) DropIn::of_this_process().plait().RedOpDestroy(pair->op, plait);
  }
  return real::ncclRedOpDestroy(op, comm);
}

}  // namespace plait::nccl

// The collectives: their arguments become calls.
#include "api/c/collectives.hpp"

#include <algorithm>

#include "api/c/arguments.hpp"
#include "api/c/handle.hpp"
#include "api/c/operations.hpp"
#include "api/c/plans.hpp"
#include "api/c/result.hpp"
#include "base/figures.hpp"

namespace plait::c {
namespace {

#define PLAIT_COMPARE(value, constant, ...) \
  static_assert(static_cast<int>(constant) == facts_of(ReduceOp::value).number, #constant " has another number");
PLAIT_REDUCTIONS(PLAIT_COMPARE)
#undef PLAIT_COMPARE
static_assert(std::ranges::count_if(kReductions, is_nccls) == plaitNumOps);

// The scalar of an operation that a user made.
std::optional<Scalar> scalar_of(plaitRedOp_t op, const Call& call, plaitComm_t comm) {
  if (!is_user_defined(op)) return std::nullopt;
  const std::optional<Scalar> scalar = comm->operations.find(op);
  if (!scalar) {
    refuse(plaitInvalidArgument, "op is ", static_cast<int>(op),
           "; comm has no such operation: it was destroyed, or made for another communicator, or never made");
  }
  if (scalar->type != call.type) {
    refuse(plaitInvalidArgument, "op was made for ", name(scalar->type), ", and datatype is ", name(call.type));
  }
  return scalar;
}

// Checks a call before it is issued, in the words of the C interface. The communicator checks the rest.
void check(const CollectiveCall& made) {
  const Call& call = made.call;
  if (has_root(call.collective) && (call.root < 0 || call.root >= made.comm->size)) {
    refuse(plaitInvalidArgument, "root is ", call.root, "; expected 0 to ", made.comm->size - 1);
  }
  if (reduces(call.collective) && !has(call.type, call.op)) {
    refuse(plaitInvalidArgument, "op and datatype: ", why_not(call.type, call.op));
  }
  check_stream(made.comm, made.stream);
  if (made.blocks) check_blocks(call, made.comm->size, made.comm->rank, *made.blocks, made.input, made.output);
  if (made.blocks || call.count == 0) return;
  if (has_input(call, made.comm->rank)) require(made.input, "sendbuff");
  if (has_output(call, made.comm->rank)) require(made.output, "recvbuff");
}

// `describe` makes a Call of the arguments; it may refuse them. `op` is that of the arguments, where they have one.
template <class Describe>
plaitResult_t issue(const char* function, plaitComm_t comm, const void* input, void* output, plaitStream_t stream,
                    const Describe& describe, plaitRedOp_t op = plaitSum) {
  return CallGroup::at_edge(function, [&] {
    check_handle(comm);
    issue_collective({function, comm, describe(), input, output, stream}, op);
  });
}

}  // namespace

ReduceOp reduce_op(plaitRedOp_t op) {
  const int number = static_cast<int>(op);
  if (is_user_defined(op)) return ReduceOp::kSum;
  const auto own = reduce_op_of_number(number);
  if (!own) refuse(plaitInvalidArgument, "op is ", number, "; it is none of plaitRedOp_t");
  return *own;
}

void issue_collective(CollectiveCall call, plaitRedOp_t op) {
  call.scalar = scalar_of(op, call.call, call.comm);
  check(call);
  CallGroup::of_this_thread().issue(call);
}

}  // namespace plait::c

using namespace plait::c;
using plait::Call;
using plait::Collective;
using plait::ReduceOp;

extern "C" plaitResult_t plaitAllReduce(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                        plaitRedOp_t op, plaitComm_t comm, plaitStream_t stream) {
  return issue(
      "plaitAllReduce", comm, sendbuff, recvbuff, stream,
      [&] { return Call{Collective::kAllReduce, data_type(datatype), reduce_op(op), 0, count}; }, op);
}

extern "C" plaitResult_t plaitBroadcast(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                        int root, plaitComm_t comm, plaitStream_t stream) {
  return issue("plaitBroadcast", comm, sendbuff, recvbuff, stream,
               [&] { return Call{Collective::kBroadcast, data_type(datatype), ReduceOp::kSum, root, count}; });
}

extern "C" plaitResult_t plaitBcast(void* buff, size_t count, plaitDataType_t datatype, int root, plaitComm_t comm,
                                    plaitStream_t stream) {
  return issue("plaitBcast", comm, buff, buff, stream, [&] {
    const Call call{Collective::kBroadcast, data_type(datatype), ReduceOp::kSum, root, count};
    if (count > 0) require(buff, "buff");
    return call;
  });
}

extern "C" plaitResult_t plaitReduce(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                     plaitRedOp_t op, int root, plaitComm_t comm, plaitStream_t stream) {
  return issue(
      "plaitReduce", comm, sendbuff, recvbuff, stream,
      [&] { return Call{Collective::kReduce, data_type(datatype), reduce_op(op), root, count}; }, op);
}

extern "C" plaitResult_t plaitAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                        plaitDataType_t datatype, plaitComm_t comm, plaitStream_t stream) {
  return issue("plaitAllGather", comm, sendbuff, recvbuff, stream,
               [&] { return Call{Collective::kAllGather, data_type(datatype), ReduceOp::kSum, 0, sendcount}; });
}

extern "C" plaitResult_t plaitReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                            plaitDataType_t datatype, plaitRedOp_t op, plaitComm_t comm,
                                            plaitStream_t stream) {
  return issue(
      "plaitReduceScatter", comm, sendbuff, recvbuff, stream,
      [&] { return Call{Collective::kReduceScatter, data_type(datatype), reduce_op(op), 0, recvcount}; }, op);
}

extern "C" plaitResult_t plaitGather(const void* sendbuff, void* recvbuff, size_t sendcount, plaitDataType_t datatype,
                                     int root, plaitComm_t comm, plaitStream_t stream) {
  return issue("plaitGather", comm, sendbuff, recvbuff, stream,
               [&] { return Call{Collective::kGather, data_type(datatype), ReduceOp::kSum, root, sendcount}; });
}

extern "C" plaitResult_t plaitScatter(const void* sendbuff, void* recvbuff, size_t recvcount, plaitDataType_t datatype,
                                      int root, plaitComm_t comm, plaitStream_t stream) {
  return issue("plaitScatter", comm, sendbuff, recvbuff, stream,
               [&] { return Call{Collective::kScatter, data_type(datatype), ReduceOp::kSum, root, recvcount}; });
}

extern "C" plaitResult_t plaitAlltoAll(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                       plaitComm_t comm, plaitStream_t stream) {
  return issue("plaitAlltoAll", comm, sendbuff, recvbuff, stream,
               [&] { return Call{Collective::kAllToAll, data_type(datatype), ReduceOp::kSum, 0, count}; });
}

extern "C" plaitResult_t plaitRunPlan(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                      plaitRedOp_t op, plaitPlan_t plan, plaitComm_t comm, plaitStream_t stream) {
  return CallGroup::at_edge("plaitRunPlan", [&] {
    check_handle(comm);
    const std::shared_ptr<const plait::VerifiedPlan> given = plan_of(plan);
    const plait::Plan& its = given->plan();
    if (its.rank_count() != comm->size) {
      refuse(plaitInvalidArgument, "plan is for ", plait::counted(its.rank_count(), "rank"), ", and comm has ",
             comm->size);
    }
    const bool has_op = plait::reduces(its.collective);
    const bool has_data = its.collective != Collective::kBarrier;
    const Call call = call_by(*given, has_data ? data_type(datatype) : plait::DataType::kUint8,
                              has_op ? reduce_op(op) : ReduceOp::kSum, count);
    issue_collective({"plaitRunPlan", comm, call, sendbuff, recvbuff, stream, std::nullopt, given},
                     has_op ? op : plaitSum);
  });
}

extern "C" plaitResult_t plaitBarrier(plaitComm_t comm, plaitStream_t stream) {
  return issue("plaitBarrier", comm, nullptr, nullptr, stream, [] { return Call{}; });
}

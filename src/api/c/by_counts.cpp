// The collectives with a count for each rank.
#include "api/c/arguments.hpp"
#include "api/c/collectives.hpp"
#include "api/c/handle.hpp"
#include "api/c/result.hpp"
#include "runtime/buffer_blocks.hpp"

namespace plait::c {
namespace {

// Arrays of a C program, one number for each rank; the displacements may be NULL.
struct CountArrays {
  const size_t* counts;
  const size_t* displacements;
  const char* name;  // of the counts

  BlockCounts of(int ranks) const {
    require(counts, name);
    const auto all = static_cast<size_t>(ranks);
    if (displacements == nullptr) return {{counts, all}};
    return {{counts, all}, {displacements, all}};
  }
};

void refuse_device(plaitComm_t comm, const char* function) {
  if (comm->device == PLAIT_DEVICE_HOST) return;
  refuse(plaitInvalidArgument, function,
         " is for communicators on host memory, and comm is on a device; there, put a plaitSend and a plaitRecv for "
         "each block into a group (a plaitBroadcast for each rank to gather on all, a plaitReduce to reduce and "
         "scatter)");
}

// `describe` makes the call of the arguments; it may refuse them.
template <class Describe>
plaitResult_t issue_by_counts(const char* function, plaitComm_t comm, const void* input, void* output,
                              plaitStream_t stream, const Describe& describe, plaitRedOp_t op = plaitSum) {
  return CallGroup::at_edge(function, [&] {
    check_handle(comm);
    refuse_device(comm, function);
    CallByCounts made = describe();
    CollectiveCall call{function, comm, made.call, input, output, stream};
    call.blocks = std::make_shared<const BufferBlocks>(std::move(made.blocks));
    issue_collective(std::move(call), op);
  });
}

}  // namespace
}  // namespace plait::c

using namespace plait::c;
using plait::Call;
using plait::Collective;
using plait::ReduceOp;

extern "C" plaitResult_t plaitAllGatherv(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                         const size_t* rdispls, plaitDataType_t datatype, plaitComm_t comm,
                                         plaitStream_t stream) {
  return issue_by_counts("plaitAllGatherv", comm, sendbuff, recvbuff, stream, [&] {
    const Call call{Collective::kAllGather, data_type(datatype), ReduceOp::kSum, 0, 0};
    return call_by_counts(call, comm->size, comm->rank, {},
                          CountArrays{recvcounts, rdispls, "recvcounts"}.of(comm->size));
  });
}

extern "C" plaitResult_t plaitReduceScatterv(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                             const size_t* sdispls, plaitDataType_t datatype, plaitRedOp_t op,
                                             plaitComm_t comm, plaitStream_t stream) {
  return issue_by_counts(
      "plaitReduceScatterv", comm, sendbuff, recvbuff, stream,
      [&] {
        const Call call{Collective::kReduceScatter, data_type(datatype), reduce_op(op), 0, 0};
        return call_by_counts(call, comm->size, comm->rank,
                              CountArrays{recvcounts, sdispls, "recvcounts"}.of(comm->size), {});
      },
      op);
}

extern "C" plaitResult_t plaitGatherv(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                                      const size_t* rdispls, plaitDataType_t datatype, int root, plaitComm_t comm,
                                      plaitStream_t stream) {
  return issue_by_counts("plaitGatherv", comm, sendbuff, recvbuff, stream, [&] {
    const Call call{Collective::kGather, data_type(datatype), ReduceOp::kSum, root, 0};
    const CountArrays got{recvcounts, rdispls, "recvcounts"};
    return call_by_counts(call, comm->size, comm->rank, {{&sendcount, 1}},
                          comm->rank == root ? got.of(comm->size) : plait::BlockCounts{});
  });
}

extern "C" plaitResult_t plaitScatterv(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                       void* recvbuff, size_t recvcount, plaitDataType_t datatype, int root,
                                       plaitComm_t comm, plaitStream_t stream) {
  return issue_by_counts("plaitScatterv", comm, sendbuff, recvbuff, stream, [&] {
    const Call call{Collective::kScatter, data_type(datatype), ReduceOp::kSum, root, 0};
    const CountArrays given{sendcounts, sdispls, "sendcounts"};
    return call_by_counts(call, comm->size, comm->rank,
                          comm->rank == root ? given.of(comm->size) : plait::BlockCounts{}, {{&recvcount, 1}});
  });
}

extern "C" plaitResult_t plaitAlltoAllv(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                        void* recvbuff, const size_t* recvcounts, const size_t* rdispls,
                                        plaitDataType_t datatype, plaitComm_t comm, plaitStream_t stream) {
  return issue_by_counts("plaitAlltoAllv", comm, sendbuff, recvbuff, stream, [&] {
    const Call call{Collective::kAllToAll, data_type(datatype), ReduceOp::kSum, 0, 0};
    return call_by_counts(call, comm->size, comm->rank, CountArrays{sendcounts, sdispls, "sendcounts"}.of(comm->size),
                          CountArrays{recvcounts, rdispls, "recvcounts"}.of(comm->size));
  });
}

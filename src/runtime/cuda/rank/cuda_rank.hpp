// One rank of the CUDA runtime: makes calls ready and launches them.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "base/wait_limits.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/cuda/memory/peer_memory.hpp"
#include "runtime/cuda/zero_copy/copy_program.hpp"
#include "runtime/cuda/zero_copy/zero_copy_messages.hpp"
#include "runtime/peer_message.hpp"
#include "runtime/premul_scalar.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {

class PreparedLaunch;

class CudaRank {
 public:
  struct Options {
    WaitLimits waits;
    bool pdl = true;  // where the GPU and the driver can
    int max_sms =
        0;  // SMs that copies, reduces, messages and products may keep busy, besides prepared launches; 0: all
  };

  // Bytes of GPU memory that every rank must share with the others: the `bytes` of the PeerMemory.
  static size_t block_bytes();

  // The same of host memory that all ranks reach, if there is any.
  static size_t host_block_bytes();

  // `memory` is block_bytes() large and zero, and `host_memory` host_block_bytes(). `state` names this rank's calls to
  // the others and keeps the failure that ends the communicator; it must outlive this.
  CudaRank(PeerMemory memory, std::optional<PeerMemory> host_memory, CommunicatorState& state, int rank, int ranks,
           Options options);
  // Waits until the GPU is done with all calls. Memory is freed when no call of the process is under way.
  ~CudaRank();
  CudaRank(const CudaRank&) = delete;
  CudaRank& operator=(const CudaRank&) = delete;

  const PeerMemory& memory() const;
  size_t device_bytes() const;
  bool has_host_memory() const;

  // The limits that a plan is bound with for this shape, and for its HostPath.
  static BindLimits limits(const LaunchShape& shape, const Plan& plan);
  static BindLimits host_limits(const LaunchShape& shape, const Plan& plan);
  // Bytes of a channel, for an epoch, that packets or lines may take with their flags.
  static size_t ll_bytes(Protocol protocol);
  // Throws as PreparedLaunch(), which says what `ending` is.
  std::shared_ptr<PreparedLaunch> prepare(const BoundPlan& bound, const BoundPlan* ending, const Call& call,
                                          const LaunchShape& shape) const;
  // What prepare() throws on `rank`, which may be another one, but for the room on its GPU: `bound` is for that rank.
  void check_launch(const BoundPlan& bound, const Call& call, const LaunchShape& shape, int rank) const;
  // Of the HostPath of `shape`, to run beside `main`.
  std::shared_ptr<PreparedLaunch> prepare_host(const BoundPlan& bound, const Call& call, const LaunchShape& shape,
                                               const PreparedLaunch& main) const;

  // Launches on `stream` (a cudaStream_t), and what goes through host memory, if anything does, beside that. Throws
  // what ended the communicator, or kSystem where CUDA refuses. Where there is a scalar, the input is multiplied by it
  // before.
  void enqueue(PreparedLaunch& prepared, PreparedLaunch* host_path, const void* input, void* output, void* stream,
               const Scalar* scalar = nullptr);
  // A call without elements, for which nothing is launched: others may call with some.
  void announce_empty(const Call& call, void* stream);

  // A call that can be performed straight from buffer to buffer, in the three steps of zero_copy_calls.hpp. All ranks
  // have to agree to that, and to come within `timeout` of each other; false on all of them where that is not so, and
  // nothing has happened then. So all have to propose it, also who will not do it (`willing`). `program` and
  // `host_path` live until the last step. Throws as enqueue().
  bool propose_copies(const CopyProgram& program, PreparedLaunch* host_path, const void* input, void* output,
                      void* stream, bool willing);
  bool meet_for_copies(std::chrono::nanoseconds timeout);
  bool enqueue_copies();
  // Calls and exchanges so far that were enqueued so, and allocations of other processes that are mapped for it at the
  // moment.
  uint64_t zero_copy_calls() const;
  size_t mapped_buffers() const;

  // Sends and receives on memory of the GPU, in the order of streams[0]; the other streams wait like it, and go on with
  // it. `messages` have passed check_messages(); routes[m]: of messages[m], or none where all go through inboxes. All
  // three live until they are enqueued. In steps, as calls: true where that was the last one. Throws as enqueue().
  bool start_p2p(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes,
                 std::span<void* const> streams);
  bool advance_p2p();

  // Waits until the GPU is done with all calls but those of graphs. Throws kSystem where the GPU has failed.
  void finish();
  // Ends the communicator where a kernel has given up by now, or ranks have made different calls. From any thread.
  void look_at_reports();
  // Ends kernels that wait, soon. The host's failure record says why.
  void stop_waiting();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plait

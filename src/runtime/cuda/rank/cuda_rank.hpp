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
    bool pdl = true;  // if the GPU and the driver support it
    // How many SMs copies, reduces, messages and products may keep busy; 0: all. For other launches see LaunchShape.
    int max_sms = 0;
    // CTAs of the persistent kernel for blocking calls; 0: there is none. It leaves after so long without a call.
    int persistent_ctas = 0;
    std::chrono::microseconds persistent_idle{};
  };

  // Bytes of GPU memory that every rank must share with the others: the `bytes` of the PeerMemory.
  static size_t block_bytes();
  // The same for host memory that all ranks share, if there is any.
  static size_t host_block_bytes();

  // Throws kSystem if the device cannot be used, for example because the library has no kernels for it.
  static void check_device(int device);

  // `memory` is zeroed and has block_bytes(), `host_memory` likewise host_block_bytes(). `state` announces this rank's
  // calls to the others and keeps the failure that ends the communicator; it must outlive this.
  CudaRank(PeerMemory memory, std::optional<PeerMemory> host_memory, CommunicatorState& state, int rank, int ranks,
           Options options);
  // Waits until the GPU is done with all calls. The memory is freed later, when no call of the process is under way.
  ~CudaRank();
  CudaRank(const CudaRank&) = delete;
  CudaRank& operator=(const CudaRank&) = delete;

  const PeerMemory& memory() const;
  size_t device_bytes() const;
  bool has_host_memory() const;

  // The limits for binding a plan to this shape, and to its HostPath.
  static BindLimits limits(const LaunchShape& shape, const Plan& plan);
  static BindLimits host_limits(const LaunchShape& shape, const Plan& plan);
  // How many bytes, flags included, LL or LL128 may use in a channel during an epoch.
  static size_t ll_bytes(Protocol protocol);
  // Throws as PreparedLaunch(), which also explains `ending`.
  std::shared_ptr<PreparedLaunch> prepare(const BoundPlan& bound, const BoundPlan* ending, const Call& call,
                                          const LaunchShape& shape) const;
  // Throws what prepare() would throw on `rank`, except that it does not check for room on the GPU. `bound` is for
  // `rank`.
  void check_launch(const BoundPlan& bound, const Call& call, const LaunchShape& shape, int rank) const;
  // Prepares the launch of the HostPath of `shape`, which runs concurrently with `main`.
  std::shared_ptr<PreparedLaunch> prepare_host(const BoundPlan& bound, const Call& call, const LaunchShape& shape,
                                               const PreparedLaunch& main) const;
  static LaunchGrid grid_of(const PreparedLaunch& prepared);

  // Launches a call on `stream` (a cudaStream_t), and its host path, if there is one, concurrently. If there is a
  // scalar, the input is first multiplied by it. Throws the error that ended the communicator, or kSystem if CUDA
  // refuses.
  void enqueue(PreparedLaunch& prepared, PreparedLaunch* host_path, const void* input, void* output, void* stream,
               const Scalar* scalar = nullptr);
  // Blocking calls. Whether the persistent kernel can perform such a launch here; other ranks may launch it.
  bool can_perform(const PreparedLaunch& prepared) const;
  // Performs a call by that kernel, after all earlier calls. Returns when its result is there. Throws as enqueue(), and
  // the failure of this call; then the communicator has ended.
  void perform(PreparedLaunch& prepared, const void* input, void* output);
  // Announces a call without elements, for which nothing is launched: the other ranks' calls may have elements.
  void announce_empty(const Call& call, void* stream);

  // A zero-copy call, in the steps of an agreement (runtime/agreement.hpp). All ranks have to agree on it, and to come
  // within `timeout` of each other. So every rank has to propose it, even one that does not want it (`willing`). False:
  // an agreement is not tried. `program` and `host_path` must live until the last step. Throws as enqueue().
  bool propose_copies(const CopyProgram& program, PreparedLaunch* host_path, const void* input, void* output,
                      void* stream, bool willing);
  // Takes the next step: votes, then commits and enqueues the copies. The result is the same on all ranks.
  enum class CopyStep { kVoted, kEnqueued, kNotAgreed };  // kNotAgreed: nothing has been enqueued
  CopyStep advance_copies(std::chrono::nanoseconds timeout);
  // How many zero-copy calls and exchanges were enqueued so far, and how many allocations of other processes are mapped
  // for them at the moment.
  uint64_t zero_copy_calls() const;
  uint64_t served_calls() const;  // by the persistent kernel
  size_t mapped_buffers() const;

  // Sends and receives in GPU memory, in steps, as for calls. They run on streams[0], which first waits for the other
  // streams; these wait until they are done. `messages` have passed check_messages(). routes[m] belongs to messages[m];
  // no routes: all messages go through FIFOs. All three must live until the last step. True: that was the last step.
  // Throws as enqueue().
  bool start_p2p(std::span<const PeerMessage> messages, std::span<const MessageRoute> routes,
                 std::span<void* const> streams);
  bool advance_p2p();

  // Waits until the GPU is done with all calls except those in graphs. Throws kSystem if the GPU has failed.
  void finish();
  // Ends the communicator if a kernel has given up or ranks have made different calls. Any thread.
  void poll_reports();
  // Makes kernels that wait give up soon. The host's failure record says why.
  void stop_waiting();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plait

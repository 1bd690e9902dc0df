// The one object that users hold: a rank's end of a communicator. The C, C++ and Python interfaces wrap it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/reductions.hpp"
#include "base/settings.hpp"
#include "plan/verifier.hpp"
#include "runtime/buffer_blocks.hpp"
#include "runtime/call.hpp"
#include "runtime/peer_message.hpp"
#include "runtime/premul_scalar.hpp"
#include "runtime/segment_identity.hpp"
#include "runtime/unique_id.hpp"
#include "topology/topology.hpp"
#include "tuner/choice.hpp"

namespace plait {

class Hosts;
class ReduceDevice;
class Tuner;

// The `device` of a rank whose buffers are in host memory only.
inline constexpr int kNoDevice = -1;

// Collectives over ranks of one host or of several. All ranks make the same calls in the same order, each rank from one
// thread at a time. Counts are elements. Buffers may have any alignment (on GPUs, that of their elements). Input and
// output are either apart or exactly in place. In place they are equal, but input = output + rank * count for
// all_gather and gather, and output = input + rank * count for reduce_scatter and scatter. A call with a count of 0 is
// made by all ranks like any other, but moves nothing and waits for nobody. Results are equal bit for bit on all ranks
// and from run to run.
//
// Errors: kInvalidArgument before anything happened; kMismatch, kPeerFailed and kTimeout end the communicator for all
// ranks, and every later call throws the same again.
class Communicator {
 public:
  // Rank 0 of a new communicator passes the rendezvous whose id() the other ranks got. `device` is the CUDA ordinal of
  // the GPU whose memory enqueue() will take. All ranks have one, or none has; several ranks may share a GPU.
  // `interrupt_check` is called while the ranks meet, and later as set_interrupt_check() says.
  static Communicator create(RendezvousPoint point, int size, const Settings& settings, int device = kNoDevice,
                             InterruptCheck interrupt_check = {});
  // For the other ranks, and for rank 0 if the id was released in this process (see unique_id.hpp).
  static Communicator create(const UniqueId& id, int rank, int size, const Settings& settings, int device = kNoDevice,
                             InterruptCheck interrupt_check = {});
  // Takes rank and size from the launcher (`plait run`, torchrun, mpirun, srun); without one it makes a communicator of
  // one rank. `sequence` tells several communicators of one job apart: 0, 1, 2, … on every rank.
  static Communicator from_environment(const Settings& settings, uint64_t sequence = 0, int device = kNoDevice,
                                       InterruptCheck interrupt_check = {});
  // Makes all ranks in this process, each for a thread of its own.
  static std::vector<Communicator> in_process(int size, const Settings& settings);
  // The same with GPUs: rank r on devices[r]. One thread may drive several of them by enqueue() and enqueue_p2p(), or
  // in steps (start_enqueue()). Long calls of ranks that share a thread are zero-copy only in steps.
  static std::vector<Communicator> in_process(std::span<const int> devices, const Settings& settings);

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  int rank() const;
  int size() const;
  int device() const;  // kNoDevice if it has none
  const Settings& settings() const;
  // The hosts that the ranks are on.
  const Hosts& hosts() const;
  // Equal for the ranks of one communicator that are on one host, and different for those of others.
  const SegmentIdentity& identity() const;

  // Reduces `count` elements of every rank's input; every rank gets all of it.
  void all_reduce(const void* input, void* output, size_t count, DataType type, ReduceOp op);
  // As all_reduce, but only `root` gets the result; `output` of other ranks is not touched and may be null.
  void reduce(const void* input, void* output, size_t count, DataType type, ReduceOp op, int root);
  // `output` of every rank becomes the input of `root`; the input of other ranks is not looked at and may be null.
  void broadcast(const void* input, void* output, size_t count, DataType type, int root);
  // Reduces size() * count elements; rank r gets the r-th `count` of them.
  void reduce_scatter(const void* input, void* output, size_t count, DataType type, ReduceOp op);
  // Every rank gives `count` elements; every rank gets all, in the order of ranks.
  void all_gather(const void* input, void* output, size_t count, DataType type);
  // Every rank gives `count` elements; `root` gets all, in the order of ranks. `output` of other ranks may be null.
  void gather(const void* input, void* output, size_t count, DataType type, int root);
  // `root` gives size() * count elements; rank r gets the r-th `count`. `input` of other ranks may be null.
  void scatter(const void* input, void* output, size_t count, DataType type, int root);
  // Every rank gives size() * count elements, the r-th `count` to rank r, and gets `count` from each, in their order.
  void all_to_all(const void* input, void* output, size_t count, DataType type);
  // Returns when every rank has called it.
  void barrier();

  // The same with blocks of unequal sizes, on host memory. Counts may be 0. Displacements are elements from the start
  // of the buffer to a block; without them, each block follows the one before it. Blocks of an output do not overlap.
  // In place, the own block lies where it does in the other buffer. The buffers of all_to_all_v are then equal, with
  // equal counts and displacements, and the input is copied first. kMismatch, on all ranks, if ranks count differently.

  // Rank r gives counts[r] elements; every rank gets all, block r from rank r. All ranks give the same counts.
  void all_gather_v(const void* input, void* output, const BlockCounts& counts, DataType type);
  // Reduces the blocks of every rank's input; rank r gets block r. All ranks give the same counts.
  void reduce_scatter_v(const void* input, void* output, const BlockCounts& counts, DataType type, ReduceOp op);
  // Every rank gives `count` elements; `root` gets block r from rank r. Only the root's `counts` are looked at.
  void gather_v(const void* input, size_t count, void* output, const BlockCounts& counts, DataType type, int root);
  // `root` gives block r to rank r, which gets `count` elements. Only the root's `counts` are looked at.
  void scatter_v(const void* input, const BlockCounts& counts, void* output, size_t count, DataType type, int root);
  // Every rank gives its block r to rank r, and gets block r from rank r. No rank knows the counts of others.
  void all_to_all_v(const void* input, const BlockCounts& given, void* output, const BlockCounts& received,
                    DataType type);

  // Runs any of the above. `scalar`, for sums: this rank's input is multiplied by it first (a pre-multiplied sum).
  // Every rank has its own; none counts as 1. The input is written in place only. Products that cannot lie in the
  // output need memory: if there is none, the call throws kResources before anything happened on this rank.
  void run(const Call& call, const void* input, void* output, const Scalar* scalar = nullptr);
  // The same with buffers of a GPU, which performs the reduces of the call's plan while this thread does all else
  // (HostRank::run). The device has mapped shared_memory(). When this throws, requests may still be under way.
  void run(const Call& call, const void* input, void* output, ReduceDevice& device);
  // Whether the call's plan fits into scratch so.
  bool has_room_to_drive(const Call& call);
  // Whether messages of such a call may be between GPU buffers. The same on all ranks.
  bool network_reaches_gpus() const;
  std::shared_ptr<std::byte> shared_memory() const;  // shared_bytes() that the ranks of this host share
  // Runs any by counts: call_by_counts() makes the call and the blocks.
  void run_by_counts(const CallByCounts& call, const void* input, void* output, const Scalar* scalar = nullptr);

  // Gives a plan of the caller's own. Calls that name it by its fingerprint (Call::plan) run it in place of the choice.
  // At least the last 256 plans are kept. Ranks that name different plans get kMismatch. Throws kInvalidArgument if the
  // plan is for another number of ranks, or if these ranks cannot perform it. GPUs perform fewer plans than CPUs do,
  // and whether a zero-copy plan can run there shows only in the call.
  void give(std::shared_ptr<const VerifiedPlan> plan);
  bool knows_plan(uint64_t fingerprint) const;
  // Gives and runs a plan. Collective and root are the plan's. `op`: reducing collectives only.
  void run(std::shared_ptr<const VerifiedPlan> plan, const void* input, void* output, size_t count, DataType type,
           ReduceOp op = ReduceOp::kSum);

  // Sends and receives several messages at once (see runtime/peer_message.hpp). Returns when all sent data has left its
  // buffers and all received data is there. Only the named ranks take part. Messages of one exchange do not wait for
  // each other, except for those of one kind with the same peer. Messages and collectives do not wait for each other
  // either. If the two ends of a message have different sizes, both ranks get kMismatch. `is_wanted`, if it is given,
  // is asked in long waits, which can time out only while it says yes: for receives that may never be needed.
  void exchange(std::span<const PeerMessage> messages, const WantedCheck& is_wanted = {});
  // Sends one message to another rank. It may return before the other rank receives, if the message is small; do not
  // rely on that. Two ranks that send to each other use exchange().
  void send(const void* data, size_t count, DataType type, int peer);
  // Receives one message from another rank.
  void receive(void* data, size_t count, DataType type, int peer);

  // run() on memory of this rank's GPU, in the order of `stream` (a cudaStream_t of that GPU; null: the default
  // stream). Returns when the call is enqueued. Long zero-copy calls may wait a little for other ranks first
  // (docs/gpu/zero_copy.md). CUDA graphs can capture it, unless ranks are on several hosts. Errors on the GPU show in
  // async_error() and in the next call. Calls of one communicator on several streams run one after the other. Any
  // thread may call it, one at a time. A scalar on the GPU is read when the call runs.
  //
  // With kBlockingStream in the place of a stream, on all ranks, the call runs after all earlier calls of this
  // communicator. It returns when the result is there, and throws what went wrong. The input must be there when it is
  // called. Short calls are performed by a persistent kernel (docs/gpu/blocking_calls.md).
  void enqueue(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar = nullptr);
  // exchange() on memory of this rank's GPU, as enqueue(), with ranks of one host. With several streams, it begins when
  // all have come to it, and all go on when it is done.
  void enqueue_p2p(std::span<const PeerMessage> messages, std::span<void* const> streams);
  // The same two in steps, for one thread that makes calls of several ranks. They return true if the call is enqueued.
  // Otherwise call advance() until it returns true or throws, and leave all arguments in place until then. All ranks of
  // the thread take each step before any takes the next, so that none waits for another rank of its own thread.
  bool start_enqueue(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar = nullptr);
  bool start_p2p(std::span<const PeerMessage> messages, std::span<void* const> streams);
  bool advance();
  // Waits until this rank's GPU is done with all calls, except those of graphs. Their failures are then in
  // async_error(). Throws kSystem if the GPU itself has failed.
  void finish();
  // Leaves the communicator; no call may follow. Calls finish(), then compares the calls of all ranks: throws kMismatch
  // if ranks have made other calls, or more or fewer. This is the only check of calls in which no rank waited for
  // another, such as broadcasts in which each rank is the root. Waits up to a second for ranks that have not come to
  // this rank's last calls. The destructor does the same without that wait, and logs what this throws. It may be
  // repeated.
  void close();
  // The failure that ended the communicator, if one did. Any thread may ask. A failure of a call on a GPU is known once
  // its stream has passed the call.
  std::optional<Error> async_error() const;

  // How another rank has gone: "rank 3 (process 77) has died; of collectives, rank 3 last completed call 5, barrier,
  // …". Empty while it is there. One of another host that dies ends the communicator: async_error() tells. Any thread
  // may ask.
  std::string departure(int rank) const;

  // The machine on which all ranks agreed and for which plans are chosen: the one they found, or that of
  // PLAIT_TOPOLOGY.
  const Topology& topology() const;
  // The rate of the network between its hosts, by which plans are chosen, and its source: "0.12 GB/s each way of a
  // host, measured". It changes once, where it is measured. Empty on one host.
  std::string network() const;
  // The ranks that NVLink joins to each other, lowest first. Without GPUs, all ranks of a node.
  std::vector<std::vector<int>> groups() const;

  // The tuner chooses the plans of this communicator.
  Tuner& tuner() const;
  // The verified plan that a call runs, and the reason of the choice. On GPUs, launch_for() may name another plan for
  // the last slices of a message.
  const VerifiedPlan& plan_for(const Call& call);
  std::string reason_for(const Call& call);

  // Ends the calls of all ranks, now and later, with an error. Any thread may call it.
  void abort(const std::string& reason);
  // The same with the failure of another communicator, for calls on host memory.
  void abort(const Error& failure);

  // Calls `check` some 20 times a second while this rank waits for others, so that interpreters hear Ctrl-C. An
  // exception of `check` ends the call here, and the communicator for all ranks.
  void set_interrupt_check(InterruptCheck check);

  // The launch of a call on the GPU: "16 channels, 32 CTAs of 512 threads, Simple".
  std::string launch_for(const Call& call);

  // The number of zero-copy calls so far, and of allocations of other processes that are mapped for them now.
  uint64_t zero_copy_calls() const;
  // How many blocking calls a persistent kernel has performed on this rank's GPU.
  uint64_t served_calls() const;
  size_t mapped_buffers() const;

  // Bytes of shared memory that the whole communicator uses.
  size_t shared_bytes() const;
  // Bytes of memory that this rank's GPU holds for the communicator.
  size_t device_bytes() const;

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);

  static std::vector<Communicator> in_process(int size, const Settings& settings, bool beside_gpus);
  // Makes it ready for calls on GPUs that CPUs perform, where it has such. Collective.
  void add_lanes(int device);
  // The same for all ranks of this process.
  static void add_lanes(std::vector<Communicator>& ranks, std::span<const int> devices);

  std::unique_ptr<Impl> impl_;
};

}  // namespace plait

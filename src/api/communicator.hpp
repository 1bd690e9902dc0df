// The one object that users hold: a rank's end of a communicator. The C, C++ and Python interfaces are shapes of it.
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
#include "runtime/call.hpp"
#include "runtime/peer_message.hpp"
#include "runtime/premul_scalar.hpp"
#include "runtime/segment_identity.hpp"
#include "runtime/unique_id.hpp"
#include "topology/topology.hpp"
#include "tuner/choice.hpp"

namespace plait {

// The `device` of a rank whose buffers are in host memory only.
inline constexpr int kNoDevice = -1;

// Collectives over ranks of one host. All ranks make the same calls in the same order, each rank from one thread at a
// time. Counts are elements. Buffers may have any alignment (on GPUs, that of their elements); input and output are
// either apart or exactly in place (equal; for all_gather and gather input = output + rank * count, for reduce_scatter
// and scatter output = input + rank
// * count). A count of 0 takes part like any other. Results are equal bit for bit on all ranks and from run to run.
//
// Errors: kInvalidArgument before anything happened; kMismatch, kPeerFailed and kTimeout end the communicator for all
// ranks, and every later call throws the same again.
class Communicator {
 public:
  // Rank 0 of a new communicator hands over the point whose id() the other ranks got. `device` is the CUDA ordinal of
  // the GPU whose memory enqueue() will be given; all ranks have one, or none has. Several ranks may share a GPU.
  // `interrupt_check` is heard while the ranks meet, and later as set_interrupt_check() says.
  static Communicator create(RendezvousPoint point, int size, const Settings& settings, int device = kNoDevice,
                             InterruptCheck interrupt_check = {});
  // The other ranks; also rank 0 where the id was released in this process (see unique_id.hpp).
  static Communicator create(const UniqueId& id, int rank, int size, const Settings& settings, int device = kNoDevice,
                             InterruptCheck interrupt_check = {});
  // Rank and size from the launcher (`plait run`, torchrun, mpirun, srun), else a communicator of one. `sequence` tells
  // apart several communicators of one job: 0, 1, 2, … on every rank.
  static Communicator from_environment(const Settings& settings, uint64_t sequence = 0, int device = kNoDevice,
                                       InterruptCheck interrupt_check = {});
  // All ranks in this process, one for each thread to come.
  static std::vector<Communicator> in_process(int size, const Settings& settings);
  // The same with GPUs: rank r on devices[r]. One thread may drive several of them by enqueue() and enqueue_p2p(),
  // or in steps (start_enqueue()), without which long calls of ranks that share a thread do not go straight.
  static std::vector<Communicator> in_process(std::span<const int> devices, const Settings& settings);

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  int rank() const;
  int size() const;
  int device() const;  // kNoDevice where it has none
  const Settings& settings() const;
  // Equal for the ranks of one communicator, and different for those of others.
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

  // Any of the above. `scalar`, for sums: this rank's input is multiplied by it first (a pre-multiplied sum). Every
  // rank has its own, and one without counts as 1. Only in place is the input written: products that may not lie in the
  // output need memory, and where there is none the call throws kResources before anything happened on this rank.
  void run(const Call& call, const void* input, void* output, const Scalar* scalar = nullptr);

  // Plans of the caller's own. give() has all calls that name this one by its fingerprint (Call::plan) run it, instead
  // of what would be chosen; the last 256 are kept, at least. Ranks that name different plans get kMismatch. Throws
  // kInvalidArgument where it is for another number of ranks, or not of a form that these ranks perform: those on GPUs
  // perform less, and which calls go straight from buffer to buffer (Access::kZeroCopy) only shows when one is made.
  void give(std::shared_ptr<const VerifiedPlan> plan);
  bool knows_plan(uint64_t fingerprint) const;
  // Runs one: collective and root are the plan's. `op`: reducing collectives only.
  void run(std::shared_ptr<const VerifiedPlan> plan, const void* input, void* output, size_t count, DataType type,
           ReduceOp op = ReduceOp::kSum);

  // Sends and receives together (see runtime/peer_message.hpp): returns when what is sent has been taken out of its
  // buffer and what is received is there. Only the ranks that are named take part. Those of one exchange do not wait
  // for each other, except for those of one kind with the same peer. Messages and collectives do not wait for each
  // other either. Ends of other sizes are kMismatch, on both ranks.
  void exchange(std::span<const PeerMessage> messages);
  // One message to another rank. Small ones may be sent before the other rank receives; of others, do not rely on it:
  // where two ranks send to each other, exchange() them.
  void send(const void* data, size_t count, DataType type, int peer);
  // One message from another rank.
  void receive(void* data, size_t count, DataType type, int peer);

  // The same on memory of this rank's GPU, in the order of `stream` (a cudaStream_t of that GPU; null: the default
  // stream): returns when it is enqueued, for which long calls that go straight from buffer to buffer may wait a little
  // for other ranks to come (docs/gpu/zero_copy.md). Capturable in CUDA graphs. What goes wrong on the GPU shows in
  // async_error() and in the next call. The calls of one communicator on several streams run one after the other. Any
  // thread, one at a time. A scalar on the GPU is read when the call runs.
  void enqueue(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar = nullptr);
  // exchange() on memory of this rank's GPU, as enqueue(). Where there are several streams, it begins when all have
  // come to it, and all go on when it is done.
  void enqueue_p2p(std::span<const PeerMessage> messages, std::span<void* const> streams);
  // The same two in steps, for who makes calls of several ranks on one thread. True: it is enqueued. Else advance() is
  // to be called until it is, or throws, and everything that was given to this stays where it is. All ranks of the
  // thread take each step before any takes the next, so that none waits for another that its own thread has not come
  // to.
  bool start_enqueue(const Call& call, const void* input, void* output, void* stream, const Scalar* scalar = nullptr);
  bool start_p2p(std::span<const PeerMessage> messages, std::span<void* const> streams);
  bool advance();
  // Waits until this rank's GPU is done with all calls but those of graphs; what they fail of is then in async_error().
  // Throws kSystem where the GPU itself has failed.
  void finish();
  // Leaves: no call may follow. finish(), and then the only check of calls in which no rank waited for another, such as
  // broadcasts in which each rank is the root: throws kMismatch where ranks have made other calls, or left after more
  // or fewer. Waits for others who have not come to this rank's last calls, but for a second only. The destructor does
  // the same without that wait, and logs what this throws. May be repeated.
  void close();
  // The failure that ended the communicator, if one did. From any thread. Of calls on a GPU that a stream has come past
  // it is known.
  std::optional<Error> async_error() const;

  // The machine that choices are made for, as all ranks agreed on it: what they found, or what PLAIT_TOPOLOGY names.
  // With GPUs it is theirs.
  const Topology& topology() const;
  // Ranks that NVLink joins to each other, lowest first; all ranks of a node where none are GPUs.
  std::vector<std::vector<int>> groups() const;

  // What a call runs: the verified plan, and why it was chosen. On GPUs, for all but the last slices of a message,
  // where launch_for() names another plan for these.
  const VerifiedPlan& plan_for(const Call& call);
  std::string reason_for(const Call& call);

  // Ends the calls of all ranks, now and later, with an error. Safe from any thread.
  void abort(const std::string& reason);

  // Calls `check` some 20 times a second while this rank waits for others. What it throws ends the call here, and the
  // communicator for all ranks: for interpreters that want to hear Ctrl-C.
  void set_interrupt_check(InterruptCheck check);

  // How a call on the GPU is launched: "16 channels, 32 CTAs of 512 threads, Simple".
  std::string launch_for(const Call& call);

  // Calls so far whose data went straight from buffer to buffer, and how many allocations of other
  // processes this rank has mapped for them at the moment.
  uint64_t zero_copy_calls() const;
  size_t mapped_buffers() const;

  // Bytes of shared memory that the whole communicator uses.
  size_t shared_bytes() const;
  // Bytes of memory that this rank's GPU holds for the communicator.
  size_t device_bytes() const;

 private:
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);

  static std::vector<Communicator> in_process(int size, const Settings& settings, bool beside_gpus);

  std::unique_ptr<Impl> impl_;
};

}  // namespace plait

// One rank of the host runtime. It performs bound plans and exchanges messages, with ranks of its node on shared memory
// and with others over the network.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/settings.hpp"
#include "base/wait_limits.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/host/core_share.hpp"
#include "runtime/host/epoch_rooms.hpp"
#include "runtime/host/fork_mark.hpp"
#include "runtime/host/message_train.hpp"
#include "runtime/host/other_nodes.hpp"
#include "runtime/host/p2p.hpp"
#include "runtime/host/peers.hpp"
#include "runtime/host/plan_messages.hpp"
#include "runtime/host/reduce.hpp"
#include "runtime/host/segment.hpp"
#include "runtime/host/store_trial.hpp"
#include "runtime/host/watch.hpp"
#include "runtime/reduce_device.hpp"
#include "runtime/waiting.hpp"

namespace plait {

class HostRank {
 public:
  struct Options {
    WaitLimits waits;
    WaitPolicy wait_policy = WaitPolicy::kAuto;
    bool crowded = false;  // ranks outnumber cores
  };

  // `others`: the ranks on other nodes, if there are any.
  HostRank(std::shared_ptr<Segment> segment, int rank, Peers peers, Options options,
           std::unique_ptr<OtherNodes> others = nullptr);
  // Leaves as close() does, but at once, and logs what close() would throw.
  ~HostRank();
  HostRank(const HostRank&) = delete;
  HostRank& operator=(const HostRank&) = delete;

  // Performs one call. Every rank performs the same calls in the same order. Throws kMismatch, kPeerFailed or kTimeout
  // on every rank that still waits. After that the communicator is unusable, and every call throws the same error.
  void run(const BoundPlan& bound, const Call& call, const void* input, void* output);

  // The same with buffers of a GPU, which performs the reduces; this thread is its proxy (NVG-54). The plan
  // can_be_driven() and is bound with BindLimits::host_apart. All ranks make this call so. The device has mapped this
  // rank's segment. When this throws, requests may still be under way.
  void run(const BoundPlan& bound, const Call& call, const void* input, void* output, ReduceDevice& device);

  // Whether plans that drive a GPU may send from its memory and receive there. The same on all ranks.
  bool network_reaches_gpus() const { return others_ && others_->reach_gpus(); }

  // Sends and receives messages that check_messages() accepts. Only the ranks that they name take part. Throws as run()
  // does. The wait for them can time out only while `is_wanted`, if it is given, says yes.
  void exchange(std::span<const PeerMessage> messages, const WantedCheck& is_wanted = {});

  // Measures the network, before a call that `call` is otherwise: sends a train of so many bytes to a rank of another
  // host, and gets one from such a rank. `to` is -1 on ranks that take no part. All ranks make this call, and throw as
  // run() does.
  TrainTime exchange_train(const Call& call, int to, int from, size_t bytes);

  // Tells the others that this rank will make no more calls, on GPUs either, and checks that all ranks have made the
  // same calls. Waits a little for ranks that have not come to this rank's last calls. Throws as last_look.hpp says;
  // the rank has then left all the same. May be repeated.
  void close();

  // Throws what a call would throw at once: the failure that has ended the communicator, or kInvalidArgument if this
  // process was forked from the rank's or the rank has left.
  void check_usable() const;

  // As Watch::account_of_departure(). Safe from any thread.
  std::string departure(int peer) const { return watch_.account_of_departure(peer); }

  // Sets a check that is called about 20 times a second while this rank waits. If it throws, that ends the call here
  // and the communicator for all ranks. Interpreters use it to hear an interrupt.
  void set_interrupt_check(InterruptCheck check) { watch_.set_interrupt_check(std::move(check)); }

  // Ends all present and future calls of all ranks with this error. The first failure wins. Safe from any thread.
  void abort(ErrorCode code, const std::string& message);

 private:
  class QueueEngine;
  friend class QueueEngine;
  class DrivenEngine;
  class CallWait;
  class QueueWait;
  class ScratchWait;
  class TrainWait;
  enum class Progress {
    kNone,
    kAwaitsHosts,  // none, and only messages of other hosts can change that
    kSome,
    kDone,
  };

  // Calls run(slice, input, output) for each slice, in a call of its own.
  template <class RunSlice>
  void run_slices(const BoundPlan& bound, const Call& call, const void* input, void* output, const RunSlice& run);
  void run_slice(const BoundPlan& bound, const BoundSlice& slice, const Call& call, const std::byte* input,
                 std::byte* output);
  void drive_slice(const BoundPlan& bound, const BoundSlice& slice, const Call& call, const std::byte* input,
                   std::byte* output, ReduceDevice& device);
  PlanMessages::Turn begin_epoch(const BoundSlice& slice, const Call& call);
  void begin_messages(const BoundSlice& slice, const Call& call, const PlanMessages::Turn& turn,
                      const PlanMessages::Bases& bases);
  std::vector<std::byte*> bases_on_gpu(uint32_t room, const std::byte* input, std::byte* output,
                                       const ReduceDevice& device) const;
  void end_epoch(const BoundPlan& bound, uint64_t epoch);
  template <class Engine>
  void perform(const BoundPlan& bound, const BoundSlice& slice, const Call& call, Engine& engine);
  bool is_in_memory(const BoundOperation& operation) const;
  void look_at_cores(bool streams);
  int peers_on_this_core() const;
  bool is_elsewhere(int peer) const { return others_ && others_->has(peer); }
  // Calls `step`. If it throws, all messages to other nodes end, so that none is left in user buffers.
  template <class Step>
  void with_other_nodes(Step step);
  // Waits until all ranks have completed the epoch.
  void await_completion(uint64_t epoch, const Call& call);
  // Throws kMismatch if `peer`, which has completed the epoch of the stamp, has made other calls than this rank.
  void compare_calls(int peer, uint64_t stamp) const;
  void leave(double timeout_seconds);

  // Calls step() until it reports that all is done. While it reports no progress, waits, and now and then searches for
  // a reason with the Wait that reason() returns. `has_messages`: some may be under way to or from other hosts.
  template <class Step, class Reason>
  void wait_for(Step step, Reason reason, bool has_messages);
  // Pauses once, as Backoff does.
  bool pause(Backoff& backoff, Progress progress, double waited);

  std::shared_ptr<Segment> segment_;
  const int rank_;
  const int ranks_;
  Options options_;
  RankStatus& status_;
  Watch watch_;
  std::unique_ptr<OtherNodes> others_;  // null where all ranks are on one node
  PlanMessages messages_;
  P2p p2p_;
  const ForkMark fork_mark_;
  uint64_t call_number_ = 0;
  uint64_t calls_ = 0;  // fingerprint of all calls so far
  bool has_left_ = false;
  uint64_t epoch_ = 0;
  EpochRooms rooms_;
  // Of the last epochs that this rank has completed, as many as others may be behind. A power of two: a stamp's
  // remainder is then that of its epoch.
  uint64_t stamps_[std::bit_ceil(kRooms)] = {};
  uint64_t everyone_completed_ = 0;        // the last epoch that every rank is known to have completed
  std::vector<std::byte*> bases_[kRooms];  // see bound_plan.hpp
  std::vector<std::byte*> signals_[kRooms];
  std::vector<void*> pointers_;  // of the current reduce
  int core_ = -1;                // where this rank ran when its last call began
  bool shares_core_ = false;     // with a peer, as far as this rank has noticed
  CoreShare core_share_;         // with anything, of a rank that has others on other hosts
  bool one_core_ = false;        // all ranks ran on one core when this call began, and it streams
  StoreTrial stores_;            // to scratch of large rooms
  std::vector<int> next_;        // the next operation of every queue
};

}  // namespace plait

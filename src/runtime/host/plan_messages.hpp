// The messages of a plan, as one rank sends and receives them: to ranks of its host through inboxes in shared memory
// (inbox_shape.hpp), to others over the network.
//
// Both ends of a message know its size, each from what its own caller said. The receiver compares them before it takes
// anything, so that counts that do not match are an error on all ranks and never a write behind a buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/bound_plan.hpp"
#include "runtime/call.hpp"
#include "runtime/host/other_nodes.hpp"
#include "runtime/host/segment.hpp"
#include "runtime/host/store_trial.hpp"
#include "runtime/host/watch.hpp"

namespace plait {

class PlanMessages {
 public:
  // The segment, the watch and `others`, the ranks on other nodes if there are any, outlive this object.
  PlanMessages(const Segment& segment, int rank, const Watch& watch, OtherNodes* others);

  // A call, and the fingerprint of all calls up to it.
  struct Current {
    const Call& call;
    uint64_t number = 0;
    uint64_t calls = 0;
  };
  // The epoch of a slice, and its room (segment.hpp).
  struct Turn {
    uint64_t epoch = 0;
    uint32_t room = 0;
  };
  // Base pointers as in bound_plan.hpp, of which the first are of GPU memory.
  struct Bases {
    std::byte* const* pointers = nullptr;
    uint32_t of_gpu = 0;
  };
  // Begins the messages of one slice. Arguments live until all have been sent.
  void begin(const BoundSlice& slice, const Current& current, const Turn& turn, const Bases& bases);

  // Both return at once, and tell advance_queue() whether the queue may go on. receive() throws kMismatch for all
  // ranks if the ends of the message differ in size.
  bool send(const BoundOperation& operation);
  bool receive(const BoundOperation& operation);
  // Moves a part of what is being sent to ranks of this host.
  void progress();
  // Whether anything has moved through an inbox since this was last asked.
  bool has_moved() { return std::exchange(has_moved_, false); }
  // Whether a receiver on this host has to make room first.
  bool is_sending_in_memory() const { return !sending_.empty(); }
  // Whether the memory of sends is no longer in use.
  bool has_sent_all() const;
  // After connections to other nodes were cut: no message is left in the memory of callers.
  void give_up();

 private:
  struct Transfer {
    NetRequest request;                       // over the network
    const BoundOperation* sending = nullptr;  // through an inbox, until all of it is there
    size_t moved = 0;                         // bytes
    uint64_t slots = 0;                       // filled or copied
    std::vector<std::byte> copy = {};         // of what may be overwritten before it has left
  };

  std::byte* address_of(const BoundPlace& place) const { return bases_.pointers[place.base] + place.offset; }
  NetMemory memory_of(const BoundOperation& operation) const;
  bool put(Transfer& transfer);
  bool take(Transfer& transfer, const BoundOperation& operation);
  bool receive_over_network(Transfer& transfer, const BoundOperation& operation);
  void check_size(const BoundOperation& operation, size_t sent_bytes) const;
  [[noreturn]] void fail_size(const BoundOperation& operation, const std::string& sent) const;
  std::byte* data_of(const BoundOperation& operation) const;
  std::byte* slot_of(const BoundOperation& operation, const Transfer& transfer, std::byte* payload) const;
  bool shares_core(int peer) const;

  const Segment& segment_;
  const int rank_;
  const Watch& watch_;
  OtherNodes* const others_;
  const BoundSlice* slice_ = nullptr;
  const Call* call_ = nullptr;
  uint64_t number_ = 0, calls_ = 0, stamp_ = 0;
  Turn turn_;
  Bases bases_;
  bool has_moved_ = false;
  StoreTrial stores_;                // to inboxes
  std::vector<Transfer> transfers_;  // by request
  std::vector<int> sending_;         // requests that go through inboxes and are not all there
};

}  // namespace plait

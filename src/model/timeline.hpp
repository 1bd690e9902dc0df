// When each operation of a plan could be over: what its steps take on a machine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/routes.hpp"
#include "plan/form.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace plait {

// Seconds: some at the start, and more for each byte of the message.
struct Line {
  double start = 0;
  double per_byte = 0;

  // For a message of infinitely many bytes only they count.
  double at(double bytes) const;
};

// What operations cost on the critical path. All 0: only bytes over links count.
struct StepCosts {
  double operation_seconds = 0;
  std::array<double, kLinkKindCount> signal_seconds = {};
  double local_signal_seconds = 0;
  double link_share = 1;  // of the seconds that bytes take at the full speed of their links: more than 1 is slower
};

// A plan's operations in an order in which they can be performed, each with what it asks of the machine. That is looked
// up once, for messages of all sizes and for all protocols.
class Timeline {
 public:
  // Of a plan whose form is right; what waits for ever is left out.
  Timeline(const Plan& plan, const Pairing& pairing, Routes& routes);

  // The longest chain of operations that wait for each other, for a message of so many bytes (which may be infinite):
  // what it takes in the end is its line at that size.
  Line critical_path(const StepCosts& costs, double bytes) const;
  // Signals and messages between ranks on the longest chain.
  int steps() const;

 private:
  class Order;  // finds it

  enum class Kind : uint8_t { kWork, kTell, kHear };
  struct Step {
    double seconds = 0;   // that its bytes take at the full speed of their links, for each byte of the message
    uint32_t signal = 0;  // told or heard; messages count as signals
    Kind kind = Kind::kWork;
    // Of what is heard: the narrowest kind of link between its ends, or kLocal where they share a device.
    uint8_t link_kind = kLocal;
    bool between_ranks = false;
  };
  static constexpr uint8_t kLocal = kLinkKindCount;
  // What a queue does before it waits for another.
  struct Stretch {
    size_t queue = 0;
    size_t end = 0;  // in steps_
  };

  std::vector<Step> steps_;
  std::vector<Stretch> stretches_;
  size_t queues_ = 0, signals_ = 0;
};

}  // namespace plait

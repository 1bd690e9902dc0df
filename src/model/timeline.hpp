// The critical path of a plan on a machine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/line.hpp"
#include "model/routes.hpp"
#include "plan/form.hpp"
#include "plan/plan.hpp"
#include "topology/topology.hpp"

namespace plait {

// The costs of operations on the critical path. If all are 0, only bytes over links count.
struct StepCosts {
  double operation_seconds = 0;
  double message_seconds = 0;  // of each end of a message between nodes, besides
  std::array<double, kLinkKindCount> signal_seconds = {};
  double local_signal_seconds = 0;
  double link_share = 1;  // of the seconds that bytes take at the full speed of their links: more than 1 is slower
};

// A plan's operations in an order in which they can be performed, each with its demand on the machine. The demands are
// looked up once, for messages of all sizes and for all protocols.
class Timeline {
 public:
  // The plan's form must be right. Operations that wait for ever are left out.
  Timeline(const Plan& plan, const Pairing& pairing, Routes& routes);

  // The longest chain of operations that wait for each other, for a message of so many bytes, which may be infinite.
  // The chain's time is the line at that size.
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
    // For kHear: the narrowest kind of link between the signal's ends, or kLocal if they share a device.
    uint8_t link_kind = kLocal;
    bool between_ranks = false;
    bool crosses_nodes = false;
  };
  static constexpr uint8_t kLocal = kLinkKindCount;
  // The steps of a queue before it waits for another.
  struct Stretch {
    size_t queue = 0;
    size_t end = 0;  // in steps_
  };

  std::vector<Step> steps_;
  std::vector<Stretch> stretches_;
  size_t queues_ = 0, signals_ = 0;
};

}  // namespace plait

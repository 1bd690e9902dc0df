// Performs a program on a machine: when each step of each queue is over, and what that takes of every link.
//
// A queue performs its steps in order, each after what an operation costs. What an operation moves goes at once: a flow
// for each pair of devices, and one through the memory of the rank that reads and writes; the operation is over when
// all of them are. A signal is heard its latency after it was told. A send is over at once; a message's bytes go when
// the receiver has come to it and its signal could have arrived. How flows share links: fluid.hpp. Steps, latencies and
// memory count as they do in plan_cost.hpp, so that no run takes less than the plan's cost there.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/plan_cost.hpp"
#include "model/profile.hpp"
#include "model/simulator/program.hpp"
#include "topology/topology.hpp"

namespace plait {

// The capacities of a simulated machine, and the costs of steps on it.
struct SimulatedMachine {
  std::vector<double> bytes_per_second;  // of each resource of a program; infinite where a profile does not say
  std::array<double, kLinkKindCount> half_bytes = {};  // Costs::half_bytes
  StepCosts steps;
  std::array<double, SimulatedStep::kBegins> begin_seconds = {};
  // By mover: the factor by which its bytes count on links, where those of the fastest mover count 1.
  std::array<double, kMoverCount> mover_share = {1, 1, 1, 1, 1, 1};
  double request_share = 0;  // what loads take of the other direction
  double barrier_signal_seconds = 0, host_signal_seconds = 0;
  double launched_seconds = 0, host_seconds = 0;  // KernelCosts
  double launch_seconds = 0;
  double combine_share = 1;  // Costs::combine_share

  // `message_bytes` is the size of the message, since a part of a short one may be in caches; 0: a long one.
  SimulatedMachine(const SimulatorProgram& program, const Topology& topology, const Costs& costs, FlagPlace flags,
                   double message_bytes = 0);

  double begin_of(const SimulatedStep& step) const { return begin_seconds[static_cast<size_t>(step.begin)]; }
  double signal_seconds(const SimulatedStep& heard) const;
  // The share of a flow's bytes that a resource carries, in the time that its capacity states.
  double share_of(const SimulatedRoute& route, const SimulatedRoute::Use& use) const;
  // The speed of a route's bytes when they share nothing, in bytes a second.
  double full_speed(const SimulatedRoute& route) const;
  // The same where an operation moves so many.
  double speed(const SimulatedRoute& route, double bytes) const;
  // The resource at which they are slowest.
  uint32_t narrowest(const SimulatedRoute& route) const;

 private:
  void set_kernel_costs(const KernelCosts& kernels, FlagPlace flags);
};

struct SimulatedRun {
  struct Use {
    double bytes = 0;         // of what is not the machine's: 0
    double busy_seconds = 0;  // in which anything crossed
    uint32_t most_flows = 0;  // at once
  };
  // How the last of a work's flows to end went.
  struct Last {
    static constexpr uint32_t kNothing = 0x7fffffff;
    uint32_t resource : 31 = kNothing;  // that it was slowest at
    uint32_t shared : 1 = 0;            // with others, which held it back
  };
  struct Stretch {
    uint32_t resource = 0;
    double from = 0, to = 0;  // in which anything crossed
  };

  double bytes = 0;           // of the message
  double seconds = 0;         // from the call to its return
  std::vector<double> ends;   // of each step; seconds since the first began, without the launch
  std::vector<Last> lasts;    // of each step
  std::vector<Use> uses;      // of each resource
  std::vector<Stretch> busy;  // where they were asked for, in order of their ends
};

// The time from the end of one call to the end of the next, late in a stream of calls: benchmarks measure that. Ranks
// that wait for nobody run ahead, so it may be less than one call takes alone.
double seconds_between_calls(const SimulatorProgram& program, const SimulatedMachine& machine, const SimulatedRun& run);

// Runs the program for a message of so many bytes. Every call gives the same. Throws kInternal where the plan waits for
// ever, which no proved plan does.
SimulatedRun simulate(const SimulatorProgram& program, const SimulatedMachine& machine, double message_bytes,
                      bool with_stretches = false);
// The seconds of that run; none where they are more than `most`, which is found out as soon as the run has taken so
// long.
std::optional<double> seconds_within(const SimulatorProgram& program, const SimulatedMachine& machine,
                                     double message_bytes, double most);

}  // namespace plait

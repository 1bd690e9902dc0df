// Writes the steps of a launch into a simulator's program: what kernels and copies straight between buffers share.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "model/routes.hpp"
#include "model/simulator/program.hpp"
#include "model/simulator/program_builder.hpp"

namespace plait {

// The calls of a stream, one behind the other.
struct LaunchStream {
  int calls = 1;
  bool pdl = false;                  // each begins by programmatic dependent launch
  std::vector<int> queues_of_ranks;  // of the simulator's program
};

class LaunchSteps {
 public:
  using Begin = SimulatedStep::Begin;
  using Kind = SimulatedStep::Kind;
  static constexpr double kUnit = 16;  // bytes of a chunk of the program: what a thread moves at once

  enum class What : uint8_t { kFlag, kData, kCompletion, kInStream, kBarrier, kHostFlag, kHostCompletion };
  struct Signal {
    What what = What::kFlag;
    int owner = 0;       // the rank that hears it, or its queue
    int64_t number = 0;  // which of the owner's
    uint64_t time = 0;   // the epoch or call
    int group = 0;       // of channels
    auto operator<=>(const Signal&) const = default;
  };

  // `routes` must outlive it.
  LaunchSteps(Routes& routes, LaunchStream stream);

  Routes& routes() { return routes_; }
  ProgramBuilder& builder() { return builder_; }
  SimulatorProgram& program() { return builder_.program(); }
  SimulatorProgram take() { return builder_.take(); }
  int calls() const { return stream_.calls; }

  // All steps from here to end_queue() belong to this queue.
  void begin_queue(int rank, int queue);
  void end_queue();
  // A call begins when all of the rank's queues are done with the one before.
  void begin_call(int call);
  void end_call(int call);

  void work(Begin begin) { add(Kind::kWork, begin, builder_.end_work()); }
  void tell(Begin begin, const Signal& signal) { add(Kind::kTell, begin, number_of(signal)); }
  // `link_kind` of SimulatedStep.
  void hear(Begin begin, const Signal& signal, bool between_ranks, uint8_t link_kind);
  // Takes its time and does nothing.
  void wait(Begin begin) { add(Kind::kTell, begin, program().signals++); }  // nobody hears it

  // A resource with a limit: SimulatorProgram::limits.
  uint32_t limited(SimulatedResource::Kind kind, double limit);

 private:
  void add(Kind kind, Begin begin, uint32_t index);
  uint32_t number_of(const Signal& signal);
  Signal in_stream(int from, int to, int call) const;

  Routes& routes_;
  LaunchStream stream_;
  ProgramBuilder builder_;
  SimulatedQueue queue_;  // at hand
  std::map<Signal, uint32_t> signals_;
};

}  // namespace plait

// Programs of several calls.
#include "model/simulator/calls.hpp"

#include <map>
#include <utility>
#include <vector>

namespace plait {
namespace {

class Row {
 public:
  Row(const SimulatorProgram& once, int calls) : once_(once), calls_(calls), made_(once) {
    made_.steps.clear();
    made_.queues.clear();
    made_.signals = once.signals * static_cast<uint32_t>(calls);
    made_.call_ends.assign(static_cast<size_t>(calls), {});
    for (size_t queue = 0; queue < once.queues.size(); ++queue) queues_of_[once.queues[queue].rank].push_back(queue);
  }

  SimulatorProgram make() {
    for (size_t queue = 0; queue < once_.queues.size(); ++queue) {
      SimulatedQueue all = once_.queues[queue];
      all.first = made_.steps.size();
      for (int call = 0; call < calls_; ++call) add_call(queue, call);
      all.end = made_.steps.size();
      made_.queues.push_back(all);
    }
    return std::move(made_);
  }

 private:
  void add_call(size_t queue, int call) {
    begin_call(queue, call);
    const SimulatedQueue& of = once_.queues[queue];
    for (size_t at = of.first; at < of.end; ++at) {
      SimulatedStep step = once_.steps[at];
      if (step.kind != SimulatedStep::Kind::kWork) step.index += once_.signals * static_cast<uint32_t>(call);
      made_.steps.push_back(step);
    }
    end_call(queue, call);
  }

  void begin_call(size_t queue, int call) {
    add(SimulatedStep::Kind::kTell, SimulatedStep::Begin::kCall, made_.signals++);  // nobody hears it
    for (const size_t other : queues_of_[once_.queues[queue].rank]) {
      if (call == 0 || other == queue) continue;
      add(SimulatedStep::Kind::kHear, SimulatedStep::Begin::kNothing, ending(other, queue, call - 1));
      made_.steps.back().link_kind = SimulatedStep::kInStream;
    }
  }

  void end_call(size_t queue, int call) {
    for (const size_t other : queues_of_[once_.queues[queue].rank]) {
      if (call + 1 == calls_ || other == queue) continue;
      add(SimulatedStep::Kind::kTell, SimulatedStep::Begin::kNothing, ending(queue, other, call));
    }
    made_.call_ends[static_cast<size_t>(call)].push_back(made_.steps.size() - 1);
  }

  void add(SimulatedStep::Kind kind, SimulatedStep::Begin begin, uint32_t signal) {
    SimulatedStep step;
    step.kind = kind;
    step.begin = begin;
    step.index = signal;
    made_.steps.push_back(step);
  }

  // The signal by which a queue tells another one of its rank that it is done with a call.
  uint32_t ending(size_t from, size_t to, int call) {
    const auto [found, is_new] = endings_.try_emplace({{from, to}, call}, made_.signals);
    if (is_new) ++made_.signals;
    return found->second;
  }

  const SimulatorProgram& once_;
  const int calls_;
  SimulatorProgram made_;
  std::map<int, std::vector<size_t>> queues_of_;  // of each rank
  std::map<std::pair<std::pair<size_t, size_t>, int>, uint32_t> endings_;
};

}  // namespace

SimulatorProgram in_a_row(const SimulatorProgram& once, int calls) { return Row(once, calls).make(); }

}  // namespace plait

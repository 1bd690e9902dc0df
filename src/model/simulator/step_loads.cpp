// Loads by step.
#include "model/simulator/step_loads.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "base/figures.hpp"
#include "model/simulator/report.hpp"

namespace plait {
namespace {

constexpr size_t kMostStepRows = 24;

// The step of each of the program's steps, counted from 0.
class Depths {
 public:
  explicit Depths(const SimulatorProgram& program)
      : program_(program), told_(program.signals, kUntold), waiting_(program.signals, kNobody) {
    depths_.resize(program.steps.size());
    next_.resize(program.queues.size());
    now_.resize(program.queues.size());
    for (size_t queue = 0; queue < next_.size(); ++queue) next_[queue] = program.queues[queue].first;
    for (size_t queue = 0; queue < next_.size(); ++queue) ready_.push_back(queue);
    while (!ready_.empty()) {
      const size_t queue = ready_.back();
      ready_.pop_back();
      go_on(queue);
    }
  }

  int of(size_t step) const { return depths_[step]; }

 private:
  static constexpr int kUntold = -1;
  static constexpr size_t kNobody = std::numeric_limits<size_t>::max();

  void go_on(size_t queue) {
    for (size_t& at = next_[queue]; at < program_.queues[queue].end; ++at) {
      const SimulatedStep& step = program_.steps[at];
      if (step.kind == SimulatedStep::Kind::kHear && told_[step.index] == kUntold) {
        waiting_[step.index] = queue;
        return;
      }
      if (step.kind == SimulatedStep::Kind::kHear) {
        now_[queue] = std::max(now_[queue], told_[step.index] + (step.between_ranks ? 1 : 0));
      }
      depths_[at] = now_[queue];
      if (step.kind == SimulatedStep::Kind::kTell) tell(step.index, now_[queue]);
    }
  }

  void tell(uint32_t signal, int depth) {
    told_[signal] = depth;
    if (waiting_[signal] != kNobody) ready_.push_back(waiting_[signal]);
  }

  const SimulatorProgram& program_;
  std::vector<int> told_, depths_, now_;  // by signal, by step, by queue
  std::vector<size_t> waiting_, next_, ready_;
};

// A message's bytes go after it was heard, but in the step in which it was sent.
int step_of(const SimulatorProgram& program, const Depths& depths, size_t at) {
  const bool is_of_message = program.steps[at].begin == SimulatedStep::Begin::kNothing && at > 0 &&
                             program.steps[at - 1].kind == SimulatedStep::Kind::kHear &&
                             program.steps[at - 1].between_ranks;
  return std::max(0, depths.of(at) - (is_of_message ? 1 : 0));
}

}  // namespace

std::vector<StepLoad> step_loads(const SimulatorProgram& program, const SimulatedMachine& machine,
                                 const SimulatedRun& run) {
  const Depths depths(program);
  std::vector<StepLoad> loads;
  std::vector<std::map<uint32_t, StepLoad::Use>> uses;
  for (const SimulatedQueue& queue : program.queues) {
    for (size_t at = queue.first; at < queue.end; ++at) {
      if (program.steps[at].kind != SimulatedStep::Kind::kWork) continue;
      const auto step = static_cast<size_t>(step_of(program, depths, at));
      for (; loads.size() <= step; uses.emplace_back()) loads.push_back({run.seconds, 0, {}});
      for (const SimulatedWork::Flow& flow : program.works[program.steps[at].index].flows) {
        const SimulatedRoute& route = program.routes[flow.route];
        if (!route.is_on_links() || flow.chunks == 0) continue;
        loads[step].from = std::min(loads[step].from, at > queue.first ? run.ends[at - 1] : 0);
        loads[step].to = std::max(loads[step].to, run.ends[at]);
        for (const SimulatedRoute::Use& it : route.uses) {
          if (it.is_back) continue;
          StepLoad::Use& use = uses[step][it.resource];
          use.resource = it.resource;
          use.flows += it.alike;
          use.bytes += program.bytes_of_chunk(run.bytes) * flow.chunks * it.share * it.alike;
        }
      }
    }
  }
  for (size_t step = 0; step < loads.size(); ++step) {
    for (auto& [resource, use] : uses[step]) {
      use.seconds = use.bytes / machine.bytes_per_second[resource];
      loads[step].uses.push_back(use);
    }
    std::stable_sort(loads[step].uses.begin(), loads[step].uses.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds * (1 + 1e-9); });
    if (loads[step].uses.empty()) loads[step].from = 0;
  }
  return loads;
}

std::string describe_steps(const SimulatorProgram& program, const std::vector<StepLoad>& loads,
                           const Topology& topology) {
  size_t width = 12;
  const auto busiest = [&](const StepLoad& it) {
    return to_text(program.resources[it.uses.front().resource], topology);
  };
  for (const StepLoad& it : loads) {
    if (!it.uses.empty()) width = std::max(width, busiest(it).size());
  }
  std::string text =
      join(in_columns("steps", 9), in_columns("from", 10), in_columns("to", 10), in_columns("busiest link", width + 2),
           in_columns("flows", 7), in_columns("bytes", 10), in_columns("at full speed", 15), "links used\n");
  for (size_t step = 0; step < loads.size(); ++step) {
    if (step == kMostStepRows) return text + join("  and ", loads.size() - step, " more\n");
    const StepLoad& load = loads[step];
    text += join("  ", in_columns(join(step + 1), 7));
    if (load.uses.empty()) {
      text += "no link\n";
      continue;
    }
    const StepLoad::Use& most = load.uses.front();
    text += join(in_columns(seconds_text(load.from), 10), in_columns(seconds_text(load.to), 10),
                 in_columns(busiest(load), width + 2), in_columns(join(most.flows), 7),
                 in_columns(bytes_text(most.bytes, 3), 10), in_columns(seconds_text(most.seconds), 15),
                 load.uses.size(), "\n");
  }
  return text;
}

}  // namespace plait

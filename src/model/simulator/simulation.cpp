// Runs of programs.
#include "model/simulator/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <utility>

#include "base/error.hpp"
#include "model/simulator/fluid.hpp"
#include "model/units.hpp"

namespace plait {
namespace {

// What each resource still has to carry. No run is over before the busiest one has carried it.
class Backlog {
 public:
  explicit Backlog(const std::vector<double>& bytes_per_second) : speeds_(bytes_per_second), bytes_(speeds_.size()) {}

  // Flows of so many bytes that have yet to begin.
  void add(const std::vector<FluidNetwork::Use>& uses, double bytes) {
    for (const FluidNetwork::Use& it : uses) bytes_[it.resource] += it.load() * bytes;
  }
  void begin(const std::vector<FluidNetwork::Use>& uses, double bytes) { add(uses, -bytes); }

  double least_seconds() const {
    constexpr double kExact = 1 - 1e-9;  // sums are not
    double most = 0;
    for (size_t i = 0; i < bytes_.size(); ++i) most = std::max(most, bytes_[i] / speeds_[i]);
    return most * kExact;
  }

 private:
  const std::vector<double>& speeds_;
  std::vector<double> bytes_;
};

class Simulator {
 public:
  Simulator(const SimulatorProgram& program, const SimulatedMachine& machine, double message_bytes)
      : program_(program),
        machine_(machine),
        chunk_bytes_(program.bytes_of_chunk(message_bytes)),
        queues_(program.queues.size()),
        told_(program.signals, kUntold) {
    run_.bytes = message_bytes;
    run_.ends.resize(program.steps.size());
    run_.lasts.resize(program.steps.size());
    for (const double speed : machine.bytes_per_second) network_.add_resource(speed);
    for (const SimulatedWork& work : program.works) add(work);
    for (size_t queue = 0; queue < queues_.size(); ++queue) queues_[queue].next = program.queues[queue].first;
  }

  void watch_links() {
    network_.watch([this](uint32_t resource, double from, double to) { run_.busy.push_back({resource, from, to}); });
  }

  SimulatedRun run() {
    run_within(std::numeric_limits<double>::infinity());
    check_over();
    run_.seconds = seconds();
    sum_up_uses();
    return std::move(run_);
  }

  std::optional<double> seconds_within(double most) {
    if (std::isfinite(most)) find_backlog();
    if (!run_within(most)) return std::nullopt;
    check_over();
    return seconds() > most ? std::nullopt : std::optional(seconds());
  }

 private:
  static constexpr double kUntold = -1;
  static constexpr int kLookEvery = 64;  // turns, since a look takes longer than a turn

  struct QueueState {
    size_t next = 0;     // step
    double now = 0;      // when the step before was over
    uint32_t flows = 0;  // under way
  };
  struct Start {
    uint32_t route = 0;  // of the network
    double bytes = 0;
  };
  struct StartRange {
    uint32_t first = 0, end = 0;  // in starts_
  };
  using Due = std::pair<double, uint32_t>;  // time and queue

  // Whether the run is over before it has taken more than so many seconds.
  bool run_within(double most) {
    for (uint32_t queue = 0; queue < queues_.size(); ++queue) go_on(queue);
    for (int turn = 0; go_on_ready() || start_due() || end_due(); ++turn) {
      if (now_ + machine_.launch_seconds > most) return false;
      if (backlog_ && turn % kLookEvery == 0 && now_ + machine_.launch_seconds + backlog_->least_seconds() > most) {
        return false;
      }
    }
    return true;
  }

  void find_backlog() {
    backlog_.emplace(machine_.bytes_per_second);
    for (const SimulatedStep& step : program_.steps) {
      if (step.kind != SimulatedStep::Kind::kWork) continue;
      for (uint32_t i = starts_of_[step.index].first; i < starts_of_[step.index].end; ++i) {
        backlog_->add(uses_of_[starts_[i].route], starts_[i].bytes);
      }
    }
  }

  double seconds() const {
    double last = 0;
    for (const double end : run_.ends) last = std::max(last, end);
    return last + machine_.launch_seconds;
  }

  // A flow that no resource limits takes no time.
  void add(const SimulatedWork& work) {
    StartRange range{static_cast<uint32_t>(starts_.size()), 0};
    for (const SimulatedWork::Flow& flow : work.flows) {
      const SimulatedRoute& route = program_.routes[flow.route];
      if (std::isinf(machine_.full_speed(route)) || chunk_bytes_ <= 0) continue;
      const double share = route.is_memory() && work.combines ? machine_.combine_share : 1;
      starts_.push_back({network_route(flow), chunk_bytes_ * flow.chunks * share});
    }
    range.end = static_cast<uint32_t>(starts_.size());
    starts_of_.push_back(range);
  }

  // Flows of one route that get the same alone share one of the network's.
  uint32_t network_route(const SimulatedWork::Flow& flow) {
    const SimulatedRoute& route = program_.routes[flow.route];
    const double most = machine_.speed(route, chunk_bytes_ * flow.chunks);
    const auto [found, is_new] = network_route_.try_emplace({flow.route, most}, 0);
    if (!is_new) return found->second;
    std::vector<FluidNetwork::Use> uses;
    for (const SimulatedRoute::Use& use : route.uses) {
      const double share = machine_.share_of(route, use);
      if (share > 0) uses.push_back({use.resource, share, use.alike});
    }
    narrowest_.push_back(machine_.narrowest(route));
    found->second = network_.add_route(uses, most);
    uses_of_.push_back(std::move(uses));
    return found->second;
  }

  // Performs steps until the queue has to wait: for a signal, or for bytes. A queue may run ahead of the clock, as long
  // as it meets nobody but by signals.
  void go_on(uint32_t number) {
    QueueState& queue = queues_[number];
    const size_t end = program_.queues[number].end;
    for (; queue.next < end; ++queue.next) {
      const SimulatedStep& step = program_.steps[queue.next];
      const double begun = queue.now + machine_.begin_of(step);
      if (step.kind == SimulatedStep::Kind::kWork && starts_of_[step.index].first != starts_of_[step.index].end) {
        return due_.emplace(begun, number);
      }
      if (step.kind == SimulatedStep::Kind::kHear) {
        double& told = told_[step.index];
        if (told < 0) {
          told = -2 - static_cast<double>(number);  // who waits
          return;
        }
        queue.now = std::max(begun, told + machine_.signal_seconds(step));
      } else {
        queue.now = begun;
      }
      if (step.kind == SimulatedStep::Kind::kTell) tell(step.index, begun);
      run_.ends[queue.next] = queue.now;
    }
  }

  void tell(uint32_t signal, double now) {
    const double before = std::exchange(told_[signal], now);
    if (before != kUntold) ready_.push_back(static_cast<uint32_t>(-2 - before));
  }

  bool go_on_ready() {
    if (ready_.empty()) return false;
    const uint32_t queue = ready_.back();
    ready_.pop_back();
    go_on(queue);
    return true;
  }

  // Starts all that begins before anything ends.
  bool start_due() {
    if (due_.empty()) return false;
    const double first = due_.top().first;
    // What begins now comes before rates are found, so that they are found once for all that changes at a time.
    if (!is_now(first) && network_.next_end() <= first) return false;
    now_ = std::max(now_, first);
    while (!due_.empty() && is_now(due_.top().first)) {
      const uint32_t number = due_.top().second;
      due_.pop();
      start(number);
    }
    return true;
  }

  bool is_now(double time) const { return time <= now_ * (1 + FluidNetwork::kSameTime); }

  void start(uint32_t number) {
    QueueState& queue = queues_[number];
    const StartRange& range = starts_of_[program_.steps[queue.next].index];
    queue.flows = range.end - range.first;
    for (uint32_t i = range.first; i < range.end; ++i) {
      network_.start(starts_[i].route, starts_[i].bytes, number, now_);
      if (backlog_) backlog_->begin(uses_of_[starts_[i].route], starts_[i].bytes);
    }
  }

  bool end_due() {
    const double time = network_.next_end();
    if (std::isinf(time)) return false;
    now_ = std::max(now_, time);
    ended_.clear();
    network_.end_due(ended_);
    for (const FluidNetwork::Ended& flow : ended_) {
      QueueState& queue = queues_[flow.owner];
      if (--queue.flows > 0) continue;
      SimulatedRun::Last& last = run_.lasts[queue.next];
      last.shared = flow.bottleneck != FluidNetwork::kNone;
      last.resource = last.shared ? flow.bottleneck : narrowest_[flow.route];
      queue.now = std::max(queue.now, now_);  // the flow may have begun early, within kSameTime
      run_.ends[queue.next] = queue.now;
      ++queue.next;
      ready_.push_back(flow.owner);
    }
    return true;
  }

  void check_over() const {
    for (size_t number = 0; number < queues_.size(); ++number) {
      const SimulatedQueue& queue = program_.queues[number];
      if (queues_[number].next == queue.end) continue;
      fail(ErrorCode::kInternal, "simulator: queue ", queue.queue, " of rank ", queue.rank, " waits for ever at step ",
           queues_[number].next - queue.first, "; verify the plan");
    }
  }

  void sum_up_uses() {
    run_.uses.resize(program_.resources.size());
    std::vector<size_t> times(program_.works.size());  // that each is done
    for (const SimulatedStep& step : program_.steps) {
      if (step.kind == SimulatedStep::Kind::kWork) ++times[step.index];
    }
    for (size_t work = 0; work < program_.works.size(); ++work) {
      for (const SimulatedWork::Flow& flow : program_.works[work].flows) {
        for (const SimulatedRoute::Use& use : program_.routes[flow.route].uses) {
          if (use.is_back || !is_of_machine(program_.resources[use.resource])) continue;
          run_.uses[use.resource].bytes +=
              static_cast<double>(times[work]) * flow.chunks * chunk_bytes_ * use.share * use.alike;
        }
      }
    }
    for (uint32_t i = 0; i < run_.uses.size(); ++i) {
      run_.uses[i].busy_seconds = network_.busy_seconds(i);
      run_.uses[i].most_flows = network_.most_flows(i);
    }
  }

  // CTAs and their pace are the launch's.
  static bool is_of_machine(const SimulatedResource& it) {
    return it.kind != SimulatedResource::Kind::kCtas && it.kind != SimulatedResource::Kind::kPace;
  }

  const SimulatorProgram& program_;
  const SimulatedMachine& machine_;
  const double chunk_bytes_;
  FluidNetwork network_;
  std::map<std::pair<uint32_t, double>, uint32_t> network_route_;  // of a route of the program, by what a flow gets
  std::vector<uint32_t> narrowest_;                                // resource of a route of the network
  std::vector<std::vector<FluidNetwork::Use>> uses_of_;            // a route of the network
  std::optional<Backlog> backlog_;                                 // where a run may be given up
  std::vector<Start> starts_;
  std::vector<StartRange> starts_of_;  // each work
  std::vector<QueueState> queues_;
  std::vector<double> told_;  // when; or kUntold, or who waits
  std::vector<uint32_t> ready_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;  // queues that are about to move bytes
  std::vector<FluidNetwork::Ended> ended_;
  double now_ = 0;
  SimulatedRun run_;
};

// The calls of a plan that follow each other (calls.hpp). Each finds the caches as the one before did. Costs of
// launches were fitted to all of their calls together.
size_t calls_with_caches(const SimulatorProgram& program) {
  return program.is_launch() ? 1 : std::max<size_t>(1, program.call_ends.size());
}

// The bytes that go through each rank's memory in a call, by resource. Links have 0.
std::vector<double> memory_bytes(const SimulatorProgram& program, double message_bytes, double combine_share) {
  std::vector<double> bytes(program.resources.size());
  const double chunk_bytes = program.bytes_of_chunk(message_bytes) / static_cast<double>(calls_with_caches(program));
  for (const SimulatedStep& step : program.steps) {
    if (step.kind != SimulatedStep::Kind::kWork) continue;
    const SimulatedWork& work = program.works[step.index];
    for (const SimulatedWork::Flow& flow : work.flows) {
      const SimulatedRoute& route = program.routes[flow.route];
      if (!route.is_memory()) continue;
      bytes[route.uses.front().resource] += chunk_bytes * flow.chunks * (work.combines ? combine_share : 1);
    }
  }
  return bytes;
}

double finite_or(double gbps) { return gbps > 0 ? gbps : std::numeric_limits<double>::infinity(); }

double gbps_of(const SimulatedResource& resource, const SimulatorProgram& program, const Topology& topology,
               const StepCosts& steps, const Costs& costs) {
  const auto index = static_cast<size_t>(resource.index);
  switch (resource.kind) {
    case SimulatedResource::Kind::kLink: {
      const Link& link = topology.links[index];
      const bool is_host_path = program.is_launch() && link.kind != LinkKind::kNvlink;
      return link.gbps * (is_host_path ? costs.kernels->host_efficiency : 1 / steps.link_share);
    }
    case SimulatedResource::Kind::kCtas:
      return finite_or(program.limits[index] * costs.kernels->cta_gbps);
    case SimulatedResource::Kind::kPace:
      return program.limits[index] / kBytesPerGb;
    case SimulatedResource::Kind::kNicOut:
    case SimulatedResource::Kind::kNicIn:
      return topology.devices[static_cast<size_t>(resource.index)].port_gbps / steps.link_share;
    case SimulatedResource::Kind::kCore:
      return finite_or(costs.core_gbps);
    case SimulatedResource::Kind::kMemory:
      break;
  }
  return finite_or(program.is_launch() ? costs.kernels->memory_gbps : costs.memory_gbps);
}

double best_efficiency(const KernelCosts& kernels) {
  return std::max(
      {kernels.store_efficiency, kernels.spread_efficiency, kernels.load_efficiency, kernels.copy_efficiency});
}

// The costs of a launch's steps, in the same terms as those of a plan's.
StepCosts step_costs(const KernelCosts& kernels, FlagPlace flags) {
  StepCosts steps;
  steps.operation_seconds = kernels.operation_seconds;
  steps.signal_seconds.fill(flags == FlagPlace::kEvery8Bytes     ? kernels.ll_signal_seconds
                            : flags == FlagPlace::kEvery128Bytes ? kernels.ll128_signal_seconds
                                                                 : kernels.signal_seconds);
  steps.local_signal_seconds = kernels.local_signal_seconds;
  steps.link_share = 1 / best_efficiency(kernels);
  return steps;
}

// The same costs where a launch is simulated.
Costs costs_of_launch(const Costs& costs) {
  Costs of_launch = costs;
  const KernelCosts& kernels = *costs.kernels;
  of_launch.launch_seconds = kernels.call_seconds;
  of_launch.memory_gbps = kernels.memory_gbps;
  of_launch.cache_gbps = kernels.cache_gbps;
  of_launch.cache_bytes = kernels.cache_bytes;
  of_launch.combine_share = kernels.combine_share;
  of_launch.half_bytes.fill(kernels.half_bytes);
  return of_launch;
}

}  // namespace

SimulatedMachine::SimulatedMachine(const SimulatorProgram& program, const Topology& topology, const Costs& all_costs,
                                   FlagPlace flags, double message_bytes) {
  const bool is_launch = program.is_launch();
  if (is_launch && !all_costs.kernels) {
    fail(ErrorCode::kInvalidArgument, "simulator: launches need a profile with costs of kernels");
  }
  const Costs costs = is_launch ? costs_of_launch(all_costs) : all_costs;
  half_bytes = costs.half_bytes;
  steps = is_launch ? step_costs(*costs.kernels, flags) : step_costs(costs, flags);
  launch_seconds = costs.launch_seconds;
  combine_share = costs.combine_share;
  begin_seconds.fill(steps.operation_seconds);
  begin_seconds[static_cast<size_t>(SimulatedStep::Begin::kNothing)] = 0;
  begin_seconds[static_cast<size_t>(SimulatedStep::Begin::kCall)] = launch_seconds;
  begin_seconds[static_cast<size_t>(SimulatedStep::Begin::kMessage)] = steps.operation_seconds + steps.message_seconds;
  if (is_launch) set_kernel_costs(*costs.kernels, flags);
  for (const SimulatedResource& it : program.resources) {
    bytes_per_second.push_back(gbps_of(it, program, topology, steps, costs) * kBytesPerGb);
  }
  if (costs.memory_gbps <= 0 || costs.cache_gbps <= costs.memory_gbps || message_bytes <= 0) return;
  const std::vector<double> bytes = memory_bytes(program, message_bytes, combine_share);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] > 0) bytes_per_second[i] = bytes[i] / costs.memory_seconds(bytes[i]);
  }
}

void SimulatedMachine::set_kernel_costs(const KernelCosts& kernels, FlagPlace flags) {
  const auto begin = [&](SimulatedStep::Begin of) -> double& { return begin_seconds[static_cast<size_t>(of)]; };
  begin(SimulatedStep::Begin::kFence) = kernels.fence_seconds;
  begin(SimulatedStep::Begin::kHostFence) = kernels.host_fence_seconds;
  begin(SimulatedStep::Begin::kBarrier) = kernels.barrier_seconds;
  begin(SimulatedStep::Begin::kCopy) = kernels.copy_seconds;
  begin(SimulatedStep::Begin::kCall) = kernels.call_seconds;
  begin(SimulatedStep::Begin::kCallWithoutPdl) = kernels.call_seconds + kernels.pdl_seconds;
  begin(SimulatedStep::Begin::kStagger) = kernels.stagger_seconds;
  begin(SimulatedStep::Begin::kWait) = kernels.wait_seconds;
  begin(SimulatedStep::Begin::kWords) =
      flags == FlagPlace::kEvery128Bytes ? kernels.ll128_words_seconds : kernels.ll_words_seconds;
  const double best = best_efficiency(kernels);
  const auto move = [&](Mover mover, double efficiency) {
    mover_share[static_cast<size_t>(mover)] = best / efficiency;
  };
  const double spread = std::min(1.0, kernels.spread_efficiency / kernels.store_efficiency);
  move(Mover::kStores, kernels.store_efficiency);
  move(Mover::kSpreadStores, kernels.spread_efficiency);
  move(Mover::kLoads, kernels.load_efficiency);
  move(Mover::kSpreadLoads, kernels.load_efficiency * spread);
  move(Mover::kCopyEngine, kernels.copy_efficiency);
  request_share = kernels.request_share;
  launched_seconds = kernels.launched_seconds;
  host_seconds = kernels.host_seconds;
  barrier_signal_seconds = kernels.barrier_signal_seconds;
  host_signal_seconds = kernels.host_signal_seconds;
}

double SimulatedMachine::signal_seconds(const SimulatedStep& heard) const {
  if (heard.link_kind == SimulatedStep::kLocal) return steps.local_signal_seconds;
  if (heard.link_kind == SimulatedStep::kBetweenCopies) return barrier_signal_seconds;
  if (heard.link_kind == SimulatedStep::kInStream) return 0;
  if (heard.link_kind == SimulatedStep::kThroughHost) return host_signal_seconds;
  return steps.signal_seconds[heard.link_kind];
}

double SimulatedMachine::share_of(const SimulatedRoute& route, const SimulatedRoute::Use& use) const {
  return use.share * (use.is_back ? request_share : 1) * mover_share[static_cast<size_t>(route.mover)];
}

double SimulatedMachine::full_speed(const SimulatedRoute& route) const {
  double speed = std::numeric_limits<double>::infinity();
  for (const SimulatedRoute::Use& use : route.uses) {
    const double share = share_of(route, use);
    if (share > 0) speed = std::min(speed, bytes_per_second[use.resource] / share);
  }
  return speed;
}

double SimulatedMachine::speed(const SimulatedRoute& route, double bytes) const {
  const double half = !route.is_on_links() ? 0 : half_bytes[static_cast<size_t>(route.medium)];
  return half > 0 ? full_speed(route) * bytes / (bytes + half) : full_speed(route);
}

uint32_t SimulatedMachine::narrowest(const SimulatedRoute& route) const {
  const auto wider = [&](const SimulatedRoute::Use& a, const SimulatedRoute::Use& b) {
    return bytes_per_second[a.resource] * share_of(route, b) > bytes_per_second[b.resource] * share_of(route, a);
  };
  return std::max_element(route.uses.begin(), route.uses.end(), wider)->resource;
}

double seconds_between_calls(const SimulatorProgram& program, const SimulatedMachine& machine,
                             const SimulatedRun& run) {
  const size_t calls = program.call_ends.size();
  if (calls < 2) return run.seconds;
  const auto end_of = [&](size_t call) {
    double end = 0;
    for (const size_t step : program.call_ends[call]) end = std::max(end, run.ends[step]);
    return end;
  };
  const size_t first = (calls - 1) / 2;  // those before it fill pipelines
  const double seconds = (end_of(calls - 1) - end_of(first)) / static_cast<double>(calls - 1 - first);
  return program.by_host ? std::max(seconds + machine.launched_seconds, machine.host_seconds) : seconds;
}

SimulatedRun simulate(const SimulatorProgram& program, const SimulatedMachine& machine, double message_bytes,
                      bool with_stretches) {
  Simulator simulator(program, machine, message_bytes);
  if (with_stretches) simulator.watch_links();
  return simulator.run();
}

std::optional<double> seconds_within(const SimulatorProgram& program, const SimulatedMachine& machine,
                                     double message_bytes, double most) {
  return Simulator(program, machine, message_bytes).seconds_within(most);
}

}  // namespace plait

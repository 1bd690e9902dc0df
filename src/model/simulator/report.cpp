// Tables of a run.
#include "model/simulator/report.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait {
namespace {

constexpr size_t kMostRows = 24;      // of links
constexpr size_t kMostResources = 4;  // that the critical path names
constexpr double kWorthALine = 5e-4;  // of the whole
constexpr uint32_t kNoResource = SimulatedRun::Last::kNothing;

std::string percent(double share) { return digits(100 * share, share < 0.0995 ? "%.1f" : "%.0f") + " %"; }

std::string gbps_text(double bytes_per_second) { return digits(bytes_per_second * 1e-9) + " GB/s"; }

// At full speed, without others and without waiting.
double least_seconds(const SimulatedMachine& machine, const SimulatedRun& run, uint32_t resource) {
  return run.uses[resource].bytes / machine.bytes_per_second[resource];
}

std::vector<uint32_t> used_by_time(const SimulatedMachine& machine, const SimulatedRun& run) {
  std::vector<uint32_t> order(run.uses.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](uint32_t it) { return run.uses[it].bytes <= 0; });
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return least_seconds(machine, run, a) > least_seconds(machine, run, b) * (1 + 1e-9);
  });
  return order;
}

}  // namespace

std::string to_text(const SimulatedResource& resource, const Topology& topology) {
  const auto device = [&](int index) { return topology.devices[static_cast<size_t>(index)].name; };
  switch (resource.kind) {
    case SimulatedResource::Kind::kLink: {
      const Link& link = topology.links[static_cast<size_t>(resource.index)];
      return join(device(resource.forward ? link.a : link.b), " -> ", device(resource.forward ? link.b : link.a));
    }
    case SimulatedResource::Kind::kNicOut:
      return device(resource.index) + " sends";
    case SimulatedResource::Kind::kNicIn:
      return device(resource.index) + " receives";
    case SimulatedResource::Kind::kCtas:
      return join("CTAs of a queue, ", resource.index);
    case SimulatedResource::Kind::kPace:
      return "stores to host memory";
    case SimulatedResource::Kind::kCore:
      return join("CPU core of rank ", resource.index);
    case SimulatedResource::Kind::kMemory:
      break;
  }
  return join("memory of rank ", resource.index);
}

const char* kind_of(const SimulatedResource& resource, const Topology& topology) {
  if (resource.kind == SimulatedResource::Kind::kMemory) return "memory";
  if (resource.kind == SimulatedResource::Kind::kCtas) return "ctas";
  if (resource.kind == SimulatedResource::Kind::kCore) return "cpu";
  if (resource.kind == SimulatedResource::Kind::kPace) return "pace";
  if (resource.kind != SimulatedResource::Kind::kLink) return "nic";
  return name(topology.links[static_cast<size_t>(resource.index)].kind);
}

RunBound bound_of(const SimulatedMachine& machine, const SimulatedRun& run) {
  RunBound bound;
  for (uint32_t i = 0; i < run.uses.size(); ++i) {
    const double seconds = least_seconds(machine, run, i);
    if (seconds > bound.seconds * (1 + 1e-9)) bound = {seconds, i};
  }
  return bound;
}

std::vector<QueueTime> queue_times(const SimulatorProgram& program, const SimulatedRun& run) {
  std::vector<QueueTime> times;
  for (const SimulatedQueue& queue : program.queues) {
    QueueTime time{queue.rank, queue.queue};
    for (size_t step = queue.first; step < queue.end; ++step) {
      const double took = run.ends[step] - time.end;
      if (program.steps[step].kind == SimulatedStep::Kind::kHear) time.waiting += took;
      if (program.steps[step].kind == SimulatedStep::Kind::kWork) time.moving += took;
      time.end = run.ends[step];
    }
    times.push_back(time);
  }
  return times;
}

std::string describe_run(const SimulatorProgram& program, const SimulatedMachine& machine, const SimulatedRun& run,
                         const CriticalPath& path, const Topology& topology) {
  std::string text = "time     " + seconds_text(run.seconds);
  if (run.bytes > 0) text += join(", ", gbps_text(run.bytes / run.seconds), " of message");
  const RunBound bound = bound_of(machine, run);
  if (bound.resource != kNoResource) {
    text += join("; at least ", seconds_text(bound.seconds), " if ",
                 to_text(program.resources[bound.resource], topology), " were never idle");
  }
  text += "\nwhere    on the critical path\n";
  for (int cause = 0; cause < kCauseCount; ++cause) {
    if (path.seconds[cause] <= 0) continue;
    text += join("  ", in_columns(name(static_cast<Cause>(cause)), 19),
                 in_columns(seconds_text(path.seconds[cause]), 10), percent(path.seconds[cause] / run.seconds), "\n");
  }
  std::vector<uint32_t> order(path.resource_seconds.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return path.resource_seconds[a] > path.resource_seconds[b] * (1 + 1e-9);
  });
  std::erase_if(order, [&](uint32_t it) { return path.resource_seconds[it] < kWorthALine * run.seconds; });
  if (!order.empty()) text += "of that  on links\n";
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == kMostResources) {
      text += join("  and ", order.size() - i, " more\n");
      break;
    }
    const double seconds = path.resource_seconds[order[i]];
    text += join("  ", in_columns(seconds_text(seconds), 10), in_columns(percent(seconds / run.seconds), 8),
                 to_text(program.resources[order[i]], topology), "\n");
  }
  return text;
}

std::string describe_uses(const SimulatorProgram& program, const SimulatedMachine& machine, const SimulatedRun& run,
                          const Topology& topology) {
  const std::vector<uint32_t> order = used_by_time(machine, run);
  if (order.empty()) return "";
  size_t width = 0;
  for (size_t i = 0; i < std::min(order.size(), kMostRows); ++i) {
    width = std::max(width, to_text(program.resources[order[i]], topology).size());
  }
  std::string text = join("links    ", in_columns("", width - std::min<size_t>(width, 7)), in_columns("kind", 9),
                          in_columns("bytes", 10), in_columns("bandwidth", 12), in_columns("flows", 7),
                          in_columns("busy", 10), "at full speed, of the time\n");
  for (size_t i = 0; i < order.size(); ++i) {
    const double share = least_seconds(machine, run, order[i]) / run.seconds;
    if (i == kMostRows) return text + join("  and ", order.size() - i, " more, at most ", percent(share), " each\n");
    const SimulatedResource& resource = program.resources[order[i]];
    const SimulatedRun::Use& use = run.uses[order[i]];
    text +=
        join("  ", in_columns(to_text(resource, topology), width + 2), in_columns(kind_of(resource, topology), 9),
             in_columns(bytes_text(use.bytes, 3), 10), in_columns(gbps_text(machine.bytes_per_second[order[i]]), 12),
             in_columns(join(use.most_flows), 7), in_columns(seconds_text(use.busy_seconds), 10), percent(share), "\n");
  }
  return text;
}

}  // namespace plait

// Extrapolations.
#include "api/extrapolation.hpp"

#include <algorithm>
#include <cmath>

#include "api/machine_simulation.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "plan/conditions.hpp"
#include "plan/proof_size.hpp"

namespace plait {
namespace {

// So many take some seconds to simulate. A next point may have four times as many operations, as flat rings have.
constexpr size_t kMostOperations = 20'000'000, kMostFoldedOperations = 250'000'000, kMostGrowth = 4;
constexpr size_t kFewOperations = 1'000'000;  // which are not folded, though more may be
constexpr size_t kLeastPoints = 4;

using Point = Extrapolation::Point;

// The line through two points that are four times apart, since halves may differ by a step, over `place` of the nodes.
double on_line(const std::vector<Point>& points, size_t last, int nodes, double (*place)(double)) {
  const Point &a = points[last - 2], &b = points[last];
  const double from = place(a.nodes), to = place(b.nodes);
  return a.seconds + (b.seconds - a.seconds) * (place(nodes) - from) / (to - from);
}

double over_logarithm(const std::vector<Point>& points, size_t last, int nodes) {
  return on_line(points, last, nodes, [](double n) { return std::log2(n); });
}

double over_number(const std::vector<Point>& points, size_t last, int nodes) {
  return on_line(points, last, nodes, [](double n) { return n; });
}

// The parabola through three points: a tree's root sends to each of its children, one after the other.
double over_square_of_logarithm(const std::vector<Point>& points, size_t last, int nodes) {
  double seconds = 0;
  for (size_t i = last - 2; i <= last; ++i) {
    double share = 1;
    for (size_t other = last - 2; other <= last; ++other) {
      if (other == i) continue;
      share *= std::log2(static_cast<double>(nodes) / points[other].nodes) /
               std::log2(static_cast<double>(points[i].nodes) / points[other].nodes);
    }
    seconds += share * points[i].seconds;
  }
  return seconds;
}

struct Curve {
  const char* name;  // over what of the nodes
  double (*at)(const std::vector<Point>& points, size_t last, int nodes);
};
constexpr Curve kCurves[] = {
    {"logarithm", over_logarithm}, {"number", over_number}, {"square of the logarithm", over_square_of_logarithm}};
// A curve that was farther off is not taken for one that the times may follow.
constexpr double kMostOff = 0.25;

// Which devices are of the first nodes, or switches outside of nodes that join something of them.
std::vector<bool> devices_of_first(const Topology& topology, int nodes) {
  std::vector<bool> kept;
  for (const Device& it : topology.devices) kept.push_back(it.node != kNoNode && it.node < nodes);
  for (bool has_grown = true; has_grown;) {
    has_grown = false;
    for (const Link& link : topology.links) {
      const auto a = static_cast<size_t>(link.a), b = static_cast<size_t>(link.b);
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        if (!kept[from] || kept[to] || topology.devices[to].node != kNoNode) continue;
        kept[to] = has_grown = true;
      }
    }
  }
  return kept;
}

Topology first_nodes(const Topology& topology, int nodes) {
  const std::vector<bool> kept = devices_of_first(topology, nodes);
  Topology fewer = topology;
  fewer.nodes = nodes;
  fewer.devices.clear();
  fewer.links.clear();
  fewer.open_links.clear();
  std::vector<int> numbers(kept.size(), -1);
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) numbers[i] = fewer.add_device(topology.devices[i]);
  }
  for (Link link : topology.links) {
    link.a = numbers[static_cast<size_t>(link.a)];
    link.b = numbers[static_cast<size_t>(link.b)];
    if (link.a >= 0 && link.b >= 0) fewer.add_link(std::move(link));
  }
  return fewer;
}

// Throws unless all nodes have equally many GPUs, and returns how many there are in all.
int check_ranks(const Topology& topology, const MachinePlanRequest& request) {
  if (request.algorithm.empty()) {
    fail(ErrorCode::kInvalidArgument, "extrapolations are of one plan on any number of nodes; name its algorithm");
  }
  const auto ranks = static_cast<int>(devices_of(topology, DeviceKind::kGpu).size());
  const auto each = static_cast<int>(devices_of(topology, DeviceKind::kGpu, 0).size());
  if (topology.nodes < 2 || ranks != each * topology.nodes || request.ranks != 0) {
    fail(ErrorCode::kInvalidArgument,
         "extrapolations go from fewer nodes to more, with a rank on each GPU and as many on each node, and ",
         topology.name, " has ", counted(topology.nodes, "node"), " with ", counted(ranks, "GPU"),
         "; use --nodes N, and not --ranks");
  }
  return ranks;
}

// Half of the nodes, half of these, …, down to two: the fewest first. Where the machine has several racks, so have all
// of them: times within a rack say nothing of what racks share.
std::vector<int> halved(const Topology& topology) {
  const int rack = topology.network.rack_nodes;
  const int least = rack > 0 && topology.nodes > rack ? rack + 1 : 2;
  std::vector<int> numbers;
  for (int n = topology.nodes / 2; n >= least; n /= 2) numbers.insert(numbers.begin(), n);
  return numbers;
}

[[noreturn]] void refuse_few(const Topology& topology, const std::string& algorithm, size_t points) {
  const int rack = topology.network.rack_nodes;
  const std::string racks = rack > 0 ? join(" and above a rack's ", rack) : "";
  fail(ErrorCode::kInvalidArgument, "extrapolation of ", algorithm, ": ", counted(points, "number"), " of nodes below ",
       topology.nodes, racks, " can be simulated, and ", kLeastPoints,
       " are needed to say how far it is off; use more nodes, or simulate without --extrapolate");
}

void choose_curve(Extrapolation& made) {
  const std::vector<Point>& points = made.points;
  const size_t last = points.size() - 1;
  size_t halvings = 0;
  for (int nodes = made.nodes; nodes > points[last].nodes; nodes /= 2) ++halvings;
  const size_t checked = std::min(halvings, last - 2);
  made.times = 1 << halvings;
  made.checked_times = 1 << checked;
  const auto off = [&](const Curve& curve) {
    return std::abs(curve.at(points, last - checked, points[last].nodes) / points[last].seconds - 1);
  };
  const Curve& best = *std::min_element(std::begin(kCurves), std::end(kCurves),
                                        [&](const Curve& a, const Curve& b) { return off(a) < off(b); });
  made.over = best.name;
  made.seconds = best.at(points, last, made.nodes);
  made.error = off(best);
  for (const Curve& other : kCurves) {
    if (off(other) > kMostOff) continue;
    made.error = std::max(made.error, std::abs(other.at(points, last, made.nodes) / made.seconds - 1));
  }
}

}  // namespace

Extrapolation extrapolate_on_machine(const Topology& topology, const MachinePlanRequest& request,
                                     const Settings& settings, const TunerProgress& progress, int most_ranks) {
  Extrapolation made;
  made.nodes = topology.nodes;
  made.ranks = check_ranks(topology, request);
  const int each = made.ranks / made.nodes, most = most_ranks > 0 ? std::min(most_ranks, kMaxRanks) : kMaxRanks;
  size_t operations = 0, most_operations = kMostFoldedOperations;
  for (const int nodes : halved(topology)) {
    if (nodes * each > most || operations * kMostGrowth > most_operations) break;
    const MachineSimulation run = simulate_on_machine(first_nodes(topology, nodes), request, settings, progress);
    operations = run.operations;
    most_operations = run.shifts || run.operations < kFewOperations ? kMostFoldedOperations : kMostOperations;
    made.points.push_back({nodes, run.run.seconds});
    made.algorithm = run.algorithm;
    made.profile = run.ranks_on().profile->name;
  }
  if (made.points.size() < kLeastPoints) refuse_few(topology, request.algorithm, made.points.size());
  choose_curve(made);
  return made;
}

std::string Extrapolation::describe() const {
  std::string text = join("time     ", seconds_text(seconds), ", not simulated: continued over the ", over,
                          " of nodes\nerror    ", digits(100 * error), " %: the most by which this curve, from ",
                          checked_times, " times fewer nodes, missed the time on ", points.back().nodes,
                          ", or by which others that came near differ; it goes on ", times, " times as far\nfrom     ");
  for (size_t i = 0; i < points.size(); ++i) {
    text += join(i == 0       ? ""
                 : i % 5 == 0 ? "\n         "
                              : "; ",
                 counted(points[i].nodes, "node"), " ", seconds_text(points[i].seconds));
  }
  return text + "\n";
}

}  // namespace plait

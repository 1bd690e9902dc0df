// Paths of several hops at once.
#include "algorithms/steps/paths.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "algorithms/steps/arguments.hpp"

namespace plait {
namespace {

// How many hops go over what joins two ranks, in one direction.
class Crossings {
 public:
  explicit Crossings(const std::vector<Hop>& direct) {
    for (const Hop& hop : direct) ++counts_[hop];
  }
  int most(int from, int via, int to) const { return std::max(of({from, via}), of({via, to})); }
  void add(int from, int via, int to) {
    ++counts_[{from, via}];
    ++counts_[{via, to}];
  }

 private:
  int of(const Hop& hop) const {
    const auto found = counts_.find(hop);
    return found == counts_.end() ? 0 : found->second;
  }

  std::map<Hop, int> counts_;
};

// The paths of the hop, of which a machine may have several relays.
std::vector<RankPath> candidates_of(const AlgorithmArguments& arguments, const Hop& hop, PathKind kind) {
  std::vector<RankPath> all;
  for (const RankPath& it : arguments.paths ? *arguments.paths : std::vector<RankPath>()) {
    if (it.from == hop.first && it.to == hop.second && it.kind == kind) all.push_back(it);
  }
  if (arguments.paths) return all;
  if (kind != PathKind::kRelay) return {{hop.first, hop.second, kind}};
  for (int d = 1; d < arguments.ranks; ++d) {
    const int via = (hop.second + d) % arguments.ranks;
    if (via != hop.first && via != hop.second) all.push_back({hop.first, hop.second, kind, via});
  }
  return all;
}

// The relay over links that the fewest others use, the widest of these.
const RankPath& least_used(const std::vector<RankPath>& relays, const Crossings& crossings) {
  return *std::min_element(relays.begin(), relays.end(), [&](const RankPath& a, const RankPath& b) {
    const int of_a = crossings.most(a.from, a.via, a.to), of_b = crossings.most(b.from, b.via, b.to);
    return of_a != of_b ? of_a < of_b : a.gbps > b.gbps;
  });
}

}  // namespace

std::optional<HopPaths> paths_of(const AlgorithmArguments& arguments, const std::vector<Hop>& hops, PathKind kind,
                                 bool in_ring, Hop& missing) {
  HopPaths found{.kind = kind};
  Crossings crossings(hops);
  std::vector<RankPath> chosen;
  for (const Hop& hop : hops) {
    const std::vector<RankPath> all = candidates_of(arguments, hop, kind);
    if (all.empty()) {
      missing = hop;
      return std::nullopt;
    }
    chosen.push_back(kind == PathKind::kRelay ? least_used(all, crossings) : all.front());
    if (kind != PathKind::kRelay) continue;
    found.via[hop] = chosen.back().via;
    crossings.add(hop.first, chosen.back().via, hop.second);
  }
  for (const RankPath& it : chosen) {
    const int users = kind == PathKind::kRelay ? crossings.most(it.from, it.via, it.to) : 1;
    const double gbps = (in_ring ? it.ring_gbps : it.gbps) / users;
    found.gbps = found.gbps == 0 ? gbps : std::min(found.gbps, gbps);
    found.apart = found.apart && users == 1;
  }
  return found;
}

std::vector<PathShare> checked_shares(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  constexpr int kMostShares = 1000;
  int64_t sum = 0;
  int divisor = 0;
  std::vector<PathKind> seen;
  for (const PathShare& it : arguments.shares) {
    if (it.kind == PathKind::kNet || it.share < 1 || std::count(seen.begin(), seen.end(), it.kind) > 0) {
      refuse(algorithm, "share ", it.share, " of path ", name(it.kind),
             " is not as it should be; direct, host and relay have one share each, which is at least 1");
    }
    seen.push_back(it.kind);
    sum += it.share;
    divisor = std::gcd(divisor, it.share);
  }
  if (sum > kMostShares) refuse(algorithm, "the sum of the shares is ", sum, "; it is at most ", kMostShares);
  std::vector<PathShare> least = arguments.shares;
  for (PathShare& it : least) it.share /= divisor;
  return least;
}

bool is_worth_it(const std::vector<PathShare>& percent) {
  constexpr int kLeastPercent = 5;  // 5 to 95
  int others = 0;
  for (const PathShare& it : percent) others += it.kind == PathKind::kDirect ? 0 : it.share;
  return others >= kLeastPercent && others < 100;
}

std::vector<int> shares_of(const std::vector<double>& weights) {
  const auto share = [&](int units) {
    std::vector<int> percent(weights.size());
    for (int unit = 0; unit < units; ++unit) {
      size_t first = 0;
      const auto end = [&](size_t i) { return (percent[i] + 100.0 / units) / weights[i]; };
      for (size_t i = 1; i < weights.size(); ++i) first = end(i) < end(first) ? i : first;
      percent[first] += 100 / units;
    }
    return percent;
  };
  // More units would cut the message into more chunks, for a gain of a few percent.
  const std::vector<int> coarse = share(20);
  return std::count(coarse.begin(), coarse.end(), 0) == 0 ? coarse : share(100);
}

}  // namespace plait

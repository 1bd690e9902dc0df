// Room on links.
#include "algorithms/steps/packing.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

namespace plait {

LinkRoom::LinkRoom(int ranks, const std::vector<DeviceLink>& links, double gbps_each, int most)
    : ranks_(ranks), room_(static_cast<size_t>(ranks) * static_cast<size_t>(ranks)) {
  constexpr double kSlack = 1e-6;  // for the rounding of gbps / k * k
  for (const DeviceLink& it : links) {
    at(it.a, it.b) = at(it.b, it.a) = static_cast<int>(std::min<double>(most, it.gbps / gbps_each + kSlack));
  }
}

int LinkRoom::out_of(int rank) const {
  const auto row = room_.begin() + static_cast<std::ptrdiff_t>(rank) * ranks_;
  return std::accumulate(row, row + ranks_, 0);
}

int LinkRoom::in_all() const { return std::accumulate(room_.begin(), room_.end(), 0) / 2; }

std::vector<int> LinkRoom::way(int from, int to) const {
  std::vector<int> before(static_cast<size_t>(ranks_), -1);
  before[static_cast<size_t>(from)] = from;
  std::vector<int> open = {from};
  for (size_t i = 0; i < open.size() && before[static_cast<size_t>(to)] < 0; ++i) {
    for (int next = 0; next < ranks_; ++next) {
      if (before[static_cast<size_t>(next)] >= 0 || at(open[i], next) == 0) continue;
      before[static_cast<size_t>(next)] = open[i];
      open.push_back(next);
    }
  }
  if (before[static_cast<size_t>(to)] < 0) return {};
  std::vector<int> backwards = {to};
  while (backwards.back() != from) backwards.push_back(before[static_cast<size_t>(backwards.back())]);
  return {backwards.rbegin(), backwards.rend()};
}

bool LinkRoom::take_way(int from, int to) {
  const std::vector<int> ranks = way(from, to);
  for (size_t i = 1; i < ranks.size(); ++i) {
    --at(ranks[i - 1], ranks[i]);
    ++at(ranks[i], ranks[i - 1]);
  }
  return !ranks.empty();
}

std::vector<double> filling_bandwidths(const std::vector<DeviceLink>& links, int most, double least) {
  constexpr double kSame = 1e-9;
  std::vector<double> all;
  for (const DeviceLink& it : links) {
    for (int shapes = 1; shapes <= most && it.gbps / shapes > least; ++shapes) all.push_back(it.gbps / shapes);
  }
  std::sort(all.begin(), all.end(), std::greater<>());
  all.erase(std::unique(all.begin(), all.end(), [](double a, double b) { return a - b < a * kSame; }), all.end());
  return all;
}

std::vector<int> counts_up_to(int most, int wanted) {
  if (wanted > 0) return {wanted};
  std::vector<int> counts(static_cast<size_t>(most));
  std::iota(counts.begin(), counts.end(), 1);
  return counts;
}

// The method is that of Stoer and Wagner. It lists ranks, each time the one that is most tightly joined to those
// before. The last rank's links are then the least cut between it and the one before it. Then the two count as one.
double least_cut(int ranks, const std::vector<DeviceLink>& links) {
  std::vector<std::vector<double>> gbps(static_cast<size_t>(ranks), std::vector<double>(static_cast<size_t>(ranks)));
  for (const DeviceLink& it : links) gbps[it.a][it.b] = gbps[it.b][it.a] = it.gbps;
  std::vector<int> left(static_cast<size_t>(ranks));
  std::iota(left.begin(), left.end(), 0);
  double least = std::numeric_limits<double>::infinity();
  for (; left.size() > 1; left.pop_back()) {
    std::vector<double> joined(static_cast<size_t>(ranks));
    for (size_t i = 0; i < left.size(); ++i) {
      const auto next = std::max_element(left.begin() + static_cast<std::ptrdiff_t>(i), left.end(),
                                         [&](int a, int b) { return joined[a] < joined[b]; });
      std::iter_swap(next, left.begin() + static_cast<std::ptrdiff_t>(i));
      for (size_t j = i + 1; j < left.size(); ++j) joined[left[j]] += gbps[left[i]][left[j]];
    }
    const int last = left.back(), before = left[left.size() - 2];
    least = std::min(least, joined[last]);
    for (const int rank : left) gbps[before][rank] = gbps[rank][before] += gbps[last][rank];
  }
  return least;
}

}  // namespace plait

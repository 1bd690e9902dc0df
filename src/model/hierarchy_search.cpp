#include "model/hierarchy_search.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait {
namespace {

constexpr int64_t kMostHierarchies = 10'000'000;

bool is_better(const Hierarchy& a, const Hierarchy& b) {
  if (a.seconds != b.seconds) return a.seconds < b.seconds;
  if (a.factors.size() != b.factors.size()) return a.factors.size() < b.factors.size();
  return a.factors < b.factors;
}

// Keeps the best of those that it is shown.
class Ranking {
 public:
  explicit Ranking(int keep) : keep_(static_cast<size_t>(keep)) {
    if (keep < 1) fail(ErrorCode::kInvalidArgument, "keep is ", keep, "; it says how many are kept, from 1 on");
  }

  void show(Hierarchy hierarchy) {
    ++ranking_.evaluations;
    std::vector<Hierarchy>& best = ranking_.best;
    if (best.size() == keep_ && !is_better(hierarchy, best.back())) return;
    best.insert(std::upper_bound(best.begin(), best.end(), hierarchy, is_better), std::move(hierarchy));
    if (best.size() > keep_) best.pop_back();
  }

  HierarchyRanking take() { return std::move(ranking_); }

 private:
  const size_t keep_;
  HierarchyRanking ranking_;
};

std::vector<int> divisors(int number) {
  std::vector<int> found;
  for (int divisor = 1; divisor <= number; ++divisor) {
    if (number % divisor == 0) found.push_back(divisor);
  }
  return found;
}

// Goes through the factorisations, the factors so far in a stack.
class Exhaustive {
 public:
  Exhaustive(HierarchyModel& model, double bytes, int keep) : model_(model), bytes_(bytes), ranking_(keep) {}

  void extend(int stride, int left, double seconds) {
    if (left == 1) ranking_.show({factors_, seconds});
    for (const int factor : divisors(left)) {
      if (factor == 1) continue;
      factors_.push_back(factor);
      extend(stride * factor, left / factor, seconds + model_.layer_seconds(stride, factor, bytes_));
      factors_.pop_back();
    }
  }

  HierarchyRanking take() { return ranking_.take(); }

 private:
  HierarchyModel& model_;
  const double bytes_;
  Ranking ranking_;
  std::vector<int> factors_;
};

}  // namespace

int64_t ordered_factorisations(int number, int64_t most) {
  std::map<int, int64_t> counts = {{1, 1}};
  for (const int divisor : divisors(number)) {
    for (const auto& [smaller, count] : counts) {
      if (smaller == divisor || divisor % smaller != 0) continue;
      counts[divisor] = std::min(most, counts[divisor] + count);
    }
  }
  return counts[number];
}

HierarchyRanking search_all_hierarchies(HierarchyModel& model, int ranks, double bytes, int keep) {
  HierarchyModel::check_bytes(bytes);
  if (ranks < 1 || model.ranks() % ranks != 0) {
    fail(ErrorCode::kInvalidArgument, "hierarchies of ", counted(ranks, "rank"), " of ", model.ranks(),
         "; their number is a divisor of that, from 1 on");
  }
  if (ordered_factorisations(ranks, kMostHierarchies + 1) > kMostHierarchies) {
    fail(ErrorCode::kInvalidArgument, "there are more than ", kMostHierarchies, " hierarchies of ",
         counted(ranks, "rank"), "; grow them from those of fewer ranks instead");
  }
  Exhaustive search(model, bytes, keep);
  search.extend(1, ranks, 0);
  return search.take();
}

std::map<int, HierarchyRanking> grow_hierarchies(HierarchyModel& model, double bytes, int keep) {
  HierarchyModel::check_bytes(bytes);
  std::map<int, HierarchyRanking> grown;
  for (const int ranks : divisors(model.ranks())) {
    Ranking ranking(keep);
    if (ranks == 1) ranking.show({});
    for (const auto& [fewer, smaller] : grown) {
      if (ranks % fewer != 0) continue;
      const double last = model.layer_seconds(fewer, ranks / fewer, bytes);
      for (Hierarchy hierarchy : smaller.best) {
        hierarchy.factors.push_back(ranks / fewer);
        hierarchy.seconds += last;
        ranking.show(std::move(hierarchy));
      }
    }
    grown.emplace(ranks, ranking.take());
  }
  return grown;
}

int64_t evaluations_of(const std::map<int, HierarchyRanking>& grown) {
  int64_t evaluations = 0;
  for (const auto& [ranks, ranking] : grown) evaluations += ranks == 1 ? 0 : ranking.evaluations;
  return evaluations;
}

const char* name(Extension extension) {
  constexpr const char* kNames[] = {"a new layer", "a larger last layer", "another layer larger", "other factors"};
  return kNames[static_cast<size_t>(extension)];
}

Extension extension_of(const std::vector<int>& small, const std::vector<int>& large) {
  const auto is_no_factor = [](int factor) { return factor < 1; };
  if (std::ranges::any_of(small, is_no_factor) || std::ranges::any_of(large, is_no_factor)) {
    fail(ErrorCode::kInvalidArgument, "a factor is less than 1");
  }
  size_t same = 0;
  while (same < std::min(small.size(), large.size()) && small[same] == large[same]) ++same;
  if (same == small.size()) return Extension::kNewLayer;
  if (small.size() != large.size() || large[same] % small[same] != 0) return Extension::kOther;
  const bool rest_equal = std::equal(small.begin() + static_cast<std::ptrdiff_t>(same) + 1, small.end(),
                                     large.begin() + static_cast<std::ptrdiff_t>(same) + 1);
  if (!rest_equal) return Extension::kOther;
  return same + 1 == small.size() ? Extension::kLargerLast : Extension::kLargerOther;
}

}  // namespace plait

// The best hierarchies of a machine: all of them tried, or grown from the best of fewer ranks (UEN-31, UEN-51, UEN-54).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "model/hierarchy.hpp"

namespace plait {

struct Hierarchy {
  std::vector<int> factors;  // p1, p2, …, each at least 2
  double seconds = 0;
  bool operator==(const Hierarchy&) const = default;
};

struct HierarchyRanking {
  std::vector<Hierarchy> best;  // in order of time; of equals the one with fewer layers, then smaller factors, first
  int64_t evaluations = 0;      // hierarchies whose time was computed
};

// How many ordered factorisations a number has, which is how many hierarchies. Counts up to `most`.
int64_t ordered_factorisations(int number, int64_t most);

// Tries every ordered factorisation of `ranks`, which has to divide the model's. Keeps the best `keep`. Throws
// kInvalidArgument where it does not, where factorisations are more than ten million, where `keep` is less than 1, and
// where there is no message of so many bytes.
HierarchyRanking search_all_hierarchies(HierarchyModel& model, int ranks, double bytes, int keep);

// The best of every divisor of the model's ranks. Each hierarchy is one of the best of fewer ranks with a layer more
// (UEN-51): a new last layer, or a larger one in place of the last. The time of a hierarchy is the sum of two: that of
// all layers but the last, which does not depend on the last, and that of the last. So the best has the best below it,
// and `keep` of each suffice to find the best `keep`. Throws kInvalidArgument for bytes and `keep` as the search above.
std::map<int, HierarchyRanking> grow_hierarchies(HierarchyModel& model, double bytes, int keep);
int64_t evaluations_of(const std::map<int, HierarchyRanking>& grown);

// How the best hierarchy of more ranks comes from that of fewer (UEN-51).
enum class Extension : uint8_t {
  kNewLayer,     // has all its layers, and more behind them
  kLargerLast,   // the same but for the last, which is larger
  kLargerOther,  // the same but for another layer, which is larger
  kOther,        // none of these
};
const char* name(Extension extension);  // "a new layer", "a larger last layer", "another layer larger", "other factors"
Extension extension_of(const std::vector<int>& small, const std::vector<int>& large);

}  // namespace plait

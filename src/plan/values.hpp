// The symbolic values that the verifier puts into places. A value has a chunk, the ranks whose contributions it sums
// up, and a fingerprint of the expression that combined them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace plait {

class ValueTable {
 public:
  using Id = int32_t;
  static constexpr Id kNothing = -1;

  // Holds at most `most` values.
  ValueTable(int ranks, size_t most);
  static double most_bytes(int ranks, double values) { return values * (sizeof(Value) + words(ranks) * 8.0); }

  // The untouched contribution of `rank` to `chunk`.
  Id contribution(int rank, int chunk);

  struct Combination {
    Id value = kNothing;
    int repeated_rank = -1;  // a rank whose contribution is in both sides: the combination is wrong
  };
  // `left` combined with `right`, in this order.
  Combination combine(Id left, Id right);

  int chunk(Id id) const { return values_[id].chunk; }
  int count(Id id) const { return values_[id].count; }
  uint64_t expression(Id id) const { return values_[id].expression; }
  bool contains(Id id, int rank) const { return (word(id, rank / 64) >> (rank % 64) & 1) != 0; }
  // Returns the first rank that has not contributed, or -1.
  int first_missing(Id id) const;
  bool is_partial(Id id) const { return count(id) > 1 && count(id) < ranks_; }

 private:
  struct Value {
    int chunk;
    int count;
    uint64_t expression;
  };
  static int words(int ranks) { return (ranks + 63) / 64; }
  uint64_t word(Id id, int index) const { return bits_[static_cast<size_t>(id) * words_ + index]; }

  int ranks_;
  int words_;
  std::vector<Value> values_;
  std::vector<uint64_t> bits_;  // words_ per value
};

}  // namespace plait

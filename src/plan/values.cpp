// Makes symbolic values.
#include "plan/values.hpp"

#include <bit>

namespace plait {
namespace {

// A fingerprint of an expression tree; the finaliser of splitmix64 spreads every input bit over the whole word.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

// Memory is reserved: tables that grow would take twice the memory and more.
ValueTable::ValueTable(int ranks, size_t most) : ranks_(ranks), words_(words(ranks)) {
  values_.reserve(most);
  bits_.reserve(most * words_);
}

ValueTable::Id ValueTable::contribution(int rank, int chunk) {
  const Id id = static_cast<Id>(values_.size());
  values_.push_back({chunk, 1, mix(static_cast<uint64_t>(rank) + 1)});
  bits_.resize(bits_.size() + words_, 0);
  bits_[static_cast<size_t>(id) * words_ + rank / 64] |= uint64_t{1} << (rank % 64);
  return id;
}

ValueTable::Combination ValueTable::combine(Id left, Id right) {
  for (int w = 0; w < words_; ++w) {
    const uint64_t both = word(left, w) & word(right, w);
    if (both != 0) return {kNothing, w * 64 + std::countr_zero(both)};
  }
  const Id id = static_cast<Id>(values_.size());
  // The order of the two sides counts: floating-point reductions do not commute if NaNs or signed zeros meet.
  values_.push_back({chunk(left), count(left) + count(right), mix(mix(expression(left)) + 3 * expression(right))});
  bits_.resize(bits_.size() + words_);
  for (int w = 0; w < words_; ++w) {
    bits_[static_cast<size_t>(id) * words_ + w] = word(left, w) | word(right, w);
  }
  return {id, -1};
}

int ValueTable::first_missing(Id id) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!contains(id, rank)) return rank;
  }
  return -1;
}

}  // namespace plait

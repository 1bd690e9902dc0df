// Steps from a choice to those beside it.
#include "tuner/neighbours.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "algorithms/algorithm.hpp"

namespace plait {
namespace {

constexpr int kMostParts = 32;
constexpr int kShareSteps = 20;  // of which one goes to another path

using Arguments = AlgorithmArguments;

class Neighbours {
 public:
  explicit Neighbours(const PlanChoice& choice)
      : choice_(choice), uses_(find_algorithm(choice.algorithm, choice.arguments.collective).uses) {}

  void add_variations() {
    if (uses_.parts) add_parts([](Arguments& it) -> int& { return it.parts; });
    if (uses_.direction) add_direction();
  }

  void add_parts_of_levels() {
    for (size_t level = 0; level < choice_.arguments.levels.size(); ++level) {
      add_parts([level](Arguments& it) -> int& { return it.levels[level].parts; });
    }
  }

  // In twentieths, which is as fine as shares that the model computes.
  void add_shares() {
    std::vector<PathShare> shares = choice_.arguments.shares;
    if (shares.size() < 2) return;
    int sum = 0, given = 0;
    for (const PathShare& it : shares) sum += it.share;
    for (PathShare& it : shares) given += it.share = std::max(1, it.share * kShareSteps / sum);
    shares.front().share += kShareSteps - given;
    for (size_t to = 1; to < shares.size(); ++to) {
      const int has = shares[to].share;
      for (const int steps : {-has / 2, has, -1, 1}) move_share(shares, 0, to, steps);
      for (size_t from = 1; from < shares.size(); ++from) {
        if (from != to) move_share(shares, from, to, 1);
      }
    }
  }

  std::vector<PlanChoice> take() { return std::move(all_); }

 private:
  Arguments& add() {
    all_.push_back(choice_);
    return all_.back().arguments;
  }

  template <class PartsOf>
  void add_parts(const PartsOf& parts_of) {
    const int parts = parts_of(choice_.arguments);
    if (parts * 2 <= kMostParts) parts_of(add()) = parts * 2;
    if (parts > 1) parts_of(add()) = parts / 2;
  }

  void add_direction() {
    const Direction direction = choice_.arguments.direction;
    if (direction == Direction::kBoth) return;
    add().direction = direction == Direction::kLoad ? Direction::kStore : Direction::kLoad;
  }

  // Every path keeps a share: a step that would take all of it is left out.
  void move_share(std::vector<PathShare> shares, size_t from, size_t to, int steps) {
    shares[from].share -= steps;
    shares[to].share += steps;
    if (steps == 0 || shares[from].share < 1 || shares[to].share < 1) return;
    int divisor = 0;
    for (const PathShare& it : shares) divisor = std::gcd(divisor, it.share);
    for (PathShare& it : shares) it.share /= divisor;
    add().shares = std::move(shares);
  }

  PlanChoice choice_;
  const Uses uses_;
  std::vector<PlanChoice> all_;
};

}  // namespace

std::vector<PlanChoice> variations_of(const PlanChoice& choice) {
  if (choice.given != 0) return {};
  Neighbours neighbours(choice);
  neighbours.add_variations();
  return neighbours.take();
}

std::vector<PlanChoice> neighbours_of(const PlanChoice& choice) {
  if (choice.given != 0) return {};
  Neighbours neighbours(choice);
  neighbours.add_shares();
  neighbours.add_variations();
  neighbours.add_parts_of_levels();
  return neighbours.take();
}

}  // namespace plait

// Finds the fastest of many candidates while few of them are timed, since a simulation takes longer than a prediction.
//
// Times are taken at sampled sizes alone, and between two of these they grow by the byte. So the fastest changes at
// most once between two samples, and calls of many sizes cost no more than a few simulations.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tuner/candidates.hpp"

namespace plait {

// The sampled sizes around a number of bytes: 16 bytes, 1 KiB, and by steps of four up to `most`.
struct SampledSizes {
  SampledSizes(double bytes, size_t most);

  // The time at `bytes`. It goes on by the byte beyond the last sample, and does not get less below the first.
  double between(double at_low, double at_high) const;

  size_t low = 0, high = 0;
  double bytes = 0;
};

// Tells what candidates take for so many bytes.
struct Stopwatch {
  // None: the candidate cannot be timed, and does not take part.
  std::function<std::optional<double>(const Candidate& it, size_t bytes)> seconds;
  std::function<double(const Candidate& it, size_t bytes)> least;  // `seconds` never gives less
  size_t most_bytes = size_t{1} << 30;                             // that are sampled
};

// Among the candidates of one collective and root.
class Contest {
 public:
  // The fastest that takes less than `limit` at a sampled size near this one; null where there is none. Among equals it
  // is the one with fewer steps. `limit` depends on the size alone.
  const Candidate* fastest(const Candidates& candidates, double bytes, const Stopwatch& watch,
                           const std::function<double(size_t bytes)>& limit);
  // None where it cannot be timed.
  std::optional<double> seconds(const Candidate& it, double bytes, const Stopwatch& watch);
  // Candidates have changed.
  void forget_winners() { winners_.clear(); }

 private:
  using Key = std::pair<std::string, Protocol>;

  const Candidate* winner(const Candidates& candidates, size_t bytes, const Stopwatch& watch, double limit);
  std::optional<double> sample(const Candidate& it, size_t bytes, const Stopwatch& watch);

  std::map<size_t, std::optional<size_t>> winners_;  // places among the candidates, by size
  std::map<std::pair<Key, size_t>, std::optional<double>> samples_;
};

}  // namespace plait

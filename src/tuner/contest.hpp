// Finds the fastest of many candidates while few of them are timed, since a simulation takes longer than a prediction.
//
// Times are taken at sampled sizes alone, and between two of these they grow by the byte. So calls of many sizes cost
// no more than a few simulations.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "tuner/candidates.hpp"

namespace plait {

// The sampled sizes around a number of bytes: 16 bytes, 1 KiB, and by steps of two up to `most`.
struct SampledSizes {
  SampledSizes(double bytes, size_t most);

  // The time at `bytes`. It goes on by the byte beyond the last sample, and does not get less below the first.
  double between(double at_low, double at_high) const;

  size_t low = 0, high = 0;
  double bytes = 0;
};

// Tells what candidates take for so many bytes.
struct Stopwatch {
  // None: it takes more than `most`, or the candidate cannot be timed, and does not take part.
  std::function<std::optional<double>(const Candidate& it, size_t bytes, double most)> seconds;
  std::function<double(const Candidate& it, size_t bytes)> least;  // `seconds` never gives less
  size_t most_bytes = size_t{1} << 30;                             // that are sampled
  // Candidates like this one that may be faster. Empty: none are tried.
  std::function<std::vector<const Candidate*>(const Candidate& it)> variations = {};
};

// Among the candidates of one collective and root, and their variations.
class Contest {
 public:
  // The fastest that takes less than `limit` at a sampled size near this one; null where there is none. Among equals it
  // is the one with fewer steps. `limit` depends on the size alone.
  const Candidate* fastest(const Candidates& candidates, double bytes, const Stopwatch& watch,
                           const std::function<double(size_t bytes)>& limit);
  // None where it cannot be timed.
  std::optional<double> seconds(const Candidate& it, double bytes, const Stopwatch& watch);
  // Candidates have changed.
  void forget_winners() { heats_.clear(); }

 private:
  using Key = std::pair<std::string, Protocol>;

  struct Timed {
    const Candidate* candidate;
    double seconds;
  };
  struct Sample {
    std::optional<double> seconds;
    double most;  // that it was timed for
  };
  // What is known at a sampled size.
  struct Heat {
    std::vector<Timed> timed;           // all that were timed, take less than the limit, and are not far behind
    double fastest;                     // of them
    const Candidate* winner = nullptr;  // null: there is none

    bool has(const Candidate& it) const {
      return std::ranges::any_of(timed, [&](const Timed& other) { return other.candidate == &it; });
    }
  };
  struct Course;  // of a heat

  const Heat& heat(const Candidates& candidates, size_t bytes, const Stopwatch& watch, double limit);
  void time(const Candidate& it, const Course& course, Heat& heat);
  void time_all(const Candidates& candidates, const Course& course, Heat& heat);
  void time_variations(const Candidates& candidates, const Course& course, Heat& heat);
  void climb(Timed from, const Course& course, Heat& heat);
  Timed known(const Candidate& it, const Course& course) const;
  std::optional<double> sample(const Candidate& it, size_t bytes, const Stopwatch& watch, double most);

  std::map<size_t, Heat> heats_;  // by size
  std::map<std::pair<Key, size_t>, Sample> samples_;
};

}  // namespace plait

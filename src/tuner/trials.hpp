// Which of several plans is the fastest, found out by the calls of a program itself (TEM-60).
//
// Calls come in rounds. A round begins with trials: the plan in use and two challengers take turns. The rest of its
// calls are for the plan in use. Then all ranks agree on what the trials took. A challenger that is faster meets the
// plan in use once more, alone, since the best of many is partly the luckiest; if it wins again, it takes its place.
// Rounds get longer when all challengers were tried for nothing, so that trials get rare, and short again when a plan
// takes the place of another or what it takes changes.
//
// All is a pure function of calls and of what ranks agreed on, so all ranks choose alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace plait {

class Trials {
 public:
  // Plans are numbers here. `challengers`: in the order in which they are tried, again and again.
  Trials(int in_use, std::vector<int> challengers);

  // The plan of the next call.
  int plan() const;
  // The call that had it took so many seconds on this rank.
  void took(double seconds);

  // Whether the round has ended: no other call may be made until ranks agreed.
  bool has_ended() const { return call_ == length_; }
  // What the trials of this round took on this rank: a median for each plan that took part.
  std::vector<double> seconds() const;
  enum class Verdict : uint8_t {
    kNothingNew,
    kOtherPlan,     // is in use now, for which the caller may have other challengers
    kNoneIsFaster,  // all challengers were tried; the caller may have more, near the best of them
  };
  // Begins a new round. `agreed`: one for each of the medians, the same on all ranks.
  Verdict agree(std::span<const double> agreed);
  // From now on.
  void challenge(std::vector<int> challengers);

  int in_use() const { return entrants_.front(); }
  const std::vector<int>& challengers() const { return challengers_; }
  // After kNoneIsFaster: the challenger that came nearest to the plan in use.
  int runner_up() const { return runner_up_; }
  // What the plan in use took in the last trials; 0 before the first.
  double last_seconds() const { return last_seconds_; }

 private:
  void start_lap();
  void look_at_challengers(std::span<const double> agreed);
  void start_round(std::vector<int> entrants);
  std::vector<int> next_challengers();
  size_t trial_calls() const;
  size_t entrant() const;

  std::vector<int> challengers_;
  size_t next_ = 0;           // of the challengers
  size_t in_lap_ = 0;         // tried since all were tried last
  int nearest_ = -1;          // to the plan in use, of the challengers since then
  double nearest_share_ = 0;  // of the time of the plan in use
  int runner_up_ = -1;
  std::vector<int> entrants_;  // of this round's trials; the plan in use is the first
  bool is_rematch_ = false;
  bool is_open_ = false;                      // since the last round, when what the plan in use takes changed
  std::vector<std::vector<double>> seconds_;  // of each entrant
  size_t call_ = 0, length_ = 0;
  size_t quiet_ = 1;  // how many times as long as its trials a round is
  double last_seconds_ = 0;
};

}  // namespace plait

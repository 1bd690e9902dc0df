// Calls that look for the fastest plan while a program runs, and follow what changes (TEM-60): PLAIT_ADAPT.
//
// A tuner goes by what was measured or computed before. Other programs on the machine, a link that is slower than it
// says, or a size that nobody measured are not in it. Here calls that a program makes again and again take turns with
// other plans (tuner/trials.hpp): neighbours of the plan in use, which differ by parts or by the shares of paths, and
// candidates of the tuner that its model finds nearly as fast.
//
// Ranks agree at the end of each round, by a call of their own, so all have the same plan in the same call. What is
// kept here changes after calls that went well, in the same way on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "plan/verifier.hpp"
#include "runtime/call.hpp"
#include "tuner/trials.hpp"
#include "tuner/tuner.hpp"

namespace plait {

class AdaptedCalls {
 public:
  struct Hooks {
    // Whether this rank can perform the call by the plan, which the call names.
    std::function<bool(const Call& call, const VerifiedPlan& plan)> can_perform;
    // The greatest of each number on all ranks, in its place.
    std::function<void(std::span<double> numbers)> greatest;
    // Seconds since some moment.
    std::function<double()> clock;
  };
  // Performs the call by the plan that it names or, if it names none, that the tuner chooses.
  using Perform = std::function<void(const Call& call)>;

  // The tuner must outlive it.
  AdaptedCalls(Tuner& tuner, Logger log, Hooks hooks) : tuner_(tuner), log_(log), hooks_(std::move(hooks)) {}

  void run(const Call& call, const Perform& perform);
  // The plan in use for such calls; null where the tuner's choice is.
  std::shared_ptr<const VerifiedPlan> plan_in_use(const Call& call) const;

 private:
  struct Option {
    PlanChoice choice;
    std::shared_ptr<const VerifiedPlan> plan;
    bool has_neighbours = false;  // among the options
  };
  struct Adapted {
    std::vector<Option> options;   // whose places are the numbers of the trials
    std::optional<Trials> trials;  // none: there is nothing to try
    uint64_t last_call = 0;
  };
  using Key = std::tuple<Collective, DataType, ReduceOp, int, size_t>;

  static Key key_of(const Call& call) { return {call.collective, call.type, call.op, call.root, call.count}; }
  void run_trial(const Call& call, Adapted& adapted, const Perform& perform);
  void count(const Call& call);
  bool make_room();
  void begin(const Call& call, Adapted& adapted);
  std::vector<PlanChoice> near_candidates(const Call& call);
  // Adds those that all ranks can perform, and returns their numbers. Known ones are not made anew.
  std::vector<int> add(const Call& call, std::vector<PlanChoice> choices, Adapted& adapted);
  bool make(const Call& call, const PlanChoice& choice, int64_t& operations, Option& option);
  void end_round(const Call& call, Adapted& adapted);
  void challenge_from(const Call& call, Adapted& adapted, int number);
  static const std::string& text_of(const Adapted& adapted, int number);

  Tuner& tuner_;
  const Logger log_;
  const Hooks hooks_;
  uint64_t calls_ = 0;
  std::map<Key, int> counts_;  // of calls that do not adapt yet
  std::map<Key, Adapted> adapted_;
};

}  // namespace plait

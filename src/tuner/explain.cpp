// Explanations of choices.
#include "tuner/explain.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "model/explain_links.hpp"

namespace plait {
namespace {

// Plans whose times differ by less than this factor count as equally fast.
constexpr double kEquallyFast = 1.01;

std::string filled(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string steps_text(int steps) { return join(steps, steps == 1 ? " step" : " steps"); }

// One plan, at the size that is asked about.
struct Alternative {
  std::string name;
  Protocol protocol = Protocol::kSimple;
  double seconds = 0;
  double bound_seconds_per_byte = 0;
  int steps = 0;
};

class ChoiceExplanation {
 public:
  ChoiceExplanation(Tuner& tuner, const Explained& it)
      : tuner_(tuner),
        it_(it),
        plan_(*tuner.plan(it.choice.plan)),
        is_barrier_(plan_.plan().collective == Collective::kBarrier),
        bytes_(is_barrier_ ? 0 : static_cast<double>(it.bytes == 0 ? kLongMessage : it.bytes)) {
    find_candidates();
    own_ = own();
    find_others();
  }

  std::string text() const {
    const RankMachine& machine = tuner_.machine();
    return explain_links(plan_, machine.topology, machine.placement, static_cast<double>(it_.bytes)) + choices_text() +
           "why       " + verdict() + "\n";
  }

 private:
  void find_candidates() {
    try {
      candidates_ = &tuner_.candidates(plan_.plan().collective, plan_.plan().root);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInvalidArgument) throw;  // that there is none
    }
  }

  // The time by which the model compared candidates, if it did; else the time by its costs.
  double seconds(const Candidate& it) const {
    return is_simulated() ? tuner_.seconds(it, bytes_) : it.cost.seconds(bytes_);
  }
  bool is_simulated() const {
    if (it_.choice.is_simulated) return true;
    return it_.is_asked_for && !tuner_.has_rules() && tuner_.simulates(plan_.plan().collective);
  }

  Alternative described(const Candidate& it) const {
    return {it.choice.text(), it.protocol, seconds(it), it.bound_seconds_per_byte, it.steps};
  }
  // The plan itself, with the chosen protocol, or else with the fastest.
  Alternative own() const {
    Alternative best = described(tuner_.costed(it_.choice));
    if (!it_.is_asked_for || candidates_ == nullptr) return best;
    for (const Candidate& it : candidates_->all) {
      if (it.choice.text() == best.name && seconds(it) < best.seconds) best = described(it);
    }
    return best;
  }

  std::string_view own_algorithm() const { return it_.choice.plan.algorithm; }
  bool is_own(const Alternative& it) const { return it.name == own_.name && it.protocol == own_.protocol; }

  // The best of each algorithm, the fastest first.
  void find_others() {
    if (candidates_ == nullptr) return;
    std::set<std::string_view> seen;
    if (it_.choice.is_simulated && !it_.is_asked_for) seen.insert(own_algorithm());  // no other of it is better
    for (const Candidate& it : candidates_->all) {
      if (!seen.insert(it.choice.algorithm).second) continue;
      const Candidate* best = &it;
      for (const Candidate& other : candidates_->all) {
        if (other.choice.algorithm == it.choice.algorithm && seconds(other) < seconds(*best)) best = &other;
      }
      if (Alternative made = described(*best); !is_own(made)) others_.push_back(std::move(made));
    }
    std::stable_sort(others_.begin(), others_.end(),
                     [](const Alternative& a, const Alternative& b) { return a.seconds < b.seconds; });
  }

  // A bandwidth says more about a long message than a time.
  bool is_long() const { return it_.bytes == 0 && !is_barrier_; }

  std::string choices_text() const {
    std::string text = "choices   the best of each algorithm";
    if (!is_barrier_) text += is_long() ? " for long messages" : " for " + bytes_text(bytes_);
    text += join(", by the model", is_simulated() ? "'s simulation: " : ": ", is_long() ? "bandwidth" : "time",
                 ", what links allow at most, steps\n");
    size_t width = own_.name.size();
    for (const Alternative& it : others_) width = std::max(width, it.name.size());
    text += line(own_, width, "  <- this plan");
    for (const Alternative& it : others_) text += line(it, width, "");
    return text + left_out_text();
  }

  std::string line(const Alternative& it, size_t width, const char* mark) const {
    const std::string cost = is_long() ? digits(bytes_ / it.seconds * 1e-9) + " GB/s" : seconds_text(it.seconds);
    const std::string bound =
        it.bound_seconds_per_byte > 0 ? digits(1e-9 / it.bound_seconds_per_byte) + " GB/s" : std::string("-");
    return join("  ", filled(it.name, width + 2), tuner_.machine().gpus ? filled(name(it.protocol), 8) : "",
                filled(cost, 12), filled(bound, 12), steps_text(it.steps), mark, "\n");
  }

  std::string left_out_text() const {
    std::string text;
    if (candidates_ == nullptr) return text;
    if (const std::string large = too_large_text(*candidates_); !large.empty()) {
      text += join("  too large to try: ", large, "\n");
    }
    std::set<std::string_view> known;
    for (const Candidate& it : candidates_->all) known.insert(it.choice.algorithm);
    for (const LeftOut& it : candidates_->left_out) {
      if (it.too_large) known.insert(it.plan.algorithm);
    }
    std::string unfit;
    for (const Algorithm& it : algorithms()) {
      if (!serves(it, plan_.plan().collective) || known.count(it.name) > 0) continue;
      unfit += join(unfit.empty() ? "" : ", ", it.name);
    }
    return unfit.empty() ? text : text + join("  not for this machine: ", unfit, "\n");
  }

  // The fastest of the others beside this plan.
  std::string comparison() const {
    if (others_.empty()) return "no other algorithm can be used here";
    const Alternative& best = others_[0];
    if (best.seconds * kEquallyFast < own_.seconds) {
      return join(best.name, " should take ", digits(best.seconds / own_.seconds), " of its time");
    }
    if (best.seconds < own_.seconds * kEquallyFast) return best.name + " should be as fast";
    return join("the next, ", best.name, ", should take ", digits(best.seconds / own_.seconds), " times as long");
  }

  std::string verdict() const {
    if (it_.is_asked_for || it_.choice.is_forced) return join("asked for by name; ", comparison(), ".");
    if (it_.choice.origin().empty()) return join(it_.choice.plan.reason, "; ", comparison(), ".");
    std::string text = join(it_.choice.origin(), it_.choice.plan.reason, "; by the model, ", comparison(), ".");
    if (it_.choice.zero_copy) {
      text += join("\n          ", it_.choice.zero_copy->text(), " goes before it where ranks can map each other's ",
                   "buffers: ", it_.choice.zero_copy->reason, ".");
    }
    return text;
  }

  Tuner& tuner_;
  const Explained& it_;
  const VerifiedPlan& plan_;
  const bool is_barrier_;
  const double bytes_;
  const Candidates* candidates_ = nullptr;  // null: none fits
  Alternative own_;
  std::vector<Alternative> others_;
};

}  // namespace

std::string explain(Tuner& tuner, const Explained& it) { return ChoiceExplanation(tuner, it).text(); }

std::string too_large_text(const Candidates& candidates) {
  std::set<std::string_view> tried, named;
  for (const Candidate& it : candidates.all) tried.insert(it.choice.algorithm);
  std::string algorithms, parts;
  for (const LeftOut& it : candidates.left_out) {
    if (!it.too_large || !named.insert(it.plan.algorithm).second) continue;
    std::string& names = tried.count(it.plan.algorithm) > 0 ? parts : algorithms;
    names += join(names.empty() ? "" : ", ", it.plan.algorithm);
  }
  if (parts.empty()) return algorithms;
  return join(algorithms, algorithms.empty() ? "" : "; ", parts, " in more parts");
}

}  // namespace plait

// The table of choices, by size of the message.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "api/machine_plan.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"
#include "tuner/explain.hpp"

namespace plait {
namespace {

enum Column : size_t { kSize, kAlgorithm, kSteps, kProtocol, kTime, kBound, kWhy, kColumns };
using Cells = std::array<std::string, kColumns>;

constexpr int kFigures = 3;

std::string upper_end(const PlannedRange& range, bool is_first, bool is_last) {
  if (is_last) return is_first ? "any" : "longer";
  return join("to ", bytes_text(static_cast<double>(range.to), kFigures));
}

// "2.4 - 2.76 us": the unit once where both have it.
std::string span_text(double from, double to) {
  const std::string first = seconds_text(from), last = seconds_text(to);
  if (first == last) return first;
  const size_t unit = first.find(' ');
  const bool is_one_unit = first.substr(unit) == last.substr(last.find(' '));
  return join(is_one_unit ? first.substr(0, unit) : first, " - ", last);
}

// Reasons below the table, each once, with a number.
class Reasons {
 public:
  std::string number(const std::string& reason) {
    const auto found = std::find(reasons_.begin(), reasons_.end(), reason);
    const auto index = found - reasons_.begin();
    if (found == reasons_.end()) reasons_.push_back(reason);
    return join("[", index + 1, "]");
  }
  std::string text() const {
    std::string text;
    for (size_t i = 0; i < reasons_.size(); ++i) text += join("[", i + 1, "] ", reasons_[i], "\n");
    return text;
  }

 private:
  std::vector<std::string> reasons_;
};

class Table {
 public:
  explicit Table(const MachinePlan& made) : made_(made), has_gpus_(made.machine().gpus.has_value()) {
    lines_.push_back({"size", "algorithm", "steps", "protocol", "time", "bound", "why"});
    for (const PlannedRange& range : made.ranges) add(range);
  }

  std::string text() const {
    std::array<size_t, kColumns> widths = {};
    for (const Cells& line : lines_) {
      for (size_t i = 0; i < kColumns; ++i) widths[i] = std::max(widths[i], line[i].size());
    }
    std::string text;
    for (const Cells& line : lines_) {
      std::string row;
      for (size_t i = 0; i < kColumns; ++i) {
        if (i == kProtocol && !has_gpus_) continue;
        row += line[i] + std::string(widths[i] + 2 - line[i].size(), ' ');
      }
      text += row.substr(0, row.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
  }

  std::string notes() const {
    const RankMachine& machine = made_.machine();
    const Collective collective = made_.plan->plan().collective;
    std::string text = reasons_.text();
    if (is_any_by_model_) {
      const Candidates& all = made_.tuner->candidates(collective, made_.plan->plan().root);
      text += join("model: the cheapest of ", counted(all.all.size(), "candidate"), ", by the costs of profile ",
                   machine.profile->name, "\n");
      if (const std::string large = too_large_text(all); !large.empty()) {
        text += join("too large to try over ", counted(machine.ranks(), "rank"), ": ", large, "\n");
      }
    }
    if (has_predicted_) {
      const auto longest = static_cast<double>(made_.ranges.back().to);
      text += join("time: ", predicted_text());
      if (longest > 0) text += join(", at both ends of the row; the last ends with ", bytes_text(longest));
      text += "\n";
    }
    if (!measured_source_.empty()) {
      text +=
          join("(m): measured, at the shortest and the longest message of the row that was: ", measured_source_, "\n");
    }
    if (collective != Collective::kBarrier) {
      text += "bound: what links allow at most, bytes of the message over time\n";
    }
    if (is_any_staged_) text += "**: performed by no kernel on GPUs: CPUs do that, staged in host memory\n";
    if (!lacking_.empty()) {
      text += join("*: planned, not run on GPUs yet: needs ", lacking_, "; CPUs run it under PLAIT_TOPOLOGY\n");
    }
    return text;
  }

 private:
  // The way in which the times came about.
  std::string predicted_text() const {
    const std::string costs = join("by the costs of profile ", made_.machine().profile->name);
    if (made_.ranges.back().to == 0) return "predicted " + costs;
    if (!has_simulated_) return join("predicted ", costs, " without contention (plait simulate has it)");
    if (!has_costed_) return join("simulated ", costs, ", with contention");
    return join("predicted ", costs, "; with contention where the model chose, else without (plait simulate has it)");
  }

  void add(const PlannedRange& range) {
    const Choice& choice = range.choice;
    const bool is_first = &range == &made_.ranges.front(), is_last = &range == &made_.ranges.back();
    Cells line = {upper_end(range, is_first, is_last),
                  choice.plan.text(),
                  join(range.steps),
                  name(range.protocol),
                  time_of(range),
                  range.bound_gbps > 0 ? digits(range.bound_gbps) + " GB/s" : "-",
                  why(choice)};
    std::vector<std::string> more;
    if (choice.zero_copy) {
      more.push_back(join("  else ", line[kAlgorithm]));
      line[kAlgorithm] = choice.zero_copy->text();
    }
    if (choice.ending) more.push_back(join("  its last slices as ", choice.ending->text()));
    if (range.is_staged) {
      line[kAlgorithm] += " **";
      is_any_staged_ = true;
    } else if (!range.lacking_on_gpus.empty()) {
      line[kAlgorithm] += " *";
      add_lacking(range.lacking_on_gpus);
      if (!range.on_gpus.empty()) more.push_back(join("  on GPUs ", range.on_gpus));
    }
    lines_.push_back(std::move(line));
    for (std::string& it : more) lines_.push_back({"", std::move(it), "", "", "", "", ""});
  }

  // The measured times at the ends of the range, or else the predicted ones.
  std::string time_of(const PlannedRange& range) {
    if (range.measured.empty()) {
      has_predicted_ = true;
      (range.choice.is_simulated ? has_simulated_ : has_costed_) = true;
      return span_text(range.from_seconds, range.to_seconds);
    }
    measured_source_ = range.measured_source;
    return span_text(range.measured.front().seconds, range.measured.back().seconds) + " (m)";
  }

  std::string why(const Choice& choice) {
    const std::string& reason = choice.zero_copy ? choice.zero_copy->reason : choice.plan.reason;
    if (choice.is_forced || choice.insists_on_zero_copy) return reason;
    if (const std::string origin = choice.origin(); !origin.empty()) return reasons_.number(origin + reason);
    is_any_by_model_ = true;
    return "model";
  }

  // The details in parentheses are those of one row.
  void add_lacking(const std::string& what) {
    const std::string headline = what.substr(0, what.find(" ("));
    if (lacking_.find(headline) == std::string::npos) lacking_ += join(lacking_.empty() ? "" : ", ", headline);
  }

  const MachinePlan& made_;
  const bool has_gpus_;
  std::vector<Cells> lines_;
  Reasons reasons_;
  bool has_predicted_ = false, has_simulated_ = false, has_costed_ = false, is_any_by_model_ = false;
  bool is_any_staged_ = false;
  std::string measured_source_, lacking_;
};

}  // namespace

std::string MachinePlan::table() const { return Table(*this).text(); }
std::string MachinePlan::notes() const { return Table(*this).notes(); }

}  // namespace plait

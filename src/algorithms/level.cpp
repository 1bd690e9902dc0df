// Reads and writes levels as text.
#include "algorithms/level.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "algorithms/steps/levels.hpp"
#include "algorithms/text_items.hpp"
#include "base/error.hpp"

namespace plait {
namespace {

struct NamedReach {
  std::string_view name;
  Reach reach;
};
constexpr std::array kReaches = {NamedReach{"group", Reach::kGroup}, NamedReach{"node", Reach::kNode},
                                 NamedReach{"all", Reach::kAll}};

class LevelReader {
 public:
  explicit LevelReader(std::string_view text) : text_(text) {}

  Level read() {
    const size_t colon = text_.find(':');
    if (colon == std::string_view::npos) refuse("lacks a colon");
    read_reach(trimmed(text_.substr(0, colon)));
    const std::string_view how = trimmed(text_.substr(colon + 1));
    const size_t open = how.find('(');
    try {
      algorithm_ = &find_level_algorithm(trimmed(how.substr(0, open)));
    } catch (const Error& error) {
      fail(error.code(), "level '", text_, "': ", error.what());
    }
    level_.algorithm = algorithm_->name;
    if (open == std::string_view::npos) return level_;
    if (how.back() != ')') refuse("lacks its last parenthesis");
    for (const std::string_view item : split_items(how.substr(open + 1, how.size() - open - 2))) read_item(item);
    return level_;
  }

 private:
  template <class... Why>
  [[noreturn]] void refuse(const Why&... why) const {
    fail(ErrorCode::kInvalidArgument, "level '", text_, "' ", why..., expected_form());
  }

  std::string expected_form() const {
    if (algorithm_ == nullptr) return "; a level looks like 4: ring, group: flat, node: ring(parts=2) or all: ring";
    std::string forms = "all_reduce";
    if (algorithm_->parts) forms += ", parts=2";
    if (algorithm_->radix) forms += ", radix=4";
    if (algorithm_->leaders) forms += ", leaders=2";
    if (algorithm_->direction) forms += ", load or store";
    return join("; ", algorithm_->name, " takes in parentheses: ", forms);
  }

  void read_reach(std::string_view text) {
    for (const NamedReach& it : kReaches) {
      if (text == it.name) {
        level_.reach = it.reach;
        return;
      }
    }
    const auto factor = positive_number(text);
    if (!factor) refuse("has '", text, "', which is not a positive number, nor group, node or all");
    level_.factor = *factor;
  }

  void read_item(std::string_view item) {
    if (item == "all_reduce") {
      level_.all_reduce = true;
    } else if (item == "load" || item == "store") {
      if (!algorithm_->direction) refuse("has '", item, "', but moves data one way only");
      if (level_.direction) refuse("has two directions");
      level_.direction = item == "load" ? Direction::kLoad : Direction::kStore;
    } else if (item.starts_with("parts=")) {
      if (!algorithm_->parts) refuse("has parts, but never cuts a piece into any");
      level_.parts = number_in(item, 6);
    } else if (item.starts_with("radix=")) {
      if (!algorithm_->radix) refuse("has a radix, but no k-nomial tree that it could be for");
      level_.radix = number_in(item, 6);
      if (level_.radix < 2 || level_.radix > 8) refuse("has '", item, "', which is not from 2 to 8");
    } else if (item.starts_with("leaders=")) {
      if (!algorithm_->leaders) refuse("has leaders, but ", algorithm_->name, " has none to choose");
      level_.leaders = number_in(item, 8);
    } else {
      refuse(item.empty() ? "has an item that is empty" : join("has '", item, "', which is not known"));
    }
  }

  // Reads the number of "parts=4", of which a level has one.
  int number_in(std::string_view item, size_t from) {
    const std::string_view what = item.substr(0, from);
    if (std::find(numbered_.begin(), numbered_.end(), what) != numbered_.end()) refuse("has '", what, "' twice");
    numbered_.push_back(what);
    const auto number = positive_number(item.substr(from));
    if (!number) refuse("has '", item, "', which is not a positive number");
    return *number;
  }

  const std::string_view text_;
  const LevelAlgorithm* algorithm_ = nullptr;
  std::vector<std::string_view> numbered_;  // "parts=", …: those that were read
  Level level_;
};

}  // namespace

Level parse_level(std::string_view text) { return LevelReader(trimmed(text)).read(); }

std::string reach_text(const Level& level) {
  for (const NamedReach& it : kReaches) {
    if (level.reach == it.reach) return std::string(it.name);
  }
  return std::to_string(level.factor);
}

std::string to_text(const Level& level) {
  std::string inside;
  const auto add = [&](const auto&... item) { inside += join(inside.empty() ? "" : ", ", item...); };
  if (level.direction) add(name(*level.direction));
  if (level.radix != 2) add("radix=", level.radix);
  if (level.leaders != 0) add("leaders=", level.leaders);
  if (level.parts != 1) add("parts=", level.parts);
  if (level.all_reduce) add("all_reduce");
  const std::string algorithm = inside.empty() ? level.algorithm : join(level.algorithm, "(", inside, ")");
  return join(reach_text(level), ": ", algorithm);
}

}  // namespace plait

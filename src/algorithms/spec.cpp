// Reads and writes algorithms as text.
#include "algorithms/spec.hpp"

#include <algorithm>
#include <array>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/text_items.hpp"
#include "base/error.hpp"
#include "base/names.hpp"
#include "base/separated.hpp"

namespace plait {
namespace {

constexpr std::array kDirections = {Direction::kLoad, Direction::kStore, Direction::kBoth};
constexpr std::array kOrders = {Order::kFarFirst, Order::kNearFirst};
constexpr std::array kPaths = {PathKind::kDirect, PathKind::kHost, PathKind::kRelay};
constexpr std::array kEngines = {Engine::kSm, Engine::kCopy};  // those that users can name

// The name of an algorithm with its direction in release 0.1.
struct OldName {
  std::string_view name, algorithm;
  Direction direction;
  bool zero_copy;
  int most_parts;  // a larger number was taken as this one
};
constexpr OldName kOldNames[] = {
    {"chain_push", "chain", Direction::kStore, false, 0}, {"one_shot_push", "one_shot", Direction::kStore, false, 2},
    {"pull", "flat", Direction::kLoad, true, 1},          {"push", "flat", Direction::kStore, false, 2},
    {"push_pull", "flat", Direction::kBoth, false, 0},
};

bool skip(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Reads the items in the parentheses, one after the other.
class SpecReader {
 public:
  SpecReader(std::string_view text, Collective collective) : text_(text), collective_(collective) {}

  AlgorithmSpec read() {
    const size_t open = text_.find('(');
    read_name(text_.substr(0, open));
    if (open == std::string_view::npos) return spec_;
    if (text_.back() != ')') refuse("lacks its last parenthesis");
    for (const std::string_view item : split_items(text_.substr(open + 1, text_.size() - open - 2))) read_item(item);
    return spec_;
  }

 private:
  template <class... Why>
  [[noreturn]] void refuse(const Why&... why) const {
    fail(ErrorCode::kInvalidArgument, "algorithm '", text_, "' ", why..., expected_form());
  }

  std::string expected_form() const {
    if (algorithm_ == nullptr) return "";
    const Uses uses = collective_ == Collective::kBarrier ? Uses{} : algorithm_->uses;
    std::string forms;
    const auto add = [&](bool has, std::string_view form) {
      if (has) forms += join(forms.empty() ? "" : ", ", form);
    };
    add(uses.direction, uses.both ? "load, store or both" : "load or store");
    add(uses.levels, "levels such as 4: ring, node: flat or all: ring(parts=2), the innermost first");
    add(uses.factors, "factors such as 4x2");
    add(uses.order, "far_first or near_first");
    add(uses.radix, "radix=4");
    add(uses.shares, join("shares of paths such as direct: 80, host: 20", uses.relays ? " or relay: 20" : ""));
    add(uses.parts, "parts=2");
    add(uses.count, "count=2");
    add(uses.zero_copy, "zero_copy");
    add(uses.engine, "engine=sm or engine=copy");
    if (forms.empty()) return join("; ", algorithm_->name, " takes nothing in parentheses");
    return join("; ", algorithm_->name, " takes in parentheses, separated by commas: ", forms);
  }

  void read_name(std::string_view name) {
    const bool is_exact = algorithm_named(name) != nullptr;
    for (const OldName& it : kOldNames) {
      if (!is_exact && same_name(name, it.name)) old_ = &it;
    }
    algorithm_ = &find_algorithm(old_ != nullptr ? old_->algorithm : name, collective_);
    spec_.name = algorithm_->name;
    if (old_ == nullptr) return;
    spec_.zero_copy = old_->zero_copy;
    if (collective_ != Collective::kBarrier) spec_.direction = old_->direction;
  }

  void read_item(std::string_view item) {
    if (item.empty()) refuse("has an item that is empty");
    if (collective_ == Collective::kBarrier) refuse("is for a barrier, which moves nothing");
    for (const Direction direction : kDirections) {
      if (item == plait::name(direction)) return set_direction(direction);
    }
    for (const Order order : kOrders) {
      if (item == plait::name(order)) return set_order(order);
    }
    if (item == "zero_copy") return set_zero_copy();
    if (item.find(':') != std::string_view::npos) return is_share(item) ? add_share(item) : add_level(item);
    if (skip(item, "radix=")) return set_radix(number(item, item));
    if (skip(item, "engine=")) return set_engine(item);
    if (skip(item, "parts=") || skip(item, "pipeline ")) return set_parts(number(item, item));
    if (skip(item, "count=")) return set_count(number(item, item));
    if (old_ != nullptr && old_->zero_copy) return set_engine(item);  // "pull(sm)"
    set_numbers(item);
  }

  void set_direction(Direction direction) {
    const Uses& uses = algorithm_->uses;
    if (!uses.direction) refuse("has '", plait::name(direction), "', but moves data one way only");
    if (direction == Direction::kBoth && !uses.both) refuse("has 'both', but moves data by load or by store");
    if (spec_.direction) refuse("has two directions");
    spec_.direction = direction;
  }

  void add_level(std::string_view item) {
    if (!algorithm_->uses.levels) {
      refuse("has a level, '", item, "', but only hierarchical takes levels");
    }
    try {
      spec_.levels.push_back(parse_level(item));
    } catch (const Error& error) {
      fail(error.code(), "algorithm '", text_, "': ", error.what());
    }
  }

  // An algorithm with levels takes shares of the paths that it knows.
  bool is_share(std::string_view item) const {
    const std::string_view path = trimmed(item.substr(0, item.find(':')));
    const bool is_path =
        std::any_of(kPaths.begin(), kPaths.end(), [&](PathKind it) { return path == plait::name(it); });
    return algorithm_->uses.shares && (is_path || !algorithm_->uses.levels);
  }

  void add_share(std::string_view item) {
    const size_t colon = item.find(':');
    const std::string_view path = trimmed(item.substr(0, colon));
    const auto kind = std::find_if(kPaths.begin(), kPaths.end(), [&](PathKind it) { return path == plait::name(it); });
    if (kind == kPaths.end()) refuse("has '", path, "', which is not a path: direct, host or relay");
    for (const PathShare& it : spec_.shares) {
      if (it.kind == *kind) refuse("has two shares of ", path);
    }
    spec_.shares.push_back({*kind, number(trimmed(item.substr(colon + 1)), item)});
  }

  void set_order(Order order) {
    if (!algorithm_->uses.order) refuse("has '", plait::name(order), "', but takes partners in one order only");
    if (spec_.order) refuse("has two orders");
    spec_.order = order;
  }

  void set_radix(int radix) {
    if (!algorithm_->uses.radix) refuse("has a radix, but no tree that it could be for");
    if (spec_.radix > 0) refuse("has two radices");
    spec_.radix = radix;
  }

  void set_zero_copy() {
    if (!algorithm_->uses.zero_copy) refuse("has 'zero_copy', but passes everything through the library's memory");
    spec_.zero_copy = true;
  }

  void set_engine(std::string_view text) {
    if (!algorithm_->uses.engine) refuse("names an engine, but cannot choose one");
    if (spec_.engine) refuse("has two engines");
    for (const Engine engine : kEngines) {
      if (text == plait::name(engine)) spec_.engine = engine;
    }
    if (!spec_.engine) refuse("has '", text, "', which is not an engine");
  }

  void set_parts(int parts) {
    if (!algorithm_->uses.parts) refuse("has parts, but never cuts the message into any");
    if (spec_.parts > 0) refuse("has two numbers of parts");
    spec_.parts = old_ != nullptr && old_->most_parts > 0 ? std::min(parts, old_->most_parts) : parts;
  }

  void set_count(int count) {
    if (!algorithm_->uses.count) refuse("has a count, but is made of neither rings nor trees that are counted");
    if (spec_.count > 0) refuse("has two counts");
    spec_.count = count;
  }

  // "4x2" are factors. So is "4" if the algorithm has factors; else it is the number of parts, as in release 0.1.
  void set_numbers(std::string_view item) {
    std::vector<int> numbers;
    for (const std::string_view each : separated(item, 'x')) numbers.push_back(number(each, item));
    if (algorithm_->uses.factors) {
      if (!spec_.factors.empty()) refuse("has factors twice");
      spec_.factors = numbers;
    } else if (numbers.size() == 1) {
      set_parts(numbers[0]);
    } else {
      refuse("has '", item, "', but no levels that factors could be for");
    }
  }

  int number(std::string_view text, std::string_view item) const {
    const auto value = positive_number(text);
    if (!value) refuse("has '", item, "', which is not a positive number, nor anything else that is known");
    return *value;
  }

  const std::string_view text_;
  const Collective collective_;
  const OldName* old_ = nullptr;
  const Algorithm* algorithm_ = nullptr;
  AlgorithmSpec spec_;
};

bool agrees(const AlgorithmSpec& spec, const AlgorithmArguments& arguments) {
  return (!spec.direction || *spec.direction == arguments.direction) &&
         (!spec.engine || *spec.engine == arguments.engine) &&
         (!spec.zero_copy || arguments.access == Access::kZeroCopy);
}

}  // namespace

AlgorithmSpec parse_spec(std::string_view text, Collective collective) { return SpecReader(text, collective).read(); }

std::string to_text(const AlgorithmSpec& spec) {
  std::string inside;
  const auto add = [&](const auto&... item) { inside += join(inside.empty() ? "" : ", ", item...); };
  if (spec.direction) add(name(*spec.direction));
  for (const Level& level : spec.levels) add(to_text(level));
  if (!spec.factors.empty()) {
    std::string factors;
    for (const int factor : spec.factors) factors += join(factors.empty() ? "" : "x", factor);
    add(factors);
  }
  if (spec.order) add(name(*spec.order));
  if (spec.radix > 0) add("radix=", spec.radix);
  for (const PathShare& it : spec.shares) add(name(it.kind), ": ", it.share);
  if (spec.parts > 0) add("parts=", spec.parts);
  if (spec.count > 0) add("count=", spec.count);
  if (spec.zero_copy) add("zero_copy");
  if (spec.engine) add("engine=", name(*spec.engine));
  return inside.empty() ? spec.name : join(spec.name, "(", inside, ")");
}

AlgorithmSpec spec_of(const Algorithm& algorithm, const AlgorithmArguments& arguments) {
  AlgorithmSpec spec;
  spec.name = algorithm.name;
  if (algorithm.uses.direction && arguments.collective != Collective::kBarrier) spec.direction = arguments.direction;
  spec.factors = arguments.factors;
  spec.levels = arguments.levels;
  if (algorithm.uses.order) spec.order = arguments.order;
  if (arguments.radix != AlgorithmArguments().radix) spec.radix = arguments.radix;
  if (arguments.parts != 1) spec.parts = arguments.parts;
  spec.count = arguments.count;
  spec.shares = arguments.shares;
  spec.zero_copy = arguments.access == Access::kZeroCopy;
  if (takes_copy_engines(algorithm, arguments) && arguments.engine != Engine::kCpu) spec.engine = arguments.engine;
  return spec;
}

AlgorithmArguments apply(const AlgorithmSpec& spec, AlgorithmArguments machine) {
  if (spec.direction) machine.direction = *spec.direction;
  if (!spec.factors.empty()) machine.factors = spec.factors;
  if (!spec.levels.empty()) machine.levels = spec.levels;
  if (spec.order) machine.order = *spec.order;
  if (spec.radix > 0) machine.radix = spec.radix;
  if (spec.parts > 0) machine.parts = spec.parts;
  if (spec.count > 0) machine.count = spec.count;
  if (!spec.shares.empty()) machine.shares = spec.shares;
  if (spec.zero_copy) machine.access = Access::kZeroCopy;
  if (spec.engine) machine.engine = *spec.engine;
  return machine;
}

AlgorithmArguments resolve(const AlgorithmSpec& spec, const AlgorithmArguments& machine) {
  const AlgorithmArguments given = apply(spec, machine);
  for (const AlgorithmArguments& candidate : find_algorithm(spec.name, machine.collective).candidates(given)) {
    if (agrees(spec, candidate)) return apply(spec, candidate);
  }
  return given;
}

}  // namespace plait

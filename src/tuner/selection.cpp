// The host's choice of algorithms.
#include "tuner/selection.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"

namespace plait {
namespace {

// Below this many bytes one exchange of everything beats two exchanges of parts: measured with
// `plait bench all_reduce -n 2` and `-n 4`, see docs/benchmarks.md.
constexpr size_t kOneShotBytes = 8 << 10;

int parse_number(std::string_view text, std::string_view whole) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    fail(ErrorCode::kInvalidArgument, "'", text, "' in algorithm '", whole, "' is not a positive number");
  }
  return value;
}

// Reads "push", "pull", "pull(sm)" or "pull(copy)".
MessageChoice parse_message_choice(std::string_view text) {
  MessageChoice choice;
  choice.insists = true;
  if (text == "push") return choice;
  choice.direct = text == "pull(sm)" ? Engine::kSm : Engine::kCopy;
  if (text == "pull" || text == join("pull(", name(*choice.direct), ')')) return choice;
  fail(ErrorCode::kInvalidArgument, "PLAIT_ALGORITHM: messages go by push, pull, pull(sm) or pull(copy), not '", text,
       "'");
}

}  // namespace

Choice parse_choice(std::string_view text, Collective collective) {
  Choice choice;
  const size_t open = text.find('(');
  choice.algorithm = text.substr(0, open);
  choice.arguments.collective = collective;
  choice.reason = join("asked for as '", text, "'");
  const Algorithm& algorithm = find_algorithm(choice.algorithm, collective);
  if (open == std::string_view::npos) return choice;
  if (text.back() != ')' || open + 2 > text.size() - 1) {
    fail(ErrorCode::kInvalidArgument, "algorithm '", text,
         "' should look like name, name(depth), name(4x2) or pull(sm)");
  }
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  if (algorithm.only_copies) {
    for (const Engine engine : {Engine::kSm, Engine::kCopy}) {
      if (inside != name(engine)) continue;
      choice.arguments.engine = engine;
      return choice;
    }
    fail(ErrorCode::kInvalidArgument, "algorithm '", choice.algorithm, "' takes ", name(Engine::kSm), " or ",
         name(Engine::kCopy), ", not '", inside, "'");
  }
  std::vector<int> numbers;
  for (size_t start = 0; start <= inside.size();) {
    const size_t end = std::min(inside.find('x', start), inside.size());
    numbers.push_back(parse_number(inside.substr(start, end - start), text));
    start = end + 1;
  }
  if (choice.algorithm == "hierarchical_ring") {
    choice.arguments.factors = numbers;
  } else if (numbers.size() == 1) {
    choice.arguments.pipeline = numbers[0];
  } else {
    fail(ErrorCode::kInvalidArgument, "algorithm '", choice.algorithm, "' takes one depth, not '", inside, "'");
  }
  return choice;
}

AlgorithmOverrides AlgorithmOverrides::parse(std::string_view text) {
  AlgorithmOverrides overrides;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string_view entry = text.substr(start, end - start);
    const size_t colon = entry.find(':');
    if (colon == std::string_view::npos) {
      fail(ErrorCode::kInvalidArgument, "PLAIT_ALGORITHM: '", entry,
           "' should look like collective:algorithm, or send_receive:pull");
    }
    const std::string_view what = entry.substr(0, colon), how = entry.substr(colon + 1);
    if (what == "send_receive") {
      overrides.messages_ = parse_message_choice(how);
    } else {
      const Collective collective = parse_collective(what);
      overrides.choices_[collective] = parse_choice(how, collective);
    }
    start = end + 1;
  }
  return overrides;
}

const Choice* AlgorithmOverrides::find(Collective collective) const {
  const auto it = choices_.find(collective);
  return it == choices_.end() ? nullptr : &it->second;
}

Choice select_for_host(const SelectionQuery& query, const AlgorithmOverrides& overrides) {
  Choice choice;
  const Choice* forced = overrides.find(query.collective);
  const bool for_gpus = forced != nullptr && find_algorithm(forced->algorithm, query.collective).only_copies;
  if (forced != nullptr && !(for_gpus && query.beside_gpus)) {
    choice = *forced;
  } else if (query.collective == Collective::kAllReduce && query.bytes <= kOneShotBytes) {
    choice.algorithm = "one_shot";
    choice.reason = join("messages to ", kOneShotBytes, " bytes: one exchange has the least latency");
  } else if (query.collective == Collective::kGather || query.collective == Collective::kScatter ||
             query.collective == Collective::kAllToAll) {
    choice.algorithm = "push";
    choice.reason = "every rank reaches every other's memory alike: each block is moved once, by who gives it";
  } else {
    choice.algorithm = "flat";
    choice.reason =
        "every rank reaches every other's memory alike: two stages move the least bytes in the fewest steps";
  }
  choice.arguments.collective = query.collective;
  choice.arguments.ranks = query.ranks;
  choice.arguments.root = has_root(query.collective) ? query.root : 0;
  choice.arguments.engine = Engine::kCpu;
  choice.arguments.reach = Reach::kStaged;
  return choice;
}

}  // namespace plait

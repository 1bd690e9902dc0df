// The host's choice of algorithms.
#include "tuner/selection.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/names.hpp"

namespace plait {
namespace {

// Below this many bytes one exchange of everything beats two exchanges of parts: measured with
// `plait bench all_reduce -n 2` and `-n 4`, see docs/benchmarks.md.
constexpr size_t kOneShotBytes = 8 << 10;

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

// `part` of algorithm `whole`, all of it or a factor in it.
int parse_number(std::string_view text, std::string_view part, std::string_view whole) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    fail(ErrorCode::kInvalidArgument, "'", part, "' in algorithm '", whole, "' is not a positive number, nor factors");
  }
  return value;
}

// Up to the next comma that is not in parentheses.
size_t end_of_entry(std::string_view text) {
  int open = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',' && open <= 0) return i;
    open += (text[i] == '(') - (text[i] == ')');
  }
  return text.size();
}

// Reads "push", "pull", "pull(sm)" or "pull(copy)".
MessageChoice parse_message_choice(std::string_view text) {
  MessageChoice choice;
  choice.insists = true;
  if (text == "push") return choice;
  choice.direct = text == "pull(sm)" ? Engine::kSm : Engine::kCopy;
  if (text == "pull" || text == join("pull(", name(*choice.direct), ')')) return choice;
  fail(ErrorCode::kInvalidArgument, "messages go by push, pull, pull(sm) or pull(copy), not '", text, "'");
}

}  // namespace

Choice parse_choice(std::string_view text, Collective collective) {
  Choice choice;
  const size_t open = text.find('(');
  const Algorithm& algorithm = find_algorithm(text.substr(0, open), collective);
  choice.algorithm = algorithm.name;
  choice.arguments.collective = collective;
  choice.reason = join("asked for as '", text, "'");
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
  constexpr std::string_view kPipeline = "pipeline ";
  for (std::string_view part : split(inside, ", ")) {
    const bool is_depth = part.starts_with(kPipeline);
    if (is_depth) part.remove_prefix(kPipeline.size());
    std::vector<int> numbers;
    for (const std::string_view number : split(part, "x")) numbers.push_back(parse_number(number, part, text));
    if (choice.algorithm == "hierarchical_ring" && !is_depth) {
      choice.arguments.factors = numbers;
    } else if (numbers.size() == 1) {
      choice.arguments.pipeline = numbers[0];
    } else {
      fail(ErrorCode::kInvalidArgument, "algorithm '", choice.algorithm, "' takes one depth, not '", inside, "'");
    }
  }
  return choice;
}

void AlgorithmOverrides::add(std::string_view entry) {
  const size_t colon = entry.find(':');
  if (colon == std::string_view::npos) {
    fail(ErrorCode::kInvalidArgument, "'", entry, "' should look like collective:algorithm, or send_receive:pull");
  }
  const std::string_view what = entry.substr(0, colon), how = entry.substr(colon + 1);
  bool is_first = true;
  if (same_name(what, "send_receive") || same_name(what, "sendrecv")) {
    is_first = !messages_;
    messages_ = parse_message_choice(how);
  } else {
    const Collective collective = parse_collective(what);
    is_first = choices_.emplace(collective, parse_choice(how, collective)).second;
  }
  if (!is_first) fail(ErrorCode::kInvalidArgument, "'", what, "' is there twice");
}

AlgorithmOverrides AlgorithmOverrides::parse(std::string_view text) {
  AlgorithmOverrides overrides;
  overrides.text_ = text;
  for (std::string_view left = text; !left.empty();) {
    const size_t end = end_of_entry(left);
    try {
      overrides.add(left.substr(0, end));
    } catch (const Error& error) {
      fail(error.code(), "PLAIT_ALGORITHM is '", text, "': ", error.what());
    }
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return overrides;
}

const Choice* AlgorithmOverrides::find(Collective collective) const {
  const auto it = choices_.find(collective);
  return it == choices_.end() ? nullptr : &it->second;
}

void AlgorithmOverrides::check(int ranks, bool beside_gpus) const {
  const auto refuse = [this](const auto&... why) {
    fail(ErrorCode::kInvalidArgument, "PLAIT_ALGORITHM is '", text_, "': ", why...);
  };
  for (const auto& [collective, forced] : choices_) {
    if (find_algorithm(forced.algorithm, collective).only_copies) {
      if (beside_gpus) continue;
      refuse(forced.algorithm,
             " copies out of other ranks' buffers, as only GPUs do, and these ranks have none; leave ",
             name(collective), " out");
    }
    const Choice choice = select_for_host({collective, 0, ranks, 0, beside_gpus}, *this);
    try {
      make_plan(choice.algorithm, choice.arguments);
    } catch (const Error& error) {
      refuse(error.what());
    }
  }
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

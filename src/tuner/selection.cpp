// The host's choice of algorithms.
#include "tuner/selection.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/names.hpp"

namespace plait {
namespace {

// Below this many bytes one exchange of everything beats two exchanges of parts: measured with
// `plait bench all_reduce -n 2` and `-n 4`, see docs/benchmarks.md.
constexpr size_t kOneShotBytes = 8 << 10;

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
  choice.asked = parse_spec(text, collective);
  choice.algorithm = choice.asked.name;
  choice.arguments.collective = collective;
  choice.arguments = apply(choice.asked, choice.arguments);
  choice.reason = join("asked for as '", text, "'");
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
    if (forced.asked.zero_copy) {
      if (beside_gpus) continue;
      refuse(to_text(forced.asked),
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
  const bool for_gpus = forced != nullptr && forced->asked.zero_copy;
  if (forced != nullptr && !(for_gpus && query.beside_gpus)) {
    choice = *forced;
  } else if (query.collective == Collective::kAllReduce && query.bytes <= kOneShotBytes) {
    choice.algorithm = "one_shot";
    choice.reason = join("messages to ", kOneShotBytes, " bytes: one exchange has the least latency");
  } else if (query.collective == Collective::kGather || query.collective == Collective::kScatter ||
             query.collective == Collective::kAllToAll) {
    choice.algorithm = "flat";
    choice.arguments.direction = Direction::kStore;
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
  if (!choice.asked.name.empty()) choice.arguments = resolve(choice.asked, choice.arguments);
  return choice;
}

}  // namespace plait

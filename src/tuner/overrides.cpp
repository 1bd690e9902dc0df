// Reading PLAIT_ALGORITHM.
#include "tuner/overrides.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/names.hpp"

namespace plait {
namespace {

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

// "64K" is 64 * 2^10 bytes.
std::optional<size_t> parse_size(std::string_view text) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > (size_t{1} << 40)) return std::nullopt;
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  if (unit.ends_with("iB")) unit.remove_suffix(2);
  if (unit == "" || unit == "B") return number;
  constexpr std::string_view kUnits = "KMG";
  const size_t power = unit.size() == 1 ? kUnits.find(static_cast<char>(unit[0] & ~0x20)) : kUnits.npos;
  if (power == kUnits.npos) return std::nullopt;
  return number << (10 * (power + 1));
}

// The position of '=' in an entry that begins with a range, such as "0-64K=".
size_t end_of_range(std::string_view text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::string_view::npos;
  return text.find('=');
}

}  // namespace

void AlgorithmOverrides::add_range(std::string_view range, std::string_view spec, Collective collective,
                                   std::string_view entry) {
  Entry made{collective, 0, 0, parse_spec(spec, collective), std::string(spec)};
  if (!range.empty()) {
    const size_t dash = range.find('-');
    const auto from = parse_size(range.substr(0, dash));
    const std::string_view end = dash == range.npos ? "" : range.substr(dash + 1);
    const auto below = end.empty() ? std::optional<size_t>(0) : parse_size(end);
    if (dash == range.npos || !from || !below || (!end.empty() && *below <= *from)) {
      fail(ErrorCode::kInvalidArgument, "'", range, "' in '", entry,
           "' is no range of sizes; it should look like 0-64K, 64K-8M or, without an end, 8M-");
    }
    made.from = *from;
    made.below = *below;
  }
  for (const Entry& other : entries_) {
    const bool apart = (other.below != 0 && other.below <= made.from) || (made.below != 0 && made.below <= other.from);
    if (other.collective != collective || apart) continue;
    if (range.empty()) fail(ErrorCode::kInvalidArgument, "'", name(collective), "' is there twice");
    fail(ErrorCode::kInvalidArgument, "'", name(collective), "' of ", std::max(other.from, made.from),
         " bytes is there twice");
  }
  entries_.push_back(std::move(made));
}

void AlgorithmOverrides::add(std::string_view entry, std::optional<Collective>& last) {
  std::string_view how = entry;
  const size_t range_first = end_of_range(entry);
  if (range_first == entry.npos) {
    const size_t colon = entry.find(':');
    if (colon == std::string_view::npos) {
      fail(ErrorCode::kInvalidArgument, "'", entry,
           "' should look like collective:algorithm, collective:0-64K=algorithm, or send_receive:pull");
    }
    const std::string_view what = entry.substr(0, colon);
    how = entry.substr(colon + 1);
    if (same_name(what, "send_receive") || same_name(what, "sendrecv")) {
      if (messages_) fail(ErrorCode::kInvalidArgument, "'", what, "' is there twice");
      messages_ = parse_message_choice(how);
      last.reset();
      return;
    }
    last = parse_collective(what);
  } else if (!last) {
    fail(ErrorCode::kInvalidArgument, "'", entry, "' says a range of sizes before any collective");
  }
  const size_t equals = end_of_range(how);
  if (equals == how.npos) return add_range("", how, *last, entry);
  add_range(how.substr(0, equals), how.substr(equals + 1), *last, entry);
}

AlgorithmOverrides AlgorithmOverrides::parse(std::string_view text) {
  AlgorithmOverrides overrides;
  overrides.text_ = text;
  std::optional<Collective> last;
  for (std::string_view left = text; !left.empty();) {
    const size_t end = end_of_entry(left);
    try {
      overrides.add(left.substr(0, end), last);
    } catch (const Error& error) {
      fail(error.code(), "PLAIT_ALGORITHM is '", text, "': ", error.what());
    }
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return overrides;
}

}  // namespace plait

// Conditions of measured tables.
#include "tuner/rules.hpp"

#include <algorithm>
#include <cstdint>

namespace plait {
namespace {

// The largest number where no number can tell.
size_t times(size_t bytes, size_t count) { return count > 0 && bytes > SIZE_MAX / count ? SIZE_MAX : bytes * count; }

}  // namespace

size_t RuleSubject::measured(Measure measure) const {
  const auto count = static_cast<size_t>(ranks), peers = count - 1;
  switch (measure) {
    case Measure::kStored:
      return times(bytes, peers);
    case Measure::kCrossing:
      if (collective == Collective::kAllReduce) return times(bytes / count * peers, 2);
      return has_rank_blocks(collective) ? bytes / count * peers : bytes;
    case Measure::kPieces:
      return pieces;
    case Measure::kMessage:
      break;
  }
  return bytes;
}

RuleSubject subject_of(const RankMachine& machine, const Query& query) {
  RuleSubject subject;
  subject.collective = query.collective;
  subject.ranks = machine.ranks();
  subject.bytes = query.bytes;
  subject.element_bytes = size_of(query.type);
  const auto set = [&](Flag flag, bool is_set) { subject.flags[static_cast<size_t>(flag)] = is_set; };
  set(Flag::kWidePartials, accumulates_in_float32(query.type));
  set(Flag::kRooted, has_root(query.collective));
  if (machine.gpus) {
    set(Flag::kFewSms, machine.gpus->most_sms > 0 && machine.gpus->most_sms < machine.profile->few_sms);
    set(Flag::kStaysMapped, machine.gpus->lines && machine.gpus->blocks_stay);
  }
  return subject;
}

bool holds(const RuleCondition& when, const RuleSubject& subject) {
  const auto& collectives = when.collectives;
  if (!collectives.empty() &&
      std::find(collectives.begin(), collectives.end(), subject.collective) == collectives.end()) {
    return false;
  }
  if (subject.ranks < when.least_ranks || subject.ranks > when.most_ranks) return false;
  if (subject.steps < when.least_steps || subject.steps > when.most_steps) return false;
  if (subject.element_bytes > when.most_element_bytes) return false;
  for (const auto& [flag, wanted] : when.flags) {
    if (subject.flags[static_cast<size_t>(flag)] != wanted) return false;
  }
  if (when.from && subject.measured(when.from->measure) < when.from->bytes) return false;
  return !when.to || subject.measured(when.to->measure) <= when.to->bytes;
}

}  // namespace plait

// Launches.
#include "tuner/gpu_launch.hpp"

#include <algorithm>
#include <bit>

#include "plan/conditions.hpp"
#include "tuner/carried_flags.hpp"
#include "tuner/rules.hpp"

namespace plait {
namespace {

size_t divide(size_t a, size_t b) { return (a + b - 1) / b; }

// What a rank looks after: all of the message, or its share.
size_t piece_of(const VerifiedPlan& plan, const Query& query) {
  const auto ranks = static_cast<size_t>(plan.plan().rank_count());
  return chunks_of_size(plan.plan()) > 1 ? divide(query.bytes, ranks) : query.bytes;
}

bool combines_and_shares(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce;
}

Protocol protocol_named(const std::string& text) {
  return text == "LL" ? Protocol::kPackets : text == "LL128" ? Protocol::kLines : Protocol::kSignals;
}

}  // namespace

int lanes_of(const VerifiedPlan& plan) {
  size_t most = 1;
  for (const RankPlan& rank : plan.plan().ranks) most = std::max(most, rank.lanes.size());
  return static_cast<int>(most);
}

// Of a rank whose strands have so many lanes.
size_t GpuLaunch::most_strands(int lanes) const {
  if (gpus_.most_sms == 0) return kMostStrands;
  return static_cast<size_t>(std::clamp(gpus_.most_sms / lanes, 1, kMostStrands));
}

// As many threads as share the work: of packets one for each word and rank, of lines eight for fifteen words.
LaunchShape GpuLaunch::spread(Protocol protocol, size_t threads) const {
  LaunchShape shape{protocol, 1, 128};
  shape.strands = static_cast<int>(std::clamp<size_t>(divide(threads, 128), 1, most_strands(1)));
  const size_t each = divide(threads, static_cast<size_t>(shape.strands));
  shape.threads = std::clamp(static_cast<int>(divide(each, 64) * 64), kLeastThreads, kMostThreads);
  return shape;
}

Protocol GpuLaunch::protocol_for(const VerifiedPlan& plan, size_t piece) const {
  if (!can_carry_flags(plan, query_.type)) return Protocol::kSignals;
  const auto peers = static_cast<size_t>(machine_.ranks() - 1);
  RuleSubject subject = subject_of(machine_, query_);
  subject.steps = plan.report().steps;
  subject.pieces = peers > 0 && piece > SIZE_MAX / peers ? SIZE_MAX : piece * peers;
  // Of bytes that there is memory for where flags are inside the data, what a few strands have of it, but for what is
  // lost at ends: in several epochs, signals are faster.
  if (subject.flags[static_cast<size_t>(Flag::kFewSms)] && subject.pieces < SIZE_MAX / 8 / kMostStrands) {
    subject.pieces = divide(subject.pieces * 8 * kMostStrands, most_strands(1) * 7);
  }
  for (const MeasuredRule& rule : machine_.profile->protocols) {
    const Protocol protocol = protocol_named(rule.choice);
    const bool tears = protocol == Protocol::kLines && !gpus_.lines;
    if (!tears && holds(rule.when, subject)) return protocol;
  }
  return Protocol::kSignals;
}

LaunchShape GpuLaunch::shape(const VerifiedPlan& plan, const LaunchWish& wish) const {
  const Collective collective = query_.collective;
  if (collective == Collective::kBarrier || query_.bytes == 0) return {Protocol::kSignals, 1, kLeastThreads};
  const auto ranks = static_cast<size_t>(machine_.ranks());
  const size_t piece = piece_of(plan, query_), words = divide(piece, 8);
  switch (wish.protocol.value_or(protocol_for(plan, piece))) {
    case Protocol::kPackets:
      return spread(Protocol::kPackets, words * std::bit_ceil(ranks));
    case Protocol::kLines: {
      // What is broadcast one rank stores, however many steps there are.
      const size_t most = collective == Collective::kBroadcast ? divide(query_.bytes, 8) : words;
      return spread(Protocol::kLines, divide(most, 15) * 8);
    }
    case Protocol::kSignals:
      break;
  }
  const bool few_registers = ranks == 2 || !combines_and_shares(collective);
  LaunchShape shape{Protocol::kSignals, 1, wish.threads != 0 ? wish.threads : few_registers ? 512 : 256};
  shape.strands = static_cast<int>(std::clamp<size_t>(piece / (8 << 10), 1, most_strands(lanes_of(plan))));
  return shape;
}

void GpuLaunch::add_host_part(LaunchShape& shape, const std::optional<PlanChoice>& zero_copy) const {
  const bool copies = zero_copy && zero_copy->arguments.engine == Engine::kCopy;
  if (!gpus_.host_path || gpus_.ranks_per_device > 1 || (zero_copy && !copies) || gpus_.most_sms > 0) return;
  if (!machine_.profile->host_path) return;
  const HostPath& path = *machine_.profile->host_path;
  // Of blocks that begin between two vectors fewer loads are under way, for which host memory is too far away.
  const auto ranks = static_cast<size_t>(machine_.ranks());
  const bool whole_vectors = !has_rank_blocks(query_.collective) || query_.bytes % (ranks * kVectorBytes) == 0;
  if (!whole_vectors) return;
  RuleSubject subject = subject_of(machine_, query_);
  subject.flags[static_cast<size_t>(Flag::kCopies)] = copies;
  const HostPathRule* const rule = first_match(path.rules, subject);
  if (rule == nullptr) return;
  // So that both are done at one time.
  const auto bytes = static_cast<double>(subject.measured(Measure::kCrossing));
  const double over_links = bytes / (rule->links_gbps * 1e9);
  const double share = (over_links - rule->lateness_seconds) / (over_links + bytes / (rule->host_gbps * 1e9));
  if (!(share >= path.least_share)) return;
  shape.host = {kMostHostStrands, share, rule->pace_gbps * 1e9};
  if (rule->in_place_of_others) shape.strands -= kMostHostStrands;
}

double GpuLaunch::host_pace() const {
  if (!machine_.profile->host_path) return 0;
  RuleSubject subject = subject_of(machine_, query_);
  subject.element_bytes = 1;
  const HostPathRule* const rule = first_match(machine_.profile->host_path->rules, subject);
  return rule == nullptr ? 0 : rule->pace_gbps * 1e9;
}

// Those of several lanes, those of ranks that share a GPU, and those of two launches. An SM has registers for two CTAs
// of up to 256 threads.
LaunchShape GpuLaunch::fit(LaunchShape shape, const VerifiedPlan& plan) const {
  const int lanes = lanes_of(plan);
  if (lanes == 1 && gpus_.ranks_per_device == 1 && shape.host.strands == 0) return shape;
  if (lanes * shape.strands > gpus_.processors) shape.threads = std::min(shape.threads, 256);
  const int ctas_per_processor = shape.threads > 256 ? 1 : 2;
  // Half of it where kernels of several ranks share the room: how the GPU places them is not ours to say.
  const int share = gpus_.ranks_per_device == 1 ? 1 : 2 * gpus_.ranks_per_device;
  const int room = gpus_.processors * ctas_per_processor / (lanes * share) - shape.host.strands;
  shape.strands = std::clamp(shape.strands, 1, std::max(1, room));
  return shape;
}

}  // namespace plait

// Launches.
#include "tuner/gpu_launch.hpp"

#include <algorithm>
#include <bit>

#include "plan/conditions.hpp"
#include "tuner/rules.hpp"

namespace plait {
namespace {

size_t divide(size_t a, size_t b) { return (a + b - 1) / b; }

// The bytes that a rank looks after: all of the message, or its share.
size_t piece_of(const VerifiedPlan& plan, const Query& query) {
  const auto ranks = static_cast<size_t>(plan.plan().rank_count());
  return chunks_of_size(plan.plan()) > 1 ? divide(query.bytes, ranks) : query.bytes;
}

bool combines_and_shares(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce;
}

Protocol protocol_named(const std::string& text) {
  return text == "LL" ? Protocol::kLl : text == "LL128" ? Protocol::kLl128 : Protocol::kSimple;
}

}  // namespace

// The most channels that a rank may have if each has `queues` queues.
size_t GpuLaunch::most_channels(int queues) const {
  if (gpus_.most_sms == 0) return kMostChannels;
  return static_cast<size_t>(std::clamp(gpus_.most_sms / queues, 1, kMostChannels));
}

// Takes as many threads as share the work: with LL one for each word and rank, with LL128 eight for fifteen words.
LaunchShape GpuLaunch::spread(Protocol protocol, size_t threads) const {
  LaunchShape shape{protocol, 1, 128};
  shape.channels = static_cast<int>(std::clamp<size_t>(divide(threads, 128), 1, most_channels(1)));
  const size_t each = divide(threads, static_cast<size_t>(shape.channels));
  shape.threads = std::clamp(static_cast<int>(divide(each, 64) * 64), kLeastThreads, kMostThreads);
  return shape;
}

Protocol GpuLaunch::protocol_for(const VerifiedPlan& plan, size_t piece) const {
  if (!plan.can_carry_flags(query_.type)) return Protocol::kSimple;
  const auto peers = static_cast<size_t>(machine_.ranks() - 1);
  RuleSubject subject = subject_of(machine_, query_);
  subject.steps = plan.report().steps;
  subject.pieces = peers > 0 && piece > SIZE_MAX / peers ? SIZE_MAX : piece * peers;
  // In several epochs Simple is faster than LL and LL128. A few channels have less memory for flagged data than all
  // have, so the message counts as so much longer. An eighth is lost at ends.
  if (subject.flags[static_cast<size_t>(Flag::kFewSms)] && subject.pieces < SIZE_MAX / 8 / kMostChannels) {
    subject.pieces = divide(subject.pieces * 8 * kMostChannels, most_channels(1) * 7);
  }
  for (const MeasuredRule& rule : machine_.profile->protocols) {
    const Protocol protocol = protocol_named(rule.choice);
    const bool tears = protocol == Protocol::kLl128 && !gpus_.lines;
    if (!tears && holds(rule.when, subject)) return protocol;
  }
  return Protocol::kSimple;
}

LaunchShape GpuLaunch::shape(const VerifiedPlan& plan, const LaunchWish& wish) const {
  const Collective collective = query_.collective;
  if (collective == Collective::kBarrier || query_.bytes == 0) return {Protocol::kSimple, 1, kLeastThreads};
  const auto ranks = static_cast<size_t>(machine_.ranks());
  const size_t piece = piece_of(plan, query_), words = divide(piece, 8);
  switch (wish.protocol.value_or(protocol_for(plan, piece))) {
    case Protocol::kLl:
      return spread(Protocol::kLl, words * std::bit_ceil(ranks));
    case Protocol::kLl128: {
      // One rank stores all that is broadcast, however many steps there are.
      const size_t most = collective == Collective::kBroadcast ? divide(query_.bytes, 8) : words;
      return spread(Protocol::kLl128, divide(most, 15) * 8);
    }
    case Protocol::kSimple:
      break;
  }
  const bool few_registers = ranks == 2 || !combines_and_shares(collective);
  LaunchShape shape{Protocol::kSimple, 1, wish.threads != 0 ? wish.threads : few_registers ? 512 : 256};
  shape.channels =
      static_cast<int>(std::clamp<size_t>(piece / (8 << 10), 1, most_channels(plan.report().shape.queues)));
  return shape;
}

void GpuLaunch::add_host_part(LaunchShape& shape, const std::optional<PlanChoice>& zero_copy) const {
  const bool copies = zero_copy && zero_copy->arguments.engine == Engine::kCopy;
  if (!gpus_.host_path || gpus_.ranks_per_device > 1 || (zero_copy && !copies) || gpus_.most_sms > 0) return;
  if (!machine_.profile->host_path) return;
  const HostPathProfile& path = *machine_.profile->host_path;
  // Host memory is far away, so many loads must be under way. Blocks that begin between two vectors have too few.
  const auto ranks = static_cast<size_t>(machine_.ranks());
  const bool whole_vectors = !has_rank_blocks(query_.collective) || query_.bytes % (ranks * kVectorBytes) == 0;
  if (!whole_vectors) return;
  RuleSubject subject = subject_of(machine_, query_);
  subject.flags[static_cast<size_t>(Flag::kCopies)] = copies;
  const HostPathRule* const rule = first_match(path.rules, subject);
  if (rule == nullptr) return;
  // This share makes links and host memory finish at the same time.
  const auto bytes = static_cast<double>(subject.measured(Measure::kCrossing));
  const double over_links = bytes / (rule->links_gbps * 1e9);
  const double share = (over_links - rule->lateness_seconds) / (over_links + bytes / (rule->host_gbps * 1e9));
  if (!(share >= path.least_share)) return;
  shape.host = {kMostHostChannels, share, rule->pace_gbps * 1e9};
  if (rule->in_place_of_others) shape.channels -= kMostHostChannels;
}

double GpuLaunch::host_pace() const {
  if (!machine_.profile->host_path) return 0;
  RuleSubject subject = subject_of(machine_, query_);
  subject.element_bytes = 1;
  const HostPathRule* const rule = first_match(machine_.profile->host_path->rules, subject);
  return rule == nullptr ? 0 : rule->pace_gbps * 1e9;
}

// Shrinks launches of several queues, of ranks that share a GPU, and those with a host path, so that their CTAs fit. An
// SM has registers for two CTAs of up to 256 threads.
LaunchShape GpuLaunch::fit(LaunchShape shape, const VerifiedPlan& plan) const {
  const int queues = plan.report().shape.queues;
  if (queues == 1 && gpus_.ranks_per_device == 1 && shape.host.channels == 0) return shape;
  if (queues * shape.channels > gpus_.processors) shape.threads = std::min(shape.threads, 256);
  const int ctas_per_processor = shape.threads > 256 ? 1 : 2;
  // Half of it where kernels of several ranks share the room: how the GPU places them is not ours to say.
  const int share = gpus_.ranks_per_device == 1 ? 1 : 2 * gpus_.ranks_per_device;
  const int room = gpus_.processors * ctas_per_processor / (queues * share) - shape.host.channels;
  shape.channels = std::clamp(shape.channels, 1, std::max(1, room));
  return shape;
}

}  // namespace plait

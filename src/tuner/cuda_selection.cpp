// The choice of algorithms and launches on GPUs. The figures were measured on 2 and 4 H200, and those of ends that are
// fetched on 2 H100, with benchmarks/launch_shapes.cpp (docs/benchmarks.md).
#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "tuner/carried_flags.hpp"
#include "tuner/selection.hpp"

namespace plait {
namespace {

// Where everybody stores everything at everybody, up to this many bytes a rank, or, of a reduction to one rank, in all:
// more is stored faster in two steps.
constexpr size_t kOneShotStoredBytes = 768 << 10;
constexpr size_t kOneShotReduceBytes = 1600 << 10;
// Bytes that a rank stores in a step. Packets take twice the bytes and lines 16/15 of them, but nothing waits for a
// signal. A thread combines what several packets hold more slowly than what several lines do. Lines are for what there
// is memory for in one epoch, on up to 8 GPUs; packets of two steps have half of theirs each.
constexpr size_t kPacketBytes = 192 << 10, kCombinedPacketBytes = 64 << 10;
constexpr size_t kOneStepLineBytes = 3 << 20, kTwoStepLineBytes = 1560 << 10, kTwoStepBroadcastBytes = 800 << 10;
// Over two GPUs as many lines as threads have under way at once: what is longer does better if its end is fetched. So
// does not what is so long that a few microseconds are nothing, where it crosses links both ways, since loads cost
// both.
constexpr size_t kPairLineBytes = 2400 << 10, kLeastUnfetchedBytes = 64 << 20;
// From this size of the message on, a lane for each step: the links must not idle while parts are combined. A reduction
// to one rank does better with lines up to there. Over two GPUs: kPairLineBytes.
constexpr size_t kLanesBytes = 12 << 20;
constexpr size_t kAllReduceLanesBytes = 6 << 20;  // over more than two GPUs
constexpr size_t kReduceLanesBytes = 64 << 20;
// From this size on, to or from one rank, a chain over three or four GPUs. More were not there to be measured, and a
// longer chain needs more parts.
constexpr size_t kChainBytes = 3 << 20;
constexpr int kMostChained = 4;
constexpr int kChainParts = 2;

// From so many bytes on that cross the links of the busiest GPU, they go straight from buffer to buffer: by SMs, and
// where there are more by copy engines, at 370 GB/s where kernels reach 340. But two gates and the start of a copy take
// some 20 us.
constexpr size_t kDirectBytes = 4 << 20, kDirectBroadcastBytes = 8 << 20, kCopyEngineBytes = 48 << 20;
constexpr size_t kManyCopyEngineBytes = 56 << 20;   // over more than two GPUs
constexpr size_t kPairCopyEngineBytes = 128 << 20;  // of those that may fetch ends, whose SMs do not pull
// What has to be combined a few SMs combine straight out of all inputs, and copy engines spread it: over four
// GPUs that is faster than kernels on all SMs from so many bytes of the message on.
constexpr size_t kDirectAllReduceBytes = 256 << 20;

// Where few SMs may be kept busy, kernels that store everything have one lane, which does more with as many SMs than
// several do, and a message goes straight from buffer to buffer from so many bytes on.
constexpr size_t kFewSmsDirectBytes = 384 << 10, kFewSmsCopyEngineBytes = 32 << 20;

// A second path, through pinned host memory. 4 CTAs for each lane carry what SMs can. How fast it is beside what links
// carry, how late its last byte, and how fast SMs of one GPU may store there: from docs/benchmarks.md. Four GPUs share
// what the host's memory takes, and wait for each other more often. Less of a message than `kLeastHostShare` is not
// worth it.
constexpr int kHostStrands = kMostHostStrands;
constexpr double kLeastHostShare = 0.05;
struct Paths {
  double links, host;  // bytes a second that cross the links of the busiest GPU, and that go beside them
  double lateness;     // seconds
  double pace;         // bytes a second
};
constexpr Paths kSmOneWay = {360e9, 42e9, 25e-6, 52e9}, kSmBothWays = {355e9, 32e9, 25e-6, 46e9};
constexpr Paths kCopiesOneWay = {391e9, 34e9, 25e-6, 52e9}, kCopiesBothWays = {370e9, 27e9, 25e-6, 46e9};
constexpr Paths kFourOneWay = {355e9, 32e9, 110e-6, 26e9}, kFourBothWays = {340e9, 30e9, 80e-6, 32e9};

size_t divide(size_t a, size_t b) { return (a + b - 1) / b; }

class CudaSelection {
 public:
  explicit CudaSelection(const SelectionQuery& query) : query_(query), peers_(static_cast<size_t>(query.ranks - 1)) {}

  Choice algorithm() const {
    Choice choice;
    choice.arguments.collective = query_.collective;
    if (query_.collective != Collective::kBarrier) choice.arguments.direction = Direction::kStore;
    if (one_step_is_best()) {
      choice.algorithm = "one_shot";
      choice.reason = query_.ranks == 2 ? "two GPUs: one step stores as few bytes as two"
                                        : "so few bytes to store: one step has the least latency";
    } else {
      choice.algorithm = "flat";
      choice.reason =
          "every GPU reaches every other's memory alike: two stages store the least bytes in the fewest steps";
    }
    if (chain_is_best()) {
      choice.algorithm = "chain";
      choice.arguments.parts = kChainParts;
      choice.reason = "a long message, to or from one GPU: in a chain each GPU stores to one other only";
    } else if (lanes_are_best() && !has_few_sms()) {
      choice.arguments.parts = 2;
      choice.reason += "; a lane for each step, so that slices of the message overlap";
    }
    return choice;
  }

  std::optional<Choice> direct() const {
    if (query_.ranks < 2 || query_.ranks_per_device > 1 || !query_.maps_buffers) return std::nullopt;
    if (direct_bytes() == 0 || direct_bytes() < least_direct_bytes()) return std::nullopt;
    Choice choice;
    choice.algorithm = "flat";
    const bool by_engines =
        direct_bytes() >= least_bytes_by_engines() && query_.collective != Collective::kReduceScatter;
    choice.arguments.engine = by_engines ? Engine::kCopy : Engine::kSm;
    if (reduces(query_.collective)) {
      choice.reason =
          "where buffers can be mapped a few SMs combine the message straight out of all inputs, which keeps links as "
          "busy as many SMs that store";
    } else if (by_engines) {
      choice.reason =
          "a long message that nobody has to combine: copy engines move it faster than kernels, straight from buffer "
          "to buffer, where buffers can be mapped";
    } else {
      choice.reason =
          "nobody has to combine the message: where buffers can be mapped it goes straight from buffer to buffer, "
          "which saves a copy";
    }
    return choice;
  }

  std::optional<Choice> ending(const Choice& choice) const {
    const bool is_one_way = has_root(query_.collective);
    const bool is_worth_it = is_one_way || link_bytes() < kLeastUnfetchedBytes;
    if (!can_fetch_its_end() || choice.arguments.parts == 1 || !is_worth_it) return std::nullopt;
    Choice ending;
    ending.algorithm = "flat";
    ending.arguments.direction = Direction::kBoth;
    ending.reason = "a part of the last slices is fetched instead of stored, while the rest is combined or copied out";
    return ending;
  }

  LaunchShape shape(const Choice& choice) const {
    const size_t chunk =
        !choice.is("flat", Direction::kStore) ? query_.bytes : divide(query_.bytes, static_cast<size_t>(query_.ranks));
    const size_t stored = stored_at_peers(chunk);
    const size_t words = divide(chunk, 8);
    const int lanes = this->lanes(choice);
    LaunchShape shape;
    if (query_.collective == Collective::kBarrier || query_.bytes == 0) {
      shape = {Protocol::kSignals, 1, kLeastThreads};
    } else if (lanes == 1 && stored <= of_strands(most_in_packets(choice))) {
      shape = spread(Protocol::kPackets, words * std::bit_ceil(static_cast<unsigned>(query_.ranks)));
    } else if (lanes == 1 && query_.lines && stored <= of_strands(most_in_lines(choice))) {
      // What is broadcast one rank stores, however many steps there are.
      const size_t most = is_broadcast() ? divide(query_.bytes, 8) : words;
      shape = spread(Protocol::kLines, divide(most, 15) * 8);
    } else {
      shape = {Protocol::kSignals, 1, threads_with_signals(choice)};
      shape.strands = static_cast<int>(std::clamp<size_t>(chunk / (8 << 10), 1, most_strands(lanes)));
    }
    return shape;
  }

  // That goes through host memory while the rest is performed as `direct`, if that is there, or else by kernels.
  HostPart host_part(const std::optional<Choice>& direct) const {
    const bool copies = direct && direct->arguments.engine == Engine::kCopy;
    if (!query_.host_path || query_.ranks_per_device > 1 || (direct && !copies) || query_.most_sms > 0) return {};
    // Of blocks that begin between two vectors fewer loads are under way, for which host memory is too far away.
    const bool whole_vectors =
        !has_rank_blocks(query_.collective) || query_.bytes % (static_cast<size_t>(query_.ranks) * kVectorBytes) == 0;
    if (!whole_vectors) return {};
    // Over more than two GPUs, copies are held up for longer than what host memory carries saves, but for those behind
    // a fold, where it was measured to pay. Whether there will be any copies not all ranks may know, and the launch of
    // kernels has to be the same on all, so the share is what suits kernels. And what comes from host memory
    // has far to come: of elements of eight bytes fewer loads are under way where there are several sources.
    const bool loads_enough = !reduces(query_.collective) || query_.element_bytes <= 4;
    const bool moves = direct_bytes() > 0 && !reduces(query_.collective);
    if (query_.ranks > 2 && (moves || !loads_enough)) return {};
    const Paths& paths = this->paths(copies);
    // So that both are done at one time.
    const auto bytes = static_cast<double>(link_bytes());
    const double over_links = bytes / paths.links;
    const double share = (over_links - paths.lateness) / (over_links + bytes / paths.host);
    if (!(share >= kLeastHostShare)) return {};
    return {kHostStrands, share, paths.pace};
  }

  const Paths& paths(bool copies) const {
    const bool one_way = has_root(query_.collective);  // ranks either store at others or are stored at
    if (query_.ranks > 2) return one_way ? kFourOneWay : kFourBothWays;
    if (copies) return one_way ? kCopiesOneWay : kCopiesBothWays;
    return one_way ? kSmOneWay : kSmBothWays;
  }

  // CTAs that wait for each other have to be on the GPU at once: those of several lanes, those of ranks that share
  // a GPU, and those of two launches. An SM has registers for two CTAs of up to 256 threads.
  LaunchShape fit(LaunchShape shape, const Choice& choice) const {
    const int lanes = this->lanes(choice);
    if (lanes == 1 && query_.ranks_per_device == 1 && shape.host.strands == 0) return shape;
    if (lanes * shape.strands > query_.processors) shape.threads = std::min(shape.threads, 256);
    const int ctas_per_processor = shape.threads > 256 ? 1 : 2;
    // Half of it where kernels of several ranks share the room: how the GPU places them is not ours to say.
    const int share = query_.ranks_per_device == 1 ? 1 : 2 * query_.ranks_per_device;
    const int room = query_.processors * ctas_per_processor / (lanes * share) - shape.host.strands;
    shape.strands = std::clamp(shape.strands, 1, std::max(1, room));
    return shape;
  }

 private:
  // That cross the links of the busiest GPU, in the direction in which more do.
  size_t link_bytes() const {
    const auto ranks = static_cast<size_t>(query_.ranks);
    if (query_.collective == Collective::kAllReduce) return query_.bytes / ranks * peers_ * 2;
    return has_rank_blocks(query_.collective) ? query_.bytes / ranks * peers_ : query_.bytes;
  }

  // That cross the links of the busiest GPU where every rank fetches what it gets; 0 where that is no way to do it.
  size_t direct_bytes() const {
    switch (query_.collective) {
      case Collective::kBroadcast:  // all from one, which is still more than few SMs get through a chain
        if (query_.ranks == 2) return query_.bytes;
        return has_few_sms() && query_.ranks <= kMostChained ? stored_at_peers(query_.bytes) : 0;
      case Collective::kAllReduce:  // in each of two stages
      case Collective::kReduceScatter:
      case Collective::kAllGather:
      case Collective::kAllToAll:
      case Collective::kGather:
      case Collective::kScatter:
        return query_.bytes / static_cast<size_t>(query_.ranks) * peers_;
      default:
        return 0;
    }
  }

  // From how many of them on that is the better way.
  size_t least_direct_bytes() const {
    if (has_few_sms()) return kFewSmsDirectBytes;
    switch (query_.collective) {
      case Collective::kAllReduce:
        if (query_.ranks != 4) return SIZE_MAX;  // as it was measured
        return kDirectAllReduceBytes / static_cast<size_t>(query_.ranks) * peers_;
      case Collective::kReduceScatter:
        return SIZE_MAX;
      case Collective::kBroadcast:
        return can_fetch_its_end() ? kPairCopyEngineBytes : kDirectBroadcastBytes;
      default:
        return can_fetch_its_end() ? kPairCopyEngineBytes : kDirectBytes;
    }
  }

  size_t least_bytes_by_engines() const {
    if (has_few_sms()) return kFewSmsCopyEngineBytes;
    if (query_.ranks > 2) return kManyCopyEngineBytes;
    return can_fetch_its_end() ? kPairCopyEngineBytes : kCopyEngineBytes;
  }

  bool has_few_sms() const { return query_.has_few_sms(); }
  // Of a rank whose strands have so many lanes.
  size_t most_strands(int lanes) const {
    return query_.most_sms == 0 ? kMostStrands
                                : static_cast<size_t>(std::clamp(query_.most_sms / lanes, 1, kMostStrands));
  }

  // What a rank stores that stores so many bytes at every other; the largest number where no number can tell.
  size_t stored_at_peers(size_t bytes) const {
    return peers_ > 0 && bytes > SIZE_MAX / peers_ ? SIZE_MAX : bytes * peers_;
  }

  bool one_step_is_best() const {
    const size_t stored = stored_at_peers(query_.bytes);
    switch (query_.collective) {
      case Collective::kAllReduce:
        return query_.ranks == 2 || stored <= kOneShotStoredBytes;
      case Collective::kReduce:
        return query_.ranks == 2 || stored <= kOneShotReduceBytes;
      case Collective::kBroadcast:
        return query_.ranks == 2 || stored <= kOneShotStoredBytes;
      default:
        return false;
    }
  }

  // Over NVLink, where a load takes little longer than a store, and within a GPU that ranks share, so that tests see it
  // there. Over more than two GPUs it was not measured.
  bool can_fetch_its_end() const {
    const bool moves_data = query_.collective != Collective::kBarrier;
    return query_.ranks == 2 && query_.lines && query_.blocks_stay && moves_data;
  }

  bool lanes_are_best() const {
    if (query_.collective == Collective::kBarrier) return false;
    if (can_fetch_its_end()) return link_bytes() > kPairLineBytes;
    switch (query_.collective) {
      case Collective::kBroadcast:
        return false;
      case Collective::kReduce:
        return query_.bytes >= (query_.ranks > 2 ? kReduceLanesBytes : kLanesBytes);
      case Collective::kAllReduce:
        return query_.bytes >= (query_.ranks > 2 ? kAllReduceLanesBytes : kLanesBytes);
      default:
        return query_.bytes >= kLanesBytes;
    }
  }

  bool chain_is_best() const {
    const bool to_or_from_one = is_broadcast() || (query_.collective == Collective::kReduce && !query_.wide_partials);
    return to_or_from_one && query_.ranks > 2 && query_.ranks <= kMostChained && query_.bytes >= kChainBytes;
  }

  int threads_with_signals(const Choice& choice) const {
    if (choice.algorithm == "chain") return query_.collective == Collective::kReduce ? 512 : 256;
    const bool few_registers = query_.ranks == 2 || !combines_and_shares();
    return few_registers ? 512 : 256;
  }

  size_t most_in_packets(const Choice& choice) const {
    const size_t most = everyone_combines() ? kCombinedPacketBytes : kPacketBytes;
    return takes_two_steps(choice) ? most / 2 : most;  // each has packets of its own
  }

  size_t most_in_lines(const Choice& choice) const {
    if (query_.collective == Collective::kReduce && query_.ranks > 2 && !has_few_sms()) return SIZE_MAX;
    if (!takes_two_steps(choice)) return kOneStepLineBytes;
    return is_broadcast() ? kTwoStepBroadcastBytes : kTwoStepLineBytes;
  }

  bool everyone_combines() const {
    return query_.collective == Collective::kAllReduce || query_.collective == Collective::kReduceScatter;
  }

  bool is_broadcast() const { return query_.collective == Collective::kBroadcast; }

  // Where a stage of `push` both combines and stores at others.
  bool combines_and_shares() const {
    return query_.collective == Collective::kAllReduce || query_.collective == Collective::kReduce;
  }

  // Of a rank.
  int lanes(const Choice& choice) const {
    if (choice.is("flat", Direction::kBoth)) return 2;
    if (choice.arguments.parts == 1) return 1;
    return takes_two_steps(choice) ? 3 : 2;  // one for each step
  }

  // Besides a chain, which takes as many as there are GPUs.
  bool takes_two_steps(const Choice& choice) const {
    const bool in_one = choice.algorithm == "one_shot" || choice.algorithm == "chain";
    return !in_one && (combines_and_shares() || is_broadcast());
  }

  // Of bytes that there is memory for where flags are inside the data, what a few strands have of it, but for what is
  // lost at ends: in several epochs, signals are faster.
  size_t of_strands(size_t bytes) const {
    return has_few_sms() ? bytes / kMostStrands / 8 * 7 * most_strands(1) : bytes;
  }

  // As many threads as share the work: of packets one for each word and rank, of lines eight for fifteen words.
  LaunchShape spread(Protocol protocol, size_t threads) const {
    LaunchShape shape{protocol, 1, 128};
    shape.strands = static_cast<int>(std::clamp<size_t>(divide(threads, 128), 1, most_strands(1)));
    const size_t each = divide(threads, static_cast<size_t>(shape.strands));
    shape.threads = std::clamp(static_cast<int>(divide(each, 64) * 64), kLeastThreads, kMostThreads);
    return shape;
  }

  const SelectionQuery& query_;
  const size_t peers_;
};

}  // namespace

void SelectionQuery::set_reach(ReachKind reach, bool in_one_process) {
  maps_buffers = reach != ReachKind::kHost;
  blocks_stay = reach != ReachKind::kIpc || in_one_process;
}

std::string CudaChoice::ending_text() const { return ending ? ", the last slice of each strand as flat(both)" : ""; }

void CudaChoice::fit_protocol(const SelectionQuery& query, const VerifiedPlan& verified, DataType type) {
  const bool tears = launch.protocol == Protocol::kLines && !query.lines;
  if (tears || !can_carry_flags(verified, type)) launch.protocol = Protocol::kSignals;
}

CudaChoice select_for_cuda(const SelectionQuery& query, const AlgorithmOverrides& overrides,
                           const std::optional<LaunchShape>& launch) {
  const CudaSelection selection(query);
  CudaChoice choice;
  const Choice* forced = overrides.find(query.collective);
  choice.insists_on_direct = forced != nullptr && forced->asked.zero_copy;
  if (choice.insists_on_direct) {
    if (query.maps_buffers) {
      choice.direct = *forced;
      if (choice.direct->arguments.engine != Engine::kSm) choice.direct->arguments.engine = Engine::kCopy;
    }
    forced = nullptr;
  } else if (forced == nullptr && !launch) {
    choice.direct = selection.direct();
  }
  choice.plan = forced != nullptr ? *forced : selection.algorithm();
  // Flags inside the data need one lane, so whoever insists on them gets it.
  if (forced == nullptr && launch && launch->protocol != Protocol::kSignals) choice.plan.arguments.parts = 1;
  const auto complete = [&](Choice& it, Engine engine, Reach reach) {
    it.arguments.collective = query.collective;
    it.arguments.ranks = query.ranks;
    it.arguments.root = has_root(query.collective) ? query.root : 0;
    it.arguments.engine = engine;
    it.arguments.reach = reach;
    if (!it.asked.name.empty()) it.arguments = resolve(it.asked, it.arguments);
  };
  complete(choice.plan, Engine::kSm, Reach::kStaged);
  if (choice.direct) complete(*choice.direct, choice.direct->arguments.engine, Reach::kPeer);
  if (launch) {
    choice.launch = *launch;
    if (!query.host_path) choice.launch.host = {};
    if (choice.launch.host.strands > 0) choice.launch.host.bytes_per_second = selection.paths(false).pace;
  } else {
    choice.launch = selection.shape(choice.plan);
    if (forced == nullptr && choice.launch.protocol == Protocol::kSignals) {
      choice.launch.host = selection.host_part(choice.direct);
      // As it was measured.
      if (query.ranks > 2 && choice.launch.host.strands > 0) choice.launch.strands -= choice.launch.host.strands;
    }
    choice.launch = selection.fit(choice.launch, choice.plan);
    if (forced == nullptr) choice.ending = selection.ending(choice.plan);
    if (choice.ending) complete(*choice.ending, Engine::kSm, Reach::kStaged);
  }
  return choice;
}

MessageChoice select_message_for_cuda(const SelectionQuery& query, const AlgorithmOverrides& overrides) {
  if (query.ranks < 2 || !query.maps_buffers || query.bytes == 0) return {};
  if (overrides.for_messages()) return *overrides.for_messages();
  MessageChoice choice;
  if (query.ranks_per_device > 1 || query.bytes < kDirectBytes) return choice;
  choice.direct = query.bytes < kCopyEngineBytes ? Engine::kSm : Engine::kCopy;
  return choice;
}

bool wants_host_path(int ranks, int ranks_per_device, int architecture, bool nvlink,
                     const std::optional<LaunchShape>& launch) {
  if (launch) return launch->host.strands > 0;
  return (ranks == 2 || ranks == 4) && ranks_per_device == 1 && architecture == 90 && nvlink;
}

}  // namespace plait

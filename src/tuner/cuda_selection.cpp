// The choice of algorithms and launches on GPUs. The figures were measured on 2 and 4 H200 with
// benchmarks/launch_shapes.cpp (docs/benchmarks.md).
#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "tuner/selection.hpp"

namespace plait {
namespace {

constexpr int kMostStrands = 64;
constexpr int kLeastThreads = 64;
constexpr int kMostThreads = 512;

// Where everybody stores everything at everybody, up to this many bytes a rank: more is stored faster in two steps.
constexpr size_t kOneShotBytes = 768 << 10;
// Bytes that a rank stores in a step. Packets take twice the bytes and lines 16/15 of them, but nothing waits for a
// signal.
constexpr size_t kPacketBytes = 192 << 10;
constexpr size_t kLineBytes = 1600 << 10;
// From this size of the message on, a lane for each step: the links must not idle while parts are combined.
constexpr size_t kLanesBytes = 12 << 20;

size_t divide(size_t a, size_t b) { return (a + b - 1) / b; }

class CudaSelection {
 public:
  explicit CudaSelection(const SelectionQuery& query) : query_(query), peers_(static_cast<size_t>(query.ranks - 1)) {}

  Choice algorithm() const {
    Choice choice;
    choice.arguments.collective = query_.collective;
    const bool rooted = query_.collective == Collective::kReduce || query_.collective == Collective::kBroadcast;
    const bool all_reduce = query_.collective == Collective::kAllReduce;
    const bool few = peers_ == 0 || query_.bytes <= kOneShotBytes / peers_;
    if ((all_reduce || rooted) && (few || (query_.ranks == 2 && all_reduce))) {
      choice.algorithm = "one_shot_push";
      choice.reason = query_.ranks == 2
                          ? "two GPUs: one step stores as few bytes as two"
                          : join("up to ", kOneShotBytes, " bytes to store: one step has the least latency");
    } else {
      choice.algorithm = "push";
      choice.reason =
          "every GPU reaches every other's memory alike: two stages store the least bytes in the fewest steps";
    }
    if (query_.bytes >= kLanesBytes) {
      choice.arguments.pipeline = 2;
      choice.reason += "; a lane for each step, so that slices of the message overlap";
    }
    return choice;
  }

  LaunchShape shape(const Choice& choice) const {
    const bool one_shot = choice.algorithm == "one_shot_push";
    const size_t chunk = one_shot ? query_.bytes : divide(query_.bytes, static_cast<size_t>(query_.ranks));
    const size_t stored = chunk * peers_;
    const size_t words = divide(chunk, 8);
    LaunchShape shape;
    if (query_.collective == Collective::kBarrier || query_.bytes == 0) {
      shape = {Protocol::kSignals, 1, kLeastThreads};
    } else if (choice.arguments.pipeline == 1 && stored <= kPacketBytes) {
      shape = spread(Protocol::kPackets, words * std::bit_ceil(static_cast<unsigned>(query_.ranks)));
    } else if (choice.arguments.pipeline == 1 && query_.lines &&
               (stored <= (one_shot ? kOneShotBytes : kLineBytes) || query_.collective == Collective::kReduce)) {
      shape = spread(Protocol::kLines, divide(words, 15) * 8);
    } else {
      shape = {Protocol::kSignals, kMostStrands, query_.ranks == 2 ? 512 : 256};
      shape.strands = static_cast<int>(std::clamp<size_t>(chunk / (8 << 10), 1, kMostStrands));
    }
    return fit(shape, choice.arguments.pipeline == 1 ? 1 : 3);
  }

 private:
  // As many threads as share the work: of packets one for each word and rank, of lines eight for fifteen words.
  LaunchShape spread(Protocol protocol, size_t threads) const {
    LaunchShape shape{protocol, 1, 128};
    shape.strands = static_cast<int>(std::clamp<size_t>(divide(threads, 128), 1, kMostStrands));
    const size_t each = divide(threads, static_cast<size_t>(shape.strands));
    shape.threads = std::clamp(static_cast<int>(divide(each, 64) * 64), kLeastThreads, kMostThreads);
    return shape;
  }

  // CTAs that wait for each other have to be on the GPU at once: those of several lanes, and those of ranks that share
  // a GPU. An SM has registers for two CTAs of up to 256 threads.
  LaunchShape fit(LaunchShape shape, int lanes) const {
    if (lanes == 1 && query_.ranks_per_device == 1) return shape;
    if (lanes * shape.strands > query_.processors) shape.threads = std::min(shape.threads, 256);
    const int ctas_per_processor = shape.threads > 256 ? 1 : 2;
    // Half of it where kernels of several ranks share the room: how the GPU places them is not ours to say.
    const int share = query_.ranks_per_device == 1 ? 1 : 2 * query_.ranks_per_device;
    const int room = query_.processors * ctas_per_processor / (lanes * share);
    shape.strands = std::clamp(shape.strands, 1, std::max(1, room));
    return shape;
  }

  const SelectionQuery& query_;
  const size_t peers_;
};

}  // namespace

CudaChoice select_for_cuda(const SelectionQuery& query, const AlgorithmOverrides& overrides,
                           const std::optional<LaunchShape>& launch) {
  const CudaSelection selection(query);
  CudaChoice choice;
  const Choice* forced = overrides.find(query.collective);
  choice.plan = forced != nullptr ? *forced : selection.algorithm();
  // Flags inside the data need one lane, so whoever insists on them gets it.
  if (forced == nullptr && launch && launch->protocol != Protocol::kSignals) choice.plan.arguments.pipeline = 1;
  choice.plan.arguments.ranks = query.ranks;
  choice.plan.arguments.root = has_root(query.collective) ? query.root : 0;
  choice.plan.arguments.engine = Engine::kSm;
  choice.plan.arguments.reach = Reach::kStaged;
  choice.launch = launch ? *launch : selection.shape(choice.plan);
  return choice;
}

}  // namespace plait

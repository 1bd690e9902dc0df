// Measures calls by counts.
#include "bench/uneven.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "bench/bench_stage.hpp"
#include "bench/exact_input.hpp"
#include "bench/pages.hpp"

namespace plait {
namespace {

class UnevenStage final : public BenchStage {
 public:
  UnevenStage(const Communicator& communicator, const Call& call, double imbalance, const MeasureOptions& options)
      : ranks_(communicator.size()),
        rank_(communicator.rank()),
        call_(uneven_call(call, imbalance, ranks_, rank_)),
        multiplied_(options.multiplied),
        factor_(exact_scalar(call.type, rank_)),
        first_(bytes(call_.blocks.input)),
        second_(bytes(call_.blocks.output)),
        input_(first_.get()),
        output_(second_.get()) {
    if (!options.in_place || call_.blocks.input.empty() || call_.blocks.output.empty()) return;
    if (gathers(call.collective)) input_ = output_ + own(call_.blocks.output).first * element();
    if (scatters(call.collective)) output_ = input_ + own(call_.blocks.input).first * element();
  }

  bool served_by(const PeerLibrary& peer) const override {
    return peer.serves(call_) && (!multiplied_ || peer.multiplies());
  }
  bool has_exact_result() const override { return true; }
  void run(PeerLibrary& peer) override { peer.run(call_, multiplied_ ? &factor_ : nullptr, input_, output_); }

  void fill(int variant) override {
    for (size_t i = 0; i < call_.blocks.input.size(); ++i) {
      const int to = gathers(call_.call.collective) ? 0 : static_cast<int>(i);
      const BufferBlock& block = call_.blocks.input[i];
      fill_input(block_call(rank_, block.count), ranks_, rank_, variant_of(variant, rank_, to),
                 input_ + block.first * element());
    }
  }

  size_t count_wrong(int variant) const override {
    size_t wrong = 0;
    for (size_t i = 0; i < call_.blocks.output.size(); ++i) {
      const int from = scatters(call_.call.collective) ? call_.call.root : static_cast<int>(i);
      const int to = gathers(call_.call.collective) ? 0 : rank_;
      const BufferBlock& block = call_.blocks.output[i];
      wrong += plait::count_wrong(block_call(from, block.count), ranks_, rank_, variant_of(variant, from, to),
                                  output_ + block.first * element(), multiplied_);
    }
    return wrong;
  }

 private:
  size_t element() const { return size_of(call_.call.type); }
  size_t bytes(const std::vector<BufferBlock>& blocks) const { return extent(blocks) * element(); }
  const BufferBlock& own(const std::vector<BufferBlock>& blocks) const { return blocks[static_cast<size_t>(rank_)]; }

  // A block is what its giver would broadcast, or what all ranks would reduce.
  Call block_call(int from, size_t count) const {
    if (reduces(call_.call.collective)) return {Collective::kAllReduce, call_.call.type, call_.call.op, 0, count};
    return {Collective::kBroadcast, call_.call.type, ReduceOp::kSum, from, count};
  }
  // Blocks of one giver to several ranks differ. Those that are reduced are alike on all ranks.
  int variant_of(int variant, int from, int to) const {
    if (reduces(call_.call.collective)) return variant + to;
    return variant + from * ranks_ + to;
  }

  const int ranks_;
  const int rank_;
  const CallByCounts call_;
  const bool multiplied_;
  const Scalar factor_;
  const Pages first_, second_;
  std::byte *input_, *output_;
};

}  // namespace

std::vector<size_t> uneven_counts(int ranks, size_t count, double imbalance) {
  if (!(imbalance >= 1 && imbalance <= ranks)) {
    fail(ErrorCode::kInvalidArgument, "an imbalance of ", imbalance, " over ", counted(ranks, "rank"),
         "; expected 1 to the number of ranks: how many times the mean the largest block is");
  }
  const size_t others = static_cast<size_t>(ranks) - 1, all = count * static_cast<size_t>(ranks);
  std::vector<size_t> counts(static_cast<size_t>(ranks));
  counts[0] = std::min(all, static_cast<size_t>(std::llround(static_cast<double>(count) * imbalance)));
  if (others == 0) counts[0] = all;
  const size_t rest = all - counts[0];
  for (size_t i = 1; i <= others; ++i) counts[i] = rest / others + (i <= rest % others ? 1 : 0);
  return counts;
}

CallByCounts uneven_call(const Call& call, double imbalance, int ranks, int rank) {
  const std::vector<size_t> counts = uneven_counts(ranks, call.count, imbalance);
  const std::vector<size_t> own(static_cast<size_t>(ranks), counts[static_cast<size_t>(rank)]);
  const bool to_all = call.collective == Collective::kAllToAll;
  BlockCounts given{counts}, got{counts};
  if (to_all) got.counts = own;
  if (gathers(call.collective)) given.counts = std::span(own).first(1);
  if (scatters(call.collective)) got.counts = std::span(own).first(1);
  Call made = call;
  made.count = 0;
  return call_by_counts(made, ranks, rank, given, got);
}

std::vector<Measurement> measure_uneven(Communicator& communicator, const std::vector<PeerLibrary*>& peers,
                                        const Call& call, double imbalance, const MeasureOptions& options) {
  if (call.collective == Collective::kAllToAll && options.in_place) return std::vector<Measurement>(peers.size());
  UnevenStage stage(communicator, call, imbalance, options);
  return measure_stage(communicator, peers, stage, options);
}

}  // namespace plait

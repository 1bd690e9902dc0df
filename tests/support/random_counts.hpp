// Random calls by counts, the same on every rank: sizes, gaps and orders of blocks, and buffers that tell afterwards
// whether anything else was written.
#pragma once

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "api/communicator.hpp"
#include "bench/exact_input.hpp"
#include "support/outcome.hpp"
#include "support/random_calls.hpp"
#include "support/seed.hpp"

namespace plait::test {

inline constexpr std::array kByCounts = {Collective::kAllToAll, Collective::kAllGather, Collective::kReduceScatter,
                                         Collective::kGather, Collective::kScatter};

// One call, as all ranks know it.
struct UnevenStep {
  Call call;                                // without counts
  std::vector<std::vector<size_t>> counts;  // [giver][receiver]; those of one row where a rank gives or gets one block
  uint64_t layout = 0;                      // seed of displacements
  bool in_place = false;                    // but all_to_all
  int variant = 0;
};

inline size_t random_count(Random& random, size_t most) {
  switch (random() % 4) {
    case 0:
      return 0;
    case 1:
      return random() % 5;
    case 2:
      return random() % 300;
    default:
      return random() % (most + 1);
  }
}

inline UnevenStep random_uneven_step(Random& random, int ranks, size_t most_bytes) {
  UnevenStep step;
  step.call.collective = kByCounts[random() % kByCounts.size()];
  step.call.type = static_cast<DataType>(random() % kDataTypeCount);
  if (reduces(step.call.collective)) step.call.op = any_of(random, reductions_of(step.call.type));
  if (has_root(step.call.collective)) step.call.root = static_cast<int>(random() % static_cast<uint64_t>(ranks));
  const size_t most = most_bytes / size_of(step.call.type) / static_cast<size_t>(ranks);
  const int rows = step.call.collective == Collective::kAllToAll ? ranks : 1;
  for (int row = 0; row < rows; ++row) {
    auto& counts = step.counts.emplace_back();
    // Now and then one rank has nearly everything.
    const size_t heavy = one_in(random, 3) ? random() % static_cast<uint64_t>(ranks) : ~size_t{0};
    for (int r = 0; r < ranks; ++r) {
      counts.push_back(static_cast<size_t>(r) == heavy ? most * static_cast<size_t>(ranks)
                                                       : random_count(random, most));
    }
  }
  step.layout = random();
  step.in_place = one_in(random, 2);
  step.variant = static_cast<int>(random() % 1000);
  return step;
}

// Performs such a call as one rank.
class UnevenCall {
 public:
  UnevenCall(const UnevenStep& step, int ranks, int rank)
      : step_(step), ranks_(ranks), rank_(rank), collective_(step.call.collective) {
    const bool to_all = collective_ == Collective::kAllToAll;
    const std::vector<size_t>& shared = step.counts[to_all ? static_cast<size_t>(rank) : 0];
    std::vector<size_t> received;
    for (int from = 0; to_all && from < ranks; ++from) {
      received.push_back(step.counts[static_cast<size_t>(from)][static_cast<size_t>(rank)]);
    }
    const std::vector<size_t> own{shared[static_cast<size_t>(rank)]};
    const Side given = lay_out(gathers(collective_) ? own : shared, 1, !gathers(collective_));
    const Side got = lay_out(scatters(collective_) ? own : to_all ? received : shared, 2, !scatters(collective_));
    call_ =
        call_by_counts(step.call, ranks, rank, {given.counts, given.displacements}, {got.counts, got.displacements});
    input_.assign(memory_bytes(call_.blocks.input), std::byte{0x5a});
    output_.assign(memory_bytes(call_.blocks.output), std::byte{0xa5});
    in_ = input_.data();
    out_ = output_.data();
    const bool has_both = !call_.blocks.input.empty() && !call_.blocks.output.empty();
    if (!step.in_place || !has_both || to_all) return;
    if (gathers(collective_)) in_ = out_ + call_.blocks.output[static_cast<size_t>(rank)].first * element();
    if (scatters(collective_)) out_ = in_ + call_.blocks.input[static_cast<size_t>(rank)].first * element();
  }

  // Throws at the first error.
  void run(Communicator& communicator) {
    fill();
    const std::vector<std::byte> input = input_, output = output_;
    communicator.run_by_counts(call_, in_, out_);
    check_blocks_of_output();
    require_alike(input, input_, "the input");
    require_alike(output, output_, "bytes between blocks of the output");
  }

 private:
  // Blocks in a random order, with gaps or without.
  struct Side {
    std::vector<size_t> counts, displacements;
  };
  Side lay_out(std::vector<size_t> counts, uint64_t key, bool several) const {
    Side side{std::move(counts), {}};
    Random random(step_.layout + key + (collective_ == Collective::kAllToAll ? static_cast<uint64_t>(rank_) * 7 : 0));
    if (!several || one_in(random, 3)) return side;
    std::vector<size_t> order(side.counts.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    side.displacements.resize(order.size());
    size_t next = 0;
    for (const size_t block : order) {
      next += random() % 5;
      side.displacements[block] = next;
      next += side.counts[block];
    }
    return side;
  }

  size_t element() const { return size_of(step_.call.type); }
  size_t memory_bytes(const std::vector<BufferBlock>& blocks) const { return extent(blocks) * element() + 64; }

  // A block is what its giver would broadcast, or what all ranks would reduce.
  Call block_call(int from, size_t count) const {
    if (reduces(collective_)) return {Collective::kAllReduce, step_.call.type, step_.call.op, 0, count};
    return {Collective::kBroadcast, step_.call.type, ReduceOp::kSum, from, count};
  }
  int variant_of(int from, int to) const {
    return step_.variant + (reduces(collective_) ? to : from * ranks_ + (gathers(collective_) ? 0 : to));
  }

  void fill() {
    for (size_t i = 0; i < call_.blocks.input.size(); ++i) {
      const BufferBlock& block = call_.blocks.input[i];
      fill_input(block_call(rank_, block.count), ranks_, rank_, variant_of(rank_, static_cast<int>(i)),
                 in_ + block.first * element());
    }
  }

  void check_blocks_of_output() {
    for (size_t i = 0; i < call_.blocks.output.size(); ++i) {
      const BufferBlock& block = call_.blocks.output[i];
      const int from = scatters(collective_) ? step_.call.root : static_cast<int>(i);
      std::byte* const at = out_ + block.first * element();
      const size_t wrong = count_wrong(block_call(from, block.count), ranks_, rank_, variant_of(from, rank_), at);
      require(wrong == 0, wrong, " of ", block.count, " elements of block ", i, " are wrong");
      std::memset(at, 0, block.count * element());  // checked
    }
  }

  // All but the blocks of the output, which are zero by now.
  void require_alike(std::vector<std::byte> before, const std::vector<std::byte>& now, const char* what) {
    const std::byte* const begin = now.data();
    for (const BufferBlock& block : call_.blocks.output) {
      const std::byte* const at = out_ + block.first * element();
      if (at < begin || at >= begin + now.size()) continue;
      std::memset(before.data() + (at - begin), 0, block.count * element());
    }
    require(before == now, what, " was written");
  }

  const UnevenStep& step_;
  const int ranks_, rank_;
  const Collective collective_;
  CallByCounts call_;
  std::vector<std::byte> input_, output_;
  std::byte *in_ = nullptr, *out_ = nullptr;
};

// A sequence of them.
struct UnevenSequence {
  uint64_t seed = 0;
  int ranks = 1;
  Settings settings;
  std::vector<UnevenStep> steps;
};

inline UnevenSequence random_uneven_sequence(uint64_t seed, int ranks, int steps, size_t most_bytes) {
  Random random(seed);
  UnevenSequence sequence;
  sequence.seed = seed;
  sequence.ranks = ranks;
  sequence.settings = random_settings(random, ranks);
  for (int i = 0; i < steps; ++i) sequence.steps.push_back(random_uneven_step(random, ranks, most_bytes));
  return sequence;
}

// As one rank. Between them are calls of equal blocks, which share memory and signals with them.
inline void run_uneven(Communicator& communicator, const UnevenSequence& sequence) {
  for (size_t i = 0; i < sequence.steps.size(); ++i) {
    const UnevenStep& step = sequence.steps[i];
    try {
      UnevenCall(step, sequence.ranks, communicator.rank()).run(communicator);
      if (i % 5 == 4) communicator.barrier();
    } catch (const Error& error) {
      throw Error(error.code(), join("seed ", sequence.seed, ", '", sequence.settings.algorithm, "', step ", i, ", ",
                                     to_text(step.call), " by counts: ", error.what()));
    } catch (const std::exception& error) {
      throw std::runtime_error(join("seed ", sequence.seed, ", '", sequence.settings.algorithm, "', step ", i, ", ",
                                    to_text(step.call), " by counts: ", error.what()));
    }
  }
}

}  // namespace plait::test

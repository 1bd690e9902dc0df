// Reads and checks blocks of unequal sizes.
#include "runtime/buffer_blocks.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/overlap.hpp"

namespace plait {
namespace {

template <class... Parts>
[[noreturn]] void refuse_blocks(const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, parts...);
}

// Indices of the blocks that have elements, in the order in which they lie.
std::vector<int> in_order(std::span<const BufferBlock> blocks) {
  std::vector<int> order;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].count > 0) order.push_back(static_cast<int>(i));
  }
  std::ranges::sort(order, {}, [&](int i) { return blocks[static_cast<size_t>(i)].first; });
  return order;
}

std::string block_text(const BufferBlock& block) { return join("elements ", block.first, " to ", block.end() - 1); }

// The own block of `rank` must have one size in its input and its output.
void check_own_block(const Call& call, int rank, const BufferBlocks& blocks) {
  const size_t given = blocks.input.size() == 1 ? 0 : static_cast<size_t>(rank);
  const size_t got = blocks.output.size() == 1 ? 0 : static_cast<size_t>(rank);
  if (given >= blocks.input.size() || got >= blocks.output.size()) return;  // it has no such block
  if (blocks.input[given].count == blocks.output[got].count) return;
  refuse_call(rank, call, "it gives ", counted(blocks.input[given].count, "element"), " to itself, and gets ",
              blocks.output[got].count, "; both counts must be equal");
}

bool lie_in_place(const Call& call, int rank, const BufferBlocks& blocks, const void* input, const void* output) {
  const size_t element = size_of(call.type), own = static_cast<size_t>(rank);
  const auto* in = static_cast<const std::byte*>(input);
  const auto* out = static_cast<const std::byte*>(output);
  if (gathers(call.collective)) return in == out + blocks.output[own].first * element;
  if (scatters(call.collective)) return out == in + blocks.input[own].first * element;
  return in == out && blocks.input == blocks.output;
}

// Buffers may lie in each other's gaps, so blocks are compared and not buffers.
void check_apart(const Call& call, int rank, const BufferBlocks& blocks, const void* input, const void* output) {
  const size_t element = size_of(call.type);
  const auto* in = static_cast<const std::byte*>(input);
  const auto* out = static_cast<const std::byte*>(output);
  if (!overlap(in, extent(blocks.input) * element, out, extent(blocks.output) * element)) return;
  for (const BufferBlock& given : blocks.input) {
    for (const BufferBlock& got : blocks.output) {
      if (!overlap(in + given.first * element, given.count * element, out + got.first * element, got.count * element)) {
        continue;
      }
      refuse_call(rank, call, block_text(given), " of the input and ", block_text(got),
                  " of the output overlap without being in place; in place means ",
                  gathers(call.collective)    ? "input = output + displacement of the own block"
                  : scatters(call.collective) ? "output = input + displacement of the own block"
                                              : "input = output, with the same counts and displacements for both");
    }
  }
}

}  // namespace

std::vector<BufferBlock> read_blocks(const BlockCounts& given, int ranks, size_t element_bytes, const char* buffer) {
  const auto expected = static_cast<size_t>(ranks);
  if (given.counts.size() != expected) {
    refuse_blocks(buffer, " has ", counted(given.counts.size(), "count"), "; expected one for each rank, ", ranks);
  }
  if (!given.displacements.empty() && given.displacements.size() != expected) {
    refuse_blocks(buffer, " has ", given.displacements.size(), " displacements; expected one for each rank, ", ranks,
                  ", or none");
  }
  const size_t most = SIZE_MAX / 4 / element_bytes;
  std::vector<BufferBlock> blocks;
  size_t next = 0;
  for (size_t i = 0; i < expected; ++i) {
    const size_t first = given.displacements.empty() ? next : given.displacements[i];
    const size_t count = given.counts[i];
    if (first > most || count > most - first) {
      refuse_blocks(buffer, ": block ", i, " of ", counted(count, "element"), " from element ", first, " on",
                    " ends behind any memory");
    }
    blocks.push_back({first, count});
    next = first + count;
  }
  return blocks;
}

size_t extent(std::span<const BufferBlock> blocks) {
  size_t end = 0;
  for (const BufferBlock& block : blocks) end = std::max(end, block.count == 0 ? 0 : block.end());
  return end;
}

size_t most_elements(std::span<const BufferBlock> blocks) {
  size_t most = 0;
  for (const BufferBlock& block : blocks) most = std::max(most, block.count);
  return most;
}

// Blocks that an input holds may overlap, so that their sum may be larger than any memory.
size_t all_elements(std::span<const BufferBlock> blocks) {
  size_t all = 0;
  for (const BufferBlock& block : blocks) all = block.count > SIZE_MAX - all ? SIZE_MAX : all + block.count;
  return all;
}

BlockPair find_overlap(std::span<const BufferBlock> blocks) {
  const std::vector<int> order = in_order(blocks);
  for (size_t i = 1; i < order.size(); ++i) {
    if (blocks[static_cast<size_t>(order[i])].first < blocks[static_cast<size_t>(order[i - 1])].end()) {
      return {std::min(order[i - 1], order[i]), std::max(order[i - 1], order[i])};
    }
  }
  return {};
}

uint64_t fingerprint_of_counts(std::span<const BufferBlock> blocks) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const BufferBlock& block : blocks) {
    hash = (hash ^ block.count) * 0x9e3779b97f4a7c15ULL;
    hash ^= hash >> 29;
  }
  return hash == 0 ? 1 : hash;
}

CallByCounts call_by_counts(Call call, int ranks, int rank, const BlockCounts& input, const BlockCounts& output) {
  CallByCounts made;
  BufferBlocks& blocks = made.blocks;
  const auto read = [&](const BlockCounts& given, int count, const char* buffer) {
    return read_blocks(given, count, size_of(call.type), buffer);
  };
  call.by_counts = true;
  if (knows_all_counts(call.collective)) {
    const bool one_given = gathers(call.collective);
    const std::vector<BufferBlock> all =
        read(one_given ? output : input, ranks, one_given ? "the output" : "the input");
    call.count = all_elements(all);
    call.counts = fingerprint_of_counts(all);
    (one_given ? blocks.input : blocks.output).assign(1, {0, all[static_cast<size_t>(rank)].count});
    (one_given ? blocks.output : blocks.input) = all;
  } else {
    if (has_input(call, rank)) blocks.input = read(input, gathers(call.collective) ? 1 : ranks, "the input");
    if (has_output(call, rank)) blocks.output = read(output, scatters(call.collective) ? 1 : ranks, "the output");
  }
  made.call = call;
  return made;
}

bool check_blocks(const Call& call, int ranks, int rank, const BufferBlocks& blocks, const void* input,
                  const void* output) {
  const auto check_number = [&](size_t number, size_t expected, const char* buffer) {
    if (number == expected) return;
    fail(ErrorCode::kInternal, "rank ", rank, ", ", to_text(call), ": ", counted(number, "block"), " of the ", buffer,
         ", not ", expected);
  };
  const auto all = static_cast<size_t>(ranks);
  const bool gives = has_input(call, rank), gets = has_output(call, rank);
  check_number(blocks.input.size(), !gives ? 0 : gathers(call.collective) ? 1 : all, "input");
  check_number(blocks.output.size(), !gets ? 0 : scatters(call.collective) ? 1 : all, "output");
  if (const BlockPair pair = find_overlap(blocks.output); pair.a >= 0) {
    refuse_call(rank, call, "blocks ", pair.a, " and ", pair.b,
                " of the output overlap: ", block_text(blocks.output[static_cast<size_t>(pair.a)]), " and ",
                block_text(blocks.output[static_cast<size_t>(pair.b)]), "; give displacements that keep blocks apart");
  }
  check_own_block(call, rank, blocks);
  if (extent(blocks.input) > 0 && input == nullptr) refuse_call(rank, call, "input is null");
  if (extent(blocks.output) > 0 && output == nullptr) refuse_call(rank, call, "output is null");
  if (!gives || !gets) return false;
  if (lie_in_place(call, rank, blocks, input, output)) return true;
  check_apart(call, rank, blocks, input, output);
  return false;
}

}  // namespace plait

// Agreement between a benchmark's ranks.
#include "bench/ranks.hpp"

#include <cstring>
#include <vector>

#include "base/error.hpp"

namespace plait {
namespace {

// How a step went on one rank, as plain bytes.
struct Outcome {
  int32_t code = -1;
  char text[1020] = {};
};

}  // namespace

void agree(Communicator& communicator, const std::optional<Error>& own) {
  Outcome mine;
  if (own) {
    mine.code = static_cast<int32_t>(own->code());
    std::strncpy(mine.text, own->what(), sizeof(mine.text) - 1);
  }
  std::vector<Outcome> all(static_cast<size_t>(communicator.size()));
  communicator.all_gather(&mine, all.data(), sizeof(mine), DataType::kUint8);
  for (const Outcome& rank : all) {
    if (rank.code >= 0) fail(static_cast<ErrorCode>(rank.code), rank.text);
  }
}

BufferPlacement place(const Call& call, int rank, BufferPair buffers, bool in_place) {
  if (!in_place) return {buffers.first, buffers.second};
  const size_t own_block = static_cast<size_t>(rank) * call.count * size_of(call.type);
  BufferPlacement placement{buffers.first, buffers.first};
  if (gathers(call.collective)) placement.input += own_block;
  if (scatters(call.collective)) placement.output += own_block;
  return placement;
}

}  // namespace plait

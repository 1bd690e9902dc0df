// Blocks as shares.
#include "algorithms/steps/shares.hpp"

#include <algorithm>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/levels.hpp"
#include "base/figures.hpp"

namespace plait {
namespace {

void check_block_level(const Algorithm& algorithm, const AlgorithmArguments& arguments, const Level& level,
                       const std::vector<Units>& blocks) {
  const size_t members = blocks[0].size();
  for (const Units& block : blocks) {
    if (block.size() == members) continue;
    refuse(algorithm, "level '", to_text(level), "' of a ", name(arguments.collective), " joins ", members,
           " units for rank ", blocks[0][0][0], ", and ", block.size(), " for rank ", block[0][0],
           "; all ranks have blocks of one size, so it has to join as many units everywhere");
  }
  const int most = std::max(2, static_cast<int>(members));  // also of one member, what leaves no shares is refused
  const int shares = shares_of(level, most);
  if (shares == most && !level.all_reduce) return;
  refuse(algorithm, "level '", to_text(level), "' leaves ", shares, " of ", counted(most, "rank"),
         " with a share, and each rank of a ", name(arguments.collective),
         " has a block of its own; use flat, rabenseifner or ring, without leaders and all_reduce");
}

}  // namespace

std::vector<int> shares_of_ranks(const Algorithm& algorithm, const AlgorithmArguments& arguments,
                                 const std::vector<Level>& levels, const std::vector<std::vector<Units>>& blocks) {
  std::vector<int> shares(arguments.ranks, 0);
  for (size_t level = 0; level < levels.size(); ++level) {
    check_block_level(algorithm, arguments, levels[level], blocks[level]);
    for (const Units& block : blocks[level]) {
      for (size_t x = 0; x < block.size(); ++x) {
        for (const int rank : block[x])
          shares[rank] = shares[rank] * static_cast<int>(block.size()) + static_cast<int>(x);
      }
    }
  }
  return shares;
}

std::vector<int> chunks_by_share(const std::vector<int>& share_of_rank, int chunks, int parts) {
  const int ranks = static_cast<int>(share_of_rank.size());
  std::vector<int> order(static_cast<size_t>(ranks) * chunks * parts);
  for (int part = 0; part < parts; ++part) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int at = (part * ranks + share_of_rank[rank]) * chunks + chunk;
        order[at] = (rank * parts + part) * chunks + chunk;
      }
    }
  }
  return order;
}

}  // namespace plait

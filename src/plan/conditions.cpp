// The preconditions and postconditions of the collectives.
#include "plan/conditions.hpp"

#include <cstdint>

#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait {
namespace {

ChunkWindow whole(const Plan& plan) { return {0, plan.blocks, 1, plan.chunks_per_block}; }
ChunkWindow block(const Plan& plan, int rank) { return {rank * plan.chunks_per_block, 1, 1, plan.chunks_per_block}; }
ChunkWindow whole_at_root(const Plan& plan, int rank) { return rank == plan.root ? whole(plan) : ChunkWindow{}; }

}  // namespace

ChunkWindow input_window(const Plan& plan, int rank) {
  switch (plan.collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
      return whole(plan);
    case Collective::kBroadcast:
    case Collective::kScatter:
      return whole_at_root(plan, rank);
    case Collective::kAllGather:
    case Collective::kGather:
      return block(plan, rank);
    case Collective::kAllToAll:
      return {rank * plan.rank_count() * plan.chunks_per_block, plan.rank_count(), 1, plan.chunks_per_block};
    case Collective::kBarrier:
      return {};
  }
  return {};
}

ChunkWindow output_window(const Plan& plan, int rank) {
  switch (plan.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kAllGather:
      return whole(plan);
    case Collective::kReduce:
    case Collective::kGather:
      return whole_at_root(plan, rank);
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return block(plan, rank);
    case Collective::kAllToAll:
      return {rank * plan.chunks_per_block, plan.rank_count(), plan.rank_count(), plan.chunks_per_block};
    case Collective::kBarrier:
      return {};
  }
  return {};
}

int shared_position(const Plan& plan, int rank, int input_chunk) {
  if (plan.collective == Collective::kAllToAll) return input_window(plan, rank).position_of(input_chunk);
  return output_window(plan, rank).position_of(input_chunk);
}

int chunks_of_size(const Plan& plan) {
  return plan.chunk_count() / (plan.collective == Collective::kAllToAll ? plan.rank_count() : 1);
}

void check_shape(const Plan& plan, int most_ranks) {
  const int ranks = plan.rank_count();
  const auto refuse = [&](const auto&... parts) {
    fail(ErrorCode::kInvalidPlan, "plan ", plan.algorithm, " (", name(plan.collective), "): ", parts...);
  };
  if (plan.collective > Collective::kBarrier || plan.access > Access::kZeroCopy) {
    fail(ErrorCode::kInvalidPlan, "plan ", plan.algorithm, ": unknown collective or access");
  }
  if (ranks < 1) refuse("has no ranks");
  if (plan.ranks.size() > static_cast<size_t>(most_ranks)) {
    refuse("has ", counted(plan.ranks.size(), "rank"), "; the limit is ", most_ranks);
  }
  if (static_cast<int>(plan.node_of.size()) != ranks) {
    refuse("names the node of ", counted(plan.node_of.size(), "rank"), ", but has ", counted(ranks, "rank"));
  }
  if (has_root(plan.collective) && (plan.root < 0 || plan.root >= ranks)) {
    refuse("root ", plan.root, " is not one of its ", counted(ranks, "rank"));
  }
  if (!has_root(plan.collective) && plan.root != 0) {
    refuse("root ", plan.root, " is named, but ", name(plan.collective), " has no root; write 0");
  }
  if (plan.collective == Collective::kBarrier) {
    if (plan.blocks != 0 || plan.chunks_per_block != 0) {
      refuse("a barrier moves no data, but the plan has ", counted(plan.blocks, "block"), " of ",
             counted(plan.chunks_per_block, "chunk"));
    }
    return;
  }
  const int64_t blocks = block_count(plan.collective, ranks);
  if (plan.blocks != blocks) refuse("needs ", counted(blocks, "block"), ", has ", plan.blocks);
  if (plan.chunks_per_block < 1) refuse("needs at least one chunk a block, has ", plan.chunks_per_block);
  if (blocks * plan.chunks_per_block > kMaxChunks) {
    refuse("cuts the message into ", blocks * plan.chunks_per_block, " chunks; the limit is ", kMaxChunks);
  }
}

void check_no_vain_root(Collective collective, int root) {
  if (has_root(collective) || root == 0) return;
  fail(ErrorCode::kInvalidArgument, name(collective), " has no root; leave root ", root, " out");
}

}  // namespace plait

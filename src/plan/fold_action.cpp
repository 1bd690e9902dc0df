// Finds the action on operations.
#include "plan/fold_action.hpp"

#include <algorithm>
#include <cstdlib>

#include "plan/fold.hpp"

namespace plait {
namespace {

template <class... Parts>
[[noreturn]] void refuse_action(const Parts&... parts) {
  throw NotSymmetric(ErrorCode::kInvalidArgument, join("not proved by symmetry: ", parts...));
}

}  // namespace

FoldAction::FoldAction(const FoldedPlan& folded) : shifts_(folded.fold.shifts()), chunks_(folded.plan.chunk_count()) {
  find_weights(folded);
  check_nested();
  find_blocks(folded.plan);
}

void FoldAction::find_weights(const FoldedPlan& folded) {
  int weight = 1;
  for (size_t i = 0; i < shifts_.digits().size(); ++i) {
    const NodeDigit& digit = shifts_.digits()[i];
    if (!digit.is_fixed && digit.factor > 1) {
      const int found = weight_of(folded, i, weight);
      if (found > 0) digits_.push_back({i, found, digit.factor});
    }
    weight *= digit.factor;
  }
  std::sort(digits_.begin(), digits_.end(), [](const auto& a, const auto& b) { return a.weight < b.weight; });
}

// By the first operation that is on another chunk once it is shifted by one; 0 where there is none.
int FoldAction::weight_of(const FoldedPlan& folded, size_t digit, int generator) const {
  const int factor = shifts_.digits()[digit].factor;
  for (int rank = 0; rank < shifts_.ranks(); ++rank) {
    if (!shifts_.is_representative(rank)) continue;
    const int image = shifts_.shifted(rank, generator * shifts_.ranks_per_node());
    const auto& queues = folded.plan.ranks[static_cast<size_t>(rank)].queues;
    for (size_t queue = 0; queue < queues.size(); ++queue) {
      const std::vector<int>& chunks = folded.fold.chunks_of_image(rank, static_cast<int>(queue), image);
      for (size_t i = 0; i < chunks.size(); ++i) {
        const int further = chunks[i] - queues[queue].operations[i].chunk;
        if (further > 0) return further;
        if (further < 0 && -further % (factor - 1) == 0) return -further / (factor - 1);
      }
    }
  }
  return 0;
}

void FoldAction::check_nested() const {
  int whole = 1;
  for (const ChunkDigit& it : digits_) {
    if (it.weight % whole != 0 || chunks_ % (it.weight * it.factor) != 0) {
      refuse_action("chunks move by ", it.weight, " in ", it.factor, " steps, which does not fit the other digits");
    }
    whole = it.weight * it.factor;
  }
}

void FoldAction::find_blocks(const Plan& plan) {
  if (digits_.empty()) return;  // nothing moves
  std::vector<SlotRanges> scratch(plan.ranks.size()), host(plan.ranks.size());
  for (const RankPlan& rank : plan.ranks) {
    for (const Queue& queue : rank.queues) {
      for (const Operation& operation : queue.operations) {
        for (const auto* places : {&operation.sources, &operation.destinations}) {
          for (const Place& place : *places) {
            if (!has_slots(place.buffer)) continue;
            auto& ranges = place.buffer == Buffer::kScratch ? scratch : host;
            ranges[static_cast<size_t>(shifts_.representative(place.rank))].push_back({place.slot, operation.chunks});
          }
        }
      }
    }
  }
  scratch_.resize(plan.ranks.size());
  host_.resize(plan.ranks.size());
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    if (!shifts_.is_representative(static_cast<int>(rank))) continue;
    scratch_[rank].resize(static_cast<size_t>(plan.ranks[rank].scratch_slots));
    host_[rank].resize(static_cast<size_t>(plan.ranks[rank].host_slots));
    lay_blocks(std::move(scratch[rank]), scratch_[rank]);
    lay_blocks(std::move(host[rank]), host_[rank]);
  }
}

// The largest first: all others lie within those before, or apart from them.
void FoldAction::lay_blocks(SlotRanges ranges, std::vector<SlotBlock>& blocks) const {
  std::sort(ranges.begin(), ranges.end(), [](const SlotRange& a, const SlotRange& b) {
    return a.count != b.count ? a.count > b.count : a.first < b.first;
  });
  for (const SlotRange& it : ranges) {
    const SlotBlock& known = blocks.at(static_cast<size_t>(it.first));
    if (known.count > 0) {
      if ((it.first - known.first) % it.count != 0 || it.first + it.count > known.first + known.count) {
        refuse_action("slots ", it.first, " to ", it.first + it.count - 1, " overlap others in part");
      }
      continue;
    }
    for (int slot = it.first; slot < it.first + it.count; ++slot) {
      SlotBlock& block = blocks.at(static_cast<size_t>(slot));
      if (block.count > 0)
        refuse_action("slots ", it.first, " to ", it.first + it.count - 1, " overlap others in part");
      block = {it.first, it.count};
    }
  }
}

int FoldAction::moved(int position, int by, int of, int like, bool forward) const {
  for (const ChunkDigit& it : digits_) {
    if (it.weight < by || it.weight * it.factor > of) continue;
    const int shift = shifts_.digit(like, it.digit);
    if (shift == 0) continue;
    const int value = position / it.weight % it.factor;
    const int add = forward ? shift : it.factor - shift;
    position += (value + add < it.factor ? add : add - it.factor) * it.weight;
  }
  return position;
}

int FoldAction::range_before(int chunk, int chunks, int like) const {
  for (const ChunkDigit& it : digits_) {
    const bool is_outside = it.weight % chunks == 0 && chunk % chunks == 0;
    const int whole = it.weight * it.factor;
    const bool is_inside = chunks % whole == 0 && chunk % whole == 0;
    if (!is_outside && !is_inside) {
      refuse_action("chunks ", chunk, " to ", chunk + chunks - 1, " are cut where others move by ", it.weight);
    }
  }
  return moved(chunk, chunks, chunks_, like, false);
}

const FoldAction::SlotBlock& FoldAction::block_of(const Place& place) const {
  const auto& blocks =
      (place.buffer == Buffer::kScratch ? scratch_ : host_)[static_cast<size_t>(shifts_.representative(place.rank))];
  const auto slot = static_cast<size_t>(place.slot);
  if (place.slot < 0 || slot >= blocks.size() || blocks[slot].count == 0) {
    refuse_action("slot ", place.slot, " of rank ", place.rank, " is not used by the rank that stands for it");
  }
  return blocks[slot];
}

int FoldAction::slot_before(const Place& place) const {
  if (digits_.empty()) return place.slot;
  const SlotBlock& block = block_of(place);
  return block.first + moved(place.slot - block.first, 1, block.count, shifts_.node_of(place.rank), false);
}

int FoldAction::slots_before(const Place& place, int chunks) const {
  if (digits_.empty()) return place.slot;
  const SlotBlock& block = block_of(place);
  const int offset = place.slot - block.first;
  if (offset % chunks != 0 || offset + chunks > block.count) {
    refuse_action("slots ", place.slot, " to ", place.slot + chunks - 1, " overlap others in part");
  }
  for (const ChunkDigit& it : digits_) {
    const int whole = it.weight * it.factor;
    const bool is_apart = it.weight % block.count == 0 || (block.count % whole == 0 && it.weight % chunks == 0) ||
                          (block.count % whole == 0 && chunks % whole == 0 && offset % whole == 0);
    if (!is_apart) {
      refuse_action("the slots of ", block.count, " chunks are cut where chunks move by ", it.weight);
    }
  }
  return block.first + moved(offset, chunks, block.count, shifts_.node_of(place.rank), false);
}

}  // namespace plait

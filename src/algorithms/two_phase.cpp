// Two phases: within groups, then across them (BLK-05, BLK-06, BLK-12 to BLK-15).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/tree.hpp"

namespace plait {

Algorithm two_phase();

namespace {

// The ranks are of two groups, in which links join each to all. A chunk for each link between the groups (two for one
// of twice the speed or more): its ends own the chunk, each in its group. Eight ranks, and the chunk of the link r0 -
// r4:
//
//     r1  r2  r3              r5  r6  r7         1. Each owner gets the chunk from all others of its group, and adds.
//       \ | /                   \ | /            2. The owners exchange their sums, and both add them in one order.
//        r0  <------------->     r4              3. Each hands the result to its group.
//
// That is right for groups of any size, and where some have no link to the other group (BLK-23): these own nothing.
// With one group, every rank owns a chunk, and nothing is exchanged.
//
// Steps: 3; 2 with one group.
// Bytes: on each link of an owner its chunk, there and back, and over each link between groups its chunk both ways: all
//   ranks together 2(p-1) M, as along a tree. Eight GPUs of a DGX-1 need n/(2 b), or 4 links' worth; the bound is 16/7.
// Scratch: of each chunk what its stars have, and a slot at each owner for its own sum and one for the other's.
// When: medium messages, two groups with several links between them, or one group of three or more.
// parts: of each chunk, which are in all three steps at once (BLK-15). Each step has a queue of its own.

struct ChunkOwners {
  std::vector<int> ranks;  // one of each group
};

std::vector<ChunkOwners> chunks_of(const AlgorithmArguments& arguments, const std::vector<std::vector<int>>& groups) {
  std::vector<ChunkOwners> chunks;
  if (groups.size() == 1) {
    for (const int rank : groups[0]) chunks.push_back({{rank}});
    return chunks;
  }
  std::vector<DeviceLink> between;  // from the first group to the second
  const auto in_first = [&](int rank) {
    return std::find(groups[0].begin(), groups[0].end(), rank) != groups[0].end();
  };
  double least = 0;
  for (DeviceLink it : arguments.links) {
    if (in_first(it.a) == in_first(it.b)) continue;
    if (in_first(it.b)) std::swap(it.a, it.b);
    between.push_back(it);
    least = least == 0 ? it.gbps : std::min(least, it.gbps);
  }
  constexpr double kMostOfOne = 2;
  for (const DeviceLink& it : between) {
    const auto shares = static_cast<int>(std::lround(std::min(kMostOfOne, it.gbps / least)));
    chunks.insert(chunks.end(), static_cast<size_t>(shares), ChunkOwners{{it.a, it.b}});
  }
  return chunks;
}

class TwoPhases {
 public:
  TwoPhases(const AlgorithmArguments& arguments, std::vector<std::vector<int>> groups, std::vector<ChunkOwners> chunks)
      : arguments_(arguments),
        groups_(std::move(groups)),
        chunks_(std::move(chunks)),
        builder_(start_plan(two_phase(), arguments, static_cast<int64_t>(chunks_.size()) * arguments.parts)) {}

  Plan make() {
    for (size_t i = 0; i < chunks_.size(); ++i) add_stars(static_cast<int>(i));
    for (Star& star : stars_) reduce(star);
    for (Star& star : stars_) broadcast(star);
    return builder_.finish();
  }

 private:
  // A chunk in one group.
  struct Star {
    Tree tree;
    TreeShape up, down;
    Carrier* carrier_up;
    Carrier* carrier_across;
    Carrier* carrier_down;
    Place sum;                             // of the group: slots for the parts
    Star* other = nullptr;                 // the same chunk in the other group
    bool is_first = true;                  // of the two groups
    std::vector<SignalId> ready = {};      // of each part: the sum is there
    std::vector<Arrival> from_other = {};  // of each part
  };

  bool exchanges() const { return groups_.size() > 1; }

  void add_stars(int index) {
    TreeShape up;
    up.queues = {add_queues(builder_, arguments_)};
    up.first_chunk = index * arguments_.parts;
    up.parts = arguments_.parts;
    up.direction = arguments_.direction;
    TreeShape down = up;
    down.queues = {add_queues(builder_, arguments_)};
    // The messages of each step wait for those of no other.
    const auto add_carrier = [&] { return &carriers_.emplace_back(builder_, arguments_.node_of); };
    Carrier *const up_to = add_carrier(), *const across = add_carrier(), *const down_to = add_carrier();
    for (size_t g = 0; g < groups_.size(); ++g) {
      const int owner = chunks_[static_cast<size_t>(index)].ranks[g];
      Tree tree(owner, arguments_.ranks);
      for (const int rank : groups_[g]) {
        if (rank != owner) tree.add(owner, rank);
      }
      const Place sum = exchanges() ? builder_.take_scratch(owner, arguments_.parts) : output_of(owner);
      stars_.push_back({std::move(tree), up, down, up_to, across, down_to, sum});
    }
    if (!exchanges()) return;
    Star &one = stars_[stars_.size() - 2], &two = stars_.back();
    one.other = &two;
    two.other = &one;
    two.is_first = false;
  }

  void reduce(Star& star) {
    const int owner = star.tree.root();
    star.up.after_root = [&](int part) {
      const QueueId up = star.up.queue(part, owner), down = star.down.queue(part, owner);
      star.ready.push_back(builder_.signal(up, down));
      if (!exchanges()) return;
      const int other = star.other->tree.root();
      const Place landing = builder_.take_scratch(other, 1);
      star.other->from_other.push_back(star.carrier_across->put(
          up, {slot_after(star.sum, part)}, {}, star.down.queue(part, other), landing, star.up.range(part)));
    };
    reduce_along(builder_, *star.carrier_up, star.tree, star.up, all_inputs(arguments_.ranks),
                 {star.sum, star.up.first_chunk});
  }

  void broadcast(Star& star) {
    const int owner = star.tree.root();
    star.down.before_root = [&](int part) {
      builder_.wait(star.ready[static_cast<size_t>(part)]);
      if (exchanges()) add_other(star, part);
    };
    broadcast_along(builder_, *star.carrier_down, star.tree, star.down, {output_of(owner)});
  }

  // In the same order at both owners, so that all ranks get the same bits.
  void add_other(Star& star, int part) {
    const Arrival& arrival = star.from_other[static_cast<size_t>(part)];
    star.carrier_across->await(arrival);
    std::vector<Place> sums = {slot_after(star.sum, part), arrival.place};
    if (!star.is_first) std::swap(sums[0], sums[1]);
    const ChunkRange range = star.down.range(part);
    builder_.reduce(star.down.queue(part, star.tree.root()), {output_of(star.tree.root())}, sums, range.first,
                    range.count);
  }

  const AlgorithmArguments& arguments_;
  const std::vector<std::vector<int>> groups_;
  const std::vector<ChunkOwners> chunks_;
  PlanBuilder builder_;
  std::deque<Carrier> carriers_;
  std::deque<Star> stars_;
};

Plan make_two_phase(const AlgorithmArguments& arguments) {
  check_arguments(two_phase(), arguments);
  check_links_join_all(two_phase(), arguments);
  std::vector<std::vector<int>> groups = groups_or_nodes(arguments);
  if (groups.size() > 2) {
    refuse(two_phase(), "joins one group or two, and here are ", groups.size(), "; use spanning_trees or three_stage");
  }
  std::vector<ChunkOwners> chunks = chunks_of(arguments, groups);
  return TwoPhases(arguments, std::move(groups), std::move(chunks)).make();
}

bool links_join_each_to_all(const AlgorithmArguments& machine) {
  const auto ranks = static_cast<size_t>(machine.ranks);
  return machine.links.size() == ranks * (ranks - 1) / 2;
}

// One group is for three ranks or more: flat gives two the same, but uses the links of more in turn.
std::vector<AlgorithmArguments> two_phase_candidates(const AlgorithmArguments& machine) {
  if (machine.access == Access::kZeroCopy || machine.ranks < 2 || !links_join_all(machine)) return {};
  const size_t groups = groups_or_nodes(machine).size();
  if (groups > 2 || (groups == 1 && (machine.ranks < 3 || !links_join_each_to_all(machine)))) return {};
  return in_both_directions(with_parts(machine, {1, 2, 4, 8}));
}

}  // namespace

Algorithm two_phase() {
  return {.name = "two_phase",
          .summary = "sums within one or two groups, exchanged over each link between them, and back to the groups",
          .source = "BLK-05, BLK-06, BLK-12 to BLK-15, BLK-23",
          .collectives = {Collective::kAllReduce},
          .uses = {.direction = true, .parts = true},
          .make = make_two_phase,
          .candidates = two_phase_candidates};
}

}  // namespace plait

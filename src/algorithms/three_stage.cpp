// Hierarchical all-reduce in three stages (TEM-13, TEM-14).
#include <algorithm>
#include <optional>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/ring.hpp"

namespace plait {

Algorithm three_stage();

namespace {

// (1) The members of each group pass their input to its leader, (2) the leaders exchange and reduce, (3) the leaders
// pass the result back. Two groups of three, leaders L:
//
//     m --+            +-- m        m <-+            +-> m
//         +-> L <--> L <-+              +-- L    L --+            leaders: a ring all-reduce of any number of groups
//     m --+            +-- m        m <-+            +-> m
//
// The reduction of stage 1 happens in the reduces of stage 2. They read the inputs of the whole group, so that no
// group's sum is stored only to be loaded again. The message goes in `parts` parts of one chunk a group. Up to three
// parts are under way on queues of their own, so that each stage has something to do (TEM-14).
//
// Steps on one node: 2(L-1) for each round of parts, with L groups; and 2 more if groups have members besides the
//   leader.
// Bytes: every member gives M and receives M; every leader gives 2(L-1)/L M to the next and receives as much.
// Scratch: a member M (staged); a leader M to pass to its members (staged, members on its node), M/L times L (L-1 with
//   kZeroCopy) to exchange, and what arrives from or leaves for other nodes.
// When: large messages, if links within groups are much faster than those between them.
class ThreeStage {
 public:
  explicit ThreeStage(const AlgorithmArguments& arguments)
      : groups_(groups_or_nodes(arguments)),
        leaders_(static_cast<int>(groups_.size())),
        parts_(arguments.parts),
        peer_(arguments.access == Access::kZeroCopy),
        builder_(start_plan(three_stage(), arguments, int64_t{parts_} * leaders_)),
        carrier_(builder_, arguments.node_of),
        group_of_(arguments.ranks),
        published_(arguments.ranks),
        gathered_(parts_, HeldByRank(arguments.ranks)),
        on_their_way_(parts_) {
    for (int i = 0; i < std::min(parts_, kStages); ++i) queues_.push_back(add_queues(builder_, arguments));
    for (int group = 0; group < leaders_; ++group) {
      for (const int rank : groups_[group]) group_of_[rank] = group;
    }
  }

  Plan make() {
    if (!peer_) take_published();
    for (int part = 0; part < parts_; ++part) hand_to_leaders(part);
    for (int part = 0; part < parts_; ++part) exchange(part);
    return builder_.finish();
  }

 private:
  static constexpr int kStages = 3;

  const std::vector<int>& group(int rank) const { return groups_[group_of_[rank]]; }
  int leader(int rank) const { return group(rank)[0]; }
  QueueId queue(int part, int rank) const { return queues_[part % static_cast<int>(queues_.size())][rank]; }
  ChunkRange range(int part) const { return {part * leaders_, leaders_}; }
  // Whether the member's leader can load from it and signal to it.
  bool near(int member) const { return carrier_.together(member, leader(member)); }

  // Members publish their inputs, leaders the result: slot = chunk.
  void take_published() {
    for (const auto& ranks : groups_) {
      bool has_near = false;
      for (size_t i = 1; i < ranks.size(); ++i) {
        if (!near(ranks[i])) continue;
        published_[ranks[i]] = builder_.take_scratch(ranks[i], builder_.chunk_count());
        has_near = true;
      }
      if (has_near) published_[ranks[0]] = builder_.take_scratch(ranks[0], builder_.chunk_count());
    }
  }

  void hand_to_leaders(int part) {
    for (const auto& ranks : groups_) {
      auto& gathered = gathered_[part][ranks[0]];
      gathered.push_back({input_of(ranks[0])});
      for (size_t i = 1; i < ranks.size(); ++i) {
        const int member = ranks[i];
        Held source = {input_of(member)};
        if (near(member) && !peer_) {
          source = {*published_[member]};
          builder_.copy(queue(part, member), source.at(range(part).first), input_of(member), range(part).first,
                        range(part).count);
        }
        const Arrival arrival =
            carrier_.offer(queue(part, member), source.at(range(part).first), queue(part, ranks[0]), range(part));
        gathered.push_back({arrival.place, range(part).first});
        on_their_way_[part].push_back(arrival);
      }
    }
  }

  void exchange(int part) {
    for (const Arrival& arrival : on_their_way_[part]) carrier_.await(arrival);
    RingSteps::Shape shape;
    for (const auto& ranks : groups_) shape.queues.push_back(queue(part, ranks[0]));
    shape.first_chunk = range(part).first;
    shape.stores_to_peers = peer_;
    RingSteps ring(builder_, carrier_, std::move(shape));
    Finish finish;
    finish.places = [&](int rank) { return result_places(rank); };
    finish.stored = [&](int rank, ChunkRange stored) { hand_back(part, rank, stored); };
    ring.reduce_scatter(gathered_[part]);
    ring.all_gather(gathered_[part], finish);
    if (peer_) tell_members(part);
  }

  // The leader's output; and the outputs of its members, or the place from which they can fetch the result.
  std::vector<Held> result_places(int rank) const {
    std::vector<Held> places = {{output_of(rank)}};
    if (published_[rank]) places.push_back({*published_[rank]});
    for (size_t i = 1; i < group(rank).size() && peer_; ++i) {
      if (near(group(rank)[i])) places.push_back({output_of(group(rank)[i])});
    }
    return places;
  }

  void hand_back(int part, int rank, ChunkRange stored) {
    for (size_t i = 1; i < group(rank).size(); ++i) {
      const int member = group(rank)[i];
      if (near(member) && peer_) continue;  // stored there already
      const Place source = near(member) ? slot_after(*published_[rank], stored.first) : output_of(rank);
      const Arrival arrival = carrier_.offer(queue(part, rank), source, queue(part, member), stored, output_of(member));
      carrier_.await(arrival);
      if (near(member)) {
        builder_.copy(queue(part, member), output_of(member), arrival.place, stored.first, stored.count);
      }
    }
  }

  void tell_members(int part) {
    for (const auto& ranks : groups_) {
      for (size_t i = 1; i < ranks.size(); ++i) {
        if (near(ranks[i])) builder_.wait(builder_.signal(queue(part, ranks[0]), queue(part, ranks[i])));
      }
    }
  }

  const std::vector<std::vector<int>> groups_;
  const int leaders_;
  const int parts_;
  const bool peer_;
  PlanBuilder builder_;
  Carrier carrier_;
  std::vector<std::vector<QueueId>> queues_;  // [part modulo the number of queues][rank]
  std::vector<int> group_of_;
  std::vector<std::optional<Place>> published_;     // of each rank that has one
  std::vector<HeldByRank> gathered_;                // [part]: what each leader combines
  std::vector<std::vector<Arrival>> on_their_way_;  // [part]: to the leaders
};

Plan make_three_stage(const AlgorithmArguments& arguments) {
  check_arguments(three_stage(), arguments);
  return ThreeStage(arguments).make();
}

std::vector<AlgorithmArguments> three_stage_candidates(const AlgorithmArguments& machine) {
  const auto groups = groups_or_nodes(machine);
  if (groups.size() == 1 || static_cast<int>(groups.size()) == machine.ranks) return {};
  return with_parts(machine, {1, 2, 4, 8});
}

}  // namespace

Algorithm three_stage() {
  return {.name = "three_stage",
          .summary = "members to the group's leader, leaders among themselves, leaders back to members",
          .source = "TEM-13, TEM-14",
          .collectives = {Collective::kAllReduce},
          .uses = {.parts = true, .zero_copy = true},
          .make = make_three_stage,
          .candidates = three_stage_candidates};
}

}  // namespace plait

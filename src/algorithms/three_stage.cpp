// Hierarchical all-reduce in three stages (TEM-13..16).
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/composition.hpp"

namespace plait {

Algorithm three_stage();

namespace {

// three_stage is short for hierarchical(group: flat(leaders=1), all: ring).
//
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
// With shares, such as direct: 75, host: 25, a part of the message goes through host memory in stages 1 and 3. There
// members and leaders of one socket store next to themselves, and the other side reads (TEM-16). host: 1 is the other
// channel alone (TEM-15). Stage 2 goes directly. The tuner tries shares in hierarchical only, where every member leads:
// it is faster by the same paths.
//
// Steps on one node: 2(L-1) for each round of parts, with L groups; and 2 more if groups have members besides the
//   leader.
// Bytes: every member gives M and receives M; every leader gives 2(L-1)/L M to the next and receives as much.
// Scratch: a member M (staged); a leader M to pass to its members (staged, members on its node), M/L times L (L-1 with
//   kZeroCopy) to exchange, and what arrives from or leaves for other nodes.
// When: large messages, if links within groups are much faster than those between them.
std::vector<Level> levels() {
  return {{.reach = Reach::kGroup, .algorithm = "flat", .leaders = 1}, {.reach = Reach::kAll, .algorithm = "ring"}};
}

Plan make_three_stage(const AlgorithmArguments& arguments) {
  check_arguments(three_stage(), arguments);
  return compose(three_stage(), arguments, levels(), arguments.parts);
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
          .source = "TEM-13..16",
          .collectives = {Collective::kAllReduce},
          .uses = {.parts = true, .zero_copy = true, .shares = true},
          .make = make_three_stage,
          .candidates = three_stage_candidates};
}

}  // namespace plait

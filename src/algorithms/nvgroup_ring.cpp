// NVGroup-Ring: a ring over groups, each of which works like one powerful GPU (NVG-35, NVG-54..62).
#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/exchange.hpp"

namespace plait {

Algorithm nvgroup_ring();

namespace {

// This is no composition of levels, as `hierarchical` makes them. There a level below ends with ranks that have sums,
// and the level above begins with them. Here the host of a leader drives both. It receives for the ring, and asks the
// group for its part of one chunk while other chunks travel. It passes on chunks before the group has stored them. The
// ring's data lies in host memory, and every member moves a slice of it over its own link.
//
// G groups pass chunks of M/G round a ring of their leaders, through host memory next to them. Within a group every
// rank owns a slice of each chunk. It loads the slice from all members and stores it itself (NVG-42), over its own link
// to the host. The leader's `cpu` queue controls this: it receives what arrives, signals the group, and passes on the
// group's result.
//
//        group g                                         group g+1
//     r0  r1  r2                                       r3  r4  r5
//      \  |  /   TO-CPU: slices of all inputs + host    \  |  /
//     host(r0): result --- cpu/net queue of r0 ---> host(r3): arrived ... result --->
//
// With t counting steps and all numbers modulo G:
//   0.          TO-CPU(chunk g): the first chunk to leave. While it travels, TO-LOCAL for chunks g-1, g-2, …: the sums
//               of the group, ready in scratch before they are needed (NVG-56).
//   t = 1..G-1  chunk g-t arrives; TO-CPU adds the group's sum; the leader passes it on, but keeps the last, which is
//               complete: chunk g+1.
//   t = G..2G-2 complete chunks go round; on arrival the leader passes on without waiting for the group (NVG-58), which
//               stores them to its outputs (GROUP-BCAST).
// With one group there is no ring: TO-GROUP does everything, which is `flat`.
//
// Steps with groups of one size n > 1: 4G - 1, with Access::kZeroCopy 4G (the answer that outputs are complete). Each
//   is a signal or message: 3 in a step of the first phase (message, request, answer), 1 in one of the second. n = 1:
//   2(G-1).
// Bytes: a leader sends 2(G-1)/G M to the next; a rank reads M/n from each other member, moves M/n to the host and
//   (G-1)/G M/n of what arrived from it, and at the end reads M/n and stores it to all members (kZeroCopy) or reads M.
// Slots: host, at leaders only: 2 M (results of each step, and G places for arrivals). Scratch, if n > 1: (G-1)/G M/n
//   for the sums; staged M more for the published input.
// If groups differ in size, slices are cut so that they differ by little: see slices_of().
// When: large messages; several groups joined by slower links, or by the network, with hosts on the way.
// parts: of each chunk, so that the network starts early (NVG-62).
class NvGroupRing {
 public:
  NvGroupRing(const AlgorithmArguments& arguments, std::vector<std::vector<int>> groups);
  Plan make();

 private:
  struct Group {
    std::vector<int> ranks;
    QueueId cpu;                              // at the leader
    Place results;                            // host: of TO-CPU, by step and part
    Place landing;                            // host: of arrivals, by step modulo G and part
    std::vector<Arrival> arrivals;            // by part
    std::vector<std::vector<SignalId>> done;  // by part: the members' answers to the cpu queue
    int leader() const { return ranks[0]; }
    int size() const { return static_cast<int>(ranks.size()); }
  };
  struct Slice {
    int first = 0;  // within the part of a chunk
    int count = 0;
  };

  int count() const { return static_cast<int>(groups_.size()); }
  // The part of the ring's chunk `chunk`, and a member's slice of it.
  ChunkRange range(int chunk, int part) const { return {(wrap(chunk, count()) * parts_ + part) * slices_, slices_}; }
  Slice slice(const Group& group, int member) const {
    const int first = member * slices_ / group.size();
    return {first, (member + 1) * slices_ / group.size() - first};
  }
  Place result(const Group& group, int step, int part) const {
    return slot_after(group.results, (step * parts_ + part) * slices_);
  }
  Place landing(const Group& group, int step, int part) const {
    return slot_after(group.landing, (step % count() * parts_ + part) * slices_);
  }
  Place sum(const Group& group, int member, int step, int part) const {
    return slot_after(sums_[group.ranks[member]], ((step - 1) * parts_ + part) * slice(group, member).count);
  }

  void publish();
  void barrier_in_groups();
  std::vector<Place> inputs(const Group& group, int member, int chunk) const;
  void to_local(Group& group, int chunk, int step, int part);
  void to_cpu(Group& group, int chunk, int step, int part);
  void group_broadcast(Group& group, Place source, int chunk, int part);
  void tell(const Group& group, int member);
  void await_group(Group& group, int part);
  // Sends what every group has at `sources` to the next group. `step` counts the sends.
  void pass_on(int step, int part, const std::vector<Place>& sources, int chunk_offset);

  const bool peer_;
  const int parts_;
  const int slices_;  // of each part of a chunk: the granularity of the plan
  PlanBuilder builder_;
  Carrier carrier_;
  std::vector<QueueId> queues_;
  std::vector<Group> groups_;
  std::vector<std::optional<Place>> published_;  // staged: of each rank in a group of several; slot = chunk
  std::vector<Place> sums_;                      // of each rank: by step and part
};

// Number of slices of a chunk, such that groups of all sizes can deal them out evenly. If that takes too many, they are
// dealt out nearly evenly: with four slices for each rank of the largest group, no rank has more than a quarter too
// much.
int slices_of(const std::vector<std::vector<int>>& groups) {
  int largest = 1;
  for (const auto& ranks : groups) largest = std::max(largest, static_cast<int>(ranks.size()));
  int slices = 1;
  for (const auto& ranks : groups) {
    slices = std::lcm(slices, static_cast<int>(ranks.size()));
    if (slices > 4 * largest) return 4 * largest;
  }
  return slices;
}

NvGroupRing::NvGroupRing(const AlgorithmArguments& arguments, std::vector<std::vector<int>> groups)
    : peer_(arguments.access == Access::kZeroCopy),
      parts_(arguments.parts),
      slices_(slices_of(groups)),
      builder_(start_plan(nvgroup_ring(), arguments, static_cast<int64_t>(groups.size()) * parts_ * slices_)),
      carrier_(builder_, arguments.node_of),
      queues_(add_queues(builder_, arguments)),
      published_(arguments.ranks),
      sums_(arguments.ranks) {
  const int chunks = builder_.chunk_count();
  const int rounds = static_cast<int>(groups.size());
  // In each round leaders tell each other and hear, and every rank moves its slice.
  builder_.expect((int64_t{4} * rounds + arguments.ranks) * (rounds - 1) * parts_);
  for (auto& ranks : groups) {
    Group& group = groups_.emplace_back();
    group.ranks = std::move(ranks);
    group.cpu = builder_.add_queue(group.leader(), Engine::kCpu);
    group.results = builder_.take_host(group.leader(), chunks);
    group.landing = builder_.take_host(group.leader(), chunks);
    group.arrivals.resize(parts_);
    group.done.resize(parts_);
    for (int member = 0; member < group.size() && group.size() > 1; ++member) {
      const int rank = group.ranks[member];
      if (!peer_) published_[rank] = builder_.take_scratch(rank, chunks);
      sums_[rank] = builder_.take_scratch(rank, (rounds - 1) * parts_ * slice(group, member).count);
    }
  }
}

void NvGroupRing::publish() {
  for (int rank = 0; rank < builder_.rank_count() && !peer_; ++rank) {
    if (published_[rank]) builder_.copy(queues_[rank], *published_[rank], input_of(rank), 0, builder_.chunk_count());
  }
}

// All members of a group come this far before any goes on.
void NvGroupRing::barrier_in_groups() {
  for (const Group& group : groups_) {
    std::vector<QueueId> queues;
    for (const int rank : group.ranks) queues.push_back(queues_[rank]);
    barrier_among(builder_, queues);
  }
}

std::vector<Place> NvGroupRing::inputs(const Group& group, int member, int chunk) const {
  std::vector<Place> places;
  for (const int rank : group.ranks) {
    places.push_back(peer_ || rank == group.ranks[member] ? input_of(rank) : slot_after(*published_[rank], chunk));
  }
  return places;
}

void NvGroupRing::to_local(Group& group, int chunk, int step, int part) {
  for (int member = 0; member < group.size() && group.size() > 1; ++member) {
    const Slice mine = slice(group, member);
    const int first = range(chunk, part).first + mine.first;
    builder_.reduce(queues_[group.ranks[member]], {sum(group, member, step, part)}, inputs(group, member, first), first,
                    mine.count);
  }
}

// Combines what arrived (from step 1 on) with the group's sum, stores it in host memory, and signals the cpu queue.
void NvGroupRing::to_cpu(Group& group, int chunk, int step, int part) {
  for (int member = 0; member < group.size(); ++member) {
    const QueueId queue = queues_[group.ranks[member]];
    const Slice mine = slice(group, member);
    const int first = range(chunk, part).first + mine.first;
    std::vector<Place> sources;
    if (step > 0) {
      tell(group, member);
      sources = {slot_after(landing(group, step - 1, part), mine.first),
                 group.size() > 1 ? sum(group, member, step, part) : input_of(group.leader())};
    } else {
      sources = inputs(group, member, first);
    }
    builder_.reduce(queue, {slot_after(result(group, step, part), mine.first)}, sources, first, mine.count);
    group.done[part].push_back(builder_.signal(queue, group.cpu));
  }
}

// Every member fetches its slice over its own link and stores it to all members. If it cannot store to them, it fetches
// all slices.
void NvGroupRing::group_broadcast(Group& group, Place source, int chunk, int part) {
  for (int member = 0; member < group.size(); ++member) {
    const QueueId queue = queues_[group.ranks[member]];
    const Slice mine = peer_ ? slice(group, member) : Slice{0, slices_};
    std::vector<Place> outputs;
    for (int d = 0; d < (peer_ ? group.size() : 1); ++d) {
      outputs.push_back(output_of(group.ranks[(member + d) % group.size()]));
    }
    tell(group, member);
    builder_.reduce(queue, outputs, {slot_after(source, mine.first)}, range(chunk, part).first + mine.first,
                    mine.count);
  }
}

// A request of the cpu queue, for which the member waits.
void NvGroupRing::tell(const Group& group, int member) {
  builder_.wait(builder_.signal(group.cpu, queues_[group.ranks[member]]));
}

void NvGroupRing::await_group(Group& group, int part) {
  for (const SignalId& signal : group.done[part]) builder_.wait(signal);
  group.done[part].clear();
}

void NvGroupRing::pass_on(int step, int part, const std::vector<Place>& sources, int chunk_offset) {
  for (int g = 0; g < count(); ++g) {
    Group& next = groups_[(g + 1) % count()];
    next.arrivals[part] = carrier_.put(groups_[g].cpu, {sources[g]}, {}, next.cpu, landing(next, step, part),
                                       range(g + chunk_offset, part));
  }
}

Plan NvGroupRing::make() {
  const int last = count() - 1;
  publish();
  barrier_in_groups();
  for (int part = 0; part < parts_; ++part) {
    for (int g = 0; g < count(); ++g) to_cpu(groups_[g], g, 0, part);
  }
  for (int step = 1; step <= last; ++step) {
    for (int part = 0; part < parts_; ++part) {
      for (int g = 0; g < count(); ++g) to_local(groups_[g], g - step, step, part);
    }
  }
  // Reduce-scatter: work on every part begins before the first one is awaited.
  for (int step = 0; step <= last; ++step) {
    for (int part = 0; part < parts_ && step > 0; ++part) {
      for (int g = 0; g < count(); ++g) {
        carrier_.await(groups_[g].arrivals[part]);
        to_cpu(groups_[g], g - step, step, part);
      }
    }
    for (int part = 0; part < parts_; ++part) {
      std::vector<Place> made;
      for (Group& group : groups_) {
        await_group(group, part);
        made.push_back(result(group, step, part));
      }
      if (step < last) pass_on(step, part, made, -step);
    }
  }
  // All-gather.
  for (int step = 0; step <= last; ++step) {
    for (int part = 0; part < parts_; ++part) {
      std::vector<Place> complete;
      for (int g = 0; g < count(); ++g) {
        Group& group = groups_[g];
        if (step > 0) carrier_.await(group.arrivals[part]);
        complete.push_back(step > 0 ? group.arrivals[part].place : result(group, last, part));
        group_broadcast(group, complete[g], g + 1 - step, part);
      }
      if (step < last) pass_on(last + step, part, complete, 1 - step);
    }
  }
  if (peer_) barrier_in_groups();  // no rank returns before its output is complete
  return builder_.finish();
}

// TO-GROUP does everything.
Plan one_group(const AlgorithmArguments& arguments) {
  const bool zero_copy = arguments.access == Access::kZeroCopy;
  if (arguments.parts > 1 && zero_copy) {
    refuse(nvgroup_ring(), "has no parts in a zero-copy plan of one group, and ", arguments.parts, " are asked for");
  }
  PlanBuilder builder = start_plan(nvgroup_ring(), arguments, int64_t{arguments.ranks} * arguments.parts);
  const std::vector<QueueId> queues = add_queues(builder, arguments);
  Stages stages(builder, queues, arguments.engine, false);
  if (zero_copy) {
    zero_copy_all_reduce(builder, queues);
  } else {
    exchange_all_reduce(builder, stages, Direction::kLoad, arguments.parts);
  }
  return builder.finish();
}

Plan make_nvgroup_ring(const AlgorithmArguments& arguments) {
  check_arguments(nvgroup_ring(), arguments);
  std::vector<std::vector<int>> groups = groups_or_nodes(arguments);
  for (const auto& ranks : groups) {
    for (const int rank : ranks) {
      if (node_of(arguments, rank) == node_of(arguments, ranks[0])) continue;
      refuse(nvgroup_ring(), "ranks ", ranks[0], " and ", rank,
             " are in one group but on different nodes; a group has to lie on one node");
    }
  }
  if (groups.size() == 1) return one_group(arguments);
  return NvGroupRing(arguments, std::move(groups)).make();
}

std::vector<AlgorithmArguments> nvgroup_ring_candidates(const AlgorithmArguments& machine) {
  const auto groups = groups_or_nodes(machine);
  if (groups.size() == 1) return {};
  for (const auto& ranks : groups) {
    for (const int rank : ranks) {
      if (node_of(machine, rank) != node_of(machine, ranks[0])) return {};
    }
  }
  return with_parts(machine, {1, 2, 4, 8});
}

}  // namespace

Algorithm nvgroup_ring() {
  return {.name = "nvgroup_ring",
          .summary = "groups cooperate like one device; their leaders form a ring through host memory or the network",
          .source = "NVG-42, NVG-45..48, NVG-54..60, NVG-62",
          .collectives = {Collective::kAllReduce},
          .uses = {.parts = true, .zero_copy = true},
          .make = make_nvgroup_ring,
          .candidates = nvgroup_ring_candidates};
}

}  // namespace plait

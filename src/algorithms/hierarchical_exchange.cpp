// All-to-all by way of relays in each node: few messages, and few operations.
#include <cstdint>
#include <map>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "algorithms/steps/carrier.hpp"
#include "algorithms/steps/signals.hpp"

namespace plait {

Algorithm hierarchical_exchange();

namespace {

// If a node has more ranks than this, they do not all signal each other.
constexpr int kMostInBarrier = 64;

// A rank sends the blocks for another node there in one message, to the rank that has its own position in that node.
// Then every rank fetches its blocks from the ranks of its node, which began with them or received them. Two nodes:
//
//     r0: input --> scratch --- blocks for r2, r3 ---> scratch of r2        r2 <- scratch of r2, r3: their own blocks,
//     r1: input --> scratch --- blocks for r2, r3 ---> scratch of r3              and what came there from r0, r1
//
// Neighbouring ranks of a node have neighbouring blocks, which travel as one range. On one node this is an exchange by
// load.
//
// Steps: 2; 1 on one node, or if each node has one rank. If a node has more than 64 ranks, its barrier takes ceil(log2
//   n) steps, and that is as many more.
// Bytes: with n ranks a node, every rank sends and receives p-n blocks, and reads (n-1)/n of M from others of its node.
// Scratch slots of a block: p for the own input, and p-n for what comes.
// When: several nodes of several ranks, small and medium blocks; many ranks. There are p messages for each node;
//   without relays there would be one for each pair of ranks.
class HierarchicalExchange {
 public:
  explicit HierarchicalExchange(const AlgorithmArguments& arguments)
      : ranks_(arguments.ranks),
        builder_(start_plan(hierarchical_exchange(), arguments, 1)),
        carrier_(builder_, arguments.node_of),
        queues_(add_queues(builder_, arguments)),
        node_of_rank_(ranks_) {
    std::map<int, int> index_of_node;
    for (int rank = 0; rank < ranks_; ++rank) {
      const int next = static_cast<int>(nodes_.size());
      const auto [it, is_new] = index_of_node.emplace(node_of(arguments, rank), next);
      if (is_new) nodes_.emplace_back();
      node_of_rank_[rank] = it->second;
      nodes_[it->second].push_back(rank);
    }
    found_.assign(ranks_, std::vector<Place>(nodes_.size()));
  }

  Plan make() {
    for (int rank = 0; rank < ranks_; ++rank) {
      published_.push_back(builder_.take_scratch(rank, ranks_));
      builder_.copy(queues_[rank], published_[rank], input_of(rank), block(rank, 0), ranks_);
    }
    exchange_messages();
    for (const std::vector<int>& ranks : nodes_) {
      std::vector<QueueId> queues;
      for (const int rank : ranks) queues.push_back(queues_[rank]);
      if (queues.size() <= kMostInBarrier) {
        barrier_among(builder_, queues);
      } else {
        carrier_.disseminate(queues);
      }
    }
    for (int rank = 0; rank < ranks_; ++rank) fetch(rank);
    return builder_.finish();
  }

 private:
  int block(int from, int to) const { return from * ranks_ + to; }

  // Every node sends to every other, beginning with the next one, so that they do not all send to the same node.
  void exchange_messages() {
    const int count = static_cast<int>(nodes_.size());
    if (count == 1) return;
    for (const QueueId& queue : queues_) carrier_.release(queue);
    std::vector<bool> is_relay(ranks_);
    for (int d = 1; d < count; ++d) {
      for (int node = 0; node < count; ++node) {
        const int to = (node + d) % count;
        for (size_t place = 0; place < nodes_[node].size(); ++place) {
          const int relay = nodes_[to][place % nodes_[to].size()];
          send(nodes_[node][place], nodes_[to], relay);
          is_relay[relay] = true;
        }
      }
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      if (is_relay[rank]) builder_.wait(carrier_.announce(queues_[rank]));
    }
  }

  // Sends the blocks of `from` for `ranks`, all of one node, to `relay`, which is one of them.
  void send(int from, const std::vector<int>& ranks, int relay) {
    const Place landing = builder_.take_scratch(relay, static_cast<int>(ranks.size()));
    found_[from][node_of_rank_[relay]] = landing;
    for (size_t i = 0; i < ranks.size();) {
      size_t end = i + 1;
      while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
      const ChunkRange range = {block(from, ranks[i]), static_cast<int>(end - i)};
      carrier_.carry(queues_[from], slot_after(published_[from], ranks[i]), queues_[relay],
                     slot_after(landing, static_cast<int>(i)), range);
      i = end;
    }
  }

  // Fetches the blocks of all ranks for this one, beginning with the next rank's.
  void fetch(int to) {
    const int node = node_of_rank_[to];
    const auto at = std::lower_bound(nodes_[node].begin(), nodes_[node].end(), to) - nodes_[node].begin();
    for (int d = 1; d <= ranks_; ++d) {
      const int from = (to + d) % ranks_;
      const Place source = node_of_rank_[from] == node ? slot_after(published_[from], to)
                                                       : slot_after(found_[from][node], static_cast<int>(at));
      builder_.copy(queues_[to], output_of(to), source, block(from, to));
    }
  }

  const int ranks_;
  PlanBuilder builder_;
  Carrier carrier_;
  std::vector<QueueId> queues_;
  std::vector<int> node_of_rank_;          // index into `nodes_`
  std::vector<std::vector<int>> nodes_;    // the ranks of each node, in order
  std::vector<Place> published_;           // of each rank: the slot is the rank that the block is for
  std::vector<std::vector<Place>> found_;  // [rank][other node]: the rank's blocks for the ranks there, in their order
};

Plan make_hierarchical_exchange(const AlgorithmArguments& arguments) {
  check_arguments(hierarchical_exchange(), arguments);
  return HierarchicalExchange(arguments).make();
}

std::vector<AlgorithmArguments> hierarchical_exchange_candidates(const AlgorithmArguments& machine) {
  if (machine.access == Access::kZeroCopy) return {};
  return with_parts(machine, {1});
}

}  // namespace

Algorithm hierarchical_exchange() {
  return {.name = "hierarchical_exchange",
          .summary = "blocks for a node go to one of its ranks in one message, and its ranks fetch them there",
          .source = "BLK-05, NVG-97",
          .collectives = {Collective::kAllToAll},
          .uses = {},
          .make = make_hierarchical_exchange,
          .candidates = hierarchical_exchange_candidates};
}

}  // namespace plait

// Replaces messages by stores into inboxes.
#include "plan/one_node.hpp"

#include <utility>
#include <vector>

#include "plan/fault.hpp"
#include "plan/form.hpp"

namespace plait {
namespace {

class Rewriter {
 public:
  explicit Rewriter(const Plan& plan) : plan_(plan), pairing_(check_form(plan)), result_(plan) {
    result_.node_of.assign(plan.node_of.size(), 0);
    for (int rank = 0; rank < plan.rank_count(); ++rank) add_inboxes(rank);
  }

  Plan rewrite() {
    for (int rank = 0; rank < plan_.rank_count(); ++rank) {
      const RankPlan& before = plan_.ranks[rank];
      for (size_t queue = 0; queue < before.queues.size(); ++queue) {
        rewrite_queue(rank, before.queues[queue], result_.ranks[rank].queues[queue]);
      }
    }
    return std::move(result_);
  }

 private:
  // Gives each message an inbox and a signal of the receiving rank.
  void add_inboxes(int rank) {
    RankPlan& receiver = result_.ranks[rank];
    std::vector<Place>& inboxes = inboxes_.emplace_back();
    first_signal_.push_back(receiver.signals);
    for (const Pair& message : pairing_.messages[rank]) {
      inboxes.push_back({rank, Buffer::kScratch, receiver.scratch_slots});
      receiver.scratch_slots += operation_at(plan_, message.to).chunks;
    }
    receiver.signals += receiver.messages;
    receiver.messages = 0;
  }

  void rewrite_queue(int rank, const Queue& before, Queue& after) const {
    if (before.engine == Engine::kNet) after.engine = Engine::kCpu;
    after.operations.clear();
    for (const Operation& it : before.operations) {
      if (it.kind == OpKind::kSend) {
        if (it.chunks > 0) after.operations.push_back(copy(it, inboxes_[it.peer_rank][it.number], it.sources[0]));
        after.operations.push_back(tell(OpKind::kSignal, it, it.peer_rank));
      } else if (it.kind == OpKind::kReceive) {
        after.operations.push_back(tell(OpKind::kWait, it, rank));
        if (it.chunks > 0) after.operations.push_back(copy(it, it.destinations[0], inboxes_[rank][it.number]));
      } else {
        after.operations.push_back(it);
      }
    }
  }

  static Operation copy(const Operation& message, Place destination, Place source) {
    Operation copy;
    copy.chunk = message.chunk;
    copy.chunks = message.chunks;
    copy.destinations = {destination};
    copy.sources = {source};
    return copy;
  }

  Operation tell(OpKind kind, const Operation& message, int receiver) const {
    Operation signal;
    signal.kind = kind;
    signal.peer_rank = message.peer_rank;
    signal.peer_queue = message.peer_queue;
    signal.number = first_signal_[receiver] + message.number;
    return signal;
  }

  const Plan& plan_;
  const Pairing pairing_;
  Plan result_;
  std::vector<std::vector<Place>> inboxes_;  // [receiving rank][message]
  std::vector<int> first_signal_;            // for each receiving rank, the first signal of its messages
};

}  // namespace

Plan on_one_node(const Plan& plan) { return Rewriter(plan).rewrite(); }

}  // namespace plait

// Checks what the execution relies on, then executes.
#include "plan/fold_proof.hpp"

#include <map>

#include "plan/conditions.hpp"
#include "plan/execution.hpp"
#include "plan/folded_view.hpp"
#include "plan/memory.hpp"
#include "plan/proof_size.hpp"

namespace plait {
namespace {

class FoldConditions {
 public:
  FoldConditions(const FoldedPlan& folded, const FoldAction& action)
      : folded_(folded), plan_(folded.plan), shifts_(folded.fold.shifts()), action_(action) {}

  void check() const {
    if (!folded_.fold.compared_by(action_)) {
      fail(ErrorCode::kInternal, "fold of ", plan_.algorithm, ": its chunks were not compared");
    }
    check_nodes();
    for (int rank = 0; rank < plan_.rank_count(); ++rank) {
      check_window(rank, input_window(plan_, rank), input_window(plan_, shifts_.representative(rank)));
      check_window(rank, output_window(plan_, rank), output_window(plan_, shifts_.representative(rank)));
      if (folded_.fold.keeps(rank)) check_messages(rank);
    }
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw NotSymmetric(ErrorCode::kInvalidArgument, join(plan_.algorithm, " is not proved by symmetry: ", parts...));
  }

  // Ranks that load and store at each other do so as well once they are shifted.
  void check_nodes() const {
    for (const int generator : shifts_.generators()) {
      std::map<int, int> image_of, origin_of;
      for (int rank = 0; rank < plan_.rank_count(); ++rank) {
        const int node = plan_.node_of[static_cast<size_t>(rank)];
        const int image =
            plan_.node_of[static_cast<size_t>(shifts_.shifted(rank, generator * shifts_.ranks_per_node()))];
        if (image_of.try_emplace(node, image).first->second == image &&
            origin_of.try_emplace(image, node).first->second == node)
          continue;
        refuse("shifts tear node ", node, " apart");
      }
    }
  }

  void check_window(int rank, const ChunkWindow& window, const ChunkWindow& like) const {
    if (shifts_.is_representative(rank)) return;
    const bool is_alike = window.count() == like.count() && window.chunks_per_block == like.chunks_per_block &&
                          (window.count() == 0 ||
                           (window.stride == 1 && like.stride == 1 &&
                            action_.range_before(window.first, window.count(), shifts_.node_of(rank)) == like.first));
    if (!is_alike) refuse("the buffers of rank ", rank, " hold other chunks than those of the rank that stands for it");
  }

  void check_messages(int rank) const {
    for (const Pair& pair : folded_.fold.pairing().messages[static_cast<size_t>(rank)]) {
      const Operation& sent = operation_at(plan_, pair.from);
      const Operation& taken = operation_at(plan_, pair.to);
      if (sent.chunks == taken.chunks &&
          (sent.chunks == 0 ||
           action_.range_before(taken.chunk, taken.chunks, shifts_.node_of(taken.peer_rank)) == sent.chunk)) {
        continue;
      }
      refuse_operation(plan_, false, pair.to, "takes other chunks than ", to_text(pair.from), " sends");
    }
  }

  const FoldedPlan& folded_;
  const Plan& plan_;
  const NodeShifts& shifts_;
  const FoldAction& action_;
};

// Bytes of the memory of an execution but for clocks and values, which count themselves.
double bytes_but_clocks(const FoldedPlan& folded, const FoldAction& action) {
  constexpr double kOperationBytes = 160, kSignalBytes = 192;
  double operations = 0, reads = 0, signals = 0;
  for (const RankPlan& rank : folded.plan.ranks) {
    signals += static_cast<double>(rank.signals) + rank.messages;
    for (const Queue& queue : rank.queues) {
      operations += static_cast<double>(queue.operations.size());
      for (const Operation& it : queue.operations) reads += static_cast<double>(it.sources.size()) * it.chunks;
    }
  }
  const FoldedView view(folded.plan, folded.fold.shifts(), action);
  return kOperationBytes * operations + kSignalBytes * signals +
         Memory<FoldedView>::most_bytes(folded.plan, view, reads);
}

}  // namespace

PlanReport prove(const FoldedPlan& folded, const FoldAction& action) {
  check_folded_form(folded.plan);
  FoldConditions(folded, action).check();
  const double bytes = bytes_but_clocks(folded, action);
  if (bytes > kMaxProofBytes) refuse_proof_bytes(folded.plan, bytes);
  return execute_symbolically(folded, action, static_cast<size_t>(kMaxProofBytes - bytes));
}

}  // namespace plait

// Bounds the memory of Execution (execution.cpp), part by part, and the time that its clocks take.
#include "plan/proof_size.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "plan/clock.hpp"
#include "plan/conditions.hpp"
#include "plan/memory.hpp"
#include "plan/values.hpp"
#include "plan/whole_view.hpp"

namespace plait {
namespace {

// Bytes, with what the allocator adds. In this order: the facts of one operation, one signal or message and its two
// ends, one queue, one pair of endpoints with traffic between them, all that does not grow.
constexpr double kOperationBytes = 96, kSignalBytes = 192, kQueueBytes = 256, kTrafficBytes = 192, kBytes = 8192;

template <class... Parts>
[[noreturn]] void refuse_size(const Plan& plan, const Parts&... parts) {
  throw PlanTooLarge(ErrorCode::kInvalidPlan,
                     join("plan ", plan.algorithm, " (", name(plan.collective), "): ", parts...));
}

// "4.3 GB"
std::string gigabytes(double bytes) { return join(std::floor(bytes / 1e8) / 10, " GB"); }

// "4.3 billion"
std::string billions(double count) { return join(std::floor(count / 1e8) / 10, " billion"); }

bool listens(const Operation& operation) {
  return operation.kind == OpKind::kWait || operation.kind == OpKind::kReceive;
}

// Sums over all queues and operations.
struct Sums {
  double queues = 0, listening_queues = 0, listening = 0, operations = 0, places = 0;
  double reads = 0, writes = 0;  // of one chunk in one place
  double message_chunks = 0;
};

Sums sums_of(const Plan& plan) {
  Sums sums;
  for (const RankPlan& rank : plan.ranks) {
    for (const Queue& queue : rank.queues) {
      const double listened = sums.listening;
      for (const Operation& it : queue.operations) {
        const double sources = static_cast<double>(it.sources.size());
        sums.listening += listens(it);
        sums.places += sources + static_cast<double>(it.destinations.size());
        sums.reads += it.chunks * sources;
        sums.writes += it.chunks * static_cast<double>(it.destinations.size());
        if (it.kind == OpKind::kSend) sums.message_chunks += it.chunks;
      }
      sums.queues += 1;
      sums.listening_queues += sums.listening > listened;
      sums.operations += static_cast<double>(queue.operations.size());
    }
  }
  return sums;
}

// The most pairs of endpoints with traffic between them: memories of one node, and the ends of messages.
double most_pairs(const Plan& plan, const Sums& sums) {
  std::map<int, double> ranks_of_node;
  for (const int node : plan.node_of) ranks_of_node[node] += 1;
  double pairs = 0;
  for (const RankPlan& rank : plan.ranks) pairs += rank.messages;
  for (const auto& [node, ranks] : ranks_of_node) pairs += 2 * ranks * 2 * ranks;
  return std::min(pairs, sums.places);
}

}  // namespace

double most_values(const Plan& plan) {
  double values = 0;
  for (int rank = 0; rank < plan.rank_count(); ++rank) values += input_window(plan, rank).count();
  for (const RankPlan& rank : plan.ranks) {
    for (const Queue& queue : rank.queues) {
      for (const Operation& it : queue.operations) {
        values += it.chunks * std::max(0.0, static_cast<double>(it.sources.size()) - 1);
      }
    }
  }
  return values;
}

ProofSize proof_size(const Plan& plan) {
  const Sums sums = sums_of(plan);
  const double ranks = plan.rank_count();
  double ends = 0;  // signals and messages
  for (const RankPlan& rank : plan.ranks) ends += static_cast<double>(rank.signals) + rank.messages;
  ProofSize size;
  size.bytes = kBytes + kOperationBytes * sums.operations + 4 * sums.places + kQueueBytes * (sums.queues + ranks) +
               kSignalBytes * ends + 16 * sums.message_chunks + kTrafficBytes * most_pairs(plan, sums) +
               Memory<WholeView>::most_bytes(plan, WholeView(plan, 0), sums.reads) +
               ValueTable::most_bytes(plan.rank_count(), most_values(plan));
  // Each queue hears what it waits for, and at the end each rank hears what its queues heard.
  size.merged_bytes = ClockStore::bytes_each(plan.ranks.size(), static_cast<size_t>(sums.queues)) *
                      (sums.listening + sums.listening_queues);
  size.accesses = (plan.in_place ? 2 : 1) * (sums.reads + sums.writes);
  return size;
}

void refuse_proof_bytes(const Plan& plan, double bytes) {
  refuse_size(plan, "its proof would take about ", gigabytes(bytes), " of memory; the limit is ",
              gigabytes(kMaxProofBytes), ". Use fewer ranks, slots, chunks or queues");
}

void check_proof_size(const Plan& plan) {
  const ProofSize size = proof_size(plan);
  if (size.bytes > kMaxProofBytes) refuse_proof_bytes(plan, size.bytes);
  if (size.merged_bytes > kMaxMergedBytes) {
    refuse_size(plan, "its proof would have to follow up to ", gigabytes(size.merged_bytes),
                " of what queues hear of each other; the limit is ", gigabytes(kMaxMergedBytes),
                ". Use fewer ranks, queues, signals or messages");
  }
  if (size.accesses > kMaxAccesses) {
    refuse_size(plan, "its proof would have to follow ", billions(size.accesses), " accesses to chunks; the limit is ",
                billions(kMaxAccesses), ". Use fewer chunks or places");
  }
}

size_t most_clock_bytes(const Plan& plan) {
  return static_cast<size_t>(std::max(0.0, kMaxProofBytes - proof_size(plan).bytes));
}

void refuse_clocks(const Plan& plan) {
  refuse_size(plan, "its proof takes more than ", gigabytes(kMaxProofBytes),
              " of memory, with what queues, signals and ",
              "messages under way have heard of each other. Use fewer ranks or queues, or await signals sooner");
}

}  // namespace plait

// Counting what the verifier reported.
#include "api/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "plan/conditions.hpp"

namespace plait {
namespace {

// Amounts of one plan in words.
class Amounts {
 public:
  Amounts(const Plan& plan, size_t message_bytes) : chunks_(chunks_of_size(plan)), bytes_(message_bytes) {}

  std::string text(int64_t chunks) const {
    const double share = static_cast<double>(chunks) / chunks_;
    const std::string multiple = digits(share, "%.4g") + " S";
    return bytes_ == 0 ? multiple : join(multiple, " (", bytes_text(share * static_cast<double>(bytes_)), ")");
  }

  // "at most 1.5 S", or "1.5 S" where all are alike.
  std::string most(const std::vector<int64_t>& of_ranks) const {
    const auto [least, greatest] = std::minmax_element(of_ranks.begin(), of_ranks.end());
    return (*least == *greatest ? "" : "at most ") + text(*greatest);
  }

 private:
  int chunks_;
  size_t bytes_;
};

// What is sent and received by each rank, and between each two.
struct Exchanged {
  std::vector<int64_t> sent, received;
  std::map<std::pair<int, int>, int64_t> pairs;

  explicit Exchanged(size_t ranks) : sent(ranks), received(ranks) {}
  void add(int from, int to, int64_t chunks) {
    sent[from] += chunks;
    received[to] += chunks;
    pairs[{from, to}] += chunks;
  }
};

// `times`: of how many alike each pair is one.
std::string in_words(const Plan& plan, const PlanReport& report, size_t message_bytes, const Exchanged& exchanged,
                     int times) {
  const Amounts amounts(plan, message_bytes);
  const auto& pairs = exchanged.pairs;
  std::string text =
      join("steps    ", report.steps, report.synchronizes ? ", every rank waits for every other" : "", "\n");
  if (plan.chunk_count() == 0) return text + "memory   no data is moved\n";
  if (chunks_of_size(plan) < plan.chunk_count()) {
    text += join("size     S is what one rank gives: ", chunks_of_size(plan), " of the ",
                 counted(plan.chunk_count(), "chunk"), "\n");
  } else {
    text += join("size     S is the message", plan.blocks > 1 ? ", the blocks of all ranks" : "", "\n");
  }
  text += join("memory   a rank reads ", amounts.most(report.chunks_read), " and writes ",
               amounts.most(report.chunks_written), "\n");
  text += join("between  a rank sends ", amounts.most(exchanged.sent), " and receives ",
               amounts.most(exchanged.received), "\n");
  if (pairs.empty()) return text + "traffic  none between ranks\n";
  const auto busiest =
      std::max_element(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto& [from, to] = busiest->first;
  const size_t count = pairs.size() * static_cast<size_t>(times);
  return text + join("traffic  ", count, count == 1 ? " pair of ranks" : " pairs of ranks", "; the busiest is r", from,
                     " -> r", to, " with ", amounts.text(busiest->second), "\n");
}

}  // namespace

std::string summarize(const VerifiedPlan& verified, size_t message_bytes) {
  Exchanged exchanged(verified.plan().ranks.size());
  for (const Traffic& it : verified.report().traffic) {
    if (it.from.rank != it.to.rank) exchanged.add(it.from.rank, it.to.rank, it.chunks);
  }
  return in_words(verified.plan(), verified.report(), message_bytes, exchanged, 1);
}

// An operation that is there is one of many alike, and so is what it moves: of the pairs of ranks, that counts whose
// sender is there. Amounts of the ranks that are there are those of all.
std::string summarize_alike(const Plan& plan, const PlanReport& report, size_t message_bytes,
                            const NodeShifts& shifts) {
  Exchanged all(plan.ranks.size());
  for (const Traffic& it : report.traffic) {
    if (it.from.rank == it.to.rank) continue;
    all.add(shifts.representative(it.from.rank), shifts.unshifted(it.to.rank, it.from.rank), it.chunks);
  }
  std::vector<int64_t> received(plan.ranks.size());
  for (const auto& [pair, chunks] : all.pairs) received[shifts.representative(pair.second)] += chunks;
  all.received = std::move(received);
  PlanReport there = report;
  const auto keep = [&](std::vector<int64_t>& of_ranks) {
    std::vector<int64_t> kept;
    for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
      if (shifts.is_representative(static_cast<int>(rank))) kept.push_back(of_ranks[rank]);
    }
    of_ranks = std::move(kept);
  };
  for (auto* of_ranks : {&all.sent, &all.received, &there.chunks_read, &there.chunks_written}) keep(*of_ranks);
  return in_words(plan, there, message_bytes, all, shifts.shifts());
}

}  // namespace plait

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

}  // namespace

std::string summarize(const VerifiedPlan& verified, size_t message_bytes) {
  const Plan& plan = verified.plan();
  const PlanReport& report = verified.report();
  const Amounts amounts(plan, message_bytes);
  std::vector<int64_t> sent(plan.ranks.size()), received(plan.ranks.size());
  std::map<std::pair<int, int>, int64_t> pairs;
  for (const Traffic& traffic : report.traffic) {
    if (traffic.from.rank == traffic.to.rank) continue;
    sent[traffic.from.rank] += traffic.chunks;
    received[traffic.to.rank] += traffic.chunks;
    pairs[{traffic.from.rank, traffic.to.rank}] += traffic.chunks;
  }
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
  text += join("between  a rank sends ", amounts.most(sent), " and receives ", amounts.most(received), "\n");
  if (pairs.empty()) return text + "traffic  none between ranks\n";
  const auto busiest =
      std::max_element(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto& [from, to] = busiest->first;
  return text + join("traffic  ", pairs.size(), pairs.size() == 1 ? " pair of ranks" : " pairs of ranks",
                     "; the busiest is r", from, " -> r", to, " with ", amounts.text(busiest->second), "\n");
}

}  // namespace plait

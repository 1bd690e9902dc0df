#include "api/c/batches.hpp"

#include <algorithm>
#include <deque>
#include <map>

namespace plait::c {
namespace {

// The calls on one GPU that are to come.
using Queue = std::deque<size_t>;

// The calls that a rank has still to make.
struct Left {
  int device = 0;
  int calls = 0;
};
using LeftByRank = std::map<int, Left>;

// The calls with which a queue begins: of its first communicator, the next one of each rank. Its ranks on this GPU may
// have been called one after the other, each for several calls.
std::vector<size_t> head_of(const Queue& queue, std::span<const Caller> calls, const LeftByRank& left) {
  const Caller& first = calls[queue.front()];
  const auto ranks =
      std::count_if(left.begin(), left.end(), [&](const auto& rank) { return rank.second.device == first.device; });
  std::vector<size_t> head;
  for (const size_t call : queue) {
    if (calls[call].communicator != first.communicator) break;
    const auto is_of_same_rank = [&](size_t earlier) { return calls[earlier].rank == calls[call].rank; };
    if (std::none_of(head.begin(), head.end(), is_of_same_rank)) head.push_back(call);
    if (std::ssize(head) == ranks) break;
  }
  return head;
}

}  // namespace

std::vector<std::vector<size_t>> turns_of(std::span<const Caller> calls) {
  std::map<int, Queue> queues;  // by GPU
  std::map<SegmentIdentity, LeftByRank> left;
  for (size_t call = 0; call < calls.size(); ++call) {
    const Caller& caller = calls[call];
    queues[caller.device].push_back(call);
    Left& of_rank = left[caller.communicator][caller.rank];
    of_rank.device = caller.device;
    ++of_rank.calls;
  }
  std::vector<std::vector<size_t>> turns;
  for (size_t done = 0; done < calls.size(); done += turns.back().size()) {
    std::map<SegmentIdentity, std::vector<size_t>> heads;
    size_t earliest = calls.size();
    for (const auto& [device, queue] : queues) {
      if (queue.empty()) continue;
      const SegmentIdentity& communicator = calls[queue.front()].communicator;
      const std::vector<size_t> head = head_of(queue, calls, left[communicator]);
      heads[communicator].insert(heads[communicator].end(), head.begin(), head.end());
      earliest = std::min(earliest, queue.front());
    }
    std::vector<size_t>& turn = turns.emplace_back();
    for (const auto& [communicator, head] : heads) {
      if (head.size() == left[communicator].size()) turn.insert(turn.end(), head.begin(), head.end());
    }
    if (turn.empty()) turn = heads[calls[earliest].communicator];
    std::sort(turn.begin(), turn.end());
    for (const size_t call : turn) {
      const Caller& caller = calls[call];
      Queue& queue = queues[caller.device];
      queue.erase(std::find(queue.begin(), queue.end(), call));  // near its beginning
      LeftByRank& ranks = left[caller.communicator];
      if (--ranks[caller.rank].calls == 0) ranks.erase(caller.rank);
    }
  }
  return turns;
}

}  // namespace plait::c

// Copies straight between buffers.
#include "api/launch_copies.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "plan/conditions.hpp"
#include "plan/form.hpp"
#include "plan/traffic.hpp"
#include "tuner/choice.hpp"

namespace plait {
namespace {

using Begin = LaunchSteps::Begin;
using What = LaunchSteps::What;

class LaunchCopyWriter {
 public:
  LaunchCopyWriter(const Plan& plan, double bytes, LaunchSteps& steps)
      : plan_(plan),
        pairing_(check_form(plan)),
        steps_(steps),
        units_of_chunk_(bytes / std::max(1, chunks_of_size(plan)) / LaunchSteps::kUnit) {
    const auto copies = [](const Queue& it) { return it.engine == Engine::kCopy; };
    has_copy_engines_ = std::any_of(plan.ranks[0].queues.begin(), plan.ranks[0].queues.end(), copies);
    find_peers();
  }

  void add_queue(int rank, int queue) {
    steps_.begin_queue(rank, queue);
    for (int call = 0; call < steps_.calls(); ++call) {
      steps_.begin_call(call);
      add_call(rank, queue, static_cast<uint64_t>(call));
      steps_.end_call(call);
    }
    steps_.end_queue();
  }

 private:
  const Queue& queue_of(int rank, int queue) const {
    return plan_.ranks[static_cast<size_t>(rank)].queues[static_cast<size_t>(queue)];
  }

  void add_call(int rank, int queue, uint64_t call) {
    const std::vector<Operation>& operations = queue_of(rank, queue).operations;
    for (size_t i = 0; i < operations.size();) {
      const size_t end = end_of_run(queue_of(rank, queue), i);
      if (operations[i].kind == OpKind::kReduce) {
        add_moves({rank, queue, static_cast<int>(i)}, end - i);
      } else {
        const bool follows = i > 0 && operations[i - 1].kind != OpKind::kReduce;
        add_barrier(rank, {operations.data() + i, end - i}, follows ? Begin::kNothing : Begin::kBarrier, call);
      }
      i = end;
    }
  }

  // Finds the end of what one kernel does at once: all signals of a barrier, all its waits, or copies by SMs.
  static size_t end_of_run(const Queue& queue, size_t first) {
    const Operation& it = queue.operations[first];
    const auto joins = [&](const Operation& next) {
      if (next.kind != it.kind || it.kind != OpKind::kReduce) return next.kind == it.kind;
      return queue.engine != Engine::kCopy && it.sources.size() == 1 && next.sources.size() == 1;
    };
    size_t end = first + 1;
    while (end < queue.operations.size() && joins(queue.operations[end])) ++end;
    return end;
  }

  void add_barrier(int rank, std::span<const Operation> operations, Begin begin, uint64_t call) {
    for (const Operation& it : operations) {
      if (it.kind == OpKind::kSignal) {
        steps_.tell(begin, {What::kBarrier, it.peer_rank, it.number, call});
      } else {
        const bool is_other = it.peer_rank != rank;
        steps_.hear(begin, {What::kBarrier, rank, it.number, call}, is_other,
                    is_other ? SimulatedStep::kBetweenCopies : SimulatedStep::kLocal);
      }
      begin = Begin::kNothing;
    }
  }

  // Whom each rank loads from, and who loads from it.
  void find_peers() {
    for (int rank = 0; rank < plan_.rank_count(); ++rank) {
      const auto& queues = plan_.ranks[static_cast<size_t>(rank)].queues;
      for (int queue = 0; queue < static_cast<int>(std::ssize(queues)); ++queue) {
        const std::vector<Operation>& operations = queues[static_cast<size_t>(queue)].operations;
        for (OperationId id{rank, queue, 0}; id.operation < static_cast<int>(std::ssize(operations)); ++id.operation) {
          if (operations[static_cast<size_t>(id.operation)].kind != OpKind::kReduce) continue;
          find_transfers(plan_, pairing_, id, transfers_);
          for (const Transfer& it : transfers_) {
            owners_[it.to.rank].insert(it.from.rank);
            readers_[it.from.rank].insert(it.to.rank);
          }
        }
      }
    }
  }

  bool is_spread(const Transfer& transfer) const {
    return owners_.at(transfer.to.rank).size() > 1 && readers_.at(transfer.from.rank).size() > 1;
  }

  // SMs also combine what copy engines spread.
  void add_moves(OperationId id, size_t count) {
    const Queue& queue = queue_of(id.rank, id.queue);
    const bool combines = queue.operations[static_cast<size_t>(id.operation)].sources.size() > 1;
    const bool by_engine = queue.engine == Engine::kCopy && !combines;
    const uint32_t ctas = by_engine ? ProgramBuilder::kNoRoute
                                    : sms_of(id.rank, combines            ? kReduceSms
                                                      : has_copy_engines_ ? kOwnCopySms
                                                                          : kPullSms);
    ProgramBuilder& builder = steps_.builder();
    builder.begin_work(combines);
    bool crosses = false;
    for (size_t i = 0; i < count; ++i, ++id.operation) {
      const Operation& it = queue.operations[static_cast<size_t>(id.operation)];
      const auto units = static_cast<int64_t>(units_of_chunk_ * it.chunks + 0.5);
      find_transfers(plan_, pairing_, id, transfers_);
      crosses = crosses || !transfers_.empty();
      for (const Transfer& transfer : transfers_) {
        const int from = steps_.routes().device_of(transfer.from), to = steps_.routes().device_of(transfer.to);
        const Mover loads = is_spread(transfer) ? Mover::kSpreadLoads : Mover::kLoads;
        builder.add_flow(builder.route_between(from, to, by_engine ? Mover::kCopyEngine : loads), units);
      }
      const auto places = static_cast<int64_t>(it.sources.size() + it.destinations.size());
      builder.add_flow(builder.memory_route(id.rank, ctas), (places - std::ssize(transfers_)) * units);
    }
    steps_.work(by_engine && crosses ? Begin::kCopy : Begin::kOperation);
  }

  uint32_t sms_of(int rank, int count) {
    const auto [sms, is_new] = sms_.try_emplace({rank, count}, 0);
    if (is_new) sms->second = steps_.limited(SimulatedResource::Kind::kCtas, count);
    return sms->second;
  }

  const Plan& plan_;
  const Pairing pairing_;
  LaunchSteps& steps_;
  const double units_of_chunk_;
  bool has_copy_engines_ = false;
  std::map<std::pair<int, int>, uint32_t> sms_;  // of ranks, by how many copy
  std::map<int, std::set<int>> owners_, readers_;
  std::vector<Transfer> transfers_;
};

}  // namespace

void add_copies(const Plan& plan, double bytes, LaunchSteps& steps) {
  LaunchCopyWriter writer(plan, bytes, steps);
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    const int queues = static_cast<int>(std::ssize(plan.ranks[static_cast<size_t>(rank)].queues));
    for (int queue = 0; queue < queues; ++queue) writer.add_queue(rank, queue);
  }
}

}  // namespace plait

// Plans become programs.
#include "model/simulator/program.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "model/link_load.hpp"
#include "model/simulator/program_builder.hpp"
#include "plan/conditions.hpp"
#include "plan/shape.hpp"
#include "plan/traffic.hpp"

namespace plait {
namespace {

class Compiler {
 public:
  Compiler(const Plan& plan, const Pairing& pairing, Routes& routes)
      : plan_(plan), pairing_(pairing), routes_(routes), builder_(routes), program_(builder_.program()) {}
  Compiler(const FoldedPlan& folded, const MachineSymmetry& symmetry, Routes& routes)
      : plan_(folded.plan),
        pairing_(folded.fold.pairing()),
        routes_(routes),
        shifts_(&folded.fold.shifts()),
        builder_(routes, *shifts_, symmetry),
        program_(builder_.program()) {}

  SimulatorProgram compile() {
    program_.chunks_of_size = std::max(1, chunks_of_size(plan_));
    number_signals();
    for (int rank = 0; rank < plan_.rank_count(); ++rank) {
      if (representative(rank) != rank) continue;
      const auto& queues = plan_.ranks[static_cast<size_t>(rank)].queues;
      for (int queue = 0; queue < static_cast<int>(queues.size()); ++queue) add_queue({rank, queue, 0});
    }
    return builder_.take();
  }

 private:
  void number_signals() {
    size_t operations = 0;
    for (const RankPlan& rank : plan_.ranks) {
      first_signal_.push_back(program_.signals);
      first_message_.push_back(program_.signals + static_cast<uint32_t>(rank.signals));
      program_.signals += static_cast<uint32_t>(rank.signals) + static_cast<uint32_t>(rank.messages);
      for (const Queue& queue : rank.queues) operations += queue.operations.size();
      operations += static_cast<size_t>(rank.messages);  // which are two steps where they are received
    }
    program_.steps.reserve(operations);
  }

  void add_queue(OperationId id) {
    SimulatedQueue queue{id.rank, id.queue, program_.steps.size(), 0};
    const auto& operations = plan_.ranks[static_cast<size_t>(id.rank)].queues[static_cast<size_t>(id.queue)].operations;
    is_of_core_ = keeps_core_busy(plan_, id.rank, id.queue);
    for (; id.operation < static_cast<int>(operations.size()); ++id.operation) {
      add(id, operations[static_cast<size_t>(id.operation)]);
    }
    queue.end = program_.steps.size();
    program_.queues.push_back(queue);
  }

  void add(const OperationId& id, const Operation& operation) {
    switch (operation.kind) {
      case OpKind::kSignal:
        return tell(first_signal_, operation);
      case OpKind::kSend:
        tell(first_message_, operation);
        return begin_as_message(id, operation);
      case OpKind::kWait:
        return hear(first_signal_, id.rank, operation);
      case OpKind::kReceive:
        hear(first_message_, id.rank, operation);
        begin_as_message(id, operation);
        return work(id, operation, true);
      case OpKind::kReduce:
        return work(id, operation, false);
    }
  }

  void tell(const std::vector<uint32_t>& first, const Operation& operation) {
    SimulatedStep& step = program_.steps.emplace_back();
    step.kind = SimulatedStep::Kind::kTell;
    const int hearer = representative(operation.peer_rank);
    step.index = first[static_cast<size_t>(hearer)] + static_cast<uint32_t>(operation.number);
  }

  void hear(const std::vector<uint32_t>& first, int rank, const Operation& operation) {
    SimulatedStep& step = program_.steps.emplace_back();
    step.kind = SimulatedStep::Kind::kHear;
    step.index = first[static_cast<size_t>(rank)] + static_cast<uint32_t>(operation.number);
    step.between_ranks = operation.peer_rank != rank;
    step.link_kind = builder_.link_kind_between(operation.peer_rank, rank);
  }

  void begin_as_message(const OperationId& id, const Operation& operation) {
    if (crosses_nodes(plan_, id.rank, operation)) program_.steps.back().begin = SimulatedStep::Begin::kMessage;
  }

  void work(const OperationId& id, const Operation& operation, bool continues) {
    SimulatedStep step;
    if (continues) step.begin = SimulatedStep::Begin::kNothing;
    builder_.begin_work(operation.sources.size() > 1);
    if (operation.chunks > 0) {
      find_transfers(plan_, pairing_, id, transfers_);
      for (const Transfer& it : transfers_) {
        check_host_reach(plan_, routes_, it.from, it.to);
        builder_.add_flow(builder_.route_between(routes_.device_of(it.from), routes_.device_of(it.to)),
                          operation.chunks);
      }
      const size_t places = operation.sources.size() + operation.destinations.size();
      builder_.add_flow(is_of_core_ ? builder_.core_route(id.rank) : builder_.memory_route(id.rank),
                        static_cast<int64_t>(places) * operation.chunks);
      // The sender reads it.
      if (continues) builder_.add_flow(builder_.memory_route(operation.peer_rank), operation.chunks);
    }
    step.index = builder_.end_work();
    program_.steps.push_back(step);
  }

  int representative(int rank) const { return shifts_ == nullptr ? rank : shifts_->representative(rank); }

  const Plan& plan_;
  const Pairing& pairing_;
  Routes& routes_;
  const NodeShifts* shifts_ = nullptr;  // null: the plan is whole
  ProgramBuilder builder_;
  SimulatorProgram& program_;
  std::vector<uint32_t> first_signal_, first_message_;  // of each rank
  std::vector<Transfer> transfers_;                     // of the operation at hand
  bool is_of_core_ = false;                             // the queue at hand
};

void check_placed(const Plan& plan, const Routes& routes) {
  const size_t placed = routes.placement().device_of_rank.size();
  if (placed == plan.ranks.size()) return;
  fail(ErrorCode::kInvalidArgument, "simulator: ", placed, " ranks are placed, but plan ", plan.algorithm, " has ",
       plan.ranks.size());
}

}  // namespace

size_t SimulatorProgram::queue_of(size_t step) const {
  const auto after = std::upper_bound(queues.begin(), queues.end(), step,
                                      [](size_t at, const SimulatedQueue& queue) { return at < queue.first; });
  return static_cast<size_t>(after - queues.begin()) - 1;
}

SimulatorProgram compile(const Plan& plan, const Pairing& pairing, Routes& routes) {
  check_placed(plan, routes);
  return Compiler(plan, pairing, routes).compile();
}

SimulatorProgram compile(const FoldedPlan& folded, const MachineSymmetry& symmetry, Routes& routes) {
  check_placed(folded.plan, routes);
  return Compiler(folded, symmetry, routes).compile();
}

}  // namespace plait

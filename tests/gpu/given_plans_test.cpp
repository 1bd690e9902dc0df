// Plans that callers give, on GPUs: those of algorithms in every form that a launch carries, by hand, straight from
// buffer to buffer, and what is refused.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "api/communicator.hpp"
#include "api/given_plan.hpp"
#include "api/plan_limits.hpp"
#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "machine.hpp"
#include "plan/builder.hpp"
#include "plan/json.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "support/algorithm_plans.hpp"
#include "world.hpp"

namespace plait::test {
namespace {

using Given = std::shared_ptr<const VerifiedPlan>;

// One rank's memory and stream.
struct End {
  Communicator& communicator;
  std::byte* input;
  std::byte* output;
  cudaStream_t stream;

  // Wrong elements of the output after the call.
  size_t run(const Given& plan, const Call& call, int variant, bool in_place = false, bool captured = false) const {
    const int rank = communicator.rank(), ranks = communicator.size();
    std::vector<std::byte> given(input_elements(call, ranks, rank) * size_of(call.type));
    std::vector<std::byte> got(output_elements(call, ranks, rank) * size_of(call.type));
    const size_t own_block = static_cast<size_t>(rank) * call.count * size_of(call.type);
    std::byte* const from = !in_place ? input : output + (gathers(call.collective) ? own_block : 0);
    std::byte* const to = output + (in_place && scatters(call.collective) ? own_block : 0);
    fill_input(call, ranks, rank, variant, given.data());
    check_cuda(cudaMemcpyAsync(from, given.data(), given.size(), cudaMemcpyHostToDevice, stream), "upload");
    communicator.give(plan);
    if (captured) {
      Graph graph(stream, [&] { communicator.enqueue(call, from, to, stream); });
      graph.launch();
      check_cuda(cudaStreamSynchronize(stream), "the graph");
    } else {
      communicator.enqueue(call, from, to, stream);
    }
    check_cuda(cudaMemcpyAsync(got.data(), to, got.size(), cudaMemcpyDeviceToHost, stream), "download");
    check_cuda(cudaStreamSynchronize(stream), "the call");
    if (const auto error = communicator.async_error()) throw *error;
    return count_wrong(call, ranks, rank, variant, got.data());
  }
};

void expect_right(const End& end, const Given& plan, DataType type, size_t count) {
  const Call call = call_by(*plan, type, ReduceOp::kSum, count);
  for (const bool in_place : {false, true}) {
    if (in_place && !plan->plan().in_place) continue;
    for (const bool captured : {false, true}) {
      const size_t wrong = end.run(plan, call, static_cast<int>(count % 7) + in_place, in_place, captured);
      if (wrong == 0) continue;
      fail(ErrorCode::kInternal, wrong, " wrong elements: ", plan->plan().algorithm, ", ", to_text(call), ", ",
           end.communicator.launch_for(call), in_place ? ", in place" : "", captured ? ", captured" : "");
    }
  }
}

Given made(const Algorithm& algorithm, const AlgorithmArguments& form) {
  return std::make_shared<const VerifiedPlan>(verify(algorithm.make(form)));
}

bool is_taken_by_gpus(const VerifiedPlan& plan) {
  try {
    check_given(plan, plan.plan().rank_count(), gpu_plan_limits(), true);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Machines on which algorithms write different plans: nothing known, links between all, groups of two, unequal groups.
std::vector<AlgorithmArguments> machines_of(int ranks) {
  AlgorithmArguments machine;
  machine.ranks = ranks;
  machine.engine = Engine::kSm;
  std::vector<AlgorithmArguments> machines(2, machine);
  machines[1].links = links_of_all(ranks);
  if (ranks < 3) return machines;
  for (const int first : {1, 2}) {
    machine.groups.assign(1, {});
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == first || (first == 2 && rank > 0 && rank % 2 == 0)) machine.groups.emplace_back();
      machine.groups.back().push_back(rank);
    }
    if (first == 2 && ranks % 2 != 0) continue;
    machines.push_back(machine);
  }
  return machines;
}

// Each plan once that a launch carries.
std::vector<Given> plans_of_algorithms(int ranks) {
  std::vector<Given> plans;
  std::set<std::string> seen;
  for (AlgorithmArguments machine : machines_of(ranks)) {
    for (const Algorithm& algorithm : algorithms()) {
      for (const Collective collective : algorithm.collectives) {
        machine.collective = collective;
        machine.root = has_root(collective) ? ranks - 1 : 0;
        for (const AlgorithmArguments& form : forms_of(algorithm, machine, {1, 2})) {
          Given plan = made(algorithm, form);
          if (is_taken_by_gpus(*plan) && seen.insert(to_json(plan->plan())).second) plans.push_back(std::move(plan));
        }
      }
    }
  }
  return plans;
}

void run_algorithms(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(kBufferBytes), allocate(kBufferBytes), stream};
  const std::vector<Given> plans = plans_of_algorithms(communicator.size());
  for (const Given& plan : plans) {
    for (const DataType type : {DataType::kInt32, DataType::kBfloat16}) {
      for (const size_t count : {size_t{1}, size_t{1000}, size_t{300'001}}) expect_right(end, plan, type, count);
    }
  }
  if (communicator.rank() == 0) std::printf("%zu plans\n", plans.size());
}

// A broadcast whose root hears of the others without data, so that flags in data do not tell it.
Given broadcast_with_news(int ranks) {
  PlanBuilder builder({"news", Collective::kBroadcast, ranks, 0, 1});
  std::vector<QueueId> queues;
  std::vector<Place> all = {output_of(0)};
  for (int rank = 0; rank < ranks; ++rank) {
    queues.push_back(builder.add_queue(rank, Engine::kSm));
    if (rank > 0) all.push_back(builder.take_scratch(rank));
  }
  builder.reduce(queues[0], all, {input_of(0)}, 0);
  std::vector<SignalId> signals;
  for (const QueueId& from : queues) {
    for (const QueueId& to : queues) {
      if (from.rank != to.rank) signals.push_back(builder.signal(from, to));
    }
  }
  for (const SignalId& signal : signals) builder.wait(signal);
  for (int rank = 1; rank < ranks; ++rank) builder.copy(queues[rank], output_of(rank), all[rank], 0);
  return std::make_shared<const VerifiedPlan>(verify(builder.finish()));
}

// So many reduces in one step that only signals carry them.
Given gather_in_pieces(int ranks, int pieces) {
  PlanBuilder builder({"pieces", Collective::kAllGather, ranks, 0, pieces});
  std::vector<QueueId> queues;
  std::vector<Place> slots;
  for (int rank = 0; rank < ranks; ++rank) {
    queues.push_back(builder.add_queue(rank, Engine::kSm));
    slots.push_back(builder.take_scratch(rank, ranks * pieces));
  }
  for (int from = 0; from < ranks; ++from) {
    for (int piece = from * pieces; piece < (from + 1) * pieces; ++piece) {
      std::vector<Place> all = {output_of(from)};
      for (int to = 0; to < ranks; ++to) {
        if (to != from) all.push_back(slot_after(slots[to], piece));
      }
      builder.reduce(queues[from], all, {input_of(from)}, piece);
    }
  }
  std::vector<SignalId> signals;
  for (const QueueId& from : queues) {
    for (const QueueId& to : queues) {
      if (from.rank != to.rank) signals.push_back(builder.signal(from, to));
    }
  }
  for (const SignalId& signal : signals) builder.wait(signal);
  for (int to = 0; to < ranks; ++to) {
    for (int from = 0; from < ranks; ++from) {
      if (to == from) continue;
      builder.copy(queues[to], output_of(to), slot_after(slots[to], from * pieces), from * pieces, pieces);
    }
  }
  return std::make_shared<const VerifiedPlan>(verify(builder.finish()));
}

void run_by_hand(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(kBufferBytes), allocate(kBufferBytes), stream};
  std::vector<Given> plans = {broadcast_with_news(communicator.size())};
  for (const int pieces : {1, 4, 24}) plans.push_back(gather_in_pieces(communicator.size(), pieces));
  for (const Given& plan : plans) {
    if (!is_taken_by_gpus(*plan)) continue;
    for (const size_t count : {size_t{1}, size_t{64}, size_t{1000}, size_t{100'001}}) {
      expect_right(end, plan, DataType::kInt32, count);
    }
  }
}

// Straight from buffer to buffer, and refused on all ranks where that cannot be.
void run_zero_copy(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(kBufferBytes), allocate(kBufferBytes), stream};
  uint64_t calls = 0;
  for (const Engine engine : {Engine::kSm, Engine::kCopy}) {
    for (const Collective collective : {Collective::kAllGather, Collective::kAllReduce, Collective::kBroadcast}) {
      AlgorithmArguments arguments{.collective = collective, .ranks = communicator.size(), .engine = engine};
      arguments.access = Access::kZeroCopy;
      const Given plan = made(find_algorithm("flat", collective), arguments);
      for (const size_t count : {size_t{1}, size_t{100'001}}) {
        expect_right(end, plan, DataType::kUint32, count);
        calls += plan->plan().in_place ? 4 : 2;
      }
      expect_zero_copy(communicator, calls);
      // Memory of a pool, on one rank: no one else can map it.
      void* pool = nullptr;
      if (communicator.rank() == 1) check_cuda(cudaMallocAsync(&pool, kBufferBytes, stream), "memory of a pool");
      const Call call = call_by(*plan, DataType::kUint32, ReduceOp::kSum, 1000);
      std::byte* const mine = pool != nullptr ? static_cast<std::byte*>(pool) : end.input;
      const bool is_read = collective != Collective::kBroadcast || communicator.size() == 1;
      try {
        communicator.enqueue(call, mine, end.output, stream);
        if (is_read) fail(ErrorCode::kInternal, "nobody can map it: ", to_text(call));
        ++calls;
      } catch (const Error& error) {
        if (!is_read || error.code() != ErrorCode::kInvalidArgument) throw;
      }
      check_cuda(cudaStreamSynchronize(stream), "the call");
      if (pool != nullptr) check_cuda(cudaFreeAsync(pool, stream), "memory of a pool");
      const Given staged = made(find_algorithm("flat", collective),
                                {.collective = collective, .ranks = communicator.size(), .engine = Engine::kSm});
      expect_right(end, staged, DataType::kUint32, 1000);
    }
  }
}

// By name and reason; the communicator goes on.
void refuse(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(kBufferBytes), allocate(kBufferBytes), stream};
  const auto expect = [&](const AlgorithmArguments& arguments, const char* algorithm, const char* words) {
    const Given plan = made(find_algorithm(algorithm, arguments.collective), arguments);
    try {
      communicator.give(plan);
    } catch (const Error& error) {
      const bool says = std::string(error.what()).find(words) != std::string::npos;
      if (says && error.code() == ErrorCode::kInvalidArgument) return;
      throw;
    }
    fail(ErrorCode::kInternal, "taken, although: ", words);
  };
  const int ranks = communicator.size();
  expect({.ranks = ranks, .engine = Engine::kCpu}, "ring",
         "has a queue of engine cpu; on GPUs a rank has 1 to 32 queues");
  expect({.ranks = ranks + 1, .engine = Engine::kSm}, "ring", "and this communicator has");
  expect({.ranks = ranks, .engine = Engine::kSm, .parts = 2000}, "ring", ", more than 1");
  expect_right(end, made(find_algorithm("ring", Collective::kAllReduce), {.ranks = ranks, .engine = Engine::kSm}),
               DataType::kInt32, 1000);
}

// All ranks are told.
void differ(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(kBufferBytes), allocate(kBufferBytes), stream};
  const AlgorithmArguments arguments{.ranks = communicator.size(), .engine = Engine::kSm};
  const Given ring = made(find_algorithm("ring", Collective::kAllReduce), arguments);
  const Given flat = made(find_algorithm("flat", Collective::kAllReduce), arguments);
  const Given& mine = communicator.rank() == 1 ? flat : ring;
  communicator.give(mine);
  const Call call = call_by(*mine, DataType::kInt32, ReduceOp::kSum, 100'000);
  communicator.enqueue(call, end.input, end.output, stream);
  cudaStreamSynchronize(stream);
  expect_error(communicator, ErrorCode::kMismatch, "by plan ");
}

using Work = void (*)(Communicator&, cudaStream_t);

void on_few_ranks(const char* what, Work work) {
  Settings settings;
  settings.timeout_seconds = 20;
  for (const int ranks : {2, 3, 4}) on_processes(what, ranks, settings, work);
}

// Processes that share a GPU take turns of a millisecond, and LL waits for a turn at every step: over 100 s for 3
// ranks.
constexpr int kSecondsOfTurns = 160;

void with_launch(const char* launch, int ranks, Work work) {
  Settings settings;
  settings.timeout_seconds = 20;
  settings.launch = launch;
  on_processes(launch, ranks, settings, work, kSecondsOfTurns);
}

TEST(GivenPlans, OfAlgorithms) { on_few_ranks("plans of algorithms", run_algorithms); }
TEST(GivenPlans, ByHand) { on_few_ranks("plans by hand", run_by_hand); }
TEST(GivenPlans, ZeroCopy) { on_few_ranks("zero-copy plans", run_zero_copy); }
TEST(GivenPlans, AreRefused) { on_few_ranks("plans that are refused", refuse); }
TEST(GivenPlans, Differ) { on_few_ranks("different plans", differ); }
TEST(GivenPlans, WithLl) { with_launch("LL:4x128", 3, run_algorithms); }
TEST(GivenPlans, ZeroCopyBesideTheHostPath) { with_launch("Simple:8x256+2:30%", 2, run_zero_copy); }

}  // namespace
}  // namespace plait::test

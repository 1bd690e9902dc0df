// Checks and views of the arguments that several algorithms share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "plan/builder.hpp"

namespace plait {

// Throws kInvalidArgument that names the algorithm.
template <class... Parts>
[[noreturn]] void refuse(const Algorithm& algorithm, const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, "algorithm ", algorithm.name, ": ", parts...);
}

// Refuses arguments that do not fit `algorithm` as far as all algorithms agree: the collective, ranks, root, engine,
// nodes and groups, and whatever it does not use.
void check_arguments(const Algorithm& algorithm, const AlgorithmArguments& arguments);
// Refuses ranks on several nodes.
void check_one_node(const Algorithm& algorithm, const AlgorithmArguments& arguments);
// Refuses parts where each is a queue that acts after a step, of which there are two at most; by load there is one.
void check_queue_a_step(const Algorithm& algorithm, const AlgorithmArguments& arguments);
bool on_one_node(const AlgorithmArguments& arguments);

// Whether copy engines may perform the plan: a zero-copy plan by load of an algorithm that says so.
bool takes_copy_engines(const Algorithm& algorithm, const AlgorithmArguments& arguments);

// A builder of a plan with checked arguments, which is called what spec_of() says; refuses plans of more chunks than
// anybody can want or prove.
PlanBuilder start_plan(const Algorithm& algorithm, const AlgorithmArguments& arguments, int64_t chunks_per_block);
// One queue a rank, of the engine that the arguments name.
std::vector<QueueId> add_queues(PlanBuilder& builder, const AlgorithmArguments& arguments);

// Candidates: the machine with so many parts each. Its GPUs perform them by SMs.
std::vector<AlgorithmArguments> with_parts(const AlgorithmArguments& machine, const std::vector<int>& parts);
// Whether ranks are on GPUs.
bool on_gpus(const AlgorithmArguments& machine);

// Whether `to` needs something of the input of `from`, which may be itself.
bool gives(const AlgorithmArguments& arguments, int from, int to);

// Node of `rank`.
int node_of(const AlgorithmArguments& arguments, int rank);
// The groups, or one a node where none are given.
std::vector<std::vector<int>> groups_or_nodes(const AlgorithmArguments& arguments);

// The remainder that is never negative.
inline int wrap(int value, int modulus) { return (value % modulus + modulus) % modulus; }

}  // namespace plait

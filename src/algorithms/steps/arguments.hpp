// Checks of the arguments, and functions of them, that several algorithms share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "plan/builder.hpp"

namespace plait {

// Throws kInvalidArgument, naming the algorithm.
template <class... Parts>
[[noreturn]] void refuse(const Algorithm& algorithm, const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, "algorithm ", algorithm.name, ": ", parts...);
}

// Refuses arguments that do not fit `algorithm`, as far as all algorithms agree: the collective, ranks, root, engine,
// nodes and groups, and any argument that it does not use.
void check_arguments(const Algorithm& algorithm, const AlgorithmArguments& arguments);
// Refuses ranks on several nodes.
void check_one_node(const Algorithm& algorithm, const AlgorithmArguments& arguments);
// Refuses parts unless each part is a queue that acts after a step: at most two by store, and one by load.
void check_queue_a_step(const Algorithm& algorithm, const AlgorithmArguments& arguments);
bool on_one_node(const AlgorithmArguments& arguments);

// Whether copy engines may perform the plan: it is a zero-copy plan by load, and the algorithm allows it.
bool takes_copy_engines(const Algorithm& algorithm, const AlgorithmArguments& arguments);

// Starts a plan with checked arguments, under the name that spec_of() gives it. Refuses a plan of more chunks than
// anybody can want or prove.
PlanBuilder start_plan(const Algorithm& algorithm, const AlgorithmArguments& arguments, int64_t chunks_per_block);
// Adds one queue per rank, of the engine that the arguments name.
std::vector<QueueId> add_queues(PlanBuilder& builder, const AlgorithmArguments& arguments);

// Makes candidates: the machine with each of these numbers of parts. Its GPUs perform them by SMs.
std::vector<AlgorithmArguments> with_parts(const AlgorithmArguments& machine, const std::vector<int>& parts);
// Each of these in both directions: GPUs, which wait less for what they store, by store first.
std::vector<AlgorithmArguments> in_both_directions(const std::vector<AlgorithmArguments>& some);
// Whether the ranks are on GPUs.
bool on_gpus(const AlgorithmArguments& machine);

// Whether the links lead from every rank to every other, of so few ranks that a search among them ends soon.
bool links_join_all(const AlgorithmArguments& arguments);
// Refuses ranks of which that is not so.
void check_links_join_all(const Algorithm& algorithm, const AlgorithmArguments& arguments);

// The node of `rank`.
int node_of(const AlgorithmArguments& arguments, int rank);
// The groups, or one group per node if none are given.
std::vector<std::vector<int>> groups_or_nodes(const AlgorithmArguments& arguments);

// The remainder that is never negative.
inline int wrap(int value, int modulus) { return (value % modulus + modulus) % modulus; }

}  // namespace plait

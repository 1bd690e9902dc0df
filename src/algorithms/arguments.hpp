// Checks and views of the arguments that several algorithms share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "plan/builder.hpp"

namespace plait {

// Throws kInvalidArgument unless `arguments` fit `algorithm` as far as all algorithms agree: the collective, ranks,
// root, engine, nodes, groups and pipeline.
void check_arguments(const Algorithm& algorithm, const AlgorithmArguments& arguments);
// Throws kInvalidArgument unless all ranks are on one node.
void check_one_node(const Algorithm& algorithm, const AlgorithmArguments& arguments);

// "name", or "name(parameter)" with the parameters that are not empty, and the pipeline where it is not 1.
std::string label(const Algorithm& algorithm, const std::string& parameters, int pipeline);

// A builder of a plan with checked arguments; refuses plans of more chunks than anybody can want or prove.
PlanBuilder start_plan(const AlgorithmArguments& arguments, std::string label, int64_t chunks_per_block);
// One lane a rank, of the engine that the arguments name.
std::vector<LaneId> add_lanes(PlanBuilder& builder, const AlgorithmArguments& arguments);

// Whether `to` needs something of the input of `from`, which may be itself.
bool gives(const AlgorithmArguments& arguments, int from, int to);

// Node of `rank`.
int node_of(const AlgorithmArguments& arguments, int rank);
// The groups, or one a node where none are given.
std::vector<std::vector<int>> groups_or_nodes(const AlgorithmArguments& arguments);

// The remainder that is never negative.
inline int wrap(int value, int modulus) { return (value % modulus + modulus) % modulus; }

}  // namespace plait

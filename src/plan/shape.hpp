// Facts about the form of a plan that decide how it can be performed.
#pragma once

#include "plan/plan.hpp"

namespace plait {

struct PlanShape {
  int queues = 1;                // the most of any rank
  bool has_one_queue = false;    // every rank has one
  bool can_carry_flags = false;  // LL and LL128 can perform it, for some types: VerifiedPlan::can_carry_flags()
  // No rank has scratch or host slots, and each message is in one block: on one host, scratch can be inboxes for them.
  bool has_messages_alone = false;
  bool spans_nodes = false;  // ranks are on different nodes, or send each other messages
  // Every rank that signals publishes one chunk in its own scratch, once, before it does so, and every rank reads a
  // rank's scratch only after that rank has signalled it. Then the chunk can travel in the cache line of the signal:
  // whoever sees one sees the other.
  bool publishes_once = false;
};

// The plan need not be proved, but its places must be in bounds; verify() puts the shape into the report.
PlanShape shape_of(const Plan& plan);
// See PlanShape.
bool spans_nodes(const Plan& plan);

// Whether an operation of the rank is an end of a message between nodes.
inline bool crosses_nodes(const Plan& plan, int rank, const Operation& operation) {
  const bool is_message = operation.kind == OpKind::kSend || operation.kind == OpKind::kReceive;
  return is_message && plan.node_of[operation.peer_rank] != plan.node_of[rank];
}

}  // namespace plait

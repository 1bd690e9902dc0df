// Asks the tuner for the choice of a call.
#pragma once

#include "runtime/call.hpp"
#include "tuner/tuner.hpp"

namespace plait {

inline Query query_of(const Call& call, int ranks) {
  Query query{call.collective, message_bytes(call, ranks), call.root, call.type, call.plan};
  query.knows_own_blocks_only = call.by_counts && !knows_all_counts(call.collective);
  return query;
}

inline Choice choice_for(Tuner& tuner, const Call& call) {
  return tuner.choose(query_of(call, tuner.machine().ranks()));
}

}  // namespace plait

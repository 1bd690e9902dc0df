// Writes plans as text.
#include "plan/text.hpp"

#include <cstdint>
#include <sstream>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "plan/shorthand.hpp"

namespace plait {
namespace {

void append_places(std::ostream& out, const std::vector<Place>& places, const char* separator) {
  for (size_t i = 0; i < places.size(); ++i) out << (i == 0 ? "" : separator) << to_text(places[i]);
}

void append_chunks(std::ostream& out, const Operation& operation) {
  if (operation.chunks == 0 && operation.sources.empty() && operation.destinations.empty()) {
    out << " : no data";  // a barrier's message
  } else if (operation.chunks == 1) {
    out << " : chunk " << operation.chunk;
  } else {
    out << " : chunks " << operation.chunk << ".." << int64_t{operation.chunk} + operation.chunks - 1;
  }
}

}  // namespace

std::string to_text(const Place& place) {
  const std::string where = join("r", place.rank, ".", name(place.buffer));
  return has_slots(place.buffer) ? join(where, "[", place.slot, "]") : where;
}

std::string to_text(const Operation& operation) {
  std::ostringstream out;
  out << name(operation.kind) << " ";
  switch (operation.kind) {
    case OpKind::kReduce:
      append_places(out, operation.destinations, ", ");
      out << " <- ";
      append_places(out, operation.sources, " + ");
      append_chunks(out, operation);
      break;
    case OpKind::kSend:
      append_places(out, operation.sources, ", ");
      out << (operation.sources.empty() ? "" : " ") << "as message " << operation.number << " to r"
          << operation.peer_rank << " queue " << operation.peer_queue;
      append_chunks(out, operation);
      break;
    case OpKind::kReceive:
      append_places(out, operation.destinations, ", ");
      out << (operation.destinations.empty() ? "" : " ") << "as message " << operation.number << " from r"
          << operation.peer_rank << " queue " << operation.peer_queue;
      append_chunks(out, operation);
      break;
    case OpKind::kSignal:
      out << operation.number << " of r" << operation.peer_rank << " queue " << operation.peer_queue;
      break;
    case OpKind::kWait:
      out << operation.number << " from r" << operation.peer_rank << " queue " << operation.peer_queue;
      break;
  }
  return out.str();
}

std::string to_text(const Plan& plan) {
  std::ostringstream out;
  out << "plan " << plan.algorithm << ": " << name(plan.collective) << " over " << counted(plan.rank_count(), "rank");
  if (has_root(plan.collective)) out << ", root " << plan.root;
  out << ", " << counted(plan.chunk_count(), "chunk") << ", access " << name(plan.access)
      << (plan.in_place ? ", in place or not" : ", never in place") << "\n";
  if (const std::string rule = chunk_rule(plan); !rule.empty()) out << rule << "\n";
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    const RankPlan& rank_plan = plan.ranks[rank];
    out << "rank " << rank << " (node " << plan.node_of.at(rank) << ", "
        << counted(rank_plan.scratch_slots, "scratch slot") << ", " << counted(rank_plan.host_slots, "host slot")
        << ", " << counted(rank_plan.signals, "signal") << ")\n";
    for (size_t queue = 0; queue < rank_plan.queues.size(); ++queue) {
      out << "  queue " << queue << " (" << name(rank_plan.queues[queue].engine) << ")\n";
      const auto& operations = rank_plan.queues[queue].operations;
      for (size_t i = 0; i < operations.size(); ++i) out << "    " << i << ": " << to_text(operations[i]) << "\n";
    }
  }
  return out.str();
}

}  // namespace plait

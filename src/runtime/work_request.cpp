// Tells the actions of work requests.
#include "runtime/work_request.hpp"

namespace plait {

std::string_view name(WorkAction action) {
  switch (action) {
    case WorkAction::kToLocal:
      return "TO-LOCAL";
    case WorkAction::kToCpu:
      return "TO-CPU";
    case WorkAction::kToGroup:
      return "TO-GROUP";
    case WorkAction::kGroupBroadcast:
      return "GROUP-BCAST";
  }
  return "unknown action";
}

WorkAction action_of(const WorkPlaces& places) {
  if (places.host_destinations > 0) return WorkAction::kToCpu;
  if (places.gpu_sources == 0) return WorkAction::kGroupBroadcast;
  return places.gpu_destinations > 1 ? WorkAction::kToGroup : WorkAction::kToLocal;
}

}  // namespace plait

// Dividing a communicator, with a config.
#include "api/split.hpp"

#include "api/c/config.hpp"
#include "api/c/group.hpp"
#include "api/c/handle.hpp"
#include "api/c/result.hpp"

namespace plait::c {
namespace {

void read_arguments(plaitComm_t comm, int color, const plaitComm_t* newcomm, const plaitConfig_t* config,
                    SplitRequest& request) {
  require(newcomm, "newcomm");
  if (color < 0 && color != PLAIT_SPLIT_NOCOLOR) {
    refuse(plaitInvalidArgument, "color is ", color, "; expected 0 or more, or PLAIT_SPLIT_NOCOLOR");
  }
  if (color >= 0) request.color = color;
  const auto parent = member_of(comm);
  if (!parent) return;  // Use says so
  const CommOptions options = options_from(config, {comm->device, parent->communicator.settings()});
  request.settings = options.settings;
  if (options.device != comm->device) {
    refuse(plaitInvalidArgument, "config->device is ", options.device, ", that of comm is ", comm->device,
           "; a divided communicator keeps its device");
  }
}

SplitRequest request_for(plaitComm_t comm, int color, int key, const plaitComm_t* newcomm,
                         const plaitConfig_t* config) {
  SplitRequest request;
  request.key = key;
  try {
    read_arguments(comm, color, newcomm, config, request);
  } catch (...) {
    request.refusal = std::current_exception();
  }
  return request;
}

plaitComm_t split(plaitComm_t comm, const SplitRequest& request) {
  const Use parent(comm);
  try {
    auto part = plait::split(*parent, request);
    return part ? plaitComm::make(std::move(*part)) : nullptr;
  } catch (const SplitRefused& refused) {
    const bool is_usage = refused.code() == ErrorCode::kInvalidArgument;
    throw Refusal(is_usage ? plaitInvalidUsage : plaitRemoteError, refused.what(), true);
  }
}

}  // namespace
}  // namespace plait::c

using namespace plait::c;

extern "C" plaitResult_t plaitCommSplit(plaitComm_t comm, int color, int key, plaitComm_t* newcomm,
                                        const plaitConfig_t* config) {
  return CallGroup::at_edge("plaitCommSplit", [&] {
    check_handle(comm);
    if (newcomm != nullptr) *newcomm = nullptr;
    const auto make = [comm, request = request_for(comm, color, key, newcomm, config)] { return split(comm, request); };
    CallGroup::of_this_thread().make({"plaitCommSplit", make, newcomm, comm});
  });
}

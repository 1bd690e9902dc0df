// Questions about the library and about a communicator, at any time.
#include <algorithm>

#include "api/c/handle.hpp"
#include "api/c/result.hpp"

static_assert(PLAIT_MAJOR == PLAIT_BUILT_MAJOR && PLAIT_MINOR == PLAIT_BUILT_MINOR && PLAIT_PATCH == PLAIT_BUILT_PATCH,
              "include/plait/plait.h has another version than the file VERSION");

using namespace plait::c;

extern "C" plaitResult_t plaitGetVersion(int* version) {
  return at_edge("plaitGetVersion", [&] {
    require(version, "version");
    *version = PLAIT_VERSION_CODE;
  });
}

extern "C" const char* plaitGetLastError(plaitComm_t comm) {
  try {
    if (comm != nullptr && comm->magic.load() == plaitComm::kLive) {
      if (const auto failure = failure_of(comm)) remember(*failure);
    }
  } catch (...) {
    // It ended meanwhile; what this thread knows is what there is.
  }
  return last_error();
}

extern "C" plaitResult_t plaitCommGetAsyncError(plaitComm_t comm, plaitResult_t* async_error) {
  return at_edge("plaitCommGetAsyncError", [&] {
    check_handle(comm);
    require(async_error, "asyncError");
    const auto failure = failure_of(comm);
    *async_error = failure ? remember(*failure) : plaitSuccess;
  });
}

extern "C" plaitResult_t plaitCommCount(plaitComm_t comm, int* count) {
  return at_edge("plaitCommCount", [&] {
    check_handle(comm);
    require(count, "count");
    *count = comm->size;
  });
}

extern "C" plaitResult_t plaitCommCuDevice(plaitComm_t comm, int* device) {
  return at_edge("plaitCommCuDevice", [&] {
    check_handle(comm);
    require(device, "device");
    *device = comm->device;
  });
}

extern "C" plaitResult_t plaitCommUserRank(plaitComm_t comm, int* rank) {
  return at_edge("plaitCommUserRank", [&] {
    check_handle(comm);
    require(rank, "rank");
    *rank = comm->rank;
  });
}

extern "C" plaitResult_t plaitCommTopology(plaitComm_t comm, const char** json) {
  return at_edge("plaitCommTopology", [&] {
    check_handle(comm);
    require(json, "json");
    *json = machine_of(comm).topology.c_str();
  });
}

extern "C" plaitResult_t plaitCommGroups(plaitComm_t comm, int* groups) {
  return at_edge("plaitCommGroups", [&] {
    check_handle(comm);
    require(groups, "groups");
    const std::vector<int>& group = machine_of(comm).group;
    std::copy(group.begin(), group.end(), groups);
  });
}

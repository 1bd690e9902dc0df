// Making and ending communicators.
#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

#include "api/c/config.hpp"
#include "api/c/device.hpp"
#include "api/c/group.hpp"
#include "api/c/handle.hpp"
#include "api/c/result.hpp"
#include "base/log.hpp"
#include "runtime/launch_environment.hpp"

namespace plait::c {
namespace {

static_assert(PLAIT_DEVICE_HOST == kNoDevice);

CommOptions from_environment() {
  CommOptions options;
  options.settings = Settings::from_environment();
  return options;
}

plaitResult_t init_rank(const char* function, plaitComm_t* comm, int ranks, const plaitUniqueId& bytes, int rank,
                        const plaitConfig_t* config) {
  return CallGroup::at_edge(function, [&] {
    require(comm, "comm");
    *comm = nullptr;
    if (ranks < 1) refuse(plaitInvalidArgument, "nranks is ", ranks, "; a communicator has at least one rank");
    if (rank < 0 || rank >= ranks) refuse(plaitInvalidArgument, "rank is ", rank, "; expected 0 to ", ranks - 1);
    const auto id = std::bit_cast<UniqueId>(bytes);
    id.check();
    const CommOptions options = options_from(config, from_environment());
    const auto make = [=] {
      return plaitComm::make(Communicator::create(id, rank, ranks, options.settings, options.device));
    };
    CallGroup::of_this_thread().make({function, make, comm, nullptr});
  });
}

// The device of every rank; none where all are on host memory.
std::vector<int> devices_for(int ranks, const int* list) {
  std::vector<int> devices;
  const bool host_wanted = list != nullptr && std::count(list, list + ranks, PLAIT_DEVICE_HOST) == ranks;
  const int usable = host_wanted ? 0 : device_count();
  if (host_wanted || (list == nullptr && usable == 0)) return devices;
  if (list == nullptr && ranks > usable) {
    refuse(plaitInvalidArgument, "ndev is ", ranks, " and this process can use ", usable,
           " CUDA devices; to have several ranks on one device, name it several times in devlist");
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const int device = list == nullptr ? rank : list[rank];
    if (device < 0 || device >= usable) {
      refuse(plaitInvalidArgument, "devlist[", rank, "] is ", device, "; this process can use ", usable,
             " CUDA devices, numbered from 0, and either all ranks have one or none has");
    }
    devices.push_back(device);
  }
  return devices;
}

// Leaves the communicator. The last calls of this rank may yet fail, or differ from those of other ranks. Returns that
// error and, where it `is_logged`, writes it to stderr, since destructors look at no result.
std::optional<Error> close(plaitComm_t comm, bool is_logged) noexcept {
  try {
    const Use communicator(comm);
    try {
      communicator->close();
    } catch (const plait::Error& error) {
      if (error.code() == ErrorCode::kSystem) {
        remember({plaitUnhandledCudaError, error.what()});
        return std::nullopt;
      }
      if (is_logged) Logger(communicator->settings().log_level, comm->rank).error(error.what());
      return error;
    }
  } catch (...) {
    // It is finalized, or another thread is in a call of it; or take_member() will say what is wrong with the handle.
  }
  return std::nullopt;
}

// After its handle has ended a communicator cannot be asked any more: what it failed of becomes this thread's last
// error.
void remember_failure(plaitComm_t comm) noexcept {
  try {
    if (const auto failure = failure_of(comm)) remember(*failure);
  } catch (...) {
    // take_member says what is wrong with a handle, and nothing else keeps a communicator from being ended.
  }
}

// Ends a communicator, and its handle where `ends_handle` says so. Throws where ranks have made different calls.
void end(plaitComm_t comm, bool ends_handle) {
  const std::optional<Error> difference = close(comm, ends_handle);
  if (!difference) remember_failure(comm);
  take_member(comm, ends_handle);
  if (difference) throw *difference;
}

}  // namespace
}  // namespace plait::c

using namespace plait::c;

extern "C" plaitResult_t plaitGetUniqueId(plaitUniqueId* id) {
  return at_edge("plaitGetUniqueId", [&] {
    require(id, "uniqueId");
    const std::string interfaces = plait::socket_interfaces_in(plait::process_environment());
    *id = std::bit_cast<plaitUniqueId>(plait::RendezvousPoint::create(interfaces).release());
  });
}

extern "C" plaitResult_t plaitCommInitRank(plaitComm_t* comm, int nranks, plaitUniqueId id, int rank) {
  return init_rank("plaitCommInitRank", comm, nranks, id, rank, nullptr);
}

extern "C" plaitResult_t plaitCommInitRankConfig(plaitComm_t* comm, int nranks, plaitUniqueId id, int rank,
                                                 const plaitConfig_t* config) {
  return init_rank("plaitCommInitRankConfig", comm, nranks, id, rank, config);
}

extern "C" plaitResult_t plaitCommInitLauncher(plaitComm_t* comm, int sequence, const plaitConfig_t* config) {
  static constexpr char kFunction[] = "plaitCommInitLauncher";
  return CallGroup::at_edge(kFunction, [&] {
    require(comm, "comm");
    *comm = nullptr;
    if (sequence < 0) refuse(plaitInvalidArgument, "sequence is ", sequence, "; the first communicator has 0");
    const CommOptions options = options_from(config, from_environment());
    const auto make = [=] {
      const auto number = static_cast<uint64_t>(sequence);
      return plaitComm::make(plait::Communicator::from_environment(options.settings, number, options.device));
    };
    CallGroup::of_this_thread().make({kFunction, make, comm, nullptr});
  });
}

extern "C" plaitResult_t plaitGetLocalRank(int* localRank) {
  return at_edge("plaitGetLocalRank", [&] {
    require(localRank, "localRank");
    const auto launched = plait::detect_launch_environment();
    *localRank = launched ? launched->local_rank : 0;
  });
}

extern "C" plaitResult_t plaitCommInitAll(plaitComm_t* comms, int ndev, const int* devlist) {
  return at_edge("plaitCommInitAll", [&] {
    require(comms, "comms");
    if (ndev < 1) refuse(plaitInvalidArgument, "ndev is ", ndev, "; a communicator has at least one rank");
    std::fill_n(comms, ndev, nullptr);
    const std::vector<int> devices = devices_for(ndev, devlist);
    const auto settings = plait::Settings::from_environment();
    auto ranks = devices.empty() ? plait::Communicator::in_process(ndev, settings)
                                 : plait::Communicator::in_process(devices, settings);
    for (int rank = 0; rank < ndev; ++rank) comms[rank] = plaitComm::make(std::move(ranks[rank]));
  });
}

extern "C" plaitResult_t plaitCommFinalize(plaitComm_t comm) {
  return at_edge("plaitCommFinalize", [&] {
    if (comm != nullptr) end(comm, false);
  });
}

extern "C" plaitResult_t plaitCommDestroy(plaitComm_t comm) {
  return at_edge("plaitCommDestroy", [&] {
    if (comm != nullptr) end(comm, true);
  });
}

extern "C" plaitResult_t plaitCommAbort(plaitComm_t comm) {
  return at_edge("plaitCommAbort", [&] {
    if (comm == nullptr) return;
    remember_failure(comm);
    if (const auto member = take_member(comm, true)) member->communicator.abort("plaitCommAbort was called");
  });
}

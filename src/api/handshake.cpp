#include "api/handshake.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "api/cores.hpp"
#include "base/error.hpp"
#include "base/process.hpp"
#include "runtime/host_identity.hpp"
#include "tuner/given_profile.hpp"

namespace plait {
namespace {

template <size_t size>
void copy_text(char (&to)[size], const std::string& text) {
  std::strncpy(to, text.c_str(), size - 1);
}

}  // namespace

Handshake introduce(const Settings& settings, bool has_device) {
  Handshake own;
  const auto check_length = [](const char* variable, const std::string& text, size_t most) {
    if (text.size() <= most) return;
    fail(ErrorCode::kInvalidArgument, variable, " is ", text.size(), " letters long; it may have ", most);
  };
  check_length("PLAIT_ALGORITHM", settings.algorithm, sizeof(own.algorithm) - 1);
  check_length("PLAIT_LAUNCH", settings.launch, sizeof(own.launch) - 1);
  check_length("PLAIT_NETWORK_GBITS", settings.network_gbits, sizeof(own.network_gbits) - 1);
  check_length("PLAIT_TOPOLOGY", settings.topology, sizeof(own.topology) - 1);
  own.has_device = has_device;
  own.scratch_bytes = settings.scratch_bytes;
  own.staging_bytes = settings.staging_bytes;
  own.staging_lanes = settings.staging_lanes;
  own.staged_plans = settings.staged_plans;
  own.adapt = settings.adapt;
  own.max_sms = settings.max_sms;
  own.persistent_ctas = settings.persistent_ctas;
  own.cpu_driven = static_cast<int32_t>(settings.cpu_driven);
  own.gpu_messages = static_cast<int32_t>(settings.gpu_messages);
  own.cpu_reduce_bytes = settings.cpu_reduce_bytes;
  own.cpu_driven_bytes = settings.cpu_driven_bytes;
  own.cores = own_cores();
  own.machine = own_kernel();
  if (!settings.profile.empty()) own.profile = std::hash<std::string>{}(given_profile_text(settings));
  copy_text(own.network_gbits, settings.network_gbits);
  copy_text(own.launch, settings.launch);
  copy_text(own.topology, settings.topology);
  copy_text(own.algorithm, settings.algorithm);
  own.process_namespace = own_process_namespace();
  own.process_id = getpid();
  return own;
}

void check_equal_settings(const std::vector<Handshake>& all) {
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const auto check = [&](const char* variable, const auto& theirs, const auto& ours) {
      if (theirs == ours) return;
      fail(ErrorCode::kMismatch, variable, " differs between ranks: '", ours, "' on rank 0, '", theirs, "' on rank ",
           rank, "; it must be the same on all ranks");
    };
    check("the number of bytes of scratch (PLAIT_SCRATCH_KIB, or of the config)", all[rank].scratch_bytes,
          all[0].scratch_bytes);
    check("the number of bytes of a chunk (PLAIT_STAGING_KIB)", all[rank].staging_bytes, all[0].staging_bytes);
    check("PLAIT_STAGING_LANES", all[rank].staging_lanes, all[0].staging_lanes);
    check("PLAIT_STAGED_PLANS", all[rank].staged_plans, all[0].staged_plans);
    check("PLAIT_ADAPT", all[rank].adapt, all[0].adapt);
    check("PLAIT_NETWORK_GBITS", std::string(all[rank].network_gbits), std::string(all[0].network_gbits));
    check("PLAIT_ALGORITHM", std::string(all[rank].algorithm), std::string(all[0].algorithm));
    check("PLAIT_TOPOLOGY", std::string(all[rank].topology), std::string(all[0].topology));
    check("the text of the profile (PLAIT_PROFILE)", all[rank].profile, all[0].profile);
    check("PLAIT_LAUNCH", std::string(all[rank].launch), std::string(all[0].launch));
    check("PLAIT_MAX_SMS", all[rank].max_sms, all[0].max_sms);
    check("PLAIT_PERSISTENT_CTAS", all[rank].persistent_ctas, all[0].persistent_ctas);
    check("PLAIT_CPU_DRIVEN", name(static_cast<CpuDriven>(all[rank].cpu_driven)),
          name(static_cast<CpuDriven>(all[0].cpu_driven)));
    check("PLAIT_GPU_MESSAGES", name(static_cast<GpuMessages>(all[rank].gpu_messages)),
          name(static_cast<GpuMessages>(all[0].gpu_messages)));
    check("PLAIT_CPU_REDUCE_BYTES", all[rank].cpu_reduce_bytes, all[0].cpu_reduce_bytes);
    check("PLAIT_CPU_DRIVEN_BYTES", all[rank].cpu_driven_bytes, all[0].cpu_driven_bytes);
    if (all[rank].has_device == all[0].has_device) continue;
    fail(ErrorCode::kMismatch, "rank ", all[0].has_device ? 0 : rank, " has a GPU and rank ",
         all[0].has_device ? rank : 0, " has none; either all ranks have one or none has");
  }
}

int staging_lanes_of(const std::vector<Handshake>& all) {
  if (all[0].staging_lanes > 0) return all[0].staging_lanes;
  std::map<uint64_t, std::vector<cpu_set_t>> cores;  // by machine
  for (const Handshake& it : all) cores[it.machine].push_back(it.cores);
  int lanes = kMostLanesByCores;
  for (const auto& [machine, of_ranks] : cores) lanes = std::min(lanes, lanes_for(of_ranks));
  return lanes;
}

bool is_machine_crowded(const Handshake& own, const std::vector<Handshake>& all) {
  std::vector<cpu_set_t> cores;
  for (const Handshake& it : all) {
    if (it.machine == own.machine) cores.push_back(it.cores);
  }
  return is_crowded(cores);
}

std::vector<int> process_ids(const Handshake& own, const std::vector<Handshake>& all,
                             const std::vector<pid_t>& as_rank_zero) {
  std::vector<int> ids;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const bool same = all[rank].process_namespace == own.process_namespace;
    const bool as_zero = all[0].process_namespace == own.process_namespace;
    ids.push_back(same ? all[rank].process_id : as_zero ? as_rank_zero[rank] : 0);
  }
  return ids;
}

}  // namespace plait

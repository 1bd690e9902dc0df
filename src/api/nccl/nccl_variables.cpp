// What NCCL's variables mean for the drop-in, and where NCCL finds them.
#include "api/nccl/nccl_variables.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.hpp"
#include "base/small_file.hpp"

namespace plait::nccl {
namespace {

constexpr std::string_view kNcclPrefix = "NCCL_";
constexpr const char* kEnvironment = "the environment";
constexpr size_t kMostValueBytes = 1023;  // of a line of nccl.conf

// Numbers as NCCL reads them: what is none is 0.
long number_in(const std::string& text) { return std::strtol(text.c_str(), nullptr, 0); }

bool always(const std::string&) { return true; }
bool if_not_zero(const std::string& text) { return number_in(text) != 0; }
bool if_zero(const std::string& text) { return number_in(text) == 0; }
bool unless_none(const std::string& text) { return text != "none"; }
// LOC, which is 0, and others keep GPUs from each other's memory, or some of them; SYS, which is 4 and more, does not.
bool unless_every_pair(const std::string& text) {
  constexpr long kEveryPair = 4;
  const bool is_number = text[0] >= '0' && text[0] <= '9';
  return is_number ? number_in(text) < kEveryPair : text != "SYS";
}

using Counts = bool (*)(const std::string&);

struct VariableRule {
  std::string_view name;  // that ends with '*' stands for all names that begin so
  VariableEffect effect;
  Counts counts;  // else the value changes nothing
  const char* meaning;

  bool is_for_many() const { return name.ends_with('*'); }
  bool fits(std::string_view variable) const {
    return is_for_many() ? variable.starts_with(name.substr(0, name.size() - 1)) : variable == name;
  }
};

using enum VariableEffect;

constexpr const char* kCtas = "Plait does not follow numbers of CTAs";
constexpr const char* kTuned = "NCCL was measured without it";
constexpr const char* kNetworks = "concerns networks between hosts, and Plait takes over communicators of one host";
constexpr const char* kUnseen = "NCCL alone; it does not see the calls that Plait performs";
constexpr const char* kOwnWork = "NCCL's own work alone";

// The first one that fits counts.
constexpr VariableRule kRules[] = {
    {"NCCL_DEBUG", kFollowed, always, "INFO and TRACE: the drop-in says which libraries there are and what it takes"},
    {"NCCL_DEBUG_SUBSYS", kFollowed, always,
     "what is taken is of INIT, variables are of ENV, and calls of COLL, as NCCL's own lines are"},
    {"NCCL_DEBUG_FILE", kFollowed, always, "the drop-in writes beside it, with .plait behind its name"},
    {"NCCL_CONF_FILE", kFollowed, always, "the drop-in reads it, too"},
    {"NCCL_HOSTID", kFollowed, always, "ranks with different ones are of different hosts for Plait, too"},
    {"NCCL_NVLS_ENABLE", kFollowed, if_zero, "without NVLS tables of wins hold also where GPUs have multicast"},
    {"NCCL_NVLS_ENABLE", kFollowed, always, "where GPUs have multicast, calls that NVLS may perform are NCCL's"},
    {"NCCL_ALGO", kLeavesAll, always, "Plait does not follow NCCL's algorithms"},
    {"NCCL_PROTO", kLeavesAll, always, "Plait does not follow NCCL's protocols"},
    {"NCCL_P2P_DISABLE", kLeavesAll, if_not_zero, "GPUs shall not reach each other's memory, as Plait's do"},
    {"NCCL_P2P_LEVEL", kLeavesAll, unless_every_pair, "some GPUs shall not reach each other's memory, as Plait's do"},
    {"NCCL_SHM_DISABLE", kLeavesAll, if_not_zero, "ranks shall not share memory, as Plait's do"},
    {"NCCL_MIN_CTAS", kLeavesAll, if_not_zero, kCtas},
    {"NCCL_MAX_CTAS", kLeavesAll, if_not_zero, kCtas},
    {"NCCL_MIN_NCHANNELS", kLeavesAll, if_not_zero, kCtas},
    {"NCCL_MAX_NCHANNELS", kLeavesAll, if_not_zero, kCtas},
    {"NCCL_MIN_NRINGS", kLeavesAll, if_not_zero, kCtas},
    {"NCCL_MAX_NRINGS", kLeavesAll, if_not_zero, kCtas},
    {"NCCL_CGA_CLUSTER_SIZE", kLeavesAll, always, "Plait does not follow sizes of clusters"},
    {"NCCL_COMM_BLOCKING", kLeavesAll, if_zero, "Plait does not take over communicators that are not blocking"},
    {"NCCL_COMM_ID", kLeavesAll, always, "ids of communicators are then no secret by which ranks could meet"},
    {"NCCL_LAUNCH_ORDER_IMPLICIT", kLeavesAll, if_not_zero, "Plait does not order calls of several communicators"},
    {"NCCL_ENV_PLUGIN", kLeavesAll, unless_none, "a plug-in gives NCCL variables that Plait does not see"},
    // Of networks, before others that begin alike.
    {"NCCL_P2P_NET_CHUNKSIZE", kNone, always, kNetworks},
    {"NCCL_P2P_PXN_LEVEL", kNone, always, kNetworks},
    {"NCCL_P2P_PER_CHANNEL_NET_BW", kNone, always, kNetworks},
    // How NCCL performs its calls.
    {"NCCL_ALLGATHERV_ENABLE", kLeavesWins, always, kTuned},
    {"NCCL_BUFFSIZE", kLeavesWins, always, kTuned},
    {"NCCL_CHUNK_SIZE", kLeavesWins, always, kTuned},
    {"NCCL_COLLNET_ENABLE", kLeavesWins, if_not_zero, kTuned},
    {"NCCL_CTA_POLICY", kLeavesWins, always, kTuned},
    {"NCCL_GRAPH_FILE", kLeavesWins, always, kTuned},
    {"NCCL_LL_*", kLeavesWins, always, kTuned},
    {"NCCL_LL128_*", kLeavesWins, always, kTuned},
    {"NCCL_MIN_P2P_NCHANNELS", kLeavesWins, always, kTuned},
    {"NCCL_MAX_P2P_NCHANNELS", kLeavesWins, always, kTuned},
    {"NCCL_NTHREADS", kLeavesWins, always, kTuned},
    {"NCCL_NVB_*", kLeavesWins, always, kTuned},
    {"NCCL_NVLS_*", kLeavesWins, always, kTuned},
    {"NCCL_NVLSTREE_*", kLeavesWins, always, kTuned},
    {"NCCL_P2P_*", kLeavesWins, always, kTuned},
    {"NCCL_PAT_ENABLE", kLeavesWins, always, kTuned},
    {"NCCL_SHM_*", kLeavesWins, always, kTuned},
    {"NCCL_SYM_*", kLeavesWins, always, kTuned},
    {"NCCL_THREAD_THRESHOLDS", kLeavesWins, always, kTuned},
    {"NCCL_TUNER_*", kLeavesWins, unless_none, kTuned},
    // What changes nothing for Plait.
    {"NCCL_SOCKET_IFNAME", kNone, always, "NCCL's sockets; PLAIT_SOCKET_IFNAME says it for Plait"},
    {"NCCL_CUMEM_*", kNone, always, "NCCL's own memory; PLAIT_PEER_MEMORY says for Plait how GPUs reach each other's"},
    {"NCCL_TOPO_FILE", kNone, always, "the machine as NCCL sees it; PLAIT_TOPOLOGY says it for Plait"},
    {"NCCL_TOPO_DUMP_*", kNone, always, "NCCL writes what it sees of the machine"},
    {"NCCL_GRAPH_DUMP_*", kNone, always, "NCCL writes its rings and trees"},
    {"NCCL_IGNORE_CPU_AFFINITY", kNone, always, "NCCL's own threads alone"},
    {"NCCL_LAUNCH_MODE", kNone, always, kOwnWork},
    {"NCCL_LAUNCH_RACE_FATAL", kNone, always, kUnseen},
    {"NCCL_GRAPH_MIXING_SUPPORT", kNone, always,
     "NCCL's own calls alone; Plait orders captured calls by streams and graphs"},
    {"NCCL_GRAPH_*", kNone, always, kOwnWork},
    {"NCCL_CHECK_*", kNone, always, kUnseen},
    {"NCCL_PROFILER_*", kNone, always, kUnseen},
    {"NCCL_NVTX_DISABLE", kNone, always, kUnseen},
    {"NCCL_DEBUG_TIMESTAMP_*", kNone, always, "NCCL's own lines alone; those of Plait have no time"},
    {"NCCL_WARN_ENABLE_DEBUG_INFO", kNone, always, "NCCL's own lines alone"},
    {"NCCL_NET*", kNone, always, kNetworks},
    {"NCCL_IB*", kNone, always, kNetworks},
    {"NCCL_SOCKET_*", kNone, always, kNetworks},
    {"NCCL_NSOCKS_*", kNone, always, kNetworks},
    {"NCCL_OOB_*", kNone, always, kNetworks},
    {"NCCL_GDR*", kNone, always, kNetworks},
    {"NCCL_GIN_*", kNone, always, kNetworks},
    {"NCCL_RMA_*", kNone, always, kNetworks},
    {"NCCL_PXN_*", kNone, always, kNetworks},
    {"NCCL_CROSS_NIC", kNone, always, kNetworks},
    {"NCCL_COLLNET_*", kNone, always, kNetworks},
    {"NCCL_MNNVL_*", kNone, always, kNetworks},
    {"NCCL_DMABUF_ENABLE", kNone, always, kNetworks},
    {"NCCL_PROXY_*", kNone, always, kNetworks},
    {"NCCL_NCHANNELS_PER_NET_PEER", kNone, always, kNetworks},
    {"NCCL_UID_STAGGER_*", kNone, always, kOwnWork},
    {"NCCL_RAS_*", kNone, always, kUnseen},
};

SetVariable about(const std::string& name, const std::string& value, const std::string& source) {
  SetVariable variable{name, value, source, false, kNone, ""};
  for (const VariableRule& rule : kRules) {
    // A row for many names says nothing about one that has a row of its own.
    const bool is_told = rule.fits(name) && !(variable.is_known && rule.is_for_many());
    if (!is_told) continue;
    variable.is_known = true;
    variable.meaning = "with this value as without it";
    if (!rule.counts(value)) continue;  // the next row may have this value
    variable.effect = rule.effect;
    variable.meaning = rule.meaning;
    break;
  }
  return variable;
}

// As NCCL has it: until 2.29 the folder that the system knows, then HOME.
std::string home_of_user(const Environment& environment, int nccl_version) {
  constexpr int kReadsHome = 23000;
  if (nccl_version >= kReadsHome) return value_in(environment, "HOME");
  const passwd* user = ::getpwuid(::getuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "";
}

}  // namespace

const char* name(VariableEffect effect) {
  switch (effect) {
    case kFollowed:
      return "followed";
    case kLeavesAll:
      return "leaves all";
    case kLeavesWins:
      return "leaves wins";
    case kNone:
      return "none";
  }
  return "none";
}

std::vector<std::string> conf_files(const Environment& environment, int nccl_version) {
  std::vector<std::string> files;
  const std::string named = value_in(environment, "NCCL_CONF_FILE");
  const std::string home = named.empty() ? home_of_user(environment, nccl_version) : "";
  if (!named.empty()) files.push_back(named);
  if (!home.empty()) files.push_back(join(home, "/.nccl.conf"));
  files.emplace_back("/etc/nccl.conf");
  return files;
}

NcclVariables::NcclVariables(const Environment& environment, const std::vector<std::string>& files) : files_(files) {
  for (auto at = environment.lower_bound(kNcclPrefix); at != environment.end() && at->first.starts_with(kNcclPrefix);
       ++at) {
    values_.emplace(at->first, Value{at->second, kEnvironment});
  }
  for (const std::string& file : files) read_file(file);
}

// NCCL puts every line into the environment, whatever it is about. What is not NCCL's is of no interest here.
void NcclVariables::read_file(const std::string& path) {
  std::istringstream lines(read_small_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    const size_t equals = line.find('=');
    if (equals == line.npos || !line.starts_with(kNcclPrefix)) continue;
    values_.emplace(line.substr(0, equals), Value{line.substr(equals + 1, kMostValueBytes), path});
  }
}

std::string NcclVariables::value(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? "" : found->second.text;
}

bool NcclVariables::is_zero(std::string_view name) const {
  const std::string text = value(name);
  return !text.empty() && if_zero(text);
}

std::vector<SetVariable> NcclVariables::set() const {
  std::vector<SetVariable> all;
  for (const auto& [name, value] : values_) {
    if (!value.text.empty()) all.push_back(about(name, value.text, value.source));
  }
  return all;
}

std::string NcclVariables::first_that(VariableEffect effect) const {
  const std::vector<SetVariable> all = set();
  const auto found = std::ranges::find(all, effect, &SetVariable::effect);
  if (found == all.end()) return "";
  const std::string where = found->source == kEnvironment ? "" : join(" (in ", found->source, ')');
  return join(found->name, " is set", where, ": ", found->meaning);
}

}  // namespace plait::nccl

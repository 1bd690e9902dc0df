// The one table of PLAIT_* environment variables. A setting that is not in it does not exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "base/wait_limits.hpp"

namespace plait {

// A copy of environment variables, so that what reads them can be tested, and reads one moment.
using Environment = std::map<std::string, std::string, std::less<>>;

// The variables of this process.
Environment process_environment();
// The value of a variable; empty where it is not set.
std::string value_in(const Environment& environment, std::string_view name);

// How a host rank waits for a peer.
enum class WaitPolicy {
  kAuto,   // spin where every rank has a core of its own, else yield
  kSpin,   // never leave the core: least latency
  kYield,  // offer the core to others between looks
  kSleep,  // sleep in the kernel: least processor time
};

const char* name(WaitPolicy policy);  // "auto", "spin", "yield", "sleep"

// How GPUs reach each other's memory.
enum class PeerMemoryKind {
  kAuto,  // the first of these that works for all ranks
  kVmm,   // the driver's handles, passed as file descriptors
  kIpc,   // CUDA's older handles, passed as bytes
  kHost,  // pinned host memory, for GPUs that cannot reach each other
};

// Who takes work requests where the CPU drives the GPUs of several hosts (NVG-38).
enum class CpuDriven {
  kOff,          // such calls are staged in host memory
  kOneQueue,     // one CTA polls, and hands requests on to the others
  kQueuePerCta,  // every CTA polls a queue of its own
};

const char* name(CpuDriven queues);  // "off", "one_queue", "queue_per_cta"

const char* name(PeerMemoryKind kind);  // "auto", "vmm", "ipc", "host"

// Whether Settings::max_sms may be that: fewer would not do even for what a rank copies to itself.
constexpr bool is_max_sms(int64_t sms) { return sms == 0 || (sms >= 8 && sms <= 1024); }

// What a host's network carries each way, as Settings::network_gbits says: "auto" has ranks measure it where nothing
// tells, "off" leaves it at what is assumed, and a number is 10^9 bits a second.
struct NetworkSetting {
  bool measures = false;
  double gbits = 0;  // 0: none is given
};
// No value where the text is none of these.
std::optional<NetworkSetting> parse_network(std::string_view text);

// The settings of one communicator. A plain value: whoever makes a communicator may change any field.
struct Settings {
  double timeout_seconds = kDefaultTimeoutSeconds;  // how long a collective waits for a peer before it fails
  double bootstrap_timeout_seconds =
      kDefaultTimeoutSeconds;          // how long ranks wait for each other when a communicator is made
  size_t scratch_bytes = 2048 * 1024;  // staging memory of one rank
  size_t staging_bytes = 4096 * 1024;  // of a message's chunk in host memory, for calls that CPUs perform for GPUs
  int staging_lanes = 0;               // threads of a rank that perform such chunks; 0: by the cores
  bool staged_plans = false;           // whether GPUs of one host perform given plans so that kernels cannot
  bool adapt = false;                  // whether calls on host memory try other plans while a program runs
  std::string network_gbits = "auto";  // what a host's network carries: see NetworkSetting
  std::string host_id;                 // ranks of one machine with different ones are taken to be on different hosts
  std::string ucx_library;             // libucp.so.0 by name or path; empty: the one that there is
  bool guard_ports = true;             // whether UCX's ports are for hosts of the ranks alone
  std::string socket_interfaces;       // "eth", "=eth0,eth1", "^docker": ranks of other hosts come by them; empty: none
  std::string shared_memory_directory;  // where shared memory is a file; empty: an anonymous memory file
  WaitPolicy wait_policy = WaitPolicy::kAuto;
  std::string algorithm;  // "all_reduce:ring,…" pins algorithms; empty: the tuner chooses
  std::string topology;   // "summit", "machine.json" or "kesch:nodes=2" stands in for the machine; empty: what there is
  std::string profile;    // a file of costs and rules in place of the profile that fits the machine; empty: that one
  std::string launch;     // "LL:32x512" pins how GPUs are used; empty: the tuner chooses
  int max_sms = 0;        // SMs of a GPU that a call may keep busy; 0: as many as make it fast
  PeerMemoryKind peer_memory = PeerMemoryKind::kAuto;
  bool pdl = true;                         // whether kernels may be put on a GPU while those before them end
  int persistent_ctas = 16;                // of the kernel that serves blocking calls; 0: these are launched
  int persistent_idle_us = 200;            // microseconds without a call after which it leaves the GPU
  CpuDriven cpu_driven = CpuDriven::kOff;  // who takes work requests of blocking calls over several hosts
  int cpu_reduce_bytes = 16 * 1024;        // chunks of at most so many bytes are reduced by the CPU even so
  int cpu_driven_bytes = 4096 * 1024;      // the longest message that the CPU drives if it may choose the algorithm
  LogLevel log_level = LogLevel::kWarn;

  // Reads the variables of the table; one that is unset or empty leaves the default. A value that cannot be read is an
  // Error (kInvalidInput) that names the variable, the value and what was expected. A PLAIT_* variable that the table
  // does not have is most often a spelling error: it is warned about, once for this call.
  static Settings from_environment(const Environment& environment);
  static Settings from_environment() { return from_environment(process_environment()); }

  // Throws kInvalidArgument where a field, however it was set, cannot be used.
  void check() const;
};

// PLAIT_SOCKET_IFNAME alone, for who makes an id before there are settings: it needs no other, and finds no fault
// there.
std::string socket_interfaces_in(const Environment& environment);

// One row of the table, for printing.
struct SettingRow {
  std::string name;           // PLAIT_TIMEOUT_SEC
  std::string expected;       // what a value looks like: "seconds, more than 0"
  std::string default_value;  // as one would write it; empty where there is none
  std::string value;          // the one in the settings at hand; empty for the launcher's variables
  std::string meaning;        // one line
};

// All variables in the order of the documentation. `settings` fills the column `value`.
std::vector<SettingRow> settings_table(const Settings& settings = {});

// One line for every PLAIT_* variable of `environment` that the table does not have, with the nearest name that it has.
std::vector<std::string> unknown_settings(const Environment& environment);

}  // namespace plait

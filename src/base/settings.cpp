#include "base/settings.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "base/names.hpp"

namespace plait {
namespace {

constexpr std::string_view kPrefix = "PLAIT_";
constexpr double kMostSeconds = 7 * 24 * 3600;
constexpr size_t kMostHostIdLetters = 64;
constexpr size_t kLeastScratchKib = 64;
constexpr size_t kLeastStagingKib = 64;
constexpr size_t kMostStagingKib = 1024 * 1024;
constexpr int kMostStagingLanes = 8;
// The range of a whole number, and how messages call it.
struct WholeRange {
  int least, most;
  const char* text;

  constexpr bool has(int number) const { return number >= least && number <= most; }
};
constexpr WholeRange kPersistentCtas{0, 64, "a whole number from 1 to 64, or 0 for no such kernel"};
constexpr WholeRange kPersistentIdle{1, 1'000'000, "a whole number of microseconds from 1 to 1000000"};
constexpr WholeRange kCpuBytes{0, 1 << 30, "a whole number of bytes from 0 to 1073741824"};
constexpr size_t kMostScratchKib = size_t{64} * 1024 * 1024;

// One variable: `read` stores a value and says whether it was good; `show` writes one as `read` would take it.
// The launcher's variables have neither: they describe one rank and are read where ranks find each other.
struct Setting {
  const char* name;
  const char* expected;
  bool (*read)(std::string_view text, Settings& settings);
  std::string (*show)(const Settings& settings);
  const char* meaning;
};

// The whole text must be one number; no sign other than '-', no blanks, no "1e".
template <class Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_seconds(std::string_view text, double& seconds) {
  double number = 0;
  // Waits are bounded: neither "inf" nor "nan" passes.
  if (!read_number(text, number) || !(number > 0 && number <= kMostSeconds)) return false;
  seconds = number;
  return true;
}

bool read_wait_policy(std::string_view text, WaitPolicy& policy) {
  for (const auto candidate : {WaitPolicy::kAuto, WaitPolicy::kSpin, WaitPolicy::kYield, WaitPolicy::kSleep}) {
    if (text != name(candidate)) continue;
    policy = candidate;
    return true;
  }
  return false;
}

bool read_peer_memory(std::string_view text, Settings& settings) {
  for (const auto candidate :
       {PeerMemoryKind::kAuto, PeerMemoryKind::kVmm, PeerMemoryKind::kIpc, PeerMemoryKind::kHost}) {
    if (text != name(candidate)) continue;
    settings.peer_memory = candidate;
    return true;
  }
  return false;
}

bool read_cpu_driven(std::string_view text, Settings& settings) {
  for (const auto candidate : {CpuDriven::kOff, CpuDriven::kOneQueue, CpuDriven::kQueuePerCta}) {
    if (text != name(candidate)) continue;
    settings.cpu_driven = candidate;
    return true;
  }
  return false;
}

bool read_scratch(std::string_view text, Settings& settings) {
  size_t kib = 0;
  if (!read_number(text, kib) || kib < kLeastScratchKib || kib > kMostScratchKib) return false;
  settings.scratch_bytes = kib * 1024;
  return true;
}

bool read_staging(std::string_view text, Settings& settings) {
  size_t kib = 0;
  if (!read_number(text, kib) || kib < kLeastStagingKib || kib > kMostStagingKib) return false;
  settings.staging_bytes = kib * 1024;
  return true;
}

bool read_lanes(std::string_view text, Settings& settings) {
  int lanes = 0;
  if (!read_number(text, lanes) || lanes < 0 || lanes > kMostStagingLanes) return false;
  settings.staging_lanes = lanes;
  return true;
}

bool read_max_sms(std::string_view text, Settings& settings) {
  int sms = 0;
  if (!read_number(text, sms) || !is_max_sms(sms)) return false;
  settings.max_sms = sms;
  return true;
}

template <bool Settings::* field>
bool read_flag(std::string_view text, Settings& settings) {
  if (text != "0" && text != "1") return false;
  settings.*field = text == "1";
  return true;
}

template <int Settings::* field>
bool read_number_of(const WholeRange& range, std::string_view text, Settings& settings) {
  int number = 0;
  if (!read_number(text, number) || !range.has(number)) return false;
  settings.*field = number;
  return true;
}

bool read_log_level(std::string_view text, Settings& settings) {
  const auto level = parse_log_level(text);
  if (level) settings.log_level = *level;
  return level.has_value();
}

constexpr const char* kMaxSms = "a whole number from 8 to 1024, or 0 for no limit";
constexpr const char* kNetwork = "auto, off, or 10^9 bits a second from 0.001 to 100000";
constexpr const char* kSeconds = "seconds, more than 0 and at most 604800";

constexpr Setting kSettings[] = {
    {"PLAIT_TIMEOUT_SEC", kSeconds,
     [](std::string_view text, Settings& settings) { return read_seconds(text, settings.timeout_seconds); },
     [](const Settings& settings) { return join(settings.timeout_seconds); },
     "how long a collective waits for a peer before it fails"},
    {"PLAIT_BOOTSTRAP_TIMEOUT_SEC", kSeconds,
     [](std::string_view text, Settings& settings) { return read_seconds(text, settings.bootstrap_timeout_seconds); },
     [](const Settings& settings) { return join(settings.bootstrap_timeout_seconds); },
     "how long ranks wait for each other when a communicator is made"},
    {"PLAIT_SCRATCH_KIB", "a whole number of KiB from 64 to 67108864", read_scratch,
     [](const Settings& settings) { return join(settings.scratch_bytes / 1024); },
     "staging memory of one rank, in KiB; the same on all ranks"},
    {"PLAIT_STAGING_KIB", "a whole number of KiB from 64 to 1048576", read_staging,
     [](const Settings& settings) { return join(settings.staging_bytes / 1024); },
     "the longest chunk that calls on GPUs stage in host memory where CPUs perform them, in KiB; the same on all "
     "ranks"},
    {"PLAIT_STAGING_LANES", "a whole number from 1 to 8, or 0: by the cores", read_lanes,
     [](const Settings& settings) { return join(settings.staging_lanes); },
     "threads of a rank that perform such chunks, each with connections of its own; the same on all ranks"},
    {"PLAIT_STAGED_PLANS", "0 or 1", read_flag<&Settings::staged_plans>,
     [](const Settings& settings) { return std::string(settings.staged_plans ? "1" : "0"); },
     "whether GPUs of one host perform given plans that kernels cannot, staged in host memory; the same on all ranks"},
    {"PLAIT_ADAPT", "0 or 1", read_flag<&Settings::adapt>,
     [](const Settings& settings) { return std::string(settings.adapt ? "1" : "0"); },
     "whether calls that are made again and again on host memory try other plans, and keep the fastest; the same on "
     "all "
     "ranks"},
    {"PLAIT_NETWORK_GBITS", kNetwork,
     [](std::string_view text, Settings& settings) {
       settings.network_gbits = text;
       return parse_network(text).has_value();
     },
     [](const Settings& settings) { return settings.network_gbits; },
     "what the network of a host carries each way, 10^9 bits a second; auto: measured before the first long call where "
     "no RDMA device tells; off: not measured; the same on all ranks"},
    {"PLAIT_HOST_ID", "a text of at most 64 letters",
     [](std::string_view text, Settings& settings) {
       settings.host_id = text;
       return text.size() <= kMostHostIdLetters;
     },
     [](const Settings& settings) { return settings.host_id; },
     "takes ranks of one machine with different texts to be on different hosts, so that it can stand in for several"},
    {"PLAIT_SOCKET_IFNAME", "names of interfaces, as in NCCL_SOCKET_IFNAME",
     [](std::string_view text, Settings& settings) {
       settings.socket_interfaces = text;
       return true;
     },
     [](const Settings& settings) { return settings.socket_interfaces; },
     "where an id is made: the network interfaces at which ranks of other hosts reach it, such as eth, =eth0 or "
     "^docker; "
     "unset: ranks of this host only"},
    {"PLAIT_UCX_LIBRARY", "the name or path of UCX's libucp.so.0",
     [](std::string_view text, Settings& settings) {
       settings.ucx_library = text;
       return true;
     },
     [](const Settings& settings) { return settings.ucx_library; },
     "the UCX that moves data between hosts; unset: one in the process, the system's, or the wheel's"},
    {"PLAIT_GUARD_PORTS", "0 or 1", read_flag<&Settings::guard_ports>,
     [](const Settings& settings) { return std::string(settings.guard_ports ? "1" : "0"); },
     "whether only addresses of the ranks' hosts may connect to the ports at which UCX listens"},
    {"PLAIT_SHM_DIR", "an absolute path",
     [](std::string_view text, Settings& settings) {
       settings.shared_memory_directory = text;
       return text.front() == '/';
     },
     [](const Settings& settings) { return settings.shared_memory_directory; },
     "directory for shared memory; unset: memory that no file system shows"},
    {"PLAIT_WAIT", "auto, spin, yield or sleep",
     [](std::string_view text, Settings& settings) { return read_wait_policy(text, settings.wait_policy); },
     [](const Settings& settings) { return std::string(name(settings.wait_policy)); },
     "how a host rank waits for a peer"},
    {"PLAIT_ALGORITHM", "<collective>:<algorithm>, separated by commas",
     [](std::string_view text, Settings& settings) {
       settings.algorithm = text;
       return true;
     },
     [](const Settings& settings) { return settings.algorithm; },
     "pins algorithms, such as all_reduce:ring, and how messages go between GPUs (send_receive:push or :pull); unset: "
     "the tuner chooses"},
    {"PLAIT_TOPOLOGY", "a described machine or a file, perhaps with :nodes=N",
     [](std::string_view text, Settings& settings) {
       settings.topology = text;
       return true;
     },
     [](const Settings& settings) { return settings.topology; },
     "a machine that stands in for this one when plans are chosen, such as summit, machine.json or kesch:nodes=2"},
    {"PLAIT_PROFILE", "the path of a profile",
     [](std::string_view text, Settings& settings) {
       settings.profile = text;
       return true;
     },
     [](const Settings& settings) { return settings.profile; },
     "costs and rules, as plait calibrate writes them, in place of those of the profile that fits the machine; the "
     "same "
     "on all ranks"},
    {"PLAIT_LAUNCH", "<Simple|LL|LL128>:<channels>x<threads>[+<channels>:<share>%]",
     [](std::string_view text, Settings& settings) {
       settings.launch = text;
       return true;
     },
     [](const Settings& settings) { return settings.launch; },
     "pins how collectives are launched on GPUs, such as LL:32x512 or, with 8% through host memory, "
     "Simple:62x512+4:8%; unset: the tuner chooses"},
    {"PLAIT_MAX_SMS", kMaxSms, read_max_sms, [](const Settings& settings) { return join(settings.max_sms); },
     "SMs of a GPU that a call may keep busy; 0: as many as make it fast; the same on all ranks"},
    {"PLAIT_PEER_MEMORY", "auto, vmm, ipc or host", read_peer_memory,
     [](const Settings& settings) { return std::string(name(settings.peer_memory)); },
     "how GPUs reach each other's memory"},
    {"PLAIT_PDL", "0 or 1", read_flag<&Settings::pdl>,
     [](const Settings& settings) { return std::string(settings.pdl ? "1" : "0"); },
     "whether kernels may be put on a GPU while those before them on their stream end (programmatic dependent launch)"},
    {"PLAIT_PERSISTENT_CTAS", kPersistentCtas.text,
     [](std::string_view text, Settings& settings) {
       return read_number_of<&Settings::persistent_ctas>(kPersistentCtas, text, settings);
     },
     [](const Settings& settings) { return join(settings.persistent_ctas); },
     "CTAs of the kernel that stays on a GPU to serve blocking calls; 0: such calls are launched; the same on all "
     "ranks"},
    {"PLAIT_PERSISTENT_IDLE_US", kPersistentIdle.text,
     [](std::string_view text, Settings& settings) {
       return read_number_of<&Settings::persistent_idle_us>(kPersistentIdle, text, settings);
     },
     [](const Settings& settings) { return join(settings.persistent_idle_us); },
     "microseconds without a call after which that kernel leaves the GPU to others"},
    {"PLAIT_CPU_DRIVEN", "off, one_queue or queue_per_cta", read_cpu_driven,
     [](const Settings& settings) { return std::string(name(settings.cpu_driven)); },
     "whether the CPU drives the GPUs of several hosts in blocking calls, through one work queue or one for each CTA; "
     "the same on all ranks"},
    {"PLAIT_CPU_REDUCE_BYTES", kCpuBytes.text,
     [](std::string_view text, Settings& settings) {
       return read_number_of<&Settings::cpu_reduce_bytes>(kCpuBytes, text, settings);
     },
     [](const Settings& settings) { return join(settings.cpu_reduce_bytes); },
     "the longest chunk, a group's part of a message, that the CPU reduces itself then; the same on all ranks"},
    {"PLAIT_CPU_DRIVEN_BYTES", kCpuBytes.text,
     [](std::string_view text, Settings& settings) {
       return read_number_of<&Settings::cpu_driven_bytes>(kCpuBytes, text, settings);
     },
     [](const Settings& settings) { return join(settings.cpu_driven_bytes); },
     "the longest message that it drives without a pinned algorithm, longer ones are staged; the same on all ranks"},
    {"PLAIT_LOG", "error, warn, info or debug", read_log_level,
     [](const Settings& settings) { return std::string(name(settings.log_level)); },
     "what is written to stderr: with info also the machine that a communicator found, with debug every call and what "
     "runs it"},
    {"PLAIT_RANK", "a whole number from 0", nullptr, nullptr, "set by the launcher: rank of this process"},
    {"PLAIT_WORLD_SIZE", "a whole number from 1", nullptr, nullptr, "set by the launcher: number of ranks"},
    {"PLAIT_LOCAL_RANK", "a whole number from 0", nullptr, nullptr, "set by the launcher: rank within this host"},
    {"PLAIT_JOB", "any text that no other job has", nullptr, nullptr,
     "set by the launcher: how ranks of one job recognise each other"},
    {"PLAIT_MASTER_ADDR", "a name or an address", nullptr, nullptr,
     "for ranks on several hosts that a launcher starts: the host of rank 0; unset: MASTER_ADDR"},
    {"PLAIT_MASTER_PORT", "a whole number from 1 to 65535", nullptr, nullptr,
     "a port of that host that is free; unset: one that follows from PLAIT_JOB"},
    {"PLAIT_CUDA", "auto, wheel, system or off", nullptr, nullptr,
     "read when Plait is built: where its CUDA compiler comes from"},
    {"PLAIT_NCCL_LIBRARY", "a path or a name for dlopen", nullptr, nullptr,
     "which libnccl.so.2 plait bench --vs nccl measures against, and libplait_nccl.so passes calls on to"},
    {"PLAIT_NCCL_TAKE", "none, wins or all, perhaps with ,graphs", nullptr, nullptr,
     "which calls libplait_nccl.so takes over from NCCL: none, those at which Plait was measured to be faster (wins, "
     "which holds where it is unset), or all; with ,graphs also those that CUDA graphs capture"},
    {"PLAIT_NCCL_WINS", "the path of a table", nullptr, nullptr,
     "the calls at which Plait is faster on this machine, in place of the tables that libplait_nccl.so brings"},
    {"PLAIT_LIBRARY", "a path or a name for dlopen", nullptr, nullptr,
     "the libplait.so that libplait_nccl.so opens; unset: the one in its own folder"},
    {"PLAIT_TEST_SEED", "a whole number", nullptr, nullptr, "read by Plait's own tests: repeats a random run"},
};

// Former names, which are accepted for one release with a warning.
struct Renamed {
  std::string_view old_name;
  std::string_view name;
};
constexpr Renamed kRenamed[] = {{"PLAIT_REACH", "PLAIT_PEER_MEMORY"}, {"PLAIT_EARLY_LAUNCH", "PLAIT_PDL"}};

// The variable of this environment that sets `name`: its own, or else its old one.
Environment::const_iterator find_setting(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  if (found != environment.end()) return found;
  const auto renamed = std::ranges::find(kRenamed, name, &Renamed::name);
  return renamed == std::end(kRenamed) ? environment.end() : environment.find(renamed->old_name);
}

// "; did you mean PLAIT_LOG?", or nothing.
std::string guess(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Setting& setting : kSettings) known.push_back(std::string_view(setting.name).substr(kPrefix.size()));
  const std::string_view nearest = nearest_name(name.substr(kPrefix.size()), known);
  return nearest.empty() ? "" : join("; did you mean ", kPrefix, nearest, '?');
}

void read_setting(const Setting& setting, const Environment& environment, Settings& settings) {
  const auto found = find_setting(environment, setting.name);
  // An empty value is how a shell line unsets a variable for one command.
  if (setting.read == nullptr || found == environment.end() || found->second.empty()) return;
  if (!setting.read(found->second, settings)) {
    fail(ErrorCode::kInvalidInput, "environment variable ", found->first, " is \"", found->second, "\"; expected ",
         setting.expected);
  }
}

}  // namespace

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != text.npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

const char* name(WaitPolicy policy) {
  constexpr const char* kNames[] = {"auto", "spin", "yield", "sleep"};
  return kNames[static_cast<size_t>(policy)];
}

const char* name(PeerMemoryKind kind) {
  constexpr const char* kNames[] = {"auto", "vmm", "ipc", "host"};
  return kNames[static_cast<size_t>(kind)];
}

const char* name(CpuDriven queues) {
  constexpr const char* kNames[] = {"off", "one_queue", "queue_per_cta"};
  return kNames[static_cast<size_t>(queues)];
}

std::optional<NetworkSetting> parse_network(std::string_view text) {
  constexpr double kLeast = 0.001, kMost = 100'000;
  if (text == "auto") return NetworkSetting{.measures = true};
  if (text == "off") return NetworkSetting{};
  NetworkSetting given;
  if (!read_number(text, given.gbits) || !(given.gbits >= kLeast && given.gbits <= kMost)) return std::nullopt;
  return given;
}

Settings Settings::from_environment(const Environment& environment) {
  Settings settings;
  for (const Setting& setting : kSettings) read_setting(setting, environment, settings);
  const Logger log(settings.log_level);
  for (const std::string& warning : unknown_settings(environment)) log.warn(warning);
  return settings;
}

std::string value_in(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string socket_interfaces_in(const Environment& environment) {
  return value_in(environment, "PLAIT_SOCKET_IFNAME");
}

void Settings::check() const {
  const auto check_seconds = [](const char* what, double seconds) {
    if (seconds > 0 && seconds <= kMostSeconds) return;  // neither "inf" nor "nan" passes
    fail(ErrorCode::kInvalidArgument, what, " is ", seconds, "; expected ", kSeconds);
  };
  check_seconds("timeout_seconds", timeout_seconds);
  check_seconds("bootstrap_timeout_seconds", bootstrap_timeout_seconds);
  // The range is wider than the variable's, since tests want little scratch. So many bytes for every rank still fit
  // into a number.
  constexpr size_t kLeast = 1024, kMost = size_t{1} << 48;
  if (scratch_bytes < kLeast || scratch_bytes > kMost) {
    fail(ErrorCode::kInvalidArgument, "scratch_bytes is ", scratch_bytes, "; expected ", kLeast, " to ", kMost);
  }
  constexpr size_t kMostStaging = kMostStagingKib * 1024;
  if (staging_bytes < kLeast || staging_bytes > kMostStaging) {
    fail(ErrorCode::kInvalidArgument, "staging_bytes is ", staging_bytes, "; expected ", kLeast, " to ", kMostStaging);
  }
  if (staging_lanes < 0 || staging_lanes > kMostStagingLanes) {
    fail(ErrorCode::kInvalidArgument, "staging_lanes is ", staging_lanes, "; expected 0 to ", kMostStagingLanes);
  }
  const auto check_range = [](const char* what, int number, const WholeRange& range) {
    if (!range.has(number)) fail(ErrorCode::kInvalidArgument, what, " is ", number, "; expected ", range.text);
  };
  check_range("persistent_ctas", persistent_ctas, kPersistentCtas);
  check_range("persistent_idle_us", persistent_idle_us, kPersistentIdle);
  check_range("cpu_reduce_bytes", cpu_reduce_bytes, kCpuBytes);
  check_range("cpu_driven_bytes", cpu_driven_bytes, kCpuBytes);
  if (!parse_network(network_gbits)) {
    fail(ErrorCode::kInvalidArgument, "network_gbits is '", network_gbits, "'; expected ", kNetwork);
  }
  if (!is_max_sms(max_sms)) fail(ErrorCode::kInvalidArgument, "max_sms is ", max_sms, "; expected ", kMaxSms);
}

std::vector<SettingRow> settings_table(const Settings& settings) {
  std::vector<SettingRow> rows;
  for (const Setting& setting : kSettings) {
    const auto show = [&](const Settings& from) { return setting.show ? setting.show(from) : std::string(); };
    rows.push_back({setting.name, setting.expected, show(Settings{}), show(settings), setting.meaning});
  }
  return rows;
}

std::vector<std::string> unknown_settings(const Environment& environment) {
  std::vector<std::string> warnings;
  for (auto at = environment.lower_bound(kPrefix); at != environment.end() && at->first.starts_with(kPrefix); ++at) {
    const std::string& name = at->first;
    if (std::ranges::any_of(kSettings, [&](const Setting& setting) { return name == setting.name; })) continue;
    const auto renamed = std::ranges::find(kRenamed, name, &Renamed::old_name);
    if (renamed != std::end(kRenamed)) {
      warnings.push_back(join("environment variable ", name, " is called ", renamed->name, " now"));
      continue;
    }
    warnings.push_back(join("environment variable ", name, " is unknown and has no effect", guess(name)));
  }
  return warnings;
}

}  // namespace plait

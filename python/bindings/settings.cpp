// Settings, and what the launcher says.
#include "base/settings.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "bindings/bindings.hpp"
#include "bindings/python_text.hpp"
#include "runtime/launch_environment.hpp"
#include "runtime/launchers.hpp"
#include "tuner/given_profile.hpp"
#include "tuner/launch_shape.hpp"
#include "tuner/machine.hpp"
#include "tuner/overrides.hpp"

namespace plait::python {
namespace {

// A field as Python sets and reads it.
struct Field {
  const char* name;
  const char* expected;
  bool (*set)(Settings& settings, nb::handle value);  // false: it can be no such value
  nb::object (*get)(const Settings& settings);
  const char* meaning;
};

template <auto kMember>
bool set(Settings& settings, nb::handle value) {
  return nb::try_cast(value, settings.*kMember);
}

template <auto kMember>
nb::object get(const Settings& settings) {
  return nb::cast(settings.*kMember);
}

// Reads and shows an enumeration by its names.
template <auto kMember, auto... kValues>
bool set_name(Settings& settings, nb::handle value) {
  std::string text;
  if (!nb::try_cast(value, text)) return false;
  return ((text == name(kValues) && (settings.*kMember = kValues, true)) || ...);
}

template <auto kMember>
nb::object get_name(const Settings& settings) {
  return nb::cast(name(settings.*kMember));
}

constexpr const char* kSeconds = "seconds, more than 0 and at most 604800";

constexpr Field kFields[] = {
    {"timeout_seconds", kSeconds, set<&Settings::timeout_seconds>, get<&Settings::timeout_seconds>,
     "how long a collective waits for a peer before it fails"},
    {"bootstrap_timeout_seconds", kSeconds, set<&Settings::bootstrap_timeout_seconds>,
     get<&Settings::bootstrap_timeout_seconds>, "how long ranks wait for each other when a communicator is made"},
    {"scratch_bytes", "a whole number of bytes, at least 1024", set<&Settings::scratch_bytes>,
     get<&Settings::scratch_bytes>, "staging memory of one rank; the same on all ranks"},
    {"staging_bytes", "a whole number of bytes, 1024 to 1073741824", set<&Settings::staging_bytes>,
     get<&Settings::staging_bytes>,
     "the longest chunk that calls on GPUs stage in host memory where CPUs perform them; the same on all ranks"},
    {"staging_lanes", "a whole number from 1 to 8, or 0: by the cores", set<&Settings::staging_lanes>,
     get<&Settings::staging_lanes>, "threads of a rank that perform such chunks; the same on all ranks"},
    {"staged_plans", "True or False", set<&Settings::staged_plans>, get<&Settings::staged_plans>,
     "whether GPUs of one host perform given plans that kernels cannot, staged; the same on all ranks"},
    {"adapt", "True or False", set<&Settings::adapt>, get<&Settings::adapt>,
     "whether calls on host memory try other plans while a program runs; the same on all ranks"},
    {"network_gbits", "\"auto\", \"off\", or 10^9 bits a second as a text", set<&Settings::network_gbits>,
     get<&Settings::network_gbits>,
     "what the network of a host carries each way; auto: measured where nothing tells; the same on all ranks"},
    {"host_id", "a text of at most 64 letters", set<&Settings::host_id>, get<&Settings::host_id>,
     "ranks of one machine with different ones are taken to be on different hosts"},
    {"ucx_library", "the name or path of libucp.so.0, or an empty text", set<&Settings::ucx_library>,
     get<&Settings::ucx_library>, "the UCX that moves data between hosts; empty: the one that there is"},
    {"guard_ports", "True or False", set<&Settings::guard_ports>, get<&Settings::guard_ports>,
     "whether only addresses of the ranks' hosts may connect to the ports at which UCX listens"},
    {"socket_interfaces", "a list such as \"eth\", \"=eth0,eth1\" or \"^docker\", or an empty text",
     set<&Settings::socket_interfaces>, get<&Settings::socket_interfaces>,
     "the network interfaces at which ranks of other hosts reach this one; empty: they do not"},
    {"shared_memory_directory", "an absolute path, or an empty text", set<&Settings::shared_memory_directory>,
     get<&Settings::shared_memory_directory>, "where shared memory is a file; empty: memory that no file system shows"},
    {"wait_policy", "one of: auto, spin, yield, sleep",
     set_name<&Settings::wait_policy, WaitPolicy::kAuto, WaitPolicy::kSpin, WaitPolicy::kYield, WaitPolicy::kSleep>,
     get_name<&Settings::wait_policy>, "how a host rank waits for a peer"},
    {"algorithm", "a text such as \"all_reduce:ring\", or an empty one", set<&Settings::algorithm>,
     get<&Settings::algorithm>, "pins algorithms; empty: the tuner chooses; the same on all ranks"},
    {"launch", "a text such as \"LL:32x512\", or an empty one", set<&Settings::launch>, get<&Settings::launch>,
     "pins how collectives are launched on GPUs; empty: the tuner chooses; the same on all ranks"},
    {"topology", "a text such as \"summit\" or \"kesch:nodes=2\", or an empty one", set<&Settings::topology>,
     get<&Settings::topology>, "a machine that stands in for this one when plans are chosen; the same on all ranks"},
    {"profile", "the path of a profile, or an empty text", set<&Settings::profile>, get<&Settings::profile>,
     "costs and rules in place of those of the profile that fits the machine; the same on all ranks"},
    {"max_sms", "a whole number from 8 to 1024, or 0 for no limit", set<&Settings::max_sms>, get<&Settings::max_sms>,
     "SMs of a GPU that a call may keep busy; the same on all ranks"},
    {"peer_memory", "one of: auto, vmm, ipc, host",
     set_name<&Settings::peer_memory, PeerMemoryKind::kAuto, PeerMemoryKind::kVmm, PeerMemoryKind::kIpc,
              PeerMemoryKind::kHost>,
     get_name<&Settings::peer_memory>, "how GPUs reach each other's memory"},
    {"pdl", "True or False", set<&Settings::pdl>, get<&Settings::pdl>,
     "whether kernels may be put on a GPU while those before them on their stream end"},
    {"persistent_ctas", "a whole number from 1 to 64, or 0 for no such kernel", set<&Settings::persistent_ctas>,
     get<&Settings::persistent_ctas>,
     "CTAs of the kernel that stays on a GPU to serve blocking calls; the same on all ranks"},
    {"persistent_idle_us", "a whole number of microseconds from 1 to 1000000", set<&Settings::persistent_idle_us>,
     get<&Settings::persistent_idle_us>,
     "microseconds without a call after which that kernel leaves the GPU to others"},
    {"cpu_driven", "one of: off, one_queue, queue_per_cta",
     set_name<&Settings::cpu_driven, CpuDriven::kOff, CpuDriven::kOneQueue, CpuDriven::kQueuePerCta>,
     get_name<&Settings::cpu_driven>,
     "whether the CPU drives the GPUs of several hosts in blocking calls; the same on all ranks"},
    {"cpu_reduce_bytes", "a whole number of bytes from 0 to 1073741824", set<&Settings::cpu_reduce_bytes>,
     get<&Settings::cpu_reduce_bytes>,
     "the longest chunk, a group's part of a message, that the CPU reduces itself then; the same on all ranks"},
    {"cpu_driven_bytes", "a whole number of bytes from 0 to 1073741824", set<&Settings::cpu_driven_bytes>,
     get<&Settings::cpu_driven_bytes>,
     "the longest message that it drives without a pinned algorithm; the same on all ranks"},
    {"log_level", "one of: error, warn, info, debug",
     set_name<&Settings::log_level, LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug>,
     get_name<&Settings::log_level>, "what is written to stderr"},
};

void set_field(const Field& field, Settings& settings, nb::handle value) {
  if (field.set(settings, value)) return;
  fail(ErrorCode::kInvalidArgument, field.name, " is ", text_of(nb::repr(value)), "; expected ", field.expected);
}

// Former names are taken for one release.
std::string current_name(const std::string& name) {
  if (name == "reach") return "peer_memory";
  return name == "early_launch" ? "pdl" : name;
}

// Returns `settings` changed by keyword arguments. Throws kInvalidArgument unless all of them are good.
Settings changed(Settings settings, const nb::kwargs& fields) {
  for (const auto& [key, value] : fields) {
    const std::string wanted = current_name(text_of(key));
    const auto* const field = std::ranges::find(kFields, wanted, [](const Field& f) { return std::string(f.name); });
    if (field == std::end(kFields)) {
      std::string names;
      for (const Field& known : kFields) names += join(names.empty() ? "" : ", ", known.name);
      fail(ErrorCode::kInvalidArgument, "Settings has no field '", wanted, "'; it has: ", names);
    }
    set_field(*field, settings, value);
  }
  settings.check();
  return settings;
}

// The fields that differ from the defaults.
std::string repr(const Settings& settings) {
  std::string text;
  for (const Field& field : kFields) {
    const nb::object value = field.get(settings);
    if (value.equal(field.get(Settings{}))) continue;
    text += join(text.empty() ? "" : ", ", field.name, "=", text_of(nb::repr(value)));
  }
  return "plait.Settings(" + text + ")";
}

// Says what a communicator would find wrong with one variable; "" if nothing.
std::string setting_flaw(const std::string& name, const nb::bytes& value) {
  try {
    const std::string text(value.c_str(), value.size());
    const Settings settings = Settings::from_environment({{name, text}, {"PLAIT_LOG", "error"}});  // warns of nothing
    AlgorithmOverrides::parse(settings.algorithm);
    if (!settings.launch.empty()) parse_launch_shape(settings.launch);
    if (!settings.topology.empty()) described_topology(settings.topology);
    if (!settings.profile.empty()) parse_profile(given_profile_text(settings), settings.profile);
    return "";
  } catch (const Error& error) {
    return printable(error.what());
  }
}

void bind_settings_class(nb::module_& module) {
  nb::class_<Settings> settings(
      module, "Settings",
      "What a communicator may be told. `Settings(timeout_seconds=5)` are the defaults with a change; "
      "Settings.from_environment() reads the PLAIT_* variables, the table that `plait settings` prints, and "
      "takes changes as well. Every field can be read and set. Raises InvalidArgument.");
  settings
      .def("__init__",
           [](Settings* self, const nb::args& values, const nb::kwargs& fields) {
             if (values.size() != 0) {
               fail(ErrorCode::kInvalidArgument, "Settings takes its fields by name, such as timeout_seconds=5");
             }
             new (self) Settings(changed({}, fields));
           })
      .def_static(
          "from_environment", [](const nb::kwargs& fields) { return changed(Settings::from_environment(), fields); },
          "The defaults, changed by the PLAIT_* variables of this process, and these by the arguments, which are those "
          "of Settings. Raises InvalidInput and InvalidArgument.")
      .def(
          "__deepcopy__", [](const Settings& from, nb::handle) { return from; }, nb::arg("memo"))
      .def("__repr__", &repr);
  for (const Field& field : kFields) {
    settings.def_prop_rw(
        field.name, [&field](const Settings& its) { return field.get(its); },
        [&field](Settings& its, nb::handle value) { set_field(field, its, value); }, nb::arg("value").none(),
        join(field.meaning, ". Value: ", field.expected, ".").c_str());
  }
}

}  // namespace

void bind_settings(nb::module_& module) {
  bind_settings_class(module);

  nb::class_<SettingRow>(module, "SettingRow")
      .def_ro("name", &SettingRow::name)
      .def_ro("expected", &SettingRow::expected)
      .def_ro("default_value", &SettingRow::default_value)
      .def_prop_ro("value", [](const SettingRow& row) { return printable(row.value); })
      .def_ro("meaning", &SettingRow::meaning);
  module.def("settings_table", &settings_table, nb::arg("settings"),
             "All variables, in the order of the documentation.");
  module.def("setting_flaw", &setting_flaw, nb::arg("name"), nb::arg("value"),
             "What is wrong with this value of a PLAIT_* variable, in the words of the error that a communicator would "
             "have; an empty text where nothing is. Reads the file that it names.");
  module.def("unknown_settings", &unknown_settings, nb::arg("environment"),
             "A line for each PLAIT_* variable that Plait does not know or that has a new name, with the nearest one.");

  nb::class_<LaunchEnvironment>(module, "LaunchEnvironment", "What a launcher told this process about the ranks.")
      .def_ro("launcher", &LaunchEnvironment::launcher)
      .def_ro("rank", &LaunchEnvironment::rank)
      .def_ro("size", &LaunchEnvironment::size)
      .def_ro("local_rank", &LaunchEnvironment::local_rank)
      .def_ro("master", &LaunchEnvironment::master, "The host of rank 0, where ranks are on several; else empty.");
  module.def(
      "launch_environment",
      [](const std::optional<Environment>& environment) {
        return detect_launch_environment(environment ? *environment : process_environment());
      },
      nb::arg("environment") = nb::none(),
      "Rank and size as `plait run`, torchrun, mpirun, srun or another launcher gave them; None where none started "
      "this process. `environment`: variables in place of this process's. Raises InvalidInput.");
  module.def("launcher_variables", &launcher_variables,
             "The environment variables by which launchers say which rank a process is, or of how many.");
  module.def("all_launcher_variables", &all_launcher_variables,
             "These, and all others of launchers that are looked at.");
}

}  // namespace plait::python

// Settings, and what the launcher says.
#include "base/settings.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "bindings/bindings.hpp"
#include "runtime/launch_environment.hpp"
#include "runtime/launchers.hpp"

namespace plait::python {
namespace {

WaitPolicy parse_wait_policy(const std::string& text) {
  for (const auto policy : {WaitPolicy::kAuto, WaitPolicy::kSpin, WaitPolicy::kYield, WaitPolicy::kSleep}) {
    if (text == name(policy)) return policy;
  }
  fail(ErrorCode::kInvalidArgument, "wait_policy '", text, "' is none of: auto, spin, yield, sleep");
}

LogLevel parse_level(const std::string& text) {
  const auto level = parse_log_level(text);
  if (!level) fail(ErrorCode::kInvalidArgument, "log_level '", text, "' is none of: error, warn, info, debug");
  return *level;
}

}  // namespace

void bind_settings(nb::module_& module) {
  nb::class_<Settings>(module, "Settings",
                       "What a communicator may be told: the table that `plait settings` prints. Settings() are the "
                       "defaults; Settings.from_environment() reads the PLAIT_* variables.")
      .def(nb::init<>())
      .def_static(
          "from_environment", [] { return Settings::from_environment(); },
          "The defaults, changed by the PLAIT_* variables of this process. Raises InvalidInput.")
      .def_rw("timeout_seconds", &Settings::timeout_seconds, "how long a collective waits for a peer before it fails")
      .def_rw("bootstrap_timeout_seconds", &Settings::bootstrap_timeout_seconds,
              "how long ranks wait for each other when a communicator is made")
      .def_rw("scratch_bytes", &Settings::scratch_bytes, "staging memory of one rank; the same on all ranks")
      .def_rw("shared_memory_directory", &Settings::shared_memory_directory, "empty: memory that no file system shows")
      .def_rw("max_sms", &Settings::max_sms, "SMs of a GPU that a call may keep busy, at least 8; 0: no limit")
      .def_rw("early_launch", &Settings::early_launch,
              "whether kernels may be put on a GPU while those before them on their stream end")
      .def_rw("algorithm", &Settings::algorithm, "pins algorithms, such as \"all_reduce:ring\"")
      .def_prop_rw(
          "wait_policy", [](const Settings& settings) { return name(settings.wait_policy); },
          [](Settings& settings, const std::string& text) { settings.wait_policy = parse_wait_policy(text); },
          "\"auto\", \"spin\", \"yield\" or \"sleep\"")
      .def_prop_rw(
          "log_level", [](const Settings& settings) { return name(settings.log_level); },
          [](Settings& settings, const std::string& text) { settings.log_level = parse_level(text); },
          "\"error\", \"warn\", \"info\" or \"debug\"");

  nb::class_<SettingRow>(module, "SettingRow")
      .def_ro("name", &SettingRow::name)
      .def_ro("expected", &SettingRow::expected)
      .def_ro("default_value", &SettingRow::default_value)
      .def_prop_ro("value", [](const SettingRow& row) { return printable(row.value); })
      .def_ro("meaning", &SettingRow::meaning);
  module.def("settings_table", &settings_table, nb::arg("settings"),
             "All variables, in the order of the documentation.");

  nb::class_<LaunchEnvironment>(module, "LaunchEnvironment", "What a launcher told this process about the ranks.")
      .def_ro("launcher", &LaunchEnvironment::launcher)
      .def_ro("rank", &LaunchEnvironment::rank)
      .def_ro("size", &LaunchEnvironment::size)
      .def_ro("local_rank", &LaunchEnvironment::local_rank);
  module.def(
      "launch_environment", [] { return detect_launch_environment(); },
      "Rank and size as `plait run`, torchrun, mpirun, srun or another launcher gave them; None where none started "
      "this "
      "process. Raises InvalidInput.");
  module.def("launcher_variables", &launcher_variables,
             "The environment variables by which launchers say which rank a process is, or of how many.");
}

}  // namespace plait::python

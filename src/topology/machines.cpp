#include "topology/machines.hpp"

#include <algorithm>

#include "base/edit_distance.hpp"
#include "base/error.hpp"
#include "topology/readers.hpp"

namespace plait {
namespace {

[[noreturn]] void fail_unknown(std::string_view wanted) {
  const std::string_view shown = wanted.substr(0, 64);
  std::string nearest, all;
  for (const std::string& name : machine_names()) {
    if (nearest.empty() || edit_distance(shown, name) < edit_distance(shown, nearest)) nearest = name;
    all += (all.empty() ? "" : ", ") + name;
  }
  const bool slip = is_slip_for(nearest, shown);
  fail(ErrorCode::kInvalidArgument, "no described machine \"", shown,
       slip ? join("\"; did you mean \"", nearest, "\"? There are: ") : "\". There are: ", all);
}

}  // namespace

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const internal::MachineText& machine : internal::machine_texts()) names.emplace_back(machine.name);
  return names;
}

Topology machine(std::string_view name, int nodes) {
  for (const internal::MachineText& machine : internal::machine_texts()) {
    if (name == machine.name)
      return replicate(parse_machine_json(machine.text, std::string("machines/") + machine.name + ".json"), nodes);
  }
  fail_unknown(name);
}

}  // namespace plait

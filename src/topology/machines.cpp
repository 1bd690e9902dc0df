#include "topology/machines.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/names.hpp"
#include "topology/readers.hpp"

namespace plait {
namespace {

[[noreturn]] void fail_unknown(std::string_view wanted) {
  const std::string_view shown = wanted.substr(0, 64);
  std::vector<std::string_view> names;
  std::string all;
  for (const internal::MachineText& machine : internal::machine_texts()) {
    names.emplace_back(machine.name);
    all += join(all.empty() ? "" : ", ", machine.name);
  }
  const std::string_view nearest = nearest_name(shown, names);
  fail(ErrorCode::kInvalidArgument, "no described machine \"", shown,
       nearest.empty() ? "\". There are: " : join("\"; did you mean \"", nearest, "\"? There are: "), all);
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

#include "topology/machines.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "topology/readers.hpp"

namespace plait {
namespace {

// How many letters must be put in, taken out or changed to make one text the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

[[noreturn]] void fail_unknown(std::string_view wanted) {
  const std::string_view shown = wanted.substr(0, 64);
  std::string nearest, all;
  for (const std::string& name : machine_names()) {
    if (nearest.empty() || edit_distance(shown, name) < edit_distance(shown, nearest)) nearest = name;
    all += (all.empty() ? "" : ", ") + name;
  }
  // What shares hardly a letter with the nearest was no slip of the hand.
  const bool slip = 2 * edit_distance(shown, nearest) <= nearest.size();
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

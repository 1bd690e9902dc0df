// NCCL's own variables, from the environment and from files nccl.conf, and what each one means for the drop-in.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/settings.hpp"

namespace plait::nccl {

enum class VariableEffect {
  kFollowed,    // the drop-in does what it says
  kLeavesAll,   // NCCL performs every call
  kLeavesWins,  // NCCL performs its calls otherwise than it was measured, so no table of the drop-in's own holds
  kNone,        // changes nothing in calls that Plait performs
};
const char* name(VariableEffect effect);  // "followed", "leaves all", "leaves wins", "none"

// A variable that is set.
struct SetVariable {
  std::string name, value;
  std::string source;  // "the environment", or a file
  bool is_known = false;
  VariableEffect effect = VariableEffect::kNone;
  std::string meaning;  // of this value; empty where the variable is not known
};

// The files in which NCCL of this version looks for variables, in its order.
std::vector<std::string> conf_files(const Environment& environment, int nccl_version);

class NcclVariables {
 public:
  NcclVariables() = default;
  // Those of the environment count before those of the files, and those of a file before those of the next.
  NcclVariables(const Environment& environment, const std::vector<std::string>& files);

  std::string value(std::string_view name) const;  // "" where it is not set
  bool is_zero(std::string_view name) const;       // set, and a number that is 0 as NCCL reads it
  std::vector<SetVariable> set() const;            // all that have a value, by name
  const std::vector<std::string>& files() const { return files_; }

  // The first one of this effect, in words: "NCCL_ALGO is set (in /etc/nccl.conf): …"; "" where there is none.
  std::string first_that(VariableEffect effect) const;

 private:
  struct Value {
    std::string text, source;
  };
  void read_file(const std::string& path);

  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> files_;
};

}  // namespace plait::nccl

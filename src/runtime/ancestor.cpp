#include "runtime/ancestor.hpp"

#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <sstream>

#include "base/error.hpp"
#include "base/small_file.hpp"

namespace plait {
namespace {

// Facts from /proc about one process: its command, parent and start time since boot.
struct ProcessFacts {
  std::string command;
  pid_t parent = 0;
  std::string start_time;
};

std::optional<ProcessFacts> process_facts(pid_t process) {
  const std::string text = read_small_file(join("/proc/", process, "/stat"));
  // The command is in parentheses and may hold any character, including parentheses.
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == text.npos || close == text.npos) return std::nullopt;
  ProcessFacts facts;
  facts.command = text.substr(open + 1, close - open - 1);
  // Fields 3 (state), 4 (parent), …, 22 (start time) of proc(5).
  std::istringstream rest(text.substr(close + 1));
  std::string field;
  for (int number = 3; number <= 22 && rest >> field; ++number) {
    if (number == 4) facts.parent = static_cast<pid_t>(std::atoi(field.c_str()));
    if (number == 22) facts.start_time = field;
  }
  if (facts.start_time.empty()) return std::nullopt;
  return facts;
}

}  // namespace

std::string find_ancestor(const std::string& prefix) {
  pid_t process = ::getppid();
  while (process > 0) {
    const auto facts = process_facts(process);
    if (!facts) return "";
    if (facts->command.starts_with(prefix)) return join(facts->command, " ", process, " ", facts->start_time);
    process = facts->parent;
  }
  return "";
}

}  // namespace plait

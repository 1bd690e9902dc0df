// Writes the drop-in's lines where they should go.
#include "api/nccl/notices.hpp"

#include <fcntl.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "base/process.hpp"
#include "base/unique_fd.hpp"

namespace plait::nccl {
namespace {

constexpr const char* kSubsystemNames[] = {"INIT", "ENV", "COLL"};
static_assert(std::size(kSubsystemNames) == kSubsystems);

bool is_same(const std::string& text, const char* word) { return ::strcasecmp(text.c_str(), word) == 0; }

// Whether NCCL says more than warnings: ABORT stands between INFO and TRACE.
bool asks_for_lines(const std::string& debug) {
  return is_same(debug, "INFO") || is_same(debug, "ABORT") || is_same(debug, "TRACE");
}

std::string file_of(const std::string& pattern) {
  if (pattern.empty()) return "";
  const std::string file = expand_file_pattern(pattern, own_host_name(), ::getpid());
  return file.starts_with("/dev/") ? file : file + ".plait";
}

}  // namespace

std::string expand_file_pattern(const std::string& pattern, const std::string& host, int process) {
  std::string text;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char next = pattern[i] == '%' && i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (next == 'h') text += host;
    if (next == 'p') text += std::to_string(process);
    if (next == '%') text += '%';
    if (next == 'h' || next == 'p' || next == '%') {
      ++i;
    } else {
      text += pattern[i];
    }
  }
  return text;
}

bool shows_subsystem(const std::string& value, Subsystem subsystem) {
  if (value.empty()) return subsystem != Subsystem::kColl;
  const bool is_inverted = value.front() == '^';
  std::istringstream words(value.substr(is_inverted ? 1 : 0));
  bool is_named = false;
  for (std::string word; std::getline(words, word, ',');) {
    is_named = is_named || is_same(word, "ALL") || is_same(word, kSubsystemNames[static_cast<size_t>(subsystem)]);
  }
  return is_named != is_inverted;
}

Notices::Notices(const NcclVariables& variables, LogLevel level)
    : log_(level), file_(file_of(variables.value("NCCL_DEBUG_FILE"))) {
  if (!asks_for_lines(variables.value("NCCL_DEBUG"))) return;
  for (int i = 0; i < kSubsystems; ++i) {
    asked_[i] = shows_subsystem(variables.value("NCCL_DEBUG_SUBSYS"), static_cast<Subsystem>(i));
  }
}

void Notices::say(Subsystem about, const std::string& line) const {
  if (shows(about)) write(line);
}

void Notices::say_call(int rank, const std::string& line) const {
  if (log_.shows(LogLevel::kDebug)) return log_.with_rank(rank).debug(line);
  say(Subsystem::kColl, join("rank ", rank, ": ", line));
}

void Notices::write(const std::string& line) const {
  const Logger to_stderr(LogLevel::kInfo);
  const UniqueFd file(file_.empty() ? -1 : ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!file) return to_stderr.info(line);
  const std::string whole = join("plait: info: ", printable(line), '\n');
  if (::write(file.get(), whole.data(), whole.size()) < 0) to_stderr.info(line);
}

}  // namespace plait::nccl

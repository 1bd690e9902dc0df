// Writes the drop-in's lines where they should go.
#include "api/nccl/notices.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "base/process.hpp"
#include "base/unique_fd.hpp"

namespace plait::nccl {
namespace {

// `level`, or "info" where NCCL_DEBUG asks NCCL for as much.
LogLevel level_of(const Environment& environment, LogLevel level) {
  const std::string asked = value_in(environment, "NCCL_DEBUG");
  const bool is_info = asked == "INFO" || asked == "TRACE" || asked == "info" || asked == "trace";
  return is_info ? std::max(level, LogLevel::kInfo) : level;
}

std::string file_of(const Environment& environment) {
  const std::string pattern = value_in(environment, "NCCL_DEBUG_FILE");
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

Notices::Notices(const Environment& environment, LogLevel level)
    : log_(level_of(environment, level)), file_(file_of(environment)) {}

void Notices::say(const std::string& line) const {
  if (!log_.shows(LogLevel::kInfo)) return;
  const UniqueFd file(file_.empty() ? -1 : ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!file) return log_.info(line);
  const std::string whole = join("plait: info: ", printable(line), '\n');
  if (::write(file.get(), whole.data(), whole.size()) < 0) log_.info(line);
}

}  // namespace plait::nccl

#include "base/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/printable.hpp"

namespace plait {
namespace {

constexpr std::array<const char*, 4> kLevels = {"error", "warn", "info", "debug"};

}  // namespace

const char* name(LogLevel level) { return kLevels[static_cast<size_t>(level)]; }

std::optional<LogLevel> parse_log_level(std::string_view text) {
  for (size_t i = 0; i < kLevels.size(); ++i) {
    if (text == kLevels[i]) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

void Logger::write_line(LogLevel level, std::string message) const {
  std::replace(message.begin(), message.end(), '\n', ' ');
  const std::string rank = rank_ < 0 ? "" : join("[rank ", rank_, "] ");
  const std::string line = join("plait: ", rank, name(level), ": ", printable(message), "\n");
  // One system call a line, past stdio's buffer: lines of several threads and of several ranks do not mix.
  // A log that cannot be written is no reason to fail.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace plait

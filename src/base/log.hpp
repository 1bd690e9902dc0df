// Writes one line to stderr for what a user should see, unless it is an error of the call at hand. A Logger is a value that
// belongs to whoever logs (a communicator, a program): there is no global logger. Silent below "warn" by default.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace plait {

enum class LogLevel { kError, kWarn, kInfo, kDebug };

const char* name(LogLevel level);  // "error", "warn", "info", "debug"
std::optional<LogLevel> parse_log_level(std::string_view text);

class Logger {
 public:
  Logger() = default;
  // A negative rank is not printed.
  explicit Logger(LogLevel level, int rank = -1) : level_(level), rank_(rank) {}

  LogLevel level() const { return level_; }
  bool shows(LogLevel level) const { return level <= level_; }
  Logger with_rank(int rank) const { return Logger(level_, rank); }

  template <class... Parts>
  void error(const Parts&... parts) const {
    write(LogLevel::kError, parts...);
  }
  template <class... Parts>
  void warn(const Parts&... parts) const {
    write(LogLevel::kWarn, parts...);
  }
  template <class... Parts>
  void info(const Parts&... parts) const {
    write(LogLevel::kInfo, parts...);
  }
  template <class... Parts>
  void debug(const Parts&... parts) const {
    write(LogLevel::kDebug, parts...);
  }

 private:
  template <class... Parts>
  void write(LogLevel level, const Parts&... parts) const {
    if (shows(level)) write_line(level, join(parts...));
  }
  void write_line(LogLevel level, std::string message) const;

  LogLevel level_ = LogLevel::kWarn;
  int rank_ = -1;
};

}  // namespace plait

// Lines for those who ask NCCL what it does (NCCL_DEBUG=INFO), or Plait (PLAIT_LOG).
#pragma once

#include <string>

#include "base/log.hpp"
#include "base/settings.hpp"

namespace plait::nccl {

class Notices {
 public:
  // `level` is PLAIT_LOG's; NCCL_DEBUG may ask for more.
  Notices(const Environment& environment, LogLevel level);

  const Logger& log() const { return log_; }
  bool shows_calls() const { return log_.shows(LogLevel::kDebug); }
  // At level info: to stderr, or beside the file that NCCL_DEBUG_FILE names, with .plait at its end. NCCL itself
  // writes to that file from its start, over what others write there.
  void say(const std::string& line) const;

 private:
  Logger log_;
  std::string file_;  // empty: stderr
};

// NCCL's patterns: %h is this host, %p this process, %% a percent sign.
std::string expand_file_pattern(const std::string& pattern, const std::string& host, int process);

}  // namespace plait::nccl

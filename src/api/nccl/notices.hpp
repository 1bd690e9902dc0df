// Lines for those who ask NCCL what it does (NCCL_DEBUG=INFO), or Plait (PLAIT_LOG).
#pragma once

#include <string>

#include "api/nccl/nccl_variables.hpp"
#include "base/log.hpp"

namespace plait::nccl {

// What a line is about, as NCCL_DEBUG_SUBSYS names it. It shows kInit and kEnv where it is not set.
enum class Subsystem { kInit, kEnv, kColl };
inline constexpr int kSubsystems = 3;

class Notices {
 public:
  // `level` is PLAIT_LOG's; NCCL_DEBUG may ask for more.
  Notices(const NcclVariables& variables, LogLevel level);

  const Logger& log() const { return log_; }
  bool shows(Subsystem about) const { return log_.shows(LogLevel::kInfo) || asked_[static_cast<size_t>(about)]; }
  // With PLAIT_LOG=debug, and where NCCL_DEBUG_SUBSYS asks for them.
  bool shows_calls() const { return log_.shows(LogLevel::kDebug) || asked_[static_cast<size_t>(Subsystem::kColl)]; }
  // At level info: to stderr, or beside the file that NCCL_DEBUG_FILE names, with .plait at its end. NCCL itself
  // writes to that file from its start, over what others write there.
  void say(Subsystem about, const std::string& line) const;
  // About a call of a rank.
  void say_call(int rank, const std::string& line) const;

 private:
  void write(const std::string& line) const;

  Logger log_;
  bool asked_[kSubsystems] = {};
  std::string file_;  // empty: stderr
};

// NCCL's patterns: %h is this host, %p this process, %% a percent sign.
std::string expand_file_pattern(const std::string& pattern, const std::string& host, int process);

// Whether a value of NCCL_DEBUG_SUBSYS, such as "INIT,COLL" or "^COLL", shows lines of `subsystem`.
bool shows_subsystem(const std::string& value, Subsystem subsystem);

}  // namespace plait::nccl

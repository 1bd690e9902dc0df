#include "base/log.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/printable.hpp"

namespace plait {
namespace {

constexpr std::array<const char*, 4> kLevels = {"error", "warn", "info", "debug"};

// Keeps a signal that this thread raises by writing from ending the program.
class HeldBackSignal {
 public:
  explicit HeldBackSignal(int number) {
    sigemptyset(&signal_);
    sigaddset(&signal_, number);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, number) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &mask_);
  }
  ~HeldBackSignal() {
    // One that was pending before is the program's.
    const timespec at_once{};
    while (!was_pending_ && sigtimedwait(&signal_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
  HeldBackSignal(const HeldBackSignal&) = delete;
  HeldBackSignal& operator=(const HeldBackSignal&) = delete;

 private:
  sigset_t signal_, mask_;
  bool was_pending_ = false;
};

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
  // A log that cannot be written is no reason to fail, nor to end: nobody may read it, or a file may not grow any more.
  const HeldBackSignal nobody_reads(SIGPIPE), too_large(SIGXFSZ);
  while (::write(STDERR_FILENO, line.data(), line.size()) < 0 && errno == EINTR) {
  }
}

}  // namespace plait

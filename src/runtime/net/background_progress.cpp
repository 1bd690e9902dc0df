#include "runtime/net/background_progress.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/error.hpp"
#include "base/signals_blocked.hpp"

namespace plait {
namespace {

// How soon the thread looks again after a rank in a call. Events are the rank's meanwhile.
constexpr int kCallMilliseconds = 2;

UniqueFd new_end() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) fail_system(errno, "cannot make an event for the thread of the network");
  return event;
}

}  // namespace

BackgroundProgress::BackgroundProgress(Transport& transport) : transport_(transport), end_(new_end()) {
  if (transport_.event() < 0) return;
  const SignalsBlocked blocked;  // the thread inherits that
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    fail(ErrorCode::kResources, "no thread can be started for the network: ", error.what(),
         "; raise the limit of processes (ulimit -u)");
  }
}

BackgroundProgress::~BackgroundProgress() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t count = ::write(end_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

void BackgroundProgress::run() {
  while (sleep(!move())) {
  }
}

bool BackgroundProgress::move() {
  const Turn turn(mutex_, std::try_to_lock);
  if (!turn) return false;
  do {
    while (transport_.progress()) {
    }
  } while (!transport_.arm());
  return true;
}

bool BackgroundProgress::sleep(bool is_rank_in_call) const {
  std::array<pollfd, 2> events{{{end_.get(), POLLIN, 0}, {transport_.event(), POLLIN, 0}}};
  const nfds_t count = is_rank_in_call ? 1 : 2;
  while (::poll(events.data(), count, is_rank_in_call ? kCallMilliseconds : -1) < 0 && errno == EINTR) {
  }
  return events[0].revents == 0;
}

}  // namespace plait

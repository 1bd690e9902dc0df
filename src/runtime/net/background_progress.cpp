#include "runtime/net/background_progress.hpp"

#include <poll.h>

#include <array>
#include <cerrno>

#include "base/library_thread.hpp"

namespace plait {
namespace {

// How soon the thread looks again after a rank in a call. Events are the rank's meanwhile.
constexpr int kCallMilliseconds = 2;

}  // namespace

BackgroundProgress::BackgroundProgress(Transport& transport) : transport_(transport) {
  if (transport_.event() >= 0) thread_ = start_library_thread("the network", [this] { run(); });
}

BackgroundProgress::~BackgroundProgress() {
  end_.set();
  if (thread_.joinable()) thread_.join();
}

void BackgroundProgress::run() {
  while (sleep(!try_to_move())) {
  }
}

bool BackgroundProgress::try_to_move() {
  const Turn turn(mutex_, std::try_to_lock);
  if (!turn) return false;
  do {
    while (transport_.progress()) {
    }
  } while (!transport_.arm());
  return true;
}

bool BackgroundProgress::sleep(bool is_rank_in_call) const {
  std::array<pollfd, 2> events{{{end_.descriptor(), POLLIN, 0}, {transport_.event(), POLLIN, 0}}};
  const nfds_t count = is_rank_in_call ? 1 : 2;
  while (::poll(events.data(), count, is_rank_in_call ? kCallMilliseconds : -1) < 0 && errno == EINTR) {
  }
  return events[0].revents == 0;
}

}  // namespace plait

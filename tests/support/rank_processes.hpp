// Ranks of a test as forked processes, under a time limit: nothing that a rank does can hang the test.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "base/deadline.hpp"
#include "base/unique_fd.hpp"
#include "runtime/unique_id.hpp"
#include "support/outcome.hpp"

namespace plait::test {

// Memory that the harness shares with the ranks that it forks; zeroed.
template <class T>
class Shared {
 public:
  Shared() {
    void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    value_ = new (memory) T{};
  }
  ~Shared() { ::munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

// An id that is unique on this machine and takes no descriptor in the harness.
inline UniqueId new_id() {
  const auto bytes = random_128_bits();
  std::string text;
  for (const auto byte : bytes) text += join(static_cast<unsigned>(byte), ".");
  return UniqueId::for_job(text, 0);
}

class RankProcesses {
 public:
  // Forks one process per rank. Each calls the body, sends its outcome through a pipe, and ends without running
  // destructors of what it inherited.
  RankProcesses(int ranks, const RankBody& body) {
    for (int rank = 0; rank < ranks; ++rank) start(rank, body);
  }
  ~RankProcesses() {
    for (const Child& child : children_) {
      if (!child.reaped) reap(child.pid, SIGKILL);
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  pid_t pid(int rank) const { return children_[static_cast<size_t>(rank)].pid; }
  void signal(int rank, int number) const { ::kill(pid(rank), number); }
  // Kills a rank now.
  void kill(int rank) {
    Child& child = children_[static_cast<size_t>(rank)];
    reap(child.pid, SIGKILL);
    child.reaped = true;
  }

  // Whether the rank has sent its outcome, or ended without one.
  bool has_ended(int rank) const {
    pollfd event{children_[static_cast<size_t>(rank)].pipe.get(), POLLIN, 0};
    return ::poll(&event, 1, 0) == 1;
  }

  // Waits until all ranks have ended. After `limit_seconds` in all, the rest are killed.
  Outcomes wait(double limit_seconds) {
    const Deadline deadline = Deadline::after(limit_seconds);
    Outcomes outcomes;
    for (Child& child : children_) outcomes.push_back(wait_for(child, deadline));
    return outcomes;
  }

 private:
  struct Child {
    pid_t pid = -1;
    UniqueFd pipe;
    bool reaped = false;
  };

  // The content of the pipe. It fits the pipe's buffer, so that the write never waits for the harness.
  struct Message {
    Outcome::End end;
    ErrorCode code;
    double seconds;
    char text[3000];
  };

  void start(int rank, const RankBody& body) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    UniqueFd read_end(ends[0]), write_end(ends[1]);
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("fork");
    if (pid == 0) {
      for (Child& child : children_) child.pipe.reset();
      const Outcome outcome = outcome_of(body, rank);
      Message message{outcome.end, outcome.code, outcome.seconds, {}};
      std::strncpy(message.text, outcome.text.c_str(), sizeof(message.text) - 1);
      [[maybe_unused]] const ssize_t count = ::write(write_end.get(), &message, sizeof(message));
      ::_exit(0);
    }
    children_.push_back({pid, std::move(read_end), false});
  }

  static void reap(pid_t pid, int with_signal) {
    if (with_signal != 0) ::kill(pid, with_signal);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  Outcome wait_for(Child& child, const Deadline& deadline) {
    Outcome outcome;
    pollfd event{child.pipe.get(), POLLIN, 0};
    const bool ended = ::poll(&event, 1, deadline.poll_milliseconds()) == 1;
    Message message{};
    if (!ended) {
      outcome.end = Outcome::End::kHung;
    } else if (::read(child.pipe.get(), &message, sizeof(message)) == sizeof(message)) {
      outcome = {message.end, message.code, message.text, message.seconds};
    } else {
      outcome.end = Outcome::End::kKilled;
    }
    if (!child.reaped) reap(child.pid, SIGKILL);
    child.reaped = true;
    return outcome;
  }

  std::vector<Child> children_;
};

// Runs ranks and waits for them, for tests with nothing to do in between.
inline Outcomes run_processes(int ranks, double limit_seconds, const RankBody& body) {
  return RankProcesses(ranks, body).wait(limit_seconds);
}

}  // namespace plait::test

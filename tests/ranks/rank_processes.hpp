// Code that the tests of the bootstrap share: ranks as processes and as threads whose end is always reported, and parts
// of the protocol played by hand.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/bootstrap_messages.hpp"
#include "runtime/stream_socket.hpp"
#include "runtime/unique_id.hpp"

namespace plait {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

inline void sleep_seconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

inline testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" has no \"" << part << "\"";
}

// How one rank ended: "" if its function returned, otherwise the error that it threw, or "killed" if it was killed
// before it could tell.
using Outcomes = std::vector<std::string>;
using RankFunction = std::function<void(int rank)>;

inline std::string outcome_of(const RankFunction& function, int rank) {
  try {
    function(rank);
    return "";
  } catch (const Error& error) {
    return std::string(name(error.code())) + ": " + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
}

// A rank of a test throws this if it sees something wrong: assertions of GoogleTest do not leave a forked process.
inline void require(bool good, const std::string& what) {
  if (!good) throw std::runtime_error("requirement failed: " + what);
}

struct Child {
  pid_t process = 0;
  UniqueFd outcome;
};

inline Child start_process(const RankFunction& function, int rank) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t process = ::fork();
  if (process == 0) {
    const std::string text = outcome_of(function, rank) + "\n";
    [[maybe_unused]] const ssize_t count = ::write(write_end.get(), text.data(), text.size());
    ::_exit(0);
  }
  return {process, std::move(read_end)};
}

// Waits for the end of a child, 20 s at most, and then kills it.
inline std::string outcome_of(const Child& child) {
  const Deadline deadline = Deadline::after(20);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 1; count > 0;) {
    pollfd entry{child.outcome.get(), POLLIN, 0};
    if (::poll(&entry, 1, deadline.poll_milliseconds()) <= 0) break;
    count = ::read(child.outcome.get(), buffer, sizeof buffer);
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
  }
  if (deadline.passed()) ::kill(child.process, SIGKILL);
  int status = 0;
  ::waitpid(child.process, &status, 0);
  if (deadline.passed()) return "hung";
  if (WIFSIGNALED(status)) return "killed";
  return text.substr(0, text.find('\n'));
}

inline Outcomes run_processes(int count, const RankFunction& function) {
  std::vector<Child> children;
  for (int rank = 0; rank < count; ++rank) children.push_back(start_process(function, rank));
  Outcomes outcomes;
  for (const Child& child : children) outcomes.push_back(outcome_of(child));
  return outcomes;
}

inline Outcomes run_threads(int count, const RankFunction& function) {
  Outcomes outcomes(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] { outcomes[static_cast<size_t>(rank)] = outcome_of(function, rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

inline void expect_all_well(const Outcomes& outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) EXPECT_EQ(outcomes[rank], "") << "rank " << rank;
}

inline BootstrapOptions within(double seconds) {
  BootstrapOptions options;
  options.timeout_seconds = seconds;
  return options;
}

// An id with a port, whose socket any forked child finds in its table of descriptors.
inline UniqueId new_id() { return RendezvousPoint::create().release(); }

// The id of a job that nothing else on this machine has.
inline UniqueId new_job(uint64_t sequence = 0) { return UniqueId::for_job(new_id().text(), sequence); }

// The three ways to meet. They must not differ in anything that a rank or a stranger can see.
enum class Meeting { kPort, kName, kJob };

inline std::string name_of(const testing::TestParamInfo<Meeting>& info) {
  constexpr const char* kNames[] = {"Port", "Name", "Job"};
  return kNames[static_cast<int>(info.param)];
}

class EveryMeeting : public testing::TestWithParam<Meeting> {
 protected:
  // Makes a new id, at whose place a socket listens.
  static RendezvousPoint new_point() {
    if (GetParam() == Meeting::kJob) return RendezvousPoint::claim(new_job());
    return GetParam() == Meeting::kPort ? RendezvousPoint::create() : RendezvousPoint::create_at_name();
  }
  // Makes a new id that rank 0 can claim, in this process or a forked one.
  static UniqueId new_meeting() { return GetParam() == Meeting::kJob ? new_job() : new_point().release(); }
};

struct Greeting {
  int rank;
  int squares[5];
};

inline void check_all_gather(Bootstrap& bootstrap) {
  Greeting mine{bootstrap.rank(), {}};
  for (int i = 0; i < 5; ++i) mine.squares[i] = bootstrap.rank() * bootstrap.rank() + i;
  const auto all = bootstrap.all_gather(mine);
  require(all.size() == static_cast<size_t>(bootstrap.size()), "one part a rank");
  for (int rank = 0; rank < bootstrap.size(); ++rank) {
    const Greeting& greeting = all[static_cast<size_t>(rank)];
    require(greeting.rank == rank, "parts are in the order of the ranks");
    for (int i = 0; i < 5; ++i) require(greeting.squares[i] == rank * rank + i, "parts arrive whole");
  }
}

// Connects to the place where the ranks meet, after waiting for rank 0 to be there.
inline UniqueFd knock(const UniqueId& id) {
  const Deadline deadline = Deadline::after(5);
  for (;;) {
    SocketOrError connection = connect_to(id.meeting_place());
    if (connection.error == 0) return std::move(connection.socket);
    if (deadline.passed()) throw std::runtime_error("no rank 0 to disturb");
    sleep_seconds(0.001);
  }
}

// Plays rank 0 for one caller: answers its Hello with `challenge`, and returns everything that the caller sent.
inline std::string play_rank_zero(int listener, const std::function<Challenge(const Hello&)>& challenge) {
  const Deadline deadline = Deadline::after(5);
  SocketOrError caller = accept_from(listener);
  for (; caller.error != 0 && !deadline.passed(); caller = accept_from(listener)) sleep_seconds(0.001);
  Hello hello;
  Proof proof;
  receive_all(caller.socket.get(), writable_bytes_of(hello), deadline);
  const Challenge answer = challenge(hello);
  send_all(caller.socket.get(), bytes_of(answer), deadline);
  receive_all(caller.socket.get(), writable_bytes_of(proof), deadline);
  std::string said(reinterpret_cast<const char*>(&hello), sizeof hello);
  return said.append(reinterpret_cast<const char*>(&proof), sizeof proof);
}

}  // namespace plait

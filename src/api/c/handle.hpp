// The object behind a plaitComm_t, and the ways from it to its communicator.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/c/operations.hpp"
#include "api/c/result.hpp"
#include "api/communicator.hpp"
#include "plait/plait.h"

namespace plait::c {

// A communicator in use. A reference may be used after the handle has ended; the last reference ends the communicator.
struct Member {
  explicit Member(Communicator its_communicator) : communicator(std::move(its_communicator)) {}
  Communicator communicator;
  std::atomic<bool> busy{false};  // a call that one thread at a time may make is under way
};

// The machine of a communicator, as C programs are told of it.
struct MachineTexts {
  std::string topology;    // JSON; empty: not yet asked for
  std::vector<int> group;  // of each rank, numbered from 0 by their lowest ranks

  void ask(const Communicator& communicator);
};

}  // namespace plait::c

// Handles stay allocated when they have ended, some hundred bytes each. So a stale one, even one that another thread
// has just aborted, is always recognised and is never somebody else's memory.
struct plaitComm {
  static constexpr uint64_t kLive = 0x6d6f437469616c50;   // "PlaitCom" in memory
  static constexpr uint64_t kEnded = 0x646e457469616c50;  // "PlaitEnd"

  std::atomic<uint64_t> magic{kLive};
  const int rank;
  const int size;
  const int device;                          // PLAIT_DEVICE_HOST where it has none
  const plait::SegmentIdentity identity;     // of the communicator: the same for all its ranks
  std::mutex mutex;                          // guards `member`, `failure` and `machine`
  std::shared_ptr<plait::c::Member> member;  // none once finalized
  std::optional<plait::Error> failure;       // that it had by then
  plait::c::Operations operations;           // that were made for it
  plait::c::MachineTexts machine;            // once it was asked for, or is finalized
  plaitComm* older = nullptr;

  // A new handle.
  static plaitComm_t make(plait::Communicator communicator);

 private:
  explicit plaitComm(plait::Communicator communicator);
};

namespace plait::c {

// Returns `comm` if it is a handle that has not ended, and refuses it otherwise. `argument` names it in the refusal.
plaitComm_t check_handle(plaitComm_t comm, const char* argument = "comm");

// The communicator, for calls that any thread may make at any time. None if it is finalized.
std::shared_ptr<Member> member_of(plaitComm_t comm);
// The same for collectives: refuses a handle that is finalized.
std::shared_ptr<Member> usable_member_of(plaitComm_t comm);

// Takes the communicator out of the handle, which is then finalized, and ended if `ends_handle` is set. None if it was
// finalized already.
std::shared_ptr<Member> take_member(plaitComm_t comm, bool ends_handle);

// The machine of the communicator, also after it was finalized. The texts stay until the handle ends.
const MachineTexts& machine_of(plaitComm_t comm);

// The failure that ended the communicator, also after it was finalized. None if nothing did.
std::optional<Answer> failure_of(plaitComm_t comm);

// A communicator for the time of one call. Refuses handles that are finalized or used by another thread at the moment.
class Use {
 public:
  explicit Use(plaitComm_t comm);
  ~Use();
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  Communicator& operator*() const { return member_->communicator; }
  Communicator* operator->() const { return &member_->communicator; }

 private:
  std::shared_ptr<Member> member_;
};

}  // namespace plait::c

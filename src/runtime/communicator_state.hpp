// What a runtime that performs calls elsewhere than on the host needs to know and say about its communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "runtime/call.hpp"
#include "runtime/exports.hpp"

namespace plait {

// How the ranks of a communicator share processes, as far as that is known.
enum class ProcessSharing {
  kNone,  // each is a process of its own
  kSome,
  kAll,  // all are in this one
};

class CommunicatorState {
 public:
  virtual ~CommunicatorState() = default;

  virtual int rank() const = 0;
  virtual ProcessSharing process_sharing() const = 0;
  // Tells the other ranks that this one makes the call. One thread at a time; everything below: any thread.
  virtual void announce(const Call& call) = 0;

  // What ended the communicator, if anything did.
  virtual std::optional<Error> failure() const = 0;
  virtual bool has_failed() const = 0;
  // Ends it for all ranks; the first failure wins.
  virtual void abort(ErrorCode code, const std::string& message) = 0;

  // Ends it where ranks have announced different calls: kernels that carry flags do not see that.
  virtual void compare_calls() = 0;
  // Ends it where a rank has died without closing it, or has closed it and this one has announced more calls.
  virtual void look_after_peers() = 0;
  // The first call that this rank has announced and another has not: its number, from 1; none where all have.
  virtual std::optional<uint64_t> awaited_call() const = 0;
  // What each rank called last, and where they differ: for messages.
  virtual std::string describe() const = 0;

  // Shared memory: for what ranks offer each other (meetings.hpp), all of them or one that sends to another, and for
  // what a rank lets others map.
  virtual std::byte* offers() const = 0;
  virtual std::byte* message_offers(int from, int to) const = 0;
  virtual Exports& exports(int rank) const = 0;
};

}  // namespace plait

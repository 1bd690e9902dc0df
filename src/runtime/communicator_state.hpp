// The interface between a runtime that performs calls on a device and its communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "runtime/call.hpp"
#include "runtime/exports.hpp"

namespace plait {

// How the ranks of a communicator share processes, as far as is known.
enum class ProcessSharing {
  kNone,  // each rank is a process of its own
  kSome,
  kAll,  // all ranks are in this process
};

class CommunicatorState {
 public:
  virtual ~CommunicatorState() = default;

  virtual int rank() const = 0;
  virtual ProcessSharing process_sharing() const = 0;
  // Tells the other ranks that this one makes the call. One thread at a time. The functions below may be called from
  // any thread.
  virtual void announce(const Call& call) = 0;

  // The failure that ended the communicator, if there was one.
  virtual std::optional<Error> failure() const = 0;
  virtual bool has_failed() const = 0;
  // Ends the communicator for all ranks. The first failure wins.
  virtual void abort(ErrorCode code, const std::string& message) = 0;

  // Ends it if ranks have announced different calls. Kernels in the LL and LL128 protocols do not notice that
  // themselves.
  virtual void compare_calls() = 0;
  // Ends it if a rank has died without closing it, or has closed it after fewer calls than this rank has announced.
  virtual void look_after_peers() = 0;
  // Number, from 1, of the first call that this rank has announced and another rank has not. No value if all have.
  virtual std::optional<uint64_t> awaited_call() const = 0;
  // Says for messages what each rank called last, and where they differ.
  virtual std::string describe() const = 0;

  // Shared memory: for agreements of all ranks (agreement.hpp), for agreements of two ranks on a message, and for the
  // memory that a rank lets others map.
  virtual std::byte* agreement_memory() const = 0;
  virtual std::byte* message_agreement_memory(int from, int to) const = 0;
  virtual Exports& exports(int rank) const = 0;
};

}  // namespace plait

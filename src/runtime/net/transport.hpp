// Moves bytes between ranks on different nodes. One implementation does, by UCX (ucx_transport.cpp); tests have
// another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace plait {

// Where the memory of a message is.
enum class NetMemory : uint8_t { kHost, kGpu };

// One send or receive under way. Its owner keeps it, and the memory that it names, until it is no longer pending.
struct NetRequest {
  enum class State : uint8_t {
    kIdle,     // never started
    kPending,  // the memory is in use
    kDone,
    kCancelled,
    kTruncated,  // the message was longer than the memory for it
    kLost,       // its peer is out of reach
  };
  State state = State::kIdle;
  size_t bytes = 0;        // received
  void* handle = nullptr;  // the transport's, while it is pending
  void* owner = nullptr;   // the transport

  bool is_pending() const { return state == State::kPending; }
};

// One rank's end. It belongs to one thread at a time. A connection needs both of its ends to call progress() now and
// then, or what is under way stays there (background_progress.hpp).
class Transport {
 public:
  // Messages whose tag has this bit are hints, of at most kMostHintBytes: they may stay unreceived.
  static constexpr uint64_t kHintBit = uint64_t{1} << 62;
  static constexpr size_t kMostHintBytes = 512;
  // The transport's own tag, which no message of its users has.
  static constexpr uint64_t kOwnTag = uint64_t{1} << 63 | kHintBit;

  virtual ~Transport() = default;

  // What it is, for people: "UCX 1.22.0 (/usr/lib/…/libucp.so.0)".
  virtual std::string name() const = 0;
  // Where other ranks reach this one: opaque bytes, for connect() there.
  virtual const std::string& address() const = 0;
  // Names a rank's address. Returns at once: connections are made by the first message, in progress(). A rank that no
  // network reaches is lost; what it sent before may be here.
  virtual void connect(int rank, const std::string& address) = 0;
  virtual bool is_connected(int rank) const = 0;
  // Whether messages may leave from GPU memory and arrive there.
  virtual bool reaches_gpus() const { return false; }

  // When a send is over.
  enum class SendEnds : uint8_t {
    kLeft,   // its memory is not in use; the receiver may have nothing yet
    kTaken,  // a receive has taken it
  };
  // Starts to send `bytes` bytes to a rank. `data` stays as it is until the request is no longer pending. Now and then
  // a send is over only when it is taken, so that not too much waits for a receiver that is late.
  virtual void send(int rank, uint64_t tag, const void* data, size_t bytes, NetRequest& request,
                    SendEnds ends = SendEnds::kLeft, NetMemory memory = NetMemory::kHost) = 0;
  // Starts to receive the next message with that tag, of at most `bytes` bytes. Messages of one rank with one tag come
  // in the order in which they were sent.
  virtual void receive(uint64_t tag, void* data, size_t bytes, NetRequest& request,
                       NetMemory memory = NetMemory::kHost) = 0;
  // Gives up a receive: when it returns, the memory is not in use.
  virtual void cancel(NetRequest& request) = 0;

  // Moves what can be moved, without waiting. True: some request may have changed.
  virtual bool progress() = 0;
  // Becomes readable when there may be something to progress(), once arm() has returned true. -1: this transport moves
  // by itself all that a rank outside of calls has to move.
  virtual int event() const = 0;
  // False: there is something to progress() already.
  virtual bool arm() = 0;
  // Waits until there may be something to progress(), at most so long, without using a core.
  virtual void sleep(long nanoseconds) = 0;
  // Asks the other ends whether they have all that was sent to them, and tells whether they have. Needs progress().
  virtual bool flush() = 0;

  // Why a rank is out of reach; empty while nothing says so. Only ranks that messages were exchanged with are noticed.
  virtual const std::string& loss(int rank) const = 0;
  // Cuts all connections: no request is pending afterwards.
  virtual void disconnect() = 0;
};

}  // namespace plait

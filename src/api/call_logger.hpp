// A communicator's log lines about its machine (PLAIT_LOG=info) and about each call (PLAIT_LOG=debug).
#pragma once

#include <span>
#include <string>

#include "api/call_cache.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "runtime/call.hpp"
#include "runtime/peer_message.hpp"
#include "tuner/tuner.hpp"

namespace plait {

// "4 ranks on 4 of 8 GPUs (NVIDIA H200) of 1 host; NVLink joins ranks 0-3; chosen for live (this machine: Linux and
// NVML) with profile h200".
std::string found_text(const RankMachine& machine, const Settings& settings);

// "flat(both), 3 queues, predicted 12.3 us; the cheapest of 31 by the model, in 2 steps", for a call on host memory.
std::string host_call_text(Tuner& tuner, const Call& call);
// The same on GPUs, launched as `launch` says: "flat(store), 64 channels, 192 CTAs of 256 threads, Simple, …".
std::string gpu_call_text(Tuner& tuner, const Call& call, const std::string& launch);

// Logs a line for each call. Equal calls share the text.
class CallLogger {
 public:
  explicit CallLogger(const Logger& log) : log_(log) {}

  // Plans of calls may be others from now on.
  void forget() { texts_.clear(); }

  // Ask it before each call. It costs nothing if nobody listens.
  bool shows() const { return log_.shows(LogLevel::kDebug); }

  // `text` returns the part of the line behind the call.
  template <class Text>
  void write(const Call& call, bool is_in_place, const Text& text) {
    log_.debug(to_text(call), is_in_place ? ", in place" : "", ": ", texts_.get(call, text));
  }
  // Logs an exchange. `tuner` chooses the way of its messages between GPUs, and is null if they are in host memory.
  void write(std::span<const PeerMessage> messages, const Tuner* tuner) const;

 private:
  const Logger log_;
  CallCache<std::string> texts_;
};

}  // namespace plait

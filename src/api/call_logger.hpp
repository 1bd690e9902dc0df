// What a communicator logs of its machine (PLAIT_LOG=info) and of each call (PLAIT_LOG=debug).
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

// "flat(both), 3 queues, predicted 12.3 us; the cheapest of 31 by the model, in 2 steps", of a call on host memory.
std::string host_call_text(Tuner& tuner, const Call& call);
// The same on GPUs, launched as `launch` says: "flat(store), 64 channels, 192 CTAs of 256 threads, Simple, …".
std::string gpu_call_text(Tuner& tuner, const Call& call, const std::string& launch);

// One line a call. Of equal calls it is made once.
class CallLogger {
 public:
  explicit CallLogger(const Logger& log) : log_(log) {}

  // To be asked before each call, and to cost nothing where it says no.
  bool shows() const { return log_.shows(LogLevel::kDebug); }

  // `text`: gives what the line says behind the call.
  template <class Text>
  void write(const Call& call, bool is_in_place, const Text& text) {
    log_.debug(to_text(call), is_in_place ? ", in place" : "", ": ", texts_.get(call, text));
  }
  // An exchange; `tuner` chooses how its messages go between GPUs, and is null where they are in host memory.
  void write(std::span<const PeerMessage> messages, const Tuner* tuner) const;

 private:
  const Logger log_;
  CallCache<std::string> texts_;
};

}  // namespace plait

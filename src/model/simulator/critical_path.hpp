// Why a simulated run took as long as it did: the chain of operations, each waiting for the one before, that ended
// last, with every second of it put down to one cause.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "model/simulator/simulation.hpp"

namespace plait {

enum class Cause : uint8_t {
  kLaunch,         // of the call
  kLatency,        // operations begin, signals travel
  kBandwidth,      // bytes at the full speed of their links
  kContention,     // the same bytes later, since others were on these links
  kSmallMessages,  // the same bytes slower, since they were few
  kReduction,      // combining that no bytes over links hid
  kCopy,           // the same of copies: a rank's memory was slower than links
};
inline constexpr int kCauseCount = 7;
const char* name(Cause cause);  // "launch", "latency", …, "small messages", "exposed reduction", "exposed copy"

struct CriticalPath {
  // One step, from when the one before was over.
  struct Piece {
    size_t step = 0;
    double from = 0, to = 0;  // as SimulatedRun::ends
    // A signal that was heard from another queue: the piece begins when that told it.
    bool is_jump = false;
    std::array<double, kCauseCount> seconds = {};
    uint32_t resource = SimulatedRun::Last::kNothing;  // of bytes: where they were slowest
  };
  std::vector<Piece> pieces;                     // in order of time, without gaps
  std::array<double, kCauseCount> seconds = {};  // add up to SimulatedRun::seconds
  // By resource of the program: the seconds of bandwidth, contention and small messages that it is to blame for.
  std::vector<double> resource_seconds;
};

CriticalPath critical_path(const SimulatorProgram& program, const SimulatedMachine& machine, const SimulatedRun& run);

}  // namespace plait

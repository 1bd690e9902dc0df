// The way back from the last operation.
#include "model/simulator/critical_path.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace plait {
namespace {

constexpr std::array<const char*, kCauseCount> kCauseNames = {
    "launch", "latency", "bandwidth", "contention", "small messages", "exposed reduction", "exposed copy"};

size_t number_of(Cause cause) { return static_cast<size_t>(cause); }

class WayBack {
 public:
  WayBack(const SimulatorProgram& program, const SimulatedMachine& machine, const SimulatedRun& run)
      : program_(program), machine_(machine), run_(run), tellers_(program.signals) {
    for (size_t step = 0; step < program.steps.size(); ++step) {
      if (program.steps[step].kind == SimulatedStep::Kind::kTell) {
        tellers_[program.steps[step].index] = static_cast<uint32_t>(step);
      }
    }
  }

  CriticalPath find() {
    path_.resource_seconds.resize(program_.resources.size());
    path_.seconds[number_of(Cause::kLaunch)] = machine_.launch_seconds;
    if (run_.ends.empty()) return std::move(path_);
    const auto last = std::max_element(run_.ends.begin(), run_.ends.end());
    auto step = static_cast<size_t>(last - run_.ends.begin());
    for (bool goes_on = true; goes_on;) goes_on = add(step);
    std::reverse(path_.pieces.begin(), path_.pieces.end());
    return std::move(path_);
  }

 private:
  // Puts down one step, and finds the one before. False where there is none.
  bool add(size_t& step) {
    const SimulatedQueue& queue = program_.queues[program_.queue_of(step)];
    const bool is_first = step == queue.first;
    const SimulatedStep& it = program_.steps[step];
    CriticalPath::Piece piece;
    piece.step = step;
    piece.from = is_first ? 0 : run_.ends[step - 1];
    piece.to = run_.ends[step];
    const double begun = std::min(machine_.begin_of(it), piece.to - piece.from);
    if (it.kind == SimulatedStep::Kind::kHear && piece.to > piece.from + begun) {
      piece.is_jump = true;
      piece.from = run_.ends[tellers_[it.index]];
      piece.seconds[number_of(Cause::kLatency)] = piece.to - piece.from;
    } else {
      piece.seconds[number_of(Cause::kLatency)] = begun;
      if (it.kind == SimulatedStep::Kind::kWork) divide(program_.works[it.index], piece.to - piece.from - begun, piece);
    }
    for (int cause = 0; cause < kCauseCount; ++cause) path_.seconds[cause] += piece.seconds[cause];
    path_.pieces.push_back(piece);
    if (piece.is_jump) {
      step = tellers_[it.index];
      return true;
    }
    return !is_first && (--step, true);
  }

  // Divides the time of bytes: their time at full speed, what they lose by being few, and what memory or others add.
  void divide(const SimulatedWork& work, double seconds, CriticalPath::Piece& piece) {
    double full = 0, alone = 0;  // if nothing else was under way
    uint32_t narrowest = SimulatedRun::Last::kNothing;
    for (const SimulatedWork::Flow& flow : work.flows) {
      const SimulatedRoute& route = program_.routes[flow.route];
      const double bytes = program_.bytes_of_chunk(run_.bytes) * flow.chunks;
      const double at_full_speed = bytes / machine_.full_speed(route);
      if (!route.is_on_links()) continue;
      if (at_full_speed > full) narrowest = machine_.narrowest(route);
      full = std::max(full, at_full_speed);
      alone = std::max(alone, bytes / machine_.speed(route, bytes));
    }
    full *= program_.groups;
    alone *= program_.groups;
    // Sums of times are not exact: what is missing after each step goes to the first that there is.
    const auto take = [&](Cause cause, double most) {
      const double taken = std::clamp(most, 0.0, seconds);
      piece.seconds[number_of(cause)] += taken;
      seconds -= taken;
    };
    const SimulatedRun::Last& last = run_.lasts[piece.step];
    const bool in_memory = last.resource != SimulatedRun::Last::kNothing && is_of_rank(last.resource);
    piece.resource = in_memory || last.shared ? last.resource : narrowest;
    const double whole = seconds;
    take(Cause::kBandwidth, full);
    take(Cause::kSmallMessages, alone - full);
    const Cause of_memory = work.combines ? Cause::kReduction : Cause::kCopy;
    if (in_memory) {
      take(of_memory, seconds);
    } else {
      take(Cause::kContention, std::max(0.0, seconds - kNoise * whole));
      piece.seconds[number_of(Cause::kBandwidth)] += seconds;
    }
    const double on_links = whole - piece.seconds[number_of(of_memory)];
    if (!in_memory && piece.resource != SimulatedRun::Last::kNothing)
      path_.resource_seconds[piece.resource] += on_links;
    if (in_memory && narrowest != SimulatedRun::Last::kNothing) path_.resource_seconds[narrowest] += on_links;
  }

  // Whether it is what reads and writes next to a rank.
  bool is_of_rank(uint32_t resource) const {
    const SimulatedResource::Kind kind = program_.resources[resource].kind;
    return kind == SimulatedResource::Kind::kMemory || kind == SimulatedResource::Kind::kCtas ||
           kind == SimulatedResource::Kind::kCore;
  }

  static constexpr double kNoise = 1e-9;  // of rounding

  const SimulatorProgram& program_;
  const SimulatedMachine& machine_;
  const SimulatedRun& run_;
  std::vector<uint32_t> tellers_;  // the step that tells each signal
  CriticalPath path_;
};

}  // namespace

const char* name(Cause cause) { return kCauseNames[number_of(cause)]; }

CriticalPath critical_path(const SimulatorProgram& program, const SimulatedMachine& machine, const SimulatedRun& run) {
  return WayBack(program, machine, run).find();
}

}  // namespace plait

// Timing loops.
#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "bench/bench_stage.hpp"
#include "bench/exact_input.hpp"
#include "bench/pages.hpp"
#include "bench/ranks.hpp"

namespace plait {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class CallStage final : public BenchStage {
 public:
  CallStage(const Communicator& communicator, const Call& call, bool in_place, bool multiplied)
      : call_(call),
        multiplied_(multiplied),
        factor_(exact_scalar(call.type, communicator.rank())),
        ranks_(communicator.size()),
        rank_(communicator.rank()),
        first_(message_bytes(call, ranks_)),
        second_(in_place ? 1 : message_bytes(call, ranks_)),
        placed_(place(call, rank_, {first_.get(), second_.get()}, in_place)) {}

  bool served_by(const PeerLibrary& peer) const override {
    return peer.serves(call_) && (!multiplied_ || peer.multiplies());
  }
  bool has_exact_result() const override { return true; }
  void fill(int variant) override { fill_input(call_, ranks_, rank_, variant, placed_.input); }
  void run(PeerLibrary& peer) override {
    if (multiplied_) {
      peer.run_multiplied(call_, factor_, placed_.input, placed_.output);
    } else {
      peer.run(call_, placed_.input, placed_.output);
    }
  }
  size_t count_wrong(int variant) const override {
    // MPI broadcasts in the root's input and leaves its output alone, which is right for MPI.
    const bool same_as_input = call_.collective == Collective::kBroadcast && rank_ == call_.root;
    return plait::count_wrong(call_, ranks_, rank_, variant, same_as_input ? placed_.input : placed_.output,
                              multiplied_);
  }

 private:
  const Call call_;
  const bool multiplied_;
  const Scalar factor_;
  const int ranks_;
  const int rank_;
  const Pages first_, second_;
  const BufferPlacement placed_;
};

// Every rank sends what it would broadcast.
class ShiftStage final : public BenchStage {
 public:
  ShiftStage(const Communicator& communicator, DataType type, size_t count, const ShiftPattern& pattern, bool in_place)
      : ranks_(communicator.size()),
        rank_(communicator.rank()),
        shift_(RingShift::of(rank_, ranks_, type, count, pattern)),
        input_(shift_.bytes()),
        output_(in_place ? 1 : shift_.bytes()),
        in_place_(in_place) {}

  bool served_by(const PeerLibrary& peer) const override { return peer.serves(shift_); }
  bool has_exact_result() const override { return !in_place_; }
  void fill(int variant) override { fill_input(shift_.broadcast_of(rank_), ranks_, rank_, variant, input_.get()); }
  void run(PeerLibrary& peer) override { peer.run(shift_, input_.get(), in_place_ ? input_.get() : output_.get()); }
  size_t count_wrong(int variant) const override {
    if (!shift_.receives()) return 0;
    return plait::count_wrong(shift_.broadcast_of(shift_.from), ranks_, rank_, variant, output_.get());
  }

 private:
  const int ranks_;
  const int rank_;
  const RingShift shift_;
  const Pages input_, output_;
  const bool in_place_;
};

long count_wrong_after(Communicator& communicator, BenchStage& stage, PeerLibrary& peer, int variant) {
  stage.fill(variant);
  stage.run(peer);
  const auto wrong = static_cast<int64_t>(stage.count_wrong(variant));
  return static_cast<long>(over_ranks(communicator, wrong, DataType::kInt64, ReduceOp::kSum));
}

double time_loop(Communicator& communicator, BenchStage& stage, PeerLibrary& peer, int iterations) {
  communicator.barrier();
  const double start = seconds_now();
  for (int i = 0; i < iterations; ++i) stage.run(peer);
  const double elapsed = seconds_now() - start;
  return over_ranks(communicator, elapsed / iterations, DataType::kFloat64, ReduceOp::kMax);
}

class PlaitPeerLibrary : public PeerLibrary {
 public:
  explicit PlaitPeerLibrary(Communicator& communicator) : communicator_(communicator) {}
  std::string name() const override { return "Plait"; }
  bool serves(const Call&) const override { return true; }
  void run(const Call& call, const void* input, void* output) override { communicator_.run(call, input, output); }
  bool multiplies() const override { return true; }
  void run_multiplied(const Call& call, const Scalar& factor, const void* input, void* output) override {
    communicator_.run(call, input, output, &factor);
  }

  bool serves(const CallByCounts&) const override { return true; }
  void run(const CallByCounts& call, const Scalar* factor, const void* input, void* output) override {
    communicator_.run_by_counts(call, input, output, factor);
  }

  bool serves(const RingShift&) const override { return true; }
  void run(const RingShift& shift, const void* input, void* output) override {
    shift.list(input, output, messages_);
    communicator_.exchange(messages_);
  }

 private:
  Communicator& communicator_;
  std::vector<PeerMessage> messages_;
};

}  // namespace

std::vector<Measurement> measure_stage(Communicator& communicator, const std::vector<PeerLibrary*>& peers,
                                       BenchStage& stage, const MeasureOptions& options) {
  std::vector<Measurement> results(peers.size());
  for (size_t c = 0; c < peers.size(); ++c) {
    PeerLibrary& peer = *peers[c];
    if (!stage.served_by(peer)) continue;
    if (options.check && stage.has_exact_result()) {
      results[c].wrong = count_wrong_after(communicator, stage, peer, static_cast<int>(c));
    }
    const double estimate = time_loop(communicator, stage, peer, std::max(1, options.warmup));
    const double fitting = options.loop_seconds / std::max(estimate, 1e-9);
    results[c].iterations =
        options.iterations > 0 ? options.iterations : static_cast<int>(std::clamp(fitting, 20.0, 1e6));
  }
  for (int cycle = 0; cycle < std::max(1, options.cycles); ++cycle) {
    for (size_t c = 0; c < peers.size(); ++c) {
      if (results[c].iterations == 0) continue;
      results[c].seconds.push_back(time_loop(communicator, stage, *peers[c], results[c].iterations));
    }
  }
  return results;
}

std::unique_ptr<PeerLibrary> make_plait_peer(Communicator& communicator) {
  return std::make_unique<PlaitPeerLibrary>(communicator);
}

void PeerLibrary::run_multiplied(const Call&, const Scalar&, const void*, void*) {
  fail(ErrorCode::kInvalidArgument, name(), " has no pre-multiplied sums");
}

void PeerLibrary::run(const CallByCounts&, const Scalar*, const void*, void*) {
  fail(ErrorCode::kInvalidArgument, name(), " has no collectives by counts here");
}

void PeerLibrary::run(const RingShift&, const void*, void*) {
  fail(ErrorCode::kInvalidArgument, name(), " has no messages between two ranks here");
}

std::vector<Measurement> measure(Communicator& communicator, const std::vector<PeerLibrary*>& peers, const Call& call,
                                 const MeasureOptions& options) {
  CallStage stage(communicator, call, options.in_place, options.multiplied);
  return measure_stage(communicator, peers, stage, options);
}

std::vector<Measurement> measure_ring_shift(Communicator& communicator, const std::vector<PeerLibrary*>& peers,
                                            DataType type, size_t count, const ShiftPattern& pattern,
                                            const MeasureOptions& options) {
  ShiftStage stage(communicator, type, count, pattern, options.in_place);
  std::vector<Measurement> measured = measure_stage(communicator, peers, stage, options);
  divide_by_window(measured, pattern.window);
  return measured;
}

void divide_by_window(std::vector<Measurement>& measured, int window) {
  for (Measurement& it : measured) {
    for (double& seconds : it.seconds) seconds /= window;
    if (it.host_seconds > 0) it.host_seconds /= window;
  }
}

double measure_copy_bandwidth(Communicator& communicator, size_t bytes) {
  Pages from(bytes), to(bytes);
  const int rounds = static_cast<int>(std::max<size_t>(3, (size_t{256} << 20) / std::max<size_t>(bytes, 1)));
  std::vector<double> rates;
  for (int repeat = 0; repeat < 5; ++repeat) {
    communicator.barrier();
    const double start = seconds_now();
    for (int i = 0; i < rounds; ++i) {
      std::memcpy(to.get(), from.get(), bytes);
      asm volatile("" ::"r"(to.get()) : "memory");
    }
    const double rate = static_cast<double>(bytes) * rounds / (seconds_now() - start);
    rates.push_back(over_ranks(communicator, rate, DataType::kFloat64, ReduceOp::kSum) / communicator.size());
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

}  // namespace plait

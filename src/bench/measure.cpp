// Timing loops.
#include "bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "bench/pages.hpp"
#include "bench/ranks.hpp"

namespace plait {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Stage {
 public:
  Stage(Communicator& communicator, const Call& call, bool in_place, bool multiplied)
      : communicator_(communicator),
        call_(call),
        multiplied_(multiplied),
        factor_(exact_factor(call.type, communicator.rank())),
        ranks_(communicator.size()),
        rank_(communicator.rank()),
        first_(message_bytes(call, ranks_)),
        second_(in_place ? 1 : message_bytes(call, ranks_)),
        placed_(place(call, rank_, {first_.get(), second_.get()}, in_place)) {}

  long count_wrong_after(Contestant& contestant, int variant) {
    fill_input(call_, ranks_, rank_, variant, placed_.input);
    run(contestant);
    // MPI broadcasts in the root's input and leaves its output alone, which is right for MPI.
    const bool same_as_input = call_.collective == Collective::kBroadcast && rank_ == call_.root;
    const auto wrong = static_cast<int64_t>(
        count_wrong(call_, ranks_, rank_, variant, same_as_input ? placed_.input : placed_.output, multiplied_));
    return static_cast<long>(over_ranks(communicator_, wrong, DataType::kInt64, ReduceOp::kSum));
  }

  double time_loop(Contestant& contestant, int iterations) {
    communicator_.barrier();
    const double start = seconds_now();
    for (int i = 0; i < iterations; ++i) run(contestant);
    const double elapsed = seconds_now() - start;
    return over_ranks(communicator_, elapsed / iterations, DataType::kFloat64, ReduceOp::kMax);
  }

 private:
  void run(Contestant& contestant) {
    if (multiplied_) {
      contestant.run_multiplied(call_, factor_, placed_.input, placed_.output);
    } else {
      contestant.run(call_, placed_.input, placed_.output);
    }
  }

  Communicator& communicator_;
  const Call& call_;
  const bool multiplied_;
  const Factor factor_;
  const int ranks_;
  const int rank_;
  const Pages first_, second_;
  const Placement placed_;
};

class PlaitContestant : public Contestant {
 public:
  explicit PlaitContestant(Communicator& communicator) : communicator_(communicator) {}
  std::string name() const override { return "Plait"; }
  bool serves(const Call&) const override { return true; }
  void run(const Call& call, const void* input, void* output) override { communicator_.run(call, input, output); }
  bool multiplies() const override { return true; }
  void run_multiplied(const Call& call, const Factor& factor, const void* input, void* output) override {
    communicator_.run(call, input, output, &factor);
  }

 private:
  Communicator& communicator_;
};

}  // namespace

void Contestant::run_multiplied(const Call& call, const Factor&, const void*, void*) {
  fail(ErrorCode::kInternal, name(), " has no pre-multiplied sums for ", to_text(call));
}

std::unique_ptr<Contestant> make_plait_contestant(Communicator& communicator) {
  return std::make_unique<PlaitContestant>(communicator);
}

std::vector<Measurement> measure(Communicator& communicator, const std::vector<Contestant*>& contestants,
                                 const Call& call, const MeasureOptions& options) {
  Stage stage(communicator, call, options.in_place, options.multiplied);
  std::vector<Measurement> results(contestants.size());
  for (size_t c = 0; c < contestants.size(); ++c) {
    if (!contestants[c]->serves(call) || (options.multiplied && !contestants[c]->multiplies())) continue;
    if (options.check) results[c].wrong = stage.count_wrong_after(*contestants[c], static_cast<int>(c));
    const double estimate = stage.time_loop(*contestants[c], std::max(1, options.warmup));
    const double fitting = options.loop_seconds / std::max(estimate, 1e-9);
    results[c].iterations =
        options.iterations > 0 ? options.iterations : static_cast<int>(std::clamp(fitting, 20.0, 1e6));
  }
  for (int cycle = 0; cycle < std::max(1, options.cycles); ++cycle) {
    for (size_t c = 0; c < contestants.size(); ++c) {
      if (results[c].iterations > 0) {
        results[c].seconds.push_back(stage.time_loop(*contestants[c], results[c].iterations));
      }
    }
  }
  return results;
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

// Timing loops.
#include "bench/measure.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "bench/exact_input.hpp"

namespace plait {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Page-aligned memory whose pages exist.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
    void* address = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) fail(ErrorCode::kResources, "cannot get ", bytes_, " bytes for the benchmark's buffers");
    address_ = static_cast<std::byte*>(address);
    std::memset(address_, 0, bytes_);
  }
  ~Pages() { munmap(address_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* get() const { return address_; }

 private:
  size_t bytes_;
  std::byte* address_ = nullptr;
};

template <class T>
T over_ranks(Communicator& communicator, T value, DataType type, ReduceOp op) {
  T result{};
  communicator.all_reduce(&value, &result, 1, type, op);
  return result;
}

class Stage {
 public:
  Stage(Communicator& communicator, const Call& call, bool in_place)
      : communicator_(communicator),
        call_(call),
        in_place_(in_place),
        ranks_(communicator.size()),
        rank_(communicator.rank()),
        whole_(message_bytes(call, ranks_)),
        first_(whole_),
        second_(in_place ? 1 : whole_) {
    const size_t block = call.count * size_of(call.type);
    std::byte* other = in_place ? first_.get() : second_.get();
    input_ = first_.get();
    output_ = other;
    if (in_place && call.collective == Collective::kAllGather) input_ = first_.get() + rank_ * block;
    if (in_place && call.collective == Collective::kReduceScatter) output_ = first_.get() + rank_ * block;
  }

  long count_wrong_after(Contestant& contestant, int variant) {
    fill_input(call_, ranks_, rank_, variant, input_);
    contestant.run(call_, input_, output_);
    // MPI broadcasts in the root's input and leaves its output alone, which is right for MPI.
    const bool same_as_input = call_.collective == Collective::kBroadcast && rank_ == call_.root;
    const auto wrong =
        static_cast<int64_t>(count_wrong(call_, ranks_, rank_, variant, same_as_input ? input_ : output_));
    return static_cast<long>(over_ranks(communicator_, wrong, DataType::kInt64, ReduceOp::kSum));
  }

  double time_loop(Contestant& contestant, int iterations) {
    communicator_.barrier();
    const double start = seconds_now();
    for (int i = 0; i < iterations; ++i) contestant.run(call_, input_, output_);
    const double elapsed = seconds_now() - start;
    return over_ranks(communicator_, elapsed / iterations, DataType::kFloat64, ReduceOp::kMax);
  }

 private:
  Communicator& communicator_;
  const Call& call_;
  const bool in_place_;
  const int ranks_;
  const int rank_;
  const size_t whole_;
  Pages first_, second_;
  std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
};

class PlaitContestant : public Contestant {
 public:
  explicit PlaitContestant(Communicator& communicator) : communicator_(communicator) {}
  std::string name() const override { return "Plait"; }
  bool serves(const Call&) const override { return true; }
  void run(const Call& call, const void* input, void* output) override { communicator_.run(call, input, output); }

 private:
  Communicator& communicator_;
};

}  // namespace

std::unique_ptr<Contestant> make_plait_contestant(Communicator& communicator) {
  return std::make_unique<PlaitContestant>(communicator);
}

std::vector<Measurement> measure(Communicator& communicator, const std::vector<Contestant*>& contestants,
                                 const Call& call, const MeasureOptions& options) {
  Stage stage(communicator, call, options.in_place);
  std::vector<Measurement> results(contestants.size());
  for (size_t c = 0; c < contestants.size(); ++c) {
    if (!contestants[c]->serves(call)) continue;
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

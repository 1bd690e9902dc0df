// The kernel of CPU-driven plans, run on a CPU: random requests of all actions against the reduce of the host, through
// one queue and through a queue for each CTA, around the ring of the queue many times; it leaves when it is idle.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "support/seed.hpp"
// clang-format off: ahead of all kernels
#include "support/simt_reduces.hpp"
// clang-format on
#include "runtime/host/reduce.hpp"
#include "support/reduce_request.hpp"

namespace plait {
namespace {

using test::Random, test::Simt, test::SimtReduces, test::between, test::one_in;

// A request with memory of its own, and what its destinations must hold afterwards.
class Job {
 public:
  Job(Random& random, Simt& machine) {
    constexpr int kMost = 5;
    request_.type = static_cast<DataType>(between(random, 0, kDataTypeCount - 1));
    const auto ops = reductions_of(request_.type);
    request_.op = ops[between(random, 0, ops.size() - 1)];
    request_.destinations = static_cast<uint8_t>(between(random, 1, 3));
    request_.sources = static_cast<uint8_t>(between(random, 1, kMost));
    request_.elements = one_in(random, 2) ? between(random, 1, 20) : between(random, 1, 1500);
    if (facts_of(request_.op).divides) request_.divisor = static_cast<uint16_t>(between(random, 1, 4));
    if (accumulates_in_float32(request_.type)) {
      request_.wide_sources = static_cast<uint32_t>(random() % (1u << request_.sources));
      if (one_in(random, 2)) request_.wide_sources = 0;
      request_.result_is_wide = one_in(random, 4) ? 1 : 0;
    }
    request_.action = static_cast<WorkAction>(between(random, 0, kWorkActions - 1));
    const bool is_aligned = !one_in(random, 3);
    for (int i = 0; i < places(); ++i) add_place(i, is_aligned, random, machine);
    expect();
  }

  const WorkRequest& request() const { return request_; }
  void stores_of_host() {
    for (int s = request_.destinations; s < places(); ++s) Simt::stores(request_.places[s], bytes_of(s));
  }
  bool is_right() {
    for (int d = 0; d < request_.destinations; ++d) Simt::loads(request_.places[d], bytes_of(d));
    return memory_ == expected_;
  }

 private:
  static constexpr size_t kGuard = 32;

  int places() const { return request_.destinations + request_.sources; }
  bool is_wide(int place) const {
    return place < request_.destinations ? request_.result_is_wide != 0
                                         : (request_.wide_sources >> (place - request_.destinations) & 1) != 0;
  }
  size_t element(int place) const {
    return is_wide(place) ? accumulator_size_of(request_.type) : size_of(request_.type);
  }
  size_t bytes_of(int place) const { return request_.elements * element(place); }

  void add_place(int place, bool is_aligned, Random& random, Simt& machine) {
    std::vector<std::byte>& bytes = memory_.emplace_back(bytes_of(place) + 2 * kGuard);
    for (std::byte& it : bytes) it = static_cast<std::byte>(random());
    if (!is_integer(request_.type)) fill_numbers(bytes, place, random);
    const size_t offset = is_aligned ? 0 : between(random, 0, 1) * element(place);
    request_.places[place] = bytes.data() + (kGuard / 2 / sizeof(uint4) * sizeof(uint4)) + offset;
    machine.watch(bytes.data(), bytes.size(), "a place");
  }
  // Small whole numbers, whose sums and products are exact in any order that the request could have.
  void fill_numbers(std::vector<std::byte>& bytes, int place, Random& random) {
    const std::vector<std::byte> zeros(bytes.size());
    bytes = zeros;
    for (size_t i = 0; i + element(place) <= bytes.size(); i += element(place)) {
      test::store_number(bytes.data() + i, request_.type, is_wide(place), static_cast<float>(between(random, 0, 2)));
    }
  }
  void expect() {
    expected_ = memory_;
    WorkRequest moved = request_;
    for (int i = 0; i < places(); ++i) {
      const auto at = static_cast<size_t>(i);
      moved.places[i] = expected_[at].data() + (request_.places[i] - memory_[at].data());
    }
    test::reduce_request(moved);
  }

  WorkRequest request_;
  std::deque<std::vector<std::byte>> memory_, expected_;
};

struct RunResult {
  int launches = 0, right = 0;
};

// A host posts so many requests, as many at once as there is room for, and pauses now and then.
RunResult run(uint64_t seed, int jobs, SimtReduces::Options options, bool finds_races) {
  Random random(seed);
  auto machine = std::make_unique<Simt>(seed);
  if (finds_races) machine->find_races();
  constexpr size_t kStreams = 1;
  SimtReduces gpu(*machine, kStreams, options);
  std::deque<Job> work;
  for (int i = 0; i < jobs; ++i) work.emplace_back(random, *machine);
  RunResult it;
  machine->launch(0, {1}, {1}, [&] {
    Random own(seed);
    uint64_t last = 0;
    for (Job& job : work) {
      for (uint64_t turns = one_in(own, 6) ? between(own, 0, 2 * options.idle_turns) : 0; turns > 0; --turns) {
        Simt::pause();
      }
      job.stores_of_host();
      while (!gpu.has_room()) Simt::pause();
      last = gpu.post(job.request());
      while (one_in(own, 4) && !gpu.is_done(last)) Simt::pause();
    }
    while (!gpu.is_done(last)) Simt::pause();
    for (Job& job : work) it.right += job.is_right() ? 1 : 0;
    gpu.finish();
  });
  machine->run();
  it.launches = gpu.launches;
  return it;
}

TEST(WorkOnCpu, RandomRequestsThroughEitherKindOfQueue) {
  int launches = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const CpuDriven queues = seed % 2 == 0 ? CpuDriven::kOneQueue : CpuDriven::kQueuePerCta;
    const auto ctas = static_cast<uint32_t>(1 + seed / 2 % 3);
    constexpr int kJobs = 60;  // more than the queue has entries and slots
    RunResult it;
    ASSERT_NO_THROW(it = run(seed, kJobs, {queues, ctas, seed % 3 == 0 ? 1000u : 10u, seed % 5 == 0 ? 60u : 100'000u},
                             seed % 4 < 2));
    EXPECT_EQ(it.right, kJobs);
    launches += it.launches;
  }
  EXPECT_GT(launches, 60);  // it left and came back
}

// The host hears no more of what it posted, and the kernel leaves.
TEST(WorkOnCpu, AnAbortEndsTheKernel) {
  for (const CpuDriven queues : {CpuDriven::kOneQueue, CpuDriven::kQueuePerCta}) {
    Simt machine(7);
    SimtReduces gpu(machine, 1, {queues, 3, UINT64_MAX / 2'000'000'000, UINT64_MAX / 2'000'000'000});
    Random random(7);
    Job job(random, machine);
    bool is_right = false;
    machine.launch(0, {1}, {1}, [&] {
      const uint64_t number = gpu.post(job.request());
      while (!gpu.is_done(number)) Simt::pause();
      is_right = job.is_right();
      gpu.give_up();
    });
    EXPECT_NO_THROW(machine.run());  // it would find that threads wait for ever
    EXPECT_TRUE(is_right);
  }
}

}  // namespace
}  // namespace plait

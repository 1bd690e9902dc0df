// The ring of groups with its kernels run on a CPU: hosts drive them with work requests, through one queue or a queue
// for each CTA, and results are right whatever order threads take (NVG-60). The race detector watches all memory.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "bench/exact_input.hpp"
#include "plan/verifier.hpp"
#include "support/algorithm_plans.hpp"
#include "support/call_buffers.hpp"
#include "support/seed.hpp"
// clang-format off: ahead of all kernels
#include "support/simt_reduces.hpp"
// clang-format on
#include "runtime/driven_reduces.hpp"
#include "runtime/queue_loop.hpp"

namespace plait {
namespace {

using test::Random, test::Simt, test::SimtReduces, test::any_of, test::between, test::one_in;

constexpr size_t kScratchBytes = 256 << 10;
constexpr size_t kSignalStride = 64;
constexpr int kSignals = 512;

// Memory that hosts share: signals and host memory of each rank, twice.
struct SharedMemory {
  std::vector<std::byte> signals[2], host[2];
};

uint64_t load_acquire(std::byte* word) {
  return std::atomic_ref(*reinterpret_cast<uint64_t*>(word)).load(std::memory_order_acquire);
}
void store_release(std::byte* word, uint64_t value) {
  std::atomic_ref(*reinterpret_cast<uint64_t*>(word)).store(value, std::memory_order_release);
}

// Ranks in groups, each with a host and a GPU.
class World {
 public:
  World(const std::vector<std::vector<int>>& groups, uint64_t seed, SimtReduces::Options options)
      : random_(seed), machine_(std::make_unique<Simt>(seed)), groups_(groups) {
    for (const auto& group : groups) ranks_ += static_cast<int>(group.size());
    std::vector<SimtReduces*> all;
    for (int rank = 0; rank < ranks_; ++rank) {
      const size_t first_stream = static_cast<size_t>(ranks_) + static_cast<size_t>(rank) * options.ctas;
      gpus_.push_back(std::make_unique<SimtReduces>(*machine_, first_stream, options));
      gpus_.back()->make_scratch(kScratchBytes);
      all.push_back(gpus_.back().get());
      SharedMemory& shared = *shared_.emplace_back(std::make_unique<SharedMemory>());
      for (int parity = 0; parity < 2; ++parity) {
        make(shared.signals[parity], kSignals * kSignalStride, "signals");
        make(shared.host[parity], kScratchBytes, "host memory");
      }
    }
    for (const auto& gpu : gpus_) gpu->meet(all);
    make(at_barrier_, sizeof(uint64_t), "the barrier");
  }

  void find_races() { machine_->find_races(); }

  // Lets every rank make the call `times` times.
  void make_calls(const Call& call, int parts, int times) {
    AlgorithmArguments arguments;
    arguments.ranks = ranks_;
    arguments.groups = groups_;
    arguments.parts = parts;
    const auto& plan =
        *plans_.emplace_back(std::make_unique<VerifiedPlan>(verify(make_plan("nvgroup_ring", arguments))));
    ASSERT_TRUE(can_be_driven(plan.plan()));
    BindLimits limits;
    limits.host_apart = true;
    limits.signal_stride = kSignalStride;
    limits.scratch_bytes = kScratchBytes;
    limits.signals = kSignals;
    for (int rank = 0; rank < ranks_; ++rank) {
      test::BufferLayout layout;
      layout.in_place = one_in(random_, 3);
      layout.input_offset = between(random_, 0, 2) * size_of(call.type);
      layout.output_offset = between(random_, 0, 2) * size_of(call.type);
      buffers_.push_back(std::make_unique<test::CallBuffers>(call, ranks_, rank, layout));
      bound_.push_back(bind(plan, call, rank, limits));
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const auto memory : buffers_[static_cast<size_t>(rank)]->memory()) {
        machine_->watch(memory.data(), memory.size(), "buffers of rank " + std::to_string(rank));
      }
      machine_->launch(static_cast<size_t>(rank), {1}, {1}, [this, rank, call, times] {
        for (int variant = 0; variant < times && !has_failed_; ++variant) make_call(rank, call, variant);
        gpus_[static_cast<size_t>(rank)]->finish();
      });
    }
  }
  // After so many turns the hosts hear that the communicator has failed.
  void abort_after(uint64_t turns) {
    constexpr size_t kStream = 200;
    machine_->launch(kStream, {1}, {1}, [this, turns] {
      for (uint64_t turn = 0; turn < turns; ++turn) Simt::pause();
      has_failed_ = true;
    });
  }
  void run() { machine_->run(); }

  void check() const {
    EXPECT_EQ(wrong_, 0);
    EXPECT_FALSE(has_failed_);
    for (const auto& buffers : buffers_) EXPECT_NO_THROW(buffers->require_untouched_surroundings());
  }
  int requests(WorkAction action) const {
    int count = 0;
    for (const auto& gpu : gpus_) count += gpu->actions[static_cast<size_t>(action)];
    return count;
  }

 private:
  // What a proxy does: reduces go to its GPU, unless all of their places are in host memory.
  class Engine {
   public:
    Engine(World& world, int rank, const BoundSlice& slice, const Call& call, uint64_t epoch, const std::byte* input,
           std::byte* output)
        : world_(world),
          slice_(slice),
          rank_(static_cast<size_t>(rank)),
          parity_(epoch & 1),
          epoch_(epoch),
          bases_(world.bases(epoch & 1, input, output)),
          reduces_(*world.gpus_[rank_], slice, call, world.ranks_, bases_.data()) {}

    void turn_to(size_t queue) { reduces_.turn_to(queue); }
    bool reduce(const BoundOperation& operation) {
      if (!reduces_.is_of_cpu(operation)) return reduces_.post(operation);
      if (!reduces_.are_done()) return false;
      const BoundPlace* const places = slice_.places.data() + operation.first_place;
      EXPECT_EQ(operation.destination_count + operation.source_count, 2);  // to the next group, as it is
      const size_t element = operation.has_wide_source ? accumulator_size_of(type()) : size_of(type());
      Simt::copy(at(places[0]), at(places[1]), operation.elements * element);
      return true;
    }
    void signal(const BoundOperation& operation) { reduces_.keep(operation); }
    bool wait(const BoundOperation& operation) {
      return load_acquire(world_.shared_[rank_]->signals[parity_].data() + operation.word_offset) == epoch_;
    }
    bool release() {
      return reduces_.release([this](const BoundOperation& it) {
        auto& shared = *world_.shared_[static_cast<size_t>(it.peer_rank)];
        store_release(shared.signals[parity_].data() + it.word_offset, epoch_);
      });
    }
    bool is_over() { return reduces_.is_over(); }

   private:
    DataType type() const { return world_.type_; }
    std::byte* at(const BoundPlace& place) const { return bases_[place.base] + place.offset; }

    World& world_;
    const BoundSlice& slice_;
    const size_t rank_;
    const size_t parity_;
    const uint64_t epoch_;
    const std::vector<std::byte*> bases_;
    DrivenReduces reduces_;
  };

  void make(std::vector<std::byte>& memory, size_t bytes, const char* name) {
    memory.resize(bytes);
    machine_->watch(memory.data(), bytes, name);
  }
  std::vector<std::byte*> bases(size_t parity, const std::byte* input, std::byte* output) {
    std::vector<std::byte*> bases(first_host_base(ranks_) + static_cast<uint32_t>(ranks_), nullptr);
    bases[kInputBase] = const_cast<std::byte*>(input);
    bases[kOutputBase] = output;
    for (int r = 0; r < ranks_; ++r) {
      const auto rank = static_cast<uint32_t>(r);
      bases[kFirstScratchBase + rank] = gpus_[rank]->scratch(r, static_cast<uint32_t>(parity));
      bases[first_host_base(ranks_) + rank] = shared_[rank]->host[parity].data();
    }
    return bases;
  }

  void make_call(int rank, const Call& call, int variant) {
    const auto r = static_cast<size_t>(rank);
    type_ = call.type;
    test::CallBuffers& buffers = *buffers_[r];
    Simt::stores(buffers.input(), call.count * size_of(call.type));
    fill_input(call, ranks_, rank, variant, buffers.input());
    buffers.remember();
    const BoundPlan& bound = bound_[r];
    for (size_t i = 0; i < bound.slices; ++i) {
      const uint64_t epoch = 1 + static_cast<uint64_t>(variant) * bound.slices + i;
      if (!meet(epoch)) return;
      const BoundSlice& slice = i + 1 < bound.slices ? bound.full : bound.last;
      const size_t offset = i * bound.slice_bytes;
      Engine engine(*this, rank, slice, call, epoch, buffers.input() + offset, buffers.output() + offset);
      if (!drive(slice, engine)) return;
    }
    Simt::loads(buffers.output(), buffers.output_bytes());
    wrong_ += count_wrong(call, ranks_, rank, variant, buffers.output()) > 0 ? 1 : 0;
  }

  // False: the communicator has failed.
  bool drive(const BoundSlice& slice, Engine& engine) const {
    std::vector<int> next(slice.queues.size(), 0);
    for (;;) {
      size_t done = 0;
      for (size_t queue = 0; queue < next.size(); ++queue) {
        const auto& operations = slice.queues[queue];
        engine.turn_to(queue);
        const QueueState state =
            advance_queue(operations.data(), static_cast<int>(operations.size()), next[queue], engine);
        done += state == QueueState::kDone ? 1 : 0;
      }
      engine.release();
      if (done == next.size() && engine.is_over()) return true;
      if (has_failed_) return false;
      Simt::pause();
    }
  }
  // All ranks have done the epochs before.
  bool meet(uint64_t epoch) {
    auto& count = *reinterpret_cast<uint64_t*>(at_barrier_.data());
    std::atomic_ref(count).fetch_add(1, std::memory_order_acq_rel);
    while (std::atomic_ref(count).load(std::memory_order_acquire) < epoch * static_cast<uint64_t>(ranks_)) {
      if (has_failed_) return false;
      Simt::pause();
    }
    return true;
  }

  Random random_;
  const std::unique_ptr<Simt> machine_;
  const std::vector<std::vector<int>> groups_;
  int ranks_ = 0;
  DataType type_ = DataType::kFloat32;
  std::vector<std::unique_ptr<SimtReduces>> gpus_;
  std::vector<std::unique_ptr<SharedMemory>> shared_;
  std::vector<std::byte> at_barrier_;
  std::vector<std::unique_ptr<VerifiedPlan>> plans_;
  std::vector<std::unique_ptr<test::CallBuffers>> buffers_;
  std::vector<BoundPlan> bound_;
  int wrong_ = 0;
  bool has_failed_ = false;
};

std::vector<std::vector<int>> random_groups(Random& random) {
  std::vector<std::vector<int>> groups(between(random, 2, 4));
  int rank = 0;
  for (auto& group : groups) {
    for (uint64_t size = between(random, 1, 3); size > 0; --size) group.push_back(rank++);
  }
  return groups;
}

Call random_sum(Random& random) {
  Call call{Collective::kAllReduce, static_cast<DataType>(between(random, 0, kDataTypeCount - 1))};
  const auto ops = reductions_of(call.type);
  call.op = ops[between(random, 0, ops.size() - 1)];
  call.count = one_in(random, 3) ? between(random, 1, 30) : between(random, 1, 3000);
  return call;
}

TEST(CpuDrivenOnCpu, RandomGroupsTypesAndCounts) {
  int to_local = 0, to_cpu = 0, broadcasts = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const CpuDriven queues = seed % 2 == 0 ? CpuDriven::kOneQueue : CpuDriven::kQueuePerCta;
    World world(random_groups(random), seed, {queues, static_cast<uint32_t>(between(random, 1, 3)), 50, 100'000});
    if (seed % 3 != 0) world.find_races();
    world.make_calls(random_sum(random), 1 << between(random, 0, 2), 3);
    ASSERT_NO_THROW(world.run());
    world.check();
    to_local += world.requests(WorkAction::kToLocal);
    to_cpu += world.requests(WorkAction::kToCpu);
    broadcasts += world.requests(WorkAction::kGroupBroadcast);
  }
  EXPECT_GT(to_local, 100);
  EXPECT_GT(to_cpu, 100);
  EXPECT_GT(broadcasts, 100);
}

// Up to sixteen groups: no host waits for one that waits for it.
TEST(CpuDrivenOnCpu, AnyNumberOfGroups) {
  for (const int count : {2, 3, 5, 8, 16}) {
    SCOPED_TRACE(std::to_string(count) + " groups");
    std::vector<std::vector<int>> groups;
    for (int g = 0; g < count; ++g) groups.push_back({g});
    World world(groups, static_cast<uint64_t>(count), {CpuDriven::kOneQueue, 1, 100, 100'000});
    world.make_calls({Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1000}, 1, 2);
    ASSERT_NO_THROW(world.run());
    world.check();
  }
}

// Hosts stop, and so do their kernels.
TEST(CpuDrivenOnCpu, AnAbortEndsAllProxies) {
  for (uint64_t turns : {1u, 20u, 100u, 300u}) {
    World world({{0, 1}, {2}}, turns, {CpuDriven::kOneQueue, 2, 1000, 100'000});
    world.make_calls({Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 2000}, 2, 1000);
    world.abort_after(turns);
    EXPECT_NO_THROW(world.run());
  }
}

}  // namespace
}  // namespace plait

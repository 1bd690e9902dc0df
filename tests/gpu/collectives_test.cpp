// Collectives on GPUs, all ranks in this process: every type, operation, protocol and algorithm that a launch can
// carry, eager and captured, and ranks that fail.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "support/seed.hpp"
#include "world.hpp"

namespace plait {
namespace {

using test::captured_in_turn;
using test::Graph;
using test::launch;
using test::World;

// The offsets of a call's buffers in the world's buffers.
struct Buffers {
  size_t offset = 0;  // bytes, of input and output
  bool in_place = false;
  size_t shift = 0;  // extra bytes for the output's offset, if it is not in place
};

size_t element_bytes(const Call& call) { return size_of(call.type); }

const std::byte* input_of(World& world, const Call& call, int r, const Buffers& buffers) {
  if (!buffers.in_place) return world.input(r) + buffers.offset;
  const size_t block = call.count * element_bytes(call);
  return world.output(r) + buffers.offset + (gathers(call.collective) ? r * block : 0);
}

std::byte* output_of(World& world, const Call& call, int r, const Buffers& buffers) {
  const size_t block = call.count * element_bytes(call);
  const bool own_block = buffers.in_place && scatters(call.collective);
  return world.output(r) + buffers.offset + (own_block ? r * block : 0) + (buffers.in_place ? 0 : buffers.shift);
}

void upload(World& world, const Call& call, const Buffers& buffers, int variant) {
  for (int r = 0; r < world.size(); ++r) {
    const size_t bytes = input_elements(call, world.size(), r) * element_bytes(call);
    std::vector<std::byte> input(bytes);
    fill_input(call, world.size(), r, variant, input.data());
    check_cuda(cudaMemcpyAsync(const_cast<std::byte*>(input_of(world, call, r, buffers)), input.data(), bytes,
                               cudaMemcpyHostToDevice, world.stream(r)),
               "upload");
    check_cuda(cudaStreamSynchronize(world.stream(r)), "upload");
  }
}

// Enqueues the call on all ranks.
void enqueue(World& world, const Call& call, const Buffers& buffers) {
  for (int r = 0; r < world.size(); ++r) {
    world.rank(r).enqueue(call, input_of(world, call, r, buffers), output_of(world, call, r, buffers), world.stream(r));
  }
}

long wrong(World& world, const Call& call, const Buffers& buffers, int variant, bool multiplied = false) {
  long count = 0;
  for (int r = 0; r < world.size(); ++r) {
    const size_t bytes = output_elements(call, world.size(), r) * element_bytes(call);
    std::vector<std::byte> output(bytes);
    check_cuda(cudaMemcpy(output.data(), output_of(world, call, r, buffers), bytes, cudaMemcpyDeviceToHost),
               "download");
    count += static_cast<long>(count_wrong(call, world.size(), r, variant, output.data(), multiplied));
    if (const auto error = world.rank(r).async_error()) throw *error;
  }
  return count;
}

long run(World& world, const Call& call, const Buffers& buffers, int variant) {
  upload(world, call, buffers, variant);
  enqueue(world, call, buffers);
  world.synchronize();
  return wrong(world, call, buffers, variant);
}

std::string describe(World& world, const Call& call, const Buffers& buffers) {
  return join(to_text(call), " over ", world.size(), " ranks, ", world.rank(0).plan_for(call).plan().algorithm, ", ",
              world.rank(0).launch_for(call), ", offset ", buffers.offset, buffers.in_place ? ", in place" : "");
}

// Settings of a communicator.
struct Mode {
  const char* algorithm;
  const char* launch;
};

Settings settings_for(const Mode& mode) {
  Settings settings;
  settings.algorithm = mode.algorithm;
  settings.launch = mode.launch;
  settings.timeout_seconds = 10;
  return settings;
}

constexpr Collective kCollectives[] = {Collective::kAllReduce,     Collective::kReduce,    Collective::kBroadcast,
                                       Collective::kReduceScatter, Collective::kAllGather, Collective::kGather,
                                       Collective::kScatter,       Collective::kAllToAll,  Collective::kBarrier};
static_assert(std::size(kCollectives) == kCollectiveCount);

// All protocols and algorithms, each with counts that make one slice, several, and many.
void test_everything() {
  const Mode modes[] = {
      {"", ""},
      {"all_reduce:flat(store),reduce:flat(store),broadcast:flat(store)", "Simple:3x128"},
      {"all_reduce:flat(store),reduce:flat(store),broadcast:flat(store)", "LL:5x96"},
      {"all_reduce:one_shot(store),reduce:one_shot(store),broadcast:one_shot(store)", "LL:2x64"},
      {"all_reduce:flat(store),reduce:flat(store),broadcast:flat(store)", "LL128:3x128"},
      {"all_reduce:one_shot(store),reduce:one_shot(store),broadcast:one_shot(store)", "LL128:4x512"},
      {"all_reduce:one_shot(store),reduce:one_shot(store),broadcast:one_shot(store)", "Simple:2x512"},
      {"all_reduce:flat(store, parts=2),reduce:flat(store, parts=2),broadcast:flat(store, "
       "parts=2),reduce_scatter:flat(store, parts=2),all_gather:flat(store, parts=2)",
       "Simple:4x128"},
      {"all_reduce:one_shot(store, parts=2),reduce:one_shot(store, parts=2),broadcast:one_shot(store, parts=2)",
       "Simple:3x64"},
      {"all_reduce:ring,reduce_scatter:ring,all_gather:ring,broadcast:binomial,reduce:binomial", "Simple:2x64"},
      {"broadcast:chain(store, parts=4),reduce:chain(store, parts=4)", "Simple:3x128"},
      {"all_reduce:flat(both),reduce:flat(both),broadcast:flat(both),reduce_scatter:flat(both),all_gather:flat(both),"
       "gather:flat(both),scatter:flat(both),all_to_all:flat(both)",
       "Simple:2x128"},
      {"broadcast:chain(store, parts=1),reduce:chain(store, parts=1)", "LL128:2x128"},
      {"all_reduce:flat,reduce_scatter:flat,all_gather:flat,broadcast:flat,reduce:flat", "Simple:4x256"},
      {"all_reduce:flat(store, parts=2),reduce:flat(store, parts=2),broadcast:flat(store, "
       "parts=2),reduce_scatter:flat(store, parts=2),all_gather:flat(store, parts=2)",
       "Simple:2x128+2:40%"},
  };
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const Mode& mode : modes) {
      World world(ranks, settings_for(mode));
      int variant = 0;
      for (const Collective collective : kCollectives) {
        for (int type = 0; type < kDataTypeCount; ++type) {
          for (const ReduceOp op : reductions_of(static_cast<DataType>(type))) {
            if (!reduces(collective) && op != ReduceOp::kSum) continue;
            for (const size_t count : {0, 1, 129, 5000, 5003}) {
              Call call{collective, static_cast<DataType>(type), op, has_root(collective) ? ranks - 1 : 0, count};
              if (collective == Collective::kBarrier) call = Call{};
              const Buffers buffers{static_cast<size_t>(variant % 3) * element_bytes(call), variant % 2 == 1};
              const long errors = run(world, call, buffers, ++variant);
              EXPECT_EQ(errors, 0) << describe(world, call, buffers) << ": " << errors << " wrong";
              if (collective == Collective::kBarrier) break;
            }
          }
          if (collective == Collective::kBarrier) break;
        }
      }
    }
  }
}

void test_large() {
  for (const int ranks : {2, 4}) {
    for (const Mode& mode :
         {Mode{"", ""}, Mode{"", "LL:16x512"}, Mode{"", "LL128:32x512"}, Mode{"", "Simple:7x512"},
          Mode{"all_reduce:flat(store, parts=2),reduce:flat(store, parts=2),broadcast:flat(store, parts=2)",
               "Simple:10x256"},
          Mode{"", "Simple:4x256+4:20%"}}) {
      World world(ranks, settings_for(mode));
      int variant = 0;
      for (const Collective collective : kCollectives) {
        if (collective == Collective::kBarrier) continue;
        for (const size_t bytes : {size_t{100'000}, size_t{1} << 20, size_t{16} << 20, size_t{40} << 20}) {
          const size_t blocks = has_rank_blocks(collective) ? static_cast<size_t>(ranks) : 1;
          const size_t odd = bytes == size_t{1} << 20 || bytes == size_t{16} << 20 ? 0 : 1;
          const Call call{collective, DataType::kFloat32, ReduceOp::kSum, 0, bytes / 4 / blocks + odd};
          const Buffers buffers{0, variant % 2 == 1};
          const long errors = run(world, call, buffers, ++variant);
          EXPECT_EQ(errors, 0) << describe(world, call, buffers) << ": " << errors << " wrong";
        }
      }
    }
  }
}

Call random_call(std::mt19937& random, int ranks) {
  const auto pick = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  Call call;
  call.collective = kCollectives[pick(0, kCollectiveCount - 1)];
  if (call.collective == Collective::kBarrier) return call;
  call.type = static_cast<DataType>(pick(0, kDataTypeCount - 1));
  if (reduces(call.collective)) {
    const auto had = reductions_of(call.type);
    call.op = had[static_cast<size_t>(pick(0, static_cast<int>(had.size()) - 1))];
  }
  if (has_root(call.collective)) call.root = pick(0, ranks - 1);
  call.count = pick(0, 3) == 0 ? pick(0, 200'000) : pick(0, 3000);
  return call;
}

// Calls of all kinds one after the other, without a pause between some of them.
void test_random(int calls, unsigned seed) {
  std::mt19937 random(seed);
  const Mode modes[] = {{"", ""}, {"", "Simple:6x128+3:35%"}};
  for (const int ranks : {2, 4}) {
    for (const Mode& mode : modes) {
      World world(ranks, settings_for(mode));
      for (int i = 0; i < calls / 4; ++i) {
        const Call call = random_call(random, ranks);
        const Buffers buffers{(random() % 5) * element_bytes(call), random() % 2 == 1};
        for (unsigned ahead = random() % 4; ahead > 0; --ahead) {  // work under way that nobody waits for
          enqueue(world, random_call(random, ranks), {});
        }
        const long errors = run(world, call, buffers, i);
        EXPECT_EQ(errors, 0) << "random call " << i << " of seed " << seed << ": " << describe(world, call, buffers)
                             << ": " << errors << " wrong";
      }
    }
  }
}

// Three calls are captured, replayed, and mixed with eager ones on another stream. With two ranks, long ones have
// another plan for their last slices.
void test_graphs(int ranks, const Mode& mode) {
  World world(ranks, settings_for(mode));
  const Call calls[] = {{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1000},
                        {Collective::kAllReduce, DataType::kBfloat16, ReduceOp::kMax, 0, 3'000'000},
                        {Collective::kAllGather, DataType::kFloat32, ReduceOp::kSum, 0, 1'000'001},
                        {Collective::kBroadcast, DataType::kInt32, ReduceOp::kSum, 1, 77}};
  for (const Call& call : calls) {
    const std::vector<Graph> graphs = captured_in_turn(world, [&](int r) {
      for (int i = 0; i < 3; ++i) {
        world.rank(r).enqueue(call, input_of(world, call, r, {}), output_of(world, call, r, {}), world.stream(r));
      }
    });
    for (int replay = 0; replay < 5; ++replay) {
      upload(world, call, {}, replay);
      for (int r = 0; r < world.size(); ++r) {
        const DeviceGuard guard(world.device(r));
        check_cuda(cudaMemsetAsync(world.output(r), 0xee, 1 << 20, world.stream(r)), "clearing");
      }
      launch(world, graphs);
      world.synchronize();
      const long errors = wrong(world, call, {}, replay);
      EXPECT_EQ(errors, 0) << "replay " << replay << " of " << describe(world, call, {}) << ": " << errors << " wrong";
      const long eager = run(world, call, {}, replay + 100);
      EXPECT_EQ(eager, 0) << "eager after replay " << replay << " of " << to_text(call) << ": " << eager << " wrong";
    }
  }
}

// A capture that is already invalid fails the call. No part of it runs, and the communicator goes on.
void test_spoiled_capture() {
  for (const char* const launch : {"", "Simple:4x128+2:25%"}) {
    World world(2, settings_for({"", launch}));
    const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 300'000};
    for (int r = 0; r < world.size(); ++r) {
      const DeviceGuard guard(world.device(r));
      check_cuda(cudaStreamBeginCapture(world.stream(r), cudaStreamCaptureModeGlobal), "capture");
      void* memory = nullptr;
      const bool spoils = cudaMalloc(&memory, 1 << 20) != cudaSuccess;
      cudaGetLastError();
      bool refused = false;
      try {
        world.rank(r).enqueue(call, input_of(world, call, r, {}), output_of(world, call, r, {}), world.stream(r));
      } catch (const Error&) {
        refused = true;
      }
      cudaGraph_t graph = nullptr;
      cudaStreamEndCapture(world.stream(r), &graph);
      cudaGetLastError();
      EXPECT_TRUE(spoils && refused) << "a call in a spoiled capture is refused, " << launch;
    }
    const long errors = run(world, call, {}, 1);
    EXPECT_EQ(errors, 0) << "after a spoiled capture, " << launch << ": " << errors << " wrong";
  }
}

// The exact factors of every rank, in memory of its GPU.
class DeviceFactors {
 public:
  explicit DeviceFactors(World& world) : world_(world) {
    for (int r = 0; r < world.size(); ++r) {
      const DeviceGuard guard(world.device(r));
      check_cuda(cudaMalloc(&memory_.emplace_back(), kBytes), "memory for factors");
    }
  }
  ~DeviceFactors() {
    for (int r = 0; r < world_.size(); ++r) {
      const DeviceGuard guard(world_.device(r));
      cudaFree(memory_[r]);
    }
  }
  DeviceFactors(const DeviceFactors&) = delete;
  DeviceFactors& operator=(const DeviceFactors&) = delete;

  void clear() {
    for (int r = 0; r < world_.size(); ++r) {
      const DeviceGuard guard(world_.device(r));
      check_cuda(cudaMemset(memory_[r], 0, kBytes), "clearing factors");
      check_cuda(cudaDeviceSynchronize(), "clearing factors");
    }
  }
  void set(DataType type) {
    for (int r = 0; r < world_.size(); ++r) {
      const DeviceGuard guard(world_.device(r));
      const Scalar factor = exact_scalar(type, r);
      check_cuda(cudaMemcpy(memory_[r], factor.value.data(), kBytes, cudaMemcpyHostToDevice), "setting factors");
    }
  }
  // A scalar in device memory; its host value must not be used.
  Scalar on(int r, DataType type) const {
    Scalar factor;
    factor.type = type;
    factor.value.fill(std::byte{0x77});
    factor.on_device = memory_[r];
    return factor;
  }

 private:
  static constexpr size_t kBytes = 8;
  World& world_;
  std::vector<void*> memory_;
};

void enqueue_multiplied(World& world, const Call& call, const Buffers& buffers, const DeviceFactors* on_device) {
  for (int r = 0; r < world.size(); ++r) {
    const Scalar factor = on_device != nullptr ? on_device->on(r, call.type) : exact_scalar(call.type, r);
    world.rank(r).enqueue(call, input_of(world, call, r, buffers), output_of(world, call, r, buffers), world.stream(r),
                          &factor);
  }
}

// How many elements of the inputs have changed since upload(). In place, only those that hold no output are checked.
long changed_inputs(World& world, const Call& call, const Buffers& buffers, int variant) {
  long count = 0;
  for (int r = 0; r < world.size(); ++r) {
    if (buffers.in_place && (call.collective != Collective::kReduce || r == call.root)) continue;
    const size_t bytes = input_elements(call, world.size(), r) * element_bytes(call);
    std::vector<std::byte> expected(bytes), found(bytes);
    fill_input(call, world.size(), r, variant, expected.data());
    check_cuda(cudaMemcpy(found.data(), input_of(world, call, r, buffers), bytes, cudaMemcpyDeviceToHost), "download");
    for (size_t i = 0; i < bytes; ++i) count += expected[i] != found[i];
  }
  return count;
}

constexpr Collective kSumming[] = {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter};

// Pre-multiplied sums of every type, with factors by value and on the GPU, and buffers that are equally aligned or not.
void test_premultiplied() {
  for (const int ranks : {1, 2, 3, 4}) {
    World world(ranks, settings_for({"", ""}));
    DeviceFactors factors(world);
    int variant = 0;
    for (int t = 0; t < kDataTypeCount; ++t) {
      const auto type = static_cast<DataType>(t);
      factors.set(type);
      for (const Collective collective : kSumming) {
        for (const size_t count : {0, 1, 129, 5003, 700'001}) {
          for (const bool in_place : {false, true}) {
            const Call call{collective, type, ReduceOp::kSum, has_root(collective) ? ranks - 1 : 0, count};
            const auto element = element_bytes(call);
            const Buffers buffers{variant % 3 * element, in_place, variant % 4 * element};
            ++variant;
            const bool on_device = variant % 5 < 2;
            upload(world, call, buffers, variant);
            enqueue_multiplied(world, call, buffers, on_device ? &factors : nullptr);
            world.synchronize();
            const long errors = wrong(world, call, buffers, variant, true);
            const long changed = changed_inputs(world, call, buffers, variant);
            EXPECT_TRUE(errors == 0 && changed == 0)
                << "pre-multiplied " << describe(world, call, buffers) << ", output " << buffers.shift
                << " bytes further" << (on_device ? ", factor on the GPU: " : ": ") << errors << " wrong, " << changed
                << " bytes of inputs changed";
          }
        }
      }
    }
  }
}

// A graph reads the factors when it is replayed, and keeps its memory for products.
void test_premultiplied_graphs() {
  World world(3, settings_for({"", ""}));
  DeviceFactors factors(world);
  for (const Collective collective : kSumming) {
    for (const size_t count : {1000, 2'000'000}) {
      const Call call{collective, DataType::kFloat32, ReduceOp::kSum, 0, count};
      factors.clear();
      const std::vector<Graph> graphs = captured_in_turn(world, [&](int r) {
        const Scalar factor = factors.on(r, call.type);
        for (int i = 0; i < 2; ++i) {
          world.rank(r).enqueue(call, input_of(world, call, r, {}), output_of(world, call, r, {}), world.stream(r),
                                &factor);
        }
      });
      factors.set(call.type);
      for (int replay = 0; replay < 4; ++replay) {
        upload(world, call, {}, replay);
        launch(world, graphs);
        if (replay % 2 == 1) enqueue_multiplied(world, call, {}, nullptr);
        world.synchronize();
        const long errors = wrong(world, call, {}, replay, true);
        const long changed = changed_inputs(world, call, {}, replay);
        EXPECT_TRUE(errors == 0 && changed == 0)
            << "pre-multiplied, replay " << replay << " of " << to_text(call) << ": " << errors << " wrong, " << changed
            << " bytes of inputs changed";
      }
    }
  }
}

// Two threads per rank make its calls in turn, each on the stream that has the same name in all threads.
void call_in_turn(World& world, const Call& call) {
  std::vector<std::thread> threads;
  std::array<std::atomic<int>, 2> turns{};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, r = thread / 2, parity = thread % 2] {
      const DeviceGuard guard(world.device(r));
      std::atomic<int>& turn = turns[static_cast<size_t>(r)];
      for (int i = parity; i < 100; i += 2) {
        while (turn != i) std::this_thread::yield();
        world.rank(r).enqueue(call, world.input(r), world.output(r), cudaStreamPerThread);
        ++turn;
      }
      cudaStreamSynchronize(cudaStreamPerThread);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Two communicators at once, and one communicator on changing streams.
void test_streams(const Mode& mode) {
  World first(2, settings_for(mode)), second(2, settings_for(mode));
  const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 500'000};
  for (int i = 0; i < 50; ++i) {
    upload(first, call, {}, i);
    upload(second, call, {}, i + 1);
    enqueue(first, call, {});
    enqueue(second, call, {});
    first.synchronize();
    second.synchronize();
    EXPECT_EQ(wrong(first, call, {}, i) + wrong(second, call, {}, i + 1), 0) << "two communicators at once";
  }
  std::vector<cudaStream_t> streams(2 * 2);
  for (int i = 0; i < 4; ++i) {
    const DeviceGuard guard(first.device(i % 2));
    check_cuda(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking), "a stream");
  }
  upload(first, call, {}, 7);
  for (int i = 0; i < 100; ++i) {
    for (int r = 0; r < 2; ++r) {
      first.rank(r).enqueue(call, first.input(r), first.output(r), streams[(i % 2) * 2 + r]);
    }
  }
  for (int i = 0; i < 4; ++i) check_cuda(cudaStreamSynchronize(streams[i]), "synchronizing");
  EXPECT_EQ(wrong(first, call, {}, 7), 0) << "one communicator on changing streams";
  for (const cudaStream_t stream : streams) cudaStreamDestroy(stream);
}

void test_streams_of_threads(const Mode& mode) {
  World world(2, settings_for(mode));
  const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 500'000};
  upload(world, call, {}, 9);
  call_in_turn(world, call);
  EXPECT_EQ(wrong(world, call, {}, 9), 0) << "one communicator on the streams of several threads";
}

// `act` must end with an error on rank 0 that has the code and the words.
void expect_failure(World& world, const std::string& what, ErrorCode code, const std::string& words) {
  for (int tries = 0; tries < 100 && !world.rank(0).async_error(); ++tries) usleep(100'000);
  const auto error = world.rank(0).async_error();
  EXPECT_TRUE(error && error->code() == code && std::string(error->what()).find(words) != std::string::npos)
      << what << " should say '" << words << "', says: " << (error ? error->what() : "nothing");
  bool refused = false;
  try {
    world.rank(0).enqueue(Call{}, nullptr, nullptr, world.stream(0));
  } catch (const Error&) {
    refused = true;
  }
  EXPECT_TRUE(refused) << (what + " should end the communicator");
  world.synchronize();  // no kernel may be left spinning
}

// Each rank is the root, or sends to another one, so no kernel waits. Ranks learn of it at the end, or soon in a loop.
void test_roots_that_differ() {
  const auto expect_mismatch = [&](const Call& call, const char* where, const auto& body) {
    try {
      body();
      ADD_FAILURE() << to_text(call) << ", other roots: nobody noticed " << where;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMismatch) << error.what();
    }
  };
  for (const Collective collective :
       {Collective::kBroadcast, Collective::kReduce, Collective::kGather, Collective::kScatter}) {
    const bool gives = collective == Collective::kReduce || collective == Collective::kGather;
    World ending(2, settings_for({"", ""})), calling(2, settings_for({"", ""}));
    const auto enqueue = [&](World& world, int r) {
      const Call call{collective, DataType::kFloat32, ReduceOp::kSum, gives ? 1 - r : r, 100};
      world.rank(r).enqueue(call, world.input(r), world.output(r), world.stream(r));
    };
    const Call of_zero{collective, DataType::kFloat32, ReduceOp::kSum, gives ? 1 : 0, 100};
    for (const int r : {0, 1}) enqueue(ending, r);
    for (const int r : {0, 1}) expect_mismatch(of_zero, "at the end", [&] { ending.rank(r).close(); });
    expect_mismatch(of_zero, "in a loop", [&] {
      for (int i = 0; i < 200'000; ++i) enqueue(calling, i % 2);
    });
  }
}

void test_failures() {
  const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 100};
  const Call large{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 4'000'000};
  for (const Call& made : {call, large}) {
    Settings settings = settings_for({"", ""});
    settings.timeout_seconds = 0.5;
    World world(2, settings);
    world.rank(0).enqueue(made, world.input(0), world.output(0), world.stream(0));
    expect_failure(world, "a rank that never calls", ErrorCode::kTimeout, "allows for rank 1 at");
  }
  {
    World world(2, settings_for({"", ""}));
    world.rank(0).enqueue(large, world.input(0), world.output(0), world.stream(0));
    Call other = large;
    other.op = ReduceOp::kMax;
    world.rank(1).enqueue(other, world.input(1), world.output(1), world.stream(1));
    expect_failure(world, "another call", ErrorCode::kMismatch, "differs between ranks");
  }
  {
    World world(2, settings_for({"", ""}));
    world.rank(0).enqueue(call, world.input(0), world.output(0), world.stream(0));
    std::thread other([&] { world.rank(1).abort("the test says so"); });
    other.join();
    expect_failure(world, "abort", ErrorCode::kPeerFailed, "the test says so");
  }
  {  // refused before anything has happened
    World world(2, settings_for({"", ""}));
    for (const size_t r : {0, 1}) {
      try {
        world.rank(r).enqueue(call, world.input(r) + 2, world.output(r), world.stream(r));
        ADD_FAILURE() << "an input between two elements was not refused";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      }
    }
    EXPECT_EQ(run(world, call, {}, 1), 0) << "wrong after a refusal";
  }
}

TEST(Collectives, EveryMode) { test_everything(); }
TEST(Collectives, LargeMessages) { test_large(); }
TEST(Collectives, RandomCalls) { test_random(test::times_to_try(3000), static_cast<unsigned>(test::run_seed())); }
TEST(Collectives, Graphs) {
  for (const int ranks : {2, 3}) test_graphs(ranks, {"", ""});
  test_graphs(3, {"", "Simple:4x128+2:25%"});
}
TEST(Collectives, SpoiledCapture) { test_spoiled_capture(); }
TEST(Collectives, PreMultipliedSums) { test_premultiplied(); }
TEST(Collectives, GraphsOfPreMultipliedSums) { test_premultiplied_graphs(); }
TEST(Collectives, Streams) {
  test_streams({"", ""});
  test_streams({"", "Simple:8x256+2:25%"});
}
TEST(Collectives, StreamsOfThreads) {
  test_streams_of_threads({"", ""});
  test_streams_of_threads({"", "Simple:8x256+2:25%"});
}
TEST(Collectives, Failures) { test_failures(); }
TEST(Collectives, RootsThatDiffer) { test_roots_that_differ(); }

}  // namespace
}  // namespace plait

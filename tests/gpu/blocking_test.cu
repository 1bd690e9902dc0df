// Blocking calls on GPUs: right results whether the persistent kernel serves them or they are launched, beside streams
// and graphs and beside a kernel that needs all SMs, which work requests of CPUs let in as well; and ranks that do not
// come, die or abort.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "api/communicator.hpp"
#include "base/deadline.hpp"
#include "bench/exact_input.hpp"
#include "machine.hpp"
#include "runtime/cuda/cpu_driven/cuda_reduces.hpp"
#include "support/outcome.hpp"
#include "support/random_calls.hpp"
#include "support/rank_processes.hpp"
#include "world.hpp"

namespace plait::test {
namespace {

constexpr size_t kMostBytes = 4 << 20;

// Ranks that share a GPU and are processes take turns on it, each for about a millisecond.
int calls_for(int ranks) { return ranks <= gpus() ? 600 : 40; }

Settings settings_with(int ctas, int idle_us = 200) {
  Settings settings;
  settings.timeout_seconds = 30;
  settings.persistent_ctas = ctas;
  settings.persistent_idle_us = idle_us;
  return settings;
}

// Mostly short, so that the kernel serves them; sums and others.
Call random_blocking_call(Random& random, int ranks) {
  Call call = random_call(random, ranks);
  if (one_in(random, 2)) call = {Collective::kAllReduce, call.type, ReduceOp::kSum, 0, 1};
  if (call.collective == Collective::kBarrier) return call;
  const size_t most = kMostBytes / size_of(call.type) / static_cast<size_t>(ranks);
  call.count = between(random, 0, one_in(random, 10) ? most : one_in(random, 2) ? 2000 : 20);
  return call;
}

// The buffers of one rank, on its GPU. Threads take the world's: to allocate memory, CUDA may wait for kernels.
struct RankBuffers {
  RankBuffers() : RankBuffers(allocate(kMostBytes + kRoom), allocate(kMostBytes + kRoom)) {}
  RankBuffers(World& world, int rank) : RankBuffers(world.input(rank), world.output(rank)) {}
  RankBuffers(std::byte* its_input, std::byte* its_output) : input(its_input), output(its_output), host(kMostBytes) {}

  static constexpr size_t kRoom = 64;  // for offsets
  std::byte* input;
  std::byte* output;
  std::vector<std::byte> host;
};

void download_and_check(const Communicator& comm, const Call& call, int variant, const std::byte* output,
                        RankBuffers& buffers) {
  const size_t bytes = output_elements(call, comm.size(), comm.rank()) * size_of(call.type);
  check_cuda(cudaMemcpy(buffers.host.data(), output, bytes, cudaMemcpyDeviceToHost), "download");
  const size_t wrong = count_wrong(call, comm.size(), comm.rank(), variant, buffers.host.data());
  require(wrong == 0, wrong, " elements are wrong: ", to_text(call));
}

// A copy from pageable memory may still be under way when cudaMemcpy() returns.
void copy_in(std::byte* to, const void* from, size_t bytes) {
  check_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "upload");
  check_cuda(cudaStreamSynchronize(nullptr), "the end of the upload");
}

void upload(const Communicator& comm, const Call& call, int variant, std::byte* input, RankBuffers& buffers) {
  const size_t bytes = input_elements(call, comm.size(), comm.rank()) * size_of(call.type);
  if (bytes == 0) return;
  fill_input(call, comm.size(), comm.rank(), variant, buffers.host.data());
  copy_in(input, buffers.host.data(), bytes);
}

// One call, blocking or on a stream, with buffers at one of a few places, so that the kernel knows some calls.
void make_call(Communicator& comm, cudaStream_t stream, const Call& call, int variant, bool blocks, size_t offset,
               RankBuffers& buffers) {
  std::byte* const input = buffers.input + offset * size_of(call.type);
  std::byte* const output = buffers.output + offset * size_of(call.type);
  upload(comm, call, variant, input, buffers);
  comm.enqueue(call, input, output, blocks ? kBlockingStream : stream);
  if (!blocks) {
    check_cuda(cudaStreamSynchronize(stream), "waiting for the GPU");
    if (const auto error = comm.async_error()) throw *error;
  }
  download_and_check(comm, call, variant, output, buffers);
}

// Tests whose ranks are processes come first (gpus.hpp).

TEST(Blocking, RandomCallsOfProcesses) {
  const uint64_t seed = run_seed();
  for (const auto& [ctas, idle_us] : {std::pair{16, 200}, {1, 20}, {4, 1'000'000}, {0, 200}}) {
    const int ranks = std::min(gpus(), 4) == 1 ? 2 : std::min(gpus(), 4);
    on_processes(join(ctas, " CTAs"), ranks, settings_with(ctas, idle_us), [&](Communicator& comm, cudaStream_t s) {
      RankBuffers buffers;
      Random random(seed), own(seed + static_cast<uint64_t>(comm.rank()));
      for (int i = 0; i < calls_for(ranks); ++i) {
        const Call call = random_blocking_call(random, ranks);
        const bool blocks = !one_in(random, 6);
        const size_t offset = between(random, 0, 3);
        if (one_in(own, 20)) ::usleep(static_cast<useconds_t>(between(own, 0, 2000)));  // the kernel leaves, or not
        make_call(comm, s, call, i, blocks, offset, buffers);
      }
      require((comm.served_calls() > 0) == (ctas > 0), comm.served_calls(), " calls were served by ", ctas, " CTAs");
    });
  }
}

// The same few buffers, so that requests carry a word only; the result of a call is the input of the next one.
TEST(Blocking, CallsThatFollowEachOther) {
  const int ranks = gpus() >= 2 ? 2 : 1;
  on_processes("calls in a row", ranks, settings_with(16), [&](Communicator& comm, cudaStream_t) {
    const Call call{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 4096};
    std::byte* const buffer = allocate(call.count * 4);
    std::vector<int32_t> values(call.count);
    for (int round = 0; round < 200; ++round) {
      for (size_t i = 0; i < call.count; ++i) values[i] = static_cast<int32_t>(i) + round;
      copy_in(buffer, values.data(), call.count * 4);
      for (int i = 0; i < 5; ++i) comm.enqueue(call, buffer, buffer, kBlockingStream);
      check_cuda(cudaMemcpy(values.data(), buffer, call.count * 4, cudaMemcpyDeviceToHost), "download");
      int32_t factor = 1;
      for (int i = 0; i < 5; ++i) factor *= comm.size();
      for (size_t i = 0; i < call.count; ++i) {
        require(values[i] == (static_cast<int32_t>(i) + round) * factor, "round ", round, ", element ", i);
      }
    }
    require(comm.served_calls() > 0 || comm.size() == 1, "no call was served");
  });
}

// ---- Faults

struct FaultProgress {
  std::atomic<int> calls[2];
};

// What ends rank 1 in the middle of its calls, and what rank 0 must say, within seconds.
struct BlockingFault {
  int signal;  // to rank 1; 0: it makes no more calls
  double timeout_seconds;
  ErrorCode code;
};

void expect_named(const BlockingFault& fault, size_t count) {
  const UniqueId id = new_id();
  Settings settings = settings_with(16);
  settings.timeout_seconds = fault.timeout_seconds;
  Shared<FaultProgress> progress;
  RankProcesses ranks(2, [&](int rank) {
    const int device = rank % cuda_device_count();
    const DeviceGuard guard(device);
    Communicator comm = Communicator::create(id, rank, 2, settings, device);
    const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, count};
    std::byte* const buffer = allocate(count * 4);
    check_cuda(cudaMemset(buffer, 0, count * 4), "setting");
    for (int i = 0; rank == 0 || fault.signal != 0 || i < 20; ++i) {
      comm.enqueue(call, buffer, buffer, kBlockingStream);
      ++progress->calls[rank];
    }
    ::pause();
  });
  const Deadline deadline = Deadline::after(60);
  while ((progress->calls[0] < 10 || progress->calls[1] < 10) && !deadline.passed() && !ranks.has_ended(0)) {
    ::usleep(1000);
  }
  if (fault.signal == SIGKILL) {
    ranks.kill(1);
  } else if (fault.signal != 0) {
    ranks.signal(1, fault.signal);
  }
  const Deadline heard = Deadline::after(25);
  while (!ranks.has_ended(0) && !heard.passed()) ::usleep(1000);
  const bool in_time = ranks.has_ended(0);
  const Outcomes outcomes = ranks.wait(1);
  EXPECT_EQ(in_time ? objection(outcomes[0], fault.code, {"rank 1"}) : "it did not hear in time", "")
      << "signal " << fault.signal << ", " << count << " elements";
}

TEST(Blocking, ARankThatIsKilledStoppedOrDoesNotCome) {
  for (const size_t count : {size_t{10}, size_t{8192}, size_t{1} << 20}) {
    expect_named({SIGKILL, 60, ErrorCode::kPeerFailed}, count);
    expect_named({SIGSTOP, 2, ErrorCode::kTimeout}, count);
    expect_named({0, 2, ErrorCode::kTimeout}, count);
  }
}

// ---- In one process, a thread for each rank

// Lets every rank's thread do `work`, and rethrows what one of them threw.
template <class Work>
void in_threads(World& world, const Work& work) {
  std::vector<std::string> errors(static_cast<size_t>(world.size()));
  std::vector<std::thread> threads;
  for (int r = 0; r < world.size(); ++r) {
    threads.emplace_back([&, r] {
      try {
        const DeviceGuard guard(world.device(r));
        work(r);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(r)] = error.what();
        world.rank(r).abort(error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int r = 0; r < world.size(); ++r) EXPECT_EQ(errors[static_cast<size_t>(r)], "") << "rank " << r;
}

// Ranks that share a GPU, too: the kernels of all are on it at once.
TEST(Blocking, RandomCallsOfThreads) {
  const uint64_t seed = run_seed();
  for (const int ranks : {1, 2, 3}) {
    World world(ranks, settings_with(8));
    in_threads(world, [&](int r) {
      RankBuffers buffers(world, r);
      Random random(seed);
      for (int i = 0; i < 300; ++i) {
        const Call call = random_blocking_call(random, ranks);
        const bool blocks = !one_in(random, 6);
        make_call(world.rank(r), world.stream(r), call, i, blocks, between(random, 0, 3), buffers);
      }
    });
  }
}

// Graphs change the state of channels behind the back of a kernel that stays.
TEST(Blocking, GraphsBetweenBlockingCalls) {
  World world(2, settings_with(16, 100'000));
  const Call call{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 3000};
  in_threads(world, [&](int r) {
    Communicator& comm = world.rank(r);
    RankBuffers buffers(world, r);
    comm.enqueue(call, buffers.input, buffers.output, kBlockingStream);
    const Graph graph(world.stream(r), [&] {
      comm.enqueue(call, buffers.input, buffers.output, world.stream(r));
      comm.enqueue(call, buffers.input, buffers.output, world.stream(r));
    });
    for (int i = 0; i < 100; ++i) {
      upload(comm, call, i, buffers.input, buffers);
      if (i % 3 == 2) {
        graph.launch();
        check_cuda(cudaStreamSynchronize(world.stream(r)), "waiting for the GPU");
      } else {
        comm.enqueue(call, buffers.input, buffers.output, kBlockingStream);
      }
      download_and_check(comm, call, i, buffers.output, buffers);
    }
    require(comm.served_calls() > 0, "no call was served");
  });
}

// All CTAs wait for each other, each on an SM of its own, for ten seconds at most.
__global__ void meet(unsigned* arrived, unsigned* failed) {
  extern __shared__ char room[];
  if (threadIdx.x != 0) return;
  room[0] = 0;
  atomicAdd(arrived, 1);
  const long long since = clock64();
  while (*static_cast<volatile unsigned*>(arrived) < gridDim.x) {
    if (clock64() - since < 20'000'000'000) continue;
    *failed = 1;
    return;
  }
}

void launch_on_all_sms(cudaStream_t stream, unsigned* counts) {
  int device = 0, sms = 0, room = 0;
  check_cuda(cudaGetDevice(&device), "asking for the GPU");
  check_cuda(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "asking for SMs");
  check_cuda(cudaDeviceGetAttribute(&room, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "asking for memory");
  check_cuda(cudaFuncSetAttribute(meet, cudaFuncAttributeMaxDynamicSharedMemorySize, room), "asking for memory");
  unsigned* failed = counts + 1;
  void* arguments[] = {&counts, &failed};
  check_cuda(cudaMemsetAsync(counts, 0, 4, stream), "setting");
  check_cuda(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(meet), dim3(static_cast<unsigned>(sms)),
                                         dim3(1024), arguments, static_cast<size_t>(room), stream),
             "launching a kernel on all SMs");
}

// Beside blocking calls that follow each other without a pause. Ranks that shared a GPU would wait for each other with
// that kernel between them, as with any kernels of collectives.
TEST(Blocking, AKernelThatNeedsAllSmsComesIn) {
  for (const int idle_us : {200, 1'000'000}) {
    World world(std::min(gpus(), 2), settings_with(16, idle_us));
    in_threads(world, [&](int r) {
      RankBuffers buffers(world, r);
      auto* const counts = reinterpret_cast<unsigned*>(buffers.output + kMostBytes);
      check_cuda(cudaMemset(counts, 0, 8), "setting");
      const Call call{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 100};
      for (int round = 0; round < 5; ++round) {
        launch_on_all_sms(world.stream(r), counts);
        for (int i = 0; i < 500; ++i) {
          upload(world.rank(r), call, i, buffers.input, buffers);
          world.rank(r).enqueue(call, buffers.input, buffers.output, kBlockingStream);
        }
        check_cuda(cudaStreamSynchronize(world.stream(r)), "waiting for the kernel on all SMs");
      }
      unsigned failed = 0;
      check_cuda(cudaMemcpy(&failed, counts + 1, 4, cudaMemcpyDeviceToHost), "download");
      require(failed == 0, "the kernel on all SMs did not get them");
    });
  }
}

// The same beside the kernel of calls that the CPU drives, which gets one request after the other.
TEST(Blocking, AKernelThatNeedsAllSmsComesInBesideWorkRequests) {
  const DeviceGuard guard(0);
  const int devices[] = {0};
  for (const CpuDriven queues : {CpuDriven::kOneQueue, CpuDriven::kQueuePerCta}) {
    for (const int idle_us : {200, 1'000'000}) {
      const CudaReduces::Options options{queues, 16, std::chrono::microseconds(idle_us), 4096};
      std::vector<PeerMemory> scratch =
          PeerMemory::in_process(devices, CudaReduces::peer_bytes(options), PeerMemoryKind::kAuto);
      CudaReduces gpu(std::move(scratch.front()), {0}, options);
      std::byte* const memory = allocate(3 << 20);
      auto* const counts = reinterpret_cast<unsigned*>(memory + (2 << 20));
      check_cuda(cudaMemset(memory, 0, 3 << 20), "setting");
      const OwnStream stream;
      WorkRequest request;
      request.destinations = request.sources = 1;
      request.elements = 1 << 18;
      request.places[0] = memory;
      request.places[1] = memory + (1 << 20);
      for (int round = 0; round < 5; ++round) {
        launch_on_all_sms(stream.get(), counts);
        for (int i = 0; i < 500; ++i) {
          const uint64_t number = gpu.post(request);
          const Deadline deadline = Deadline::after(20);
          while (!gpu.is_done(number) && !deadline.passed()) {
          }
          ASSERT_TRUE(gpu.is_done(number)) << "a request waits beside the kernel on all SMs";
        }
        check_cuda(stream.finish(), "waiting for the kernel on all SMs");
      }
      unsigned failed = 0;
      check_cuda(cudaMemcpy(&failed, counts + 1, 4, cudaMemcpyDeviceToHost), "download");
      EXPECT_EQ(failed, 0u) << "the kernel on all SMs did not get them";
      gpu.finish();
      cudaFree(memory);
    }
  }
}

TEST(Blocking, AnAbortEndsACallThatWaits) {
  World world(2, settings_with(16));
  std::string said;
  std::thread waits([&] {
    const DeviceGuard guard(world.device(0));
    const Call call{Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, 100};
    try {
      world.rank(0).enqueue(call, world.input(0), world.output(0), kBlockingStream);
    } catch (const Error& error) {
      said = error.what();
    }
  });
  ::usleep(300'000);  // it waits by then, or will fail at once
  world.rank(1).abort("somebody pressed the button");
  waits.join();
  EXPECT_NE(said.find("somebody pressed the button"), std::string::npos) << said;
}

}  // namespace
}  // namespace plait::test

// GPUs that the CPU drives: the kernel alone with random work requests, the ring of groups on one host, and blocking
// calls over several hosts (PLAIT_HOST_ID), through one work queue and a queue for each CTA. Ranks may share a GPU, as
// where there is one only. Calls over hosts are skipped where there is no UCX.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/communicator.hpp"
#include "bench/exact_input.hpp"
#include "machine.hpp"
#include "runtime/cuda/cpu_driven/cuda_reduces.hpp"
#include "runtime/net/open_transport.hpp"
#include "support/algorithm_plans.hpp"
#include "support/random_calls.hpp"
#include "support/rank_processes.hpp"
#include "support/reduce_request.hpp"
#include "support/several_hosts.hpp"

namespace plait::test {
namespace {

constexpr double kSeconds = 120;
constexpr size_t kMostBytes = 8 << 20;
constexpr size_t kRoom = 64;  // for offsets
constexpr CpuDriven kQueues[] = {CpuDriven::kOneQueue, CpuDriven::kQueuePerCta};

std::string library() {
  const char* const named = std::getenv("PLAIT_UCX_LIBRARY");
  return named == nullptr ? "" : named;
}

Settings settings_with(CpuDriven queues) {
  Settings settings;
  settings.timeout_seconds = 60;
  settings.ucx_library = library();
  settings.cpu_driven = queues;
  settings.cpu_reduce_bytes = 0;
  settings.algorithm = "all_reduce:nvgroup_ring";
  settings.persistent_ctas = 4;  // ranks that share a GPU have to fit
  return settings;
}

Call sum_of(size_t count) { return {Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, count}; }

// Buffers of a rank on its GPU.
struct RankBuffers {
  std::byte* const input = allocate(kMostBytes + kRoom);
  std::byte* const output = allocate(kMostBytes + kRoom);
  std::vector<std::byte> host = std::vector<std::byte>(kMostBytes);
};

// Uploads an input, lets `run` make the call, and checks the output. `offset`: elements by which buffers miss their
// alignment. In place where the collective has one size of buffer.
void call_and_check(const Call& call, int ranks, int rank, int variant, bool in_place, size_t offset,
                    RankBuffers& buffers, const std::function<void(const void* input, void* output)>& run,
                    bool multiplied = false) {
  const size_t bytes = input_elements(call, ranks, rank) * size_of(call.type);
  const size_t result_bytes = output_elements(call, ranks, rank) * size_of(call.type);
  std::byte* const input = buffers.input + offset * size_of(call.type);
  std::byte* const output = in_place ? input : buffers.output + offset * size_of(call.type);
  fill_input(call, ranks, rank, variant, buffers.host.data());
  check_cuda(cudaMemcpy(input, buffers.host.data(), bytes, cudaMemcpyHostToDevice), "upload");
  check_cuda(cudaStreamSynchronize(nullptr), "the end of the upload");
  run(input, output);
  check_cuda(cudaMemcpy(buffers.host.data(), output, result_bytes, cudaMemcpyDeviceToHost), "download");
  const size_t wrong = count_wrong(call, ranks, rank, variant, buffers.host.data(), multiplied);
  require(wrong == 0, wrong, " elements are wrong: ", to_text(call), in_place ? ", in place" : "");
}

Call random_all_reduce(Random& random, int ranks) {
  Call call = random_call(random, ranks);
  call.collective = Collective::kAllReduce;
  // Ranks that share a GPU take turns on it, each for about a millisecond, at every step of the ring.
  const size_t most = (ranks <= gpus() ? kMostBytes : kMostBytes / 16) / size_of(call.type);
  call.count = between(random, 1, one_in(random, 8) ? most : one_in(random, 3) ? 7 : 100'000);
  return call;
}

// ---- Ranks that are processes come first (gpus.hpp).

class CpuDrivenOverHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string missing = [] {
      const std::string name = library().empty() ? "libucp.so.0" : library();
      const Outcome outcome = run_processes(1, 60, [&](int) { open_transport({name}); })[0];
      return outcome.well() ? "" : outcome.text;
    }();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
};

using Body = std::function<void(Communicator&, RankBuffers&)>;

RankBody over(const std::vector<int>& hosts, const Settings& settings, const Body& body) {
  const UniqueId id = new_id();
  return [=](int rank) {
    Settings own = settings;
    own.host_id = host_name(hosts[static_cast<size_t>(rank)]);
    const int device = rank % gpus();
    const DeviceGuard guard(device);
    Communicator communicator = Communicator::create(id, rank, static_cast<int>(hosts.size()), own, device);
    RankBuffers buffers;
    body(communicator, buffers);
    communicator.close();
  };
}

void expect_well(const std::vector<int>& hosts, const Settings& settings, const Body& body) {
  const auto ranks = static_cast<int>(hosts.size());
  const Outcomes outcomes = run_processes(ranks, kSeconds, over(hosts, settings, body));
  for (int rank = 0; rank < ranks; ++rank) {
    const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_TRUE(outcome.well()) << name(settings.cpu_driven) << ", rank " << rank << " of " << ranks << ": "
                                << describe(outcome);
  }
}

void block_and_check(Communicator& comm, RankBuffers& buffers, const Call& call, int variant, bool in_place = false,
                     size_t offset = 0, bool multiplied = false) {
  const Scalar factor = exact_scalar(call.type, comm.rank());
  const auto run = [&](const void* input, void* output) {
    comm.enqueue(call, input, output, kBlockingStream, multiplied ? &factor : nullptr);
  };
  call_and_check(call, comm.size(), comm.rank(), variant, in_place, offset, buffers, run, multiplied);
}

TEST_F(CpuDrivenOverHosts, TwoGroupsPassChunksRound) {
  for (const CpuDriven queues : kQueues) {
    for (const std::vector<int>& hosts : {std::vector{0, 1}, {0, 0, 1, 1}}) {
      expect_well(hosts, settings_with(queues), [](Communicator& comm, RankBuffers& buffers) {
        for (int i = 0; i < 5; ++i) block_and_check(comm, buffers, sum_of(1'000'003), i);
        require(comm.served_calls() == 5, comm.served_calls(), " of 5 calls were driven");
      });
      if (HasFailure()) return;
    }
  }
}

TEST_F(CpuDrivenOverHosts, RandomCalls) {
  Random random(run_seed());
  for (int round = 0; round < 4; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 3);
    const std::vector<int> hosts = random_hosts(random, ranks);
    const uint64_t seed = random();
    Settings settings = settings_with(kQueues[round % 2]);
    settings.algorithm = join("all_reduce:nvgroup_ring(parts=", 1 << random() % 3, ")");
    settings.scratch_bytes = size_t{512} << 10 << random() % 3;
    settings.persistent_idle_us = one_in(random, 2) ? 20 : 200;
    expect_well(hosts, settings, [&](Communicator& comm, RankBuffers& buffers) {
      Random common(seed);
      for (int i = 0; i < 20; ++i) {
        const Call call = random_all_reduce(common, ranks);
        const bool in_place = one_in(common, 3);
        const bool multiplied = call.op == ReduceOp::kSum && one_in(common, 3);
        block_and_check(comm, buffers, call, i, in_place, between(common, 0, 3), multiplied);
        if (one_in(common, 4)) {  // a staged call in between
          call_and_check(call, ranks, comm.rank(), i, in_place, 0, buffers, [&](const void* input, void* output) {
            comm.enqueue(call, input, output, nullptr);
            check_cuda(cudaStreamSynchronize(nullptr), "waiting for the GPU");
          });
        }
      }
      require(comm.served_calls() == 20, comm.served_calls(), " of 20 calls were driven");
    });
    if (HasFailure()) return;
  }
}

// All collectives, roots, types and operations, by what the tuner chooses (NVG-61, NVG-97), with messages through host
// memory and straight from GPU to GPU.
TEST_F(CpuDrivenOverHosts, RandomCallsOfAllCollectives) {
  Random random(run_seed());
  for (int round = 0; round < 6; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 3);
    const std::vector<int> hosts = random_hosts(random, ranks);
    const uint64_t seed = random();
    Settings settings = settings_with(kQueues[round % 2]);
    settings.algorithm = round < 4 ? "" : "all_reduce:rabenseifner";
    settings.gpu_messages = round % 2 == 0 ? GpuMessages::kDirect : GpuMessages::kThroughHost;
    settings.scratch_bytes = size_t{512} << 10 << random() % 3;
    expect_well(hosts, settings, [&](Communicator& comm, RankBuffers& buffers) {
      Random common(seed);
      for (int i = 0; i < 40; ++i) {
        Call call = random_call(common, ranks);
        call.count = between(common, 1, one_in(common, 3) ? 7 : 30'000);
        const bool multiplied = reduces(call.collective) && call.op == ReduceOp::kSum && one_in(common, 3);
        const bool in_place = call.collective == Collective::kAllReduce && one_in(common, 3);
        block_and_check(comm, buffers, call, i, in_place, between(common, 0, 3), multiplied);
      }
      require(comm.served_calls() >= 20, comm.served_calls(), " of 40 calls were driven");
    });
    if (HasFailure()) return;
  }
}

TEST_F(CpuDrivenOverHosts, ARankThatIsKilledIsNamed) {
  Settings settings = settings_with(CpuDriven::kOneQueue);
  settings.timeout_seconds = 600;  // no test succeeds by waiting for that
  Shared<Progress> progress;
  const int victim = 2;
  RankProcesses processes(3, over({0, 0, 1}, settings, [&](Communicator& comm, RankBuffers& buffers) {
                            for (int i = 0;; ++i) {
                              block_and_check(comm, buffers, sum_of(300'000), i);
                              ++progress->calls[comm.rank()];
                            }
                          }));
  await_calls(processes, *progress, victim, 5);
  processes.kill(victim);
  const Deadline heard = Deadline::after(60);
  while (!(processes.has_ended(0) && processes.has_ended(1)) && !heard.passed()) ::usleep(1000);
  const Outcomes outcomes = processes.wait(1);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(objection(outcomes[static_cast<size_t>(rank)], ErrorCode::kPeerFailed, {"rank 2 (process "}), "");
  }
}

TEST_F(CpuDrivenOverHosts, AnAbortReachesAllProxies) {
  Settings settings = settings_with(CpuDriven::kQueuePerCta);
  settings.timeout_seconds = 600;
  const Outcomes outcomes =
      run_processes(2, kSeconds, over({0, 1}, settings, [](Communicator& comm, RankBuffers& buffers) {
                      block_and_check(comm, buffers, sum_of(1000), 0);
                      if (comm.rank() == 1) ::usleep(300'000);
                      if (comm.rank() == 1) comm.abort("somebody pressed the button");
                      block_and_check(comm, buffers, sum_of(1'000'000), 1);
                    }));
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(objection(outcome, ErrorCode::kPeerFailed, {"rank 1 aborted: somebody pressed the button"}), "");
  }
}

// The ring of groups on one host, by a communicator on host memory that drives the GPU: without a network.
TEST(CpuDrivenOnOneHost, RandomCallsOfGroups) {
  Random random(run_seed());
  for (const std::vector<std::vector<int>>& groups :
       {std::vector<std::vector<int>>{{0}, {1}}, {{0, 1}, {2, 3}}, {{0, 1}, {2}}, {{0}, {1}, {2}}}) {
    for (const CpuDriven queues : kQueues) {
      int ranks = 0;
      for (const auto& group : groups) ranks += static_cast<int>(group.size());
      AlgorithmArguments arguments;
      arguments.ranks = ranks;
      arguments.groups = groups;
      arguments.parts = 1 << random() % 3;
      const auto plan = std::make_shared<const VerifiedPlan>(verify(make_plan("nvgroup_ring", arguments)));
      const UniqueId id = new_id(), id_of_gpus = new_id();
      const uint64_t seed = random();
      Settings settings;
      settings.timeout_seconds = 60;
      const Outcomes outcomes = run_processes(ranks, kSeconds, [&](int rank) {
        const int device = rank % gpus();
        const DeviceGuard guard(device);
        Communicator comm = Communicator::create(id, rank, ranks, settings);
        Bootstrap bootstrap = Bootstrap::create(id_of_gpus, rank, ranks);
        const CudaReduces::Options options{queues, 3, std::chrono::microseconds(200), settings.scratch_bytes};
        std::vector<int> all;
        for (int r = 0; r < ranks; ++r) all.push_back(r);
        CudaReduces gpu(PeerMemory::create(bootstrap, device, CudaReduces::peer_bytes(options), PeerMemoryKind::kAuto),
                        all, options);
        gpu.map_host(comm.shared_memory(), comm.shared_bytes());
        comm.give(plan);
        RankBuffers buffers;
        Random common(seed);
        for (int i = 0; i < 30; ++i) {
          const Call drawn = random_all_reduce(common, ranks);
          const Call call = call_by(*plan, drawn.type, drawn.op, drawn.count);
          call_and_check(call, ranks, rank, i, one_in(common, 3), between(common, 0, 3), buffers,
                         [&](const void* input, void* output) { comm.run(call, input, output, gpu); });
        }
        require(gpu.requests() > 0, "no work was requested");
        comm.close();
        gpu.finish();
      });
      for (int rank = 0; rank < ranks; ++rank) {
        const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
        EXPECT_TRUE(outcome.well()) << groups.size() << " groups, " << name(queues) << ", rank " << rank << " of "
                                    << ranks << ": " << describe(outcome);
      }
      if (HasFailure()) return;
    }
  }
}

// ---- In one process

// Memory of the GPU and of the host, half each, which requests take their places from.
struct Places {
  explicit Places(size_t bytes) : on_gpu(allocate(bytes)), copy(bytes) {
    void* memory = nullptr;
    check_cuda(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped), "pinned memory");
    host = static_cast<std::byte*>(memory);
    check_cuda(cudaHostGetDevicePointer(&memory, host, 0), "mapping it");
    host_on_gpu = static_cast<std::byte*>(memory);
  }
  ~Places() {
    cudaFree(on_gpu);
    cudaFreeHost(host);
  }

  std::byte* on_gpu;
  std::byte* host;
  std::byte* host_on_gpu;
  std::vector<std::byte> copy;  // of the GPU's, on the host
};

// Every action alone, and many under way at once: each request has places of its own.
TEST(WorkRequests, RandomOnesOfAllActions) {
  const DeviceGuard guard(0);
  Random random(run_seed());
  for (const CpuDriven queues : kQueues) {
    for (const int ctas : {1, 3, 8}) {
      const CudaReduces::Options options{queues, ctas, std::chrono::microseconds(100), 4096};
      const int devices[] = {0};
      std::vector<PeerMemory> memory =
          PeerMemory::in_process(devices, CudaReduces::peer_bytes(options), PeerMemoryKind::kAuto);
      CudaReduces gpu(std::move(memory.front()), {0}, options);
      constexpr size_t kSlot = 64 << 10, kSlots = 6, kJobs = 40;
      Places places(kJobs * kSlots * kSlot);
      for (size_t i = 0; i < places.copy.size(); i += 4) {
        const float value = static_cast<float>(random() % 3);
        std::memcpy(&places.copy[i], &value, sizeof value);
      }
      std::memcpy(places.host, places.copy.data(), places.copy.size());
      check_cuda(cudaMemcpy(places.on_gpu, places.copy.data(), places.copy.size(), cudaMemcpyHostToDevice), "upload");
      check_cuda(cudaDeviceSynchronize(), "the end of the upload");
      std::vector<std::byte> host_copy = places.copy;
      uint64_t last = 0;
      for (size_t job = 0; job < kJobs; ++job) {
        WorkRequest request;
        request.type = one_in(random, 2) ? DataType::kFloat32 : DataType::kInt32;
        request.op = request.type == DataType::kInt32 ? ReduceOp::kMax : ReduceOp::kSum;
        request.action = static_cast<WorkAction>(job % kWorkActions);
        request.destinations = request.action == WorkAction::kToGroup ? 2 : 1;
        request.sources =
            request.action == WorkAction::kGroupBroadcast ? 1 : static_cast<uint8_t>(between(random, 2, 4));
        request.elements = between(random, 1, kSlot / 4 - 4);
        WorkRequest expected = request;
        for (int i = 0; i < request.destinations + request.sources; ++i) {
          const bool is_destination = i < request.destinations;
          const bool in_host = request.action == WorkAction::kToCpu
                                   ? is_destination || i == request.destinations
                                   : request.action == WorkAction::kGroupBroadcast && !is_destination;
          const size_t at = (job * kSlots + static_cast<size_t>(i)) * kSlot + between(random, 0, 3) / 3 * 4;
          request.places[i] = (in_host ? places.host_on_gpu : places.on_gpu) + at;
          expected.places[i] = (in_host ? host_copy : places.copy).data() + at;
        }
        reduce_request(expected);
        const Deadline deadline = Deadline::after(20);
        while (!gpu.has_room() && !deadline.passed()) {
        }
        ASSERT_FALSE(deadline.passed()) << "the queue stays full";
        last = gpu.post(request);
        if (one_in(random, 5)) ::usleep(300);  // it leaves, or not
      }
      const Deadline deadline = Deadline::after(20);
      while (!gpu.is_done(last) && !deadline.passed()) {
      }
      ASSERT_TRUE(gpu.is_done(last)) << name(queues) << ", " << ctas << " CTAs: no answer";
      gpu.finish();
      std::vector<std::byte> result(places.copy.size());
      check_cuda(cudaMemcpy(result.data(), places.on_gpu, result.size(), cudaMemcpyDeviceToHost), "download");
      EXPECT_TRUE(result == places.copy) << name(queues) << ", " << ctas << " CTAs: GPU memory";
      EXPECT_EQ(std::memcmp(places.host, host_copy.data(), host_copy.size()), 0)
          << name(queues) << ", " << ctas << " CTAs: host memory";
    }
  }
}

}  // namespace
}  // namespace plait::test

// The C interface on GPUs, as a program sees it: its functions, and their errors.
#include <chrono>
#include <cstring>
#include <thread>

#include "c_api_world.hpp"

namespace plait::test {
namespace {

void test_collectives(World& world) {
  const int ranks = world.size();
  const int root = ranks - 1;
  fill(world, 1);
  world.in_group([](Rank& rank, int) { return all_reduce(rank, rank.stream); });
  expect_sums(world, 1, "plaitAllReduce");

  fill(world, 2);
  world.in_group([](Rank& rank, int) {
    return plaitReduceScatter(rank.send, rank.receive, kCount, plaitInt32, plaitSum, rank.comm, rank.stream);
  });
  expect_results(world, kCount, "plaitReduceScatter", [&](int r, int i) { return sum_of(ranks, r * kCount + i, 2); });

  fill(world, 3);
  world.in_group([](Rank& rank, int) {
    return plaitAllGather(rank.send, rank.receive, kCount, plaitInt32, rank.comm, rank.stream);
  });
  expect_results(world, kCount * ranks, "plaitAllGather",
                 [&](int, int i) { return value_of(i / kCount, i % kCount, 3); });

  fill(world, 4);
  world.in_group([&](Rank& rank, int) {
    return plaitBroadcast(rank.send, rank.receive, kCount, plaitInt32, root, rank.comm, rank.stream);
  });
  expect_results(world, kCount, "plaitBroadcast", [&](int, int i) { return value_of(root, i, 4); });

  world.in_group(
      [&](Rank& rank, int) { return plaitBcast(rank.receive, kCount, plaitInt32, 0, rank.comm, rank.stream); });
  expect_results(world, kCount, "plaitBcast", [&](int, int i) { return value_of(root, i, 4); });

  fill(world, 5);
  world.in_group([&](Rank& rank, int) {
    return plaitReduce(rank.send, rank.receive, kCount, plaitInt32, plaitSum, root, rank.comm, rank.stream);
  });
  expect_results(world, kCount, "plaitReduce", [&](int r, int i) { return r == root ? sum_of(ranks, i, 5) : -1; });

  fill(world, 7);
  world.in_group([&](Rank& rank, int r) {
    return plaitGather(rank.send, r == root ? rank.receive : nullptr, kCount, plaitInt32, root, rank.comm, rank.stream);
  });
  expect_results(world, kCount * ranks, "plaitGather",
                 [&](int r, int i) { return r == root ? value_of(i / kCount, i % kCount, 7) : -1; });

  fill(world, 8);
  world.in_group([&](Rank& rank, int r) {
    return plaitScatter(r == root ? rank.send : nullptr, rank.receive, kCount, plaitInt32, root, rank.comm,
                        rank.stream);
  });
  expect_results(world, kCount, "plaitScatter", [&](int r, int i) { return value_of(root, r * kCount + i, 8); });

  fill(world, 9);
  world.in_group([](Rank& rank, int) {
    return plaitAlltoAll(rank.send, rank.receive, kCount, plaitInt32, rank.comm, rank.stream);
  });
  const auto exchanged = [&](int r, int i) { return value_of(i / kCount, r * kCount + i % kCount, 9); };
  expect_results(world, kCount * ranks, "plaitAlltoAll", exchanged);
  world.in_group([](Rank& rank, int) {  // the second call undoes the first one
    return plaitAlltoAll(rank.receive, rank.receive, kCount, plaitInt32, rank.comm, rank.stream);
  });
  expect_results(world, kCount * ranks, "plaitAlltoAll in place", [](int r, int i) { return value_of(r, i, 9); });

  fill(world, 10);
  world.in_group([&](Rank& rank, int) {  // an all-to-all of messages, backwards
    plaitResult_t result = plaitSuccess;
    for (int peer = ranks - 1; peer >= 0 && result == plaitSuccess; --peer) {
      result = plaitSend(rank.send + peer * kCount, kCount, plaitInt32, peer, rank.comm, rank.stream);
      if (result != plaitSuccess) break;
      result = plaitRecv(rank.receive + peer * kCount, kCount, plaitInt32, peer, rank.comm, rank.stream);
    }
    return result;
  });
  expect_results(world, kCount * ranks, "plaitSend and plaitRecv",
                 [&](int r, int i) { return value_of(i / kCount, r * kCount + i % kCount, 10); });

  world.in_group([](Rank& rank, int) { return plaitBarrier(rank.comm, rank.stream); });
  world.synchronize();
  world.each([&](Rank& rank, int r) {
    int device = -5, number = -5, count = -5;
    MUST(plaitCommCuDevice(rank.comm, &device));
    MUST(plaitCommUserRank(rank.comm, &number));
    MUST(plaitCommCount(rank.comm, &count));
    expect(device == rank.device && number == r && count == ranks, "device, rank and count");
    cudaPointerAttributes attributes;
    MUST(cudaPointerGetAttributes(&attributes, rank.send));
    expect(attributes.type == cudaMemoryTypeDevice && attributes.device == device, "plaitMemAlloc");
  });
}

// Graphs that are replayed between eager calls.
void test_graphs(World& world) {
  Graphs graphs(world, [&] {
    world.in_group([](Rank& rank, int) { return all_reduce(rank, rank.stream); });
    world.in_group(
        [](Rank& rank, int) { return plaitBcast(rank.receive, kCount, plaitInt32, 0, rank.comm, rank.stream); });
  });
  for (int i = 0; i < 20; ++i) {
    fill(world, i);
    graphs.launch();
    expect_sums(world, i, "a replay");
    if (i % 3 == 0) continue;
    fill(world, i + 1);
    world.in_group([](Rank& rank, int) { return all_reduce(rank, rank.stream); });
    expect_sums(world, i + 1, "an eager call between replays");
  }
}

int factor_of(int rank) { return rank % 2 == 0 ? 3 : -1; }

int weighted_sum_of(int ranks, int i, int variant) {
  int sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += factor_of(rank) * value_of(rank, i, variant);
  return sum;
}

// Operations with factors on the host and on the device; they end while the calls are under way.
void test_operations(World& world) {
  const int ranks = world.size();
  std::vector<plaitRedOp_t> ops(ranks), device_ops(ranks);
  std::vector<int*> factors(ranks);
  world.each([&](Rank& rank, int r) {
    int factor = factor_of(r);
    MUST(plaitRedOpCreatePreMulSum(&ops[r], &factor, plaitInt32, plaitScalarHostImmediate, rank.comm));
    MUST(cudaMalloc(reinterpret_cast<void**>(&factors[r]), sizeof(int)));
    MUST(cudaMemset(factors[r], 0, sizeof(int)));  // set later
    MUST(plaitRedOpCreatePreMulSum(&device_ops[r], factors[r], plaitInt32, plaitScalarDevice, rank.comm));
  });
  fill(world, 1);
  world.in_group([&](Rank& rank, int r) {
    return plaitAllReduce(rank.send, rank.receive, kCount, plaitInt32, ops[r], rank.comm, rank.stream);
  });
  expect_results(world, kCount, "a pre-multiplied plaitAllReduce",
                 [&](int, int i) { return weighted_sum_of(ranks, i, 1); });

  Graphs graphs(world, [&] {
    world.in_group([&](Rank& rank, int r) {
      return plaitReduceScatter(rank.send, rank.receive, kCount, plaitInt32, device_ops[r], rank.comm, rank.stream);
    });
  });
  world.each([&](Rank& rank, int r) {
    const int factor = factor_of(r);
    MUST(cudaMemcpyAsync(factors[r], &factor, sizeof(factor), cudaMemcpyHostToDevice, rank.stream));
    expect(plaitRedOpDestroy(ops[r], rank.comm) == plaitSuccess, "plaitRedOpDestroy");
    expect(plaitRedOpDestroy(device_ops[r], rank.comm) == plaitSuccess, "plaitRedOpDestroy");
    expect(plaitRedOpDestroy(ops[r], rank.comm) == plaitInvalidArgument, "an operation destroyed twice");
  });
  for (int i = 0; i < 3; ++i) {
    fill(world, i);
    graphs.launch();
    expect_results(world, kCount, "a replayed pre-multiplied plaitReduceScatter",
                   [&](int r, int at) { return weighted_sum_of(ranks, r * kCount + at, i); });
  }
  world.each([&](Rank&, int r) { MUST(cudaFree(factors[r])); });
}

// All ranks backwards, then alone.
void test_split(World& world) {
  const int ranks = world.size();
  std::vector<int> devices(ranks);
  std::vector<plaitComm_t> backwards(ranks), alone(ranks);
  MUST(plaitGroupStart());
  world.each([&](Rank& rank, int r) { MUST(plaitCommSplit(rank.comm, 0, -r, &backwards[ranks - 1 - r], nullptr)); });
  MUST(plaitGroupEnd());
  for (int r = 0; r < ranks; ++r) devices[r] = world[ranks - 1 - r].device;
  World turned(devices, backwards);
  test_collectives(turned);

  MUST(plaitGroupStart());
  world.each([&](Rank& rank, int r) { MUST(plaitCommSplit(rank.comm, r, 0, &alone[r], nullptr)); });
  MUST(plaitGroupEnd());
  for (int r = 0; r < ranks; ++r) {
    World one({world[r].device}, {alone[r]});
    test_collectives(one);
  }
}

// Host memory stays possible where there are GPUs.
void test_host() {
  const int host[2] = {PLAIT_DEVICE_HOST, PLAIT_DEVICE_HOST};
  plaitComm_t comms[2];
  int values[2] = {1, 2};
  MUST(plaitCommInitAll(comms, 2, host));
  MUST(plaitGroupStart());
  for (int r = 0; r < 2; ++r) MUST(plaitAllReduce(&values[r], &values[r], 1, plaitInt, plaitSum, comms[r], nullptr));
  MUST(plaitGroupEnd());
  expect(values[0] == 3 && values[1] == 3, "host memory beside GPUs");
  for (const plaitComm_t comm : comms) MUST(plaitCommDestroy(comm));
}

// A rank waits for one that does not come. It learns of that once the stream has passed the call, and when its
// communicator ends.
void test_failure_of_the_last_call(int device) {
  for (const bool asks : {false, true}) {  // in this order, as the first text is still there later
    plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
    config.timeoutSeconds = 0.5;
    plaitUniqueId id;
    std::vector<plaitComm_t> comms(2);
    MUST(plaitGetUniqueId(&id));
    MUST(cudaSetDevice(device));
    MUST(plaitGroupStart());
    for (int r = 0; r < 2; ++r) MUST(plaitCommInitRankConfig(&comms[r], 2, id, r, &config));
    MUST(plaitGroupEnd());
    World world({device, device}, comms);
    MUST(all_reduce(world[0], world[0].stream));
    if (asks) {
      MUST(cudaStreamSynchronize(world[0].stream));
      plaitResult_t state = plaitSuccess;
      MUST(plaitCommGetAsyncError(comms[0], &state));
      expect(state == plaitTimeout, "a call that its stream has come past has failed");
    } else {
      MUST(plaitCommDestroy(comms[0]));
      world[0].comm = nullptr;
      const char* const text = plaitGetLastError(nullptr);
      expect(std::strstr(text, "waited longer than PLAIT_TIMEOUT_SEC") != nullptr, "what the last call failed of");
    }
  }
}

// A communicator that requires a device gets the current one, and so do its splits.
void test_required_device(int device) {
  MUST(cudaSetDevice(device));
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.device = PLAIT_DEVICE_CUDA;
  plaitUniqueId id;
  plaitComm_t comm = nullptr, part = nullptr;
  MUST(plaitGetUniqueId(&id));
  MUST(plaitCommInitRankConfig(&comm, 1, id, 0, &config));
  MUST(plaitCommSplit(comm, 0, 0, &part, &config));
  for (const plaitComm_t made : {comm, part}) {
    int its = PLAIT_DEVICE_HOST;
    MUST(plaitCommCuDevice(made, &its));
    expect(its == device, "PLAIT_DEVICE_CUDA should be the current device");
    MUST(plaitCommDestroy(made));
  }
}

// Ranks that make different calls learn of it once the stream has passed the call, even if no kernel can notice it.
void test_other_calls(int gpus) {
  const auto told = [&](const std::string& what, const std::function<plaitResult_t(Rank&, int)>& call) {
    const std::vector<int> devices = {0, gpus - 1};
    World world(devices, made_at_once(devices));
    world.in_group(call);
    world.synchronize();
    world.each([&](Rank& rank, int) {
      plaitResult_t state = plaitSuccess;
      MUST(plaitCommGetAsyncError(rank.comm, &state));
      expect(state == plaitInvalidUsage, what + " should be told");
      expect(std::strstr(plaitGetLastError(rank.comm), "call 1 differs between ranks") != nullptr, what + ": in words");
      expect(plaitBarrier(rank.comm, rank.stream) == plaitInvalidUsage, what + " should end the communicator");
    });
  };
  for (const int count : {1, 100, kCount}) {
    told("another operation for " + std::to_string(count), [&](Rank& rank, int r) {
      return plaitAllReduce(rank.send, rank.receive, count, plaitInt, r == 0 ? plaitSum : plaitMax, rank.comm,
                            rank.stream);
    });
    told("another root for " + std::to_string(count), [&](Rank& rank, int r) {
      return plaitBroadcast(rank.send, rank.receive, count, plaitInt, r, rank.comm, rank.stream);
    });
    told("another count than " + std::to_string(count), [&](Rank& rank, int r) {
      return plaitAllGather(rank.send, rank.receive, count - r, plaitInt, rank.comm, rank.stream);
    });
  }
}

// An abort by another thread ends a kernel that waits for a rank that never calls.
void test_abort(World& world) {
  const auto begin = std::chrono::steady_clock::now();
  MUST(cudaSetDevice(world[0].device));
  MUST(all_reduce(world[0], world[0].stream));
  std::thread other([&] {
    usleep(200'000);
    expect(cudaStreamQuery(world[0].stream) == cudaErrorNotReady, "the kernel should wait until the abort");
    expect(plaitCommAbort(world[0].comm) == plaitSuccess, "plaitCommAbort");
  });
  other.join();
  MUST(cudaStreamSynchronize(world[0].stream));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  expect(seconds.count() < 20, "the kernel should end soon after the abort");
  expect(all_reduce(world[0], world[0].stream) == plaitInvalidArgument, "a call after the abort");
  world[0].comm = nullptr;
  plaitResult_t state = plaitSuccess;
  MUST(plaitCommGetAsyncError(world[1].comm, &state));
  expect(state == plaitRemoteError, "the other ranks should hear of the abort");
  expect(std::strstr(plaitGetLastError(world[1].comm), "rank 0 aborted") != nullptr, "and who did it");
  expect(all_reduce(world[1], world[1].stream) == plaitRemoteError, "the other ranks' calls after the abort");
}

using CApi = CApiTest;

TEST_F(CApi, InEachWorld) {
  in_each_world([](World& world) {
    test_collectives(world);
    test_graphs(world);
    test_operations(world);
    test_split(world);
    if (world.size() > 1) test_abort(world);
  });
}
TEST_F(CApi, FailureOfTheLastCall) { test_failure_of_the_last_call(gpus() - 1); }
TEST_F(CApi, OtherCalls) { test_other_calls(gpus()); }
TEST_F(CApi, Host) { test_host(); }
TEST_F(CApi, RequiredDevice) { test_required_device(gpus() - 1); }

}  // namespace
}  // namespace plait::test

// Tests that drive all ranks in one thread, through groups of the C interface, and check what they receive. They have a
// CUDA runtime of their own.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <plait/plait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "gpu/gpus.hpp"

namespace plait::test {

inline constexpr int kCount = 10'000;

inline void expect(bool good, const std::string& what) {
  EXPECT_TRUE(good) << what << " (last error: " << plaitGetLastError(nullptr) << ")";
}

// Ends the program if something fails that its tests need to go on.
inline void must(plaitResult_t result, const char* what) {
  if (result == plaitSuccess) return;
  std::printf("FAILED: %s: %s: %s\n", what, plaitGetErrorString(result), plaitGetLastError(nullptr));
  std::exit(1);
}
inline void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAILED: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define MUST(call) must((call), #call)

// One rank with its stream and buffers, large enough for all ranks' blocks.
struct Rank {
  int device = 0;
  plaitComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int* send = nullptr;
  int* receive = nullptr;
};

class World {
 public:
  World(const std::vector<int>& devices, const std::vector<plaitComm_t>& comms) : ranks_(devices.size()) {
    for (int r = 0; r < size(); ++r) {
      Rank& rank = ranks_[r];
      rank.device = devices[r];
      rank.comm = comms[r];
      MUST(cudaSetDevice(rank.device));
      MUST(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
      MUST(plaitMemAlloc(reinterpret_cast<void**>(&rank.send), bytes()));
      MUST(plaitMemAlloc(reinterpret_cast<void**>(&rank.receive), bytes()));
    }
  }
  ~World() {
    for (Rank& rank : ranks_) {
      MUST(cudaSetDevice(rank.device));
      if (rank.comm != nullptr) expect(plaitCommDestroy(rank.comm) == plaitSuccess, "plaitCommDestroy");
      MUST(plaitMemFree(rank.send));
      MUST(plaitMemFree(rank.receive));
      MUST(cudaStreamDestroy(rank.stream));
    }
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  size_t bytes() const { return sizeof(int) * kCount * ranks_.size(); }
  Rank& operator[](int r) { return ranks_[r]; }

  // Calls `body` for every rank, with its device current.
  void each(const std::function<void(Rank&, int)>& body) {
    for (int r = 0; r < size(); ++r) {
      MUST(cudaSetDevice(ranks_[r].device));
      body(ranks_[r], r);
    }
  }
  void in_group(const std::function<plaitResult_t(Rank&, int)>& call) {
    MUST(plaitGroupStart());
    each([&](Rank& rank, int r) { MUST(call(rank, r)); });
    MUST(plaitGroupEnd());
  }
  void synchronize() {
    each([](Rank& rank, int) { MUST(cudaStreamSynchronize(rank.stream)); });
  }

 private:
  std::vector<Rank> ranks_;
};

inline std::vector<plaitComm_t> made_at_once(const std::vector<int>& devices) {
  std::vector<plaitComm_t> comms(devices.size());
  MUST(plaitCommInitAll(comms.data(), static_cast<int>(devices.size()), devices.data()));
  return comms;
}

inline std::vector<plaitComm_t> made_in_group(const std::vector<int>& devices) {
  std::vector<plaitComm_t> comms(devices.size());
  plaitUniqueId id;
  MUST(plaitGetUniqueId(&id));
  MUST(plaitGroupStart());
  for (size_t r = 0; r < devices.size(); ++r) {
    MUST(cudaSetDevice(devices[r]));
    MUST(plaitCommInitRank(&comms[r], static_cast<int>(devices.size()), id, static_cast<int>(r)));
  }
  MUST(plaitGroupEnd());
  return comms;
}

inline int value_of(int rank, int i, int variant) { return (rank + 1) * 1000 + (i + variant) % 97; }

inline int sum_of(int ranks, int i, int variant) {
  return ranks * (ranks + 1) / 2 * 1000 + ranks * ((i + variant) % 97);
}

inline void fill(World& world, int variant) {
  world.each([&](Rank& rank, int r) {
    std::vector<int> values(kCount * world.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = value_of(r, static_cast<int>(i), variant);
    MUST(cudaMemcpyAsync(rank.send, values.data(), world.bytes(), cudaMemcpyHostToDevice, rank.stream));
    MUST(cudaMemsetAsync(rank.receive, 0xff, world.bytes(), rank.stream));
    MUST(cudaStreamSynchronize(rank.stream));
  });
}

// Compares `elements` elements of every rank's receive buffer with expected(rank, element).
inline void expect_results(World& world, int elements, const std::string& what,
                           const std::function<int(int, int)>& expected) {
  world.synchronize();
  world.each([&](Rank& rank, int r) {
    std::vector<int> values(elements);
    MUST(cudaMemcpy(values.data(), rank.receive, sizeof(int) * elements, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < elements; ++i) wrong += values[i] != expected(r, i);
    expect(wrong == 0, what + " on rank " + std::to_string(r) + ": " + std::to_string(wrong) + " wrong");
    plaitResult_t state = plaitInternalError;
    MUST(plaitCommGetAsyncError(rank.comm, &state));
    expect(state == plaitSuccess, what + ": the state afterwards: " + plaitGetLastError(rank.comm));
  });
}

inline plaitResult_t all_reduce(Rank& rank, cudaStream_t stream) {
  return plaitAllReduce(rank.send, rank.receive, kCount, plaitInt32, plaitSum, rank.comm, stream);
}

inline void expect_sums(World& world, int variant, const std::string& what) {
  expect_results(world, kCount, what, [&](int, int i) { return sum_of(world.size(), i, variant); });
}

// Graphs of what `calls` enqueue on the streams of all ranks.
class Graphs {
 public:
  Graphs(World& world, const std::function<void()>& calls) : world_(world), graphs_(world.size()) {
    world.each([](Rank& rank, int) { MUST(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal)); });
    calls();
    // A thread must not instantiate a graph while it captures another.
    std::vector<cudaGraph_t> captured(world.size());
    world.each([&](Rank& rank, int r) { MUST(cudaStreamEndCapture(rank.stream, &captured[r])); });
    world.each([&](Rank&, int r) {
      MUST(cudaGraphInstantiateWithFlags(&graphs_[r], captured[r], 0));
      MUST(cudaGraphDestroy(captured[r]));
    });
  }
  ~Graphs() {
    world_.each([this](Rank&, int r) { MUST(cudaGraphExecDestroy(graphs_[r])); });
  }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  void launch() {
    world_.each([this](Rank& rank, int r) { MUST(cudaGraphLaunch(graphs_[r], rank.stream)); });
  }

 private:
  World& world_;
  std::vector<cudaGraphExec_t> graphs_;
};

// The devices of ranks: a rank for each GPU, two ranks that share one, and three ranks of which two share one.
inline std::vector<std::vector<int>> worlds() {
  std::vector<int> all(static_cast<size_t>(gpus()));
  std::iota(all.begin(), all.end(), 0);
  return {all, {0, 0}, {0, gpus() - 1, 0}};
}

// For the fixtures of these tests.
class CApiTest : public testing::Test {
 protected:
  void SetUp() override { setenv("PLAIT_TIMEOUT_SEC", "20", 0); }
};

// Runs the tests with communicators of each of these, made at once and made in a group.
inline void in_each_world(const std::function<void(World&)>& tests) {
  for (const bool in_group : {false, true}) {
    for (const std::vector<int>& devices : worlds()) {
      SCOPED_TRACE(std::to_string(devices.size()) + " ranks, made " + (in_group ? "in a group" : "at once"));
      World world(devices, in_group ? made_in_group(devices) : made_at_once(devices));
      tests(world);
    }
  }
}

}  // namespace plait::test

// Ranks of one process with their GPUs, streams and buffers.
#pragma once

#include <cuda_runtime.h>

#include <memory>
#include <vector>

#include "api/communicator.hpp"
#include "gpu/gpus.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait::test {

inline constexpr size_t kBufferBytes = 48 << 20;

// The ranks of one communicator, rank r on GPU r modulo the number of GPUs.
class World {
 public:
  World(int ranks, const Settings& settings) {
    for (int rank = 0; rank < ranks; ++rank) devices_.push_back(rank % gpus());
    ranks_ = Communicator::in_process(devices_, settings);
    for (int rank = 0; rank < ranks; ++rank) {
      const DeviceGuard guard(devices_[rank]);
      check_cuda(cudaStreamCreateWithFlags(&streams_.emplace_back(), cudaStreamNonBlocking), "a stream");
      check_cuda(cudaMalloc(&inputs_.emplace_back(), kBufferBytes), "input");
      check_cuda(cudaMalloc(&outputs_.emplace_back(), kBufferBytes), "output");
    }
  }
  ~World() {
    for (int rank = 0; rank < size(); ++rank) {
      const DeviceGuard guard(devices_[rank]);
      cudaStreamSynchronize(streams_[rank]);
      cudaStreamDestroy(streams_[rank]);
      cudaFree(inputs_[rank]);
      cudaFree(outputs_[rank]);
    }
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  Communicator& rank(int r) { return ranks_[r]; }
  cudaStream_t stream(int r) { return streams_[r]; }
  int device(int r) const { return devices_[r]; }
  std::byte* input(int r) { return inputs_[r]; }
  std::byte* output(int r) { return outputs_[r]; }

  // One thread drives all ranks: each step of what start(r) begins is taken for all ranks before the next step.
  template <class Start>
  void in_steps(const Start& start) {
    std::vector<int> under_way;
    for (int r = 0; r < size(); ++r) {
      if (!start(r)) under_way.push_back(r);
    }
    while (!under_way.empty()) std::erase_if(under_way, [&](int r) { return ranks_[r].advance(); });
  }
  void synchronize() {
    for (int r = 0; r < size(); ++r) {
      const DeviceGuard guard(devices_[r]);
      check_cuda(cudaStreamSynchronize(streams_[r]), "synchronizing");
    }
  }

 private:
  std::vector<int> devices_;
  std::vector<Communicator> ranks_;
  std::vector<cudaStream_t> streams_;
  std::vector<std::byte*> inputs_, outputs_;
};

// A graph of what `calls` enqueue on the stream of one rank.
class Graph {
 public:
  template <class Calls>
  Graph(cudaStream_t stream, const Calls& calls, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal)
      : stream_(stream) {
    check_cuda(cudaStreamBeginCapture(stream, mode), "beginning a capture");
    calls();
    cudaGraph_t captured = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &captured), "ending a capture");
    cudaGraphExec_t graph = nullptr;
    check_cuda(cudaGraphInstantiate(&graph, captured, 0), "a graph");
    graph_.reset(graph);
    check_cuda(cudaGraphDestroy(captured), "a graph");
  }

  // Launches it on that stream; its device is current.
  void launch() const { check_cuda(cudaGraphLaunch(graph_.get(), stream_), "launching a graph"); }

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  cudaStream_t stream_;
  std::unique_ptr<CUgraphExec_st, Destroy> graph_;
};

// Captures a graph for each rank, one after the other. calls(r) enqueues on rank r's stream.
template <class Calls>
std::vector<Graph> captured_in_turn(World& world, const Calls& calls) {
  std::vector<Graph> graphs;
  for (int r = 0; r < world.size(); ++r) {
    const DeviceGuard guard(world.device(r));
    graphs.emplace_back(world.stream(r), [&] { calls(r); });
  }
  return graphs;
}

inline void launch(World& world, const std::vector<Graph>& graphs) {
  for (int r = 0; r < world.size(); ++r) {
    const DeviceGuard guard(world.device(r));
    graphs[static_cast<size_t>(r)].launch();
  }
}

// Graphs of what `calls` enqueue on the streams of all ranks, captured at the same time.
class Graphs {
 public:
  template <class Calls>
  Graphs(World& world, const Calls& calls) : world_(world) {
    for (int r = 0; r < world.size(); ++r) {
      check_cuda(cudaStreamBeginCapture(world.stream(r), cudaStreamCaptureModeThreadLocal), "beginning a capture");
    }
    calls();
    // A thread must not instantiate a graph while it captures another.
    std::vector<cudaGraph_t> captured;
    for (int r = 0; r < world.size(); ++r) {
      check_cuda(cudaStreamEndCapture(world.stream(r), &captured.emplace_back()), "ending a capture");
    }
    for (const cudaGraph_t graph : captured) {
      check_cuda(cudaGraphInstantiate(&graphs_.emplace_back(), graph, 0), "a graph");
      check_cuda(cudaGraphDestroy(graph), "a graph");
    }
  }
  ~Graphs() {
    for (const cudaGraphExec_t graph : graphs_) cudaGraphExecDestroy(graph);
  }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  void launch() {
    for (int r = 0; r < world_.size(); ++r) {
      const DeviceGuard guard(world_.device(r));
      check_cuda(cudaGraphLaunch(graphs_[static_cast<size_t>(r)], world_.stream(r)), "launching a graph");
    }
  }

 private:
  World& world_;
  std::vector<cudaGraphExec_t> graphs_;
};

}  // namespace plait::test

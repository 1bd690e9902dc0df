#include "runtime/cuda/copier.hpp"

#include <vector>

#include "base/error.hpp"
#include "runtime/cuda/copy_kernel.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/gated_copy_kernel.hpp"

namespace plait {
namespace {

// What is captured on a stream: the graph, and the nodes that whatever comes next will depend on.
struct CaptureEnd {
  explicit CaptureEnd(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaGraphNode_t* last = nullptr;
    size_t count = 0;
#if CUDART_VERSION >= 13000
    const cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &last, nullptr, &count);
#else
    const cudaError_t error = cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, &last, &count);
#endif
    check_cuda(error, "asking what is captured");
    nodes.assign(last, last + count);
  }

  // Makes what comes next depend on `nodes`.
  void set(cudaStream_t stream) {
#if CUDART_VERSION >= 13000
    const cudaError_t error = cudaStreamUpdateCaptureDependencies(stream, nodes.data(), nullptr, nodes.size(),
                                                                  cudaStreamSetCaptureDependencies);
#else
    const cudaError_t error =
        cudaStreamUpdateCaptureDependencies(stream, nodes.data(), nodes.size(), cudaStreamSetCaptureDependencies);
#endif
    check_cuda(error, "capturing copies");
  }

  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> nodes;
};

}  // namespace

// One copy, made ready.
struct Copier::Copy {
  Copy(const PlacedCopy& its_place, bool by_kernel) : at(its_place) {
    const uintptr_t apart = reinterpret_cast<uintptr_t>(at.to) - reinterpret_cast<uintptr_t>(at.from);
    if (by_kernel && apart % sizeof(uint4) == 0) kernel = copy_kernel();  // a copy engine takes any alignment
  }

  void start(cudaStream_t stream) const {
    if (kernel == nullptr) {
      check_cuda(cudaMemcpyAsync(at.to, at.from, at.bytes, cudaMemcpyDeviceToDevice, stream), "copying");
      return;
    }
    PlacedCopy argument = at;
    void* arguments[] = {&argument};
    check_cuda(cudaLaunchKernel(kernel, dim3(kCopyCtas), dim3(kCopyThreads), arguments, 0, stream), "copying");
  }

  cudaGraphNode_t add_to(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& before) const {
    cudaGraphNode_t node = nullptr;
    if (kernel == nullptr) {
      check_cuda(cudaGraphAddMemcpyNode1D(&node, graph, before.data(), before.size(), at.to, at.from, at.bytes,
                                          cudaMemcpyDeviceToDevice),
                 "capturing a copy");
      return node;
    }
    PlacedCopy argument = at;
    void* arguments[] = {&argument};
    cudaKernelNodeParams parameters = {};
    parameters.func = const_cast<void*>(kernel);
    parameters.gridDim = dim3(kCopyCtas);
    parameters.blockDim = dim3(kCopyThreads);
    parameters.kernelParams = arguments;
    check_cuda(cudaGraphAddKernelNode(&node, graph, before.data(), before.size(), &parameters), "capturing a copy");
    return node;
  }

  PlacedCopy at;
  const void* kernel = nullptr;  // null: by a copy engine
};

Copier::Copier(const DeviceRank& self, StrandFailure* failures, int processors)
    : self_(self), failures_(failures), processors_(processors) {
  check_cuda(cudaMalloc(&state_, sizeof(GateState)), "memory for the state of gates");
  check_cuda(cudaMemset(state_, 0, sizeof(GateState)), "clearing the state of gates");
  check_cuda(cudaStreamCreateWithFlags(&beside_, cudaStreamNonBlocking), "a stream for copies");
  for (cudaEvent_t* event : {&start_, &done_}) {
    check_cuda(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "an event");
  }
  load_kernel(gate_kernel());
  load_kernel(copy_kernel());
  load_kernel(gated_copy_kernel());
}

Copier::~Copier() {
  for (const cudaEvent_t event : {start_, done_}) cudaEventDestroy(event);
  cudaStreamDestroy(beside_);
  cudaFree(state_);
}

void Copier::enqueue(const CopyProgram& program, uint64_t agreement, std::span<const std::byte* const> inputs,
                     std::byte* output, cudaStream_t stream) {
  if (program.by_one_kernel) {
    launch_in_one(program, agreement, inputs, output, stream);
    return;
  }
  const Copies beside = copies_of(program, false, inputs, output);
  const Copies gated = copies_of(program, true, inputs, output);
  if (is_captured(stream)) {
    capture(program, agreement, beside, gated, stream);
  } else {
    run(program, agreement, beside, gated, stream);
  }
}

// Those that have to wait at the gate before them, or the others.
Copier::Copies Copier::copies_of(const CopyProgram& program, bool gated, std::span<const std::byte* const> inputs,
                                 std::byte* output) {
  Copies copies;
  for (const CopyLane& lane : program.lanes) {
    if ((lane.before.count > 0) != gated) continue;
    for (const PlacedCopy& copy : place(lane, inputs, output)) copies.emplace_back(copy, lane.by_kernel);
  }
  return copies;
}

void Copier::launch_in_one(const CopyProgram& program, uint64_t agreement, std::span<const std::byte* const> inputs,
                           std::byte* output, cudaStream_t stream) const {
  GatedCopyLaunch launch = {};
  fill(launch, agreement);
  const GatedCopyGrid grid = prepare(program, inputs, output, processors_, launch);
  if (grid.ctas == 0) return;
  void* arguments[] = {&launch};
  check_cuda(
      cudaLaunchKernel(gated_copy_kernel(), dim3(grid.ctas, grid.rows), dim3(kGatedCopyThreads), arguments, 0, stream),
      "launching copies");
}

void Copier::run(const CopyProgram& program, uint64_t agreement, const Copies& beside, const Copies& gated,
                 cudaStream_t stream) {
  if (!beside.empty()) {
    check_cuda(cudaEventRecord(start_, stream), "recording the start of copies");
    check_cuda(cudaStreamWaitEvent(beside_, start_, 0), "waiting for the start of copies");
    for (const Copy& copy : beside) copy.start(beside_);
    check_cuda(cudaEventRecord(done_, beside_), "recording the end of copies");
  }
  launch_gate(program, &CopyLane::before, agreement, stream);
  for (const Copy& copy : gated) copy.start(stream);
  if (!beside.empty()) check_cuda(cudaStreamWaitEvent(stream, done_, 0), "waiting for the end of copies");
  launch_gate(program, &CopyLane::after, agreement, stream);
}

// The same as nodes of the graph: a stream of our own would stay part of the capture until the user ends it, and could
// serve no other call meanwhile.
void Copier::capture(const CopyProgram& program, uint64_t agreement, const Copies& beside, const Copies& gated,
                     cudaStream_t stream) const {
  const auto add = [&](const Copies& copies, CaptureEnd& end) {
    for (const Copy& copy : copies) end.nodes = {copy.add_to(end.graph, end.nodes)};
  };
  CaptureEnd aside(stream);
  add(beside, aside);
  launch_gate(program, &CopyLane::before, agreement, stream);
  CaptureEnd end(stream);
  add(gated, end);
  if (!beside.empty()) end.nodes.push_back(aside.nodes.front());
  end.set(stream);
  launch_gate(program, &CopyLane::after, agreement, stream);
}

void Copier::launch_gate(const CopyProgram& program, GateLane CopyLane::* gate, uint64_t agreement,
                         cudaStream_t stream) const {
  GateLaunch launch = {};
  unsigned lanes = 0;
  for (const CopyLane& lane : program.lanes) {
    if ((lane.*gate).count > 0) launch.lanes[lanes++] = lane.*gate;
  }
  if (lanes == 0) return;
  fill(launch, agreement);
  void* arguments[] = {&launch};
  check_cuda(cudaLaunchKernel(gate_kernel(), dim3(1), dim3(lanes * kWarpThreads), arguments, 0, stream),
             "launching a gate");
}

void Copier::fill(GateEnd& end, uint64_t agreement) const {
  end.self = self_;
  end.state = state_;
  end.failures = failures_;
  end.agreement = tag_of(agreement);
}

}  // namespace plait

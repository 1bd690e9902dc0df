#include "runtime/cuda/driver/stream_fork.hpp"

#include "base/error.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

// Gets the graph that a stream is captured into, and the nodes that the next one will depend on.
void look_at_capture(cudaStream_t stream, cudaGraph_t& graph, std::vector<cudaGraphNode_t>& nodes) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* last = nullptr;
  size_t count = 0;
#if CUDART_VERSION >= 13000
  const cudaError_t error = cudaStreamGetCaptureInfo(stream, &status, nullptr, &graph, &last, nullptr, &count);
#else
  const cudaError_t error = cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, &last, &count);
#endif
  check_cuda(error, "asking what is captured");
  // A capture that has been invalidated has no graph any more.
  if (status != cudaStreamCaptureStatusActive) check_cuda(cudaErrorStreamCaptureInvalidated, "capturing a collective");
  nodes.assign(last, last + count);
}

// Makes the next node of the capture depend on `nodes` as well.
void add_to_capture(cudaStream_t stream, std::vector<cudaGraphNode_t>& nodes) {
#if CUDART_VERSION >= 13000
  const cudaError_t error = cudaStreamUpdateCaptureDependencies(stream, nodes.data(), nullptr, nodes.size(),
                                                                cudaStreamAddCaptureDependencies);
#else
  const cudaError_t error =
      cudaStreamUpdateCaptureDependencies(stream, nodes.data(), nodes.size(), cudaStreamAddCaptureDependencies);
#endif
  check_cuda(error, "joining a fork of a capture");
}

}  // namespace

SideStream::SideStream() {
  // The highest priority, whatever the main stream has: work of the fork must not run later than work of that stream.
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities of streams");
  check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest), "a stream beside others");
  for (cudaEvent_t* event : {&start_, &done_}) {
    check_cuda(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "an event");
  }
}

SideStream::~SideStream() {
  cudaStreamSynchronize(stream_);  // waits in kernels are bounded
  for (const cudaEvent_t event : {start_, done_}) cudaEventDestroy(event);
  cudaStreamDestroy(stream_);
}

StreamFork::StreamFork(SideStream& side, cudaStream_t stream) : side_(side), stream_(stream) {
  if (is_captured(stream)) {
    look_at_capture(stream, graph_, last_);
    return;
  }
  check_cuda(cudaEventRecord(side_.start_, stream), "recording the start of a fork");
  check_cuda(cudaStreamWaitEvent(side_.stream_, side_.start_, 0), "waiting for the start of a fork");
}

void StreamFork::launch(const void* kernel, dim3 grid, dim3 block, void* argument, const char* what) {
  void* arguments[] = {argument};
  if (graph_ == nullptr) {
    check_cuda(cudaLaunchKernel(kernel, grid, block, arguments, 0, side_.stream_), what);
    return;
  }
  cudaKernelNodeParams parameters = {};
  parameters.func = const_cast<void*>(kernel);
  parameters.gridDim = grid;
  parameters.blockDim = block;
  parameters.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  check_cuda(cudaGraphAddKernelNode(&node, graph_, last_.data(), last_.size(), &parameters), what);
  cudaLaunchAttributeValue priority = {};
  check_cuda(cudaStreamGetPriority(stream_, &priority.priority), "asking for the priority of a stream");
  check_cuda(cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &priority), what);
  last_ = {node};
}

void StreamFork::copy(void* to, const void* from, size_t bytes) {
  if (graph_ == nullptr) {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, side_.stream_), "copying");
    return;
  }
  cudaGraphNode_t node = nullptr;
  check_cuda(
      cudaGraphAddMemcpyNode1D(&node, graph_, last_.data(), last_.size(), to, from, bytes, cudaMemcpyDeviceToDevice),
      "capturing a copy");
  last_ = {node};
}

StreamFork::~StreamFork() {
  if (is_joined_) return;
  try {
    join();
  } catch (const Error&) {  // the earlier exception says more
  }
}

void StreamFork::join() {
  is_joined_ = true;
  if (graph_ != nullptr) {
    add_to_capture(stream_, last_);
    return;
  }
  check_cuda(cudaEventRecord(side_.done_, side_.stream_), "recording the end of a fork");
  check_cuda(cudaStreamWaitEvent(stream_, side_.done_, 0), "waiting for the end of a fork");
}

}  // namespace plait

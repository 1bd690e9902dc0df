// Staging by CUDA.
#include "runtime/cuda/staging/cuda_staging.hpp"

#include <new>

#include "base/error.hpp"
#include "runtime/cuda/driver/free_when_idle.hpp"

namespace plait {
namespace {

template <class Function>
void find_stream_operation(int device, const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status;
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &status);
  if (error == cudaSuccess && status == cudaDriverEntryPointSuccess && found != nullptr) {
    function = reinterpret_cast<Function>(found);
    return;
  }
  cudaGetLastError();
  fail(ErrorCode::kSystem, "device ", device, ": this CUDA driver has no ", name,
       ", by which streams wait for calls over several hosts; Plait needs the driver of CUDA 12.0 or newer");
}

}  // namespace

struct CudaStaging::Calls {
  explicit Calls(int device) {
    find_stream_operation(device, "cuStreamWaitValue64", wait);
    find_stream_operation(device, "cuStreamWriteValue64", write);
  }
  decltype(&cuStreamWaitValue64) wait = nullptr;
  decltype(&cuStreamWriteValue64) write = nullptr;
};

// They have the highest priority, whatever the streams of calls have. Streams of different priorities do not share a
// queue of the GPU either, in which they would wait for each other.
struct CudaStaging::Streams {
  Streams() {
    int least = 0, greatest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities of streams");
    for (cudaStream_t* stream : {&in, &out}) {
      check_cuda(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, greatest), "a stream for staging");
    }
    for (cudaEvent_t* event : {&start, &in_done, &done}) {
      check_cuda(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "an event");
    }
  }
  ~Streams() {
    for (const cudaStream_t stream : {in, out}) {
      cudaStreamSynchronize(stream);
      cudaStreamDestroy(stream);
    }
    for (const cudaEvent_t event : {start, in_done, done}) cudaEventDestroy(event);
  }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  cudaStream_t in = nullptr, out = nullptr;
  cudaEvent_t start = nullptr, in_done = nullptr, done = nullptr;
};

CudaStaging::CudaStaging(int device, size_t bytes) : device_(device), bytes_(bytes) {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device);
  calls_ = std::make_unique<Calls>(device);
  void* memory = nullptr;
  const size_t all = sizeof(StagingCounters) + bytes;
  check_cuda(cudaHostAlloc(&memory, all, cudaHostAllocMapped | cudaHostAllocPortable), all,
             " bytes of pinned host memory for calls over several hosts (less with a lower PLAIT_STAGING_KIB)");
  pinned_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), [](std::byte* it) { cudaFreeHost(it); });
  new (memory) StagingCounters;
  void* mapped = nullptr;
  check_cuda(cudaHostGetDevicePointer(&mapped, memory, 0), "mapping the memory for staging");
  mapped_ = reinterpret_cast<CUdeviceptr>(mapped);
  streams_ = std::make_unique<Streams>();
}

CudaStaging::~CudaStaging() {
  for (StagingCounter& it : counters().performed) it.chunk.store(kAllChunks, std::memory_order_release);
  const RelaxedCapture relaxed;
  int before = -1;
  if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(device_) != cudaSuccess) {  // CUDA has shut down
    static_cast<void>(streams_.release());
    new std::shared_ptr<std::byte>(std::move(pinned_));  // for good
    return;
  }
  streams_.reset();
  const auto held = std::make_shared<std::shared_ptr<std::byte>>(std::move(pinned_));
  free_when_idle(device_, [held] { held->reset(); });
  cudaSetDevice(before);
}

std::span<std::byte> CudaStaging::memory() { return {pinned_.get() + sizeof(StagingCounters), bytes_}; }

StagingCounters& CudaStaging::counters() { return *reinterpret_cast<StagingCounters*>(pinned_.get()); }

CUdeviceptr CudaStaging::address_of(const StagingCounter& counter) const {
  return mapped_ + static_cast<CUdeviceptr>(reinterpret_cast<const std::byte*>(&counter) - pinned_.get());
}

void CudaStaging::begin(void* stream) {
  const DeviceGuard guard(device_);
  const auto s = static_cast<cudaStream_t>(stream);
  if (is_captured(s)) {
    fail(ErrorCode::kInvalidArgument,
         "the stream is captured into a CUDA graph, and a communicator over several hosts takes no calls of graphs, "
         "since the CPU has a part in each; make the call outside of the graph");
  }
  check_cuda(cudaEventRecord(streams_->start, s), "recording the stream of a call");
  for (const cudaStream_t copies : {streams_->in, streams_->out}) {
    check_cuda(cudaStreamWaitEvent(copies, streams_->start, 0), "waiting for the stream of a call");
  }
  if (stream != last_stream_) {
    check_cuda(cudaStreamWaitEvent(streams_->in, streams_->done, 0), "waiting for an earlier call");
  }
  last_stream_ = stream;
}

void CudaStaging::copy_in(const void* buffer, std::byte* memory, const StagedRows& rows) {
  const DeviceGuard guard(device_);
  check_cuda(cudaMemcpy2DAsync(memory, rows.bytes, buffer, rows.stride, rows.bytes, rows.count, cudaMemcpyDeviceToHost,
                               streams_->in),
             "copying ", rows.total_bytes(), " bytes to host memory");
}

void CudaStaging::copy_out(const std::byte* memory, void* buffer, const StagedRows& rows) {
  const DeviceGuard guard(device_);
  check_cuda(cudaMemcpy2DAsync(buffer, rows.stride, memory, rows.bytes, rows.bytes, rows.count, cudaMemcpyHostToDevice,
                               streams_->out),
             "copying ", rows.total_bytes(), " bytes from host memory");
}

void CudaStaging::await(cudaStream_t stream, const StagingCounter& counter, uint64_t chunk) const {
  const DeviceGuard guard(device_);
  check_driver(calls_->wait(stream, address_of(counter), chunk, CU_STREAM_WAIT_VALUE_GEQ),
               "waiting for the CPU's part of a call");
}

void CudaStaging::count(cudaStream_t stream, const StagingCounter& counter, uint64_t chunk) const {
  const DeviceGuard guard(device_);
  check_driver(calls_->write(stream, address_of(counter), chunk, CU_STREAM_WRITE_VALUE_DEFAULT),
               "telling the CPU of a copy");
}

void CudaStaging::await_before_in(size_t lane, uint64_t chunk) {
  await(streams_->in, counters().performed[lane], chunk);
}
void CudaStaging::await_before_out(size_t lane, uint64_t chunk) {
  await(streams_->out, counters().performed[lane], chunk);
}
void CudaStaging::count_in(uint64_t chunk) { count(streams_->in, counters().in, chunk); }
void CudaStaging::count_out(uint64_t chunk) { count(streams_->out, counters().out, chunk); }

// Copies out come after copies in, but for those of a call that failed, where nothing waits any more.
void CudaStaging::end(void* stream) {
  const DeviceGuard guard(device_);
  check_cuda(cudaEventRecord(streams_->in_done, streams_->in), "recording the copies of a call");
  check_cuda(cudaStreamWaitEvent(streams_->out, streams_->in_done, 0), "waiting for the copies of a call");
  check_cuda(cudaEventRecord(streams_->done, streams_->out), "recording the end of a call");
  check_cuda(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), streams_->done, 0),
             "waiting for the end of a call");
}

void CudaStaging::finish() {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device_);
  check_cuda(cudaStreamSynchronize(streams_->out), "waiting for the last call");
}

void CudaStaging::check() {
  const RelaxedCapture relaxed;
  const DeviceGuard guard(device_);
  const cudaError_t state = cudaStreamQuery(streams_->out);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // that is no error
    return;
  }
  check_cuda(state, "copying for a call over several hosts");
}

}  // namespace plait

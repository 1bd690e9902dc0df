// Times work requests of a CPU-driven GPU, as the CPU sees them: through one queue and through a queue for each CTA,
// with kernels of several sizes (NVG-38, NVG-52). One process, one GPU, sums of float32. It checks every result.
//
//   work_requests [64 8M] [requests]
//
// A row for each action, kind of queue and size, in microseconds: the median from a request to its answer, one request
// at a time. TO-LOCAL adds two buffers of the GPU; TO-CPU adds one to host memory; GROUP-BCAST copies host memory.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/deadline.hpp"
#include "base/error.hpp"
#include "program.hpp"
#include "runtime/cuda/cpu_driven/cuda_reduces.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

constexpr int kCtas[] = {1, 2, 4, 8, 16, 32};
constexpr size_t kStep = 8;
constexpr double kLongestSeconds = 10;
constexpr std::chrono::microseconds kIdle(2000);  // the kernel stays between requests

// Three buffers of floats on the GPU, and three in pinned host memory.
class Buffers {
 public:
  explicit Buffers(size_t bytes) : bytes_(bytes), ones_(bytes / sizeof(float), 1.0f) {
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, 3 * bytes), "buffers");
    on_gpu_ = static_cast<std::byte*>(memory);
    check_cuda(cudaHostAlloc(&memory, 3 * bytes, cudaHostAllocMapped), "pinned memory");
    host_ = static_cast<std::byte*>(memory);
    check_cuda(cudaHostGetDevicePointer(&memory, host_, 0), "mapping it");
    mapped_ = static_cast<std::byte*>(memory);
  }
  ~Buffers() {
    cudaFree(on_gpu_);
    cudaFreeHost(host_);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // All ones, but for the destinations.
  void fill() const {
    std::memset(host_, 0, 3 * bytes_);
    check_cuda(cudaMemset(on_gpu_, 0, 3 * bytes_), "clearing");
    for (const size_t i : {1, 2}) {
      std::memcpy(host_ + i * bytes_, ones_.data(), bytes_);
      check_cuda(cudaMemcpy(on_gpu_ + i * bytes_, ones_.data(), bytes_, cudaMemcpyHostToDevice), "upload");
    }
    check_cuda(cudaDeviceSynchronize(), "the end of the upload");
  }
  WorkRequest request(WorkAction action, size_t bytes) const {
    WorkRequest it;
    it.action = action;
    it.destinations = 1;
    it.sources = action == WorkAction::kGroupBroadcast ? 1 : 2;
    it.elements = bytes / sizeof(float);
    it.places[0] = action == WorkAction::kToCpu ? mapped_ : on_gpu_;
    it.places[1] = (action == WorkAction::kToLocal ? on_gpu_ : mapped_) + bytes_;
    it.places[2] = on_gpu_ + 2 * bytes_;
    return it;
  }
  size_t wrong(WorkAction action, size_t bytes) const {
    std::vector<float> result(bytes / sizeof(float));
    const std::byte* const from = action == WorkAction::kToCpu ? host_ : on_gpu_;
    check_cuda(cudaMemcpy(result.data(), from, bytes, cudaMemcpyDefault), "download");
    const float expected = action == WorkAction::kGroupBroadcast ? 1 : 2;
    return result.size() - static_cast<size_t>(std::count(result.begin(), result.end(), expected));
  }

 private:
  const size_t bytes_;
  const std::vector<float> ones_;
  std::byte* on_gpu_ = nullptr;
  std::byte* host_ = nullptr;
  std::byte* mapped_ = nullptr;
};

// Seconds from a request to its answer.
double round_trip(CudaReduces& gpu, const WorkRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t number = gpu.post(request);
  const Deadline deadline = Deadline::after(kLongestSeconds);
  while (!gpu.is_done(number)) {
    if (deadline.passed()) fail(ErrorCode::kTimeout, "no answer to a ", name(request.action), " of ", request.elements);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median_seconds(CudaReduces& gpu, const WorkRequest& request, int requests) {
  constexpr int kWarmUps = 10;
  std::vector<double> seconds;
  for (int i = 0; i < kWarmUps + requests; ++i) {
    const double it = round_trip(gpu, request);
    if (i >= kWarmUps) seconds.push_back(it);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

void measure(WorkAction action, CpuDriven queues, size_t bytes, const Buffers& buffers, int requests) {
  std::printf("%-11s  %-13s  %8zu", name(action).data(), name(queues), bytes);
  size_t wrong = 0;
  for (const int ctas : kCtas) {
    const CudaReduces::Options options{queues, ctas, kIdle, 4096};
    const int devices[] = {0};
    auto memory = PeerMemory::in_process(devices, CudaReduces::peer_bytes(options), PeerMemoryKind::kAuto);
    CudaReduces gpu(std::move(memory.front()), {0}, options);
    buffers.fill();
    std::printf("  %8.2f", median_seconds(gpu, buffers.request(action, bytes), requests) * 1e6);
    gpu.finish();
    wrong += buffers.wrong(action, bytes);
  }
  std::printf("  %zu\n", wrong);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const size_t least = argc > 2 ? parse_bytes(argv[1]) : 64, most = argc > 2 ? parse_bytes(argv[2]) : 8 << 20;
  const int requests = argc > 3 ? std::atoi(argv[3]) : 200;
  const DeviceGuard guard(0);
  const Buffers buffers(most);
  std::printf("action       queues            bytes");
  for (const int ctas : kCtas) std::printf("  %3d CTAs", ctas);
  std::printf("  wrong\n");
  for (const WorkAction action : {WorkAction::kToLocal, WorkAction::kToCpu, WorkAction::kGroupBroadcast}) {
    for (const CpuDriven queues : {CpuDriven::kOneQueue, CpuDriven::kQueuePerCta}) {
      for (size_t bytes = least; bytes <= most; bytes *= kStep) measure(action, queues, bytes, buffers, requests);
    }
  }
  return 0;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) { return plait::exit_status(plait::run, argc, argv); }

// Measures what the links between this machine's GPUs carry, by who moves the data: the most that Plait's kernels and
// copies can reach (docs/notes/link_rates.md). The data is moved by copy engines; by SMs that load or store 16 bytes a
// thread; or by SMs that leave both to bulk copies (from sm_90 on). It goes from one GPU to the next, and from all GPUs
// each to its next at once, from one process.
//
//   link_rates [gigabytes a figure moves at least, 0.5]
//
// One line of JSON a figure. Nothing here waits for another GPU, and results are not looked at.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/error.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

constexpr size_t kBytes = 128 << 20;
constexpr int kTimes = 3;  // the best counts, as it is a bound
constexpr int kThreads = 512;
constexpr int kAtOnce = 8;  // loads of a thread
// Bulk copies of a CTA that are under way, and the bytes of each: as much as shared memory holds, as few CTAs need it.
constexpr int kTiles = 8;
constexpr unsigned kTileBytes = 24 << 10;

__global__ void __launch_bounds__(kThreads, 1) copy(uint4* to, const uint4* from, size_t vectors, int rounds) {
  const size_t threads = size_t{gridDim.x} * blockDim.x;
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < vectors; i += threads * kAtOnce) {
      uint4 values[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        if (i + u * threads < vectors) values[u] = __ldcv(from + i + u * threads);
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        if (i + u * threads < vectors) to[i + u * threads] = values[u];
      }
    }
  }
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ unsigned shared_address(const void* at) { return static_cast<unsigned>(__cvta_generic_to_shared(at)); }

// One thread: tiles are loaded half a ring ahead, and stored from where they came.
__global__ void bulk_copy(std::byte* to, const std::byte* from, size_t bytes, int rounds) {
  extern __shared__ __align__(128) std::byte tiles[];
  __shared__ unsigned long long arrived[kTiles];
  constexpr unsigned kAhead = kTiles / 2;
  constexpr int kMostLooks = 1 << 22;
  if (threadIdx.x != 0) return;
  for (auto& barrier : arrived) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&barrier)));
  }
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  const size_t all = bytes / kTileBytes;
  const size_t mine = all > blockIdx.x ? (all - blockIdx.x + gridDim.x - 1) / gridDim.x : 0;
  const auto offset = [&](size_t k) { return (blockIdx.x + k % mine * gridDim.x) * size_t{kTileBytes}; };
  for (size_t k = 0; k < mine * rounds + kAhead; ++k) {
    if (k < mine * rounds) {
      const unsigned tile = shared_address(tiles + k % kTiles * kTileBytes);
      const unsigned barrier = shared_address(arrived + k % kTiles);
      asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kTiles - kAhead - 1) : "memory");
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kTileBytes) : "memory");
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(tile),
          "l"(from + offset(k)), "r"(kTileBytes), "r"(barrier)
          : "memory");
    }
    if (k < kAhead) continue;
    const size_t j = k - kAhead;
    const unsigned barrier = shared_address(arrived + j % kTiles), phase = j / kTiles & 1;
    unsigned has_come = 0;
    for (int looks = 0; has_come == 0; ++looks) {
      if (looks == kMostLooks) return;
      asm volatile(
          "{ .reg .pred came;\n"
          "  mbarrier.try_wait.parity.shared::cta.b64 came, [%1], %2;\n"
          "  selp.u32 %0, 1, 0, came; }"
          : "=r"(has_come)
          : "r"(barrier), "r"(phase)
          : "memory");
    }
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to + offset(j)),
                 "r"(shared_address(tiles + j % kTiles * kTileBytes)), "r"(kTileBytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  }
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
#else
__global__ void bulk_copy(std::byte*, const std::byte*, size_t, int) {}
#endif

struct Gpu {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr, stop = nullptr;
  std::byte* from = nullptr;
  std::byte* to = nullptr;
};

enum class Mover { kCopyEngine, kLoads, kStores, kBulkLoads, kBulkStores };
const char* name(Mover mover) {
  constexpr const char* kNames[] = {"copy engine", "loads", "stores", "bulk copies, loading", "bulk copies, storing"};
  return kNames[static_cast<int>(mover)];
}

class LinkRates {
 public:
  LinkRates(int gpus, double gigabytes)
      : gpus_(static_cast<size_t>(gpus)),
        rounds_(std::max(1, static_cast<int>(gigabytes * 1e9 / static_cast<double>(kBytes)))) {
    for (int g = 0; g < gpus; ++g) {
      const DeviceGuard guard(g);
      for (int peer = 0; peer < gpus; ++peer) {
        if (peer != g) check_cuda(cudaDeviceEnablePeerAccess(peer, 0), "access to another GPU");
      }
      Gpu& gpu = gpus_[static_cast<size_t>(g)];
      check_cuda(cudaStreamCreateWithFlags(&gpu.stream, cudaStreamNonBlocking), "a stream");
      check_cuda(cudaEventCreate(&gpu.start), "an event");
      check_cuda(cudaEventCreate(&gpu.stop), "an event");
      check_cuda(cudaMalloc(&gpu.from, kBytes), "memory");
      check_cuda(cudaMalloc(&gpu.to, kBytes), "memory");
      check_cuda(cudaFuncSetAttribute(bulk_copy, cudaFuncAttributeMaxDynamicSharedMemorySize, kTiles * kTileBytes),
                 "shared memory");
    }
  }

  // Bytes a second, of the slowest GPU that takes part.
  double measure(Mover mover, int ctas, bool all) {
    double best = 0;
    for (int time = 0; time < kTimes; ++time) {
      const size_t parts = all ? gpus_.size() : 1;
      for (size_t g = 0; g < parts; ++g) begin(mover, ctas, g);
      float longest = 0;
      for (size_t g = 0; g < parts; ++g) {
        float milliseconds = 0;
        check_cuda(cudaEventSynchronize(gpus_[g].stop), "waiting");
        check_cuda(cudaEventElapsedTime(&milliseconds, gpus_[g].start, gpus_[g].stop), "timing");
        longest = std::max(longest, milliseconds);
      }
      best = std::max(best, static_cast<double>(kBytes) * rounds_ / (longest * 1e-3));
    }
    return best;
  }

 private:
  // On GPU `g`, which loads from the next one or stores there.
  void begin(Mover mover, int ctas, size_t g) {
    const DeviceGuard guard(static_cast<int>(g));
    const Gpu &gpu = gpus_[g], &next = gpus_[(g + 1) % gpus_.size()];
    const bool stores = mover == Mover::kStores || mover == Mover::kBulkStores;
    std::byte* const to = stores ? next.to : gpu.to;
    const std::byte* const from = stores ? gpu.from : next.from;
    check_cuda(cudaEventRecord(gpu.start, gpu.stream), "timing");
    if (mover == Mover::kCopyEngine) {
      for (int round = 0; round < rounds_; ++round) {
        check_cuda(cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDefault, gpu.stream), "a copy");
      }
    } else if (mover == Mover::kLoads || mover == Mover::kStores) {
      copy<<<ctas, kThreads, 0, gpu.stream>>>(reinterpret_cast<uint4*>(to), reinterpret_cast<const uint4*>(from),
                                              kBytes / sizeof(uint4), rounds_);
    } else {
      bulk_copy<<<ctas, 32, kTiles * kTileBytes, gpu.stream>>>(to, from, kBytes, rounds_);
    }
    check_cuda(cudaGetLastError(), "a launch");
    check_cuda(cudaEventRecord(gpu.stop, gpu.stream), "timing");
  }

  std::vector<Gpu> gpus_;
  const int rounds_;
};

int run(double gigabytes) {
  const int gpus = cuda_device_count();
  if (gpus < 2) {
    std::fputs("link_rates needs two GPUs\n", stderr);
    return 1;
  }
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, 0), "asking for the GPU's name");
  LinkRates rates(gpus, gigabytes);
  for (const bool all : {false, true}) {
    for (const Mover mover :
         {Mover::kCopyEngine, Mover::kLoads, Mover::kStores, Mover::kBulkLoads, Mover::kBulkStores}) {
      if (mover >= Mover::kBulkLoads && properties.major < 9) continue;
      for (const int ctas : {1, 2, 4, 8, 16, 32, 64, 128}) {
        const bool by_engine = mover == Mover::kCopyEngine;
        if (by_engine && ctas > 1) break;
        std::printf(
            "{\"gpu\": \"%s\", \"gpus\": %d, \"mover\": \"%s\", \"ctas\": %d, \"at_once\": %s, \"gb_s\": %.1f}\n",
            properties.name, gpus, name(mover), by_engine ? 0 : ctas, all ? "\"all to next\"" : "\"one to next\"",
            rates.measure(mover, ctas, all) * 1e-9);
        std::fflush(stdout);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  try {
    return plait::run(argc > 1 ? std::atof(argv[1]) : 0.5);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

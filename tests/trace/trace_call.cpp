// One all-reduce of each of two ranks, and nothing else, in the coverage counters of a program that was compiled with
// --coverage. tools/trace_call.py builds and runs it, and lists the files that the call went through.
//
//   trace_call first|steady host|cuda BYTES
#include <plait/plait.h>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#ifdef PLAIT_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif

extern "C" void __gcov_reset();
extern "C" void __gcov_dump();

namespace {

constexpr int kRanks = 2, kCallsBefore = 20;

void check(plaitResult_t result) {
  if (result == plaitSuccess) return;
  std::fprintf(stderr, "%s: %s\n", plaitGetErrorString(result), plaitGetLastError(nullptr));
  std::exit(1);
}

// A rank's communicator, buffers and stream.
struct TracedRank {
  plaitComm_t comm = nullptr;
  int device = PLAIT_DEVICE_HOST;
  void* input = nullptr;
  void* output = nullptr;
  plaitStream_t stream = nullptr;

  void call(size_t floats) const {
    check(plaitAllReduce(input, output, floats, plaitFloat32, plaitSum, comm, stream));
#ifdef PLAIT_HAVE_CUDA
    if (device != PLAIT_DEVICE_HOST && cudaStreamSynchronize(stream) != cudaSuccess) std::exit(1);
#endif
  }
};

std::vector<TracedRank> make_ranks(bool on_gpus, size_t bytes) {
  std::vector<TracedRank> ranks(kRanks);
  std::vector<int> devices(kRanks, PLAIT_DEVICE_HOST);
#ifdef PLAIT_HAVE_CUDA
  int gpus = 0;
  if (on_gpus && (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0)) std::exit(77);
  for (int rank = 0; on_gpus && rank < kRanks; ++rank) {
    TracedRank& own = ranks[static_cast<size_t>(rank)];
    devices[static_cast<size_t>(rank)] = own.device = rank % gpus;
    cudaSetDevice(own.device);
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    own.stream = stream;
    if (cudaMalloc(&own.input, bytes) != cudaSuccess || cudaMalloc(&own.output, bytes) != cudaSuccess) std::exit(1);
  }
#else
  if (on_gpus) std::exit(77);
#endif
  std::vector<plaitComm_t> comms(kRanks);
  check(plaitCommInitAll(comms.data(), kRanks, devices.data()));
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].comm = comms[rank];
    if (on_gpus) continue;
    ranks[rank].input = std::calloc(1, bytes);
    ranks[rank].output = std::calloc(1, bytes);
  }
  return ranks;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const bool is_first = std::strcmp(argv[1], "first") == 0;
  const size_t bytes = std::strtoull(argv[3], nullptr, 10);
  const std::vector<TracedRank> ranks = make_ranks(std::strcmp(argv[2], "cuda") == 0, bytes);
  std::barrier together(kRanks);
  std::vector<std::thread> threads;
  for (const TracedRank& own : ranks) {
    threads.emplace_back([&] {
      const bool is_leader = &own == &ranks.front();
#ifdef PLAIT_HAVE_CUDA
      if (own.device != PLAIT_DEVICE_HOST) cudaSetDevice(own.device);
#endif
      for (int i = 0; !is_first && i < kCallsBefore; ++i) own.call(bytes / sizeof(float));
      together.arrive_and_wait();
      if (is_leader) __gcov_reset();
      together.arrive_and_wait();
      own.call(bytes / sizeof(float));
      together.arrive_and_wait();
      if (is_leader) __gcov_dump();
      together.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::fflush(nullptr);
  std::_Exit(0);  // or what ends the communicators would be counted, too
}

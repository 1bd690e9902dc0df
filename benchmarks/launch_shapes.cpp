// Times all launch shapes of a collective on the GPUs of this machine, one process driving all of them, calls replayed
// from a CUDA graph: what profiles/hopper.json is written from. It checks no results; the tests do.
//
//   launch_shapes all_reduce 8 16M [ranks] [step factor] [one launch, such as simple:64x512, or "chosen"] [others]
//
// others: so many kernels of something else, which hardly do anything, after each call. They count.
//
// One line of JSON a figure; the fastest shape of each size last, as a table on stderr.
#include <cuda_runtime.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "program.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/zero_copy/copy_kernel.hpp"
#include "tuner/launch_shape.hpp"

namespace plait {
namespace {

constexpr int kCallsInGraph = 20;
constexpr int kReplays = 7;

struct Gpu {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr, stop = nullptr;
  void* input = nullptr;
  void* output = nullptr;
};

// All ranks take each step before any takes the next, so that long calls go straight from buffer to buffer.
void enqueue(std::vector<Communicator>& ranks, const std::vector<Gpu>& gpus, const Call& call) {
  std::vector<size_t> under_way;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (!ranks[r].start_enqueue(call, gpus[r].input, gpus[r].output, gpus[r].stream)) under_way.push_back(r);
  }
  while (!under_way.empty()) {
    std::erase_if(under_way, [&](size_t r) { return ranks[r].advance(); });
  }
}

// A kernel that copies 16 bytes.
void enqueue_other(const Communicator& rank, const Gpu& gpu) {
  const DeviceGuard guard(rank.device());
  PlacedCopy copy{static_cast<std::byte*>(gpu.output), static_cast<const std::byte*>(gpu.input), 16};
  void* arguments[] = {&copy};
  check_cuda(cudaLaunchKernel(copy_kernel(), dim3(1), dim3(32), arguments, 0, gpu.stream), "another kernel");
}

// Seconds of one call: the median over replays of the slowest GPU.
double time_call(std::vector<Communicator>& ranks, std::vector<Gpu>& gpus, const Call& call, int others) {
  const size_t size = ranks.size();
  std::vector<cudaGraphExec_t> graphs(size);
  enqueue(ranks, gpus, call);
  for (const Gpu& gpu : gpus) {
    check_cuda(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal), "capture");
  }
  for (int i = 0; i < kCallsInGraph; ++i) {
    enqueue(ranks, gpus, call);
    for (int other = 0; other < others; ++other) {
      for (size_t r = 0; r < size; ++r) enqueue_other(ranks[r], gpus[r]);
    }
  }
  std::vector<cudaGraph_t> captured(size);
  for (size_t r = 0; r < size; ++r) check_cuda(cudaStreamEndCapture(gpus[r].stream, &captured[r]), "end of capture");
  for (size_t r = 0; r < size; ++r) {
    const DeviceGuard guard(ranks[r].device());
    check_cuda(cudaGraphInstantiate(&graphs[r], captured[r], 0), "graph");
    check_cuda(cudaGraphUpload(graphs[r], gpus[r].stream), "upload of a graph");
    cudaGraphDestroy(captured[r]);
  }
  std::vector<double> seconds;
  for (int replay = 0; replay <= kReplays; ++replay) {
    for (size_t i = 0; i < size; ++i) {
      const size_t r = size - 1 - i;
      const DeviceGuard guard(ranks[r].device());
      check_cuda(cudaEventRecord(gpus[r].start, gpus[r].stream), "event");
      check_cuda(cudaGraphLaunch(graphs[r], gpus[r].stream), "replay");
      check_cuda(cudaEventRecord(gpus[r].stop, gpus[r].stream), "event");
    }
    // Rank 0 starts last, so its clock does not count the others' start.
    const DeviceGuard guard(ranks[0].device());
    check_cuda(cudaEventSynchronize(gpus[0].stop), "replay");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, gpus[0].start, gpus[0].stop), "time");
    if (replay > 0) seconds.push_back(milliseconds * 1e-3 / kCallsInGraph);
    for (size_t r = 0; r < size; ++r) check_cuda(cudaStreamSynchronize(gpus[r].stream), "replay");
  }
  for (const cudaGraphExec_t graph : graphs) cudaGraphExecDestroy(graph);
  if (const auto error = ranks[0].async_error()) throw *error;
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

struct Trial {
  std::string algorithm, launch;
  size_t bytes = 0;
  double seconds = 0;
};

std::vector<std::string> algorithms_of(Collective collective) {
  std::vector<std::string> algorithms = {"flat(store)", "flat(store, parts=2)", "flat(both)"};
  if (collective == Collective::kBarrier) return {"flat"};
  if (collective == Collective::kAllReduce || collective == Collective::kReduce ||
      collective == Collective::kBroadcast) {
    algorithms.push_back("one_shot(store)");
    algorithms.push_back("one_shot(store, parts=2)");
  }
  if (collective == Collective::kReduce || collective == Collective::kBroadcast) {
    algorithms.push_back("chain(store, parts=4)");
  }
  return algorithms;
}

// Few CTAs or threads need not be tried from here on.
constexpr size_t kMuch = 64 << 10;

// Whether a shape could win, and is tried.
bool is_worth_trying(const std::string& algorithm, const LaunchShape& shape, size_t bytes, int ranks) {
  const bool queues = algorithm.ends_with("parts=2)") || algorithm == "flat(both)";
  const size_t per_thread = bytes / static_cast<size_t>(shape.channels * shape.threads);
  if (shape.protocol == Protocol::kLl && bytes > (size_t{1} << 20)) return false;
  if (shape.protocol == Protocol::kLl128 && (bytes > (size_t{64} << 20) || bytes < (size_t{16} << 10))) return false;
  if (algorithm.starts_with("one_shot") && bytes > (size_t{1} << 20) && ranks > 2) return false;
  if (queues && (bytes < (size_t{1} << 20) || shape.protocol != Protocol::kSimple)) return false;
  if (per_thread > 4096 * 4 || (per_thread == 0 && shape.channels > 1)) return false;
  if (shape.threads < 256 && bytes > (size_t{256} << 10)) return false;
  return shape.channels >= 16 || bytes <= (size_t{8} << 20);
}

struct Sizes {
  size_t least, most, factor;
};

// All sizes with one algorithm and launch; empty: those that a communicator chooses.
void time_sizes(const std::string& algorithm, const std::string& launch, Collective collective, const Sizes& sizes,
                const std::vector<int>& devices, std::vector<Gpu>& gpus, int others, std::vector<Trial>& best) {
  Settings settings = Settings::from_environment();  // of what is chosen, PLAIT_ALGORITHM and others may have a say
  settings.timeout_seconds = 5;
  if (!algorithm.empty()) settings.algorithm = std::string(name(collective)) + ":" + algorithm;
  if (!launch.empty()) settings.launch = launch;
  const int count = static_cast<int>(devices.size());
  std::vector<Communicator> ranks = Communicator::in_process(devices, settings);
  for (size_t bytes = sizes.least; bytes <= sizes.most; bytes *= sizes.factor) {
    if (!launch.empty() && !is_worth_trying(algorithm, parse_launch_shape(launch), bytes, count)) continue;
    const size_t blocks = has_rank_blocks(collective) ? static_cast<size_t>(count) : 1;
    const Call call{collective, DataType::kFloat32, ReduceOp::kSum, 0, std::max<size_t>(1, bytes / 4 / blocks)};
    Trial trial{algorithm, launch, bytes, 0};
    if (launch.empty()) {
      trial.algorithm = ranks[0].plan_for(call).plan().algorithm;
      trial.launch = "(chosen)";
    }
    try {
      trial.seconds = time_call(ranks, gpus, call, others);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kResources) throw;
      for (Gpu& gpu : gpus) cudaStreamEndCapture(gpu.stream, nullptr);
      continue;  // more CTAs than the GPU holds at once
    }
    std::printf(
        "{\"collective\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"algorithm\": \"%s\", \"launch\": \"%s\", "
        "\"us\": %.3f}\n",
        name(collective), count, bytes, trial.algorithm.c_str(), trial.launch.c_str(), trial.seconds * 1e6);
    best.push_back(trial);
  }
}

int run(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s COLLECTIVE LEAST MOST [RANKS] [FACTOR] [LAUNCH] [OTHERS]\n", argv[0]);
    return 2;
  }
  const Collective collective = parse_collective(argv[1]);
  const size_t least = parse_bytes(argv[2]), most = parse_bytes(argv[3]);
  const int visible = cuda_device_count();
  const int count = argc > 4 ? std::atoi(argv[4]) : visible;
  const size_t factor = argc > 5 ? static_cast<size_t>(std::atoi(argv[5])) : 4;
  const int others = argc > 7 ? std::atoi(argv[7]) : 0;
  if (visible < 1 || count < 1) {
    std::fprintf(stderr, "no GPU\n");
    return 77;
  }
  std::vector<int> devices;
  std::vector<Gpu> gpus(count);
  for (int r = 0; r < count; ++r) {
    devices.push_back(r % visible);
    const DeviceGuard guard(devices[r]);
    check_cuda(cudaStreamCreateWithFlags(&gpus[r].stream, cudaStreamNonBlocking), "a stream");
    check_cuda(cudaEventCreate(&gpus[r].start), "an event");
    check_cuda(cudaEventCreate(&gpus[r].stop), "an event");
    check_cuda(cudaMalloc(&gpus[r].input, most), "input");
    check_cuda(cudaMalloc(&gpus[r].output, most), "output");
    check_cuda(cudaMemset(gpus[r].input, 0, most), "input");
  }
  const Sizes sizes{least, most, factor};
  std::vector<Trial> best;
  // What a communicator chooses by itself.
  if (argc <= 6 || std::string(argv[6]) == "chosen") time_sizes({}, {}, collective, sizes, devices, gpus, others, best);
  const bool is_given = argc > 6 && std::string(argv[6]) != "chosen";
  for (const std::string& algorithm : algorithms_of(collective)) {
    if (is_given) time_sizes(algorithm, argv[6], collective, sizes, devices, gpus, others, best);
    if (argc > 6) continue;
    for (const char* protocol : {"ll", "ll128", "simple"}) {
      for (const int channels : {1, 2, 4, 8, 16, 24, 32, 48, 64}) {
        for (const int threads : {64, 128, 256, 512}) {
          const std::string launch = join(protocol, ":", channels, "x", threads);
          if (least >= kMuch && (channels < 16 || threads < 256)) continue;
          time_sizes(algorithm, launch, collective, sizes, devices, gpus, others, best);
        }
      }
    }
  }
  std::fprintf(stderr, "%s over %d ranks\n", name(collective), count);
  for (size_t bytes = least; bytes <= most; bytes *= factor) {
    std::vector<Trial> here;
    std::copy_if(best.begin(), best.end(), std::back_inserter(here), [&](const Trial& t) { return t.bytes == bytes; });
    std::sort(here.begin(), here.end(), [](const Trial& a, const Trial& b) { return a.seconds < b.seconds; });
    std::fprintf(stderr, "%10zu", bytes);
    for (const Trial& trial : here) {
      if (trial.launch == "(chosen)") std::fprintf(stderr, "  chosen %.2f us", trial.seconds * 1e6);
    }
    for (size_t i = 0; i < std::min<size_t>(here.size(), 4); ++i) {
      std::fprintf(stderr, "  %8.2f us %s %s", here[i].seconds * 1e6, here[i].algorithm.c_str(),
                   here[i].launch.c_str());
    }
    std::fprintf(stderr, "\n");
  }
  return 0;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) {
  alarm(590);
  try {
    return plait::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

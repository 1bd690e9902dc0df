// How fast one core reduces, beside memcpy in the same run.
//   reduce_bandwidth [milliseconds per measurement, default 20]
// Prints, for working sets in the second-level cache and in memory, GB/s of all bytes read and written (the median of
// several measurements) and the ratio to memcpy; then the time of the smallest reduces.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/host/reduce.hpp"

namespace {

using plait::DataType;
using plait::ReduceOp;
// Seconds of processor time, so that other programs on this core do not count.
double now_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Median seconds of one call, of which so many are made between looks at the clock.
double measure(double seconds, int calls_at_once, const std::function<void()>& call) {
  call();
  std::vector<double> results;
  for (int i = 0; i < 5; ++i) {
    const double start = now_seconds();
    double elapsed = 0;
    size_t calls = 0;
    do {
      for (int j = 0; j < calls_at_once; ++j) call();
      calls += calls_at_once;
      elapsed = now_seconds() - start;
    } while (elapsed < seconds);
    results.push_back(elapsed / static_cast<double>(calls));
  }
  std::sort(results.begin(), results.end());
  return results[results.size() / 2];
}

struct Buffers {
  Buffers(size_t bytes, int count) {
    for (int i = 0; i < count; ++i) {
      memory.emplace_back(static_cast<char*>(std::aligned_alloc(4096, bytes)), std::free);
      std::memset(memory.back().get(), 0x11, bytes);  // a small normal number in every floating type
    }
  }
  std::vector<std::unique_ptr<char, decltype(&std::free)>> memory;
};

struct Case {
  std::string title;
  DataType type;
  int sources;
  int destinations;
  bool streaming = false;
};

// GB/s of all that one reduce reads and writes.
double reduce_speed(const Case& c, plait::ReduceFunction reduce, const Buffers& buffers, size_t bytes, double seconds) {
  std::vector<void*> destinations;
  std::vector<const void*> sources;
  for (int i = 0; i < c.destinations; ++i) destinations.push_back(buffers.memory[i].get());
  for (int i = 0; i < c.sources; ++i) sources.push_back(buffers.memory[c.destinations + i].get());
  const plait::ReduceArguments arguments = {.destinations = destinations.data(),
                                            .destination_count = c.destinations,
                                            .sources = sources.data(),
                                            .source_count = c.sources,
                                            .elements = bytes / plait::size_of(c.type),
                                            .streaming_destinations = c.streaming ? ~0u : 0u};
  const double time = measure(seconds, bytes < 4096 ? 1000 : 1, [&] { reduce(arguments); });
  return static_cast<double>(bytes) * (c.sources + c.destinations) / time * 1e-9;
}

const std::vector<Case> kCases = {
    {"copy", DataType::kFloat32, 1, 1},
    {"copy, streaming", DataType::kFloat32, 1, 1, true},
    {"copy to 2", DataType::kFloat32, 1, 2},
    {"float32 2 -> 1", DataType::kFloat32, 2, 1},
    {"float32 2 -> 1, streaming", DataType::kFloat32, 2, 1, true},
    {"float32 2 -> 2", DataType::kFloat32, 2, 2},
    {"float32 4 -> 1", DataType::kFloat32, 4, 1},
    {"float32 12 -> 1", DataType::kFloat32, 12, 1},
    {"float64 2 -> 1", DataType::kFloat64, 2, 1},
    {"int8 2 -> 1", DataType::kInt8, 2, 1},
    {"int32 2 -> 1", DataType::kInt32, 2, 1},
    {"bfloat16 2 -> 1", DataType::kBfloat16, 2, 1},
    {"float16 2 -> 1", DataType::kFloat16, 2, 1},
    {"float8_e4m3 2 -> 1", DataType::kFloat8E4M3, 2, 1},
    {"float8_e5m2 2 -> 1", DataType::kFloat8E5M2, 2, 1},
};

void print_speeds(const char* instruction_set, size_t bytes, double seconds) {
  const Buffers buffers(bytes, 13);
  char* to = buffers.memory[0].get();
  const char* from = buffers.memory[1].get();
  const double copy =
      2.0 * static_cast<double>(bytes) / measure(seconds, 1, [&] { std::memcpy(to, from, bytes); }) * 1e-9;
  std::printf("\n%s, %zu KiB a buffer: memcpy %.1f GB/s\n", instruction_set, bytes >> 10, copy);
  for (const Case& c : kCases) {
    const auto reduce = plait::find_reduce_variant(instruction_set, c.type, ReduceOp::kSum);
    const double speed = reduce_speed(c, reduce, buffers, bytes, seconds);
    std::printf("  %-28s %7.1f GB/s  %5.2f of memcpy\n", c.title.c_str(), speed, speed / copy);
  }
}

void print_latencies(const char* instruction_set, double seconds) {
  const Buffers buffers(4096, 5);
  std::printf("\n%s, nanoseconds of a reduce of few elements\n", instruction_set);
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat8E4M3, DataType::kInt8}) {
    for (const int sources : {2, 4}) {
      std::printf("  %-14s %d -> 1:", plait::name(type), sources);
      for (const size_t elements : {1, 4, 7, 15, 16, 63}) {
        const auto reduce = plait::find_reduce_variant(instruction_set, type, ReduceOp::kSum);
        const Case c = {"", type, sources, 1};
        const size_t bytes = elements * plait::size_of(type);
        const double speed = reduce_speed(c, reduce, buffers, bytes, seconds);
        std::printf("  %zu: %.1f", elements, static_cast<double>(bytes) * (sources + 1) / speed);
      }
      std::printf("\n");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = (argc > 1 ? std::atof(argv[1]) : 20) * 1e-3;
  for (const char* name : {"neon", "avx512", "avx2", "baseline"}) {
    if (plait::find_reduce_variant(name, DataType::kFloat32, ReduceOp::kSum) == nullptr) continue;
    for (const size_t bytes : {size_t{64} << 10, size_t{256} << 10, size_t{64} << 20})
      print_speeds(name, bytes, seconds);
    print_latencies(name, seconds);
  }
}

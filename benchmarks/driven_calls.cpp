// Times blocking calls of float32 over several hosts, staged and driven by CPUs (NVG-54), one way after the other in
// one run. It checks every result.
//
//   driven_calls 4K 16M [hosts] [ranks of a host] [cycles] [collective: all_reduce]
//
// The hosts are this machine's, as by PLAIT_HOST_ID. The ranks are threads of one process: those that share a GPU use
// it at the same time, where processes would take turns of a millisecond. No more than two ranks should share one: in
// its queue of copies, more wait for each other, some for ever. One row a size, in microseconds: the median over the
// cycles of the mean of a loop, on the slowest rank. The columns: staged, with two and with four lanes; driven, where
// the CPU reduces (NVG-64), where the GPU does, with two and with four lanes, with a queue for each CTA (NVG-38), and
// with messages straight from GPU to GPU (PLAIT_GPU_MESSAGES), where the plan has any.
// PLAIT_… variables count, but for those that the columns set. The last line says how many elements were wrong.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <iterator>
#include <string>
#include <vector>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "bench/cuda_bench.hpp"
#include "bench/cuda_machine.hpp"
#include "program.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait {
namespace {

constexpr size_t kStep = 4;
constexpr int kAnyLength = 1 << 30;

// How a column makes its calls. The rest is as the environment says.
struct Way {
  const char* title;
  CpuDriven driven;
  int lanes;
  bool by_cpus;  // the CPU reduces messages of all lengths; else it reduces none
  GpuMessages messages = GpuMessages::kThroughHost;
};
constexpr Way kWays[] = {
    {"staged", CpuDriven::kOff, 2, false},
    {"4 lanes", CpuDriven::kOff, 4, false},
    {"by CPUs", CpuDriven::kOneQueue, 2, true},
    {"ring", CpuDriven::kOneQueue, 2, false},
    {"4 lanes", CpuDriven::kOneQueue, 4, false},
    {"queues", CpuDriven::kQueuePerCta, 2, false},
    {"direct", CpuDriven::kOneQueue, 2, false, GpuMessages::kDirect},
};

struct Arguments {
  size_t least = 0, most = 0;
  int hosts = 2, ranks_per_host = 1, cycles = 5;
  Collective collective = Collective::kAllReduce;

  int ranks() const { return hosts * ranks_per_host; }
};

// Of one way: a median for each size, in seconds, and what else is to be said.
struct Column {
  std::vector<double> seconds;
  std::vector<bool> is_driven;
  long wrong = 0;
};

Communicator communicator_for(const Way& way, const UniqueId& id, int rank, const Arguments& arguments, int device) {
  Settings settings = Settings::from_environment();
  settings.cpu_driven = way.driven;
  settings.gpu_messages = way.messages;
  settings.staging_lanes = way.lanes;
  settings.cpu_reduce_bytes = way.by_cpus ? kAnyLength : 0;
  settings.cpu_driven_bytes = kAnyLength;  // of other collectives a quarter
  settings.timeout_seconds = 20;
  settings.host_id = "host-" + std::to_string(rank / arguments.ranks_per_host);
  return Communicator::create(id, rank, arguments.ranks(), settings, device);
}

Column measure_way(const Way& way, const UniqueId& id, int rank, const Arguments& arguments, int gpus) {
  const int device = rank % gpus;
  const DeviceGuard guard(device);
  Communicator communicator = communicator_for(way, id, rank, arguments, device);
  CudaBench bench(communicator, arguments.most);
  CudaMeasureOptions options;
  options.blocking = true;
  options.cycles = arguments.cycles;
  Column column;
  for (size_t bytes = arguments.least; bytes <= arguments.most; bytes *= kStep) {
    const size_t blocks = has_rank_blocks(arguments.collective) ? static_cast<size_t>(arguments.ranks()) : 1;
    const size_t count = std::max<size_t>(1, bytes / sizeof(float) / blocks);
    const Call call{arguments.collective, DataType::kFloat32, ReduceOp::kSum, 0, count};
    const uint64_t before = communicator.served_calls();
    const Measurement measured = bench.measure(call, options).front();
    column.seconds.push_back(median(measured.seconds));
    column.is_driven.push_back(communicator.served_calls() > before);
    column.wrong += measured.wrong;
  }
  bench.close();
  communicator.close();
  return column;
}

// Rank 0's, with all ranks as threads. Throws what the first of them threw.
Column measure_way(const Way& way, const UniqueId& id, const Arguments& arguments, int gpus) {
  std::vector<std::future<Column>> ranks;
  for (int rank = 0; rank < arguments.ranks(); ++rank) {
    ranks.push_back(std::async(std::launch::async, [&, rank] { return measure_way(way, id, rank, arguments, gpus); }));
  }
  for (const auto& it : ranks) it.wait();
  return ranks.front().get();
}

// A star marks what a driven column staged all the same.
void print(const Arguments& arguments, const std::vector<Column>& columns) {
  std::printf("%s over %d hosts of %d ranks, microseconds; *: staged all the same\n    bytes",
              name(arguments.collective), arguments.hosts, arguments.ranks_per_host);
  for (size_t i = 0; i < columns.size(); ++i) std::printf("  %9s ", kWays[i].title);
  long wrong = 0;
  size_t row = 0;
  for (size_t bytes = arguments.least; bytes <= arguments.most; bytes *= kStep, ++row) {
    std::printf("\n%9zu", bytes);
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool is_staged = kWays[i].driven != CpuDriven::kOff && !columns[i].is_driven[row];
      std::printf("  %9.1f%c", columns[i].seconds[row] * 1e6, is_staged ? '*' : ' ');
    }
  }
  for (const Column& it : columns) wrong += it.wrong;
  std::printf("\n%ld wrong\n", wrong);
}

int run(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s LEAST MOST [HOSTS] [RANKS OF A HOST] [CYCLES] [COLLECTIVE]\n", argv[0]);
    return 2;
  }
  Arguments arguments{parse_bytes(argv[1]), parse_bytes(argv[2])};
  if (argc > 3) arguments.hosts = std::atoi(argv[3]);
  if (argc > 4) arguments.ranks_per_host = std::atoi(argv[4]);
  if (argc > 5) arguments.cycles = std::atoi(argv[5]);
  if (argc > 6) arguments.collective = parse_collective(argv[6]);
  const int gpus = static_cast<int>(look_at_cuda().devices.size());
  const std::string job = "driven_calls." + std::to_string(::getpid());
  std::vector<Column> columns;
  for (size_t i = 0; i < std::size(kWays); ++i) {
    columns.push_back(measure_way(kWays[i], UniqueId::for_job(job, i), arguments, gpus));
  }
  print(arguments, columns);
  return 0;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) { return plait::exit_status(plait::run, argc, argv); }

// Times blocking calls of float32 on the GPUs of this machine, a process for each rank: launched, and served by a
// persistent kernel of several sizes (NVG-36, NVG-52), in turn in one run. It checks every result.
//
//   blocking_calls all_reduce 8 64K [ranks] [cycles]
//
// One row a size, in microseconds: the median over the cycles of the mean of a loop, on the slowest rank. PLAIT_…
// variables count, but for PLAIT_PERSISTENT_CTAS.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "bench/cuda_bench.hpp"
#include "bench/cuda_machine.hpp"
#include "program.hpp"

namespace plait {
namespace {

constexpr int kCtas[] = {0, 1, 4, 8, 16, 32};  // 0: launched
constexpr size_t kStep = 4;

struct Sizes {
  size_t least, most;
};

// Prints a row, with a star at each call that the persistent kernel did not serve.
void print_row(size_t bytes, const std::vector<Measurement>& measured, const std::vector<bool>& is_served) {
  std::printf("%8zu", bytes);
  long wrong = 0;
  for (size_t i = 0; i < measured.size(); ++i) {
    wrong += measured[i].wrong;
    std::printf("  %8.2f%c", median(measured[i].seconds) * 1e6, is_served[i] ? ' ' : '*');
  }
  std::printf("  %ld\n", wrong);
  std::fflush(stdout);
}

void be_rank(const UniqueId& id, int rank, int ranks, Collective collective, Sizes sizes, int cycles, int gpus) {
  std::vector<Communicator> communicators;
  for (uint64_t i = 0; i < std::size(kCtas); ++i) {
    Settings settings = Settings::from_environment();
    settings.persistent_ctas = kCtas[i];
    settings.timeout_seconds = 30;
    const UniqueId own = UniqueId::for_job(id.text(), i + 1);
    communicators.push_back(Communicator::create(own, rank, ranks, settings, rank % gpus));
  }
  CudaBench bench(communicators[0], sizes.most);
  for (size_t i = 1; i < communicators.size(); ++i) bench.add_plait(communicators[i]);
  if (rank == 0) {
    std::printf("%s, %d ranks, microseconds; *: launched, not served\n   bytes  launched", name(collective), ranks);
    for (size_t i = 1; i < std::size(kCtas); ++i) std::printf("  %3d CTAs ", kCtas[i]);
    std::printf("  wrong\n");
  }
  for (size_t bytes = sizes.least; bytes <= sizes.most; bytes *= kStep) {
    const size_t blocks = has_rank_blocks(collective) ? static_cast<size_t>(ranks) : 1;
    const Call call{collective, DataType::kFloat32, ReduceOp::kSum, 0, std::max<size_t>(1, bytes / 4 / blocks)};
    CudaMeasureOptions options;
    options.blocking = true;
    options.cycles = cycles;
    std::vector<uint64_t> before;
    for (const Communicator& it : communicators) before.push_back(it.served_calls());
    const std::vector<Measurement> measured = bench.measure(call, options);
    std::vector<bool> is_served;
    for (size_t i = 0; i < before.size(); ++i) is_served.push_back(communicators[i].served_calls() > before[i]);
    if (rank == 0) print_row(bytes, measured, is_served);
  }
  bench.close();
}

// Forked before anybody uses CUDA. Returns its exit status.
int rank_process(const UniqueId& id, int rank, int ranks, Collective collective, Sizes sizes, int cycles) {
  try {
    be_rank(id, rank, ranks, collective, sizes, cycles, static_cast<int>(look_at_cuda().devices.size()));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

int run(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s COLLECTIVE LEAST MOST [RANKS] [CYCLES]\n", argv[0]);
    return 2;
  }
  const Collective collective = parse_collective(argv[1]);
  const Sizes sizes{parse_bytes(argv[2]), parse_bytes(argv[3])};
  const int ranks = argc > 4 ? std::atoi(argv[4]) : 2, cycles = argc > 5 ? std::atoi(argv[5]) : 9;
  const UniqueId id = UniqueId::for_job("blocking_calls." + std::to_string(::getpid()), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) std::_Exit(rank_process(id, rank, ranks, collective, sizes, cycles));
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failed += WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace plait

int main(int argc, char** argv) { return plait::exit_status(plait::run, argc, argv); }

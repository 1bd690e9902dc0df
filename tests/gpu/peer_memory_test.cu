// Peer memory of every kind, with ranks as one process, as several, and as threads of several. Kernels of every rank
// store to and load from every rank's memory. It ends by itself within two minutes.
//
// This process does not use CUDA: it forks one process for each scenario or rank, which can then choose the devices
// that it sees.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "gpu/gpus.hpp"
#include "runtime/bootstrap.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "runtime/cuda/memory/peer_memory.hpp"

namespace plait {
namespace {

using test::gpus;

constexpr unsigned kLongestSeconds = 120;
constexpr size_t kBytes = (size_t{3} << 20) + 512;  // no whole number of pages
constexpr PeerMemoryKind kKinds[] = {PeerMemoryKind::kAuto, PeerMemoryKind::kVmm, PeerMemoryKind::kIpc,
                                     PeerMemoryKind::kHost};

// The results of a forked process, which its exit status tells the test. Its threads share it.
class Report {
 public:
  explicit Report(std::string where) : where_(std::move(where)) {}

  void expect(bool good, const std::string& what) {
    ++(good ? passed_ : failed_);
    if (good) return;
    const std::scoped_lock lock(mutex_);
    std::printf("FAILED: %s: %s\n", where_.c_str(), what.c_str());
  }
  void note(const std::string& what) {
    const std::scoped_lock lock(mutex_);
    std::printf("%s: %s\n", where_.c_str(), what.c_str());
  }
  // Runs `body`; an exception is a failure.
  template <class Body>
  void guard(const char* what, Body body) {
    try {
      body();
    } catch (const std::exception& error) {
      expect(false, join(what, ": ", error.what()));
    }
  }
  // The exit status of the process.
  int finish() {
    std::printf("%s: %d passed, %d failed\n", where_.c_str(), passed_.load(), failed_.load());
    std::fflush(stdout);
    return failed_ == 0 && passed_ > 0 ? 0 : 1;
  }

 private:
  std::string where_;
  std::mutex mutex_;
  std::atomic<int> passed_{0};
  std::atomic<int> failed_{0};
};

// ---- the data that kernels store and check ----

// Word `index` of what `from` stores to the memory of `to`; never zero.
__host__ __device__ uint32_t pattern(int from, int to, size_t index, uint32_t round) {
  return ((from + 1) * 0x9e3779b1u ^ (to + 1) * 0x85ebca6bu ^ static_cast<uint32_t>(index) * 0xc2b2ae35u) + round | 1u;
}

__global__ void store_pattern(uint32_t* words, size_t count, int from, int to, uint32_t round) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    words[from * count + i] = pattern(from, to, i, round);
  }
}

// Round 0: the memory must be zero.
__global__ void count_wrong(const volatile uint32_t* words, size_t count, int ranks, int to, uint32_t round,
                            unsigned long long* wrong) {
  for (int from = 0; from < ranks; ++from) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
      const uint32_t expected = round == 0 ? 0 : pattern(from, to, i, round);
      if (words[from * count + i] != expected) atomicAdd(wrong, 1ull);
    }
  }
}

// One rank's kernels. Each rank has a share of each block, so that none overwrites another's.
class Kernels {
 public:
  Kernels(const PeerMemory& memory, int rank, int ranks) : memory_(memory), rank_(rank), ranks_(ranks) {}

  void store_everywhere(uint32_t round) const {
    const DeviceGuard guard(memory_.device());
    for (int to = 0; to < ranks_; ++to) store_pattern<<<8, 256>>>(words(to), count(), rank_, to, round);
    check_cuda(cudaGetLastError(), "launching stores");
    check_cuda(cudaDeviceSynchronize(), "storing");
  }
  unsigned long long wrong_words_of(int to, uint32_t round) const {
    const DeviceGuard guard(memory_.device());
    unsigned long long* counter = nullptr;
    unsigned long long wrong = 0;
    check_cuda(cudaMalloc(&counter, sizeof wrong), "a counter");
    check_cuda(cudaMemset(counter, 0, sizeof wrong), "a counter");
    count_wrong<<<8, 256>>>(words(to), count(), ranks_, to, round, counter);
    check_cuda(cudaGetLastError(), "launching loads");
    check_cuda(cudaMemcpy(&wrong, counter, sizeof wrong, cudaMemcpyDeviceToHost), "loading");
    check_cuda(cudaFree(counter), "a counter");
    return wrong;
  }

 private:
  uint32_t* words(int of) const { return reinterpret_cast<uint32_t*>(memory_.of(of)); }
  size_t count() const { return memory_.bytes() / sizeof(uint32_t) / static_cast<size_t>(ranks_); }

  const PeerMemory& memory_;
  const int rank_;
  const int ranks_;
};

// Whether the machine lacks the requested kind. Other errors are Plait's.
bool is_missing_feature(const Error& error) {
  if (error.code() != ErrorCode::kResources) return false;
  for (const char* part : {"has no peer access", "has no virtual memory", "has no memory that travels",
                           "cudaErrorNotSupported", "cudaErrorPeerAccessUnsupported", "CUDA_ERROR_NOT_SUPPORTED",
                           "CUDA_ERROR_NOT_PERMITTED", "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"}) {
    if (std::string(error.what()).find(part) != std::string::npos) return true;
  }
  return false;
}

size_t free_bytes(int device) {
  const DeviceGuard guard(device);
  size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
  return free;
}

int open_descriptors() {
  int count = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) count += ::fcntl(descriptor, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

void expect_no_growth(Report& report, const std::string& what, size_t before, size_t after, size_t block_bytes) {
  // Drivers keep a page or two for themselves; a leak each time would be far more.
  const size_t grown = before > after ? before - after : 0;
  report.expect(grown < 6 * block_bytes, join(what, ": ", grown, " bytes of the device are gone"));
}

// ---- all ranks in this process, without a bootstrap ----

void check_in_process(Report& report, const std::vector<int>& devices, PeerMemoryKind kind) {
  const int ranks = static_cast<int>(devices.size());
  const std::string what = join(name(kind), ", ", ranks, " ranks");
  try {
    const std::vector<PeerMemory> memories = PeerMemory::in_process(devices, kBytes, kind);
    std::vector<Kernels> kernels;
    for (int rank = 0; rank < ranks; ++rank) kernels.emplace_back(memories[rank], rank, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      const PeerMemory& memory = memories[rank];
      report.expect(memory.device() == devices[rank] && memory.bytes() == kBytes, what + ": device and bytes");
      report.expect(kind == PeerMemoryKind::kAuto ? memory.kind() != kind : memory.kind() == kind, what + ": kind");
      report.expect(kernels[rank].wrong_words_of(rank, 0) == 0, what + ": memory is zero");
    }
    for (const uint32_t round : {1u, 2u}) {
      for (const Kernels& rank : kernels) rank.store_everywhere(round);
      for (const Kernels& rank : kernels) {
        for (int of = 0; of < ranks; ++of) report.expect(rank.wrong_words_of(of, round) == 0, what + ": what is found");
      }
    }
  } catch (const Error& error) {
    if (kind == PeerMemoryKind::kAuto || !is_missing_feature(error)) {
      report.expect(false, join(what, ": ", error.what()));
    } else {
      report.note(join(what, " is not to be had here: ", error.what()));
    }
  }
}

// Errors of in_process come at once, with the code and a text that names the problem.
void expect_in_process_error(Report& report, const std::vector<int>& devices, size_t bytes, ErrorCode code,
                             const std::string& part) {
  try {
    PeerMemory::in_process(devices, bytes, PeerMemoryKind::kVmm);
    report.expect(false, "no error that says " + part);
  } catch (const Error& error) {
    const bool right = error.code() == code && std::string(error.what()).find(part) != std::string::npos;
    report.expect(right, join("an error (", name(code), ") that says ", part, ", not (", name(error.code()),
                              "): ", error.what()));
  }
}

int run_in_process(int gpus) {
  Report report("in one process");
  report.guard("in one process", [&] {
    for (const PeerMemoryKind kind : kKinds) {
      for (int ranks = 1; ranks <= 4; ++ranks) {
        std::vector<int> devices(static_cast<size_t>(ranks), 0);
        check_in_process(report, devices, kind);
        if (gpus == 1) continue;
        for (int rank = 0; rank < ranks; ++rank) devices[rank] = (rank + 1) % gpus;
        check_in_process(report, devices, kind);
      }
    }
    for (const PeerMemoryKind kind : {PeerMemoryKind::kVmm, PeerMemoryKind::kIpc, PeerMemoryKind::kHost}) {
      size_t before = 0;
      for (int i = 0; i < 53; ++i) {
        if (i == 3) before = free_bytes(0);
        PeerMemory::in_process(std::vector<int>{0, 0}, kBytes, kind);
      }
      expect_no_growth(report, join("50 times ", name(kind)), before, free_bytes(0), kBytes);
    }
    // The last rank keeps the memory alive, whichever it is.
    std::vector<PeerMemory> memories = PeerMemory::in_process(std::vector<int>{0, 0, 0}, kBytes, PeerMemoryKind::kAuto);
    memories.erase(memories.begin());
    memories.pop_back();
    Kernels(memories[0], 1, 3).store_everywhere(1);
    // Making and freeing memory does not invalidate a capture elsewhere in the process, even in the strictest mode.
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
    std::thread([&] {
      report.guard("while a stream is captured",
                   [] { PeerMemory::in_process(std::vector<int>{0}, kBytes, PeerMemoryKind::kIpc); });
    }).join();
    report.expect(cudaStreamEndCapture(stream, &graph) == cudaSuccess, "the capture is not lost");
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);

    expect_in_process_error(report, {0, 9999}, kBytes, ErrorCode::kSystem, "device 9999");
    expect_in_process_error(report, {0}, 0, ErrorCode::kInvalidArgument, "0 bytes");
    expect_in_process_error(report, {0}, size_t{1} << 50, ErrorCode::kResources,
                            "PLAIT_PEER_MEMORY=vmm): vmm: rank 0 on");
    report.expect(PeerMemory::in_process(std::vector<int>{}, kBytes, PeerMemoryKind::kAuto).empty(),
                  "no ranks, no memory");
  });
  return report.finish();
}

// ---- ranks with a bootstrap ----

BootstrapOptions within(double seconds) {
  BootstrapOptions options;
  options.timeout_seconds = seconds;
  return options;
}

// Checks everything about one kind that works everywhere.
void check_memory(Report& report, Bootstrap& bootstrap, int device, PeerMemoryKind kind) {
  const int rank = bootstrap.rank(), ranks = bootstrap.size();
  const std::string what = join(name(kind), ", rank ", rank, " of ", ranks);
  PeerMemory memory = PeerMemory::create(bootstrap, device, kBytes, kind);
  report.expect(kind == PeerMemoryKind::kAuto ? memory.kind() != kind : memory.kind() == kind, what + ": kind");
  for (const PeerMemoryKind other : bootstrap.all_gather(memory.kind())) {
    report.expect(other == memory.kind(), what + ": the kind of all");
  }
  if (kind == PeerMemoryKind::kAuto && rank == 0) report.note(join("auto took ", name(memory.kind())));
  const Kernels kernels(memory, rank, ranks);
  report.expect(kernels.wrong_words_of(rank, 0) == 0, what + ": memory is zero");
  bootstrap.barrier();
  for (const uint32_t round : {1u, 2u}) {
    kernels.store_everywhere(round);
    bootstrap.barrier();
    for (int of = 0; of < ranks; ++of) report.expect(kernels.wrong_words_of(of, round) == 0, what + ": what is found");
    bootstrap.barrier();
  }
}

// Checks that either all ranks have the kind, or all have the same error.
bool check_kind(Report& report, Bootstrap& bootstrap, int device, PeerMemoryKind kind) {
  try {
    check_memory(report, bootstrap, device, kind);
    return true;
  } catch (const Error& error) {
    if (kind == PeerMemoryKind::kAuto || !is_missing_feature(error)) {
      report.expect(false, join(name(kind), ", rank ", bootstrap.rank(), ": ", error.what()));
    } else {
      report.note(join(name(kind), " is not to be had here: ", error.what()));
    }
    return false;
  }
}

void check_growth(Report& report, Bootstrap& bootstrap, int device, PeerMemoryKind kind) {
  size_t before = 0;
  int descriptors = 0;
  for (int i = 0; i < 53; ++i) {
    if (i == 3) {
      bootstrap.barrier();
      before = free_bytes(device);
      descriptors = open_descriptors();
      bootstrap.barrier();
    }
    PeerMemory::create(bootstrap, device, kBytes, kind);
  }
  bootstrap.barrier();
  expect_no_growth(report, join("50 times ", name(kind)), before, free_bytes(device), kBytes);
  report.expect(open_descriptors() <= descriptors + 2, join("50 times ", name(kind), ": descriptors"));
  bootstrap.barrier();
}

// Ranks end while others still use their memory. CUDA does not define what happens to kIpc memory that its exporter
// frees before the handle is closed, so processes that share that way stop using it.
void check_early_exporter(Report& report, Bootstrap& bootstrap, int device, PeerMemoryKind kind, bool one_process) {
  std::optional<PeerMemory> memory = PeerMemory::create(bootstrap, device, kBytes, kind);
  bootstrap.barrier();
  if (bootstrap.rank() == 0) memory.reset();
  bootstrap.barrier();
  if (memory && (one_process || kind != PeerMemoryKind::kIpc)) {
    report.guard("the memory of a rank that has gone",
                 [&] { Kernels(*memory, bootstrap.rank(), bootstrap.size()).store_everywhere(1); });
  }
  {
    const DeviceGuard guard(device);
    report.expect(cudaDeviceSynchronize() == cudaSuccess, "no error where the first rank goes first");
  }
  bootstrap.barrier();
  memory.reset();
  bootstrap.barrier();
}

// If one rank cannot, or wants something else, all ranks report it at once.
template <class Step>
void expect_error(Report& report, const Bootstrap& bootstrap, ErrorCode code, const std::string& part, Step step) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    step();
    report.expect(false, join("rank ", bootstrap.rank(), ": no error that says ", part));
  } catch (const Error& error) {
    const bool right = error.code() == code && std::string(error.what()).find(part) != std::string::npos;
    report.expect(right, join("rank ", bootstrap.rank(), ": an error (", name(code), ") that says ", part, ", not (",
                              name(error.code()), "): ", error.what()));
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  report.expect(took.count() < 10, join("an error that says ", part, " comes soon, not after ", took.count(), " s"));
}

void check_errors(Report& report, Bootstrap& bootstrap, int device) {
  const bool odd = bootstrap.rank() == 1;
  const auto create = [&](int on, size_t bytes, PeerMemoryKind kind) {
    return [&bootstrap, on, bytes, kind] { PeerMemory::create(bootstrap, on, bytes, kind); };
  };
  expect_error(report, bootstrap, ErrorCode::kSystem, "rank 1 on device 9999",
               create(odd ? 9999 : device, kBytes, PeerMemoryKind::kAuto));
  expect_error(report, bootstrap, ErrorCode::kMismatch, "rank 1 has PLAIT_PEER_MEMORY=host",
               create(device, kBytes, odd ? PeerMemoryKind::kHost : PeerMemoryKind::kAuto));
  expect_error(report, bootstrap, ErrorCode::kMismatch, "give all ranks the same settings",
               create(device, odd ? 2 * kBytes : kBytes, PeerMemoryKind::kHost));
  expect_error(report, bootstrap, ErrorCode::kInvalidArgument, "0 bytes", create(device, 0, PeerMemoryKind::kAuto));
  for (const PeerMemoryKind kind : kKinds) {
    expect_error(report, bootstrap, ErrorCode::kResources, join("(PLAIT_PEER_MEMORY=", name(kind), "): "),
                 create(device, size_t{1} << 50, kind));
  }
  // The bootstrap still works.
  check_kind(report, bootstrap, device, PeerMemoryKind::kAuto);
}

// One rank can open no more files.
void check_refused_file(Report& report, Bootstrap& bootstrap, int device) {
  PeerMemory::create(bootstrap, device, kBytes, PeerMemoryKind::kHost);  // opens everything that CUDA opens only once
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  if (bootstrap.rank() == 1) {
    const int next = ::dup(0);
    ::close(next);
    const rlimit none_left{static_cast<rlim_t>(next), before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none_left);
  }
  expect_error(report, bootstrap, ErrorCode::kResources, "rank 1 on device",
               [&] { PeerMemory::create(bootstrap, device, kBytes, PeerMemoryKind::kHost); });
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// ---- processes ----

using ProcessBody = std::function<int(int process)>;

pid_t start(const ProcessBody& body, int process) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(kLongestSeconds);
  int status = 1;
  try {
    status = body(process);
  } catch (const std::exception& error) {
    std::printf("FAILED: process %d: %s\n", process, error.what());
  }
  std::fflush(stdout);
  std::_Exit(status);
}

int status_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Runs `count` processes and expects that they succeed. `killed` has to end by a signal.
void run_processes(const char* what, int count, const ProcessBody& body, int killed = -1) {
  std::vector<pid_t> children;
  for (int process = 0; process < count; ++process) children.push_back(start(body, process));
  for (int process = 0; process < count; ++process) {
    EXPECT_EQ(status_of(children[process]), process == killed ? -SIGKILL : 0) << what << ": process " << process;
  }
}

UniqueId new_id() { return RendezvousPoint::create().release(); }

// The entries of CUDA_VISIBLE_DEVICES, or the numbers of all devices.
std::vector<std::string> visible_devices(int gpus) {
  std::vector<std::string> entries;
  if (const char* text = std::getenv("CUDA_VISIBLE_DEVICES"); text != nullptr && *text != '\0') {
    std::istringstream list(text);
    for (std::string entry; std::getline(list, entry, ',');) entries.push_back(entry);
  }
  for (int gpu = static_cast<int>(entries.size()); gpu < gpus; ++gpu) entries.push_back(std::to_string(gpu));
  entries.resize(static_cast<size_t>(gpus));
  return entries;
}

// Which devices ranks see, and which they use.
enum class View { kOneDevice, kAllDevices, kOnlyTheirOwn, kInAnotherOrder };

int device_in(View view, int rank, int gpus) {
  const int gpu = rank % gpus;
  const std::vector<std::string> entries = visible_devices(gpus);
  switch (view) {
    case View::kOneDevice:
      return 0;
    case View::kAllDevices:
      return gpu;
    case View::kOnlyTheirOwn:
      ::setenv("CUDA_VISIBLE_DEVICES", entries[gpu].c_str(), 1);
      return 0;
    case View::kInAnotherOrder:
      break;
  }
  if (rank % 2 == 0) return gpu;
  std::string reversed;
  for (const std::string& entry : entries) reversed = reversed.empty() ? entry : entry + "," + reversed;
  ::setenv("CUDA_VISIBLE_DEVICES", reversed.c_str(), 1);
  return gpus - 1 - gpu;
}

void run_ranks_as_processes(const char* what, int ranks, View view) {
  const UniqueId id = new_id();
  run_processes(what, ranks, [&](int rank) {
    const int device = device_in(view, rank, gpus());
    Report report(join(what, ", rank ", rank));
    report.guard(what, [&] {
      Bootstrap bootstrap = Bootstrap::create(id, rank, ranks, within(30));
      for (const PeerMemoryKind kind : kKinds) {
        if (!check_kind(report, bootstrap, device, kind) || kind == PeerMemoryKind::kAuto) continue;
        check_early_exporter(report, bootstrap, device, kind, false);
        if (ranks == 2) check_growth(report, bootstrap, device, kind);
      }
      if (ranks == 2) return;
      check_errors(report, bootstrap, device);
      check_refused_file(report, bootstrap, device);
    });
    return report.finish();
  });
  ::close(id.creator_descriptor);
}

// Ranks are threads of several processes: a rank shares its process with some of the others.
void run_ranks_as_threads(const char* what, int processes, int threads, bool one_device) {
  const UniqueId id = new_id();
  const int ranks = processes * threads;
  run_processes(what, processes, [&](int process) {
    Report report(join(what, ", process ", process));
    std::vector<std::thread> running;
    for (int thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, rank = process * threads + thread] {
        report.guard(what, [&] {
          const int device = one_device ? 0 : rank % gpus();
          Bootstrap bootstrap = Bootstrap::create(id, rank, ranks, within(30));
          // Only one context of a process can open a kIpc handle, so several devices of one process cannot share that
          // way with other processes.
          for (const PeerMemoryKind kind : kKinds) {
            if (kind == PeerMemoryKind::kIpc && !one_device && processes > 1) continue;
            if (!check_kind(report, bootstrap, device, kind) || kind == PeerMemoryKind::kAuto) continue;
            check_early_exporter(report, bootstrap, device, kind, processes == 1);
          }
        });
      });
    }
    for (std::thread& thread : running) thread.join();
    return report.finish();
  });
  ::close(id.creator_descriptor);
}

// A rank is killed before or after it has memory: the others end soon, and its memory is free again.
void run_with_a_dead_rank(const char* what, bool has_memory) {
  const UniqueId id = new_id();
  run_processes(
      what, 3,
      [&](int rank) {
        Report report(join(what, ", rank ", rank));
        report.guard(what, [&] {
          Bootstrap bootstrap = Bootstrap::create(id, rank, 3, within(30));
          check_cuda(cudaFree(nullptr), "starting CUDA");
          bootstrap.barrier();
          const size_t before = free_bytes(0);
          bootstrap.barrier();
          std::optional<PeerMemory> memory;
          if (has_memory) memory = PeerMemory::create(bootstrap, 0, 64 << 20, PeerMemoryKind::kAuto);
          if (rank == 1) ::raise(SIGKILL);
          expect_error(report, bootstrap, ErrorCode::kPeerFailed, "rank 1",
                       [&] { PeerMemory::create(bootstrap, 0, 64 << 20, PeerMemoryKind::kAuto); });
          memory.reset();
          size_t after = 0;  // the driver takes some time to clean up after a process
          for (int i = 0; i < 50 && after + (32 << 20) < before; ++i) {
            after = free_bytes(0);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
          }
          report.expect(after + (32 << 20) >= before, join("memory is free again: ", before, ", then ", after));
        });
        return report.finish();
      },
      1);
  ::close(id.creator_descriptor);
}

bool has_several_gpus() { return gpus() > 1; }

TEST(PeerMemory, InOneProcess) {
  run_processes("in one process", 1, [](int) { return run_in_process(gpus()); });
}
TEST(PeerMemory, ProcessesOnOneGpu) {
  run_ranks_as_processes("2 processes on one GPU", 2, View::kOneDevice);
  run_ranks_as_processes("3 processes on one GPU", 3, View::kOneDevice);
}
TEST(PeerMemory, ThreadsOnOneGpu) {
  run_ranks_as_threads("3 threads on one GPU", 1, 3, true);
  run_ranks_as_threads("2 processes of 2 threads on one GPU", 2, 2, true);
}
TEST(PeerMemory, ADeadRank) {
  run_with_a_dead_rank("a dead rank", false);
  run_with_a_dead_rank("a dead rank with memory", true);
}
TEST(PeerMemory, ProcessesOnSeveralGpus) {
  if (!has_several_gpus()) GTEST_SKIP() << "one GPU";
  run_ranks_as_processes("2 processes", 2, View::kAllDevices);
  run_ranks_as_processes("processes that see their own GPU", std::min(gpus(), 4), View::kOnlyTheirOwn);
  run_ranks_as_processes("processes that see another order", std::min(gpus(), 4), View::kInAnotherOrder);
}
TEST(PeerMemory, ThreadsOnSeveralGpus) {
  if (!has_several_gpus()) GTEST_SKIP() << "one GPU";
  run_ranks_as_threads("4 threads", 1, 4, false);
  run_ranks_as_threads("2 processes of 2 threads", 2, 2, false);
}

}  // namespace
}  // namespace plait

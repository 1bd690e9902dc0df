// One rank of a job under the drop-in: it performs the commands of its arguments, and prints for each what it returned,
// and what NCCL's stand-in and Plait's were called for.
//
//   RANK=0 RANKS=2 STAND_IN=… STAND_IN_ROOM=… nccl_rank init 'all_reduce 1024 7 0' destroy
//
// Commands act on the communicator that was made last, or that `use N` chose.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "api/nccl/abi_types.h"
// After the types.
#include "api/nccl/abi.h"

namespace {

using Words = std::vector<long>;

int rank = 0, ranks = 0;
std::vector<ncclComm_t> comms;
size_t chosen = 0;
std::vector<ncclRedOp_t> operations;
double memory[64];
void* stand_in = nullptr;

template <class Function>
Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

void* plait() {
  const char* path = std::getenv("PLAIT_LIBRARY");
  return path == nullptr ? nullptr : dlopen(path, RTLD_NOW | RTLD_NOLOAD);
}

// What came since the last time.
std::string news(const char* all, size_t& seen) {
  std::string text(all + seen);
  seen += text.size();
  if (!text.empty()) text.pop_back();
  return text;
}
std::string nccl_calls() {
  static size_t seen = 0;
  return news(find<const char*()>(stand_in, "stand_in_sequence")(), seen);
}
std::string plait_calls() {
  static size_t seen = 0;
  void* library = plait();
  auto* sequence = library == nullptr ? nullptr : find<const char*()>(library, "plait_stand_in_sequence");
  return sequence == nullptr ? "" : news(sequence(), seen);
}

long at(const Words& words, size_t index, long otherwise = 0) {
  return index < words.size() ? words[index] : otherwise;
}
ncclComm_t comm() { return comms[chosen]; }
ncclDataType_t type(const Words& w, size_t index) { return static_cast<ncclDataType_t>(at(w, index, ncclFloat32)); }
// A number of `operations` from 1000 on.
ncclRedOp_t operation(const Words& w, size_t index) {
  const long number = at(w, index);
  return number >= 1000 ? operations[static_cast<size_t>(number - 1000)] : static_cast<ncclRedOp_t>(number);
}
cudaStream_t stream(const Words& w, size_t index) { return reinterpret_cast<cudaStream_t>(at(w, index)); }
size_t count(const Words& w) { return static_cast<size_t>(at(w, 0)); }

// Unlike that of any other job.
ncclUniqueId id_of(long number) {
  ncclUniqueId id{};
  constexpr size_t kName = 8;
  std::snprintf(id.internal, kName, "id%ld", number);
  std::snprintf(id.internal + kName, sizeof(id.internal) - kName, "%s", std::getenv("STAND_IN_ROOM"));
  return id;
}

ncclConfig_t config_of(int blocking, int max_ctas) {
  return {sizeof(ncclConfig_t), 0xcafebeef, 22809, blocking, INT_MIN, INT_MIN, max_ctas};
}

// The command `init_config ID BLOCKING MAX_CTAS`.
ncclResult_t init_config(const Words& w) {
  ncclConfig_t config = config_of(static_cast<int>(at(w, 1, INT_MIN)), static_cast<int>(at(w, 2, INT_MIN)));
  comms.push_back(nullptr);
  chosen = comms.size() - 1;
  return ncclCommInitRankConfig(&comms.back(), ranks, id_of(at(w, 0)), rank, &config);
}

ncclResult_t init(const Words& w) {
  comms.push_back(nullptr);
  chosen = comms.size() - 1;
  return ncclCommInitRank(&comms.back(), ranks, id_of(at(w, 0)), rank);
}

// Both ranks of a communicator, by threads of this process.
ncclResult_t init_threads(const Words& w) {
  comms.resize(comms.size() + 2);
  chosen = comms.size() - 1;
  std::thread first([&] { ncclCommInitRank(&comms[chosen - 1], 2, id_of(at(w, 0)), 0); });
  const ncclResult_t result = ncclCommInitRank(&comms[chosen], 2, id_of(at(w, 0)), 1);
  first.join();
  return result;
}

// Another thread asks for errors while this one calls, as PyTorch's watchdog does.
ncclResult_t watched_calls(const Words& w) {
  std::atomic<bool> is_over{false};
  std::atomic<int> failures{0};
  std::thread watchdog([&] {
    while (!is_over) {
      ncclResult_t error = ncclInternalError;
      if (ncclCommGetAsyncError(comm(), &error) != ncclSuccess || error != ncclSuccess) ++failures;
    }
  });
  for (long i = 0; i < at(w, 0); ++i) ncclAllReduce(memory, memory, 4, ncclFloat32, ncclSum, comm(), nullptr);
  is_over = true;
  watchdog.join();
  return failures == 0 ? ncclSuccess : ncclInternalError;
}

// The command `time_calls ROUNDS COUNT`, for benchmarks/forwarded_calls.py: prints the least nanoseconds of a call in
// any round.
ncclResult_t time_calls(const Words& w) {
  constexpr int kCalls = 2000;
  double least = 1e9;
  for (long round = 0; round < at(w, 0); ++round) {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) {
      ncclAllReduce(memory, memory, static_cast<size_t>(at(w, 1)), ncclFloat32, ncclSum, comm(), nullptr);
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - began;
    least = std::min(least, time.count() / kCalls);
  }
  std::printf("%.1f ns\n", least);
  return ncclSuccess;
}

const std::map<std::string, std::function<ncclResult_t(const Words&)>> kCommands = {
    {"time_calls", time_calls},
    {"init", init},
    {"init_config", init_config},
    {"init_threads", init_threads},
    {"init_scalable",
     [](const Words& w) {
       ncclUniqueId ids[2] = {id_of(at(w, 0)), id_of(at(w, 1))};
       comms.push_back(nullptr);
       chosen = comms.size() - 1;
       return ncclCommInitRankScalable(&comms.back(), ranks, rank, 2, ids, nullptr);
     }},
    {"split",
     [](const Words& w) {
       const ncclComm_t parent = comm();
       comms.push_back(nullptr);
       chosen = comms.size() - 1;
       return ncclCommSplit(parent, static_cast<int>(at(w, 0)), static_cast<int>(at(w, 1)), &comms.back(), nullptr);
     }},
    {"shrink",
     [](const Words& w) {
       const ncclComm_t parent = comm();
       int excluded = static_cast<int>(at(w, 0));
       comms.push_back(nullptr);
       chosen = comms.size() - 1;
       return ncclCommShrink(parent, &excluded, 1, &comms.back(), nullptr, static_cast<int>(at(w, 1)));
     }},
    {"use",
     [](const Words& w) {
       chosen = static_cast<size_t>(at(w, 0));
       return ncclSuccess;
     }},
    {"finalize", [](const Words&) { return ncclCommFinalize(comm()); }},
    {"destroy", [](const Words&) { return ncclCommDestroy(comm()); }},
    {"abort", [](const Words&) { return ncclCommAbort(comm()); }},
    {"revoke", [](const Words&) { return ncclCommRevoke(comm(), 0); }},
    {"window",
     [](const Words&) {
       ncclWindow_t window = nullptr;
       return ncclCommWindowRegister(comm(), memory, sizeof(memory), &window, 0);
     }},
    {"async_error",
     [](const Words&) {
       ncclResult_t error = ncclInternalError;
       const ncclResult_t result = ncclCommGetAsyncError(comm(), &error);
       return result != ncclSuccess ? result : error;
     }},
    {"last_error",
     [](const Words&) {
       std::printf("%s\n", ncclGetLastError(comm()));
       return ncclSuccess;
     }},
    {"start", [](const Words&) { return ncclGroupStart(); }},
    {"end", [](const Words&) { return ncclGroupEnd(); }},
    {"simulate", [](const Words&) { return ncclGroupSimulateEnd(nullptr); }},
    {"all_reduce",
     [](const Words& w) {
       return ncclAllReduce(memory, memory, count(w), type(w, 1), operation(w, 2), comm(), stream(w, 3));
     }},
    {"all_reduce_config",
     [](const Words& w) {
       return ncclAllReduceConfig(memory, memory, count(w), type(w, 1), operation(w, 2), comm(), nullptr, nullptr);
     }},
    {"all_gather",
     [](const Words& w) { return ncclAllGather(memory, memory, count(w), type(w, 1), comm(), stream(w, 2)); }},
    {"reduce_scatter",
     [](const Words& w) {
       return ncclReduceScatter(memory, memory, count(w), type(w, 1), operation(w, 2), comm(), stream(w, 3));
     }},
    {"broadcast",
     [](const Words& w) {
       return ncclBroadcast(memory, memory, count(w), type(w, 1), static_cast<int>(at(w, 2)), comm(), nullptr);
     }},
    {"bcast",
     [](const Words& w) {
       return ncclBcast(memory, count(w), type(w, 1), static_cast<int>(at(w, 2)), comm(), nullptr);
     }},
    {"reduce",
     [](const Words& w) {
       return ncclReduce(memory, memory, count(w), type(w, 1), operation(w, 2), static_cast<int>(at(w, 3)), comm(),
                         nullptr);
     }},
    {"all_to_all", [](const Words& w) { return ncclAlltoAll(memory, memory, count(w), type(w, 1), comm(), nullptr); }},
    {"gather",
     [](const Words& w) {
       return ncclGather(memory, memory, count(w), type(w, 1), static_cast<int>(at(w, 2)), comm(), nullptr);
     }},
    {"scatter",
     [](const Words& w) {
       return ncclScatter(memory, memory, count(w), type(w, 1), static_cast<int>(at(w, 2)), comm(), nullptr);
     }},
    {"send",
     [](const Words& w) {
       return ncclSend(memory, count(w), type(w, 1), static_cast<int>(at(w, 2)), comm(), nullptr);
     }},
    {"recv",
     [](const Words& w) {
       return ncclRecv(memory, count(w), type(w, 1), static_cast<int>(at(w, 2)), comm(), nullptr);
     }},
    {"premul",
     [](const Words& w) {
       operations.emplace_back();
       return ncclRedOpCreatePreMulSum(&operations.back(), memory, type(w, 0), ncclScalarHostImmediate, comm());
     }},
    {"drop_op", [](const Words& w) { return ncclRedOpDestroy(operation(w, 0), comm()); }},
    {"watched_calls", watched_calls},
    {"plait_fails",
     [](const Words& w) {
       find<void(int, int)>(plait(), "plait_stand_in_set")(static_cast<int>(at(w, 0)), static_cast<int>(at(w, 1)));
       return ncclSuccess;
     }},
    {"nccl_returns",
     [](const Words& w) {
       find<void(ncclResult_t)>(stand_in, "stand_in_return")(static_cast<ncclResult_t>(at(w, 0)));
       return ncclSuccess;
     }},
    {"die", [](const Words&) { return static_cast<ncclResult_t>(::raise(SIGKILL)); }},
};

}  // namespace

int main(int argument_count, char** arguments) {
  rank = std::atoi(std::getenv("RANK"));
  ranks = std::atoi(std::getenv("RANKS"));
  if (const char* cuda = std::getenv("CUDA_STAND_IN")) dlopen(cuda, RTLD_NOW | RTLD_GLOBAL);
  stand_in = dlopen(std::getenv("STAND_IN"), RTLD_NOW);
  comms.reserve(64);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (int i = 1; i < argument_count; ++i) {
    std::istringstream line(arguments[i]);
    std::string name;
    line >> name;
    Words words;
    for (std::string word; line >> word;) words.push_back(std::strtol(word.c_str(), nullptr, 0));
    const ncclResult_t result = kCommands.at(name)(words);
    const std::string by_nccl = nccl_calls();
    std::printf("%s = %d | %s | %s\n", arguments[i], result, by_nccl.c_str(), plait_calls().c_str());
  }
  return 0;
}

// The C interface on GPUs, as a program sees it that has a CUDA runtime of its own: all ranks in one thread, through
// groups. A program without a test framework, since machines with GPUs often have none. Exit status 77: no GPU, nothing
// was tested.
#include <cuda_runtime.h>
#include <plait/plait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kSkipped = 77;
constexpr int kCount = 10'000;

int passed = 0;
int failed = 0;

void expect(bool good, const std::string& what) {
  ++(good ? passed : failed);
  if (!good) std::printf("FAILED: %s (last error: %s)\n", what.c_str(), plaitGetLastError(nullptr));
}

// What has to work for the test to go on.
void must(plaitResult_t result, const char* what) {
  if (result == plaitSuccess) return;
  std::printf("FAILED: %s: %s: %s\n", what, plaitGetErrorString(result), plaitGetLastError(nullptr));
  std::exit(1);
}
void must(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAILED: %s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define MUST(call) must((call), #call)

// One rank with its stream and buffers, large enough for all ranks' blocks.
struct Rank {
  int device = 0;
  plaitComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int* send = nullptr;
  int* receive = nullptr;
};

class World {
 public:
  World(const std::vector<int>& devices, const std::vector<plaitComm_t>& comms) : ranks_(devices.size()) {
    for (int r = 0; r < size(); ++r) {
      Rank& rank = ranks_[r];
      rank.device = devices[r];
      rank.comm = comms[r];
      MUST(cudaSetDevice(rank.device));
      MUST(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
      MUST(plaitMemAlloc(reinterpret_cast<void**>(&rank.send), bytes()));
      MUST(plaitMemAlloc(reinterpret_cast<void**>(&rank.receive), bytes()));
    }
  }
  ~World() {
    for (Rank& rank : ranks_) {
      MUST(cudaSetDevice(rank.device));
      if (rank.comm != nullptr) expect(plaitCommDestroy(rank.comm) == plaitSuccess, "plaitCommDestroy");
      MUST(plaitMemFree(rank.send));
      MUST(plaitMemFree(rank.receive));
      MUST(cudaStreamDestroy(rank.stream));
    }
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  size_t bytes() const { return sizeof(int) * kCount * ranks_.size(); }
  Rank& operator[](int r) { return ranks_[r]; }

  // For every rank, its device current.
  void each(const std::function<void(Rank&, int)>& body) {
    for (int r = 0; r < size(); ++r) {
      MUST(cudaSetDevice(ranks_[r].device));
      body(ranks_[r], r);
    }
  }
  void in_group(const std::function<plaitResult_t(Rank&, int)>& call) {
    MUST(plaitGroupStart());
    each([&](Rank& rank, int r) { MUST(call(rank, r)); });
    MUST(plaitGroupEnd());
  }
  void synchronize() {
    each([](Rank& rank, int) { MUST(cudaStreamSynchronize(rank.stream)); });
  }

 private:
  std::vector<Rank> ranks_;
};

std::vector<plaitComm_t> made_at_once(const std::vector<int>& devices) {
  std::vector<plaitComm_t> comms(devices.size());
  MUST(plaitCommInitAll(comms.data(), static_cast<int>(devices.size()), devices.data()));
  return comms;
}

std::vector<plaitComm_t> made_in_group(const std::vector<int>& devices) {
  std::vector<plaitComm_t> comms(devices.size());
  plaitUniqueId id;
  MUST(plaitGetUniqueId(&id));
  MUST(plaitGroupStart());
  for (size_t r = 0; r < devices.size(); ++r) {
    MUST(cudaSetDevice(devices[r]));
    MUST(plaitCommInitRank(&comms[r], static_cast<int>(devices.size()), id, static_cast<int>(r)));
  }
  MUST(plaitGroupEnd());
  return comms;
}

int value_of(int rank, int i, int variant) { return (rank + 1) * 1000 + (i + variant) % 97; }

int sum_of(int ranks, int i, int variant) { return ranks * (ranks + 1) / 2 * 1000 + ranks * ((i + variant) % 97); }

void fill(World& world, int variant) {
  world.each([&](Rank& rank, int r) {
    std::vector<int> values(kCount * world.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = value_of(r, static_cast<int>(i), variant);
    MUST(cudaMemcpyAsync(rank.send, values.data(), world.bytes(), cudaMemcpyHostToDevice, rank.stream));
    MUST(cudaMemsetAsync(rank.receive, 0xff, world.bytes(), rank.stream));
    MUST(cudaStreamSynchronize(rank.stream));
  });
}

// Compares `elements` of every rank's receiving buffer with what `expected` says of (rank, element).
void expect_results(World& world, int elements, const std::string& what, const std::function<int(int, int)>& expected) {
  world.synchronize();
  world.each([&](Rank& rank, int r) {
    std::vector<int> values(elements);
    MUST(cudaMemcpy(values.data(), rank.receive, sizeof(int) * elements, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < elements; ++i) wrong += values[i] != expected(r, i);
    expect(wrong == 0, what + " on rank " + std::to_string(r) + ": " + std::to_string(wrong) + " wrong");
    plaitResult_t state = plaitInternalError;
    MUST(plaitCommGetAsyncError(rank.comm, &state));
    expect(state == plaitSuccess, what + ": the state afterwards: " + plaitGetLastError(rank.comm));
  });
}

plaitResult_t all_reduce(Rank& rank, cudaStream_t stream) {
  return plaitAllReduce(rank.send, rank.receive, kCount, plaitInt32, plaitSum, rank.comm, stream);
}

void expect_sums(World& world, int variant, const std::string& what) {
  expect_results(world, kCount, what, [&](int, int i) { return sum_of(world.size(), i, variant); });
}

// What `calls` put on the streams of all ranks.
class Graphs {
 public:
  Graphs(World& world, const std::function<void()>& calls) : world_(world), graphs_(world.size()) {
    world.each([](Rank& rank, int) { MUST(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal)); });
    calls();
    // A thread may make no graph executable as long as it captures another.
    std::vector<cudaGraph_t> captured(world.size());
    world.each([&](Rank& rank, int r) { MUST(cudaStreamEndCapture(rank.stream, &captured[r])); });
    world.each([&](Rank&, int r) {
      MUST(cudaGraphInstantiateWithFlags(&graphs_[r], captured[r], 0));
      MUST(cudaGraphDestroy(captured[r]));
    });
  }
  ~Graphs() {
    world_.each([this](Rank&, int r) { MUST(cudaGraphExecDestroy(graphs_[r])); });
  }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;

  void launch() {
    world_.each([this](Rank& rank, int r) { MUST(cudaGraphLaunch(graphs_[r], rank.stream)); });
  }

 private:
  World& world_;
  std::vector<cudaGraphExec_t> graphs_;
};

void test_collectives(World& world) {
  const int ranks = world.size();
  const int root = ranks - 1;
  fill(world, 1);
  world.in_group([](Rank& rank, int) { return all_reduce(rank, rank.stream); });
  expect_sums(world, 1, "plaitAllReduce");

  fill(world, 2);
  world.in_group([](Rank& rank, int) {
    return plaitReduceScatter(rank.send, rank.receive, kCount, plaitInt32, plaitSum, rank.comm, rank.stream);
  });
  expect_results(world, kCount, "plaitReduceScatter", [&](int r, int i) { return sum_of(ranks, r * kCount + i, 2); });

  fill(world, 3);
  world.in_group([](Rank& rank, int) {
    return plaitAllGather(rank.send, rank.receive, kCount, plaitInt32, rank.comm, rank.stream);
  });
  expect_results(world, kCount * ranks, "plaitAllGather",
                 [&](int, int i) { return value_of(i / kCount, i % kCount, 3); });

  fill(world, 4);
  world.in_group([&](Rank& rank, int) {
    return plaitBroadcast(rank.send, rank.receive, kCount, plaitInt32, root, rank.comm, rank.stream);
  });
  expect_results(world, kCount, "plaitBroadcast", [&](int, int i) { return value_of(root, i, 4); });

  world.in_group(
      [&](Rank& rank, int) { return plaitBcast(rank.receive, kCount, plaitInt32, 0, rank.comm, rank.stream); });
  expect_results(world, kCount, "plaitBcast", [&](int, int i) { return value_of(root, i, 4); });

  fill(world, 5);
  world.in_group([&](Rank& rank, int) {
    return plaitReduce(rank.send, rank.receive, kCount, plaitInt32, plaitSum, root, rank.comm, rank.stream);
  });
  expect_results(world, kCount, "plaitReduce", [&](int r, int i) { return r == root ? sum_of(ranks, i, 5) : -1; });

  fill(world, 7);
  world.in_group([&](Rank& rank, int r) {
    return plaitGather(rank.send, r == root ? rank.receive : nullptr, kCount, plaitInt32, root, rank.comm, rank.stream);
  });
  expect_results(world, kCount * ranks, "plaitGather",
                 [&](int r, int i) { return r == root ? value_of(i / kCount, i % kCount, 7) : -1; });

  fill(world, 8);
  world.in_group([&](Rank& rank, int r) {
    return plaitScatter(r == root ? rank.send : nullptr, rank.receive, kCount, plaitInt32, root, rank.comm,
                        rank.stream);
  });
  expect_results(world, kCount, "plaitScatter", [&](int r, int i) { return value_of(root, r * kCount + i, 8); });

  fill(world, 9);
  world.in_group([](Rank& rank, int) {
    return plaitAlltoAll(rank.send, rank.receive, kCount, plaitInt32, rank.comm, rank.stream);
  });
  const auto exchanged = [&](int r, int i) { return value_of(i / kCount, r * kCount + i % kCount, 9); };
  expect_results(world, kCount * ranks, "plaitAlltoAll", exchanged);
  world.in_group([](Rank& rank, int) {  // the second time gives back what the first one took
    return plaitAlltoAll(rank.receive, rank.receive, kCount, plaitInt32, rank.comm, rank.stream);
  });
  expect_results(world, kCount * ranks, "plaitAlltoAll in place", [](int r, int i) { return value_of(r, i, 9); });

  fill(world, 10);
  world.in_group([&](Rank& rank, int) {  // an all-to-all of messages, backwards
    plaitResult_t result = plaitSuccess;
    for (int peer = ranks - 1; peer >= 0 && result == plaitSuccess; --peer) {
      result = plaitSend(rank.send + peer * kCount, kCount, plaitInt32, peer, rank.comm, rank.stream);
      if (result != plaitSuccess) break;
      result = plaitRecv(rank.receive + peer * kCount, kCount, plaitInt32, peer, rank.comm, rank.stream);
    }
    return result;
  });
  expect_results(world, kCount * ranks, "plaitSend and plaitRecv",
                 [&](int r, int i) { return value_of(i / kCount, r * kCount + i % kCount, 10); });

  world.in_group([](Rank& rank, int) { return plaitBarrier(rank.comm, rank.stream); });
  world.synchronize();
  world.each([&](Rank& rank, int r) {
    int device = -5, number = -5, count = -5;
    MUST(plaitCommCuDevice(rank.comm, &device));
    MUST(plaitCommUserRank(rank.comm, &number));
    MUST(plaitCommCount(rank.comm, &count));
    expect(device == rank.device && number == r && count == ranks, "device, rank and count");
    cudaPointerAttributes attributes;
    MUST(cudaPointerGetAttributes(&attributes, rank.send));
    expect(attributes.type == cudaMemoryTypeDevice && attributes.device == device, "plaitMemAlloc");
  });
}

// Many calls in one group, and one communicator on streams that change from call to call.
void test_streams(World& world) {
  std::vector<cudaStream_t> others(world.size());
  world.each([&](Rank&, int r) { MUST(cudaStreamCreateWithFlags(&others[r], cudaStreamNonBlocking)); });
  fill(world, 6);
  MUST(plaitGroupStart());
  for (int i = 0; i < 50; ++i) {
    world.each([&](Rank& rank, int r) { MUST(all_reduce(rank, i % 2 == 0 ? rank.stream : others[r])); });
  }
  MUST(plaitGroupEnd());
  world.each([&](Rank&, int r) { MUST(cudaStreamSynchronize(others[r])); });
  expect_sums(world, 6, "50 calls on two streams");
  world.each([&](Rank&, int r) { MUST(cudaStreamDestroy(others[r])); });
}

// Calls between copies on the same stream: each takes what came before it, and is over before what comes after it,
// however early it begins. Launched and captured, on streams of the program's and on the default stream.
void test_order(World& world) {
  constexpr int kRounds = 40, kElements = 100;
  const int ranks = world.size();
  const auto sum_in = [&](int round) { return 0x01010101 * (round + 1) * ranks; };
  const auto rounds_on = [&](const std::function<cudaStream_t(const Rank&)>& stream_of) {
    for (int round = 0; round < kRounds; ++round) {
      world.each([&](Rank& rank, int) {
        MUST(cudaMemsetAsync(rank.send, round + 1, kElements * sizeof(int), stream_of(rank)));
      });
      for (int call = 0; call < 2; ++call) {  // two in a row
        world.in_group([&](Rank& rank, int) {
          int* const to = rank.receive + (1 + round) * kElements;
          return plaitAllReduce(call == 0 ? rank.send : rank.receive, call == 0 ? rank.receive : to, kElements,
                                plaitInt32, call == 0 ? plaitSum : plaitMax, rank.comm, stream_of(rank));
        });
      }
      world.each([&](Rank& rank, int) {
        MUST(cudaMemsetAsync(rank.receive, 0xff, kElements * sizeof(int), stream_of(rank)));
      });
    }
  };
  const auto check = [&](const std::string& what) {
    expect_results(world, (1 + kRounds) * kElements, what,
                   [&](int, int i) { return i < kElements ? -1 : sum_in(i / kElements - 1); });
  };
  const auto own = [](const Rank& rank) { return rank.stream; };
  fill(world, 0);
  rounds_on(own);
  check("calls between copies");
  std::set<int> devices;
  world.each([&](Rank& rank, int) { devices.insert(rank.device); });
  if (static_cast<int>(devices.size()) == ranks) {  // ranks that share a GPU would wait for each other on one stream
    fill(world, 0);
    rounds_on([](const Rank&) { return cudaStream_t{nullptr}; });
    world.each([](Rank&, int) { MUST(cudaStreamSynchronize(nullptr)); });
    check("calls between copies on the default stream");
  }
  Graphs graphs(world, [&] { rounds_on(own); });
  for (int replay = 0; replay < 5; ++replay) {
    fill(world, 0);
    graphs.launch();
    check("captured calls between copies");
  }
}

// Calls that come after several things at once: after calls of another communicator, and a copy, on streams that theirs
// has waited for, and after a call of which a part goes through host memory. Launched and captured.
void test_joins(const std::vector<int>& devices) {
  setenv("PLAIT_LAUNCH", "signals:4x128+4:20%", 1);
  World parted(devices, made_at_once(devices));
  unsetenv("PLAIT_LAUNCH");
  World world(devices, made_at_once(devices)), other(devices, made_at_once(devices));
  const int ranks = world.size();
  const size_t bytes = sizeof(int) * kCount;
  std::vector<cudaEvent_t> events(ranks);
  std::vector<cudaStream_t> sides(ranks);
  world.each([&](Rank&, int r) {
    MUST(cudaEventCreateWithFlags(&events[r], cudaEventDisableTiming));
    MUST(cudaStreamCreateWithFlags(&sides[r], cudaStreamNonBlocking));
  });
  const auto later_waits = [&](int r, cudaStream_t earlier, cudaStream_t later) {
    MUST(cudaEventRecord(events[r], earlier));
    MUST(cudaStreamWaitEvent(later, events[r], 0));
  };
  // On every stream a part of the input of the last call: sums of the first and of the second input, and the third one.
  const auto enqueue = [&] {
    world.each([&](Rank& rank, int r) {
      later_waits(r, rank.stream, other[r].stream);
      later_waits(r, rank.stream, sides[r]);
    });
    world.in_group([](Rank& rank, int) { return all_reduce(rank, rank.stream); });
    other.in_group([](Rank& rank, int) { return all_reduce(rank, rank.stream); });
    world.each([&](Rank& rank, int r) {
      MUST(cudaMemcpyAsync(parted[r].receive, parted[r].send, bytes, cudaMemcpyDeviceToDevice, sides[r]));
      later_waits(r, other[r].stream, rank.stream);
      later_waits(r, sides[r], rank.stream);
    });
    world.in_group([&](Rank& rank, int r) {
      return plaitAllReduce(other[r].receive, rank.send, kCount, plaitInt32, plaitMax, rank.comm, rank.stream);
    });
    parted.in_group([&](Rank& rank, int r) {
      return plaitAllReduce(rank.receive, rank.receive, kCount, plaitInt32, plaitSum, rank.comm, world[r].stream);
    });
    parted.in_group([&](Rank& rank, int r) {  // from the last rank to the first, which takes place after the sum
      if (r != 0 && r != ranks - 1) return plaitSuccess;
      return r == 0 ? plaitRecv(other[0].send, kCount, plaitInt32, ranks - 1, rank.comm, world[r].stream)
                    : plaitSend(rank.receive, kCount, plaitInt32, 0, rank.comm, world[r].stream);
    });
    world.in_group([&](Rank& rank, int) {
      return plaitAllReduce(rank.send, rank.send, kCount, plaitInt32, plaitMin, rank.comm, rank.stream);
    });
  };
  const auto prepare = [&] {
    fill(world, 1);
    fill(other, 2);
    fill(parted, 3);
  };
  const auto check = [&](const std::string& what) {
    expect_sums(world, 1, what);
    expect_sums(other, 2, what + ", of another communicator");
    expect_sums(parted, 3, what + ", in parts");
    std::vector<int> sent(kCount), joined(kCount);
    MUST(cudaSetDevice(devices[0]));
    MUST(cudaMemcpy(sent.data(), other[0].send, bytes, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy(joined.data(), world[0].send, bytes, cudaMemcpyDeviceToHost));
    int wrong = 0;
    for (int i = 0; i < kCount; ++i) wrong += sent[i] != sum_of(ranks, i, 3) || joined[i] != sum_of(ranks, i, 2);
    expect(wrong == 0, what + ": " + std::to_string(wrong) + " wrong after it");
  };
  prepare();
  enqueue();
  check("a call after several");
  prepare();
  Graphs graphs(world, enqueue);
  for (int replay = 0; replay < 5; ++replay) {
    prepare();
    graphs.launch();
    check("a captured call after several");
  }
  world.each([&](Rank&, int r) {
    MUST(cudaEventDestroy(events[r]));
    MUST(cudaStreamDestroy(sides[r]));
  });
}

// Graphs that are replayed between eager calls.
void test_graphs(World& world) {
  Graphs graphs(world, [&] {
    world.in_group([](Rank& rank, int) { return all_reduce(rank, rank.stream); });
    world.in_group(
        [](Rank& rank, int) { return plaitBcast(rank.receive, kCount, plaitInt32, 0, rank.comm, rank.stream); });
  });
  for (int i = 0; i < 20; ++i) {
    fill(world, i);
    graphs.launch();
    expect_sums(world, i, "a replay");
    if (i % 3 == 0) continue;
    fill(world, i + 1);
    world.in_group([](Rank& rank, int) { return all_reduce(rank, rank.stream); });
    expect_sums(world, i + 1, "an eager call between replays");
  }
}

int factor_of(int rank) { return rank % 2 == 0 ? 3 : -1; }

int weighted_sum_of(int ranks, int i, int variant) {
  int sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += factor_of(rank) * value_of(rank, i, variant);
  return sum;
}

// Operations with factors on the host and on the device; they end while the calls are under way.
void test_operations(World& world) {
  const int ranks = world.size();
  std::vector<plaitRedOp_t> ops(ranks), device_ops(ranks);
  std::vector<int*> factors(ranks);
  world.each([&](Rank& rank, int r) {
    int factor = factor_of(r);
    MUST(plaitRedOpCreatePreMulSum(&ops[r], &factor, plaitInt32, plaitScalarHostImmediate, rank.comm));
    MUST(cudaMalloc(reinterpret_cast<void**>(&factors[r]), sizeof(int)));
    MUST(cudaMemset(factors[r], 0, sizeof(int)));  // set later
    MUST(plaitRedOpCreatePreMulSum(&device_ops[r], factors[r], plaitInt32, plaitScalarDevice, rank.comm));
  });
  fill(world, 1);
  world.in_group([&](Rank& rank, int r) {
    return plaitAllReduce(rank.send, rank.receive, kCount, plaitInt32, ops[r], rank.comm, rank.stream);
  });
  expect_results(world, kCount, "a pre-multiplied plaitAllReduce",
                 [&](int, int i) { return weighted_sum_of(ranks, i, 1); });

  Graphs graphs(world, [&] {
    world.in_group([&](Rank& rank, int r) {
      return plaitReduceScatter(rank.send, rank.receive, kCount, plaitInt32, device_ops[r], rank.comm, rank.stream);
    });
  });
  world.each([&](Rank& rank, int r) {
    const int factor = factor_of(r);
    MUST(cudaMemcpy(factors[r], &factor, sizeof(factor), cudaMemcpyHostToDevice));
    expect(plaitRedOpDestroy(ops[r], rank.comm) == plaitSuccess, "plaitRedOpDestroy");
    expect(plaitRedOpDestroy(device_ops[r], rank.comm) == plaitSuccess, "plaitRedOpDestroy");
    expect(plaitRedOpDestroy(ops[r], rank.comm) == plaitInvalidArgument, "an operation destroyed twice");
  });
  for (int i = 0; i < 3; ++i) {
    fill(world, i);
    graphs.launch();
    expect_results(world, kCount, "a replayed pre-multiplied plaitReduceScatter",
                   [&](int r, int at) { return weighted_sum_of(ranks, r * kCount + at, i); });
  }
  world.each([&](Rank&, int r) { MUST(cudaFree(factors[r])); });
}

// All ranks backwards, then alone.
void test_split(World& world) {
  const int ranks = world.size();
  std::vector<int> devices(ranks);
  std::vector<plaitComm_t> backwards(ranks), alone(ranks);
  MUST(plaitGroupStart());
  world.each([&](Rank& rank, int r) { MUST(plaitCommSplit(rank.comm, 0, -r, &backwards[ranks - 1 - r], nullptr)); });
  MUST(plaitGroupEnd());
  for (int r = 0; r < ranks; ++r) devices[r] = world[ranks - 1 - r].device;
  World turned(devices, backwards);
  test_collectives(turned);

  MUST(plaitGroupStart());
  world.each([&](Rank& rank, int r) { MUST(plaitCommSplit(rank.comm, r, 0, &alone[r], nullptr)); });
  MUST(plaitGroupEnd());
  for (int r = 0; r < ranks; ++r) {
    World one({world[r].device}, {alone[r]});
    test_collectives(one);
  }
}

// Host memory stays possible where there are GPUs.
void test_host() {
  const int host[2] = {PLAIT_DEVICE_HOST, PLAIT_DEVICE_HOST};
  plaitComm_t comms[2];
  int values[2] = {1, 2};
  MUST(plaitCommInitAll(comms, 2, host));
  MUST(plaitGroupStart());
  for (int r = 0; r < 2; ++r) MUST(plaitAllReduce(&values[r], &values[r], 1, plaitInt, plaitSum, comms[r], nullptr));
  MUST(plaitGroupEnd());
  expect(values[0] == 3 && values[1] == 3, "host memory beside GPUs");
  for (const plaitComm_t comm : comms) MUST(plaitCommDestroy(comm));
}

// What is written to stderr in its life.
class ErrorOutput {
 public:
  ErrorOutput() : file_(std::tmpfile()), kept_(dup(STDERR_FILENO)) {
    if (file_ != nullptr && kept_ >= 0 && dup2(fileno(file_), STDERR_FILENO) >= 0) return;
    std::puts("FAILED: no file for what is written to stderr");
    std::exit(1);
  }
  ~ErrorOutput() {
    dup2(kept_, STDERR_FILENO);
    close(kept_);
    std::fclose(file_);
  }
  ErrorOutput(const ErrorOutput&) = delete;
  ErrorOutput& operator=(const ErrorOutput&) = delete;

  bool has(const char* words) const {
    std::string text(1 << 20, '\0');
    const ssize_t bytes = pread(fileno(file_), text.data(), text.size(), 0);  // where others write is left alone
    text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
    return text.find(words) != std::string::npos;
  }

 private:
  std::FILE* const file_;
  const int kept_;
};

// Calls of one thread go straight from buffer to buffer where a group shows all ranks' calls, whatever else it holds.
void test_straight(const std::vector<int>& devices) {
  constexpr const char* kNotStraight = "does not go straight from buffer to buffer";
  setenv("PLAIT_LOG", "info", 1);
  setenv("PLAIT_ALGORITHM", "all_gather:pull(sm),send_receive:pull(sm)", 1);
  {
    const ErrorOutput log;
    World world(devices, made_at_once(devices));
    World other(devices, made_in_group(devices));
    World one({devices.back()}, made_at_once({devices.back()}));
    const int ranks = world.size();
    const auto all_gather = [](Rank& rank) {
      return plaitAllGather(rank.send, rank.receive, kCount, plaitInt32, rank.comm, rank.stream);
    };
    const auto gathered = [](int, int i) { return value_of(i / kCount, i % kCount, 1); };
    fill(world, 1);
    fill(one, 1);
    MUST(plaitGroupStart());
    MUST(all_gather(one[0]));  // so the last device has a call more than the others
    world.each([&](Rank& rank, int) {
      for (int i = 0; i < 3; ++i) MUST(all_gather(rank));
    });
    MUST(plaitGroupEnd());
    expect_results(world, kCount * ranks, "plaitAllGather beside another communicator's", gathered);
    expect_results(one, kCount, "plaitAllGather of one", gathered);

    fill(world, 2);
    world.in_group([&](Rank& rank, int r) {  // all ranks but the last one send, and all but the first receive
      plaitResult_t result = plaitSuccess;
      if (r + 1 < ranks) result = plaitSend(rank.send, kCount, plaitInt32, r + 1, rank.comm, rank.stream);
      if (r == 0 || result != plaitSuccess) return result;
      return plaitRecv(rank.receive, kCount, plaitInt32, r - 1, rank.comm, rank.stream);
    });
    expect_results(world, kCount, "messages on", [](int r, int i) { return r == 0 ? -1 : value_of(r - 1, i, 2); });
    expect(!log.has(kNotStraight), "all calls of a group go straight");

    fill(world, 1);
    fill(other, 1);
    MUST(plaitGroupStart());
    for (int r = 0; r < ranks; ++r) {  // the first rank calls them the other way round
      MUST(all_gather(r == 0 ? world[r] : other[r]));
      MUST(all_gather(r == 0 ? other[r] : world[r]));
    }
    MUST(plaitGroupEnd());
    expect_results(world, kCount * ranks, "plaitAllGather in contradicting orders", gathered);
    expect_results(other, kCount * ranks, "plaitAllGather in contradicting orders", gathered);
    expect(log.has(kNotStraight), "calls in contradicting orders do not go straight, and the log says so");
  }
  unsetenv("PLAIT_ALGORITHM");
  unsetenv("PLAIT_LOG");
}

// Where one call of a group is refused when it is issued, no rank of its communicator waits for ever.
void test_refusal_in_a_group(const std::vector<int>& devices) {
  for (const char* const algorithm : {"", "all_gather:pull(sm)"}) {
    setenv("PLAIT_ALGORITHM", algorithm, 1);
    World world(devices, made_at_once(devices));
    MUST(plaitGroupStart());
    world.each([&](Rank& rank, int r) {
      int* const to = r == 1 ? rank.send + 1 : rank.receive;
      MUST(plaitAllGather(rank.send, to, kCount, plaitInt32, rank.comm, rank.stream));
    });
    expect(plaitGroupEnd() == plaitInvalidArgument, "a group with buffers that overlap");
    world.each([&](Rank& rank, int) {
      MUST(cudaStreamSynchronize(rank.stream));
      plaitResult_t state = plaitSuccess;
      MUST(plaitCommGetAsyncError(rank.comm, &state));
      expect(state == plaitRemoteError, "the communicator of a call that was refused in a group");
    });
  }
  unsetenv("PLAIT_ALGORITHM");
}

// A rank that waits in vain: known as soon as the stream has come past the call, and when its communicator ends.
void test_failure_of_the_last_call(int device) {
  for (const bool asks : {false, true}) {  // in this order, as the first text is still there later
    plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
    config.timeoutSeconds = 0.5;
    plaitUniqueId id;
    std::vector<plaitComm_t> comms(2);
    MUST(plaitGetUniqueId(&id));
    MUST(cudaSetDevice(device));
    MUST(plaitGroupStart());
    for (int r = 0; r < 2; ++r) MUST(plaitCommInitRankConfig(&comms[r], 2, id, r, &config));
    MUST(plaitGroupEnd());
    World world({device, device}, comms);
    MUST(all_reduce(world[0], world[0].stream));
    if (asks) {
      MUST(cudaStreamSynchronize(world[0].stream));
      plaitResult_t state = plaitSuccess;
      MUST(plaitCommGetAsyncError(comms[0], &state));
      expect(state == plaitTimeout, "a call that its stream has come past has failed");
    } else {
      MUST(plaitCommDestroy(comms[0]));
      world[0].comm = nullptr;
      const char* const text = plaitGetLastError(nullptr);
      expect(std::strstr(text, "waited longer than PLAIT_TIMEOUT_SEC") != nullptr, "what the last call failed of");
    }
  }
}

// Who says that there must be a device gets the current one, also where that is divided.
void test_required_device(int device) {
  MUST(cudaSetDevice(device));
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.device = PLAIT_DEVICE_CUDA;
  plaitUniqueId id;
  plaitComm_t comm = nullptr, part = nullptr;
  MUST(plaitGetUniqueId(&id));
  MUST(plaitCommInitRankConfig(&comm, 1, id, 0, &config));
  MUST(plaitCommSplit(comm, 0, 0, &part, &config));
  for (const plaitComm_t made : {comm, part}) {
    int its = PLAIT_DEVICE_HOST;
    MUST(plaitCommCuDevice(made, &its));
    expect(its == device, "PLAIT_DEVICE_CUDA should be the current device");
    MUST(plaitCommDestroy(made));
  }
}

// A kernel that waits for a rank that never calls is ended by an abort of another thread.
void test_abort(World& world) {
  const auto begin = std::chrono::steady_clock::now();
  MUST(cudaSetDevice(world[0].device));
  MUST(all_reduce(world[0], world[0].stream));
  std::thread other([&] {
    usleep(200'000);
    expect(cudaStreamQuery(world[0].stream) == cudaErrorNotReady, "the kernel should wait until the abort");
    expect(plaitCommAbort(world[0].comm) == plaitSuccess, "plaitCommAbort");
  });
  other.join();
  MUST(cudaStreamSynchronize(world[0].stream));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  expect(seconds.count() < 20, "the kernel should end soon after the abort");
  expect(all_reduce(world[0], world[0].stream) == plaitInvalidArgument, "a call after the abort");
  world[0].comm = nullptr;
  plaitResult_t state = plaitSuccess;
  MUST(plaitCommGetAsyncError(world[1].comm, &state));
  expect(state == plaitRemoteError, "the other ranks should hear of the abort");
  expect(std::strstr(plaitGetLastError(world[1].comm), "rank 0 aborted") != nullptr, "and who did it");
  expect(all_reduce(world[1], world[1].stream) == plaitRemoteError, "the other ranks' calls after the abort");
}

void test_world(const std::vector<int>& devices, bool in_group) {
  std::printf("%zu ranks, %s\n", devices.size(), in_group ? "made in a group" : "made at once");
  std::fflush(stdout);
  World world(devices, in_group ? made_in_group(devices) : made_at_once(devices));
  test_collectives(world);
  test_streams(world);
  test_order(world);
  test_graphs(world);
  test_operations(world);
  test_split(world);
  if (world.size() > 1) test_abort(world);
}

}  // namespace

int main() {
  alarm(120);  // whatever happens, it ends
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
    std::puts("skipped: no GPU");
    return kSkipped;
  }
  setenv("PLAIT_TIMEOUT_SEC", "20", 0);
  std::vector<int> all(gpus);
  for (int device = 0; device < gpus; ++device) all[device] = device;
  for (const bool in_group : {false, true}) {
    test_world(all, in_group);
    test_world({0, 0}, in_group);
    test_world({0, gpus - 1, 0}, in_group);
  }
  for (const auto& devices : std::vector<std::vector<int>>{all, {0, 0}, {0, gpus - 1, 0}}) {
    if (devices.size() == 1) continue;
    test_joins(devices);
    test_straight(devices);
    test_refusal_in_a_group(devices);
  }
  test_failure_of_the_last_call(gpus - 1);
  test_host();
  test_required_device(gpus - 1);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

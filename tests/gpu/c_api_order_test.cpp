// The order of calls of the C interface that one thread makes for all its ranks: on streams that change, between
// copies, after several things at once, captured, and in groups of several communicators.
#include <set>

#include "c_api_world.hpp"

namespace plait::test {
namespace {

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

// Calls between copies on the same stream: each uses what came before it, and is over before what comes after it, even
// with PDL. They are launched and captured, on streams of the program and on the default stream.
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

// Calls that come after several things at once: after calls of another communicator and a copy, on streams that their
// stream has waited for, and after a call with a host path. They are launched and captured.
void test_joins(const std::vector<int>& devices) {
  setenv("PLAIT_LAUNCH", "Simple:4x128+4:20%", 1);
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
  // Every stream makes a part of the last call's input: sums of the first and of the second input, and the third input.
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

// Collects what is written to stderr while it lives.
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
    const ssize_t bytes =
        pread(fileno(file_), text.data(), text.size(), 0);  // pread() does not move the position where others write
    text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
    return text.find(words) != std::string::npos;
  }

 private:
  std::FILE* const file_;
  const int kept_;
};

// Calls of one thread are zero-copy if a group holds the calls of all ranks, whatever else it holds.
void test_zero_copy(const std::vector<int>& devices) {
  constexpr const char* kNotZeroCopy = "is not zero-copy";
  setenv("PLAIT_LOG", "info", 1);
  setenv("PLAIT_ALGORITHM", "all_gather:flat(load, zero_copy, engine=sm),send_receive:pull(sm)", 1);
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
    MUST(all_gather(one[0]));  // so the last device has one call more than the others
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
    expect(!log.has(kNotZeroCopy), "all calls of a group are zero-copy");

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
    expect(log.has(kNotZeroCopy), "calls in contradicting orders are not zero-copy, and the log says so");
  }
  unsetenv("PLAIT_ALGORITHM");
  unsetenv("PLAIT_LOG");
}

// If one call of a group is refused when it is issued, no rank of its communicator waits for ever.
void test_refusal_in_a_group(const std::vector<int>& devices) {
  for (const char* const algorithm : {"", "all_gather:flat(load, zero_copy, engine=sm)"}) {
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

using CApiOrder = CApiTest;

TEST_F(CApiOrder, InEachWorld) {
  in_each_world([](World& world) {
    test_streams(world);
    test_order(world);
  });
}
TEST_F(CApiOrder, OfWorldsOfSeveralRanks) {
  for (const std::vector<int>& devices : worlds()) {
    if (devices.size() == 1) continue;
    test_joins(devices);
    test_zero_copy(devices);
    test_refusal_in_a_group(devices);
  }
}

}  // namespace
}  // namespace plait::test

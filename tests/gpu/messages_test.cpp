// Sends and receives on GPUs: random exchanges of all ranks in this process, captured ones, ranks that are processes,
// and messages whose ends do not match.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "machine.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "support/rank_processes.hpp"
#include "support/seed.hpp"
#include "world.hpp"

namespace plait::test {
namespace {

using Kind = PeerMessage::Kind;
using Bytes = std::vector<std::byte>;

constexpr size_t kUsedBytes = 6 << 20;  // of every buffer

int pick(std::mt19937& random, int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); }

// The messages of each rank in one exchange, and the content of all buffers before and after.
struct Exchange {
  std::vector<std::vector<PeerMessage>> messages;
  std::vector<Bytes> inputs, outputs;
};

size_t random_bytes(std::mt19937& random) {
  switch (pick(random, 0, 5)) {
    case 0:
      return 0;
    case 1:
      return static_cast<size_t>(pick(random, 1, 600'000));
    default:
      return static_cast<size_t>(pick(random, 1, 9000));
  }
}

// Messages between random ranks, some to themselves. Each has its own place, with any alignment.
Exchange random_exchange(std::mt19937& random, World& world, int most) {
  const int ranks = world.size();
  Exchange exchange;
  exchange.messages.resize(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    Bytes& input = exchange.inputs.emplace_back(kUsedBytes);
    for (size_t i = 0; i + 4 <= input.size(); i += 4) {
      const auto value = static_cast<uint32_t>(random());
      std::memcpy(&input[i], &value, 4);
    }
    exchange.outputs.emplace_back(kUsedBytes, std::byte{0xee});
  }
  std::vector<size_t> sent(static_cast<size_t>(ranks)), received(static_cast<size_t>(ranks));
  for (int count = pick(random, 0, most); count > 0; --count) {
    const int from = pick(random, 0, ranks - 1), to = pick(random, 0, ranks - 1);
    const size_t bytes = random_bytes(random);
    const size_t unit = size_t{1} << pick(random, 0, 4);
    const auto place = [&](size_t& used) {
      const size_t at = (used + unit - 1) / unit * unit;
      used = at + bytes;
      return at;
    };
    const size_t at_from = place(sent[static_cast<size_t>(from)]), at_to = place(received[static_cast<size_t>(to)]);
    if (std::max(at_from, at_to) + bytes > kUsedBytes) break;
    std::copy_n(exchange.inputs[static_cast<size_t>(from)].begin() + static_cast<std::ptrdiff_t>(at_from), bytes,
                exchange.outputs[static_cast<size_t>(to)].begin() + static_cast<std::ptrdiff_t>(at_to));
    exchange.messages[static_cast<size_t>(from)].push_back(
        {Kind::kSend, to, DataType::kUint8, bytes, world.input(from) + at_from});
    exchange.messages[static_cast<size_t>(to)].push_back(
        {Kind::kReceive, from, DataType::kInt8, bytes, world.output(to) + at_to});
  }
  return exchange;
}

void upload(World& world, const Exchange& exchange) {
  for (int r = 0; r < world.size(); ++r) {
    const DeviceGuard guard(world.device(r));
    check_cuda(
        cudaMemcpy(world.input(r), exchange.inputs[static_cast<size_t>(r)].data(), kUsedBytes, cudaMemcpyHostToDevice),
        "upload");
    check_cuda(cudaMemset(world.output(r), 0xee, kUsedBytes), "clearing");
    check_cuda(cudaDeviceSynchronize(), "upload");
  }
}

void enqueue(World& world, const Exchange& exchange) {
  for (int r = 0; r < world.size(); ++r) {
    void* const stream = world.stream(r);
    world.rank(r).enqueue_p2p(exchange.messages[static_cast<size_t>(r)], {&stream, 1});
  }
}

// How many bytes of all buffers are wrong.
long wrong(World& world, const Exchange& exchange) {
  world.synchronize();
  long count = 0;
  for (int r = 0; r < world.size(); ++r) {
    Bytes output(kUsedBytes);
    check_cuda(cudaMemcpy(output.data(), world.output(r), kUsedBytes, cudaMemcpyDeviceToHost), "download");
    for (size_t i = 0; i < kUsedBytes; ++i) count += output[i] != exchange.outputs[static_cast<size_t>(r)][i];
    if (const auto error = world.rank(r).async_error()) throw *error;
  }
  return count;
}

Settings with_timeout(double seconds) {
  Settings settings;
  settings.timeout_seconds = seconds;
  return settings;
}

void test_random(int exchanges, unsigned seed) {
  std::mt19937 random(seed);
  const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1000};
  for (const int ranks : {1, 2, 3, 4, 7, 16}) {
    World world(ranks, with_timeout(10));
    for (int i = 0; i < exchanges / 6; ++i) {
      const Exchange exchange = random_exchange(random, world, 14);
      upload(world, exchange);
      if (random() % 2 == 0) {  // collectives and messages do not disturb each other
        for (int r = 0; r < ranks; ++r) {
          world.rank(r).enqueue(call, world.input(r) + kUsedBytes, world.output(r) + kUsedBytes, world.stream(r));
        }
      }
      for (unsigned times = 1 + random() % 3; times > 0; --times) enqueue(world, exchange);
      const long errors = wrong(world, exchange);
      EXPECT_EQ(errors, 0) << "exchange " << i << " of seed " << seed << " over " << ranks << " ranks: " << errors
                           << " wrong";
    }
  }
}

// More messages than a launch can carry, all between two ranks, both ways.
void test_many() {
  World world(2, with_timeout(10));
  std::mt19937 random(5);
  for (int i = 0; i < 3; ++i) {
    const Exchange exchange = random_exchange(random, world, 400);
    upload(world, exchange);
    enqueue(world, exchange);
    const long errors = wrong(world, exchange);
    EXPECT_EQ(errors, 0) << "many messages: " << errors << " wrong";
  }
}

// Messages that are longer than all slots of a FIFO together.
void test_large() {
  World world(2, with_timeout(10));
  const size_t bytes = kBufferBytes - 64;
  Bytes data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 255);
  for (const size_t offset : {0, 4, 8, 1}) {
    for (int r = 0; r < 2; ++r) {
      check_cuda(cudaMemcpy(world.input(r) + offset, data.data(), bytes, cudaMemcpyHostToDevice), "upload");
      const PeerMessage both[] = {{Kind::kReceive, 1 - r, DataType::kUint8, bytes, world.output(r) + offset},
                                  {Kind::kSend, 1 - r, DataType::kUint8, bytes, world.input(r) + offset}};
      void* const stream = world.stream(r);
      world.rank(r).enqueue_p2p(both, {&stream, 1});
    }
    world.synchronize();
    for (int r = 0; r < 2; ++r) {
      Bytes output(bytes);
      check_cuda(cudaMemcpy(output.data(), world.output(r) + offset, bytes, cudaMemcpyDeviceToHost), "download");
      EXPECT_EQ(output, data) << "a large message at offset " << offset;
    }
  }
}

void test_graphs() {
  World world(3, with_timeout(10));
  std::mt19937 random(9);
  const Exchange exchange = random_exchange(random, world, 20);
  struct Fork {
    cudaStream_t stream;
    cudaEvent_t event;
  };
  std::vector<Fork> forks(3);
  for (int r = 0; r < 3; ++r) {
    const DeviceGuard guard(world.device(r));
    check_cuda(cudaStreamCreateWithFlags(&forks[r].stream, cudaStreamNonBlocking), "a stream");
    check_cuda(cudaEventCreate(&forks[r].event), "an event");
  }
  const std::vector<Graph> graphs = captured_in_turn(world, [&](int r) {
    const auto [other, event] = forks[r];
    check_cuda(cudaEventRecord(event, world.stream(r)), "fork");
    check_cuda(cudaStreamWaitEvent(other, event, 0), "fork");
    void* const streams[] = {world.stream(r), other};
    world.rank(r).enqueue_p2p(exchange.messages[static_cast<size_t>(r)], streams);
    check_cuda(cudaEventRecord(event, other), "join");
    check_cuda(cudaStreamWaitEvent(world.stream(r), event, 0), "join");
  });
  for (const Fork& fork : forks) {
    cudaEventDestroy(fork.event);
    cudaStreamDestroy(fork.stream);
  }
  for (int replay = 0; replay < 10; ++replay) {
    upload(world, exchange);
    launch(world, graphs);
    const long errors = wrong(world, exchange);
    EXPECT_EQ(errors, 0) << "replay " << replay << ": " << errors << " wrong";
    if (replay % 2 == 0) continue;
    upload(world, exchange);
    enqueue(world, exchange);
    EXPECT_EQ(wrong(world, exchange), 0) << "an eager exchange between replays";
  }
}

// One message of rank 0 fails; rank `heard_by` must report this error.
void expect_failure(World& world, int heard_by, ErrorCode code, const std::string& words) {
  for (int tries = 0; tries < 100 && !world.rank(heard_by).async_error(); ++tries) usleep(100'000);
  const auto error = world.rank(heard_by).async_error();
  EXPECT_TRUE(error && error->code() == code && std::string(error->what()).find(words) != std::string::npos)
      << "should say '" << words << "', says: " << (error ? error->what() : "nothing");
  world.synchronize();
}

void test_failures() {
  const auto post = [](World& world, int rank, const PeerMessage& message) {
    void* const stream = world.stream(rank);
    world.rank(rank).enqueue_p2p({&message, 1}, {&stream, 1});
  };
  {
    World world(2, with_timeout(20));
    post(world, 0, {Kind::kSend, 1, DataType::kFloat32, 100, world.input(0)});
    post(world, 1, {Kind::kReceive, 0, DataType::kFloat32, 101, world.output(1)});
    expect_failure(world, 0, ErrorCode::kMismatch,
                   "rank 0 sent a message of 400 bytes, and the receive is of 404 bytes");
  }
  {
    World world(2, with_timeout(1));
    post(world, 1, {Kind::kReceive, 0, DataType::kFloat32, 100, world.output(1)});
    expect_failure(world, 1, ErrorCode::kTimeout, "in a receive from rank 0, waited longer than");
  }
  {
    World world(2, with_timeout(1));
    post(world, 0, {Kind::kSend, 1, DataType::kUint8, kBufferBytes, world.input(0)});
    expect_failure(world, 0, ErrorCode::kTimeout, "in a send to rank 1, waited longer than");
  }
}

// Every rank is a process: a ring with checked contents, then a rank dies in the middle.
void expect_survival_of_processes() {
  constexpr int kRanks = 3, kRounds = 200;
  constexpr size_t kMost = 3 << 20;
  const UniqueId id = new_id();
  RankProcesses ranks(kRanks, [&](int rank) {
    Settings settings = with_timeout(60);
    const int device = rank % gpus();
    Communicator communicator = Communicator::create(id, rank, kRanks, settings, device);
    const DeviceGuard guard(device);
    cudaStream_t stream;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    std::byte* buffer = nullptr;
    check_cuda(cudaMalloc(&buffer, 2 * kMost), "buffers");
    const int next = (rank + 1) % kRanks, before = (rank + kRanks - 1) % kRanks;
    for (int round = 0;; ++round) {
      const size_t bytes = static_cast<size_t>(round) * 7919 % kMost;
      check_cuda(cudaMemsetAsync(buffer, rank * 50 + round % 50, kMost, stream), "fill");
      const PeerMessage both[] = {{Kind::kSend, next, DataType::kUint8, bytes, buffer},
                                  {Kind::kReceive, before, DataType::kUint8, bytes, buffer + kMost}};
      void* const s = stream;
      communicator.enqueue_p2p(both, {&s, 1});
      check_cuda(cudaStreamSynchronize(stream), "an exchange");
      if (const auto error = communicator.async_error()) throw *error;
      Bytes got(bytes);
      check_cuda(cudaMemcpy(got.data(), buffer + kMost, bytes, cudaMemcpyDeviceToHost), "download");
      const auto expected = static_cast<std::byte>(before * 50 + round % 50);
      if (std::any_of(got.begin(), got.end(), [&](std::byte byte) { return byte != expected; })) {
        fail(ErrorCode::kInternal, "wrong data in round ", round);
      }
      if (rank == 1 && round == kRounds) ::raise(SIGKILL);
    }
  });
  const Outcomes outcomes = ranks.wait(60);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(objection(outcomes[static_cast<size_t>(rank)], ErrorCode::kPeerFailed, {"rank 1"}), "")
        << "rank " << rank;
  }
}

TEST(Messages, BetweenProcesses) { expect_survival_of_processes(); }  // the first, since it forks
TEST(Messages, RandomExchanges) { test_random(times_to_try(1000), static_cast<unsigned>(run_seed())); }
TEST(Messages, Many) { test_many(); }
TEST(Messages, Large) { test_large(); }
TEST(Messages, Graphs) { test_graphs(); }
TEST(Messages, Failures) { test_failures(); }

}  // namespace
}  // namespace plait::test

// Zero-copy messages between processes: both ways at once, captured, beside others that use FIFOs, and ends that do not
// agree.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "machine.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "support/rank_processes.hpp"
#include "world.hpp"

namespace plait::test {
namespace {

using Kind = PeerMessage::Kind;
using Bytes = std::vector<std::byte>;

const char* engine = "copy";  // the engine of all copies from here on

Settings insisting() {
  Settings settings;
  settings.timeout_seconds = 20;
  settings.algorithm = join("send_receive:pull(", engine, ")");
  return settings;
}

// The bytes that `from` sends in a round.
Bytes sent_by(int from, unsigned round, size_t bytes) {
  Bytes data(bytes);
  for (size_t i = 0; i < bytes; ++i) {
    data[i] = static_cast<std::byte>((static_cast<unsigned>(from) + 1) * 37 + round * 11 + i + i / 251);
  }
  return data;
}

// A rank with its memory. Each buffer has room for all messages of a rank.
class End {
 public:
  End(Communicator& communicator, cudaStream_t stream, std::byte* input = nullptr)
      : communicator_(communicator),
        stream_(stream),
        input_(input != nullptr ? input : allocate(kBufferBytes)),
        output_(allocate(kBufferBytes)) {}

  int rank() const { return communicator_.rank(); }
  int before() const { return (rank() + communicator_.size() - 1) % communicator_.size(); }
  int next() const { return (rank() + 1) % communicator_.size(); }
  cudaStream_t stream() const { return stream_; }

  // This rank's message to `peer` in the round.
  PeerMessage send(int peer, size_t bytes, size_t offset = 0) const {
    return {Kind::kSend, peer, DataType::kUint8, bytes, input_ + offset};
  }
  PeerMessage receive(int peer, size_t bytes, size_t offset = 0) const {
    return {Kind::kReceive, peer, DataType::kUint8, bytes, output_ + offset};
  }
  void exchange(const std::vector<PeerMessage>& messages) const {
    void* const stream = stream_;
    communicator_.enqueue_p2p(messages, {&stream, 1});
  }

  void prepare(unsigned round, size_t bytes, size_t offset = 0) const {
    const Bytes data = sent_by(rank(), round, bytes);
    check_cuda(cudaMemcpyAsync(input_ + offset, data.data(), bytes, cudaMemcpyHostToDevice, stream_), "upload");
    check_cuda(cudaMemsetAsync(output_, 0xee, kBufferBytes, stream_), "clearing");
  }
  // Checks that the bytes at `offset` are what `from` sent, and that nothing around them was written.
  void check(int from, unsigned round, size_t bytes, size_t offset = 0) const {
    Bytes got(bytes + 2);
    const size_t first = offset > 0 ? offset - 1 : 0;
    check_cuda(cudaMemcpyAsync(got.data(), output_ + first, got.size(), cudaMemcpyDeviceToHost, stream_), "download");
    check_cuda(cudaStreamSynchronize(stream_), "an exchange");
    if (const auto error = communicator_.async_error()) throw *error;
    const auto begin = got.begin() + static_cast<std::ptrdiff_t>(offset - first);
    const Bytes expected = sent_by(from, round, bytes);
    const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
    const bool untouched = *end == std::byte{0xee} && (offset == 0 || got.front() == std::byte{0xee});
    if (!std::equal(begin, end, expected.begin()) || !untouched) {
      fail(ErrorCode::kInternal, "wrong in round ", round, ": ", bytes, " bytes from rank ", from);
    }
  }

  // Every rank sends to the next one.
  void ring(size_t bytes, size_t offset = 0) const {
    exchange({receive(before(), bytes, offset), send(next(), bytes, offset)});
  }
  Graph captured_ring(size_t bytes, size_t offset = 0) const {
    return Graph(stream_, [&] {
      ring(bytes, offset);
      ring(bytes, offset);
    });
  }

 private:
  Communicator& communicator_;
  const cudaStream_t stream_;
  std::byte* const input_;
  std::byte* const output_;
};

void shift_around(Communicator& communicator, cudaStream_t stream) {
  const End end(communicator, stream);
  unsigned round = 0;
  for (const size_t bytes : {size_t{1}, size_t{1000}, size_t{600'001}, size_t{9'000'000}}) {
    for (const size_t offset : {size_t{0}, size_t{4}, size_t{37}, (size_t{1} << 21) + 1}) {
      for (int time = 0; time < 2; ++time) {
        end.prepare(++round, bytes, offset);
        end.ring(bytes, offset);
        end.check(end.before(), round, bytes, offset);
      }
    }
  }
  expect_zero_copy(communicator, round);
}

// Several messages from one rank to another in one exchange, and an empty one together with a long one.
void send_several(Communicator& communicator, cudaStream_t stream) {
  const End end(communicator, stream);
  constexpr size_t kBytes = 1'000'000, kSecond = kBytes + 64;
  for (unsigned round = 0; round < 4; ++round) {
    end.prepare(round, kBytes);
    end.prepare(round, kBytes, kSecond);
    if (end.rank() == 0) {
      end.exchange({end.send(1, kBytes), end.send(1, kBytes, kSecond), end.receive(1, 0)});
    } else {  // this rank uses two exchanges
      end.exchange({end.receive(0, kBytes), end.send(0, 0)});
      end.exchange({end.receive(0, kBytes, kSecond)});
      end.check(0, round, kBytes);
      end.check(0, round, kBytes, kSecond);
    }
  }
  expect_zero_copy(communicator, 0);
  for (unsigned round = 4; round < 80; ++round) {  // until they agree again
    end.prepare(round, kBytes);
    if (end.rank() == 0) end.exchange({end.send(1, kBytes), end.receive(1, 0)});
    if (end.rank() == 1) {
      end.exchange({end.receive(0, kBytes), end.send(0, 0)});
      end.check(0, round, kBytes);
    }
  }
  if (communicator.zero_copy_calls() == 0) fail(ErrorCode::kInternal, "no zero-copy message after those that were not");
}

// Messages from one rank to another and on, one way only. Ranks without a part do nothing.
void hand_on(Communicator& communicator, cudaStream_t stream) {
  const End end(communicator, stream);
  constexpr size_t kBytes = 3'000'000;
  for (unsigned round = 0; round < 10; ++round) {
    end.prepare(round, kBytes);
    if (end.rank() > 0) {
      end.exchange({end.receive(end.before(), kBytes)});
      end.check(end.before(), round, kBytes);
    }
    if (end.next() > 0) end.exchange({end.send(end.next(), kBytes)});
  }
  expect_zero_copy(communicator, (end.rank() > 0 ? 10 : 0) + (end.next() > 0 ? 10 : 0));
}

void replay(Communicator& communicator, cudaStream_t stream) {
  const End end(communicator, stream);
  constexpr size_t kBytes = 2'000'003;
  const Graph graph = end.captured_ring(kBytes);
  for (unsigned round = 0; round < 8; ++round) {
    end.prepare(round, kBytes);
    graph.launch();
    end.check(end.before(), round, kBytes);
    end.prepare(round + 50, kBytes, 5);
    end.ring(kBytes, 5);
    end.check(end.before(), round + 50, kBytes, 5);
  }
  expect_zero_copy(communicator, 2 + 8);
}

// One rank has several messages of a kind, so its messages are not zero-copy; those of other ranks meanwhile are. Every
// rank's exchange waits for another one's.
void mix(Communicator& communicator, cudaStream_t stream) {
  const End end(communicator, stream);
  constexpr size_t kBytes = 1'500'000;
  for (unsigned round = 0; round < 6; ++round) {
    end.prepare(round, kBytes);
    switch (end.rank()) {
      case 0:  // its send is zero-copy, its receive is not
        end.exchange({end.send(1, kBytes), end.receive(2, kBytes)});
        end.check(2, round, kBytes);
        break;
      case 1:
        end.exchange({end.receive(0, kBytes), end.send(2, kBytes)});
        end.check(0, round, kBytes);
        break;
      default:
        end.exchange({end.receive(1, kBytes), end.send(0, kBytes), end.send(2, 8), end.receive(2, 8, kBytes + 64)});
        end.check(1, round, kBytes);
    }
  }
  expect_zero_copy(communicator, end.rank() < 2 ? 6 : 0);
}

// Messages of one exchange do not wait for each other, whether zero-copy or not: those of rank 0 would wait in a
// circle. Only one of the two is zero-copy, because the other one's peer has several messages in its exchange.
void depend_on_each_other(Communicator& communicator, cudaStream_t stream, bool receives_zero_copy) {
  const End end(communicator, stream);
  constexpr size_t kBytes = 40'000'000;  // more than a FIFO holds
  for (unsigned round = 0; round < 4; ++round) {
    end.prepare(round, kBytes);
    switch (end.rank()) {
      case 0:
        end.exchange({end.receive(2, kBytes), end.send(1, kBytes)});
        end.check(2, round, kBytes);
        break;
      case 1:
        if (receives_zero_copy) {  // only after rank 2 has sent to rank 0
          end.exchange({end.receive(2, 8, kBytes + 64)});
          end.exchange({end.receive(0, kBytes), end.send(1, 8), end.receive(1, 8, kBytes + 128)});
        } else {
          end.exchange({end.receive(0, kBytes)});
          end.exchange({end.send(2, 8)});
        }
        end.check(0, round, kBytes);
        break;
      default:
        if (receives_zero_copy) {
          end.exchange({end.send(0, kBytes)});
          end.exchange({end.send(1, 8)});
        } else {  // only after rank 1 has received from rank 0
          end.exchange({end.receive(1, 8, kBytes + 64)});
          end.exchange({end.send(0, kBytes), end.send(2, 8), end.receive(2, 8, kBytes + 128)});
        }
    }
  }
  if (end.rank() == 0) expect_zero_copy(communicator, 4);
}

// One rank captures what the other one makes at once, and comes late: all messages are performed all the same.
void differ(Communicator& communicator, cudaStream_t stream) {
  const End end(communicator, stream);
  constexpr size_t kBytes = 1'000'000;
  std::optional<Graph> graph;  // must live until its work is done
  for (unsigned round = 0; round < 4; ++round) {
    end.prepare(round, kBytes);
    if (end.rank() == 1 && round == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    if (end.rank() == 0 && round == 2) {
      graph.emplace(end.captured_ring(kBytes));
      graph->launch();
    } else {
      end.ring(kBytes);
      if (round == 2) end.ring(kBytes);
    }
    end.check(end.before(), round, kBytes);
  }
  expect_zero_copy(communicator, 0);
}

// One sender has memory without a handle.
void use_a_pool(Communicator& communicator, cudaStream_t stream) {
  void* memory = nullptr;
  if (communicator.rank() == 1) check_cuda(cudaMallocAsync(&memory, kBufferBytes, stream), "memory of a pool");
  const End end(communicator, stream, static_cast<std::byte*>(memory));
  for (unsigned round = 0; round < 4; ++round) {
    end.prepare(round, 700'000);
    end.ring(700'000);
    end.check(end.before(), round, 700'000);
  }
  expect_zero_copy(communicator, 4);  // one of the rank's two messages each time
}

// Ranks launch graphs of different messages, with different addresses of each other's buffers. The kernels notice it.
void mix_up_graphs(Communicator& communicator, cudaStream_t stream) {
  const End end(communicator, stream);
  const Graph graphs[] = {end.captured_ring(5000), end.captured_ring(5000, 1 << 20)};
  expect_zero_copy(communicator, 4);
  graphs[communicator.rank() == 0 ? 0 : 1].launch();
  check_cuda(cudaStreamSynchronize(stream), "the exchange");
  expect_error(communicator, ErrorCode::kMismatch, "another message at the same time");
}

// The ends have different sizes: neither copies, and the kernels notice it.
void disagree(Communicator& communicator, cudaStream_t stream) {
  const End end(communicator, stream);
  if (end.rank() == 0) end.exchange({end.send(1, 4'000'000)});
  if (end.rank() == 1) end.exchange({end.receive(0, 4'000'001)});
  expect_error(communicator, ErrorCode::kMismatch, "both ends must give the same size");
  expect_zero_copy(communicator, 0);
}

// One rank launches its graph alone: its waits are bounded.
void stay_away(Communicator& communicator, cudaStream_t stream) {
  const End end(communicator, stream);
  const Graph graph = end.captured_ring(5000);
  if (end.rank() == 0) graph.launch();
  expect_error(communicator, ErrorCode::kTimeout, "rank 0, in a ");
  check_cuda(cudaStreamSynchronize(stream), "the exchange");
}

// A rank dies between zero-copy messages: the others learn of it.
void expect_survival_of_a_death() {
  constexpr int kRanks = 3, kRounds = 30;
  const UniqueId id = new_id();
  RankProcesses ranks(kRanks, [&](int rank) {
    const int device = rank % gpus();
    const DeviceGuard guard(device);
    Communicator communicator = Communicator::create(id, rank, kRanks, insisting(), device);
    cudaStream_t stream;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    const End end(communicator, stream);
    for (unsigned round = 0;; ++round) {
      if (rank == 1 && round == kRounds) ::raise(SIGKILL);
      end.prepare(round, 9'000'000);
      end.ring(9'000'000);
      end.check(end.before(), round, 9'000'000);
    }
  });
  const Outcomes outcomes = ranks.wait(60);
  for (const int rank : {0, 2}) {
    EXPECT_EQ(objection(outcomes[static_cast<size_t>(rank)], ErrorCode::kPeerFailed, {"rank 1"}), "")
        << "rank " << rank << ", by " << engine;
  }
}

// Ranks of one process, driven by one thread. Each sends to the next one.
class RingInProcess {
 public:
  explicit RingInProcess(int ranks) : world_(ranks, insisting()) {
    for (int r = 0; r < ranks; ++r) {
      messages_.push_back({{Kind::kReceive, before(r), DataType::kUint8, kBytes, world_.output(r)},
                           {Kind::kSend, (r + 1) % ranks, DataType::kUint8, kBytes, world_.input(r)}});
      streams_.push_back(world_.stream(r));
    }
  }

  World& world() { return world_; }
  int ranks() const { return static_cast<int>(messages_.size()); }
  void fill(int round) {
    for (int r = 0; r < ranks(); ++r) {
      const DeviceGuard guard(world_.device(r));
      check_cuda(cudaMemset(world_.input(r), r + round, kBytes), "filling");
      check_cuda(cudaMemset(world_.output(r), 0xee, kBytes), "filling");
      check_cuda(cudaDeviceSynchronize(), "filling");
    }
  }
  // Takes every step for all ranks before the next one.
  void exchange_in_steps() {
    world_.in_steps([&](int r) {
      const auto i = static_cast<size_t>(r);
      return rank(i).start_p2p(messages_[i], {&streams_[i], 1});
    });
  }
  // One rank after the other.
  void exchange() {
    for (size_t r = 0; r < messages_.size(); ++r) rank(r).enqueue_p2p(messages_[r], {&streams_[r], 1});
  }
  void expect(int round, const std::string& what) {
    world_.synchronize();
    for (int r = 0; r < ranks(); ++r) {
      Bytes got(kBytes);
      check_cuda(cudaMemcpy(got.data(), world_.output(r), got.size(), cudaMemcpyDeviceToHost), "download");
      EXPECT_EQ(got, Bytes(kBytes, static_cast<std::byte>(before(r) + round))) << what;
    }
  }
  void expect_zero_copy(uint64_t calls, const std::string& what) {
    for (int r = 0; r < ranks(); ++r) EXPECT_EQ(world_.rank(r).zero_copy_calls(), calls) << (what + ", zero-copy");
  }

 private:
  static constexpr size_t kBytes = 5000;
  int before(int r) const { return (r + world_.size() - 1) % world_.size(); }
  Communicator& rank(size_t r) { return world_.rank(static_cast<int>(r)); }

  World world_;
  std::vector<std::vector<PeerMessage>> messages_;
  std::vector<void*> streams_;
};

void test_one_process() {
  for (const bool in_steps : {true, false}) {
    RingInProcess ring(2);
    const std::string what = join("messages within one process, by ", engine, in_steps ? ", in steps" : "");
    ring.fill(5);
    in_steps ? ring.exchange_in_steps() : ring.exchange();
    ring.expect(5, what);
    // One of the ranks that share a GPU has the copy-engine lock. What it receives is zero-copy, so both ends count it.
    ring.expect_zero_copy(in_steps ? 1 : 0, what);
  }
}

// Two rings in a graph. Copy engines cannot carry them: SMs do, except with two ranks.
void test_graphs_of_one_process() {
  for (const int ranks : {2, 3}) {
    RingInProcess ring(ranks);
    const std::string what = join("captured messages of ", ranks, " ranks of one process, by ", engine);
    Graphs graphs(ring.world(), [&] {
      ring.exchange_in_steps();
      ring.exchange_in_steps();
    });
    for (int round = 0; round < 5; ++round) {
      ring.fill(round);
      graphs.launch();
      ring.expect(round, what);
    }
    ring.expect_zero_copy(ranks > 2 || engine == std::string("sm") ? 2 : 0, what);
  }
}

void by_each_engine(const std::function<void()>& work) {
  for (const char* const each : {"sm", "copy"}) {
    engine = each;
    work();
  }
}

void by_each_engine(const char* what, const std::vector<int>& counts,
                    const std::function<void(Communicator&, cudaStream_t)>& work, double timeout_seconds = 20) {
  by_each_engine([&] {
    Settings settings = insisting();
    settings.timeout_seconds = timeout_seconds;
    for (const int ranks : counts) on_processes(join(what, ", by ", engine), ranks, settings, work);
  });
}

TEST(ZeroCopyMessages, AllToTheNext) { by_each_engine("all to the next", {2, 3, 4}, shift_around); }
TEST(ZeroCopyMessages, OneWay) { by_each_engine("one way", {2, 3}, hand_on); }
TEST(ZeroCopyMessages, Graphs) { by_each_engine("graphs", {2, 3}, replay); }
TEST(ZeroCopyMessages, MixedUpGraphs) { by_each_engine("mixed up graphs", {2, 3}, mix_up_graphs); }
TEST(ZeroCopyMessages, SomeOfThem) { by_each_engine("some of them", {3}, mix); }
TEST(ZeroCopyMessages, SeveralToOne) { by_each_engine("several to one", {2}, send_several); }
TEST(ZeroCopyMessages, DependOnEachOther) {
  for (const bool receives : {true, false}) {
    by_each_engine("messages that depend on each other", {3},
                   [receives](Communicator& c, cudaStream_t s) { depend_on_each_other(c, s, receives); });
  }
}
TEST(ZeroCopyMessages, ALatecomerAndOneThatCaptures) { by_each_engine("a latecomer, and one captures", {2}, differ); }
TEST(ZeroCopyMessages, MemoryOfAPool) { by_each_engine("memory of a pool", {2}, use_a_pool); }
TEST(ZeroCopyMessages, DifferentSizes) { by_each_engine("different sizes", {2}, disagree); }
TEST(ZeroCopyMessages, ARankThatStaysAway) { by_each_engine("a rank that stays away", {2}, stay_away, 2); }
TEST(ZeroCopyMessages, ARankThatDies) { by_each_engine(expect_survival_of_a_death); }
// The last ones, since they use CUDA in this process.
TEST(ZeroCopyMessages, OneProcess) { by_each_engine(test_one_process); }
TEST(ZeroCopyMessages, GraphsOfOneProcess) { by_each_engine(test_graphs_of_one_process); }

}  // namespace
}  // namespace plait::test

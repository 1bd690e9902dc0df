// Zero-copy messages between processes: both ways at once, captured, beside others that use FIFOs, and ends that do not
// agree. A program without a test framework, since machines with GPUs often have none. Exit status 77: no GPU, nothing
// was tested.
#include <cuda_runtime.h>
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

// From one rank to another and on, one way only. Ranks without a part do nothing.
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
bool survive_a_death(int gpus) {
  constexpr int kRanks = 3, kRounds = 30;
  const UniqueId id = new_id();
  RankProcesses ranks(kRanks, [&](int rank) {
    const int device = rank % gpus;
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
  bool good = true;
  for (const int rank : {0, 2}) {
    const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
    const bool told = outcome.code == ErrorCode::kPeerFailed && outcome.text.find("rank 1") != std::string::npos;
    if (!told) std::printf("FAILED: rank %d: %s\n", rank, describe(outcome).c_str());
    good &= told;
  }
  return good;
}

// Ranks of one process, driven by one thread. Each sends to the next one.
class RingInProcess {
 public:
  RingInProcess(int ranks, int gpus) : world_(ranks, gpus, insisting()) {
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
  void expect(Report& report, int round, const std::string& what) {
    world_.synchronize();
    for (int r = 0; r < ranks(); ++r) {
      Bytes got(kBytes);
      check_cuda(cudaMemcpy(got.data(), world_.output(r), got.size(), cudaMemcpyDeviceToHost), "download");
      report.expect(got == Bytes(kBytes, static_cast<std::byte>(before(r) + round)), what);
    }
  }
  void expect_zero_copy(Report& report, uint64_t calls, const std::string& what) {
    for (int r = 0; r < ranks(); ++r) report.expect(world_.rank(r).zero_copy_calls() == calls, what + ", zero-copy");
  }

 private:
  static constexpr size_t kBytes = 5000;
  int before(int r) const { return (r + world_.size() - 1) % world_.size(); }
  Communicator& rank(size_t r) { return world_.rank(static_cast<int>(r)); }

  World world_;
  std::vector<std::vector<PeerMessage>> messages_;
  std::vector<void*> streams_;
};

void test_one_process(Report& report, int gpus) {
  for (const bool in_steps : {true, false}) {
    RingInProcess ring(2, gpus);
    const std::string what = join("messages within one process, by ", engine, in_steps ? ", in steps" : "");
    ring.fill(5);
    in_steps ? ring.exchange_in_steps() : ring.exchange();
    ring.expect(report, 5, what);
    // Of ranks that share a GPU, one has the copy-engine lock: what it receives is zero-copy, so both ends count it.
    ring.expect_zero_copy(report, in_steps ? 1 : 0, what);
  }
}

// Two rings in a graph. Copy engines cannot carry them: SMs do, except with two ranks.
void test_graphs_of_one_process(Report& report, int gpus) {
  for (const int ranks : {2, 3}) {
    RingInProcess ring(ranks, gpus);
    const std::string what = join("captured messages of ", ranks, " ranks of one process, by ", engine);
    Graphs graphs(ring.world(), [&] {
      ring.exchange_in_steps();
      ring.exchange_in_steps();
    });
    for (int round = 0; round < 5; ++round) {
      ring.fill(round);
      graphs.launch();
      ring.expect(report, round, what);
    }
    ring.expect_zero_copy(report, ranks > 2 || engine == std::string("sm") ? 2 : 0, what);
  }
}

int run_all(int gpus) {
  Report report;
  for (const char* const each : {"sm", "copy"}) {
    engine = each;
    const auto expect = [&](const char* what, int ranks, const std::function<void(Communicator&, cudaStream_t)>& work) {
      report.expect(on_processes(join(what, ", by ", engine), gpus, ranks, insisting(), work), what);
    };
    for (const int ranks : {2, 3, 4}) expect("all to the next", ranks, shift_around);
    for (const int ranks : {2, 3}) {
      expect("one way", ranks, hand_on);
      expect("graphs", ranks, replay);
      expect("mixed up graphs", ranks, mix_up_graphs);
    }
    expect("some of them", 3, mix);
    expect("several to one", 2, send_several);
    for (const bool receives : {true, false}) {
      expect("messages that depend on each other", 3,
             [receives](Communicator& c, cudaStream_t s) { depend_on_each_other(c, s, receives); });
    }
    expect("a latecomer, and one captures", 2, differ);
    expect("memory of a pool", 2, use_a_pool);
    expect("different sizes", 2, disagree);
    Settings settings = insisting();
    settings.timeout_seconds = 2;
    report.expect(on_processes(join("who stays away, by ", engine), gpus, 2, settings, stay_away), "who stays away");
    report.expect(survive_a_death(gpus), join("a rank that dies, by ", engine));
  }
  for (const char* const each : {"sm", "copy"}) {  // the last, as they use CUDA in this process
    engine = each;
    test_one_process(report, gpus);
    test_graphs_of_one_process(report, gpus);
  }
  return report.finish();
}

}  // namespace
}  // namespace plait::test

int main() { return plait::test::run_on_gpus(plait::test::run_all); }

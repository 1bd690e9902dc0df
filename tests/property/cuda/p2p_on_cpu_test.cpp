// Messages through FIFOs, run on a CPU: random exchanges of several ranks in random orders, more messages than a launch
// carries and longer ones than slots hold, a rank that does not come, launches after that, and ends with different
// sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/p2p/p2p_program.hpp"
#include "support/random_messages.hpp"
#include "support/seed.hpp"
// clang-format off: ahead of all kernels
#include "support/simt_world.hpp"
// clang-format on
#include "runtime/cuda/p2p/p2p_kernel.cuh"

namespace plait {
namespace {

using test::Letter;
using test::LetterBuffer;
using test::Simt;
using Kind = PeerMessage::Kind;

class World : public test::SimtWorld {
 public:
  World(int ranks, uint64_t seed, uint64_t wait_nanoseconds)
      : SimtWorld(ranks, seed, wait_nanoseconds),
        states_(static_cast<size_t>(ranks)),
        reports_(static_cast<size_t>(ranks), Reports(2 * kMostDeviceRanks)) {
    shape_.channels = static_cast<uint32_t>(pick(1, 3));
    shape_.slots = kSlots;
    shape_.data_bytes = 512 * static_cast<uint32_t>(pick(1, 2));
    shape_.slot_bytes = kSlotHeader + shape_.data_bytes;
    machine_.watch(states_.data(), sizeof(MessageState) * states_.size(), "the states of messages");
  }

  // Adds so many messages among all ranks, in one exchange on each of the first `present` ranks.
  void add(int letters, int present) {
    Made& made = made_.emplace_back();
    for (int i = 0; i < letters; ++i) {
      made.letters.push_back({pick(0, ranks_ - 1), pick(0, ranks_ - 1), DataType::kUint8, any_bytes(), random_()});
    }
    for (int rank = 0; rank < present; ++rank) add_exchange(made, rank);
  }
  // Adds a message from rank 0 to rank 1, which expects so many bytes.
  void add_letter(size_t bytes, size_t expected) {
    Made& made = made_.emplace_back();
    made.letters.push_back({0, 1, DataType::kUint8, bytes, random_()});
    add_exchange(made, 0);
    made.letters[0].count = expected;
    add_exchange(made, 1);
  }
  // Adds messages of rank 0 from and to rank 1 that are longer than slots. Rank 1 does not come to them, but only to
  // those before, if there are any. On rank 0 a launch with PDL follows, which finds out whether the waits had ended.
  void add_without_peer(bool receives, bool sends, bool has_others_before) {
    Made& made = made_.emplace_back();
    const auto add_letters = [&](size_t bytes) {
      if (receives) made.letters.push_back({1, 0, DataType::kUint8, bytes, random_()});
      if (sends) made.letters.push_back({0, 1, DataType::kUint8, bytes, random_()});
    };
    if (has_others_before) {
      add_letters(any_bytes());
      add_exchange(made, 1);
    }
    add_letters(2 * bytes_of_slots());
    add_exchange(made, 0);
    const size_t waits = (receives ? 1 : 0) + (sends ? 1 : 0);
    const auto look = [this, waits] { began_too_soon_ = began_too_soon_ || failures_of_messages(0).size() < waits; };
    machine_.launch(0, {1}, {1}, look, true);
  }
  bool began_too_soon() const { return began_too_soon_; }

  // Checks the received data and the memory around it.
  void check() const {
    for (const Made& made : made_) {
      for (const LetterBuffer& buffer : made.buffers) EXPECT_NO_THROW(buffer.check());
    }
  }
  int launches() const { return launches_; }
  int own_copies() const { return own_copies_; }
  std::vector<ChannelFailure> failures_of_messages(int rank) const {
    std::vector<ChannelFailure> found;
    const Reports& reports = reports_[static_cast<size_t>(rank)];
    for (size_t row = 0; row < reports.size(); ++row) {
      if (reports[row].state == ChannelFailure::kNone) continue;
      found.push_back(reports[row]);
      EXPECT_EQ(reports[row].peer, static_cast<int>(row) % kMostDeviceRanks);
      EXPECT_NE(reports[row].peer, rank);
    }
    return found;
  }

 private:
  using Reports = std::vector<ChannelFailure>;
  struct Made {
    std::vector<Letter> letters;
    std::deque<LetterBuffer> buffers;
  };

  size_t bytes_of_slots() const { return size_t{shape_.data_bytes} * shape_.slots * shape_.channels; }

  // Often close to the size of slots, and sometimes more than all slots.
  size_t any_bytes() {
    if (pick(0, 3) == 0) return static_cast<size_t>(pick(0, 20));
    if (pick(0, 2) == 0) return static_cast<size_t>(pick(0, static_cast<int>(2 * bytes_of_slots())));
    return size_t{shape_.data_bytes} * static_cast<size_t>(pick(1, 9)) + static_cast<size_t>(pick(0, 2)) - 1;
  }

  void add_exchange(Made& made, int rank) {
    std::vector<PeerMessage> messages;
    const auto add = [&](Kind kind, int peer, const Letter& letter) {
      LetterBuffer& buffer = made.buffers.emplace_back(letter, static_cast<size_t>(pick(0, 20)), kind == Kind::kSend);
      machine_.watch(buffer.data(), letter.count * size_of(letter.type), "a message");
      messages.push_back({kind, peer, letter.type, letter.count, buffer.data()});
    };
    for (const Letter& letter : made.letters) {
      if (letter.from == rank) add(Kind::kSend, letter.to, letter);
      if (letter.to == rank) add(Kind::kReceive, letter.from, letter);
    }
    const auto stream = static_cast<size_t>(rank);
    std::vector<OwnMessage> own = own_messages(messages, rank);
    own_copies_ += static_cast<int>(own.size());
    if (!go_with_others(own, messages.size())) {
      for (const auto& [send, receive] : own) {
        machine_.launch(stream, {1}, {1}, [to = receive->buffer, from = send->buffer, bytes = send->bytes()] {
          Simt::copy(to, from, bytes);
        });
      }
      own.clear();
    }
    for (const P2pPart& part : divide(messages, rank, ranks_, shape_)) {
      P2pLaunch launch = {};
      launch.self = end_of(rank);
      launch.state = &states_[stream];
      launch.failures = reports_[stream].data();
      launch.shape = shape_;
      const P2pGrid grid = prepare_p2p(part, std::exchange(own, {}), launch);
      ++launches_;
      machine_.launch(stream, {grid.ctas, grid.rows}, {grid.threads}, [launch] { run_p2p(launch); }, pick(0, 3) > 0);
    }
  }

  FifoShape shape_;
  std::vector<MessageState> states_;
  std::vector<Reports> reports_;
  std::deque<Made> made_;
  int launches_ = 0, own_copies_ = 0;
  bool began_too_soon_ = false;
};

TEST(P2pOnCpu, RandomMessagesInRandomOrders) {
  int launches = 0, exchanges = 0, own_copies = 0;
  for (uint64_t seed = 1; seed <= test::shortened(60); ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 3);
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(ranks, seed, UINT64_MAX);
    if (seed % 4 == 0) world.find_races();
    for (int exchange = 0; exchange < 4; ++exchange) world.add(world.pick(1, 12), ranks);
    ASSERT_NO_THROW(world.run());
    world.check();
    for (int rank = 0; rank < ranks; ++rank) EXPECT_TRUE(world.failures_of_messages(rank).empty());
    launches += world.launches();
    exchanges += 4 * ranks;
    own_copies += world.own_copies();
  }
  EXPECT_GT(own_copies, test::shortened(100));
  EXPECT_GT(launches, exchanges / 2);
}

TEST(P2pOnCpu, MoreMessagesThanALaunchCarries) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(2, seed, UINT64_MAX);
    world.add(4 * kMostMessages, 2);
    ASSERT_NO_THROW(world.run());
    world.check();
    EXPECT_GT(world.launches(), 2);
  }
}

// Waits are bounded, and report the missing rank: all launches end.
TEST(P2pOnCpu, AMissingRankEndsAllWaits) {
  int gave_up = 0, for_the_absent = 0;
  for (uint64_t seed = 1; seed <= test::shortened(12); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(3, seed, 5'000'000'000'000);  // 5000 turns
    world.add(6, 3);
    world.add(12, 2);
    ASSERT_NO_THROW(world.run());
    for (int rank = 0; rank < 2; ++rank) {
      for (const ChannelFailure& report : world.failures_of_messages(rank)) {
        EXPECT_EQ(report.state, ChannelFailure::kTimedOut);
        ++gave_up;
        if (report.peer == 2) ++for_the_absent;
      }
    }
    EXPECT_TRUE(world.failures_of_messages(2).empty());
  }
  EXPECT_GT(for_the_absent, test::shortened(10));
  EXPECT_GE(gave_up, for_the_absent);
}

TEST(P2pOnCpu, AnAbortEndsAllWaits) {
  World world(3, 1, UINT64_MAX);
  world.add(12, 2);
  world.abort_after(2000);
  ASSERT_NO_THROW(world.run());
  EXPECT_GT(world.failures_of_messages(0).size() + world.failures_of_messages(1).size(), 0u);
}

// With PDL, a launch that has started occupies SMs. So it must not start while messages wait for a rank that has not
// started.
TEST(P2pOnCpu, PdlKeepsOutNoRankThatIsStillAwaited) {
  for (const auto& [receives, sends] : {std::pair(true, false), {false, true}, {true, true}}) {
    for (const bool has_others_before : {false, true}) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(std::string(receives ? "receives, " : "") + (sends ? "sends, " : "") +
                     (has_others_before ? "behind others, " : "") + "seed " + std::to_string(seed));
        World world(2, seed, 1'000'000'000'000);  // 1000 turns
        world.add_without_peer(receives, sends, has_others_before);
        ASSERT_NO_THROW(world.run());
        EXPECT_EQ(world.failures_of_messages(0).size(), receives && sends ? 2u : 1u);
        EXPECT_FALSE(world.began_too_soon());
      }
    }
  }
}

TEST(P2pOnCpu, DifferentSizesAreReported) {
  for (const auto& [sent, expected] : {std::pair<size_t, size_t>{100, 101}, {5000, 0}, {0, 1}, {20'000, 19'999}}) {
    SCOPED_TRACE(std::to_string(sent) + " bytes, expected " + std::to_string(expected));
    World world(2, sent + 1, 5'000'000'000'000);
    world.add_letter(sent, expected);
    ASSERT_NO_THROW(world.run());
    const std::vector<ChannelFailure> reports = world.failures_of_messages(1);
    ASSERT_EQ(reports.size(), 1u);
    EXPECT_EQ(reports[0].state, ChannelFailure::kOtherSize);
    EXPECT_EQ(reports[0].peer, 0);
    EXPECT_EQ(reports[0].expected_epoch, expected);
    EXPECT_EQ(reports[0].seen_epoch, sent);
  }
}

}  // namespace
}  // namespace plait

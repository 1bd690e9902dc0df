// The shared memory: everything has a place of its own, and every rank sees the same content.
#include "runtime/host/segment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "runtime/agreement.hpp"
#include "support/system.hpp"

namespace plait {
namespace {

struct Range {
  const std::byte* begin;
  size_t bytes;
  size_t alignment;
};

std::vector<Range> ranges_of(const Segment& segment) {
  const SegmentShape& shape = segment.shape();
  std::vector<Range> ranges = {{reinterpret_cast<std::byte*>(&segment.failure()), sizeof(FailureRecord), 64}};
  if (shape.ranks <= kMostAgreeingRanks) {
    ranges.push_back({segment.agreement_memory(), Agreement::bytes_for(shape.ranks), 64});
    for (int from = 0; from < shape.ranks; ++from) {
      for (int to = 0; to < shape.ranks; ++to) {
        ranges.push_back({segment.message_agreement_memory(from, to), Agreement::bytes_for(2), 64});
      }
    }
  }
  for (int rank = 0; rank < shape.ranks; ++rank) {
    ranges.push_back({reinterpret_cast<std::byte*>(&segment.status(rank)), sizeof(RankStatus), 64});
    ranges.push_back({reinterpret_cast<std::byte*>(&segment.exports(rank)), sizeof(Exports), 64});
    for (uint32_t room = 0; room < kRooms; ++room) {
      const bool is_small = room >= kLargeRooms;
      const int signals = is_small ? small_signals(shape.signals) : shape.signals;
      ranges.push_back({segment.signals(rank, room), static_cast<size_t>(signals) * Segment::kSignalStride, 64});
      ranges.push_back({segment.scratch(rank, room),
                        is_small ? small_scratch_bytes(shape.scratch_bytes) : shape.scratch_bytes,
                        is_small ? 64u : 4096u});
    }
    for (int from = 0; from < shape.ranks; ++from) {
      if (from == rank) continue;
      const Fifo fifo = segment.fifo(from, rank);
      ranges.push_back({reinterpret_cast<std::byte*>(&fifo.head()), sizeof(uint64_t), 64});
      for (uint64_t slot = 0; slot < kFifoSlots; ++slot) {
        ranges.push_back({reinterpret_cast<std::byte*>(&fifo.header(slot)), sizeof(SlotHeader), 64});
        ranges.push_back({fifo.data(slot), fifo.data_bytes, 16});
      }
    }
  }
  return ranges;
}

TEST(Segment, EverythingHasAPlaceOfItsOwn) {
  for (const int ranks : {1, 2, 7, 16, 17, 64}) {
    for (const size_t scratch : {size_t{0}, size_t{1}, size_t{4096}, size_t{10'001}}) {
      for (const int signals : {0, 1, 64, 513}) {
        const Segment segment({ranks, scratch, signals});
        std::vector<Range> ranges = ranges_of(segment);
        std::erase_if(ranges, [](const Range& range) { return range.bytes == 0; });
        std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
        const auto* base = reinterpret_cast<std::byte*>(&segment.failure());
        for (size_t i = 0; i < ranges.size(); ++i) {
          EXPECT_EQ(reinterpret_cast<uintptr_t>(ranges[i].begin) % ranges[i].alignment, 0u);
          EXPECT_GE(ranges[i].begin, base);
          const std::byte* end = ranges[i].begin + ranges[i].bytes;
          EXPECT_LE(end, base + segment.shape().total_bytes());
          EXPECT_LE(end, i + 1 < ranges.size() ? ranges[i + 1].begin : end);
        }
      }
    }
  }
}

TEST(Segment, AgreementsAreForFewRanks) {
  for (const int ranks : {1, 2, kMostAgreeingRanks}) EXPECT_NE(Segment({ranks, 0, 0}).agreement_memory(), nullptr);
  EXPECT_EQ(Segment({kMostAgreeingRanks + 1, 0, 0}).agreement_memory(), nullptr);
  EXPECT_EQ(Segment({kMostAgreeingRanks + 1, 0, 0}).message_agreement_memory(0, 1), nullptr);
}

TEST(Segment, EveryMappingSeesTheSame) {
  const test::TemporaryDirectory directory;
  for (const std::string& where : {std::string(), directory.path()}) {
    const SegmentShape shape{3, 5000, 20};
    const UniqueFd file = Segment::create(shape, where);
    EXPECT_NE(::fcntl(file.get(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_TRUE(test::files_in(directory.path()).empty());
    const Segment left(shape, file), right(shape, file);
    const auto a = ranges_of(left), b = ranges_of(right);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_NE(a[i].begin, b[i].begin);
      for (size_t at = 0; at < a[i].bytes; ++at) {  // the initial values of statuses are zero in memory, too
        ASSERT_EQ(a[i].begin[at], std::byte{0});
      }
      std::memset(const_cast<std::byte*>(a[i].begin), static_cast<int>(i + 1), a[i].bytes);
    }
    for (size_t i = 0; i < b.size(); ++i) {
      for (size_t at = 0; at < b[i].bytes; ++at) ASSERT_EQ(b[i].begin[at], static_cast<std::byte>(i + 1));
    }
  }
}

TEST(Segment, AllMappingsOfOneHaveOneIdentity) {
  const SegmentShape shape{2, 4096, 8};
  const UniqueFd file = Segment::create(shape, ""), other = Segment::create(shape, "");
  const Segment one(shape, file), again(shape, file), another(shape, other), alone(shape), also_alone(shape);
  EXPECT_EQ(one.identity(), again.identity());
  EXPECT_NE(one.identity(), another.identity());
  EXPECT_NE(one.identity(), alone.identity());
  EXPECT_NE(alone.identity(), also_alone.identity());
}

TEST(Segment, RoomInADirectoryIsTakenAtOnce) {
  const test::TemporaryDirectory directory;
  const SegmentShape shape{2, 100'000, 20};
  const UniqueFd file = Segment::create(shape, directory.path());
  struct stat status{};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  EXPECT_EQ(status.st_size, static_cast<off_t>(shape.total_bytes()));
  EXPECT_GE(static_cast<size_t>(status.st_blocks) * 512, shape.total_bytes());
  EXPECT_EQ(status.st_nlink, 0u);
  EXPECT_EQ(status.st_mode & 077, 0u);  // nobody else may access it
}

TEST(Segment, BadDirectories) {
  const test::TemporaryDirectory directory;
  test::write_text(directory.path() + "/file", "x");
  const std::vector<std::pair<std::string, std::string>> cases = {{"/no/such/directory", "make that directory"},
                                                                  {directory.path() + "/file", "name a directory"},
                                                                  {"/proc", "where files can be made"}};
  for (const auto& [where, hint] : cases) {
    const auto outcome = test::outcome_of([&](int) { Segment::create({2, 4096, 8}, where); }, 0);
    EXPECT_EQ(test::objection(outcome, ErrorCode::kResources, {"in PLAIT_SHM_DIR=" + where, hint, "or unset"}), "");
    EXPECT_EQ(outcome.text.find("more room"), std::string::npos) << outcome.text;
  }
}

TEST(Segment, DirectoriesOfOthers) {
  const test::TemporaryDirectory directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0500), 0);
  const auto create = [&](int) {
    if (::geteuid() == 0) test::require(::seteuid(12345) == 0, "seteuid");
    Segment::create({2, 4096, 8}, directory.path());
  };
  const auto outcome = test::outcome_of(create, 0);
  if (::getuid() == 0) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_EQ(test::objection(outcome, ErrorCode::kResources, {"in PLAIT_SHM_DIR=", "Permission denied", "let user "}),
            "");
}

TEST(Segment, TooFewDescriptors) {
  const test::TemporaryDirectory directory;
  for (const std::string& where : {std::string(), directory.path()}) {
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    test::set_limit(RLIMIT_NOFILE, test::next_descriptor());
    const auto outcome = test::outcome_of([&](int) { Segment::create({2, 4096, 8}, where); }, 0);
    test::set_limit(RLIMIT_NOFILE, before.rlim_cur);
    EXPECT_EQ(test::objection(outcome, ErrorCode::kResources, {"Too many open files", "(ulimit -n, now "}), "");
    EXPECT_EQ(outcome.text.find("memory limit"), std::string::npos) << outcome.text;
  }
}

}  // namespace
}  // namespace plait

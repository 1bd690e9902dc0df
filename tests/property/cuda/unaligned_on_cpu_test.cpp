// Vectors, LL128 lines and copies at any address, run on a CPU: at every distance from an aligned address, without
// touching anything outside.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "support/forbidden_memory.hpp"
// clang-format off: ahead of all kernels
#include "support/simt.hpp"
// clang-format on
#include "runtime/cuda/device/copy_bytes.cuh"
#include "runtime/cuda/device/elements.cuh"
#include "runtime/cuda/device/unaligned.cuh"
#include "runtime/cuda/kernels/user_share.cuh"

namespace plait {
namespace {

using test::Simt;

constexpr size_t kVectorBytes = sizeof(uint4);

// Bytes at a distance from an aligned address, without memory around them, so that a sanitizer sees accesses outside.
class Source {
 public:
  Source(size_t distance, size_t bytes) : distance_(distance), all_(std::make_unique<std::byte[]>(distance + bytes)) {
    for (size_t i = 0; i < bytes; ++i) all_[distance + i] = static_cast<std::byte>((i * 7 + i / 251 + distance) % 250);
    test::forbid_memory(all_.get(), distance);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  ~Source() { test::allow_memory(all_.get(), distance_); }
  const std::byte* get() const { return all_.get() + distance_; }

 private:
  const size_t distance_;
  const std::unique_ptr<std::byte[]> all_;  // aligned; not null even if it is empty
};

// The same with memory around them.
class Memory {
 public:
  Memory(size_t distance, size_t bytes, std::byte value)
      : distance_(distance), bytes_(bytes), value_(value), all_((2 * kAround + distance + bytes) / kVectorBytes + 1) {
    std::memset(all_.data(), static_cast<int>(value), all_.size() * kVectorBytes);
  }
  std::byte* get() { return reinterpret_cast<std::byte*>(all_.data()) + kAround + distance_; }
  bool is_untouched_around() {
    const auto* const first = reinterpret_cast<const std::byte*>(all_.data());
    const auto is_old = [this](std::byte it) { return it == value_; };
    return std::all_of(first, static_cast<const std::byte*>(get()), is_old) &&
           std::all_of(static_cast<const std::byte*>(get()) + bytes_, first + all_.size() * kVectorBytes, is_old);
  }

 private:
  static constexpr size_t kAround = 4 * kVectorBytes;

  const size_t distance_, bytes_;
  const std::byte value_;
  std::vector<uint4> all_;
};

TEST(UnalignedOnCpu, CopiesOfAnyBytes) {
  constexpr unsigned kThreads = 32;
  for (size_t from_distance = 0; from_distance < kVectorBytes; ++from_distance) {
    for (size_t to_distance = 0; to_distance < kVectorBytes; ++to_distance) {
      for (const size_t bytes : {0, 1, 15, 16, 17, 33, 47, 48, 49, 63, 64, 80, 1000, 4099, 9000}) {
        SCOPED_TRACE(std::to_string(bytes) + " bytes from " + std::to_string(from_distance) + " to " +
                     std::to_string(to_distance));
        const Source from(from_distance, bytes);
        const auto check = [&](const auto& copy) {
          Memory to(to_distance, bytes, std::byte{0xff});
          for (unsigned thread = 0; thread < kThreads; ++thread) copy(to.get(), thread);
          ASSERT_EQ(std::memcmp(to.get(), from.get(), bytes), 0);
          ASSERT_TRUE(to.is_untouched_around());
        };
        // As the kernels for messages do, and those for calls.
        const auto count = static_cast<uint32_t>(bytes);
        check(
            [&](auto* to, auto thread) { copy_bytes<4, PeerSide::kSource>(to, from.get(), count, thread, kThreads); });
        check([&](auto* to, auto thread) {
          copy_bytes<4, PeerSide::kDestination>(to, from.get(), count, thread, kThreads);
        });
        check([&](auto* to, uint64_t thread) {
          copy_bytes<8, PeerSide::kSource>(to, from.get(), uint64_t{bytes}, thread, uint64_t{kThreads});
        });
      }
    }
  }
}

// Address space that takes up memory only where it is touched.
class VastMemory {
 public:
  explicit VastMemory(size_t bytes)
      : bytes_(bytes),
        first_(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~VastMemory() {
    if (exists()) munmap(first_, bytes_);
  }
  VastMemory(const VastMemory&) = delete;
  VastMemory& operator=(const VastMemory&) = delete;
  bool exists() const { return first_ != MAP_FAILED; }
  std::byte* get() const { return static_cast<std::byte*>(first_); }

 private:
  const size_t bytes_;
  void* const first_;
};

// There are so many threads that each has one vector. Only those with the first and the last vectors run.
TEST(UnalignedOnCpu, CopiesOfMoreBytesThan32BitsCount) {
  constexpr uint64_t kBytes = (uint64_t{1} << 32) + 333, kThreads = uint64_t{1} << 30;
  constexpr uint64_t kPart = 1024,
                     kLast = kBytes - kPart;  // checked: kPart bytes from the beginning, and the rest from kLast on
  for (const size_t from_distance : {0, 1, 8}) {
    for (const size_t to_distance : {0, 7}) {
      SCOPED_TRACE("from " + std::to_string(from_distance) + " to " + std::to_string(to_distance));
      const VastMemory source(kBytes + kPart), destination(kBytes + kPart);
      if (!source.exists() || !destination.exists()) GTEST_SKIP() << "no room for two times 4 GiB of addresses";
      std::byte *const from = source.get() + from_distance, *const to = destination.get() + to_distance;
      for (const uint64_t part : {uint64_t{0}, kLast}) {
        for (uint64_t i = 0; i < kPart; ++i) from[part + i] = static_cast<std::byte>(1 + (part + i) % 251);
      }
      const auto run = [&](uint64_t first, uint64_t last) {
        for (uint64_t thread = first; thread < last; ++thread) {
          copy_bytes<8, PeerSide::kSource>(to, from, kBytes, thread, kThreads);
        }
      };
      run(0, 2 * kPart / kVectorBytes);
      run(kLast / kVectorBytes - kPart / kVectorBytes, kBytes / kVectorBytes + kPart / kVectorBytes);
      for (const uint64_t part : {uint64_t{0}, kLast}) EXPECT_EQ(std::memcmp(to + part, from + part, kPart), 0) << part;
      EXPECT_EQ(to[kBytes], std::byte{0});
    }
  }
}

// Two warps move vectors 1 to `vectors` - 1 of one place to another. The first and the last vector have no memory
// around them, so they are not moved.
template <DataType type>
void move_vectors(size_t from_distance, size_t to_distance, uint32_t vectors) {
  constexpr unsigned kThreads = 64;
  constexpr int kAtOnce = 2;
  const size_t bytes = vectors * kVectorBytes;
  const Source from(from_distance, bytes);
  Memory to(to_distance, bytes, std::byte{0xff});
  Simt machine(vectors * 256 + from_distance * 16 + to_distance);
  const std::byte* const in = from.get();
  std::byte* const out = to.get();
  machine.launch(0, {1}, {kThreads}, [=] {
    const uint32_t lane = threadIdx.x % kWarpThreads, last = vectors - 1;
    for (uint32_t warp = 1 + threadIdx.x - lane; warp < last; warp += kThreads * kAtOnce) {
      Pack<type, uint4> values[kAtOnce];
      load_vectors<false>(in, warp + lane, kThreads, last, values);
      complete_vectors<false>(in, warp + lane, kThreads, last, values);
      store_vectors<false>(out, warp + lane, kThreads, last, values);
    }
  });
  ASSERT_NO_THROW(machine.run());
  ASSERT_EQ(std::memcmp(out + kVectorBytes, in + kVectorBytes, bytes - 2 * kVectorBytes), 0);
  const auto is_old = [](std::byte it) { return it == std::byte{0xff}; };
  ASSERT_TRUE(std::all_of(out, out + kVectorBytes, is_old));
  ASSERT_TRUE(std::all_of(out + bytes - kVectorBytes, out + bytes, is_old));
  ASSERT_TRUE(to.is_untouched_around());
}

TEST(UnalignedOnCpu, VectorsAtAnyDistance) {
  for (size_t from = 0; from < kVectorBytes; ++from) {
    for (size_t to = 0; to < kVectorBytes; ++to) {
      for (const uint32_t vectors : {3u, 34u, 67u, 200u}) {
        SCOPED_TRACE(std::to_string(vectors) + " vectors from " + std::to_string(from) + " to " + std::to_string(to));
        move_vectors<DataType::kUint8>(from, to, vectors);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Two warps move shares of LL128 lines from one place to another, in rounds of two lines each.
template <DataType type>
void move_shares(size_t from_distance, size_t to_distance, uint32_t bytes) {
  using Share = UnalignedShare<Pack<type, uint64_t>>;
  constexpr unsigned kThreads = 64, kOfWarp = kWarpThreads / ll128::kThreads, kRound = 2 * kOfWarp;
  const Source from(from_distance, bytes);
  Memory to(to_distance, bytes, std::byte{0xff});
  Simt machine(bytes * 64 + from_distance * 8 + to_distance);
  auto* const in = const_cast<std::byte*>(from.get());
  std::byte* const out = to.get();
  const TwoShotSteps::Extent extent = {(bytes + 7) / 8, (bytes + 7) / 8 * 8 - bytes};
  machine.launch(0, {1}, {kThreads}, [=] {
    const uint32_t in_warp = threadIdx.x % kWarpThreads / ll128::kThreads;
    for (uint32_t line = threadIdx.x / kWarpThreads * kRound; line * kLl128Data < bytes;
         line += kThreads / kWarpThreads * kRound) {
      ll128::WordPair pairs[2];
      const auto first = [&](uint32_t l) {
        return (line + l * kOfWarp + in_warp) * ll128::kWords + 2 * ll128::place();
      };
      for (uint32_t l = 0; l < 2; ++l) pairs[l] = Share(in, first(l), extent).load();
      for (uint32_t l = 0; l < 2; ++l) Share(in, first(l), extent).load_ends(pairs[l]);
      for (uint32_t l = 0; l < 2; ++l) Share(in, first(l), extent).complete(pairs[l]);
      for (uint32_t l = 0; l < 2; ++l) Share(out, first(l), extent).store(pairs[l]);
    }
  });
  ASSERT_NO_THROW(machine.run());
  ASSERT_EQ(std::memcmp(out, in, bytes), 0);
  ASSERT_TRUE(to.is_untouched_around());
}

TEST(UnalignedOnCpu, SharesAtAnyDistance) {
  for (size_t from = 0; from < sizeof(uint64_t); ++from) {
    for (size_t to = 0; to < sizeof(uint64_t); ++to) {
      for (const uint32_t bytes :
           {1u, 3u, 7u, 8u, 9u, 16u, 17u, 113u, 119u, 120u, 121u, 127u, 480u, 481u, 960u, 961u, 1000u, 1910u, 2003u}) {
        SCOPED_TRACE(std::to_string(bytes) + " bytes from " + std::to_string(from) + " to " + std::to_string(to));
        move_shares<DataType::kUint8>(from, to, bytes);
        if (from % 4 == 0 && to % 4 == 0 && bytes % 4 == 0) move_shares<DataType::kFloat32>(from, to, bytes);
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace plait

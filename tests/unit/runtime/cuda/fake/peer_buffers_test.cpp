// When memory is mapped and unmapped, with two ranks as if each were a process of its own.
#include "runtime/cuda/memory/peer_buffers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "runtime/cuda/driver/call_order.hpp"
#include "support/fake_cuda.hpp"

namespace plait {
namespace {

using std::chrono::milliseconds;
using test::FakeCuda;

constexpr size_t kBytes = size_t{2} << 20;

class PeerBuffersTest : public testing::Test {
 protected:
  void SetUp() override {
    cuda.reset();
    const auto exports_of = [this](int rank) -> Exports& { return exports[static_cast<size_t>(rank)]; };
    owner = std::make_unique<PeerBuffers>(0, 0, exports_of);
    peer = std::make_unique<PeerBuffers>(0, 1, exports_of);
  }
  void TearDown() override {
    cuda.end_calls();
    EXPECT_EQ(cuda.closed_amid_calls(), 0u);
  }

  // The peer maps the buffer for a call, which counts as enqueued when the result is destroyed.
  PeerBuffers::Use map(const BufferPlace& place, bool is_captured = false) {
    PeerBuffers::Use use{is_captured, {}};
    peer->map(0, place, use);
    return use;
  }
  void await_mapped(size_t expected) const {
    for (int tries = 0; tries < 1000 && peer->mapped() != expected; ++tries) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    EXPECT_EQ(peer->mapped(), expected);
  }
  void expect_mapped_for_a_while(size_t expected) const {
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(peer->mapped(), expected);
  }

  FakeCuda& cuda = FakeCuda::get();
  std::array<Exports, 2> exports{};
  std::unique_ptr<PeerBuffers> owner, peer;
  CallOrder order{0};
};

TEST_F(PeerBuffersTest, MappedOnceAndKept) {
  const std::byte* const buffer = cuda.allocate(kBytes);
  const BufferPlace place = owner->place_of(buffer + 100, 1000);
  ASSERT_TRUE(place.can_be_mapped);
  EXPECT_EQ(place.offset, 100u);
  PeerBuffers::Use use;
  const std::byte* const first = peer->map(0, place, use);
  EXPECT_EQ(peer->map(0, owner->place_of(buffer + 200, 1000), use), first + 100);
  EXPECT_EQ(cuda.opened(), 1u);
  use = {};
  expect_mapped_for_a_while(1);
}

TEST_F(PeerBuffersTest, FreedMemoryIsUnmapped) {
  const std::byte* const buffer = cuda.allocate(kBytes);
  map(owner->place_of(buffer, kBytes));
  cuda.free(buffer);
  await_mapped(0);
  EXPECT_EQ(cuda.opened(), 0u);
}

TEST_F(PeerBuffersTest, FreedMemoryStaysMappedWhileACallIsUnderWay) {
  const std::byte* const buffer = cuda.allocate(kBytes);
  map(owner->place_of(buffer, kBytes));
  order.next(nullptr, [] {});
  cuda.free(buffer);
  expect_mapped_for_a_while(1);
  cuda.end_calls();
  await_mapped(0);
}

// A program may always have calls under way, if each begins before the previous one ends. Then launches are delayed.
TEST_F(PeerBuffersTest, FreedMemoryIsUnmappedAlthoughCallsAreAlwaysUnderWay) {
  cuda.set_length_of_calls(milliseconds(8));
  const std::byte* const buffer = cuda.allocate(kBytes);
  map(owner->place_of(buffer, kBytes));
  std::atomic<bool> over{false};
  std::thread calls([&] {
    while (!over) {
      order.next(nullptr, [] {});
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  cuda.free(buffer);
  await_mapped(0);
  over = true;
  calls.join();
}

TEST_F(PeerBuffersTest, MemoryThatACallIsAboutToUseStaysMapped) {
  const std::byte* const buffer = cuda.allocate(kBytes);
  {
    const PeerBuffers::Use use = map(owner->place_of(buffer, kBytes));
    cuda.set_free_memory(0.01);
    expect_mapped_for_a_while(1);
  }
  await_mapped(0);
}

TEST_F(PeerBuffersTest, ScarceMemoryStaysMappedForGraphsOnly) {
  const std::byte *const buffer = cuda.allocate(kBytes), *const of_graph = cuda.allocate(kBytes);
  map(owner->place_of(buffer, kBytes));
  map(owner->place_of(of_graph, kBytes), true);
  cuda.set_free_memory(0.04);
  expect_mapped_for_a_while(2);
  cuda.set_free_memory(0.03);
  await_mapped(1);
  const BufferPlace refused = owner->place_of(buffer, kBytes);
  EXPECT_FALSE(refused.can_be_mapped);
  EXPECT_TRUE(refused.memory_is_scarce);
  cuda.set_free_memory(0.06);  // not yet
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_FALSE(owner->place_of(buffer, kBytes).can_be_mapped);
  cuda.set_free_memory(0.07);
  for (int tries = 0; tries < 1000 && !owner->place_of(buffer, kBytes).can_be_mapped; ++tries) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  map(owner->place_of(buffer, kBytes));
  expect_mapped_for_a_while(2);
  cuda.free(of_graph);
  await_mapped(1);
}

TEST_F(PeerBuffersTest, RecoversFromScarceMemory) {
  const std::byte* const buffer = cuda.allocate(kBytes);
  cuda.set_free_memory(0.01);
  EXPECT_TRUE(owner->place_of(buffer, kBytes).memory_is_scarce);
  cuda.set_free_memory(0.5);
  for (int tries = 0; tries < 1000 && !owner->place_of(buffer, kBytes).can_be_mapped; ++tries) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(owner->place_of(buffer, kBytes).can_be_mapped);
}

TEST_F(PeerBuffersTest, ExportsNoMoreThanTheTableHolds) {
  std::vector<const std::byte*> buffers;
  for (int i = 0; i <= kMostExports; ++i) buffers.push_back(cuda.allocate(kBytes));
  for (int i = 0; i < kMostExports; ++i) EXPECT_TRUE(owner->place_of(buffers[i], kBytes).can_be_mapped);
  EXPECT_FALSE(owner->place_of(buffers.back(), kBytes).can_be_mapped);
  cuda.free(buffers.front());
  EXPECT_TRUE(owner->place_of(buffers.back(), kBytes).can_be_mapped);
}

TEST_F(PeerBuffersTest, RefusesMemoryAtAPlaceThatIsStillMapped) {
  const std::byte* const buffer = cuda.allocate(kBytes);
  const PeerBuffers::Use use = map(owner->place_of(buffer, kBytes));
  cuda.free(buffer);
  const std::byte* const next = cuda.allocate(kBytes);
  const BufferPlace place = owner->place_of(next, kBytes);  // withdraws the first one
  ASSERT_TRUE(place.can_be_mapped);
  EXPECT_THROW(map(place), Error);
}

TEST_F(PeerBuffersTest, AnOwnerThatEndsWithdrawsAll) {
  const std::byte* const buffer = cuda.allocate(kBytes);
  map(owner->place_of(buffer, kBytes));
  owner->withdraw_all();
  owner.reset();
  await_mapped(0);
}

}  // namespace
}  // namespace plait

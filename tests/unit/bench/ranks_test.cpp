// Where buffers lie in place, and errors that all ranks share.
#include "bench/ranks.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace plait {
namespace {

TEST(Ranks, PlacesBuffersAsInPlaceCallsWantThem) {
  std::array<std::byte, 64> first{}, second{};
  const BufferPair buffers{first.data(), second.data()};
  Call call{Collective::kAllGather, DataType::kFloat32, ReduceOp::kSum, 0, 3};
  BufferPlacement placed = place(call, 2, buffers, true);
  EXPECT_EQ(placed.input, first.data() + 24);
  EXPECT_EQ(placed.output, first.data());
  call.collective = Collective::kReduceScatter;
  placed = place(call, 2, buffers, true);
  EXPECT_EQ(placed.input, first.data());
  EXPECT_EQ(placed.output, first.data() + 24);
  call.collective = Collective::kAllReduce;
  placed = place(call, 2, buffers, true);
  EXPECT_EQ(placed.input, placed.output);
  placed = place(call, 2, buffers, false);
  EXPECT_EQ(placed.input, first.data());
  EXPECT_EQ(placed.output, second.data());
}

TEST(Ranks, AnErrorOfOneIsAnErrorOfAll) {
  std::vector<Communicator> ranks = Communicator::in_process(3, Settings{});
  std::vector<std::string> caught(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      on_all_ranks(ranks[rank], [] {});  // nothing happens
      try {
        on_all_ranks(ranks[rank], [&] {
          if (rank > 0) fail(ErrorCode::kResources, "no memory on ", rank, std::string(2000, '.'));
        });
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kResources) caught[rank] = std::string(error.what()).substr(0, 15);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(caught, std::vector<std::string>(3, "no memory on 1."));
}

}  // namespace
}  // namespace plait

// The side table against std::map, while another thread looks handles up.
#include "api/nccl/side_table.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "support/seed.hpp"

namespace plait::nccl {
namespace {

ncclComm_t handle_of(uint64_t number) { return reinterpret_cast<ncclComm_t>((number + 1) * 16); }

TEST(SideTable, FindsWhatIsThere) {
  test::Random random(test::run_seed());
  const auto table = std::make_unique<SideTable>();
  std::vector<std::unique_ptr<Companion>> all;  // never freed before the end, as in the drop-in
  std::map<ncclComm_t, Companion*> oracle;
  // Many more than there are places, few of them at once.
  for (int round = 0; round < 50000; ++round) {
    const ncclComm_t handle = handle_of(test::between(random, 0, uint64_t{1} << 40));
    all.push_back(std::make_unique<Companion>(handle, RendezvousKey{}, 0, 2));
    ASSERT_TRUE(table->add(all.back().get())) << round;
    oracle[handle] = all.back().get();
    if (oracle.size() < 20) continue;
    const auto gone = std::next(oracle.begin(), static_cast<long>(test::between(random, 0, oracle.size() - 1)));
    table->remove(gone->second);
    EXPECT_EQ(table->find(gone->first), nullptr);
    oracle.erase(gone);
    if (round % 1000 != 0) continue;
    for (const auto& [known, companion] : oracle) ASSERT_EQ(table->find(known), companion);
  }
  EXPECT_EQ(table->find(nullptr), nullptr);
}

TEST(SideTable, HandleComesAgain) {
  const auto table = std::make_unique<SideTable>();
  Companion old(handle_of(7), RendezvousKey{}, 0, 2), young(handle_of(7), RendezvousKey{}, 1, 2);
  ASSERT_TRUE(table->add(&old));
  ASSERT_TRUE(table->add(&young));
  EXPECT_EQ(table->find(handle_of(7)), &young);
  table->remove(&old);
  EXPECT_EQ(table->find(handle_of(7)), &young);
  table->remove(&young);
  EXPECT_EQ(table->find(handle_of(7)), nullptr);
}

TEST(SideTable, IsFullOnce) {
  const auto table = std::make_unique<SideTable>();
  std::vector<std::unique_ptr<Companion>> all;
  for (uint64_t number = 0;; ++number) {
    all.push_back(std::make_unique<Companion>(handle_of(number), RendezvousKey{}, 0, 2));
    if (!table->add(all.back().get())) break;
  }
  EXPECT_GE(all.size(), 4000u);
  EXPECT_EQ(table->find(all.back()->handle()), nullptr);
  all.pop_back();
  for (const auto& companion : all) EXPECT_EQ(table->find(companion->handle()), companion.get());
  table->remove(all.front().get());
  EXPECT_TRUE(table->add(all.front().get()));
}

TEST(SideTable, FindsWhileOthersChange) {
  const auto table = std::make_unique<SideTable>();
  Companion stays(handle_of(1000), RendezvousKey{}, 0, 2);
  ASSERT_TRUE(table->add(&stays));
  std::atomic<bool> is_over{false};
  std::atomic<int> missed{0};
  std::thread reader([&] {
    while (!is_over) missed += table->find(stays.handle()) != &stays;
  });
  std::vector<std::unique_ptr<Companion>> others;
  // Neighbours of its place come and go.
  for (uint64_t round = 0; round < 20000; ++round) {
    others.push_back(
        std::make_unique<Companion>(handle_of(990 + round % 20 + (round % 20 >= 10)), RendezvousKey{}, 0, 2));
    table->add(others.back().get());
    if (others.size() >= 10) table->remove(others[others.size() - 10].get());
  }
  is_over = true;
  reader.join();
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace plait::nccl

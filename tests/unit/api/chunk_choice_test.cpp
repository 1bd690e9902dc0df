// The chunks of staged calls: the model's pipeline is that of a simulation, and the choice is the best that it knows.
#include "api/chunk_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/seed.hpp"

namespace plait {
namespace {

// The fluid bound: no stage is faster than all its chunks, nor is any chunk than all its stages.
double bound(size_t chunks, size_t lanes, double copy, double host) {
  const double of_copies = static_cast<double>(chunks) * copy;
  const double of_lanes = static_cast<double>((chunks + lanes - 1) / lanes) * host;
  return std::max(of_copies + copy + host, of_lanes + 2 * copy);
}

TEST(ChunkChoice, TheTimeIsThatOfAPipeline) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 500; ++round) {
    const size_t chunks = 1 + random() % 30, bytes = 1000 + random() % 5'000'000;
    const double host = 1e-6 * static_cast<double>(1 + random() % 5000), copy = staging_seconds(bytes);
    const HostSeconds hosts = [&](size_t) { return host; };
    double before = 1e9;
    for (size_t lanes = 1; lanes <= 8; ++lanes) {
      const double time = staged_seconds(chunks * bytes, bytes, lanes, hosts);
      const double least = bound(chunks, lanes, copy, host);
      EXPECT_GE(time, least) << lanes << " lanes";
      const double proxy = static_cast<double>(chunks) * 10e-6;
      const double filling = static_cast<double>(std::min(lanes, chunks) - 1) * copy;
      EXPECT_LE(time, least + proxy + filling) << lanes << " lanes";
      EXPECT_LE(time, before) << lanes << " lanes are slower than fewer";
      before = time;
    }
  }
}

TEST(ChunkChoice, IsNoWorseThanAnyOtherAndKeepsToTheLimit) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 500; ++round) {
    const size_t message = random() % 3 == 0 ? random() % 100 : random() % 300'000'000;
    const size_t most = size_t{64 << 10} << random() % 10, lanes = 1 + random() % 8;
    const double start = 1e-6 * static_cast<double>(random() % 500),
                 rate = 1e8 * static_cast<double>(1 + random() % 300);
    const HostSeconds host = [&](size_t bytes) { return start + static_cast<double>(bytes) / rate; };
    const size_t chosen = choose_chunk(message, most, lanes, host);
    EXPECT_GE(chosen, 1u);
    EXPECT_LE(chosen, most);
    for (size_t chunks = 1; chunks <= 8; chunks *= 2) {
      const size_t other = std::max<size_t>(1, (message + chunks - 1) / chunks);
      if (other > most || other < (64 << 10)) continue;
      EXPECT_LE(staged_seconds(message, chosen, lanes, host), 1.1 * staged_seconds(message, other, lanes, host))
          << message << " bytes, " << lanes << " lanes, " << chunks << " chunks";
    }
  }
}

TEST(ChunkChoice, ASlowStartMakesOneForEachLaneAndASlowNetworkMany) {
  const size_t message = 16 << 20, most = 32 << 20;
  const HostSeconds slow_start = [](size_t) { return 1.0; };
  const HostSeconds slow_link = [](size_t bytes) { return static_cast<double>(bytes) / 20e9; };
  EXPECT_EQ(choose_chunk(message, most, 1, slow_start), message);
  EXPECT_LE(choose_chunk(message, most, 1, slow_link), message / 8);
  const HostSeconds long_ones = [](size_t bytes) { return static_cast<double>(bytes) / 1e9; };
  EXPECT_LE(choose_chunk(1 << 20, most, 4, long_ones), size_t{1} << 18) << "a lane has nothing to do";
  EXPECT_EQ(choose_chunk(0, most, 2, [](size_t) { return 0.0; }), 1u);
}

}  // namespace
}  // namespace plait

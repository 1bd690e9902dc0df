// The chunks of staged calls: the model's pipeline is that of a simulation, and the choice is the best that it knows.
#include "api/chunk_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/seed.hpp"

namespace plait {
namespace {

// Each stage performs the chunks one after the other, each of them once the stage before has.
double simulated(size_t chunks, double in, double host, double out) {
  double in_done = 0, host_done = 0, out_done = 0;
  for (size_t i = 0; i < chunks; ++i) {
    in_done += in;
    host_done = std::max(in_done, host_done) + host;
    out_done = std::max(host_done, out_done) + out;
  }
  return out_done;
}

TEST(ChunkChoice, TheTimeIsThatOfAPipelineOfThreeStages) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 500; ++round) {
    const size_t chunks = 1 + random() % 30, bytes = 1000 + random() % 5'000'000;
    const double host = 1e-6 * static_cast<double>(1 + random() % 5000);
    const double time = staged_seconds(chunks * bytes, bytes, [&](size_t) { return host; });
    const double copy = staging_seconds(bytes);
    const double least = simulated(chunks, copy, host, copy);
    EXPECT_GE(time, least);
    EXPECT_LE(time, least + static_cast<double>(chunks) * 10e-6) << "the proxy's part";
  }
}

TEST(ChunkChoice, IsNoWorseThanAnyOtherAndKeepsToTheLimit) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 500; ++round) {
    const size_t message = random() % 3 == 0 ? random() % 100 : random() % 300'000'000;
    const size_t most = size_t{64 << 10} << random() % 10;
    const double start = 1e-6 * static_cast<double>(random() % 500),
                 rate = 1e8 * static_cast<double>(1 + random() % 300);
    const HostSeconds host = [&](size_t bytes) { return start + static_cast<double>(bytes) / rate; };
    const size_t chosen = choose_chunk(message, most, host);
    EXPECT_GE(chosen, 1u);
    EXPECT_LE(chosen, most);
    for (size_t chunks = 1; chunks <= 8; chunks *= 2) {
      const size_t other = std::max<size_t>(1, (message + chunks - 1) / chunks);
      if (other > most || other < (64 << 10)) continue;
      EXPECT_LE(staged_seconds(message, chosen, host), 1.1 * staged_seconds(message, other, host));
    }
  }
}

TEST(ChunkChoice, ASlowStartMakesFewAndASlowNetworkMany) {
  const size_t message = 16 << 20, most = 32 << 20;
  EXPECT_EQ(choose_chunk(message, most, [](size_t) { return 1.0; }), message);
  EXPECT_LE(choose_chunk(message, most, [](size_t bytes) { return static_cast<double>(bytes) / 20e9; }), message / 8);
  EXPECT_EQ(choose_chunk(0, most, [](size_t) { return 0.0; }), 1u);
}

}  // namespace
}  // namespace plait

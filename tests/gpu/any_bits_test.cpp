// Reductions of random bits on GPUs give the same bits as the oracle of the host's reduces: infinities, NaN, -0,
// denormals, sums that wrap or saturate.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "support/seed.hpp"
#include "unit/runtime/host/reduce_oracle.hpp"
#include "world.hpp"

namespace plait {
namespace {

using test::World;

using oracle::Bytes;

// Now and then a word consists of 0 and -0, in every type.
void fill(Bytes& bytes, std::mt19937_64& random) {
  constexpr std::array<uint64_t, 4> kZeros = {0, 1ull << 63, 0x8000800080008000, 0x8080808080808080};
  for (size_t i = 0; i < bytes.size(); i += sizeof(uint64_t)) {
    const uint64_t value = random() % 4 == 0 ? kZeros[random() % kZeros.size()] : random();
    std::memcpy(bytes.data() + i, &value, std::min(sizeof(value), bytes.size() - i));
  }
}

// How many bytes of the ranks' outputs are wrong.
long wrong(World& world, const Call& call, size_t offset, std::mt19937_64& random) {
  const size_t bytes = call.count * size_of(call.type);
  oracle::Problem problem{call.type, call.op, call.count};
  problem.divisor = divisor_of(call.op, world.size());
  for (int r = 0; r < world.size(); ++r) {
    Bytes& input = problem.sources.emplace_back(bytes);
    problem.source_is_wide.push_back(0);
    fill(input, random);
    // On the rank's stream: cudaMemcpy() may return before the bytes are there, and this stream does not wait for it.
    check_cuda(cudaMemcpyAsync(world.input(r) + offset, input.data(), bytes, cudaMemcpyHostToDevice, world.stream(r)),
               "upload");
  }
  for (int r = 0; r < world.size(); ++r) {
    world.rank(r).enqueue(call, world.input(r) + offset, world.output(r) + offset, world.stream(r));
  }
  world.synchronize();
  const Bytes expected = oracle::reduce(problem);
  long count = 0;
  for (int r = 0; r < world.size(); ++r) {
    Bytes output(bytes);
    check_cuda(cudaMemcpy(output.data(), world.output(r) + offset, bytes, cudaMemcpyDeviceToHost), "download");
    if (const auto error = world.rank(r).async_error()) throw *error;
    for (size_t i = 0; i < bytes; ++i) count += output[i] != expected[i];
  }
  return count;
}

// Sums and products only with two ranks, where the order makes no difference.
TEST(AnyBits, CombineAsOnTheHost) {
  const uint64_t seed = test::run_seed();
  std::mt19937_64 random(seed);
  for (const int ranks : {2, 4, 5}) {
    for (const char* const launch : {"", "Simple:3x128", "LL:3x128", "LL128:3x128"}) {
      Settings settings;
      settings.launch = launch;
      settings.timeout_seconds = 10;
      World world(ranks, settings);
      for (int type = 0; type < kDataTypeCount; ++type) {
        for (const ReduceOp op : reductions_of(static_cast<DataType>(type))) {
          if (ranks > 2 && !combines_by<Extremum>(op)) continue;
          for (const size_t count : {99, 20'011}) {
            for (const size_t elements_off : {0, 1}) {
              const Call call{Collective::kAllReduce, static_cast<DataType>(type), op, 0, count};
              const long errors = wrong(world, call, elements_off * size_of(call.type), random);
              EXPECT_EQ(errors, 0) << "seed " << seed << ": " << to_text(call) << " over " << ranks << " ranks, "
                                   << world.rank(0).launch_for(call) << ", buffers " << elements_off
                                   << " elements off: " << errors << " bytes wrong";
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace plait

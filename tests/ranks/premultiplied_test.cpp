// Pre-multiplied sums on ranks that are threads. Results are exact for every type, inputs are left alone if they must
// be, and wrong calls are refused.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "runtime/host/scale.hpp"
#include "support/call_buffers.hpp"
#include "support/expect_outcomes.hpp"
#include "support/rank_threads.hpp"

namespace plait::test {
namespace {

constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduce, Collective::kReduceScatter};

Settings settings() {
  Settings settings;
  settings.scratch_bytes = 16 * 1024;  // several slices
  settings.timeout_seconds = 20;
  return settings;
}

void perform(Communicator& communicator, const Call& call, const BufferLayout& layout, int variant) {
  const int rank = communicator.rank(), ranks = communicator.size();
  const Scalar factor = exact_scalar(call.type, rank);
  CallBuffers buffers(call, ranks, rank, layout);
  fill_input(call, ranks, rank, variant, buffers.input());
  buffers.remember();
  communicator.run(call, buffers.input(), buffers.output(), &factor);
  buffers.require_untouched_surroundings();
  const size_t wrong = count_wrong(call, ranks, rank, variant, buffers.output(), true);
  require(wrong == 0, to_text(call), " over ", ranks, layout.in_place ? " ranks in place: " : " ranks: ", wrong,
          " elements are wrong");
}

TEST(Premultiplied, EveryCollectiveTypeAndPlace) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    expect_all_well(run_threads(ranks, settings(), [&](Communicator& communicator) {
      int variant = 0;
      for (const Collective collective : kCollectives) {
        for (int type = 0; type < kDataTypeCount; ++type) {
          for (const size_t count : {0, 1, 77, 5000}) {
            const int root = has_root(collective) ? variant % ranks : 0;
            const Call call{collective, static_cast<DataType>(type), ReduceOp::kSum, root, count};
            const size_t offset = static_cast<size_t>(variant % 3);
            perform(communicator, call, {variant % 2 == 1, offset, 2 - offset, variant % 5 == 0}, variant);
            ++variant;
          }
        }
      }
    }));
  }
}

// A rank without a scalar counts as 1.
TEST(Premultiplied, MixesWithPlainSums) {
  expect_all_well(run_threads(3, settings(), [](Communicator& communicator) {
    const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1};
    const Scalar half = make_scalar(DataType::kFloat32, 0.5);
    const float input = 2;
    float output = 0;
    communicator.run(call, &input, &output, communicator.rank() == 1 ? &half : nullptr);
    require(output == 5 && input == 2, "the sum is ", output);
  }));
}

template <class Body>
void expect_refusal(const char* words, const Body& body) {
  try {
    body();
    ADD_FAILURE() << "not refused: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(Premultiplied, RefusesWhatItCannotDo) {
  Communicator alone = std::move(Communicator::in_process(1, settings()).front());
  float value = 3;
  Scalar factor = make_scalar(DataType::kFloat32, 2.0);
  const auto run = [&](Collective collective, DataType type, ReduceOp op) {
    alone.run({collective, type, op, 0, 1}, &value, &value, &factor);
  };
  expect_refusal("only inputs of a sum", [&] { run(Collective::kAllReduce, DataType::kFloat32, ReduceOp::kMax); });
  expect_refusal("only inputs of a sum", [&] { run(Collective::kBroadcast, DataType::kFloat32, ReduceOp::kSum); });
  expect_refusal("the scalar is float32", [&] { run(Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum); });
  factor.on_device = &value;
  expect_refusal("the scalar is on a GPU", [&] { run(Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum); });
  EXPECT_EQ(value, 3);
  factor.on_device = nullptr;
  run(Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum);
  EXPECT_EQ(value, 6);
}

// An in-place input must not be multiplied for a call that cannot happen.
TEST(Premultiplied, LeavesTheInputAloneAfterAFailure) {
  Communicator alone = std::move(Communicator::in_process(1, settings()).front());
  alone.abort("a test");
  float value = 3;
  const Scalar factor = make_scalar(DataType::kFloat32, 2.0);
  EXPECT_THROW(alone.run({Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1}, &value, &value, &factor),
               Error);
  EXPECT_EQ(value, 3);
}

TEST(Premultiplied, LeavesTheInputAloneInAForkedChild) {
  Communicator alone = std::move(Communicator::in_process(1, settings()).front());
  float value = 3;
  const Scalar factor = make_scalar(DataType::kFloat32, 2.0);
  const pid_t child = ::fork();
  if (child == 0) {
    bool refused = false;
    try {
      alone.run({Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1}, &value, &value, &factor);
    } catch (const Error& error) {
      refused = error.code() == ErrorCode::kInvalidArgument;
    }
    ::_exit(refused && value == 3 ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace plait::test

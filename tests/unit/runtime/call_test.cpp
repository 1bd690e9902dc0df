// Calls in words and as fingerprints.
#include "runtime/call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "support/seed.hpp"

namespace plait {
namespace {

const Call kCall{Collective::kReduce, DataType::kBfloat16, ReduceOp::kAverage, 3, 1000};

TEST(Call, InWords) {
  EXPECT_EQ(to_text(kCall), "reduce of 1000 bfloat16 (avg), root 3");
  EXPECT_EQ(to_text({Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 1}),
            "all_reduce of 1 float32 (sum)");
  EXPECT_EQ(to_text({Collective::kAllGather, DataType::kUint8, ReduceOp::kSum, 0, 0}), "all_gather of 0 uint8");
  EXPECT_EQ(to_text({Collective::kBroadcast, DataType::kInt64, ReduceOp::kSum, 1, 5}), "broadcast of 5 int64, root 1");
  EXPECT_EQ(to_text(Call{}), "barrier");
  Call given;
  given.plan = 0xc5a1f3902b7e64;
  EXPECT_EQ(to_text(given), "barrier, by plan 00c5a1f3902b7e64");
}

TEST(Call, OrdersOfAxes) {
  const auto text_of_order = [](std::vector<size_t> axes) {
    Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 6};
    call.order = pack_axis_order(axes).value();
    return to_text(call).substr(to_text({Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, 6}).size());
  };
  EXPECT_EQ(text_of_order({}), "");
  EXPECT_EQ(text_of_order({0}), "");
  EXPECT_EQ(text_of_order({0, 1, 2}), "");
  EXPECT_EQ(text_of_order({1, 0}), ", with axes in memory in the order (1, 0)");
  EXPECT_EQ(text_of_order({0, 2, 1}), ", with axes in memory in the order (0, 2, 1)");
  EXPECT_EQ(text_of_order({7, 6, 5, 4, 3, 2, 1, 0}), ", with axes in memory in the order (7, 6, 5, 4, 3, 2, 1, 0)");
  EXPECT_EQ(pack_axis_order(std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}), 0u);
  EXPECT_EQ(pack_axis_order(std::vector<size_t>{1, 0, 2, 3, 4, 5, 6, 7, 8}), std::nullopt);

  std::vector<size_t> axes{0, 1, 2, 3, 4};
  std::set<uint32_t> orders;
  do orders.insert(pack_axis_order(axes).value());
  while (std::ranges::next_permutation(axes).found);
  EXPECT_EQ(orders.size(), 120u);
}

TEST(Call, EveryFieldCountsForTheSignature) {
  std::set<uint32_t> signatures;
  Call call = kCall;
  signatures.insert(signature(call));
  call.collective = Collective::kBroadcast;
  signatures.insert(signature(call));
  call = kCall;
  call.type = DataType::kFloat16;
  signatures.insert(signature(call));
  call = kCall;
  call.op = ReduceOp::kSum;
  signatures.insert(signature(call));
  call = kCall;
  call.root = 2;
  signatures.insert(signature(call));
  call = kCall;
  call.count = 1001;
  signatures.insert(signature(call));
  call = kCall;
  call.is_split = true;
  signatures.insert(signature(call));
  call = kCall;
  call.order = 1;
  signatures.insert(signature(call));
  call = kCall;
  call.plan = 1;
  signatures.insert(signature(call));
  EXPECT_EQ(signatures.size(), 9u);
  EXPECT_EQ(signature(kCall), signature(Call(kCall)));
}

// The runtime uses only part of the bits, so every part must tell calls apart.
TEST(Call, SignaturesSpread) {
  std::set<uint32_t> all, low, high;
  for (size_t count = 0; count < 20'000; ++count) {
    Call call = kCall;
    call.count = count;
    const uint32_t value = signature(call);
    ASSERT_NE(value, 0u);
    all.insert(value);
    low.insert(value & 0xffffff);
    high.insert(value >> 8);
  }
  EXPECT_GE(all.size(), 19'997u);  // a random function would lose 0.05
  EXPECT_GE(low.size(), 19'950u);  // and 12 here
  EXPECT_GE(high.size(), 19'950u);
}

TEST(Call, BytesOfTheMessage) {
  EXPECT_EQ(message_bytes(kCall, 4), 2000u);
  EXPECT_EQ(message_bytes({Collective::kAllGather, DataType::kFloat64, ReduceOp::kSum, 0, 10}, 4), 320u);
  EXPECT_EQ(message_bytes({Collective::kReduceScatter, DataType::kInt8, ReduceOp::kSum, 0, 10}, 4), 40u);
  EXPECT_EQ(message_bytes(Call{}, 4), 0u);
  // A huge message must not pass for a small one.
  EXPECT_EQ(message_bytes({Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, SIZE_MAX / 4 + 1}, 4),
            SIZE_MAX);
  EXPECT_EQ(message_bytes({Collective::kAllToAll, DataType::kInt8, ReduceOp::kSum, 0, SIZE_MAX / 2}, 4), SIZE_MAX);
}

}  // namespace
}  // namespace plait

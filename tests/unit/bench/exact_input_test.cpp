// Exact inputs against a serial reduction, and a check that counts exactly what is wrong.
#include "bench/exact_input.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "base/by_combining.hpp"

namespace plait {
namespace {

// Long enough for several of the parts in which inputs are made.
constexpr size_t kCount = 70'001;

std::vector<std::byte> input_of(const Call& call, int ranks, int rank, int variant) {
  std::vector<std::byte> input(input_elements(call, ranks, rank) * size_of(call.type));
  fill_input(call, ranks, rank, variant, input.data());
  return input;
}

// What every rank gets of an all-reduce of T.
template <class T>
std::vector<T> reduced(const Call& call, int ranks, int variant) {
  std::vector<T> result(call.count);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<std::byte> bytes = input_of(call, ranks, rank, variant);
    for (size_t i = 0; i < call.count; ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      result[i] = rank == 0 ? value : combine_numbers(call.op, result[i], value);
    }
  }
  if (const int divisor = divisor_of(call.op, ranks); divisor != 0) {
    for (T& value : result) value = value / static_cast<T>(divisor);
  }
  return result;
}

template <class T>
void expect_exact(DataType type) {
  for (const ReduceOp op : reductions_of(type)) {
    for (const int ranks : {1, 2, 3, 7, 8}) {
      const Call call{Collective::kAllReduce, type, op, 0, kCount};
      const std::vector<T> result = reduced<T>(call, ranks, ranks);
      EXPECT_EQ(count_wrong(call, ranks, 0, ranks, result.data()), 0u) << to_text(call) << ", " << ranks << " ranks";
      if (op != ReduceOp::kSum) continue;  // a product, say, is 2 * 3 wherever it is taken
      EXPECT_GT(count_wrong(call, ranks, 0, ranks + 1, result.data()), kCount / 3) << "another variant looks the same";
    }
  }
}

TEST(ExactInput, ReductionsAreExact) {
  expect_exact<int8_t>(DataType::kInt8);
  expect_exact<uint8_t>(DataType::kUint8);
  expect_exact<int16_t>(DataType::kInt16);
  expect_exact<uint16_t>(DataType::kUint16);
  expect_exact<uint32_t>(DataType::kUint32);
  expect_exact<uint64_t>(DataType::kUint64);
  expect_exact<float>(DataType::kFloat32);
  expect_exact<double>(DataType::kFloat64);
  expect_exact<int32_t>(DataType::kInt32);
  expect_exact<int64_t>(DataType::kInt64);
}

template <class T>
T number_of(const Scalar& factor) {
  T number;
  std::memcpy(&number, factor.value.data(), sizeof(number));
  return number;
}

TEST(ExactInput, SumsOfProductsAreExact) {
  for (const int ranks : {1, 2, 3, 7, 8}) {
    const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, kCount};
    std::vector<float> sums(kCount);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto factor = number_of<float>(exact_scalar(call.type, rank));
      EXPECT_NE(factor, rank % 2 == 0 ? 1.0f : number_of<float>(exact_scalar(call.type, rank - 1)));
      const std::vector<std::byte> bytes = input_of(call, ranks, rank, ranks);
      for (size_t i = 0; i < kCount; ++i) {
        float value;
        std::memcpy(&value, bytes.data() + i * sizeof(value), sizeof(value));
        sums[i] += value * factor;
      }
    }
    EXPECT_EQ(count_wrong(call, ranks, 0, ranks, sums.data(), true), 0u) << ranks << " ranks";
    EXPECT_GT(count_wrong(call, ranks, 0, ranks, sums.data(), false), kCount / 3) << ranks << " ranks";
  }
}

TEST(ExactInput, BlocksOfReduceScatterAreThoseOfTheWhole) {
  constexpr int kRanks = 3;
  const Call scatter{Collective::kReduceScatter, DataType::kFloat32, ReduceOp::kSum, 0, kCount};
  const Call whole{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, kCount * kRanks};
  const std::vector<float> result = reduced<float>(whole, kRanks, 5);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(count_wrong(scatter, kRanks, rank, 5, result.data() + rank * kCount), 0u);
    EXPECT_GT(count_wrong(scatter, kRanks, rank, 5, result.data() + (rank + 1) % kRanks * kCount), kCount / 3);
  }
}

TEST(ExactInput, GatheredBlocksAreTheInputs) {
  constexpr int kRanks = 3;
  for (const DataType type : {DataType::kInt8, DataType::kBfloat16, DataType::kFloat64}) {
    const Call call{Collective::kAllGather, type, ReduceOp::kSum, 0, kCount};
    std::vector<std::byte> all;
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::vector<std::byte> block = input_of(call, kRanks, rank, 2);
      all.insert(all.end(), block.begin(), block.end());
    }
    EXPECT_EQ(count_wrong(call, kRanks, 1, 2, all.data()), 0u);
    std::rotate(all.begin(), all.begin() + static_cast<ptrdiff_t>(kCount * size_of(type)), all.end());
    EXPECT_GT(count_wrong(call, kRanks, 1, 2, all.data()), kCount);
  }
}

// Blocks of a rank's output, in the order of the ranks that sent them.
TEST(ExactInput, WhatIsExchangedComesFromEveryRank) {
  constexpr int kRanks = 3, kRank = 1;
  constexpr size_t kBytes = kCount * sizeof(int16_t);
  const Call call{Collective::kAllToAll, DataType::kInt16, ReduceOp::kSum, 0, kCount};
  std::vector<std::byte> received;
  for (int from = 0; from < kRanks; ++from) {
    const std::vector<std::byte> sent = input_of(call, kRanks, from, 4);
    ASSERT_EQ(sent.size(), kRanks * kBytes);
    received.insert(received.end(), sent.begin() + kRank * kBytes, sent.begin() + (kRank + 1) * kBytes);
  }
  EXPECT_EQ(count_wrong(call, kRanks, kRank, 4, received.data()), 0u);
  EXPECT_GT(count_wrong(call, kRanks, kRank + 1, 4, received.data()), kCount);
}

TEST(ExactInput, TheRootGathersAndScatters) {
  constexpr int kRanks = 3, kRoot = 2;
  constexpr size_t kBytes = kCount * sizeof(double);
  const Call gather{Collective::kGather, DataType::kFloat64, ReduceOp::kSum, kRoot, kCount};
  std::vector<std::byte> gathered;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<std::byte> block = input_of(gather, kRanks, rank, 6);
    gathered.insert(gathered.end(), block.begin(), block.end());
  }
  EXPECT_EQ(count_wrong(gather, kRanks, kRoot, 6, gathered.data()), 0u);
  const Call scatter{Collective::kScatter, DataType::kFloat64, ReduceOp::kSum, kRoot, kCount};
  const std::vector<std::byte> blocks = input_of(scatter, kRanks, kRoot, 6);
  ASSERT_EQ(blocks.size(), kRanks * kBytes);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(count_wrong(scatter, kRanks, rank, 6, blocks.data() + static_cast<size_t>(rank) * kBytes), 0u);
    const size_t next = static_cast<size_t>((rank + 1) % kRanks);
    EXPECT_GT(count_wrong(scatter, kRanks, rank, 6, blocks.data() + next * kBytes), kCount / 3);
  }
}

TEST(ExactInput, BroadcastGivesTheInputOfTheRoot) {
  const Call call{Collective::kBroadcast, DataType::kUint16, ReduceOp::kSum, 1, kCount};
  EXPECT_EQ(input_elements(call, 2, 0), 0u);
  EXPECT_EQ(count_wrong(call, 2, 0, 9, input_of(call, 2, 1, 9).data()), 0u);
}

TEST(ExactInput, CountsEveryWrongElementOnce) {
  std::mt19937 random(7);
  const Call call{Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, kCount};
  std::vector<float> result = reduced<float>(call, 4, 3);
  std::set<size_t> spoiled{0, kCount - 1};
  while (spoiled.size() < 50) spoiled.insert(random() % kCount);
  for (const size_t i : spoiled) result[i] += 1;
  EXPECT_EQ(count_wrong(call, 4, 2, 3, result.data()), spoiled.size());
}

TEST(ExactInput, NothingIsWrongWithNothing) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kBroadcast,
                                      Collective::kReduceScatter, Collective::kReduce}) {
    EXPECT_EQ(count_wrong({collective, DataType::kFloat32, ReduceOp::kSum, 0, 0}, 4, 0, 0, nullptr), 0u);
  }
  EXPECT_EQ(count_wrong({}, 4, 0, 0, nullptr), 0u);
}

}  // namespace
}  // namespace plait

// The table of reductions: rows that do not contradict each other, and what follows from them.
#include "base/reductions.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "base/by_combining.hpp"
#include "base/names.hpp"

namespace plait {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ReduceOp op_at(int row) { return static_cast<ReduceOp>(row); }

TEST(Reductions, EachHasNamesAndANumberOfItsOwn) {
  std::set<std::string> names;
  std::set<int> numbers;
  for (int row = 0; row < kReduceOpCount; ++row) {
    const ReductionFacts& facts = facts_of(op_at(row));
    std::set<std::string> of_row = {simplified(facts.name), simplified(facts.long_name)};
    if (facts.alias != nullptr) of_row.insert(simplified(facts.alias));
    EXPECT_EQ(std::string(facts.long_name).find(' '), std::string::npos) << "nobody can write " << facts.long_name;
    for (const std::string& text : of_row) {
      EXPECT_TRUE(names.insert(text).second) << text << " is the name of two";
      EXPECT_EQ(parse_reduce_op(text), op_at(row)) << text;
    }
    EXPECT_TRUE(numbers.insert(facts.number).second) << facts.number << " is the number of two";
    EXPECT_EQ(reduce_op_of_number(facts.number), op_at(row)) << facts.number;
    EXPECT_EQ(reduce_op_names()[static_cast<size_t>(row)], name(op_at(row)));
  }
}

TEST(Reductions, NamesAreUnderstoodAsTheFieldWritesThem) {
  EXPECT_EQ(parse_reduce_op("MPI_SUM"), ReduceOp::kSum);
  EXPECT_EQ(parse_reduce_op("ncclProd"), ReduceOp::kProduct);
  EXPECT_EQ(parse_reduce_op("product"), ReduceOp::kProduct);
  EXPECT_EQ(parse_reduce_op("maximum"), ReduceOp::kMax);
  EXPECT_EQ(parse_reduce_op("Minimum"), ReduceOp::kMin);
  EXPECT_EQ(parse_reduce_op("average"), ReduceOp::kAverage);
  EXPECT_EQ(parse_reduce_op("Mean"), ReduceOp::kAverage);
  EXPECT_EQ(parse_reduce_op("add"), ReduceOp::kSum);
  EXPECT_EQ(parse_reduce_op("multiply"), ReduceOp::kProduct);
  for (const char* text : {"", "xor", "adds", "nccl", "summ"}) EXPECT_EQ(parse_reduce_op(text), std::nullopt) << text;
}

// Programs that were compiled for NCCL have them.
TEST(Reductions, NcclsHaveItsNumbers) {
  EXPECT_EQ(facts_of(ReduceOp::kSum).number, 0);
  EXPECT_EQ(facts_of(ReduceOp::kProduct).number, 1);
  EXPECT_EQ(facts_of(ReduceOp::kMax).number, 2);
  EXPECT_EQ(facts_of(ReduceOp::kMin).number, 3);
  EXPECT_EQ(facts_of(ReduceOp::kAverage).number, 4);
  EXPECT_EQ(std::ranges::count_if(kReductions, is_nccls), 5);
  for (const int number : {-1, 5, kFirstOwnReduction - 1, 1 << 20}) {
    EXPECT_EQ(reduce_op_of_number(number), std::nullopt) << number;
  }
}

TEST(Reductions, OnlySomeAreOfIntegersAlone) {
  for (int number = 0; number < kDataTypeCount; ++number) {
    const auto type = static_cast<DataType>(number);
    for (int row = 0; row < kReduceOpCount; ++row) {
      const bool is_for_all = kReductions[row].types == ReducedTypes::kAll;
      EXPECT_EQ(has(type, op_at(row)), is_for_all || std::string(name(type)).find("int") != std::string::npos);
    }
    const auto had = reductions_of(type);
    EXPECT_TRUE(std::ranges::is_sorted(had));
    EXPECT_EQ(had.front(), ReduceOp::kSum);
    for (const ReduceOp op : had) EXPECT_TRUE(has(type, op)) << name(type) << ' ' << name(op);
  }
  EXPECT_EQ(why_not(DataType::kFloat32, ReduceOp::kMax), "only integers have a maximum, and float32 is none");
}

TEST(Reductions, AveragesAreDivided) {
  EXPECT_EQ(divisor_of(ReduceOp::kAverage, 7), 7);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax, ReduceOp::kMin}) {
    EXPECT_EQ(divisor_of(op, 7), 0) << name(op);
  }
}

TEST(Combining, IntegersWrap) {
  EXPECT_EQ(combine_numbers<int8_t>(ReduceOp::kSum, 127, 1), -128);
  EXPECT_EQ(combine_numbers<uint8_t>(ReduceOp::kAverage, 255, 3), 2);
  EXPECT_EQ(combine_numbers<uint16_t>(ReduceOp::kProduct, 65535, 65535), 1);
  EXPECT_EQ(combine_numbers<int32_t>(ReduceOp::kProduct, 1 << 30, -6), INT32_MIN);
  EXPECT_EQ(combine_numbers<int64_t>(ReduceOp::kSum, INT64_MAX, 1), INT64_MIN);
}

TEST(Combining, ExtremaMindTheSign) {
  EXPECT_EQ(combine_numbers<int8_t>(ReduceOp::kMax, -1, 1), 1);
  EXPECT_EQ(combine_numbers<uint8_t>(ReduceOp::kMax, 255, 1), 255);
  EXPECT_EQ(combine_numbers<int64_t>(ReduceOp::kMin, -1, 1), -1);
  EXPECT_EQ(combine_numbers<uint64_t>(ReduceOp::kMin, UINT64_MAX, 1), 1u);
  for (const double a : {0.0, -0.0}) {
    EXPECT_FALSE(std::signbit(combine_numbers(ReduceOp::kMax, a, -a)));
    EXPECT_TRUE(std::signbit(combine_numbers(ReduceOp::kMin, a, -a)));
  }
}

TEST(Combining, NanWins) {
  for (int row = 0; row < kReduceOpCount; ++row) {
    if (!has(DataType::kFloat64, op_at(row))) continue;
    EXPECT_TRUE(std::isnan(combine_numbers(op_at(row), kNan, 1.0))) << name(op_at(row));
    EXPECT_TRUE(std::isnan(combine_numbers(op_at(row), 1.0, kNan))) << name(op_at(row));
  }
}

// Plans may combine contributions in any order because of this.
TEST(Combining, OrderMakesNoDifferenceToIntegers) {
  std::mt19937_64 random(1);
  for (int row = 0; row < kReduceOpCount; ++row) {
    const auto both = [&](auto a, auto b) { return combine_numbers(op_at(row), a, b); };
    for (int time = 0; time < 1000; ++time) {
      const auto a = static_cast<int16_t>(random()), b = static_cast<int16_t>(random()),
                 c = static_cast<int16_t>(random());
      EXPECT_EQ(both(a, b), both(b, a)) << name(op_at(row));
      EXPECT_EQ(both(both(a, b), c), both(a, both(b, c))) << name(op_at(row));
    }
  }
}

}  // namespace
}  // namespace plait

// Names as people write them.
#include "base/names.hpp"

#include <gtest/gtest.h>

#include <array>

#include "base/types.hpp"

namespace plait {
namespace {

constexpr std::array<std::string_view, 6> kCommands = {"topo", "plan", "verify", "run", "bench", "settings"};

TEST(Names, CaseSeparatorsAndTheLibrarysPrefixMakeNoDifference) {
  for (const char* text : {"all_reduce", "all-reduce", "AllReduce", "ALLREDUCE", "ncclAllReduce", "MPI_Allreduce"}) {
    EXPECT_TRUE(same_name(text, "all_reduce")) << text;
  }
  EXPECT_EQ(simplified("nccl"), "nccl");
  EXPECT_EQ(simplified(""), "");
  EXPECT_FALSE(same_name("reduce", "all_reduce"));
}

TEST(Names, SlipsOfTheHandAreGuessed) {
  EXPECT_EQ(nearest_name("tpoo", kCommands), "topo");
  EXPECT_EQ(nearest_name("Plann", kCommands), "plan");
  EXPECT_EQ(nearest_name("vrfy", kCommands), "");
  EXPECT_EQ(nearest_name("verfiy", kCommands), "verify");
  EXPECT_EQ(nearest_name("topology", kCommands), "topo");
  EXPECT_EQ(nearest_name("ver", kCommands), "verify");
  EXPECT_EQ(did_you_mean("ruin", kCommands), "; did you mean 'run'?");
}

TEST(Names, NothingIsGuessedWhereNothingIsNear) {
  for (const char* text : {"", "x", "foo", "plot", "do", "--", "benchmarking-of-everything-that-there-is"}) {
    const bool begun = std::string_view(text).starts_with("bench");
    EXPECT_EQ(did_you_mean(text, kCommands), begun ? "; did you mean 'bench'?" : "") << text;
  }
  EXPECT_EQ(did_you_mean(std::string(1 << 20, 'x'), kCommands), "");
  EXPECT_EQ(did_you_mean("topo", {}), "");
}

TEST(Names, OfTheNearTheNearestIsGuessed) {
  constexpr std::array<std::string_view, 3> kNames = {"all_gather", "gather", "gathers"};
  EXPECT_EQ(nearest_name("gathe", kNames), "gather");
  EXPECT_EQ(nearest_name("allgathr", kNames), "all_gather");
}

TEST(Names, SlipsInTheNameOfALibraryAreGuessed) {
  constexpr std::array<std::string_view, 3> kPeers = {"mpi", "gloo", "nccl"};
  EXPECT_EQ(nearest_name("nccll", kPeers), "nccl");
  EXPECT_EQ(nearest_name("NCCL2", kPeers), "nccl");
  EXPECT_EQ(nearest_name("mpich", kPeers), "mpi");
  EXPECT_EQ(nearest_name("gllo", kPeers), "gloo");
  constexpr std::array<std::string_view, 2> kNames = {"all_reduce", "barrier"};
  EXPECT_EQ(nearest_name("ncclAlReduce", kNames), "all_reduce");
}

TEST(TypeNames, AreUnderstoodAsTheFieldWritesThem) {
  const std::pair<const char*, DataType> kNames[] = {
      {"float", DataType::kFloat32},
      {"half", DataType::kFloat16},
      {"fp16", DataType::kFloat16},
      {"FP16", DataType::kFloat16},
      {"double", DataType::kFloat64},
      {"bf16", DataType::kBfloat16},
      {"ncclBfloat16", DataType::kBfloat16},
      {"fp8_e4m3", DataType::kFloat8E4M3},
      {"float8_e4m3", DataType::kFloat8E4M3},
      {"ncclFloat8e4m3", DataType::kFloat8E4M3},
      {"e5m2", DataType::kFloat8E5M2},
      {"F8E5M2", DataType::kFloat8E5M2},
      {"int", DataType::kInt32},
      {"char", DataType::kInt8},
      {"int64_t", DataType::kInt64},
      {"MPI_UINT16_T", DataType::kUint16},
      {"MPI_UNSIGNED_LONG", DataType::kUint64},
      {"MPI_DOUBLE", DataType::kFloat64},
      {"single", DataType::kFloat32},
      {"longlong", DataType::kInt64},
  };
  for (const auto& [text, type] : kNames) EXPECT_EQ(parse_data_type(text), type) << text;
  for (int i = 0; i < kDataTypeCount; ++i) {
    const auto type = static_cast<DataType>(i);
    EXPECT_EQ(parse_data_type(name(type)), type);
    EXPECT_EQ(type_names()[i], name(type));
  }
}

TEST(TypeNames, ThatMeanSomethingElseAreRefused) {
  for (const char* text : {"", "f8", "i8", "byte", "bool", "complex64", "float128", "float8_e4m3fnuz", "_t", "nccl"}) {
    EXPECT_EQ(parse_data_type(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace plait

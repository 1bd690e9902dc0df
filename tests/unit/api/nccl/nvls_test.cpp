// Which calls NCCL may perform by NVLS, and what is left of a table without them.
#include "api/nccl/nvls.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "api/nccl/wins.hpp"

namespace plait::nccl {
namespace {

TEST(Nvls, VersionsAndRanks) {
  const struct {
    int version, ranks;
    NvlsUse use;
  } rows[] = {
      {22703, 2, NvlsUse::kNoCall},    {22703, 3, NvlsUse::kSomeCalls}, {22803, 2, NvlsUse::kNoCall},
      {22807, 2, NvlsUse::kSomeCalls}, {22809, 8, NvlsUse::kSomeCalls}, {23007, 2, NvlsUse::kSomeCalls},
      {23008, 2, NvlsUse::kAnyCall},   {22702, 2, NvlsUse::kAnyCall},   {0, 8, NvlsUse::kAnyCall},
  };
  for (const auto& row : rows) EXPECT_EQ(nvls_use(row.version, row.ranks), row.use) << row.version << ' ' << row.ranks;
}

// The pairs of ncclNvlsSupported() in NCCL's src/include/device.h.
TEST(Nvls, TypesAndOperations) {
  std::set<std::pair<int, int>> reduced;
  for (const int type : {ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16, ncclBfloat16}) {
    for (const int op : {ncclSum, ncclMax, ncclMin}) reduced.emplace(type, op);
  }
  reduced.emplace(ncclFloat32, ncclSum);
  reduced.emplace(ncclFloat64, ncclSum);
  for (int type = 0; type < ncclNumTypes; ++type) {
    for (int op = 0; op <= ncclNumOps; ++op) {
      for (int kind = 0; kind < kCollectiveKinds; ++kind) {
        const auto of_kind = static_cast<CallKind>(kind);
        const bool by_switches = of_kind == CallKind::kAllReduce || of_kind == CallKind::kReduceScatter;
        const bool expected = of_kind == CallKind::kAllGather || (by_switches && reduced.contains({type, op}));
        const auto ask = [&](NvlsUse use) {
          return may_use_nvls(use, of_kind, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(op));
        };
        EXPECT_EQ(ask(NvlsUse::kSomeCalls), expected) << name(of_kind) << ' ' << type << ' ' << op;
        EXPECT_TRUE(ask(NvlsUse::kAnyCall));
        EXPECT_FALSE(ask(NvlsUse::kNoCall));
      }
    }
  }
}

TEST(WinsTable, WithoutNvls) {
  const WinsTable whole = WinsTable::parse(
      R"({"format": "plait-nccl-wins 1", "name": "x", "gpu": "y", "ranks": 2, "nvls": false, "wins": [
        {"collective": "all_reduce", "op": "sum", "types": ["int8", "float32"], "captured": false, "from": 1, "to": 64},
        {"collective": "all_gather", "captured": false, "from": 1, "to": 64},
        {"collective": "broadcast", "captured": false, "from": 16, "to": 64},
        {"collective": "broadcast", "captured": true, "from": 1, "to": 64}]})",
      "file");
  EXPECT_EQ(whole.collectives(false), "all_reduce, all_gather, broadcast");
  const WinsTable part = whole.without_nvls(NvlsUse::kSomeCalls);
  EXPECT_EQ(part.collectives(false), "all_reduce, broadcast");
  EXPECT_EQ(whole.without_nvls(NvlsUse::kAnyCall).collectives(false), "nothing");
  EXPECT_NE(part.digest(), whole.digest());
  EXPECT_NE(part.digest(), whole.without_nvls(NvlsUse::kAnyCall).digest());
  EXPECT_TRUE(part.has(CallKind::kAllReduce, ncclInt8, ncclSum, 32, false));
  EXPECT_FALSE(part.has(CallKind::kAllReduce, ncclFloat32, ncclSum, 32, false));
  EXPECT_NE(part.why_left_out(CallKind::kAllReduce, ncclFloat32, ncclSum), nullptr);
  EXPECT_EQ(part.why_left_out(CallKind::kAllReduce, ncclInt8, ncclSum), nullptr);
  EXPECT_EQ(whole.why_left_out(CallKind::kAllGather, ncclInt8, ncclSum), nullptr);
  EXPECT_FALSE(part.has(CallKind::kAllGather, ncclInt8, ncclSum, 32, false));
  const auto rows = part.rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].types, std::vector<int>{ncclInt8});
  EXPECT_EQ(rows[1].types.size(), static_cast<size_t>(ncclNumTypes));
  EXPECT_FALSE(rows[1].is_captured);
  EXPECT_TRUE(rows[2].is_captured);
  EXPECT_EQ(rows[1].from, 16u);
}

}  // namespace
}  // namespace plait::nccl

// Settings, votes, tables and names of the drop-in.
#include <gtest/gtest.h>

#include <vector>

#include "api/nccl/notices.hpp"
#include "api/nccl/take_setting.hpp"
#include "api/nccl/vote.hpp"
#include "api/nccl/wins.hpp"
#include "base/error.hpp"

namespace plait::nccl {
namespace {

TEST(TakeSetting, IsReadAsWritten) {
  for (const char* text : {"none", "wins", "all", "none,graphs", "wins,graphs", "all,graphs"}) {
    EXPECT_EQ(TakeSetting::parse(text).text(), text);
  }
  EXPECT_EQ(TakeSetting::parse("").text(), "wins");
  for (const char* text : {"some", "all ", "graphs", ",graphs", "all,graph", "all,graphs,graphs", "ALL"}) {
    EXPECT_THROW(TakeSetting::parse(text), Error) << text;
  }
}

TEST(Vote, EveryDifferenceIsANo) {
  std::vector<Vote> votes(3);
  for (int rank = 0; rank < 3; ++rank) {
    votes[static_cast<size_t>(rank)].yes = 1;
    votes[static_cast<size_t>(rank)].rank = rank;
    votes[static_cast<size_t>(rank)].process = 100 + rank;
  }
  votes[0].id.internal[0] = 'x';
  const VoteResult yes = count_votes(votes);
  EXPECT_EQ(yes.yes, 1);
  EXPECT_EQ(yes.id.internal[0], 'x');
  const auto after = [&](auto change) {
    std::vector<Vote> changed = votes;
    change(changed[2]);
    return count_votes(changed);
  };
  EXPECT_EQ(after([](Vote& vote) { vote.yes = 0; }).yes, 0);
  EXPECT_EQ(after([](Vote& vote) { vote.version = 1; }).yes, 0);
  EXPECT_EQ(after([](Vote& vote) { vote.take.set("all"); }).yes, 0);
  EXPECT_EQ(after([](Vote& vote) { vote.gpu.set("other"); }).yes, 0);
  EXPECT_EQ(after([](Vote& vote) { vote.table[31] = 1; }).yes, 0);
  EXPECT_EQ(after([](Vote& vote) { vote.process = 101; }).yes, 0);
  EXPECT_EQ(after([](Vote& vote) { vote.reason.set("no matter"); }).yes, 1);
}

TEST(Vote, LongTextsAreCut) {
  Reason reason;
  reason.set(std::string(1000, 'a'));
  EXPECT_EQ(std::string(reason.c_str()), std::string(383, 'a'));
  reason.set("b");
  EXPECT_EQ(std::string(reason.c_str()), "b");
}

TEST(WinsTable, TheDropInsOwnCanBeRead) {
  const auto texts = plait::internal::nccl_wins_texts();
  EXPECT_GE(texts.size(), 3u);
  for (const auto& [name, text] : texts) {
    const WinsTable table = WinsTable::parse(text, name);
    EXPECT_EQ(table.name(), name);
    EXPECT_NE(table.collectives(false), "nothing") << name;
    EXPECT_NE(table.collectives(true), "nothing") << name;
  }
}

TEST(WinsTable, ErrorsNameFileAndLine) {
  for (const char* text : {"", "{}", R"({"format": "plait-nccl-wins 0"})"})
    EXPECT_THROW(WinsTable::parse(text, "f"), Error);
  try {
    WinsTable::parse(R"({"format": "plait-nccl-wins 1", "name": "x", "gpu": "y", "ranks": 2, "nvls": false, "wins": [
      {"collective": "all_reduced", "captured": true, "from": 1, "to": 2}]})",
                     "table.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("table.json:2: expected a collective"), std::string::npos) << error.what();
  }
}

TEST(Notices, FilePatterns) {
  EXPECT_EQ(expand_file_pattern("/tmp/%h.%p.%%x%", "host", 12), "/tmp/host.12.%x%");
  EXPECT_EQ(expand_file_pattern("/tmp/%q", "host", 12), "/tmp/%q");
}

}  // namespace
}  // namespace plait::nccl

// Tests what the tuner makes of rows that `plait tune` measured.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/error.hpp"
#include "topology/machines.hpp"
#include "tuner/tuner.hpp"

namespace plait {
namespace {

constexpr const char* kPlace =
    R"({"machine": "hgx-h100-8", "device": "NVIDIA H100 80GB HBM3", "devices": 4, "cores": 0, "nodes": 1})";
constexpr const char* kSource = R"({"machine": "m", "date": "d", "command": "c", "commit": "e"})";

std::string profile_text(const std::string& rules, const std::string& rows = "", const std::string& place = kPlace) {
  return join(R"({"format": "plait-profile 1", "name": "mine", "fits": {"fabric": "any"}, "source": )", kSource,
              R"(, "costs": {"signal_us": {"nvlink": 1}}, "measured_on": {"gpus": ["B200"], "ranks": 2,)",
              R"j( "most_ranks": 2}, "algorithms": [{"choose": "flat(store)", "reason": "a table"}],)j",
              R"j( "zero_copy": [{"choose": "flat(load, zero_copy, engine=copy)", "reason": "a table"}],)j",
              R"( "tuned": [{"collective": "all_reduce", "ranks": 4, "place": )", place, R"(, "source": )", kSource,
              R"(, "rules": [)", rules, R"(], "rows": [)", rows, "]}]}");
}

Tuner tuner_with(const std::string& profile, int ranks = 4, const char* on = "hgx-h100-8", int max_sms = 0) {
  Settings settings;
  settings.max_sms = max_sms;
  RankMachine ranks_on = place_on(machine(on), ranks, settings);
  ranks_on.given_profile = std::make_shared<const Profile>(parse_profile(profile, "f"));
  ranks_on.profile = ranks_on.given_profile.get();
  return Tuner(std::move(ranks_on), settings, {}, true);
}

Choice choose(Tuner tuner, size_t bytes, Collective collective = Collective::kAllReduce, bool only_simple = false) {
  Query query{collective, bytes};
  query.only_simple = only_simple;
  return tuner.choose(query);
}

constexpr const char* kOneShot =
    R"j({"from": 1024, "to": 65536, "choose": "one_shot(store)", "protocol": "LL", "reason": "tuned"})j";

TEST(TunedChoice, GoesBeforeOtherTablesWithinItsSizes) {
  for (const size_t bytes : {1024, 5000, 65536}) {
    const Choice choice = choose(tuner_with(profile_text(kOneShot)), bytes);
    EXPECT_EQ(choice.plan.text(), "one_shot(store)");
    EXPECT_EQ(choice.launch.protocol, Protocol::kLl);
    EXPECT_TRUE(choice.is_tuned && choice.is_measured);
    EXPECT_EQ(choice.reason(), "measured: tuned");  // and no guess from elsewhere
    EXPECT_FALSE(choice.zero_copy.has_value());
  }
  for (const size_t bytes : {1023, 65537}) {
    const Choice choice = choose(tuner_with(profile_text(kOneShot)), bytes);
    EXPECT_NE(choice.plan.text(), "one_shot(store)") << bytes;
    EXPECT_FALSE(choice.is_tuned);
    EXPECT_TRUE(choice.zero_copy.has_value());
  }
}

TEST(TunedChoice, IsForTheseRanksOnly) {
  const std::string profile = profile_text(kOneShot);
  EXPECT_FALSE(choose(tuner_with(profile, 3), 4096).is_tuned);
  EXPECT_FALSE(choose(tuner_with(profile, 4, "hgx-h200-8"), 4096).is_tuned);
  EXPECT_FALSE(choose(tuner_with(profile, 4, "hgx-h100-8", 16), 4096).is_tuned);  // few SMs
  EXPECT_FALSE(choose(tuner_with(profile), 4096, Collective::kAllGather).is_tuned);
  std::string place = kPlace;
  EXPECT_FALSE(
      choose(tuner_with(profile_text(kOneShot, "", place.replace(place.find("\"devices\": 4"), 12, "\"devices\": 2"))),
             4096)
          .is_tuned);
}

TEST(TunedChoice, LeavesCallsAloneThatInsist) {
  EXPECT_EQ(choose(tuner_with(profile_text(kOneShot)), 4096, Collective::kAllReduce, true).launch.protocol,
            Protocol::kSimple);
  Settings settings;
  settings.algorithm = "all_reduce:flat(load)";
  RankMachine ranks_on = place_on(machine("hgx-h100-8"), 4, settings);
  ranks_on.given_profile = std::make_shared<const Profile>(parse_profile(profile_text(kOneShot), "f"));
  ranks_on.profile = ranks_on.given_profile.get();
  const Choice choice = Tuner(std::move(ranks_on), settings, {}, true).choose({Collective::kAllReduce, 4096});
  EXPECT_EQ(choice.plan.text(), "flat(load)");
  EXPECT_TRUE(choice.is_forced && !choice.is_tuned);
}

TEST(TunedChoice, MayGoFromBufferToBuffer) {
  const std::string rule =
      R"j({"from": 0, "to": 1048576, "choose": "flat(load, zero_copy, engine=sm)", "reason": "tuned"})j";
  const Choice choice = choose(tuner_with(profile_text(rule)), 4096);
  ASSERT_TRUE(choice.zero_copy.has_value());
  EXPECT_EQ(choice.zero_copy->arguments.engine, Engine::kSm);
  EXPECT_TRUE(choice.is_tuned);
  EXPECT_EQ(choice.reason(), "measured: tuned");
}

TEST(TunedChoice, ShowsItsTimes) {
  const std::string rows =
      R"j({"bytes": 1024, "choose": "one_shot(store)", "us": 3}, {"bytes": 4096, "choose": "one_shot(store)", "us": 5})j";
  Tuner tuner = tuner_with(profile_text(kOneShot, rows));
  int ranges_with_times = 0;
  for (const ChoiceRange& range : tuner.ranges({Collective::kAllReduce}, 1 << 20)) {
    if (range.measured.empty()) continue;
    ++ranges_with_times;
    EXPECT_EQ(range.choice.plan.text(), "one_shot(store)");
    ASSERT_EQ(range.measured.size(), 2u);
    EXPECT_DOUBLE_EQ(range.measured[1].seconds, 5e-6);
    EXPECT_EQ(range.measured_source, "m; d, commit e: c");
  }
  EXPECT_EQ(ranges_with_times, 1);
}

TEST(TunedChoice, RefusesRowsThatCannotBe) {
  for (const char* wrong : {R"({"from": 2, "to": 1, "choose": "ring", "reason": ""})",
                            R"({"from": 1, "to": 2, "choose": "no_such_ring", "reason": ""})",
                            R"j({"from": 1, "to": 2, "choose": "ring( )", "reason": ""})j",
                            R"({"from": 1, "to": 2, "choose": "ring", "protocol": "LL64", "reason": ""})",
                            R"({"from": 1, "choose": "ring", "reason": ""})"}) {
    EXPECT_THROW(parse_profile(profile_text(wrong), "f"), Error) << wrong;
  }
  for (const char* wrong : {R"({"bytes": 8, "choose": "ring"})",
                            R"({"bytes": 8, "choose": "ring", "us": 1}, {"bytes": 8, "choose": "ring", "us": 1})"}) {
    EXPECT_THROW(parse_profile(profile_text(kOneShot, wrong), "f"), Error) << wrong;
  }
}

}  // namespace
}  // namespace plait

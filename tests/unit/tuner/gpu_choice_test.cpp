// Tests the choices for calls on GPUs: each must make a plan that verifies and a launch that the runtime takes.
#include "support/gpu_choice.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "plan/verifier.hpp"
#include "support/outcome.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using test::choose_on_gpus;
using test::GpuQuery;
using test::made;

GpuQuery query_of(Collective collective, size_t bytes, int ranks) {
  GpuQuery query;
  query.collective = collective;
  query.bytes = bytes;
  query.ranks = ranks;
  return query;
}

TEST(LaunchShape, ReadsWhatItWrites) {
  const LaunchShape shape = parse_launch_shape("LL128:48x256");
  EXPECT_EQ(shape, (LaunchShape{Protocol::kLl128, 48, 256}));
  EXPECT_EQ(to_text(shape, 1), "48 channels, 48 CTAs of 256 threads, LL128");
  EXPECT_EQ(to_text(parse_launch_shape("Simple:1x64"), 1), "1 channel, 1 CTA of 64 threads, Simple");
  const LaunchShape with_host = parse_launch_shape("Simple:62x512+4:8.25%");
  EXPECT_EQ(with_host, (LaunchShape{Protocol::kSimple, 62, 512, {4, 0.0825}}));
  EXPECT_EQ(to_text(with_host, 2),
            "62 channels, 124 CTAs of 512 threads, Simple, and 4 channels, 8 CTAs for 8.3% through host memory");
  // In any case, and by its former name.
  for (const char* spelling : {"LL128:48x256", "ll128:48x256", "lines:48x256"}) {
    EXPECT_EQ(parse_launch_shape(spelling), shape) << spelling;
  }
  for (const char* wrong : {"",
                            "LL128",
                            "LL128:",
                            "LL128:8",
                            "LL128:8x",
                            "LL128:8x65",
                            "LL128:8x32",
                            "LL128:0x64",
                            "LL128:-1x64",
                            "LL128:8x64 ",
                            "l:8x64",
                            ":8x64",
                            "LL:8:64",
                            "LL128:8x64+4:8%",
                            "Simple:65x512",
                            "Simple:8x544",
                            "Simple:8x64+",
                            "Simple:8x64+4",
                            "Simple:8x64+4:8",
                            "Simple:8x64+0:8%",
                            "Simple:8x64+5:8%",
                            "Simple:8x64+4:0%",
                            "Simple:8x64+4:100%",
                            "Simple:8x64+4:nan%",
                            "Simple:8x64+4:8%%"}) {
    const test::Outcome outcome = test::outcome_of([&](int) { parse_launch_shape(wrong); }, 0);
    EXPECT_EQ(test::objection(outcome, ErrorCode::kInvalidArgument, {"PLAIT_LAUNCH", "Simple:16x512"}), "") << wrong;
  }
}

// Times from one size to the next.
constexpr size_t kStep = test::kSanitized ? 81 : 3;

TEST(GpuChoice, EveryChoiceVerifiesAndCanBeLaunched) {
  for (int c = 0; c < kCollectiveCount; ++c) {
    for (const int ranks : {1, 2, 3, 4, 8, 16}) {
      for (size_t bytes = 0; bytes <= size_t{1} << 30; bytes = bytes * kStep + 1) {
        for (const int sharing : {1, ranks}) {
          GpuQuery query = query_of(static_cast<Collective>(c), bytes, ranks);
          query.root = has_root(query.collective) ? ranks - 1 : 0;
          query.ranks_per_device = sharing;
          query.processors = 108;
          const Choice choice = choose_on_gpus(query);
          const VerifiedPlan plan = made(choice.plan);
          const LaunchShape& launch = choice.launch;
          EXPECT_GE(launch.channels, 1);
          EXPECT_LE(launch.channels, 64);
          EXPECT_GE(launch.threads, 64);
          EXPECT_LE(launch.threads, 512);
          EXPECT_EQ(launch.threads % 32, 0);
          EXPECT_FALSE(choice.plan.reason.empty());
          if (choice.ending) {
            EXPECT_NO_THROW(made(*choice.ending));
            EXPECT_FALSE(choice.ending->reason.empty());
          }
          const int queues = static_cast<int>(plan.plan().ranks[0].queues.size());
          EXPECT_LE(queues, 3);
          EXPECT_TRUE(launch.protocol == Protocol::kSimple || queues == 1);
          // CTAs that wait for each other fit: one of 512 threads on an SM, or two of 256.
          if (queues > 1 || (sharing > 1 && launch.channels > 1)) {
            EXPECT_LE(launch.channels * queues * sharing, query.processors * (launch.threads > 256 ? 1 : 2))
                << to_text(launch, queues) << " for " << bytes << " bytes, " << ranks << " ranks";
          }
        }
      }
    }
  }
}

TEST(GpuChoice, KeepsNoMoreSmsBusyThanItMay) {
  for (const int most : {8, 20, 100}) {
    for (int c = 0; c < kCollectiveCount; ++c) {
      for (const int ranks : {2, 4, 8}) {
        for (size_t bytes = 1; bytes <= size_t{1} << 30; bytes = bytes * kStep + 1) {
          GpuQuery query = query_of(static_cast<Collective>(c), bytes, ranks);
          query.host_path = true;
          query.most_sms = most;
          const Choice choice = choose_on_gpus(query);
          const Plan plan = made(choice.plan).plan();
          for (const RankPlan& rank : plan.ranks) {
            EXPECT_LE(choice.launch.channels * static_cast<int>(rank.queues.size()), most)
                << plan.algorithm << ", " << choice.launch_text() << ", " << name(query.collective) << " of " << bytes
                << " bytes over " << ranks << " ranks";
          }
          EXPECT_EQ(choice.launch.host.channels, 0);
        }
      }
    }
  }
}

// A channel has a CTA for each queue of the plan.
TEST(GpuChoice, SaysHowManyChannelsAndHowManyCtas) {
  const auto launch_of = [](size_t bytes, const std::string& algorithm, bool host_path = false, int ranks = 4) {
    GpuQuery query = query_of(Collective::kAllReduce, bytes, ranks);
    query.host_path = host_path;
    return choose_on_gpus(query, algorithm).launch_text();
  };
  EXPECT_EQ(launch_of(8, ""), "1 channel, 1 CTA of 64 threads, LL");
  EXPECT_EQ(launch_of(64 << 20, "all_reduce:flat(store)"), "64 channels, 64 CTAs of 256 threads, Simple");
  EXPECT_EQ(launch_of(64 << 20, ""), "64 channels, 192 CTAs of 256 threads, Simple");
  EXPECT_EQ(launch_of(16 << 20, "", false, 2),
            "64 channels, 128 CTAs of 512 threads, Simple, the last slice of each channel as flat(both, parts=4)");
  EXPECT_EQ(launch_of(256 << 20, "").substr(0, 18), "copy engines, else");
  EXPECT_NE(launch_of(512 << 20, "", true, 2).find(" channels, 8 CTAs for "), std::string::npos);
}

TEST(GpuChoice, FlagsForSmallMessagesAndQueuesForLongOnes) {
  const auto choose = [](size_t bytes, bool lines = true) {
    GpuQuery query = query_of(Collective::kAllReduce, bytes, 4);
    query.lines = lines;
    return choose_on_gpus(query);
  };
  EXPECT_EQ(choose(8).plan.algorithm, "one_shot");
  EXPECT_EQ(choose(8).launch, (LaunchShape{Protocol::kLl, 1, 64}));
  EXPECT_EQ(choose(256 << 10).launch.protocol, Protocol::kLl128);
  EXPECT_EQ(choose(256 << 10, false).launch.protocol, Protocol::kSimple);
  EXPECT_EQ(choose(4 << 20).plan.algorithm, "flat");
  EXPECT_EQ(choose(4 << 20).plan.arguments.parts, 1);
  const GpuQuery huge = query_of(Collective::kAllReduce, size_t{1} << 63, 3);  // twice that is 0
  EXPECT_EQ(choose_on_gpus(huge).plan.algorithm, "flat");
  EXPECT_EQ(choose(64 << 20).plan.arguments.parts, 2);
}

// Two steps would store as many bytes.
TEST(GpuChoice, TwoGpusNeedOneStep) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kReduce, Collective::kBroadcast}) {
    for (const size_t bytes : {size_t{8}, size_t{4} << 20, size_t{1} << 30}) {
      EXPECT_EQ(choose_on_gpus(query_of(collective, bytes, 2)).plan.algorithm, "one_shot");
    }
  }
}

TEST(GpuChoice, TwoGpusFetchTheEndOfWhatIsTooLongForLines) {
  const auto choose = [](Collective collective, size_t bytes, int ranks = 2) {
    return choose_on_gpus(query_of(collective, bytes, ranks));
  };
  const auto ends_by_fetching = [](const Choice& choice) {
    const bool fetches = choice.ending.has_value();
    if (!fetches) return false;
    EXPECT_EQ(choice.plan.arguments.parts, 2);
    EXPECT_EQ(choice.ending->text(), "flat(both, parts=4)");
    EXPECT_EQ(choice.launch.protocol, Protocol::kSimple);
    const auto queues = [](const PlanChoice& it) { return made(it).plan().ranks[0].queues.size(); };
    EXPECT_EQ(queues(*choice.ending), queues(choice.plan));
    return true;
  };
  for (int c = 0; c < kCollectiveCount; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (collective == Collective::kBarrier) continue;
    const size_t all = has_rank_blocks(collective) ? 2 : 1;  // of what crosses a link
    EXPECT_FALSE(ends_by_fetching(choose(collective, all * (2 << 20)))) << name(collective);
    EXPECT_TRUE(ends_by_fetching(choose(collective, all * (3 << 20)))) << name(collective);
    EXPECT_TRUE(ends_by_fetching(choose(collective, all * (32 << 20)))) << name(collective);
    EXPECT_FALSE(choose(collective, all * (32 << 20)).zero_copy) << name(collective);
    EXPECT_EQ(ends_by_fetching(choose(collective, all * (128 << 20))), has_root(collective)) << name(collective);
    EXPECT_FALSE(ends_by_fetching(choose(collective, all * (32 << 20), 4))) << name(collective);
  }
  GpuQuery query = query_of(Collective::kAllReduce, 16 << 20, 2);
  EXPECT_FALSE(choose_on_gpus(query, "all_reduce:one_shot_push(2)").ending);
  EXPECT_FALSE(choose_on_gpus(query, "", LaunchShape{Protocol::kSimple, 64, 512}).ending);
  EXPECT_FALSE(choose_on_gpus(query, "all_reduce:push_pull").ending);
  query.bytes = 8;  // it has two queues, so no flags
  EXPECT_EQ(choose_on_gpus(query, "all_reduce:push_pull").launch.protocol, Protocol::kSimple);
  query.bytes = 16 << 20;
  query.lines = false;  // no NVLink
  EXPECT_FALSE(choose_on_gpus(query).ending);
  query.lines = true;
  query.blocks_stay = false;
  EXPECT_FALSE(choose_on_gpus(query).ending);
  query.blocks_stay = true;
  EXPECT_TRUE(choose_on_gpus(query).ending);
  query.most_sms = 8;  // for several queues there are too few
  EXPECT_FALSE(choose_on_gpus(query).ending);
  query.collective = Collective::kBarrier;
  query.most_sms = 0;
  EXPECT_FALSE(choose_on_gpus(query).ending);
}

TEST(GpuChoice, LongMessagesToOrFromOneGpuGoAlongAChain) {
  GpuQuery query = query_of(Collective::kReduce, 64 << 20, 4);
  EXPECT_EQ(choose_on_gpus(query).plan.algorithm, "chain");
  query.type = DataType::kBfloat16;  // they would be twice as long on the way
  EXPECT_EQ(choose_on_gpus(query).plan.algorithm, "flat");
  EXPECT_EQ(choose_on_gpus(query_of(Collective::kBroadcast, 64 << 20, 3)).plan.algorithm, "chain");
  EXPECT_EQ(choose_on_gpus(query_of(Collective::kBroadcast, 1 << 20, 3)).plan.algorithm, "flat");
  EXPECT_EQ(choose_on_gpus(query_of(Collective::kBroadcast, 64 << 20, 8)).plan.algorithm, "flat");
}

TEST(GpuChoice, ObeysOverrides) {
  const GpuQuery query = query_of(Collective::kAllReduce, 64 << 20, 4);
  const LaunchShape lines{Protocol::kLl128, 32, 512};
  const Choice launched = choose_on_gpus(query, "", lines);
  EXPECT_EQ(launched.launch, lines);
  EXPECT_EQ(launched.plan.arguments.parts, 1);  // flags need one queue
  const Choice pinned = choose_on_gpus(query, "all_reduce:ring");
  EXPECT_EQ(pinned.plan.algorithm, "ring");
  EXPECT_EQ(pinned.plan.arguments.engine, Engine::kSm);
}

// ---- Straight from buffer to buffer, by SMs or copy engines.

bool has_zero_copy(const GpuQuery& query) { return choose_on_gpus(query).zero_copy.has_value(); }

TEST(GpuChoice, FewSmsCombineLongMessagesOverSeveralGpusAndAllWhereNoMoreMayBeBusy) {
  GpuQuery query = query_of(Collective::kAllReduce, 256 << 20, 4);
  const Choice choice = choose_on_gpus(query);
  ASSERT_TRUE(choice.zero_copy);
  EXPECT_EQ(choice.zero_copy->text().substr(0, 22), "flat(load, zero_copy, ");
  EXPECT_EQ(choice.zero_copy->arguments.engine, Engine::kCopy);
  EXPECT_FALSE(has_zero_copy(query_of(Collective::kAllReduce, 128 << 20, 4)));
  for (const int ranks : {2, 3, 8}) EXPECT_FALSE(has_zero_copy(query_of(Collective::kAllReduce, 1 << 30, ranks)));
  EXPECT_FALSE(has_zero_copy(query_of(Collective::kReduceScatter, 1 << 30, 4)));
  query.maps_buffers = false;
  EXPECT_FALSE(has_zero_copy(query));

  for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather}) {
    GpuQuery few = query_of(collective, 1 << 20, 2);
    EXPECT_FALSE(has_zero_copy(few)) << name(collective);
    few.most_sms = 8;
    EXPECT_TRUE(has_zero_copy(few)) << name(collective);
    few.bytes = 64 << 10;
    EXPECT_FALSE(has_zero_copy(few)) << name(collective);
    few.bytes = 1 << 20;
    few.most_sms = 100;  // which is not few
    EXPECT_FALSE(has_zero_copy(few)) << name(collective);
  }
}

// What copy engines and, where they cannot, kernels would perform is right, and says of itself what it is.
void expect_good_zero_copy(const GpuQuery& query, const Choice& choice, Engine engine = Engine::kCopy) {
  ASSERT_TRUE(choice.zero_copy) << name(query.collective) << ", " << query.bytes << " bytes";
  EXPECT_EQ(choice.zero_copy->text().substr(0, 22), "flat(load, zero_copy, ");
  const AlgorithmArguments& arguments = choice.zero_copy->arguments;
  EXPECT_EQ(arguments.collective, query.collective);
  EXPECT_EQ(arguments.ranks, query.ranks);
  EXPECT_EQ(arguments.root, query.root);
  EXPECT_EQ(arguments.engine, engine);
  EXPECT_EQ(arguments.access, Access::kZeroCopy);
  made(*choice.zero_copy);
  EXPECT_EQ(choice.plan.arguments.access, Access::kStaged);
  EXPECT_EQ(choice.plan.arguments.engine, Engine::kSm);
  EXPECT_EQ(choice.plan.arguments.access, Access::kStaged);
  made(choice.plan);
}

TEST(GpuChoice, LongMessagesThatNobodyCombinesGoDirectly) {
  constexpr size_t kLinkBytes = 4 << 20, kCopyEngineBytes = 48 << 20,
                   kManyCopyEngineBytes = 56 << 20;  // across the links of the busiest GPU
  for (const Collective collective :
       {Collective::kAllGather, Collective::kGather, Collective::kScatter, Collective::kAllToAll}) {
    for (const size_t ranks : {2, 4, 7, 16}) {  // of two, those that nothing but PCIe joins
      const size_t least = (kLinkBytes + ranks - 2) / (ranks - 1) * ranks;
      GpuQuery query = query_of(collective, least, static_cast<int>(ranks));
      query.root = has_root(collective) ? 1 : 0;
      query.lines = ranks > 2;
      const Choice choice = choose_on_gpus(query);
      expect_good_zero_copy(query, choice, Engine::kSm);
      EXPECT_FALSE(choice.insists_on_zero_copy);
      EXPECT_FALSE(choice.zero_copy.value_or(PlanChoice{}).reason.empty());
      query.bytes = ((ranks > 2 ? kManyCopyEngineBytes : kCopyEngineBytes) + ranks - 2) / (ranks - 1) * ranks;
      expect_good_zero_copy(query, choose_on_gpus(query));
      query.bytes -= ranks;
      expect_good_zero_copy(query, choose_on_gpus(query), Engine::kSm);
      query.bytes = SIZE_MAX;
      expect_good_zero_copy(query, choose_on_gpus(query));
      query.bytes = least - ranks;
      EXPECT_FALSE(has_zero_copy(query)) << name(collective) << " over " << ranks;
      query.bytes = 0;
      EXPECT_FALSE(has_zero_copy(query));
    }
  }
}

// Kernels are as good up to a greater length.
TEST(GpuChoice, OverTwoGpusThatNvlinkJoinsCopyEnginesAlone) {
  for (const Collective collective : {Collective::kAllGather, Collective::kGather, Collective::kScatter,
                                      Collective::kAllToAll, Collective::kBroadcast}) {
    const size_t all = has_rank_blocks(collective) ? 2 : 1;
    GpuQuery query = query_of(collective, all * (128 << 20), 2);
    expect_good_zero_copy(query, choose_on_gpus(query));
    query.bytes -= all;
    EXPECT_FALSE(has_zero_copy(query)) << name(collective);
    query.bytes = all * (1 << 20);
    query.most_sms = 8;
    expect_good_zero_copy(query, choose_on_gpus(query), Engine::kSm);
  }
}

// Over more than two GPUs all would fetch from one.
TEST(GpuChoice, ABroadcastGoesDirectlyBetweenTwoOnly) {
  const auto pair = [](size_t bytes) {
    GpuQuery query = query_of(Collective::kBroadcast, bytes, 2);
    query.lines = false;
    return query;
  };
  expect_good_zero_copy(pair(48 << 20), choose_on_gpus(pair(48 << 20)));
  expect_good_zero_copy(pair(8 << 20), choose_on_gpus(pair(8 << 20)), Engine::kSm);
  EXPECT_FALSE(has_zero_copy(pair((8 << 20) - 1)));
  EXPECT_FALSE(has_zero_copy(query_of(Collective::kBroadcast, size_t{1} << 34, 3)));
}

TEST(GpuChoice, NothingElseGoesDirectly) {
  constexpr size_t kHuge = size_t{1} << 34;
  for (const Collective collective : {Collective::kReduce, Collective::kReduceScatter, Collective::kBarrier}) {
    for (const int ranks : {1, 2, 4})
      EXPECT_FALSE(has_zero_copy(query_of(collective, kHuge, ranks))) << name(collective);
  }
  for (const int ranks : {1, 2}) EXPECT_FALSE(has_zero_copy(query_of(Collective::kAllReduce, kHuge, ranks)));
  GpuQuery query = query_of(Collective::kAllGather, kHuge, 4);
  EXPECT_TRUE(has_zero_copy(query));
  query.ranks_per_device = 2;
  EXPECT_FALSE(has_zero_copy(query));
  EXPECT_FALSE(has_zero_copy(query_of(Collective::kAllGather, kHuge, 1)));
  query.ranks_per_device = 1;
  query.maps_buffers = false;
  EXPECT_FALSE(has_zero_copy(query));
}

TEST(GpuChoice, NothingDirectlyWhereBuffersCannotBeMappedWhoeverInsists) {
  GpuQuery query = query_of(Collective::kAllGather, 1000, 4);
  const std::string overrides = "all_gather:pull";
  EXPECT_TRUE(choose_on_gpus(query, overrides).zero_copy);
  query.maps_buffers = false;
  const Choice choice = choose_on_gpus(query, overrides);
  EXPECT_FALSE(choice.zero_copy);
  EXPECT_EQ(choice.plan.algorithm, "flat");
}

TEST(GpuChoice, WhatFollowsFromHowGpusReachEachOther) {
  for (const bool in_one_process : {false, true}) {
    for (const PeerMemoryKind peer_memory :
         {PeerMemoryKind::kAuto, PeerMemoryKind::kVmm, PeerMemoryKind::kIpc, PeerMemoryKind::kHost}) {
      GpuQuery query;
      query.set_peer_memory(peer_memory, in_one_process);
      EXPECT_EQ(query.maps_buffers, peer_memory != PeerMemoryKind::kHost) << name(peer_memory);
      EXPECT_EQ(query.blocks_stay, in_one_process || peer_memory != PeerMemoryKind::kIpc) << name(peer_memory);
    }
  }
}

TEST(GpuChoice, WhoPinsKernelsGetsNothingDirectly) {
  const GpuQuery query = query_of(Collective::kAllGather, 1 << 30, 4);
  const LaunchShape launch{Protocol::kSimple, 32, 512};
  EXPECT_FALSE(choose_on_gpus(query, "", launch).zero_copy);
  const Choice pinned = choose_on_gpus(query, "all_gather:push");
  EXPECT_FALSE(pinned.zero_copy);
  EXPECT_FALSE(pinned.insists_on_zero_copy);
  EXPECT_EQ(pinned.plan.algorithm, "flat");
  EXPECT_TRUE(choose_on_gpus(query, "all_reduce:ring").zero_copy);  // of other calls
}

TEST(GpuChoice, WhoPinsPullMaySayByWhom) {
  for (const size_t bytes : {size_t{1}, size_t{1} << 30}) {
    const GpuQuery query = query_of(Collective::kAllGather, bytes, 4);
    for (const Engine engine : {Engine::kSm, Engine::kCopy}) {
      const auto overrides = join("all_gather:pull(", name(engine), ")");
      expect_good_zero_copy(query, choose_on_gpus(query, overrides), engine);
    }
  }
}

TEST(GpuChoice, WhoPinsPullGetsItAtAnySizeAndKernelsBesides) {
  const std::string overrides = "broadcast:pull,all_gather:pull,gather:pull,scatter:pull,all_to_all:pull";
  const LaunchShape launch{Protocol::kSimple, 16, 256};
  for (const Collective collective : {Collective::kBroadcast, Collective::kAllGather, Collective::kGather,
                                      Collective::kScatter, Collective::kAllToAll}) {
    for (const int ranks : {1, 2, 5}) {
      for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, size_t{1} << 30}) {
        GpuQuery query = query_of(collective, bytes, ranks);
        query.root = has_root(collective) ? ranks - 1 : 0;
        const Choice free = choose_on_gpus(query);
        const Choice choice = choose_on_gpus(query, overrides);
        expect_good_zero_copy(query, choice);
        EXPECT_TRUE(choice.insists_on_zero_copy);
        EXPECT_EQ(choice.plan.algorithm, free.plan.algorithm);
        EXPECT_EQ(choice.plan.arguments.parts, free.plan.arguments.parts);
        EXPECT_EQ(choice.launch, free.launch);
        const Choice launched = choose_on_gpus(query, overrides, launch);
        expect_good_zero_copy(query, launched);
        EXPECT_EQ(launched.launch, launch);
      }
    }
  }
}

// ---- Messages between two ranks.

TEST(GpuChoice, LongMessagesGoStraightFromBufferToBuffer) {
  GpuQuery query;
  query.ranks = 4;
  const auto engine = [&](size_t bytes, const char* overrides = "") {
    query.bytes = bytes;
    return test::tuner_for(query, overrides, {}).choose_message(bytes).direct;
  };
  EXPECT_EQ(engine(0), std::nullopt);
  EXPECT_EQ(engine(1 << 20), std::nullopt);
  EXPECT_EQ(engine(16 << 20), Engine::kSm);
  EXPECT_EQ(engine(256 << 20), Engine::kCopy);
  EXPECT_EQ(engine(256 << 20, "send_receive:push"), std::nullopt);
  EXPECT_EQ(engine(8, "all_reduce:ring,send_receive:pull"), Engine::kCopy);
  EXPECT_EQ(engine(256 << 20, "send_receive:pull(sm)"), Engine::kSm);
  EXPECT_EQ(engine(0, "send_receive:pull"), std::nullopt);
  query.ranks_per_device = 2;  // which may be right, but was not measured to be faster
  EXPECT_EQ(engine(256 << 20), std::nullopt);
  EXPECT_EQ(engine(256 << 20, "send_receive:pull"), Engine::kCopy);
  query.maps_buffers = false;
  EXPECT_EQ(engine(256 << 20, "send_receive:pull"), std::nullopt);
}

// ---- The host path.

HostPath host_path(Collective collective, size_t bytes, int ranks = 2) {
  GpuQuery query = query_of(collective, bytes, ranks);
  query.host_path = true;
  const Choice choice = choose_on_gpus(query);
  const HostPath part = choice.launch.host;
  const int queues = choice.plan.arguments.parts == 1 ? 1 : 2;
  const int ctas_per_processor = choice.launch.threads > 256 ? 1 : 2;
  EXPECT_LE((choice.launch.channels + part.channels) * queues, query.processors * ctas_per_processor);
  EXPECT_EQ(part.channels > 0, part.share > 0);
  EXPECT_EQ(part.channels > 0, part.bytes_per_second > 0);
  if (ranks > 2 && choice.zero_copy && !reduces(collective)) {
    EXPECT_EQ(part, HostPath{}) << name(collective) << ", " << bytes << " bytes";
  }
  return part;
}

// None of short messages, and more of longer ones, as long as the rest of them goes the same way; gives that of the
// longest.
double expect_growing_share(Collective collective, int ranks, size_t longest_without) {
  double before = 0;
  bool went_directly = false;
  for (size_t bytes = 8; bytes <= size_t{1} << 34; bytes *= 2) {
    const double share = host_path(collective, bytes, ranks).share;
    const bool goes_directly = has_zero_copy(query_of(collective, bytes, ranks));
    if (std::exchange(went_directly, goes_directly) != goes_directly) before = 0;
    EXPECT_GE(share, before) << name(collective) << ", " << bytes << " bytes over " << ranks << " ranks";
    if (bytes <= longest_without) {
      EXPECT_EQ(share, 0) << name(collective) << ", " << bytes << " bytes over " << ranks << " ranks";
    }
    before = share;
  }
  return before;
}

TEST(GpuChoice, LongMessagesGoThroughHostMemoryAsWell) {
  for (int c = 0; c < kCollectiveCount; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (collective == Collective::kBarrier) continue;
    EXPECT_LT(expect_growing_share(collective, 2, 8 << 20), 0.12) << name(collective);
    EXPECT_GT(host_path(collective, 256 << 20).share, 0.04) << name(collective);
    const size_t between_vectors = (256 << 20) + 8;  // 4 bytes in each block
    EXPECT_EQ(host_path(collective, between_vectors).share > 0, !has_rank_blocks(collective)) << name(collective);
  }
}

// Over more GPUs it is for what kernels perform: copy engines lose more by it than it carries.
TEST(GpuChoice, OverFourGpusWhatIsNotCopiedGoesThroughHostMemory) {
  for (int c = 0; c < kCollectiveCount; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (collective == Collective::kBarrier) continue;
    const double longest = expect_growing_share(collective, 4, 32 << 20);
    EXPECT_LT(longest, 0.09) << name(collective);
    const bool combines = reduces(collective) || collective == Collective::kBroadcast;
    EXPECT_EQ(longest > 0.07, combines) << name(collective);
    GpuQuery in_one_process = query_of(collective, 1 << 30, 4), in_several = in_one_process;
    in_one_process.host_path = in_several.host_path = true;
    in_one_process.maps_buffers = false;  // which not all ranks may know
    EXPECT_EQ(choose_on_gpus(in_one_process).launch, choose_on_gpus(in_several).launch);
    for (const DataType type : {DataType::kInt8, DataType::kInt16, DataType::kFloat32, DataType::kFloat64}) {
      GpuQuery of_type = query_of(collective, 1 << 30, 4);
      of_type.host_path = true;
      of_type.type = type;
      const HostPath part = choose_on_gpus(of_type).launch.host;
      const bool has_loads_enough = !reduces(collective) || size_of(type) < 8;
      EXPECT_EQ(part.channels > 0, combines && has_loads_enough) << name(collective) << ", " << name(type);
    }
  }
}

TEST(GpuChoice, NothingGoesThroughHostMemoryUnasked) {
  GpuQuery query = query_of(Collective::kAllReduce, 1 << 30, 2);
  EXPECT_EQ(choose_on_gpus(query).launch.host, HostPath{});  // there is none
  EXPECT_EQ(choose_on_gpus(query, "", LaunchShape{Protocol::kSimple, 32, 512, {2, 0.5}}).launch.host, HostPath{});
  query.host_path = true;
  EXPECT_GT(choose_on_gpus(query).launch.host.channels, 0);
  EXPECT_EQ(choose_on_gpus(query, "all_reduce:push").launch.host, HostPath{});
  EXPECT_EQ(choose_on_gpus(query, "", LaunchShape{Protocol::kSimple, 32, 512}).launch.host.channels, 0);
  EXPECT_EQ(choose_on_gpus(query, "", LaunchShape{Protocol::kSimple, 32, 512, {2, 0.5}}).launch.host.share, 0.5);
  query.ranks_per_device = 2;
  EXPECT_EQ(choose_on_gpus(query).launch.host, HostPath{});
}

// Where it was measured to help, or where the user insists.
TEST(GpuChoice, WhoSharesHostMemory) {
  const auto wants = [](const char* name, const std::vector<int>& gpus, std::optional<LaunchShape> launch = {}) {
    const Topology topology = machine(name);
    std::vector<int> devices;
    for (const int gpu : gpus) devices.push_back(devices_of(topology, DeviceKind::kGpu)[static_cast<size_t>(gpu)]);
    return wants_host_path(place_on(topology, devices, {}), launch);
  };
  EXPECT_TRUE(wants("hgx-h200-8", {0, 1}));
  EXPECT_TRUE(wants("hgx-h200-8", {0, 1, 2, 3}));
  EXPECT_FALSE(wants("hgx-h200-8", {0, 1, 2}));
  EXPECT_FALSE(wants("hgx-h200-8", {0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_FALSE(wants("dgx2", {0, 1}));
  EXPECT_FALSE(wants("kesch", {0, 1}));
  EXPECT_TRUE(wants("kesch", {0, 1}, LaunchShape{Protocol::kSimple, 32, 512, {2, 0.5}}));
  EXPECT_FALSE(wants("hgx-h200-8", {0, 1}, LaunchShape{Protocol::kSimple, 32, 512}));
}

}  // namespace
}  // namespace plait

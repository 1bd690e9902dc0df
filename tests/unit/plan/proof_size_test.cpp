// Compares the bound on a proof's memory with what a proof allocates, and checks what is refused beyond the bound.
#include "plan/proof_size.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "plan/builder.hpp"
#include "plan/conditions.hpp"
#include "plan/execution.hpp"
#include "plan/form.hpp"
#include "plan/verifier.hpp"
#include "property/plan_zoo.hpp"

namespace {

// All memory that the C++ code of this program holds.
size_t held_bytes = 0, peak_bytes = 0;

void* take(size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  held_bytes += malloc_usable_size(memory) + sizeof(size_t);
  peak_bytes = std::max(peak_bytes, held_bytes);
  return memory;
}

void give(void* memory) noexcept {
  if (memory != nullptr) held_bytes -= malloc_usable_size(memory) + sizeof(size_t);
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return take(bytes); }
void operator delete(void* memory) noexcept { give(memory); }
void operator delete(void* memory, size_t) noexcept { give(memory); }

namespace plait {
namespace {

bool fits(const Plan& plan, const Pairing& pairing, size_t clocks) {
  try {
    execute_symbolically(plan, pairing, clocks);
    return true;
  } catch (const PlanTooLarge&) {
    return false;
  }
}

// The clocks that the proof holds at its peak.
size_t clocks_of(const Plan& plan) {
  const Pairing pairing = check_form(plan);
  size_t too_few = 0, enough = 1;
  if (fits(plan, pairing, 0)) return 0;
  while (!fits(plan, pairing, enough)) enough *= 2;
  while (enough - too_few > 1) {
    const size_t middle = (too_few + enough) / 2;
    (fits(plan, pairing, middle) ? enough : too_few) = middle;
  }
  return enough;
}

// Two queues hear of each other again and again, and each time tell a third, which listens only when they are done.
// `idle` queues make the clocks longer.
Plan gossip(int rounds, int idle) {
  PlanBuilder b({"gossip", Collective::kBarrier, 1});
  const QueueId a = b.add_queue(0, Engine::kCpu), c = b.add_queue(0, Engine::kCpu), last = b.add_queue(0, Engine::kCpu);
  for (int i = 0; i < idle; ++i) b.add_queue(0, Engine::kCpu);
  std::vector<SignalId> told;
  for (int i = 0; i < rounds; ++i) {
    b.wait(b.signal(a, c));
    b.wait(b.signal(c, a));
    told.push_back(b.signal(a, last));
  }
  for (auto it = told.rbegin(); it != told.rend(); ++it) b.wait(*it);
  return b.finish();
}

TEST(ProofSize, IsNotExceeded) {
  std::vector<Plan> plans = test::zoo();
  plans.push_back(test::ring_all_reduce(48));
  plans.push_back(test::pull_all_gather(40, 3, Engine::kCpu));
  plans.push_back(test::chain_broadcast(200, 0, 5));
  plans.push_back(gossip(500, 1000));
  plans.push_back(gossip(1, 5000));
  for (const Plan& plan : plans) {
    const size_t clocks = clocks_of(plan);
    const ProofSize size = proof_size(plan);
    const size_t before = held_bytes;
    peak_bytes = held_bytes;
    const Pairing pairing = check_form(plan);
    execute_symbolically(plan, pairing, clocks);
    const double bound = size.bytes + static_cast<double>(clocks) * size.clock_bytes;
    EXPECT_LE(static_cast<double>(peak_bytes - before), bound) << plan.algorithm << " of " << plan.rank_count();
  }
}

TEST(ProofSize, ASignalSharesTheClockOfItsSender) {
  PlanBuilder b({"many signals", Collective::kBarrier, 1});
  const QueueId first = b.add_queue(0, Engine::kCpu), second = b.add_queue(0, Engine::kCpu),
                third = b.add_queue(0, Engine::kCpu);
  b.wait(b.signal(first, second));
  for (int i = 0; i < 1000; ++i) b.wait(b.signal(second, third));
  EXPECT_LE(clocks_of(b.finish()), 3u);
  // If senders hear of others in between, clocks are under way only while nobody awaits them.
  EXPECT_LE(clocks_of(test::ring_all_reduce(32)), 3u * 32);
  EXPECT_GE(clocks_of(gossip(300, 0)), 300u);
}

TEST(ProofSize, ClocksUnderWayAreRefusedWhereTheyDoNotFit) {
  const Plan plan = gossip(300, 0);
  const Pairing pairing = check_form(plan);
  EXPECT_NO_THROW(execute_symbolically(plan, pairing, clocks_of(plan)));
  try {
    execute_symbolically(plan, pairing, 100);
    FAIL() << "accepted";
  } catch (const PlanTooLarge& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    const std::string text = error.what();
    for (const char* part : {"plan gossip (barrier): its proof takes more than 4 GB of memory: 101 clocks of ",
                             " bytes, of 3 queues and of signals and messages", "await signals sooner"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
    }
  }
}

TEST(ProofSize, TheLimitsAreThoseOfVerify) {
  // 20,000 queues that all hear of each other need 1.6 GB of clocks; 40,000 queues need four times that.
  const auto chain = [](int queues) {
    PlanBuilder b({"chain", Collective::kBarrier, 1});
    QueueId previous = b.add_queue(0, Engine::kCpu);
    for (int i = 1; i < queues; ++i) {
      const QueueId queue = b.add_queue(0, Engine::kCpu);
      b.wait(b.signal(previous, queue));
      previous = queue;
    }
    return b.finish();
  };
  EXPECT_NO_THROW(check_proof_size(chain(20000)));
  EXPECT_THROW(check_proof_size(chain(40000)), PlanTooLarge);
  EXPECT_THROW(verify(chain(40000)), PlanTooLarge);
  const ProofSize size = proof_size(chain(20000));
  EXPECT_NEAR(size.clocks * size.clock_bytes, 1.6e9, 0.1e9);
  EXPECT_NEAR(static_cast<double>(most_clocks(chain(20000))), (kMaxProofBytes - size.bytes) / size.clock_bytes, 1);
}

// Operations on as many chunks as a message may have. Looking at every chunk of each would take hours.
TEST(ProofSize, LongOperationsAreRefusedAtOnce) {
  PlanBuilder b({"long", Collective::kBroadcast, 1, 0, kMaxChunks});
  const QueueId queue = b.add_queue(0, Engine::kCpu);
  for (int i = 0; i < 100'000; ++i) b.copy(queue, output_of(0), input_of(0), 0, kMaxChunks);
  EXPECT_THROW(verify(b.finish()), PlanTooLarge);
}

TEST(ProofSize, WritingForEverIsRefused) {
  PlanBuilder b({"writes", Collective::kBroadcast, 1, 0, 10'000});
  const QueueId queue = b.add_queue(0, Engine::kCpu);
  std::vector<Place> places;
  for (int i = 0; i < 1000; ++i) places.push_back(b.take_scratch(0, 10'000));
  for (int i = 0; i < 1000; ++i) b.reduce(queue, places, {input_of(0)}, 0, 10'000);
  b.copy(queue, output_of(0), input_of(0), 0, 10'000);
  try {
    verify(b.finish());
    FAIL() << "accepted";
  } catch (const PlanTooLarge& error) {
    EXPECT_NE(std::string(error.what()).find("follow 20 billion accesses to chunks; the limit is 1 billion"),
              std::string::npos)
        << error.what();
  }
}

TEST(ProofSize, MergingClocksForEverIsRefused) {
  const Plan plan = gossip(60000, 300000);
  try {
    verify(plan);
    FAIL() << "accepted";
  } catch (const PlanTooLarge& error) {
    EXPECT_NE(std::string(error.what()).find("what queues hear of each other; the limit is 200 GB"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace plait

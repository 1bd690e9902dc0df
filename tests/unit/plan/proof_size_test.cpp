// Compares the bound on a proof's memory with what a proof allocates, and checks what is refused beyond the bound.
#include "plan/proof_size.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "plan/builder.hpp"
#include "plan/clock.hpp"
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
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {  // that of a sanitizer is not the one above
  try {
    return take(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { give(memory); }
void operator delete(void* memory, size_t) noexcept { give(memory); }

namespace plait {
namespace {

bool fits(const Plan& plan, const Pairing& pairing, size_t clock_bytes) {
  try {
    execute_symbolically(plan, pairing, clock_bytes);
    return true;
  } catch (const PlanTooLarge&) {
    return false;
  }
}

// The bytes of all clocks at the peak of the proof.
size_t clock_bytes_of(const Plan& plan) {
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

// The bytes of one clock that shares nothing.
double one_clock(const Plan& plan) {
  size_t queues = 0;
  for (const RankPlan& rank : plan.ranks) queues += rank.queues.size();
  return ClockStore::bytes_each(plan.ranks.size(), queues);
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
    const size_t clock_bytes = clock_bytes_of(plan);
    const size_t before = held_bytes;
    peak_bytes = held_bytes;
    const Pairing pairing = check_form(plan);
    execute_symbolically(plan, pairing, clock_bytes);
    const double bound = proof_size(plan).bytes + static_cast<double>(clock_bytes);
    EXPECT_LE(static_cast<double>(peak_bytes - before), bound) << plan.algorithm << " of " << plan.rank_count();
  }
}

TEST(ProofSize, ASignalSharesTheClockOfItsSender) {
  PlanBuilder b({"many signals", Collective::kBarrier, 1});
  const QueueId first = b.add_queue(0, Engine::kCpu), second = b.add_queue(0, Engine::kCpu),
                third = b.add_queue(0, Engine::kCpu);
  b.wait(b.signal(first, second));
  for (int i = 0; i < 1000; ++i) b.wait(b.signal(second, third));
  const Plan plan = b.finish();
  EXPECT_LE(static_cast<double>(clock_bytes_of(plan)), 3 * one_clock(plan));
  // If senders hear of others in between, clocks are under way only while nobody awaits them.
  const Plan ring = test::ring_all_reduce(32), many = gossip(300, 0);
  EXPECT_LE(static_cast<double>(clock_bytes_of(ring)), 3 * 32 * one_clock(ring));
  EXPECT_GE(static_cast<double>(clock_bytes_of(many)), 300 * one_clock(many));
}

// One queue after the other hears of all before it.
Plan chain(int queues) {
  PlanBuilder b({"chain", Collective::kBarrier, 1});
  QueueId previous = b.add_queue(0, Engine::kCpu);
  for (int i = 1; i < queues; ++i) {
    const QueueId queue = b.add_queue(0, Engine::kCpu);
    b.wait(b.signal(previous, queue));
    previous = queue;
  }
  return b.finish();
}

// 20,000 clocks that share nothing would take 1.6 GB.
TEST(ProofSize, ClocksShareWhatTheyKnowAlike) {
  const Plan plan = chain(20000);
  EXPECT_LE(static_cast<double>(clock_bytes_of(plan)), 0.05 * 20000 * one_clock(plan));
}

TEST(ProofSize, ClocksUnderWayAreRefusedWhereTheyDoNotFit) {
  const Plan plan = gossip(300, 0);
  const Pairing pairing = check_form(plan);
  EXPECT_NO_THROW(execute_symbolically(plan, pairing, clock_bytes_of(plan)));
  try {
    execute_symbolically(plan, pairing, clock_bytes_of(plan) / 3);
    FAIL() << "accepted";
  } catch (const PlanTooLarge& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan);
    const std::string text = error.what();
    for (const char* part : {"plan gossip (barrier): its proof takes more than 4 GB of memory, with what queues, ",
                             "await signals sooner"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text << "\nlacks: " << part;
    }
  }
}

TEST(ProofSize, TheLimitsAreThoseOfVerify) {
  EXPECT_EQ(static_cast<double>(most_clock_bytes(chain(100))),
            std::floor(kMaxProofBytes - proof_size(chain(100)).bytes));
  EXPECT_NO_THROW(verify(chain(40000)));  // 6.4 GB, if clocks shared nothing
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

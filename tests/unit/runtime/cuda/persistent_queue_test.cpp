// The work queue of the persistent kernel, in every order in which host and kernel can meet: the kernel leaves just as
// a request comes, the host is late in seeing an answer, a CTA comes late to commands that did not need it.
//
// Both sides run their own source, as fibers that take turns before each access to shared words. All orders are tried,
// except from states that were seen before. A state is what the words hold, what was performed, and what each fiber
// has at hand: what it has read since the last point at which a few values say all. A fiber that finds nothing new in a
// word waits until somebody stores.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#undef __device__
#define __device__

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "support/fiber.hpp"
#include "support/seed.hpp"

namespace plait::ptx {
uint64_t load_acquire(const void* from);
uint32_t load_relaxed(const uint32_t* from);
void store_relaxed(void* to, uint64_t value);
void store_release(void* to, uint64_t value);
uint64_t nanoseconds_now();
}  // namespace plait::ptx
unsigned atomicAdd(unsigned* address, unsigned value);
inline void __threadfence() {}
inline void __threadfence_system() {}

#include "runtime/cuda/persistent/request_poller.cuh"
#include "runtime/cuda/persistent/request_queue.hpp"

namespace plait {
namespace {

constexpr size_t kStackBytes = 64 << 10;
constexpr int kCtas = 2;
constexpr size_t kMostRequests = 128;

struct ModelWords {
  static uint64_t load(const uint64_t& word);
  static void store(uint64_t& word, uint64_t value);
};

// What the host does: posts these requests, some of them together.
struct Script {
  struct Step {
    uint32_t ctas = 1;
    bool waits = true;        // until all so far are answered
    bool lets_leave = false;  // after that
  };
  std::vector<Step> steps;
  uint64_t idle = 2, longest = UINT64_MAX;  // turns of the kernel's clock
};

// One run, from the start to its end or to a state that is known.
class QueueRun {
 public:
  explicit QueueRun(const Script& script)
      : script_(script), queue_(host_, [this](uint64_t number, uint64_t first) { launch(number, first); }) {
    current_ = this;
    processes_.push_back(std::make_unique<Process>(&QueueRun::be_host));
  }

  // The processes that can take a step.
  std::vector<size_t> ready() const {
    std::vector<size_t> found;
    for (size_t i = 0; i < processes_.size(); ++i) {
      const Process& it = *processes_[i];
      if (!it.is_done && it.waits_since != stores_) found.push_back(i);
    }
    return found;
  }
  void step(size_t process) {
    self_ = processes_[process].get();
    self_->has_begun = true;
    self_->fiber.resume();
    if (!error_.empty()) throw std::runtime_error(error_);
    start_next_launch();
  }
  bool is_over() const { return processes_[0]->is_done; }

  // Equal for states from which the same can follow.
  uint64_t state() const {
    uint64_t state = 0;
    for (const uint64_t word : {host_.answered, host_.taken, host_.left}) mix(state, word);
    for (const auto& entry : host_.requests) mix(state, entry.word);
    for (const auto& entry : device_.commands) mix(state, entry.word);
    for (const uint32_t done : device_.done) mix(state, done);
    for (size_t number = 1; number < kMostRequests; ++number) {
      for (const int times : performed_[number]) mix(state, static_cast<uint64_t>(times));
      mix(state, slots_[number]);
    }
    for (const auto& it : processes_) {
      mix(state, it->history);
      mix(state, it->is_done ? 1 : it->waits_since == stores_ ? 2 : it->waits_since != kNever ? 3 : it->has_begun);
    }
    mix(state, launches_.size());
    return state;
  }

  // Every CTA of a request performed it once, when the host sees the answer.
  void check_answered(uint64_t number) {
    if (slots_[number] != step_of_[number])
      fail_with("request " + std::to_string(number) + " was performed as another");
    for (int cta = 0; cta < kCtas; ++cta) {
      const bool takes_part = cta < static_cast<int>(ctas_of_[number]);
      if (performed_[number][static_cast<size_t>(cta)] != (takes_part ? 1 : 0)) {
        fail_with("request " + std::to_string(number) + " is answered, and CTA " + std::to_string(cta) +
                  " performed it " + std::to_string(performed_[number][static_cast<size_t>(cta)]) + " times");
      }
    }
  }
  size_t launches() const { return launches_.size(); }

  // ---- Accesses of the running process
  static uint64_t load(const uint64_t& word) {
    QueueRun& run = *current_;
    Process& self = *run.self_;
    // What it found there last time is there still, and it reads nothing else: it goes on once somebody stores.
    if (self.spins && self.last_word == &word && self.last_value == word) run.wait_for_store();
    pause();
    // A spin that reads the same again is where it was.
    if (!self.spins || self.last_word != &word || self.last_value != word) run.note(word);
    self.last_word = &word;
    self.last_value = word;
    return word;
  }
  static uint64_t load_on_host(const uint64_t& word) {
    const uint64_t value = load(word);
    if (&word == &current_->host_.left) current_->left_ = value;
    return value;
  }
  static void store(uint64_t& word, uint64_t value) {
    QueueRun& run = *current_;
    pause();
    word = value;
    ++run.stores_;
    run.self_->last_word = nullptr;
    run.note(value);
  }
  static unsigned add(unsigned& word, unsigned value) {
    QueueRun& run = *current_;
    pause();
    const unsigned before = word;
    word += value;
    ++run.stores_;
    run.note(before);
    return before;
  }
  static uint64_t now() { return ++current_->self_->clock; }

 private:
  static constexpr uint64_t kNever = UINT64_MAX;

  struct Process {
    explicit Process(void (*body)()) : fiber(body, kStackBytes) {}
    test::Fiber fiber;
    uint64_t history = 0;  // what it has at hand
    uint64_t clock = 0;
    uint64_t waits_since = kNever;  // the number of stores when it began to wait for the next one
    const uint64_t* last_word = nullptr;
    uint64_t last_value = 0;
    bool spins = false, has_begun = false, is_done = false;
    int cta = 0;
    PersistentLaunch launch;
  };

  static void pause() { test::Fiber::pause(); }
  void wait_for_store() {
    Process& self = *self_;
    self.waits_since = stores_;
    pause();
    self.waits_since = kNever;
  }
  void note(uint64_t value) { mix(self_->history, value); }
  // Where a process is, and all that it has at hand there.
  enum Point : uint64_t { kPosts = 1, kLooks, kWaits, kHasAnswer, kTakes, kIsDone };
  template <class... Values>
  void note_only(Point point, Values... values) {
    self_->history = 0;
    note(point);
    (note(values), ...);
  }
  static void mix(uint64_t& x, uint64_t value) {
    x = (x ^ (value + 0x9e3779b97f4a7c15ULL)) * 0xbf58476d1ce4e5b9ULL;
    x ^= x >> 29;
  }
  void fail_with(const std::string& error) {
    if (error_.empty()) error_ = error;
  }

  void launch(uint64_t number, uint64_t first) {
    PersistentLaunch it;
    it.host = &host_;
    it.device = &device_;
    it.aborted = &aborted_;
    it.number = number;
    it.first = first;
    it.idle_nanoseconds = script_.idle;
    it.longest_nanoseconds = script_.longest;
    it.silent_nanoseconds = UINT64_MAX;
    launches_.push_back(it);
    ++stores_;
  }
  // On their stream, launches run one after the other.
  void start_next_launch() {
    const bool is_idle =
        std::all_of(processes_.begin() + 1, processes_.end(), [](const auto& it) { return it->is_done; });
    if (!is_idle || started_ == launches_.size()) return;
    for (int cta = 0; cta < kCtas; ++cta) {
      Process& it = *processes_.emplace_back(std::make_unique<Process>(&QueueRun::be_cta));
      it.launch = launches_[started_];
      it.cta = cta;
      it.spins = cta > 0;
    }
    ++started_;
  }

  static void be_host() {
    QueueRun& run = *current_;
    Process& self = *run.self_;
    uint64_t checked = 0;
    for (uint32_t i = 0; i < run.script_.steps.size(); ++i) {
      const Script::Step& step = run.script_.steps[i];
      run.note_only(kPosts, i, run.left_);
      const uint64_t posted = run.queue_.post({.slot = i % kCallSlots, .ctas = step.ctas});
      run.ctas_of_[posted] = step.ctas;
      run.step_of_[posted] = i % kCallSlots;
      if (!step.waits) continue;
      run.await(posted);
      run.note_only(kHasAnswer, i, run.left_);
      while (checked < posted) {
        if (run.ctas_of_[++checked] > 0) run.check_answered(checked);  // else it was the last one of a launch
      }
      if (step.lets_leave) {
        run.queue_.let_leave();
        run.queue_.let_leave();  // does nothing
      }
    }
    self.is_done = true;
  }

  // A look leaves the host with what it knew before, and maybe with the news that a kernel has left.
  void await(uint64_t number) {
    for (;;) {
      note_only(kLooks, number, left_);
      const uint64_t stores = stores_;
      if (queue_.is_answered(number)) return;
      note_only(kWaits, number, left_);
      if (stores == stores_) wait_for_store();
    }
  }

  // The loop of run_persistent(), of one thread.
  static void be_cta() {
    QueueRun& run = *current_;
    Process& self = *run.self_;
    const PersistentLaunch& launch = self.launch;
    const uint64_t before = launch.number - 1;
    const RequestPoller poller(launch);
    for (uint64_t number = launch.first;; ++number) {
      run.note_only(kTakes, number, launch.longest_nanoseconds == UINT64_MAX ? 0 : self.clock);
      const uint64_t word = take(poller, launch, self.cta == 0, number);
      const Request request = request_in(word);
      number += lateness(word, number + before);
      if (request.terminates) break;
      if (self.cta < static_cast<int>(request.ctas)) {
        run.perform(number, request, self.cta);
        finish_share(launch, request, number);
      }
    }
    run.note_only(kIsDone);
    self.is_done = true;
    ++run.stores_;  // the next launch may start
  }

  void perform(uint64_t number, const Request& request, int cta) {
    ++performed_.at(number)[static_cast<size_t>(cta)];
    slots_.at(number) = request.slot;
  }

  static inline QueueRun* current_ = nullptr;
  const Script& script_;
  HostQueue host_;
  DeviceQueue device_;
  uint32_t aborted_ = 0;
  RequestQueue<ModelWords> queue_;
  std::vector<std::unique_ptr<Process>> processes_;  // the host first
  std::vector<PersistentLaunch> launches_;
  size_t started_ = 0;
  uint64_t stores_ = 0;
  uint64_t left_ = 0;  // what the host has read there last
  Process* self_ = nullptr;
  std::array<uint32_t, kMostRequests> ctas_of_{}, step_of_{}, slots_{};  // by request
  std::array<std::array<int, kCtas>, kMostRequests> performed_{};        // by request and CTA
  std::string error_;
};

uint64_t ModelWords::load(const uint64_t& word) { return QueueRun::load_on_host(word); }
void ModelWords::store(uint64_t& word, uint64_t value) { QueueRun::store(word, value); }

struct Explored {
  size_t states = 0, ends = 0, most_launches = 0;
};

// Tries all orders, the last choice first.
Explored explore(const Script& script) {
  Explored found;
  std::unordered_set<uint64_t> known;
  struct Choice {
    size_t taken, of;
  };
  std::vector<Choice> path;
  for (;;) {
    QueueRun run(script);
    for (size_t at = 0; !run.is_over(); ++at) {
      const std::vector<size_t> ready = run.ready();
      if (ready.empty()) throw std::runtime_error("host and kernel wait for ever");
      if (at == path.size()) {
        if (!known.insert(run.state()).second) break;
        path.push_back({0, ready.size()});
      }
      run.step(ready[path[at].taken]);
    }
    found.ends += run.is_over() ? 1 : 0;
    found.most_launches = std::max(found.most_launches, run.launches());
    while (!path.empty() && path.back().taken + 1 == path.back().of) path.pop_back();
    if (path.empty()) break;
    ++path.back().taken;
  }
  found.states = known.size();
  std::printf("states %zu ends %zu\n", found.states, found.ends);
  return found;
}

Explored expect_no_order_fails(const Script& script) {
  Explored found;
  EXPECT_NO_THROW(found = explore(script));
  EXPECT_GT(found.ends, 0u);
  return found;
}

TEST(PersistentQueue, NoRequestIsLostWhenTheKernelLeaves) {
  const Explored found = expect_no_order_fails({.steps = {{.ctas = 2}, {.ctas = 2}}});
  EXPECT_GT(found.states, 100u);
  EXPECT_EQ(found.most_launches, 2u);  // in some orders it leaves between the two, in others it stays
}

TEST(PersistentQueue, ACtaThatIsNotNeededMayComeLate) {
  expect_no_order_fails({.steps = {{.ctas = 1}, {.ctas = 2}, {.ctas = 1}}});
}

TEST(PersistentQueue, SeveralRequestsMayBePosted) {
  expect_no_order_fails({.steps = {{.ctas = 2, .waits = false}, {.ctas = 1, .waits = false}, {.ctas = 2}}});
}

TEST(PersistentQueue, TheHostMayLetItLeave) {
  const Explored found =
      expect_no_order_fails({.steps = {{.ctas = 2, .lets_leave = true}, {.ctas = 1, .lets_leave = true}}});
  EXPECT_EQ(found.most_launches, 2u);
}

// However busy it is.
TEST(PersistentQueue, ItLeavesAfterALongStay) {
  const Explored found =
      expect_no_order_fails({.steps = {{.ctas = 1}, {.ctas = 2}, {.ctas = 2}}, .idle = 50, .longest = 4});
  EXPECT_GT(found.most_launches, 1u);
}

// More than fit into the ring, in random orders. A CTA that is held up meets entries that later commands have taken.
TEST(PersistentQueue, TheRingIsUsedAgainAndAgain) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    Script script;
    script.idle = test::between(random, 1, 100);
    const uint64_t alone = test::between(random, 5, 40);  // so many requests in a row do not need CTA 1, about
    for (size_t i = 1; i < kMostRequests / 2; ++i) {
      script.steps.push_back({.ctas = test::between(random, 0, alone) == 0 ? 2u : 1u, .lets_leave = i % alone == 0});
    }
    const size_t held = test::between(random, 1, 2) == 1 ? 2 : SIZE_MAX;  // CTA 1 of the first launch
    QueueRun run(script);
    while (!run.is_over()) {
      std::vector<size_t> ready = run.ready();
      ASSERT_FALSE(ready.empty());
      if (ready.size() > 1) std::erase(ready, held);
      ASSERT_NO_THROW(run.step(ready[test::between(random, 0, ready.size() - 1)]));
    }
  }
}

TEST(PersistentQueue, WordsHoldRequestsAndNumbers) {
  for (const uint64_t number : {uint64_t{1}, kCountMask - 1, kCountMask, kCountMask + 1, kCountMask + 2}) {
    for (const uint32_t slot : {0u, kCallSlots - 1}) {
      for (const uint32_t ctas : {1u, static_cast<uint32_t>(kMostChannels)}) {
        for (const bool is_new : {false, true}) {
          const uint64_t word = word_of({.is_new = is_new, .slot = slot, .ctas = ctas}, number);
          EXPECT_EQ(lateness(word, number), 0u);
          EXPECT_LT(lateness(word, number - 1), kLater);
          EXPECT_GT(lateness(word, number + 1), kLater);
          const Request request = request_in(word);
          EXPECT_EQ(request.slot, slot);
          EXPECT_EQ(request.ctas, ctas);
          EXPECT_EQ(request.is_new, is_new);
          EXPECT_FALSE(request.terminates);
        }
      }
    }
  }
  EXPECT_TRUE(request_in(word_of({.terminates = true}, 5)).terminates);
}

}  // namespace

namespace ptx {
uint64_t load_acquire(const void* from) { return QueueRun::load(*static_cast<const uint64_t*>(from)); }
uint32_t load_relaxed(const uint32_t* from) { return *from; }
void store_relaxed(void* to, uint64_t value) { QueueRun::store(*static_cast<uint64_t*>(to), value); }
void store_release(void* to, uint64_t value) { QueueRun::store(*static_cast<uint64_t*>(to), value); }
uint64_t nanoseconds_now() { return QueueRun::now(); }
}  // namespace ptx

}  // namespace plait

unsigned atomicAdd(unsigned* address, unsigned value) { return plait::QueueRun::add(*address, value); }

// Compiled without hooks for the race detector, even if kernels have them.
#include "support/simt_machine.hpp"

#include <algorithm>
#include <stdexcept>

namespace plait::test {
namespace {

constexpr uint64_t kMostTurns = 200'000;
// In one turn of so many, a thread is held up for 1, 2, 4, … 64 turns.
constexpr uint64_t kTurnsBetweenHolds = 4, kHoldLengths = 7;

bool is_same(const Simt::Location& a, const Simt::Location& b) {
  const auto is_same_text = [](const char* one, const char* other) {
    return one == other || std::strcmp(one, other) == 0;
  };
  return a.line() == b.line() && a.column() == b.column() && is_same_text(a.file_name(), b.file_name()) &&
         is_same_text(a.function_name(), b.function_name());
}

std::string to_text(const Simt::Location& at) {
  return std::string(at.file_name()) + ":" + std::to_string(at.line()) + ":" + std::to_string(at.column()) + " (" +
         at.function_name() + ")";
}

}  // namespace

// ---- Launches

void Simt::run() {
  std::vector<Thread*> threads;
  for (turn_ = 0;; ++turn_) {
    bool is_over = true;
    threads.clear();
    for (Stream& stream : streams_) {
      begin_next(stream);
      for (const auto& grid : stream.running) {
        is_over = false;
        for (const auto& thread : grid->threads) {
          if (can_go_on(*thread)) threads.push_back(thread.get());
        }
      }
    }
    if (is_over) return;
    if (turn_ > kMostTurns) throw std::runtime_error("threads wait for ever");
    std::shuffle(threads.begin(), threads.end(), random_);
    if (!threads.empty() && random_() % kTurnsBetweenHolds == 0) {
      threads.back()->held_until = turn_ + (uint64_t{1} << random_() % kHoldLengths);
      threads.pop_back();
    }
    for (Thread* const thread : threads) {
      step(*thread);
      if (!divergence_.empty()) throw std::runtime_error(divergence_);
      if (!races_.race().empty()) throw std::runtime_error(races_.race());
    }
  }
}

bool Simt::is_over(const Grid& grid) {
  return std::all_of(grid.threads.begin(), grid.threads.end(), [](const auto& it) { return it->is_done; });
}

bool Simt::lets_next_begin(const Grid& grid) {
  return std::all_of(grid.ctas.begin(), grid.ctas.end(),
                     [](const std::shared_ptr<Cta>& cta) { return cta->lets_next_begin || cta->barrier.alive == 0; });
}

void Simt::begin_next(Stream& stream) {
  while (!stream.running.empty() && is_over(*stream.running.front())) {
    RaceDetector::SyncPoint& ended = stream.running.front()->order.point;
    ended.complete_launch();
    stream.over.join(ended.known());
    stream.running.pop_front();
  }
  if (!stream.running.empty()) stream.running.front()->is_first = 1;
  if (stream.waiting.empty()) return;
  const bool is_next = stream.running.empty() || (stream.waiting.front().pdl && stream.running.size() == 1 &&
                                                  lets_next_begin(*stream.running.front()));
  if (!is_next) return;
  const Launch launch = std::move(stream.waiting.front());
  stream.waiting.pop_front();
  Grid& grid = *stream.running.emplace_back(std::make_unique<Grid>(stream));
  stream.is_odd = !stream.is_odd;
  grid.is_first = stream.running.size() == 1 ? 1 : 0;
  grid.uses_pdl = launch.pdl;
  for (unsigned y = 0; y < launch.grid.y; ++y) {
    for (unsigned x = 0; x < launch.grid.x; ++x) add_cta(grid, launch, {x, y, 0});
  }
}

void Simt::add_cta(Grid& grid, const Launch& launch, uint3 block) {
  const auto cta = std::make_shared<Cta>(grid, races_);
  grid.ctas.push_back(cta);
  const unsigned number = block.y * launch.grid.x + block.x;
  std::shared_ptr<Warp> warp;
  for (unsigned t = 0; t < launch.block.x; ++t) {
    if (t % 32 == 0) warp = std::make_shared<Warp>();
    auto thread = std::make_unique<Thread>();
    thread->indices = {{t, 0, 0}, block, launch.block, launch.grid};
    thread->warp = warp;
    thread->cta = cta;
    thread->body = launch.body;
    const RaceDetector::Place place{grid.stream.number, number, t, grid.stream.is_odd};
    if (finds_races_) thread->memory = races_.begin(place, grid.stream.over);
    warp->enter(t % 32);
    ++cta->barrier.alive;
    grid.threads.push_back(std::move(thread));
  }
}

bool Simt::can_go_on(const Thread& thread) const {
  const bool waits = thread.awaited != nullptr && *thread.awaited == thread.not_after;
  return !thread.is_done && !waits && thread.held_until <= turn_;
}

void Simt::step(Thread& thread) {
  self_ = &thread;
  if (finds_races_) races_.run(&thread.memory, thread.fiber.stack());
  thread.fiber.resume();
  if (finds_races_) races_.run(nullptr, {});
}

void Simt::perform() {
  Thread& self = *current_->self_;
  self.body();
  self.cta->grid.order.arrive();
  if (current_->finds_races_) current_->races_.end(self.memory);
  self.warp->leave(lane());
  self.cta->barrier.leave();
  self.is_done = true;
}

Simt::Cta::~Cta() {
  for (const auto& [type, array] : arrays) races.forget(array.get());
}

// ---- Synchronisation

// Waits until `generation` is no longer `mine`. The thread need not run before that.
void Simt::await_next(const uint64_t& generation, uint64_t mine) {
  current_->self_->awaited = &generation;
  current_->self_->not_after = mine;
  while (generation == mine) pause();
  current_->self_->awaited = nullptr;
}

void Simt::await_launch_before() {
  Grid& grid = current_->self_->cta->grid;
  await_next(grid.is_first, 0);
  current_->self_->has_awaited = true;
  RaceDetector::learn(current_->self_->memory, grid.stream.over);
}

// A launch that has not awaited the previous one must not let the next one start: the third launch would start while
// the first one still runs.
void Simt::let_next_launch_begin() {
  Cta& cta = *current_->self_->cta;
  if (cta.grid.uses_pdl && !current_->self_->has_awaited) {
    current_->divergence_ = "a launch lets the next one start before it has awaited the previous one";
  }
  cta.lets_next_begin = true;
}

const Simt::Votes& Simt::vote_in_warp(uint64_t value, const Location& at) {
  Warp& warp = *current_->self_->warp;
  warp.order.arrive();
  const Votes& votes = warp.sync(lane(), value, at);
  warp.order.leave_after_loads();
  return votes;
}

void Simt::sync_warp(const Location& at) {
  vote_in_warp(0, at);
  current_->self_->warp->order.leave();
}

bool Simt::sync_cta(bool value, const Location& at) {
  Barrier& barrier = current_->self_->cta->barrier;
  barrier.order.arrive();
  const bool result = barrier.sync(value, at);
  barrier.order.leave();
  return result;
}

bool Simt::barrier_sync(uint32_t barrier, uint32_t threads, bool value) {
  NamedBarrier& it = current_->self_->cta->named[barrier];
  const uint64_t mine = it.generation;
  it.arrive(threads, value);
  await_next(it.generation, mine);
  it.order.leave();
  return it.result;
}

void Simt::barrier_arrive(uint32_t barrier, uint32_t threads) {
  current_->self_->cta->named[barrier].arrive(threads, true);
}

void Simt::sync_eight(const Location& at) { current_->self_->warp->eights[lane() / 8].sync(true, at); }

void Simt::Order::arrive() {
  if (current_->finds_races_) point.arrive(current_->self_->memory);
}
void Simt::Order::complete() {
  if (current_->finds_races_) point.complete();
}
void Simt::Order::leave() const {
  if (current_->finds_races_) current_->self_->memory.knows = point.known();
}
void Simt::Order::leave_after_loads() const {
  if (current_->finds_races_) current_->self_->memory.knows.loads = point.known().loads;
}

void Simt::SyncLocation::arrive(bool is_first, const Location& at) {
  if (is_first) {
    first = at;
  } else if (!is_same(first, at) && current_->divergence_.empty()) {
    current_->divergence_ = "some threads are at " + to_text(first) + ", others at " + to_text(at);
  }
}

bool Simt::Barrier::sync(bool value, const Location& at) {
  place.arrive(arrived == 0, at);
  all = all && value;
  ++arrived;
  const uint64_t mine = generation;
  go_on_if_complete();
  await_next(generation, mine);
  return result;
}
void Simt::Barrier::leave() {
  --alive;
  go_on_if_complete();
}
void Simt::Barrier::go_on_if_complete() {
  if (arrived == 0 || arrived != alive) return;
  result = all;
  all = true;
  arrived = 0;
  ++generation;
  order.complete();
}

void Simt::NamedBarrier::arrive(uint32_t its_threads, bool value) {
  if (arrived > 0 && its_threads != threads) current_->divergence_ = "threads of a named barrier count differently";
  threads = its_threads;
  const unsigned thread = current_->self_->indices.thread.x;
  if (came.test(thread))
    current_->divergence_ = "a thread arrives twice at a named barrier before all others have arrived";
  came.set(thread);
  all = all && value;
  order.arrive();
  if (++arrived < threads) return;
  came.reset();
  result = all;
  all = true;
  arrived = 0;
  ++generation;
  order.complete();
}

const Simt::Votes& Simt::Warp::sync(unsigned lane, uint64_t value, const Location& at) {
  place.arrive(arrived == 0, at);
  values[lane] = value;
  arrived |= 1u << lane;
  const uint64_t mine = generation;
  go_on_if_complete();
  await_next(generation, mine);
  return votes;
}
void Simt::Warp::enter(unsigned lane) {
  alive |= 1u << lane;
  ++eights[lane / 8].alive;
}
void Simt::Warp::leave(unsigned lane) {
  eights[lane / 8].leave();
  alive &= ~(1u << lane);
  go_on_if_complete();
}
void Simt::Warp::go_on_if_complete() {
  if (arrived == 0 || arrived != alive) return;
  votes = {values, alive};
  arrived = 0;
  ++generation;
  order.complete();
}

}  // namespace plait::test

// Steps of launches.
#include "api/launch_steps.hpp"

namespace plait {
namespace {

constexpr int64_t kMostStreamQueues = 1024;  // of a rank

}  // namespace

LaunchSteps::LaunchSteps(Routes& routes, LaunchStream stream)
    : routes_(routes), stream_(std::move(stream)), builder_(routes) {
  program().chunk_bytes = kUnit;
  program().call_ends.resize(static_cast<size_t>(stream_.calls));
}

void LaunchSteps::begin_queue(int rank, int queue) { queue_ = {rank, queue, program().steps.size(), 0}; }

void LaunchSteps::end_queue() {
  queue_.end = program().steps.size();
  program().queues.push_back(queue_);
}

void LaunchSteps::begin_call(int call) {
  if (call == 0) return;
  Begin begin = stream_.pdl ? Begin::kCall : Begin::kCallWithoutPdl;
  const int queues = stream_.queues_of_ranks[static_cast<size_t>(queue_.rank)];
  if (queues == 1) return wait(begin);
  for (int other = 0; other < queues; ++other) {
    if (other == queue_.queue) continue;
    hear(begin, in_stream(other, queue_.queue, call - 1), false, SimulatedStep::kInStream);
    begin = Begin::kNothing;
  }
}

void LaunchSteps::end_call(int call) {
  const int queues = stream_.queues_of_ranks[static_cast<size_t>(queue_.rank)];
  for (int other = 0; other < queues && call + 1 < stream_.calls; ++other) {
    if (other != queue_.queue) tell(Begin::kNothing, in_stream(queue_.queue, other, call));
  }
  if (program().steps.size() > queue_.first) {
    program().call_ends[static_cast<size_t>(call)].push_back(program().steps.size() - 1);
  }
}

LaunchSteps::Signal LaunchSteps::in_stream(int from, int to, int call) const {
  return {What::kInStream, queue_.rank, from * kMostStreamQueues + to, static_cast<uint64_t>(call)};
}

void LaunchSteps::hear(Begin begin, const Signal& signal, bool between_ranks, uint8_t link_kind) {
  add(Kind::kHear, begin, number_of(signal));
  program().steps.back().between_ranks = between_ranks;
  program().steps.back().link_kind = link_kind;
}

uint32_t LaunchSteps::limited(SimulatedResource::Kind kind, double limit) {
  program().limits.push_back(limit);
  return builder_.numbered(SimulatedResource{kind, static_cast<int>(program().limits.size()) - 1});
}

void LaunchSteps::add(Kind kind, Begin begin, uint32_t index) {
  SimulatedStep& step = program().steps.emplace_back();
  step.kind = kind;
  step.begin = begin;
  step.index = index;
}

uint32_t LaunchSteps::number_of(const Signal& signal) {
  const auto [found, is_new] = signals_.try_emplace(signal, program().signals);
  if (is_new) ++program().signals;
  return found->second;
}

}  // namespace plait

// Finds out what is written where a send may still read.
#include "runtime/sent_memory.hpp"

namespace plait {
namespace {

bool is_users(Buffer buffer) { return !has_slots(buffer); }

}  // namespace

SentMemory::SentMemory(const Plan& plan, int rank) : plan_(plan), rank_(rank) {
  const auto& queues = plan.ranks[rank].queues;
  for (size_t queue = 0; queue < queues.size(); ++queue) {
    for (size_t i = 0; i < queues[queue].operations.size(); ++i) {
      const Operation& operation = queues[queue].operations[i];
      if (operation.kind != OpKind::kSend) continue;
      const Place source = operation.chunks > 0 ? operation.sources[0] : Place{};
      sends_.push_back(
          {{rank, static_cast<int>(queue), static_cast<int>(i)}, {operation.chunk, operation.chunks}, source});
    }
  }
  if (sends_.empty()) return;
  for (int writer = 0; writer < plan.rank_count(); ++writer) {
    if (plan.node_of[writer] != plan.node_of[rank]) continue;
    for (const Queue& queue : plan.ranks[writer].queues) {
      for (const Operation& operation : queue.operations) count_writers(writer, operation);
    }
  }
}

void SentMemory::count_writers(int writer, const Operation& operation) {
  for (Place place : operation.destinations) {
    if (is_users(place.buffer)) continue;
    for (int i = 0; i < operation.chunks; ++i, ++place.slot) {
      Writers& writers = writers_[place];
      ++writers.operations;
      writers.others |= writer != rank_;
    }
  }
}

std::vector<size_t> SentMemory::overwritten_by(const OperationId& id) const {
  const Operation& operation = operation_at(plan_, id);
  std::vector<size_t> found;
  for (size_t i = 0; i < sends_.size(); ++i) {
    const Sent& sent = sends_[i];
    if (sent.id.queue == id.queue && sent.id.operation >= id.operation) continue;
    for (const Place& place : operation.destinations) {
      if (!overlap(sent, place, {operation.chunk, operation.chunks})) continue;
      found.push_back(i);
      break;
    }
  }
  return found;
}

bool SentMemory::overlap(const Sent& sent, const Place& place, const ChunkRange& chunks) {
  if (sent.chunks.count == 0 || place.rank != sent.source.rank) return false;
  const auto meet = [](int a, int a_count, int b, int b_count) { return a < b + b_count && b < a + a_count; };
  if (is_users(place.buffer) && is_users(sent.source.buffer)) {
    return meet(sent.chunks.first, sent.chunks.count, chunks.first, chunks.count);
  }
  return place.buffer == sent.source.buffer && meet(sent.source.slot, sent.chunks.count, place.slot, chunks.count);
}

bool SentMemory::is_written_elsewhere(const Place& source, int slots) const {
  if (is_users(source.buffer)) return false;
  Place slot = source;
  for (int i = 0; i < slots; ++i, ++slot.slot) {
    const auto found = writers_.find(slot);
    if (found != writers_.end() && found->second.operations > 1 && found->second.others) return true;
  }
  return false;
}

}  // namespace plait

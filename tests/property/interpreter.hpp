// Executes plans on real numbers, one operation of a random queue at a time. It shares no code with the verifier, so
// that each can find the other's mistakes.
#pragma once

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace plait::test {

// T is the element type; reductions are sums.
template <class T>
class Interpreter {
 public:
  static constexpr int kWidth = 2;  // elements of a chunk

  Interpreter(const Plan& plan, bool in_place) : plan_(plan), in_place_(in_place) {
    for (int rank = 0; rank < plan.rank_count(); ++rank) {
      const RankPlan& rank_plan = plan.ranks[rank];
      Memory memory;
      memory.input.assign(plan.chunk_count() * kWidth, T{});
      memory.output.assign(plan.chunk_count() * kWidth, T{-77777});
      memory.scratch.assign(rank_plan.scratch_slots * kWidth, T{-88888});
      memory.host.assign(rank_plan.host_slots * kWidth, T{-99999});
      memories_.push_back(std::move(memory));
      signals_.emplace_back(rank_plan.signals, false);
      messages_.emplace_back(rank_plan.messages);
      next_.emplace_back(rank_plan.queues.size(), 0);
    }
  }

  // Element `i` of chunk `chunk`; set inputs before run(), look at outputs after.
  T& input(int rank, int chunk, int i) { return at({rank, Buffer::kInput, 0}, chunk, 0)[i]; }
  T& output(int rank, int chunk, int i) { return at({rank, Buffer::kOutput, 0}, chunk, 0)[i]; }

  // Runs all queues to their ends in a random order; throws where no queue can go on.
  void run(std::mt19937_64& random) {
    std::vector<std::pair<int, int>> alive;
    for (int rank = 0; rank < plan_.rank_count(); ++rank) {
      for (size_t queue = 0; queue < plan_.ranks[rank].queues.size(); ++queue) alive.emplace_back(rank, queue);
    }
    // Some runs favour a few queues, so that they get far ahead of the others.
    const bool bursts = random() % 2 == 0;
    while (!alive.empty()) {
      std::shuffle(alive.begin(), alive.end(), random);
      bool moved = false;
      for (const auto& [rank, queue] : alive) {
        int turns = bursts ? static_cast<int>(random() % 64) : 1;
        while (turns-- > 0 && step(rank, queue)) moved = true;
        if (moved && !bursts) break;
      }
      const bool none_could =
          !moved && std::none_of(alive.begin(), alive.end(), [&](const auto& it) { return step(it.first, it.second); });
      std::erase_if(alive, [&](const auto& it) { return finished(it.first, it.second); });
      if (none_could && !alive.empty()) throw std::runtime_error("deadlock in " + plan_.algorithm);
    }
  }

 private:
  struct Memory {
    std::vector<T> input, output, scratch, host;
  };

  bool finished(int rank, int queue) const {
    return next_[rank][queue] == plan_.ranks[rank].queues[queue].operations.size();
  }

  bool has_output(int rank, int chunk) const {
    switch (plan_.collective) {
      case Collective::kReduce:
      case Collective::kGather:
        return rank == plan_.root;
      case Collective::kReduceScatter:
      case Collective::kScatter:
        return chunk / plan_.chunks_per_block == rank;
      case Collective::kAllToAll:
        return chunk / plan_.chunks_per_block % plan_.rank_count() == rank;
      default:
        return true;
    }
  }

  // The chunk of the output that lies where this chunk of the input does, in place.
  int same_place(int chunk) const {
    if (plan_.collective != Collective::kAllToAll) return chunk;
    const int n = plan_.rank_count(), block = chunk / plan_.chunks_per_block;
    return (block % n * n + block / n) * plan_.chunks_per_block + chunk % plan_.chunks_per_block;
  }

  T* at(const Place& place, int chunk, int offset) {
    Memory& memory = memories_.at(place.rank);
    switch (place.buffer) {
      case Buffer::kInput:
        if (const int shared = same_place(chunk + offset); in_place_ && has_output(place.rank, shared)) {
          return &memory.output.at(shared * kWidth);
        }
        return &memory.input.at((chunk + offset) * kWidth);
      case Buffer::kOutput:
        return &memory.output.at((chunk + offset) * kWidth);
      case Buffer::kScratch:
        return &memory.scratch.at((place.slot + offset) * kWidth);
      case Buffer::kHost:
        return &memory.host.at((place.slot + offset) * kWidth);
    }
    throw std::logic_error("no such buffer");
  }

  // Performs the queue's next operation; false where it has to wait or is at its end.
  bool step(int rank, int queue) {
    if (finished(rank, queue)) return false;
    const Operation& operation = plan_.ranks[rank].queues[queue].operations[next_[rank][queue]];
    if (operation.kind == OpKind::kWait && !signals_[rank].at(operation.number)) return false;
    if (operation.kind == OpKind::kReceive && !messages_[rank].at(operation.number)) return false;
    perform(rank, operation);
    ++next_[rank][queue];
    return true;
  }

  void perform(int rank, const Operation& operation) {
    switch (operation.kind) {
      case OpKind::kSignal:
        signals_[operation.peer_rank].at(operation.number) = true;
        return;
      case OpKind::kWait:
        return;
      case OpKind::kSend:  // the source is read when the message is received: as late as a transport may
        messages_[operation.peer_rank].at(operation.number) = operation.chunks == 0 ? Place{} : operation.sources.at(0);
        return;
      case OpKind::kReceive:
        reduce(operation, operation.destinations, {*messages_[rank].at(operation.number)});
        return;
      case OpKind::kReduce:
        reduce(operation, operation.destinations, operation.sources);
        return;
    }
  }

  void reduce(const Operation& operation, const std::vector<Place>& destinations, const std::vector<Place>& sources) {
    for (int offset = 0; offset < operation.chunks; ++offset) {
      for (int i = 0; i < kWidth; ++i) {
        T sum = at(sources.at(0), operation.chunk, offset)[i];
        for (size_t s = 1; s < sources.size(); ++s) sum += at(sources[s], operation.chunk, offset)[i];
        for (const Place& place : destinations) at(place, operation.chunk, offset)[i] = sum;
      }
    }
  }

  const Plan& plan_;
  const bool in_place_;
  std::vector<Memory> memories_;
  std::vector<std::vector<bool>> signals_;                   // [receiver][number]: sent
  std::vector<std::vector<std::optional<Place>>> messages_;  // [receiver][number]: the source, once sent
  std::vector<std::vector<size_t>> next_;                    // [rank][queue]
};

}  // namespace plait::test

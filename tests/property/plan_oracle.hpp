// A second opinion on plans, which shares nothing with the verifier: it runs a plan on data, many times, each time with
// another unlucky interleaving of its queues, and says what went wrong.
//
// The machine it plays is as unkind as a real one may be:
//  - every chunk has two elements; a reduce loads and stores them in any order, and other queues work in between;
//  - places that nothing was written to hold garbage;
//  - unfinished reductions take twice the width, so element 1 of one is where the end of a chunk of the caller's type
//  is;
//  - ranks call late and return at once; a caller's buffers are its own before the call and after the return.
// What a result must be is told by random 64-bit contributions with a wrapping sum (which: each once) and by a hash
// that neither commutes nor associates (in which order).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace plait::test {

class PlanOracle {
 public:
  PlanOracle(const Plan& plan, uint64_t seed) : plan_(plan), random_(seed) {}

  // Runs the plan under `schedules` interleavings, with input and output apart and, where the plan claims it, in the
  // same memory. Returns the first harm seen, in words.
  std::optional<std::string> find_harm(int schedules) {
    for (const bool in_place : {false, true}) {
      if (in_place && !plan_.in_place) continue;
      Run first(*this, in_place, nullptr);
      if (auto harm = first.play(Schedule::kFair)) return describe(in_place, Schedule::kFair, *harm);
      for (int i = 0; i < schedules; ++i) {
        const Schedule schedule = i % 3 == 0 ? Schedule::kRandom : i % 3 == 1 ? Schedule::kBursts : Schedule::kPriority;
        Run run(*this, in_place, &first);
        if (auto harm = run.play(schedule)) return describe(in_place, schedule, *harm);
      }
    }
    return std::nullopt;
  }

 private:
  enum class Schedule { kFair, kRandom, kBursts, kPriority };

  struct Value {
    uint64_t sum = 0;
    uint64_t order = 0;
    int count = 0;  // contributions; 0: garbage
    friend bool operator==(const Value&, const Value&) = default;
  };

  // A quarter of a place's memory: one narrow element (quarters 0 and 1) or half of a wide one.
  struct Quarter {
    Value value;
    int8_t element = -1;
    int8_t part = 0;
    bool wide = false;
  };
  using Cell = std::array<Quarter, 4>;

  static uint64_t scramble(uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 29;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 32);
  }
  static Value garbage(uint64_t salt) { return {scramble(salt), scramble(~salt), 0}; }
  static Value contribution(int rank, int chunk, int element) {
    const uint64_t id = (static_cast<uint64_t>(rank) << 40) + (static_cast<uint64_t>(chunk) << 8) + element + 1;
    return {scramble(id), scramble(id * 31), 1};
  }
  static Value combine(const Value& a, const Value& b) {
    return {a.sum + b.sum, scramble(scramble(a.order) + 5 * b.order),
            a.count == 0 || b.count == 0 ? 0 : a.count + b.count};
  }
  bool is_wide(const Value& v) const { return v.count > 1 && v.count < plan_.rank_count(); }

  int chunks() const { return plan_.collective == Collective::kBarrier ? 0 : plan_.blocks * plan_.chunks_per_block; }
  int block_of(int chunk) const { return chunk / plan_.chunks_per_block; }
  bool gives(int rank, int chunk) const {
    switch (plan_.collective) {
      case Collective::kBroadcast:
      case Collective::kScatter:
        return rank == plan_.root;
      case Collective::kAllGather:
      case Collective::kGather:
        return block_of(chunk) == rank;
      case Collective::kAllToAll:
        return block_of(chunk) / plan_.rank_count() == rank;
      default:
        return true;
    }
  }
  bool gets(int rank, int chunk) const {
    switch (plan_.collective) {
      case Collective::kReduce:
      case Collective::kGather:
        return rank == plan_.root;
      case Collective::kReduceScatter:
      case Collective::kScatter:
        return block_of(chunk) == rank;
      case Collective::kAllToAll:
        return block_of(chunk) % plan_.rank_count() == rank;
      default:
        return true;
    }
  }
  // The chunk of the output that lies where this chunk of the input does, if input and output are one buffer.
  int same_place(int chunk) const {
    if (plan_.collective != Collective::kAllToAll) return chunk;
    const int n = plan_.rank_count(), block = block_of(chunk);
    return (block % n * n + block / n) * plan_.chunks_per_block + chunk % plan_.chunks_per_block;
  }
  bool combines() const {
    return plan_.collective == Collective::kAllReduce || plan_.collective == Collective::kReduce ||
           plan_.collective == Collective::kReduceScatter;
  }
  uint64_t expected_sum(int chunk, int element) const {
    if (!combines()) {
      int source = 0;
      while (!gives(source, chunk)) ++source;
      return contribution(source, chunk, element).sum;
    }
    uint64_t sum = 0;
    for (int rank = 0; rank < plan_.rank_count(); ++rank) sum += contribution(rank, chunk, element).sum;
    return sum;
  }

  std::string describe(bool in_place, Schedule schedule, const std::string& harm) const {
    static constexpr const char* kNames[] = {"fair", "random", "bursts", "priority"};
    return std::string(in_place ? "in place" : "apart") + ", " + kNames[static_cast<int>(schedule)] +
           " schedule: " + harm;
  }

  class Run {
   public:
    // `first` is the run with the fair schedule: queues are lowered for the widths seen there, and results must equal
    // its results.
    Run(PlanOracle& oracle, bool in_place, const Run* first)
        : oracle_(oracle), plan_(oracle.plan_), random_(oracle.random_), in_place_(in_place), first_(first) {
      const int ranks = plan_.rank_count();
      for (int rank = 0; rank < ranks; ++rank) {
        const RankPlan& it = plan_.ranks[rank];
        memory_.push_back({make(oracle.chunks()), make(oracle.chunks()), make(it.scratch_slots), make(it.host_slots)});
        flags_.emplace_back(it.signals, false);
        widths_.emplace_back();
        for (size_t queue = 0; queue < it.queues.size(); ++queue) {
          queues_.push_back({rank, static_cast<int>(queue)});
          widths_.back().emplace_back(it.queues[queue].operations.size());
        }
      }
      called_.assign(ranks, false);
      returned_.assign(ranks, false);
      unfinished_.assign(ranks, 0);
      for (const QueueRun& queue : queues_) ++unfinished_[queue.rank];
      results_.resize(ranks);
    }

    std::optional<std::string> play(Schedule schedule) {
      Scheduler scheduler(schedule, static_cast<int>(queues_.size()) + plan_.rank_count(), random_);
      std::vector<int> enabled;
      for (;;) {
        enabled.clear();
        for (int rank = 0; rank < plan_.rank_count(); ++rank) {
          if (!called_[rank]) enabled.push_back(rank);
        }
        for (size_t i = 0; i < queues_.size(); ++i) {
          if (can_go_on(queues_[i])) enabled.push_back(plan_.rank_count() + static_cast<int>(i));
        }
        if (enabled.empty()) break;
        const int actor = scheduler.choose(enabled);
        if (actor < plan_.rank_count()) {
          call(actor);
        } else {
          step(queues_[actor - plan_.rank_count()]);
        }
        if (harm_) return harm_;
      }
      check_all_over();
      return harm_;
    }

   private:
    // One load or store of one element.
    struct Micro {
      int chunk_offset = 0;
      int element = 0;
      int place = 0;
      bool store = false;
    };
    struct QueueRun {
      int rank = 0;
      int queue = 0;
      size_t next = 0;
      std::vector<Micro> todo = {};  // of the operation under way, last first
      bool under_way = false;
      std::vector<std::vector<Value>> loaded = {};  // of each element (chunk offset * 2 + element), by source
    };
    struct Widths {
      std::vector<bool> source;
      bool result = false;
      bool known = false;
    };
    struct Message {
      std::vector<std::vector<Value>> values;
      int chunks = 0;
      bool wide = false;
      bool taken = false;
    };

    class Scheduler {
     public:
      Scheduler(Schedule schedule, int actors, std::mt19937_64& random) : schedule_(schedule), random_(random) {
        for (int i = 0; i < actors; ++i) priority_.push_back(static_cast<int64_t>(random() >> 2));
      }
      int choose(const std::vector<int>& enabled) {
        switch (schedule_) {
          case Schedule::kFair:
            return enabled[turn_++ % enabled.size()];
          case Schedule::kRandom:
            return enabled[random_() % enabled.size()];
          case Schedule::kBursts: {
            for (const int actor : enabled) {
              if (actor == current_ && random_() % 8 != 0) return actor;
            }
            return current_ = enabled[random_() % enabled.size()];
          }
          case Schedule::kPriority:
            break;
        }
        // The most urgent actor goes on alone; now and then it becomes the least urgent one.
        int best = enabled[0];
        for (const int actor : enabled) {
          if (priority_[actor] > priority_[best]) best = actor;
        }
        if (random_() % 64 == 0) priority_[best] = --least_;
        return best;
      }

     private:
      Schedule schedule_;
      std::mt19937_64& random_;
      std::vector<int64_t> priority_;
      int64_t least_ = 0;
      size_t turn_ = 0;
      int current_ = -1;
    };

    std::vector<Cell> make(int count) {
      std::vector<Cell> cells(count);
      for (Cell& cell : cells) spoil(cell);
      return cells;
    }
    void spoil(Cell& cell) {
      for (int q = 0; q < 4; ++q) {
        cell[q] = {garbage(++salt_), static_cast<int8_t>(q < 2 ? q : -1), 0, false};
      }
    }
    const Operation& operation_of(const QueueRun& queue) const {
      return plan_.ranks[queue.rank].queues[queue.queue].operations[queue.next];
    }
    template <class... Parts>
    void hurt(const QueueRun& queue, const Parts&... parts) {
      if (harm_) return;
      harm_ = "rank " + std::to_string(queue.rank) + " queue " + std::to_string(queue.queue) + " operation " +
              std::to_string(queue.next) + ": ";
      (*harm_ += ... += parts);
    }

    // --- the callers ---

    void call(int rank) {
      called_[rank] = true;
      for (int chunk = 0; chunk < oracle_.chunks(); ++chunk) spoil(memory_[rank][1][chunk]);
      for (int chunk = 0; chunk < oracle_.chunks(); ++chunk) {
        for (int e = 0; e < 2 && oracle_.gives(rank, chunk); ++e) {
          Cell& cell = cell_at(rank, Buffer::kInput, chunk, 0);
          cell[e] = {contribution(rank, chunk, e), static_cast<int8_t>(e), 0, false};
        }
      }
      if (unfinished_[rank] == 0) give_back(rank);
      for (QueueRun& queue : queues_) {
        if (queue.rank == rank && queue.next == plan_.ranks[rank].queues[queue.queue].operations.size())
          finish_queue(queue);
      }
    }

    void finish_queue(QueueRun& queue) {
      if (--unfinished_[queue.rank] == 0) give_back(queue.rank);
    }

    // The rank returns: its output is looked at, and from now on its buffers are the caller's again.
    void give_back(int rank) {
      returned_[rank] = true;
      if (plan_.collective == Collective::kBarrier) {
        for (int other = 0; other < plan_.rank_count(); ++other) {
          if (!called_[other]) harm_ = "rank " + std::to_string(rank) + " left the barrier too early";
        }
      }
      for (int chunk = 0; chunk < oracle_.chunks(); ++chunk) {
        for (int e = 0; e < 2 && oracle_.gets(rank, chunk); ++e) {
          const Quarter& q = memory_[rank][1][chunk][e];
          results_[rank].push_back(q.value);
          if (q.value.sum != oracle_.expected_sum(chunk, e) || q.value.count == 0) {
            harm_ = "rank " + std::to_string(rank) + " returns a wrong chunk " + std::to_string(chunk);
          }
        }
      }
    }

    void check_all_over() {
      for (const QueueRun& queue : queues_) {
        if (queue.next < plan_.ranks[queue.rank].queues[queue.queue].operations.size()) hurt(queue, "waits for ever");
      }
      for (const auto& [key, message] : messages_) {
        if (!message.taken && !harm_) harm_ = "a message is never received";
      }
      if (harm_ || !oracle_.combines()) return;
      std::map<int, Value> of_chunk;
      for (int rank = 0; rank < plan_.rank_count(); ++rank) {
        size_t i = 0;
        for (int chunk = 0; chunk < oracle_.chunks(); ++chunk) {
          for (int e = 0; e < 2 && oracle_.gets(rank, chunk); ++e, ++i) {
            const Value& mine = results_[rank][i];
            const auto [it, fresh] = of_chunk.emplace(2 * chunk + e, mine);
            if (!fresh && it->second.order != mine.order)
              harm_ = "ranks combine chunk " + std::to_string(chunk) + " in different orders";
            if (first_ != nullptr && !(first_->results_[rank][i] == mine)) {
              harm_ = "chunk " + std::to_string(chunk) + " depends on the interleaving";
            }
          }
        }
      }
    }

    // --- the queues ---

    bool can_go_on(const QueueRun& queue) const {
      const auto& operations = plan_.ranks[queue.rank].queues[queue.queue].operations;
      if (!called_[queue.rank] || queue.next >= operations.size()) return false;
      if (queue.under_way) return true;
      const Operation& operation = operations[queue.next];
      if (operation.kind == OpKind::kWait) {
        const auto& flags = flags_[queue.rank];
        // A wait for what does not exist goes on, and step() complains.
        return operation.number < 0 || operation.number >= static_cast<int>(flags.size()) || flags[operation.number];
      }
      if (operation.kind == OpKind::kReceive) {
        const auto it = messages_.find({queue.rank, operation.number});
        return it != messages_.end();
      }
      return true;
    }

    void step(QueueRun& queue) {
      const Operation& operation = operation_of(queue);
      if (operation.kind == OpKind::kSignal) return signal(queue, operation);
      if (operation.kind == OpKind::kWait) {
        if (operation.number < 0 || operation.number >= static_cast<int>(flags_[queue.rank].size())) {
          hurt(queue, "waits for a signal that does not exist");
        }
        return next(queue);
      }
      if (!queue.under_way) return begin(queue, operation);
      if (!queue.todo.empty()) {
        const Micro micro = queue.todo.back();
        queue.todo.pop_back();
        micro.store ? store(queue, operation, micro) : load(queue, operation, micro);
      }
      if (queue.todo.empty() && !harm_) end(queue, operation);
    }

    void next(QueueRun& queue) {
      queue.under_way = false;
      ++queue.next;
      if (queue.next == plan_.ranks[queue.rank].queues[queue.queue].operations.size()) finish_queue(queue);
    }

    void signal(QueueRun& queue, const Operation& operation) {
      const int peer = operation.peer_rank;
      if (peer < 0 || peer >= plan_.rank_count() || operation.number < 0 ||
          operation.number >= static_cast<int>(flags_[peer].size())) {
        return hurt(queue, "signals what does not exist");
      }
      if (plan_.node_of[peer] != plan_.node_of[queue.rank]) return hurt(queue, "signals another node");
      flags_[peer][operation.number] = true;
      next(queue);
    }

    void begin(QueueRun& queue, const Operation& operation) {
      check_engine(queue, operation);
      for (const Place& place : operation.sources) check_place(queue, operation, place, false);
      for (const Place& place : operation.destinations) check_place(queue, operation, place, true);
      if (harm_) return;
      queue.under_way = true;
      queue.loaded.assign(2 * static_cast<size_t>(operation.chunks), {});
      Widths& widths = widths_[queue.rank][queue.queue][queue.next];
      if (first_ != nullptr) widths = first_->widths_[queue.rank][queue.queue][queue.next];
      if (operation.kind == OpKind::kReceive) take(queue, operation);
      if (harm_) return;
      plan_micros(queue, operation);
    }

    // Elements in any order, but of each element the loads before the stores.
    void plan_micros(QueueRun& queue, const Operation& operation) {
      std::vector<std::vector<Micro>> per_element;
      for (int offset = 0; offset < operation.chunks; ++offset) {
        for (int e = 0; e < 2; ++e) {
          auto& micros = per_element.emplace_back();
          for (size_t d = operation.destinations.size(); d-- > 0;) {
            micros.push_back({offset, e, static_cast<int>(d), true});
          }
          for (size_t s = operation.sources.size(); s-- > 0;) micros.push_back({offset, e, static_cast<int>(s), false});
        }
      }
      queue.todo.clear();
      const int style = first_ == nullptr ? 0 : static_cast<int>(random_() % 3);
      while (!per_element.empty()) {
        const size_t i = style == 0 ? 0 : style == 1 ? per_element.size() - 1 : random_() % per_element.size();
        queue.todo.push_back(per_element[i].back());
        per_element[i].pop_back();
        if (per_element[i].empty()) per_element.erase(per_element.begin() + static_cast<std::ptrdiff_t>(i));
      }
      // todo is taken from its end.
      for (size_t i = 0, j = queue.todo.size(); i + 1 < j; ++i) std::swap(queue.todo[i], queue.todo[--j]);
    }

    void check_engine(QueueRun& queue, const Operation& operation) {
      const Engine engine = plan_.ranks[queue.rank].queues[queue.queue].engine;
      const size_t sources = operation.sources.size(), destinations = operation.destinations.size();
      if (operation.kind == OpKind::kReduce) {
        if (sources == 0 || destinations == 0) hurt(queue, "a reduce from or to nowhere");
        if (engine == Engine::kCopy && (sources > 1 || destinations > 1)) hurt(queue, "a copy engine cannot reduce");
        if (engine == Engine::kNet) hurt(queue, "a network cannot reduce");
      } else {
        const size_t ends = plan_.collective == Collective::kBarrier ? 0 : 1;  // a barrier's messages carry nothing
        if (sources + destinations != ends) hurt(queue, "a message with several ends");
        if (ends == 0 && operation.chunks != 0) hurt(queue, "a barrier's message of something");
        if (engine == Engine::kSm) hurt(queue, "an SM cannot talk to the network");
      }
    }

    void check_place(QueueRun& queue, const Operation& operation, const Place& place, bool store) {
      if (place.rank < 0 || place.rank >= plan_.rank_count()) return hurt(queue, "segmentation fault: no such rank");
      if (operation.chunks < 1 || operation.chunk < 0 || operation.chunk + operation.chunks > oracle_.chunks()) {
        return hurt(queue, "segmentation fault: no such chunk");
      }
      if (plan_.node_of[place.rank] != plan_.node_of[queue.rank])
        return hurt(queue, "segmentation fault: another node");
      if (place.buffer == Buffer::kScratch || place.buffer == Buffer::kHost) {
        const int slots = static_cast<int>(memory_[place.rank][static_cast<int>(place.buffer)].size());
        if (place.slot < 0 || place.slot + operation.chunks > slots) hurt(queue, "segmentation fault: no such slot");
        return;
      }
      if (place.slot != 0) return hurt(queue, "segmentation fault: a slot of a caller's buffer");
      if (plan_.access == Access::kStaged && place.rank != queue.rank) hurt(queue, "segmentation fault: out of access");
      if (store && place.buffer == Buffer::kInput) hurt(queue, "overwrites an input");
      for (int chunk = operation.chunk; chunk < operation.chunk + operation.chunks; ++chunk) {
        const bool there =
            place.buffer == Buffer::kInput ? oracle_.gives(place.rank, chunk) : oracle_.gets(place.rank, chunk);
        if (!there) hurt(queue, "segmentation fault: outside of the caller's buffer");
      }
    }

    Cell& cell_at(int rank, Buffer buffer, int chunk, int slot) {
      if (buffer == Buffer::kScratch || buffer == Buffer::kHost) return memory_[rank][static_cast<int>(buffer)][slot];
      const int other = oracle_.same_place(chunk);
      if (in_place_ && buffer == Buffer::kInput && oracle_.gets(rank, other)) return memory_[rank][1][other];
      return memory_[rank][buffer == Buffer::kOutput ? 1 : 0][chunk];
    }
    Cell& touch(QueueRun& queue, const Operation& operation, const Place& place, int offset) {
      const bool callers = place.buffer == Buffer::kInput || place.buffer == Buffer::kOutput;
      if (callers && !called_[place.rank]) hurt(queue, "touches a buffer before its rank called");
      if (callers && returned_[place.rank]) hurt(queue, "touches a buffer after its rank returned");
      return cell_at(place.rank, place.buffer, operation.chunk + offset, place.slot + offset);
    }

    void load(QueueRun& queue, const Operation& operation, const Micro& micro) {
      const Cell& cell = touch(queue, operation, operation.sources[micro.place], micro.chunk_offset);
      Widths& widths = widths_[queue.rank][queue.queue][queue.next];
      if (!widths.known) {  // in the fair run, the first load of each source tells the width
        if (micro.chunk_offset == 0 && micro.element == 0) widths.source.push_back(cell[0].wide);
      }
      const bool wide = micro.place < static_cast<int>(widths.source.size()) && widths.source[micro.place];
      const int e = micro.element;
      Value value = garbage(++salt_);
      if (wide) {
        const Quarter &a = cell[2 * e], &b = cell[2 * e + 1];
        if (a.wide && b.wide && a.element == e && b.element == e && a.part == 0 && b.part == 1 && a.value == b.value) {
          value = a.value;
        }
      } else if (!cell[e].wide && cell[e].element == e) {
        value = cell[e].value;
      }
      queue.loaded[2 * micro.chunk_offset + e].push_back(value);
    }

    Value reduced(QueueRun& queue, const Micro& micro) {
      const auto& values = queue.loaded[2 * micro.chunk_offset + micro.element];
      Value result = values[0];
      for (size_t i = 1; i < values.size(); ++i) result = combine(result, values[i]);
      return result;
    }

    void store(QueueRun& queue, const Operation& operation, const Micro& micro) {
      const Place& place = operation.destinations[micro.place];
      Cell& cell = touch(queue, operation, place, micro.chunk_offset);
      const Value value = reduced(queue, micro);
      Widths& widths = widths_[queue.rank][queue.queue][queue.next];
      if (!widths.known) {
        widths.known = true;
        widths.result = oracle_.is_wide(value);
      }
      const int8_t e = static_cast<int8_t>(micro.element);
      if (!widths.result) {
        cell[e] = {value, e, 0, false};
        return;
      }
      if (place.buffer == Buffer::kOutput) return hurt(queue, "a wide store overflows a caller's buffer");
      cell[2 * e] = {value, e, 0, true};
      cell[2 * e + 1] = {value, e, 1, true};
    }

    void take(QueueRun& queue, const Operation& operation) {
      Message& message = messages_[{queue.rank, operation.number}];
      if (message.taken) return hurt(queue, "receives a message twice");
      if (message.chunks != operation.chunks) return hurt(queue, "a message of another size");
      message.taken = true;
      queue.loaded = message.values;
      Widths& widths = widths_[queue.rank][queue.queue][queue.next];
      widths.known = true;
      widths.result = message.wide;
    }

    void end(QueueRun& queue, const Operation& operation) {
      if (operation.kind == OpKind::kSend) {
        Message message;
        message.values = queue.loaded;
        message.chunks = operation.chunks;
        message.wide = operation.chunks > 0 && widths_[queue.rank][queue.queue][queue.next].source.at(0);
        if (!messages_.emplace(std::pair{operation.peer_rank, operation.number}, message).second) {
          hurt(queue, "sends a message twice");
        }
      }
      next(queue);
    }

    PlanOracle& oracle_;
    const Plan& plan_;
    std::mt19937_64& random_;
    const bool in_place_;
    const Run* first_;
    uint64_t salt_ = 0;
    std::vector<std::array<std::vector<Cell>, 4>> memory_;  // [rank][buffer]
    std::vector<std::vector<bool>> flags_;                  // [rank][signal]
    std::map<std::pair<int, int>, Message> messages_;       // by (receiver, number)
    std::vector<std::vector<std::vector<Widths>>> widths_;  // [rank][queue][operation]
    std::vector<QueueRun> queues_;
    std::vector<bool> called_, returned_;
    std::vector<int> unfinished_;              // queues of each rank
    std::vector<std::vector<Value>> results_;  // of each rank, in the order of its output
    std::optional<std::string> harm_;
  };

  const Plan& plan_;
  std::mt19937_64 random_;
};

}  // namespace plait::test

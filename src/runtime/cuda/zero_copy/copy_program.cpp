// Lowers a verified plan to copies.
#include "runtime/cuda/zero_copy/copy_program.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "base/error.hpp"
#include "plan/conditions.hpp"
#include "runtime/message_layout.hpp"

namespace plait {
namespace {

bool is_by_one_kernel(const Plan& plan, int rank) {
  const std::vector<Queue>& queues = plan.ranks[static_cast<size_t>(rank)].queues;
  return std::all_of(queues.begin(), queues.end(), [](const Queue& queue) { return queue.engine == Engine::kSm; });
}

// Whether an operation, a queue or a rank combines sources. A queue that does reduces only.
bool combines(const Operation& operation) { return operation.kind == OpKind::kReduce && operation.sources.size() > 1; }
bool combines(const Queue& queue) {
  return std::any_of(queue.operations.begin(), queue.operations.end(),
                     [](const Operation& it) { return combines(it); });
}

bool combines(const RankPlan& rank) {
  return std::any_of(rank.queues.begin(), rank.queues.end(), [](const Queue& it) { return combines(it); });
}

class CopyWriter {
 public:
  CopyWriter(const Plan& plan, const Call& call, int rank, size_t count)
      : plan_(plan),
        rank_(rank),
        op_(call.op),
        element_bytes_(size_of(call.type)),
        layout_{count, call.count, chunk_elements_for(count, plan.chunks_per_block, element_bytes_),
                plan.chunks_per_block},
        by_one_kernel_(is_by_one_kernel(plan, rank)) {}

  bool by_one_kernel() const { return by_one_kernel_; }

  CopyQueue write(const Queue& queue) const {
    if (queue.engine != Engine::kCopy && queue.engine != Engine::kSm) refuse("a queue of engine ", name(queue.engine));
    CopyQueue written;
    written.by_kernel = queue.engine == Engine::kSm;
    const bool copies = std::any_of(queue.operations.begin(), queue.operations.end(),
                                    [](const Operation& it) { return it.kind == OpKind::kReduce; });
    bool is_after = false;
    for (const Operation& operation : queue.operations) {
      if (operation.kind == OpKind::kReduce) {
        if (written.after.count > 0) refuse("a queue that copies again after it has signalled or waited");
        is_after = true;
        add_copies(queue, operation, written.copies);
      } else {
        // A queue without copies need not wait for its peer before other queues copy.
        is_after = is_after || (!copies && operation.kind == OpKind::kWait);
        add(operation, is_after ? written.after : written.before);
      }
    }
    return written;
  }

  DeviceReduce write_reduce(const Queue& queue) const {
    if (queue.engine != Engine::kSm) refuse("a reduce by engine ", name(queue.engine));
    DeviceReduce written;
    for (const Operation& operation : queue.operations) {
      if (operation.kind == OpKind::kReduce) {
        add_reduce(operation, written);
      } else {
        CopyQueue& barriers = barriers_with(operation.peer_rank, written.barriers);
        add(operation, written.sources.empty() ? barriers.before : barriers.after);
      }
    }
    return written;
  }

  // Each queue deals with one peer of its own, since signals are counted by peer.
  void check_peers(const std::vector<CopyQueue>& queues) const {
    std::set<int> peers;
    for (const CopyQueue& queue : queues) {
      if (queue.after.count > 0 && queue.before.count > 0 && queue.after.peer != queue.before.peer) {
        refuse("a queue that deals with several ranks");
      }
      const BarrierQueue& barrier = queue.before.count > 0 ? queue.before : queue.after;
      if (barrier.count > 0 && !peers.insert(barrier.peer).second) refuse("two queues that deal with one rank");
    }
  }

  // The table of a launch has room for all copies.
  void check_copies(const std::vector<CopyQueue>& queues) const {
    size_t copies = 0;
    for (const CopyQueue& queue : queues) copies += queue.copies.size();
    if (copies > kMostDeviceRanks) refuse(copies, " copies by SMs, more than one for each rank,");
  }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... what) const {
    fail(ErrorCode::kInvalidPlan, "plan ", plan_.algorithm, " has ", what..., " on rank ", rank_,
         ", which cannot be performed zero-copy");
  }

 private:
  void add(const Operation& operation, BarrierQueue& barrier) const {
    if (operation.kind != OpKind::kSignal && operation.kind != OpKind::kWait) refuse("messages");
    if (barrier.count == BarrierQueue::kMostOperations) refuse("a queue with a long run of signals and waits");
    if (barrier.count > 0 && barrier.peer != operation.peer_rank) refuse("a queue that deals with several ranks");
    barrier.peer = static_cast<uint8_t>(operation.peer_rank);
    barrier.operations[barrier.count++] = {operation.kind};
  }

  void add_copies(const Queue& queue, const Operation& operation, std::vector<DeviceCopy>& copies) const {
    if (operation.sources.size() != 1 || operation.destinations.size() != 1) refuse("a reduce of several places");
    const Place& from = operation.sources[0];
    const Place& to = operation.destinations[0];
    if (to.buffer != Buffer::kOutput || to.rank != rank_) refuse("a copy into memory that is not its output");
    if (queue.engine == Engine::kSm && from.rank != rank_ && !by_one_kernel_) {
      refuse("a copy between ranks by SMs, beside copies by copy engines");
    }
    for (int chunk = operation.chunk; chunk < operation.chunk + operation.chunks; ++chunk) {
      const bool is_reduced = from.buffer == Buffer::kOutput && reduces(from.rank, chunk);
      if (from.buffer != Buffer::kInput && !is_reduced) refuse("a copy from ", name(from.buffer));
      const size_t bytes = layout_.elements(chunk, 1) * element_bytes_;
      if (bytes == 0) continue;
      const ChunkWindow window = is_reduced ? output_window(plan_, from.rank) : input_window(plan_, from.rank);
      copies.push_back({from.rank, offset(window, chunk), offset(output_window(plan_, rank_), chunk), bytes});
    }
  }

  void add_reduce(const Operation& operation, DeviceReduce& reduce) const {
    const auto ranks = static_cast<size_t>(plan_.rank_count());
    if (!reduce.sources.empty() || operation.chunks != 1) refuse("a queue that reduces twice");
    if (operation.sources.size() != ranks || ranks > kMostDeviceRanks) refuse("a reduce of a part of the inputs");
    const bool to_one = operation.destinations.size() == 1;
    if (!to_one || operation.destinations[0].buffer != Buffer::kOutput || operation.destinations[0].rank != rank_) {
      refuse("a reduce into memory that is not its output");
    }
    for (const Place& from : operation.sources) {
      if (from.buffer != Buffer::kInput) refuse("a reduce of ", name(from.buffer));
      reduce.sources.push_back({from.rank, offset(input_window(plan_, from.rank), operation.chunk)});
    }
    reduce.output_offset = offset(output_window(plan_, rank_), operation.chunk);
    reduce.elements = layout_.elements(operation.chunk, 1);
    reduce.divisor = divisor_of(op_, plan_.rank_count());
  }

  static CopyQueue& barriers_with(int peer, std::vector<CopyQueue>& barriers) {
    const auto found =
        std::find_if(barriers.begin(), barriers.end(), [&](const CopyQueue& it) { return it.before.peer == peer; });
    if (found != barriers.end()) return *found;
    CopyQueue& made = barriers.emplace_back();
    made.before.peer = made.after.peer = static_cast<uint8_t>(peer);
    return made;
  }

  // Whether `rank` combines the chunk.
  bool reduces(int rank, int chunk) const {
    for (const Queue& queue : plan_.ranks[static_cast<size_t>(rank)].queues) {
      for (const Operation& operation : queue.operations) {
        if (combines(operation) && operation.chunk == chunk) return true;
      }
    }
    return false;
  }

  size_t offset(const ChunkWindow& window, int chunk) const {
    return layout_.begin(window.position_of(chunk)) * element_bytes_;
  }

  const Plan& plan_;
  const int rank_;
  const ReduceOp op_;
  const size_t element_bytes_;
  const SliceLayout layout_;
  const bool by_one_kernel_;
};

// Whether another rank reads from that buffer.
bool is_read(const Plan& plan, int rank, Buffer buffer) {
  for (int other = 0; other < plan.rank_count(); ++other) {
    if (other == rank) continue;
    for (const Queue& queue : plan.ranks[static_cast<size_t>(other)].queues) {
      for (const Operation& operation : queue.operations) {
        for (const Place& source : operation.sources) {
          if (source.rank == rank && source.buffer == buffer) return true;
        }
      }
    }
  }
  return false;
}

BarrierQueue barrier(BarrierKind kind, int peer, std::initializer_list<OpKind> operations) {
  BarrierQueue queue;
  queue.kind = kind;
  queue.peer = static_cast<uint8_t>(peer);
  for (const OpKind operation : operations) queue.operations[queue.count++] = {operation};
  return queue;
}

}  // namespace

CopyProgram make_copy_program(const VerifiedPlan& plan, const Call& call, int rank) {
  return make_copy_program(plan, call, rank, call.count);
}

CopyProgram make_copy_program(const VerifiedPlan& plan, const Call& call, int rank, size_t count) {
  const CopyWriter writer(plan.plan(), call, rank, count);
  CopyProgram program;
  program.call = call;
  program.in_place = plan.plan().in_place;
  program.input_bytes = input_elements(call, plan.plan().rank_count(), rank) * size_of(call.type);
  program.output_bytes = output_elements(call, plan.plan().rank_count(), rank) * size_of(call.type);
  for (const Queue& queue : plan.plan().ranks[static_cast<size_t>(rank)].queues) {
    if (!combines(queue)) {
      program.queues.push_back(writer.write(queue));
    } else if (program.reduce) {
      writer.refuse("several queues that combine");
    } else {
      program.reduce = writer.write_reduce(queue);
    }
  }
  for (const RankPlan& other : plan.plan().ranks) {
    if (combines(other) != program.reduce.has_value()) writer.refuse("a reduce on some ranks and none on others, seen");
  }
  program.by_one_kernel = writer.by_one_kernel();
  writer.check_peers(program.queues);
  if (program.by_one_kernel) writer.check_copies(program.queues);
  program.input_is_read = is_read(plan.plan(), rank, Buffer::kInput);
  program.output_is_read = is_read(plan.plan(), rank, Buffer::kOutput);
  return program;
}

CopyQueue sending_queue(int peer, bool beside_copy) {
  CopyQueue queue;
  if (beside_copy) {
    queue.before = barrier(BarrierKind::kSend, peer, {OpKind::kSignal});
    queue.after = barrier(BarrierKind::kSend, peer, {OpKind::kWait});
  } else {
    queue.before = barrier(BarrierKind::kSend, peer, {OpKind::kSignal, OpKind::kWait});
  }
  return queue;
}

CopyQueue receiving_queue(int peer, size_t bytes, bool by_kernel) {
  CopyQueue queue;
  queue.before = barrier(BarrierKind::kReceive, peer, {OpKind::kWait});
  queue.copies = {{peer, 0, 0, bytes}};
  queue.after = barrier(BarrierKind::kReceive, peer, {OpKind::kSignal});
  queue.by_kernel = by_kernel;
  return queue;
}

bool is_in_place(const DeviceCopy& copy, const std::byte* source, const std::byte* output) {
  return source + copy.source_offset == output + copy.output_offset;
}

std::vector<PlacedCopy> place(const CopyQueue& queue, std::span<const std::byte* const> sources, std::byte* output) {
  std::vector<PlacedCopy> placed;
  for (const DeviceCopy& copy : queue.copies) {
    const std::byte* const source = sources[static_cast<size_t>(copy.from_rank)];
    if (is_in_place(copy, source, output)) continue;
    placed.push_back({output + copy.output_offset, source + copy.source_offset, copy.bytes});
  }
  return placed;
}

}  // namespace plait

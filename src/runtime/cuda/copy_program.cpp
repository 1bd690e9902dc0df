// From a verified plan to copies.
#include "runtime/cuda/copy_program.hpp"

#include <algorithm>
#include <initializer_list>
#include <set>

#include "base/error.hpp"
#include "plan/conditions.hpp"
#include "runtime/message_layout.hpp"

namespace plait {
namespace {

bool is_by_one_kernel(const Plan& plan, int rank) {
  const std::vector<Lane>& lanes = plan.ranks[static_cast<size_t>(rank)].lanes;
  return std::all_of(lanes.begin(), lanes.end(), [](const Lane& lane) { return lane.engine == Engine::kSm; });
}

// Lanes that combine do nothing else.
bool combines(const Operation& operation) { return operation.kind == OpKind::kFold && operation.sources.size() > 1; }
bool combines(const Lane& lane) {
  return std::any_of(lane.operations.begin(), lane.operations.end(), [](const Operation& it) { return combines(it); });
}

bool combines(const RankPlan& rank) {
  return std::any_of(rank.lanes.begin(), rank.lanes.end(), [](const Lane& it) { return combines(it); });
}

class Writer {
 public:
  Writer(const Plan& plan, const Call& call, int rank, size_t count)
      : plan_(plan),
        rank_(rank),
        op_(call.op),
        element_bytes_(size_of(call.type)),
        layout_{count, call.count, chunk_elements_for(count, plan.chunks_per_block, element_bytes_),
                plan.chunks_per_block},
        by_one_kernel_(is_by_one_kernel(plan, rank)) {}

  bool by_one_kernel() const { return by_one_kernel_; }

  CopyLane write(const Lane& lane) const {
    if (lane.engine != Engine::kCopy && lane.engine != Engine::kSm) refuse("a lane of engine ", name(lane.engine));
    CopyLane written;
    written.by_kernel = lane.engine == Engine::kSm;
    const bool copies = std::any_of(lane.operations.begin(), lane.operations.end(),
                                    [](const Operation& it) { return it.kind == OpKind::kFold; });
    bool is_after = false;
    for (const Operation& operation : lane.operations) {
      if (operation.kind == OpKind::kFold) {
        if (written.after.count > 0) refuse("a lane that copies again after it has signalled or waited");
        is_after = true;
        add_copies(lane, operation, written.copies);
      } else {
        // Who only gives need not wait for its peers before other lanes copy.
        is_after = is_after || (!copies && operation.kind == OpKind::kWait);
        add(operation, is_after ? written.after : written.before);
      }
    }
    return written;
  }

  DeviceFold write_fold(const Lane& lane) const {
    if (lane.engine != Engine::kSm) refuse("a fold by engine ", name(lane.engine));
    DeviceFold written;
    for (const Operation& operation : lane.operations) {
      if (operation.kind == OpKind::kFold) {
        add_fold(operation, written);
      } else {
        CopyLane& gates = gates_with(operation.peer_rank, written.gates);
        add(operation, written.sources.empty() ? gates.before : gates.after);
      }
    }
    return written;
  }

  // Lanes count their signals by peer.
  void check_peers(const std::vector<CopyLane>& lanes) const {
    std::set<int> peers;
    for (const CopyLane& lane : lanes) {
      if (lane.after.count > 0 && lane.before.count > 0 && lane.after.peer != lane.before.peer) {
        refuse("a lane that deals with several ranks");
      }
      const GateLane& gate = lane.before.count > 0 ? lane.before : lane.after;
      if (gate.count > 0 && !peers.insert(gate.peer).second) refuse("two lanes that deal with one rank");
    }
  }

  // For a launch with a table of them.
  void check_copies(const std::vector<CopyLane>& lanes) const {
    size_t copies = 0;
    for (const CopyLane& lane : lanes) copies += lane.copies.size();
    if (copies > kMostDeviceRanks) refuse(copies, " copies by SMs, more than one for each rank,");
  }

  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... what) const {
    fail(ErrorCode::kInvalidPlan, "plan ", plan_.algorithm, " has ", what..., " on rank ", rank_,
         ", which is not performed straight from buffer to buffer");
  }

 private:
  void add(const Operation& operation, GateLane& gate) const {
    if (operation.kind != OpKind::kSignal && operation.kind != OpKind::kWait) refuse("messages");
    if (gate.count == GateLane::kMostOperations) refuse("a lane with a long run of signals and waits");
    if (gate.count > 0 && gate.peer != operation.peer_rank) refuse("a lane that deals with several ranks");
    gate.peer = static_cast<uint8_t>(operation.peer_rank);
    gate.operations[gate.count++] = {operation.kind};
  }

  void add_copies(const Lane& lane, const Operation& operation, std::vector<DeviceCopy>& copies) const {
    if (operation.sources.size() != 1 || operation.destinations.size() != 1) refuse("a fold of several places");
    const Place& from = operation.sources[0];
    const Place& to = operation.destinations[0];
    if (to.buffer != Buffer::kOutput || to.rank != rank_) refuse("a copy into memory that is not its output");
    if (lane.engine == Engine::kSm && from.rank != rank_ && !by_one_kernel_) {
      refuse("a copy between ranks by SMs, beside copies by copy engines");
    }
    for (int chunk = operation.chunk; chunk < operation.chunk + operation.chunks; ++chunk) {
      const bool is_folded = from.buffer == Buffer::kOutput && folds(from.rank, chunk);
      if (from.buffer != Buffer::kInput && !is_folded) refuse("a copy from ", name(from.buffer));
      const size_t bytes = layout_.elements(chunk, 1) * element_bytes_;
      if (bytes == 0) continue;
      const ChunkWindow window = is_folded ? output_window(plan_, from.rank) : input_window(plan_, from.rank);
      copies.push_back({from.rank, offset(window, chunk), offset(output_window(plan_, rank_), chunk), bytes});
    }
  }

  void add_fold(const Operation& operation, DeviceFold& fold) const {
    const auto ranks = static_cast<size_t>(plan_.rank_count());
    if (!fold.sources.empty() || operation.chunks != 1) refuse("a lane that folds twice");
    if (operation.sources.size() != ranks || ranks > kMostDeviceRanks) refuse("a fold of a part of the inputs");
    const bool to_one = operation.destinations.size() == 1;
    if (!to_one || operation.destinations[0].buffer != Buffer::kOutput || operation.destinations[0].rank != rank_) {
      refuse("a fold into memory that is not its output");
    }
    for (const Place& from : operation.sources) {
      if (from.buffer != Buffer::kInput) refuse("a fold of ", name(from.buffer));
      fold.sources.push_back({from.rank, offset(input_window(plan_, from.rank), operation.chunk)});
    }
    fold.output_offset = offset(output_window(plan_, rank_), operation.chunk);
    fold.elements = layout_.elements(operation.chunk, 1);
    fold.divisor = op_ == ReduceOp::kAverage ? plan_.rank_count() : 0;
  }

  static CopyLane& gates_with(int peer, std::vector<CopyLane>& gates) {
    const auto found =
        std::find_if(gates.begin(), gates.end(), [&](const CopyLane& it) { return it.before.peer == peer; });
    if (found != gates.end()) return *found;
    CopyLane& made = gates.emplace_back();
    made.before.peer = made.after.peer = static_cast<uint8_t>(peer);
    return made;
  }

  // Whether that rank combines the chunk.
  bool folds(int rank, int chunk) const {
    for (const Lane& lane : plan_.ranks[static_cast<size_t>(rank)].lanes) {
      for (const Operation& operation : lane.operations) {
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

// Whether another rank has a source in that buffer.
bool is_read(const Plan& plan, int rank, Buffer buffer) {
  for (int other = 0; other < plan.rank_count(); ++other) {
    if (other == rank) continue;
    for (const Lane& lane : plan.ranks[static_cast<size_t>(other)].lanes) {
      for (const Operation& operation : lane.operations) {
        for (const Place& source : operation.sources) {
          if (source.rank == rank && source.buffer == buffer) return true;
        }
      }
    }
  }
  return false;
}

GateLane gate(GateWay way, int peer, std::initializer_list<OpKind> operations) {
  GateLane lane;
  lane.way = way;
  lane.peer = static_cast<uint8_t>(peer);
  for (const OpKind kind : operations) lane.operations[lane.count++] = {kind};
  return lane;
}

}  // namespace

CopyProgram make_copy_program(const VerifiedPlan& plan, const Call& call, int rank) {
  return make_copy_program(plan, call, rank, call.count);
}

CopyProgram make_copy_program(const VerifiedPlan& plan, const Call& call, int rank, size_t count) {
  const Writer writer(plan.plan(), call, rank, count);
  CopyProgram program;
  program.call = call;
  program.in_place = plan.plan().in_place;
  program.input_bytes = input_elements(call, plan.plan().rank_count(), rank) * size_of(call.type);
  program.output_bytes = output_elements(call, plan.plan().rank_count(), rank) * size_of(call.type);
  for (const Lane& lane : plan.plan().ranks[static_cast<size_t>(rank)].lanes) {
    if (!combines(lane)) {
      program.lanes.push_back(writer.write(lane));
    } else if (program.fold) {
      writer.refuse("several lanes that combine");
    } else {
      program.fold = writer.write_fold(lane);
    }
  }
  for (const RankPlan& other : plan.plan().ranks) {
    if (combines(other) != program.fold.has_value()) writer.refuse("a fold on some ranks and none on others, seen");
  }
  program.by_one_kernel = writer.by_one_kernel();
  writer.check_peers(program.lanes);
  if (program.by_one_kernel) writer.check_copies(program.lanes);
  program.input_is_read = is_read(plan.plan(), rank, Buffer::kInput);
  program.output_is_read = is_read(plan.plan(), rank, Buffer::kOutput);
  return program;
}

CopyLane sending_lane(int peer, bool beside_copy) {
  CopyLane lane;
  if (beside_copy) {
    lane.before = gate(GateWay::kSend, peer, {OpKind::kSignal});
    lane.after = gate(GateWay::kSend, peer, {OpKind::kWait});
  } else {
    lane.before = gate(GateWay::kSend, peer, {OpKind::kSignal, OpKind::kWait});
  }
  return lane;
}

CopyLane receiving_lane(int peer, size_t bytes, bool by_kernel) {
  CopyLane lane;
  lane.before = gate(GateWay::kReceive, peer, {OpKind::kWait});
  lane.copies = {{peer, 0, 0, bytes}};
  lane.after = gate(GateWay::kReceive, peer, {OpKind::kSignal});
  lane.by_kernel = by_kernel;
  return lane;
}

bool is_in_place(const DeviceCopy& copy, const std::byte* source, const std::byte* output) {
  return source + copy.source_offset == output + copy.output_offset;
}

std::vector<PlacedCopy> place(const CopyLane& lane, std::span<const std::byte* const> sources, std::byte* output) {
  std::vector<PlacedCopy> placed;
  for (const DeviceCopy& copy : lane.copies) {
    const std::byte* const source = sources[static_cast<size_t>(copy.from_rank)];
    if (is_in_place(copy, source, output)) continue;
    placed.push_back({output + copy.output_offset, source + copy.source_offset, copy.bytes});
  }
  return placed;
}

}  // namespace plait

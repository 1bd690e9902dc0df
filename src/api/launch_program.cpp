// Programs of launches.
#include "api/launch_program.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "model/simulator/program_builder.hpp"
#include "plan/conditions.hpp"
#include "plan/form.hpp"
#include "plan/traffic.hpp"
#include "runtime/bound_plan.hpp"
#include "runtime/cuda/lowering/launch_limits.hpp"
#include "runtime/cuda/lowering/queue_program.hpp"
#include "tuner/choice.hpp"

namespace plait {
namespace {

constexpr double kUnit = 16;  // bytes of a chunk of the program: what a thread moves at once
constexpr int kThreadsOfCta = 512;
// Channels are so many queues of the simulator, which begin one after the other. Channels that are all at one step
// leave links idle together; on GPUs they soon drift apart, as these do.
constexpr int kMostGroups = 8;
// Of long runs over many ranks, fewer do: their steps grow with the square of the ranks.
constexpr uint64_t kMostGroupedRounds = 100'000;
// Vectors of 16 bytes that a thread stores to host memory in an operation before it first waits for its pace.
constexpr int kVectorsBeforePace = 4;

using Begin = SimulatedStep::Begin;

// All ranks' programs of one launch.
struct LoweredLaunch {
  std::vector<QueueProgram> ranks;
  LaunchShape shape;
  bool through_host = false;

  int channels() const { return static_cast<int>(std::min<uint64_t>(shape.channels, ranks[0].slices)); }
  uint64_t rounds() const { return (ranks[0].slices + channels() - 1) / channels(); }
  int groups() const {
    if (shape.protocol != Protocol::kSimple) return 1;
    const uint64_t steps = rounds() * ranks.size() * ranks.size();
    const auto most = static_cast<int>(std::clamp<uint64_t>(kMostGroupedRounds / steps, 1, kMostGroups));
    return std::min(most, channels());
  }
  // How many channels of a group have a slice in a round.
  int width(uint64_t round, int group) const {
    const auto all = static_cast<int>(std::min<uint64_t>(channels(), ranks[0].slices - round * channels()));
    const auto before = [&](int groups_before) { return all * groups_before / groups(); };
    return before(group + 1) - before(group);
  }
  bool is_last(uint64_t round) const { return round + 1 == rounds(); }
  const SliceProgram& part(int rank, int queue, uint64_t round) const {
    const QueueProgram& program = ranks[static_cast<size_t>(rank)];
    if (!is_last(round)) return program.full[queue];
    return ranks[0].slices > 1 ? program.ending[queue] : program.last[queue];
  }
};

// A run of the plan: its number in the call, and in all calls.
struct LaunchRound {
  uint64_t round = 0, epoch = 0;
};

class LaunchCompiler {
 public:
  LaunchCompiler(const SimulatedLaunch& launch, Routes& routes)
      : launch_(launch), plan_(launch.plan->plan()), routes_(routes), builder_(routes), program_(builder_.program()) {
    program_.chunk_bytes = kUnit;
  }

  SimulatorProgram compile() {
    const bool has_blocks = has_rank_blocks(plan_.collective);
    const size_t blocks = has_blocks ? plan_.ranks.size() : 1;
    const Call call = call_by(*launch_.plan, DataType::kFloat32, ReduceOp::kSum,
                              std::max<size_t>(1, launch_.bytes / (blocks * size_of(DataType::kFloat32))));
    const size_t over_links = elements_over_links(call, launch_.shape);
    if (over_links < call.count) {
      host_path_ = lowered(call, {over_links, call.count - over_links}, host_path_shape(launch_.shape), true);
    }
    program_.call_ends.resize(static_cast<size_t>(launch_.calls));
    if (launch_.zero_copy != nullptr) {
      add_copies(call, over_links);
    } else {
      main_ = lowered(call, {0, over_links}, launch_.shape, false);
      add(*main_);
    }
    if (host_path_) add(*host_path_);
    return builder_.take();
  }

 private:
  LoweredLaunch lowered(const Call& call, const BlockPart& part, const LaunchShape& shape, bool through_host) {
    LoweredLaunch made{{}, shape, through_host};
    const auto limits = [&](const Plan& plan) {
      return through_host ? host_path_limits(launch_.shape, plan) : launch_limits(shape, plan);
    };
    const VerifiedPlan* const ending = through_host ? nullptr : launch_.ending;
    for (int rank = 0; rank < plan_.rank_count(); ++rank) {
      const BoundPlan bound = bind(*launch_.plan, call, rank, limits(plan_), part);
      std::optional<BoundPlan> end;
      if (ending != nullptr) end = bind_alike(bound, *ending, call, rank, limits(ending->plan()), part);
      made.ranks.push_back(make_queue_program(bound, call, rank, shape.protocol, end ? &*end : nullptr));
    }
    return made;
  }

  // --- kernels ---

  void add(const LoweredLaunch& launch) {
    for (group_ = 0; group_ < launch.groups(); ++group_) {
      for (int rank = 0; rank < plan_.rank_count(); ++rank) {
        const int queues = launch.ranks[static_cast<size_t>(rank)].queues;
        for (int queue = 0; queue < queues; ++queue) add_queue(launch, rank, queue);
      }
    }
  }

  void add_queue(const LoweredLaunch& launch, int rank, int queue) {
    SimulatedQueue added{rank, queue_number(launch, rank, queue), program_.steps.size(), 0};
    for (int i = 0; i < rank * launch.groups() + group_; ++i) {
      add_step(SimulatedStep::Kind::kTell, Begin::kStagger, program_.signals++);  // which nobody hears
    }
    if (launch.shape.protocol == Protocol::kSimple) {
      ctas_ = limited(SimulatedResource::Kind::kCtas, static_cast<double>(launch.width(0, group_)) *
                                                          launch.shape.threads / kThreadsOfCta);
    } else {
      ctas_ = ProgramBuilder::kNoRoute;  // a word or line is with few threads, and all are under way at once
    }
    for (int call = 0; call < launch_.calls; ++call) {
      begin_call(added, call);
      for (uint64_t round = 0; round < launch.rounds(); ++round) {
        add_round(launch, rank, queue, {round, static_cast<uint64_t>(call) * launch.rounds() + round});
      }
      end_call(added, call);
    }
    added.end = program_.steps.size();
    program_.queues.push_back(added);
  }

  // Queues of the simulator: those of the main launch, then those of the host path.
  int main_queues(int rank) const {
    if (main_) return main_->groups() * main_->ranks[static_cast<size_t>(rank)].queues;
    return static_cast<int>(launch_.zero_copy->plan().ranks[static_cast<size_t>(rank)].queues.size());
  }
  int all_queues(int rank) const {
    if (!host_path_) return main_queues(rank);
    return main_queues(rank) + host_path_->groups() * host_path_->ranks[static_cast<size_t>(rank)].queues;
  }
  int queue_number(const LoweredLaunch& launch, int rank, int queue) const {
    const int number = queue * launch.groups() + group_;
    return launch.through_host ? main_queues(rank) + number : number;
  }
  Begin begin_of_call() const {
    return launch_.pdl && !host_path_ && main_ ? Begin::kCall : Begin::kCallWithoutPdl;
  }

  // A call of a stream begins when all of the rank's queues are done with the one before.
  void begin_call(const SimulatedQueue& queue, int call) {
    if (call == 0) return;
    Begin begin = begin_of_call();
    for (int other = 0; other < all_queues(queue.rank); ++other) {
      if (other == queue.queue) continue;
      add_step(SimulatedStep::Kind::kHear, begin, signal(in_stream(queue.rank, other, queue.queue, call - 1)));
      program_.steps.back().link_kind = SimulatedStep::kInStream;
      begin = Begin::kNothing;
    }
    if (begin == Begin::kNothing) return;
    add_step(SimulatedStep::Kind::kTell, begin, program_.signals++);  // which nobody hears
  }

  void end_call(const SimulatedQueue& queue, int call) {
    for (int other = 0; other < all_queues(queue.rank) && call + 1 < launch_.calls; ++other) {
      if (other == queue.queue) continue;
      add_step(SimulatedStep::Kind::kTell, Begin::kNothing, signal(in_stream(queue.rank, queue.queue, other, call)));
    }
    program_.call_ends[static_cast<size_t>(call)].push_back(program_.steps.size() - 1);
  }

  uint32_t limited(SimulatedResource::Kind kind, double limit) {
    program_.limits.push_back(limit);
    return builder_.numbered(SimulatedResource{kind, static_cast<int>(program_.limits.size()) - 1});
  }

  // One run of the plan over a slice of each channel.
  void add_round(const LoweredLaunch& launch, int rank, int queue, const LaunchRound& it) {
    const QueueProgram& program = launch.ranks[static_cast<size_t>(rank)];
    const SliceProgram& part = launch.part(rank, queue, it.round);
    await_earlier(launch, rank, queue, it);
    const int reading = part.count - (part.ends_with_signals ? 1 : 0);
    for (int i = 0; i < part.count; ++i) {
      if (i == reading) tell_completion(launch, rank, queue, it.epoch);
      const DeviceOperation& operation = program.operations[part.first + i];
      if (operation.kind == OpKind::kReduce && !operation.is_batched) {
        add_reduce(launch, rank, queue, it, i);
      } else if (operation.kind != OpKind::kReduce) {
        add_flags(launch, rank, it.epoch, operation);
      }
    }
    if (reading == part.count) tell_completion(launch, rank, queue, it.epoch);
  }

  static constexpr int64_t kMostStreamQueues = 1024;
  enum class What : uint8_t { kFlag, kData, kCompletion, kInStream, kBarrier, kHostFlag, kHostCompletion };
  using SignalKey = std::tuple<What, int, int64_t, uint64_t>;  // whose, which, and in which epoch or call

  uint32_t signal(const SignalKey& key) {
    const int group = std::get<0>(key) == What::kInStream ? 0 : group_;
    const auto [found, is_new] = signals_.try_emplace({key, group}, program_.signals);
    if (is_new) ++program_.signals;
    return found->second;
  }

  void add_step(SimulatedStep::Kind kind, Begin begin, uint32_t index) {
    SimulatedStep& step = program_.steps.emplace_back();
    step.kind = kind;
    step.begin = begin;
    step.index = index;
  }

  void hear(const LoweredLaunch& launch, int from, int to, Begin begin, const SignalKey& key) {
    add_step(SimulatedStep::Kind::kHear, begin, signal(key));
    SimulatedStep& step = program_.steps.back();
    step.between_ranks = from != to;
    step.link_kind = launch.through_host && from != to ? SimulatedStep::kThroughHost
                                                       : builder_.link_kind_between(from, to);
  }

  static SignalKey in_stream(int rank, int from, int to, int call) {
    return {What::kInStream, rank, from * kMostStreamQueues + to, static_cast<uint64_t>(call)};
  }
  // Signals of completed epochs: of a queue, for a queue.
  static SignalKey completion(const LoweredLaunch& launch, int from, int from_queue, int to, int to_queue,
                              uint64_t epoch) {
    return {launch.through_host ? What::kHostCompletion : What::kCompletion, from * kMostQueues + from_queue,
            to * kMostQueues + to_queue, epoch};
  }

  // What has to be over two epochs before: the queue's predecessors in the same call, else all of them.
  QueueSet awaited(const LoweredLaunch& launch, int rank, int queue, uint64_t round) const {
    if (round >= 2) return launch.part(rank, queue, round).predecessors;
    QueueSet all = 0;
    for (int from = 0; from < plan_.rank_count(); ++from) {
      for (int other = 0; other < launch.ranks[static_cast<size_t>(from)].queues; ++other) {
        if (from != rank || other != queue) all |= QueueSet{1} << (from * kMostQueues + other);
      }
    }
    return all;
  }

  void await_earlier(const LoweredLaunch& launch, int rank, int queue, const LaunchRound& it) {
    if (it.epoch < 2) return;
    for_each(awaited(launch, rank, queue, it.round), [&](int from, int from_queue) {
      hear(launch, from, rank, Begin::kNothing, completion(launch, from, from_queue, rank, queue, it.epoch - 2));
    });
  }

  // To all queues that will wait for it.
  void tell_completion(const LoweredLaunch& launch, int rank, int queue, uint64_t epoch) {
    const uint64_t later = epoch + 2;
    if (later >= launch.rounds() * static_cast<uint64_t>(launch_.calls)) return;
    for (int to = 0; to < plan_.rank_count(); ++to) {
      for (int to_queue = 0; to_queue < launch.ranks[static_cast<size_t>(to)].queues; ++to_queue) {
        const QueueSet set = awaited(launch, to, to_queue, later % launch.rounds());
        if ((set >> (rank * kMostQueues + queue) & 1) == 0) continue;
        add_step(SimulatedStep::Kind::kTell, Begin::kNothing,
                 signal(completion(launch, rank, queue, to, to_queue, epoch)));
      }
    }
  }

  template <class Act>
  void for_each(QueueSet set, const Act& act) const {
    for (int bit = 0; bit < plan_.rank_count() * kMostQueues; ++bit) {
      if ((set >> bit & 1) != 0) act(bit / kMostQueues, bit % kMostQueues);
    }
  }

  // A run of signals or waits.
  void add_flags(const LoweredLaunch& launch, int rank, uint64_t epoch, const DeviceOperation& operation) {
    const QueueProgram& program = launch.ranks[static_cast<size_t>(rank)];
    const bool tells = operation.kind == OpKind::kSignal;
    const What what = launch.through_host ? What::kHostFlag : What::kFlag;
    Begin begin = !tells ? Begin::kWait : launch.through_host ? Begin::kHostFence : Begin::kFence;
    for (int i = 0; i < operation.count; ++i) {
      const FlagRef& flag = program.flags[operation.first + static_cast<size_t>(i)];
      if (tells) {
        add_step(SimulatedStep::Kind::kTell, begin, signal({what, flag.peer, flag.number, epoch}));
      } else {
        hear(launch, flag.peer, rank, begin, {what, rank, flag.number, epoch});
      }
      begin = Begin::kNothing;
    }
  }

  // A reduce, or a batch of copies. With LL and LL128, what it reads has to come, and what it stores tells of itself.
  void add_reduce(const LoweredLaunch& launch, int rank, int queue, const LaunchRound& it, int number) {
    const QueueProgram& program = launch.ranks[static_cast<size_t>(rank)];
    const SliceProgram& part = launch.part(rank, queue, it.round);
    const bool has_flags = launch.shape.protocol != Protocol::kSimple;
    const DeviceOperation& first = program.operations[part.first + static_cast<size_t>(number)];
    if (has_flags) {
      for_each_place(program, part, number, [&](const DevicePlace& place, bool is_source) {
        const auto writer = static_cast<int>(place.writer);
        if (!is_source || owner_of(place, rank) != rank || !is_scratch(place)) return;
        hear(launch, writer, rank, Begin::kNothing, {What::kData, rank, static_cast<int64_t>(place.offset), it.epoch});
      });
    }
    const auto add_work = [&](const auto& which, Begin begin) {
      bool any = false;
      builder_.begin_work(first.sources > 1);
      for (int c = 0; c < first.batch; ++c) {
        const DeviceOperation& operation = program.operations[part.first + static_cast<size_t>(number + c)];
        if (!which(operation)) continue;
        any = true;
        add_places(launch, rank, queue, it.round, number + c, operation);
      }
      if (any) add_step(SimulatedStep::Kind::kWork, begin, builder_.end_work());
      return any;
    };
    if (!has_flags) {
      add_work([](const DeviceOperation&) { return true; }, Begin::kOperation);
      return;
    }
    // All that others wait for is sent first.
    const auto is_sent = [&](const DeviceOperation& operation) {
      const DevicePlace* const places = program.places.data() + operation.first;
      return std::any_of(places, places + operation.destinations, is_scratch);
    };
    const bool sends = add_work(is_sent, Begin::kWords);
    for_each_place(program, part, number, [&](const DevicePlace& place, bool is_source) {
      if (is_source || !is_scratch(place)) return;
      const int owner = owner_of(place, rank);
      add_step(SimulatedStep::Kind::kTell, Begin::kNothing,
               signal({What::kData, owner, static_cast<int64_t>(place.offset), it.epoch}));
    });
    add_work([&](const DeviceOperation& operation) { return !is_sent(operation); },
             sends ? Begin::kNothing : Begin::kWords);
  }

  static bool is_scratch(const DevicePlace& place) { return place.base >= kFirstScratchBase; }
  static int owner_of(const DevicePlace& place, int rank) {
    return is_scratch(place) ? static_cast<int>(place.base - kFirstScratchBase) : rank;
  }

  template <class Act>
  static void for_each_place(const QueueProgram& program, const SliceProgram& part, int number, const Act& act) {
    const int batch = program.operations[part.first + static_cast<size_t>(number)].batch;
    for (int c = 0; c < batch; ++c) {
      const DeviceOperation& operation = program.operations[part.first + static_cast<size_t>(number + c)];
      for (int i = 0; i < operation.count; ++i) {
        act(program.places[operation.first + static_cast<size_t>(i)], i >= operation.destinations);
      }
    }
  }

  // Bytes of an operation over all channels. The last slice of all may be shorter.
  double bytes_of(const LoweredLaunch& launch, int rank, int queue, uint64_t round, int number, bool on_links) const {
    const QueueProgram& program = launch.ranks[static_cast<size_t>(rank)];
    const SliceProgram& part = launch.part(rank, queue, round);
    const auto of = [&](const SliceProgram& slice) {
      const size_t bytes = program.operations[slice.first + static_cast<size_t>(number)].elements * size_t{4};
      return static_cast<double>(on_links ? stored_bytes(launch.shape.protocol, bytes) : bytes);
    };
    const int width = launch.width(round, group_);
    const SliceProgram& last = program.last[queue];
    const bool has_last = launch.is_last(round) && group_ + 1 == launch.groups() && width > 0;
    if (!has_last || last.count != part.count) return width * of(part);
    return (width - 1) * of(part) + of(last);
  }

  void add_places(const LoweredLaunch& launch, int rank, int queue, uint64_t round, int number,
                  const DeviceOperation& operation) {
    const QueueProgram& program = launch.ranks[static_cast<size_t>(rank)];
    const auto units = [&](bool on_links) {
      return static_cast<int64_t>((bytes_of(launch, rank, queue, round, number, on_links) + kUnit - 1) / kUnit);
    };
    int local = 0;
    for (int i = 0; i < operation.count; ++i) {
      const DevicePlace& place = program.places[operation.first + static_cast<size_t>(i)];
      const bool is_source = i >= operation.destinations;
      const int owner = owner_of(place, rank);
      if (launch.through_host && is_scratch(place)) {
        add_through_host(launch, rank, owner, is_source, units(true));
      } else if (owner == rank) {
        ++local;
      } else {
        const int mine = routes_.device_of({rank}), its = routes_.device_of({owner});
        const Mover mover = is_source ? Mover::kLoads : Mover::kStores;
        builder_.add_flow(is_source ? builder_.route_between(its, mine, mover) : builder_.route_between(mine, its, mover),
                          units(true));
      }
    }
    builder_.add_flow(builder_.memory_route(rank, ctas_), local * units(false));
  }

  // Between a rank and the host memory next to another, or to it. What it stores keeps to a pace.
  void add_through_host(const LoweredLaunch& launch, int rank, int owner, bool loads, int64_t units) {
    const int gpu = routes_.device_of({rank}), host = routes_.device_of({owner, true});
    if (loads) {
      builder_.add_flow(builder_.route_between(host, gpu), units);
      return;
    }
    builder_.add_flow(builder_.route_between(gpu, host), units);
    if (launch_.shape.host.bytes_per_second <= 0) return;
    const auto [found, is_new] = paces_.try_emplace(rank, 0);
    if (is_new) found->second = limited(SimulatedResource::Kind::kPace, launch_.shape.host.bytes_per_second);
    const int64_t at_once = int64_t{kVectorsBeforePace} * launch.shape.threads * launch.width(0, group_);
    builder_.add_flow(builder_.pace_route(found->second), std::max<int64_t>(0, units - at_once));
  }

  // --- straight between buffers ---

  void add_copies(const Call& call, size_t over_links) {
    const Plan& plan = launch_.zero_copy->plan();
    const Pairing pairing = check_form(plan);
    const double bytes = static_cast<double>(launch_.bytes) * static_cast<double>(over_links) / static_cast<double>(call.count);
    units_of_chunk_ = bytes / std::max(1, chunks_of_size(plan)) / kUnit;
    for (const Queue& queue : plan.ranks[0].queues) has_copy_engines_ |= queue.engine == Engine::kCopy;
    for (int rank = 0; rank < plan.rank_count(); ++rank) {
      const auto& queues = plan.ranks[static_cast<size_t>(rank)].queues;
      for (int queue = 0; queue < static_cast<int>(queues.size()); ++queue) add_copies_of(plan, pairing, rank, queue);
    }
  }

  void add_copies_of(const Plan& plan, const Pairing& pairing, int rank, int queue) {
    const Queue& from = plan.ranks[static_cast<size_t>(rank)].queues[static_cast<size_t>(queue)];
    SimulatedQueue added{rank, queue, program_.steps.size(), 0};
    group_ = 0;
    const auto& operations = from.operations;
    const auto joins = [&](size_t next, const Operation& first) {
      const Operation& it = operations[next];
      if (it.kind != first.kind) return false;
      if (it.kind != OpKind::kReduce) return true;
      return from.engine != Engine::kCopy && it.sources.size() == 1 && first.sources.size() == 1;
    };
    ctas_ = ProgramBuilder::kNoRoute;
    for (int call = 0; call < launch_.calls; ++call) {
     begin_call(added, call);
    for (size_t i = 0; i < operations.size();) {
      size_t end = i + 1;
      while (end < operations.size() && joins(end, operations[i])) ++end;
      const OperationId id{rank, queue, static_cast<int>(i)};
      if (operations[i].kind == OpKind::kReduce) {
        add_moves(plan, pairing, id, end - i, from.engine);
      } else {
        const bool follows = i > 0 && operations[i - 1].kind != OpKind::kReduce;
        add_barrier(operations, i, end, rank, follows, static_cast<uint64_t>(call));
      }
      i = end;
    }
     end_call(added, call);
    }
    added.end = program_.steps.size();
    program_.queues.push_back(added);
  }

  void add_barrier(const std::vector<Operation>& operations, size_t first, size_t end, int rank, bool follows,
                   uint64_t call) {
    Begin begin = follows ? Begin::kNothing : Begin::kBarrier;
    for (size_t i = first; i < end; ++i, begin = Begin::kNothing) {
      const Operation& it = operations[i];
      if (it.kind == OpKind::kSignal) {
        add_step(SimulatedStep::Kind::kTell, begin, signal({What::kBarrier, it.peer_rank, it.number, call}));
        continue;
      }
      add_step(SimulatedStep::Kind::kHear, begin, signal({What::kBarrier, rank, it.number, call}));
      program_.steps.back().between_ranks = it.peer_rank != rank;
      program_.steps.back().link_kind = it.peer_rank == rank ? SimulatedStep::kLocal : SimulatedStep::kBetweenCopies;
    }
  }

  // Copies, all at once if SMs perform them. SMs also combine what copy engines spread.
  void add_moves(const Plan& plan, const Pairing& pairing, OperationId id, size_t count, Engine engine) {
    const auto& operations = plan.ranks[static_cast<size_t>(id.rank)].queues[static_cast<size_t>(id.queue)].operations;
    const bool combines = operations[static_cast<size_t>(id.operation)].sources.size() > 1;
    const bool copies = engine == Engine::kCopy && !combines;
    const int sms = combines ? kReduceSms : has_copy_engines_ ? kOwnCopySms : kPullSms;
    const auto [ctas, is_new] = copy_ctas_.try_emplace({id.rank, sms}, 0);
    if (is_new) ctas->second = limited(SimulatedResource::Kind::kCtas, sms);
    builder_.begin_work(combines);
    bool crosses = false;
    for (size_t i = 0; i < count; ++i, ++id.operation) {
      const Operation& it = operations[static_cast<size_t>(id.operation)];
      const auto units = static_cast<int64_t>(units_of_chunk_ * it.chunks + 0.5);
      find_transfers(plan, pairing, id, transfers_);
      for (const Transfer& transfer : transfers_) {
        crosses = true;
        builder_.add_flow(builder_.route_between(routes_.device_of(transfer.from), routes_.device_of(transfer.to),
                                                 copies ? Mover::kCopyEngine : Mover::kLoads),
                          units);
      }
      const auto places = static_cast<int64_t>(it.sources.size() + it.destinations.size());
      const int64_t local = places - std::ssize(transfers_);
      builder_.add_flow(builder_.memory_route(id.rank, copies ? ProgramBuilder::kNoRoute : ctas->second),
                        local * units);
    }
    add_step(SimulatedStep::Kind::kWork, copies && crosses ? Begin::kCopy : Begin::kOperation, builder_.end_work());
  }

  const SimulatedLaunch& launch_;
  const Plan& plan_;
  Routes& routes_;
  ProgramBuilder builder_;
  SimulatorProgram& program_;
  std::optional<LoweredLaunch> main_, host_path_;
  int group_ = 0;  // of channels, at hand
  std::map<std::pair<SignalKey, int>, uint32_t> signals_;  // of a group of channels
  std::map<int, uint32_t> paces_;              // of ranks
  uint32_t ctas_ = ProgramBuilder::kNoRoute;   // of the queue at hand
  std::map<std::pair<int, int>, uint32_t> copy_ctas_;  // of ranks, by how many SMs copy
  bool has_copy_engines_ = false;                      // the zero-copy plan
  double units_of_chunk_ = 0;                  // of the zero-copy plan
  std::vector<Transfer> transfers_;
};

}  // namespace

SimulatorProgram compile_launch(const SimulatedLaunch& launch, Routes& routes) {
  return LaunchCompiler(launch, routes).compile();
}

}  // namespace plait

// Kernels of launches.
#include "api/launch_kernels.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "tuner/launch_shape.hpp"

namespace plait {
namespace {

constexpr int kThreadsOfCta = 512;
constexpr int kStaggersOfRank = 8;  // by which a rank begins after the one before it
// Vectors of 16 bytes that a thread stores to host memory in an operation before it first waits for its pace.
constexpr int kVectorsBeforePace = 4;

using Begin = LaunchSteps::Begin;
using What = LaunchSteps::What;
using Signal = LaunchSteps::Signal;

bool is_scratch(const DevicePlace& place) { return place.base >= kFirstScratchBase; }

// A slice that a rank's queue has in each channel of a group: its round of the call, and its number in all calls.
struct LaunchedSlice {
  int rank = 0, queue = 0, group = 0;
  uint64_t round = 0, epoch = 0;
};

class LaunchKernelWriter {
 public:
  LaunchKernelWriter(const LoweredLaunch& launch, const Plan& plan, LaunchSteps& steps)
      : launch_(launch), plan_(plan), steps_(steps), has_flags_(launch.shape.protocol != Protocol::kSimple) {}

  // `number`: of the queue in the simulator's program.
  void add_queue(int rank, int queue, int group, int number) {
    steps_.begin_queue(rank, number);
    for (int i = 0; i < rank * kStaggersOfRank + group; ++i) steps_.wait(Begin::kStagger);
    // A word or line is with few threads, and all are under way at once.
    ctas_ = has_flags_ ? ProgramBuilder::kNoRoute
                       : steps_.limited(SimulatedResource::Kind::kCtas, static_cast<double>(launch_.width(0, group)) *
                                                                            launch_.shape.threads / kThreadsOfCta);
    for (int call = 0; call < steps_.calls(); ++call) {
      steps_.begin_call(call);
      for (uint64_t round = 0; round < launch_.rounds(); ++round) {
        add({rank, queue, group, round, static_cast<uint64_t>(call) * launch_.rounds() + round});
      }
      steps_.end_call(call);
    }
    steps_.end_queue();
  }

 private:
  const QueueProgram& program_of(int rank) const { return launch_.ranks[static_cast<size_t>(rank)]; }
  const SliceProgram& part_of(const LaunchedSlice& slice) const {
    return launch_.part(slice.rank, slice.queue, slice.round);
  }
  const DeviceOperation& operation_of(const LaunchedSlice& slice, int number) const {
    return program_of(slice.rank).operations[part_of(slice).first + static_cast<size_t>(number)];
  }
  static int owner_of(const DevicePlace& place, int rank) {
    return is_scratch(place) ? static_cast<int>(place.base - kFirstScratchBase) : rank;
  }

  void add(const LaunchedSlice& slice) {
    const SliceProgram& part = part_of(slice);
    await_earlier(slice);
    const int reading = part.count - (part.ends_with_signals ? 1 : 0);
    for (int i = 0; i < part.count; ++i) {
      if (i == reading) tell_completion(slice);
      const DeviceOperation& operation = operation_of(slice, i);
      if (operation.kind != OpKind::kReduce) {
        add_flags(slice, operation);
      } else if (!operation.is_batched) {
        if (has_flags_) {
          add_words(slice, i);
        } else {
          add_work(slice, i, Begin::kOperation, [](const DeviceOperation&) { return true; });
        }
      }
    }
    if (reading == part.count) tell_completion(slice);
  }

  // --- memory that is used again ---

  Signal completion(const LaunchedSlice& slice, int to, int to_queue, uint64_t epoch) const {
    return {launch_.through_host ? What::kHostCompletion : What::kCompletion, slice.rank * kMostQueues + slice.queue,
            to * kMostQueues + to_queue, epoch, slice.group};
  }

  // The queues that must be done with the epoch before last: the predecessors in the same call, else all queues.
  QueueSet awaited(int rank, int queue, uint64_t round) const {
    if (round >= 2) return launch_.part(rank, queue, round).predecessors;
    QueueSet all = 0;
    for (int from = 0; from < plan_.rank_count(); ++from) {
      for (int other = 0; other < program_of(from).queues; ++other) {
        if (from != rank || other != queue) all |= QueueSet{1} << (from * kMostQueues + other);
      }
    }
    return all;
  }

  void await_earlier(const LaunchedSlice& slice) {
    if (slice.epoch < 2) return;
    const QueueSet set = awaited(slice.rank, slice.queue, slice.round);
    for (int bit = 0; bit < plan_.rank_count() * kMostQueues; ++bit) {
      if ((set >> bit & 1) == 0) continue;
      const LaunchedSlice from{bit / kMostQueues, bit % kMostQueues, slice.group};
      hear(Begin::kNothing, from.rank, slice.rank, completion(from, slice.rank, slice.queue, slice.epoch - 2));
    }
  }

  // Signals the end of a slice to all queues that will wait for it.
  void tell_completion(const LaunchedSlice& slice) {
    const uint64_t later = slice.epoch + 2;
    if (later >= launch_.rounds() * static_cast<uint64_t>(steps_.calls())) return;
    for (int to = 0; to < plan_.rank_count(); ++to) {
      for (int to_queue = 0; to_queue < program_of(to).queues; ++to_queue) {
        const QueueSet set = awaited(to, to_queue, later % launch_.rounds());
        if ((set >> (slice.rank * kMostQueues + slice.queue) & 1) == 0) continue;
        steps_.tell(Begin::kNothing, completion(slice, to, to_queue, slice.epoch));
      }
    }
  }

  void hear(Begin begin, int from, int to, const Signal& signal) {
    const uint8_t kind =
        launch_.through_host && from != to ? SimulatedStep::kThroughHost : steps_.builder().link_kind_between(from, to);
    steps_.hear(begin, signal, from != to, kind);
  }

  // --- operations ---

  // A run of signals or waits.
  void add_flags(const LaunchedSlice& slice, const DeviceOperation& operation) {
    const bool tells = operation.kind == OpKind::kSignal;
    const What what = launch_.through_host ? What::kHostFlag : What::kFlag;
    Begin begin = !tells ? Begin::kWait : launch_.through_host ? Begin::kHostFence : Begin::kFence;
    for (int i = 0; i < operation.count; ++i) {
      const FlagRef& flag = program_of(slice.rank).flags[operation.first + static_cast<size_t>(i)];
      if (tells) {
        steps_.tell(begin, {what, flag.peer, flag.number, slice.epoch, slice.group});
      } else {
        hear(begin, flag.peer, slice.rank, {what, slice.rank, flag.number, slice.epoch, slice.group});
      }
      begin = Begin::kNothing;
    }
  }

  // With LL and LL128, what a reduce reads has to come, and what it stores tells of itself. All that others wait for is
  // sent first.
  void add_words(const LaunchedSlice& slice, int number) {
    const auto data = [&](const DevicePlace& place) {
      return Signal{What::kData, owner_of(place, slice.rank), static_cast<int64_t>(place.offset), slice.epoch,
                    slice.group};
    };
    for_each_place(slice, number, [&](const DevicePlace& place, bool is_source) {
      if (!is_source || owner_of(place, slice.rank) != slice.rank || !is_scratch(place)) return;
      hear(Begin::kNothing, static_cast<int>(place.writer), slice.rank, data(place));
    });
    const auto is_sent = [&](const DeviceOperation& operation) {
      const DevicePlace* const places = program_of(slice.rank).places.data() + operation.first;
      return std::any_of(places, places + operation.destinations, is_scratch);
    };
    const bool sends = add_work(slice, number, Begin::kWords, is_sent);
    for_each_place(slice, number, [&](const DevicePlace& place, bool is_source) {
      if (!is_source && is_scratch(place)) steps_.tell(Begin::kNothing, data(place));
    });
    add_work(slice, number, sends ? Begin::kNothing : Begin::kWords,
             [&](const DeviceOperation& operation) { return !is_sent(operation); });
  }

  template <class Act>
  void for_each_place(const LaunchedSlice& slice, int number, const Act& act) const {
    for (int i = 0; i < operation_of(slice, number).batch; ++i) {
      const DeviceOperation& operation = operation_of(slice, number + i);
      for (int place = 0; place < operation.count; ++place) {
        act(program_of(slice.rank).places[operation.first + static_cast<size_t>(place)],
            place >= operation.destinations);
      }
    }
  }

  // A reduce or a batch of copies, as far as `is_included` says. Returns whether anything is.
  template <class IsIncluded>
  bool add_work(const LaunchedSlice& slice, int number, Begin begin, const IsIncluded& is_included) {
    const DeviceOperation& first = operation_of(slice, number);
    std::vector<int> included;
    std::set<int> receivers;
    for (int i = number; i < number + first.batch; ++i) {
      if (!is_included(operation_of(slice, i))) continue;
      included.push_back(i);
      find_receivers(slice, operation_of(slice, i), receivers);
    }
    if (included.empty()) return false;
    stores_ = receivers.size() > 1 ? Mover::kSpreadStores : Mover::kStores;
    steps_.builder().begin_work(first.sources > 1);
    for (const int i : included) add_places(slice, i);
    steps_.work(begin);
    return true;
  }

  void find_receivers(const LaunchedSlice& slice, const DeviceOperation& operation, std::set<int>& receivers) const {
    for (int i = 0; i < operation.destinations; ++i) {
      const int owner = owner_of(program_of(slice.rank).places[operation.first + static_cast<size_t>(i)], slice.rank);
      if (owner != slice.rank) receivers.insert(owner);
    }
  }

  void add_places(const LaunchedSlice& slice, int number) {
    const DeviceOperation& operation = operation_of(slice, number);
    const auto units = [&](bool on_links) {
      const double bytes = launch_.bytes_of(slice.rank, slice.queue, slice.round, slice.group, number, on_links);
      return static_cast<int64_t>((bytes + LaunchSteps::kUnit - 1) / LaunchSteps::kUnit);
    };
    int local = 0;
    for (int i = 0; i < operation.count; ++i) {
      const DevicePlace& place = program_of(slice.rank).places[operation.first + static_cast<size_t>(i)];
      const bool loads = i >= operation.destinations;
      const int owner = owner_of(place, slice.rank);
      if (launch_.through_host && is_scratch(place)) {
        add_through_host(slice, owner, loads, units(true));
      } else if (owner == slice.rank) {
        ++local;
      } else {
        add_over_link(slice.rank, owner, loads, units(true));
      }
    }
    steps_.builder().add_flow(steps_.builder().memory_route(slice.rank, ctas_), local * units(false));
  }

  void add_over_link(int rank, int owner, bool loads, int64_t units) {
    const int mine = steps_.routes().device_of({rank}), its = steps_.routes().device_of({owner});
    ProgramBuilder& builder = steps_.builder();
    builder.add_flow(
        loads ? builder.route_between(its, mine, Mover::kLoads) : builder.route_between(mine, its, stores_), units);
  }

  // Between a rank and the host memory next to another, or to it. What it stores keeps to a pace.
  void add_through_host(const LaunchedSlice& slice, int owner, bool loads, int64_t units) {
    const int gpu = steps_.routes().device_of({slice.rank}), host = steps_.routes().device_of({owner, true});
    ProgramBuilder& builder = steps_.builder();
    builder.add_flow(loads ? builder.route_between(host, gpu) : builder.route_between(gpu, host), units);
    if (loads || launch_.shape.host.bytes_per_second <= 0) return;
    const auto [pace, is_new] = paces_.try_emplace(slice.rank, 0);
    if (is_new) {
      pace->second = steps_.limited(SimulatedResource::Kind::kPace, launch_.shape.host.bytes_per_second);
    }
    const int64_t at_once = int64_t{kVectorsBeforePace} * launch_.shape.threads * launch_.width(0, slice.group);
    builder.add_flow(builder.pace_route(pace->second), std::max<int64_t>(0, units - at_once));
  }

  const LoweredLaunch& launch_;
  const Plan& plan_;
  LaunchSteps& steps_;
  const bool has_flags_;                      // in the data
  uint32_t ctas_ = ProgramBuilder::kNoRoute;  // of the queue at hand
  Mover stores_ = Mover::kStores;             // of the work at hand
  std::map<int, uint32_t> paces_;             // of ranks
};

}  // namespace

void add_kernels(const LoweredLaunch& launch, const Plan& plan, const std::vector<int>& first_queues,
                 LaunchSteps& steps) {
  LaunchKernelWriter writer(launch, plan, steps);
  for (int group = 0; group < launch.groups(); ++group) {
    for (int rank = 0; rank < plan.rank_count(); ++rank) {
      const int queues = launch.ranks[static_cast<size_t>(rank)].queues;
      for (int queue = 0; queue < queues; ++queue) {
        writer.add_queue(rank, queue, group, first_queues[static_cast<size_t>(rank)] + queue * launch.groups() + group);
      }
    }
  }
}

}  // namespace plait

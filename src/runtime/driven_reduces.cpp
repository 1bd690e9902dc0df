// Turns operations of plans into work requests.
#include "runtime/driven_reduces.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/shape.hpp"
#include "runtime/sent_memory.hpp"

namespace plait {
namespace {

// Whether operations of one rank can be driven.
class OfRank {
 public:
  OfRank(const Plan& plan, int rank, bool network_reaches_gpus) : plan_(plan), rank_(rank) {
    if (network_reaches_gpus) sent_.emplace(plan, rank);
  }

  bool can_be_driven(const Operation& it) const {
    switch (it.kind) {
      case OpKind::kSend:
        return crosses_nodes(plan_, rank_, it) && can_leave(it);
      case OpKind::kReceive:
        return crosses_nodes(plan_, rank_, it) && (sent_ || is_in_host(it.destinations));
      default:
        return it.destinations.size() + it.sources.size() <= WorkRequest::kMostPlaces;
    }
  }

 private:
  static bool is_in_host(const std::vector<Place>& places) {
    return std::ranges::all_of(places, [](const Place& it) { return it.buffer == Buffer::kHost; });
  }
  // What others overwrite is copied before it leaves, which takes the CPU (sent_memory.hpp).
  bool can_leave(const Operation& it) const {
    return is_in_host(it.sources) || (sent_ && !sent_->is_written_elsewhere(it.sources[0], it.chunks));
  }

  const Plan& plan_;
  const int rank_;
  std::optional<SentMemory> sent_;  // none: messages are in host memory
};

}  // namespace

bool can_be_driven(const Plan& plan, bool network_reaches_gpus) {
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    const OfRank its(plan, rank, network_reaches_gpus);
    const auto can_be = [&](const Operation& it) { return its.can_be_driven(it); };
    for (const Queue& queue : plan.ranks[static_cast<size_t>(rank)].queues) {
      if (!std::ranges::all_of(queue.operations, can_be)) return false;
    }
  }
  return true;
}

DrivenReduces::DrivenReduces(ReduceDevice& device, const BoundSlice& slice, const Call& call, int ranks,
                             std::byte* const* bases)
    : device_(device),
      slice_(slice),
      call_(call),
      signals_base_(kFirstScratchBase + static_cast<uint32_t>(ranks)),
      bases_(bases),
      queues_(slice.queues.size()) {}

bool DrivenReduces::is_of_cpu(const BoundOperation& reduce) const {
  const BoundPlace* const places = slice_.places.data() + reduce.first_place;
  return std::all_of(places, places + reduce.destination_count + reduce.source_count,
                     [this](const BoundPlace& it) { return is_in_host(it); });
}

bool DrivenReduces::post(const BoundOperation& reduce) {
  const WorkRequest request = request_for(reduce);
  const bool is_nothing = request.destinations == 1 && request.sources == 1 && request.places[0] == request.places[1] &&
                          request.divisor == 0;  // in place, a rank's own chunk may already be where it belongs
  if (is_nothing) return true;
  std::vector<Range> ranges = ranges_of(request);
  if (touches_unfinished(ranges) || !device_.has_room()) return false;
  const uint64_t number = device_.post(request);
  posted_.push_back({number, std::move(ranges)});
  queues_[queue_].last = number;
  return true;
}

void DrivenReduces::keep(const BoundOperation& signal) {
  Queue& queue = queues_[queue_];
  queue.kept.emplace_back(queue.last, &signal);
}

bool DrivenReduces::is_over() {
  return std::ranges::all_of(queues_, [this](const Queue& it) { return it.kept.empty() && is_done(it.last); });
}

WorkRequest DrivenReduces::request_for(const BoundOperation& reduce) const {
  WorkRequest request;
  WorkPlaces where;
  request.type = call_.type;
  request.op = call_.op;
  request.destinations = static_cast<uint8_t>(reduce.destination_count);
  request.sources = static_cast<uint8_t>(reduce.source_count);
  request.result_is_wide = reduce.result_is_wide ? 1 : 0;
  request.divisor = static_cast<uint16_t>(reduce.divisor);
  request.elements = reduce.elements;
  for (int i = 0; i < reduce.destination_count + reduce.source_count; ++i) {
    const BoundPlace& place = slice_.places[reduce.first_place + static_cast<size_t>(i)];
    request.places[i] = bases_[place.base] + place.offset;
    const bool is_destination = i < reduce.destination_count;
    int& count = is_destination ? (is_in_host(place) ? where.host_destinations : where.gpu_destinations)
                                : (is_in_host(place) ? where.host_sources : where.gpu_sources);
    ++count;
  }
  for (int s = 0; s < reduce.source_count && reduce.has_wide_source; ++s) {
    if (slice_.source_is_wide[reduce.first_flag + static_cast<size_t>(s)] != 0) request.wide_sources |= 1u << s;
  }
  request.action = action_of(where);
  return request;
}

std::vector<DrivenReduces::Range> DrivenReduces::ranges_of(const WorkRequest& request) const {
  std::vector<Range> ranges;
  for (int i = 0; i < request.destinations + request.sources; ++i) {
    const bool is_written = i < request.destinations;
    const bool is_wide =
        is_written ? request.result_is_wide != 0 : (request.wide_sources >> (i - request.destinations) & 1) != 0;
    const size_t element = is_wide ? accumulator_size_of(request.type) : size_of(request.type);
    ranges.push_back({request.places[i], request.places[i] + request.elements * element, is_written});
  }
  return ranges;
}

bool DrivenReduces::touches_unfinished(const std::vector<Range>& ranges) {
  while (!posted_.empty() && device_.is_done(posted_.front().number)) posted_.pop_front();
  const auto collide = [](const Range& a, const Range& b) {
    return (a.is_written || b.is_written) && a.first < b.last && b.first < a.last;
  };
  for (const Posted& before : posted_) {
    for (const Range& a : before.ranges) {
      if (std::ranges::any_of(ranges, [&](const Range& b) { return collide(a, b); })) return true;
    }
  }
  return false;
}

}  // namespace plait

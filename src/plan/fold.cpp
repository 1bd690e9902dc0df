// Compares queues as they are built.
#include "plan/fold.hpp"

#include <algorithm>
#include <utility>

#include "plan/fold_action.hpp"

namespace plait {

// A fingerprint under construction.
class FoldMixer {
 public:
  explicit FoldMixer(uint64_t state) : state_(state) {}
  void add(uint64_t number) {
    state_ = (state_ ^ number) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 32;
  }
  void add(int high, int low) { add(static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(low)); }
  uint64_t state() const { return state_; }

 private:
  uint64_t state_;
};

namespace {

constexpr uint64_t kSeed = 0x243f6a8885a308d3ULL;
constexpr int16_t kFirstReceiving = 1000, kFirstSending = 2000;  // labels of queues on the network

bool hears(const Operation& operation) { return operation.kind == OpKind::kWait || operation.kind == OpKind::kReceive; }

template <class Visit>
void for_each_teller(Plan& plan, const Visit& visit) {
  for (RankPlan& rank : plan.ranks) {
    for (Queue& queue : rank.queues) {
      for (Operation& it : queue.operations) {
        if (it.kind == OpKind::kSignal || it.kind == OpKind::kSend) visit(it);
      }
    }
  }
}

}  // namespace

PlanFold::PlanFold(NodeShifts shifts, const FoldAction& action) : PlanFold(std::move(shifts)) {
  action_ = &action;
  is_image_.assign(is_image_.size(), false);
}

PlanFold::PlanFold(NodeShifts shifts)
    : shifts_(std::move(shifts)),
      is_image_(static_cast<size_t>(shifts_.ranks())),
      seen_(static_cast<size_t>(shifts_.ranks())),
      fingerprints_(static_cast<size_t>(shifts_.ranks())) {
  pairing_.signals.resize(seen_.size());
  pairing_.messages.resize(seen_.size());
  for (int rank = 0; rank < shifts_.ranks(); ++rank) {
    if (!keeps(rank)) continue;
    for (const int generator : shifts_.generators()) {
      is_image_[static_cast<size_t>(shifts_.shifted(rank, generator * shifts_.ranks_per_node()))] = true;
    }
  }
}

const std::vector<int>& PlanFold::chunks_of_image(int rank, int queue, int image) const {
  static const std::vector<int>& none = *new std::vector<int>;
  const int like = queue_labelled(image, label_of(rank, queue));
  const auto& queues = image_chunks_.at(image);
  return like < 0 || static_cast<size_t>(like) >= queues.size() ? none : queues[static_cast<size_t>(like)];
}

void PlanFold::add_queue(int rank, Engine engine) {
  QueuesSeen& queues = queues_of(rank);
  QueueSeen added;
  added.engine = engine;
  const auto is_near = [](const QueueSeen& it) { return it.engine != Engine::kNet; };
  if (is_near(added)) added.label = static_cast<int16_t>(std::count_if(queues.begin(), queues.end(), is_near));
  queues.push_back(added);
  if (keeps(rank)) fingerprints_[static_cast<size_t>(rank)].emplace_back();
}

int PlanFold::label_of(int rank, int queue) const {
  return seen_[static_cast<size_t>(rank)][static_cast<size_t>(queue)].label;
}

int PlanFold::queue_labelled(int rank, int label) const {
  const QueuesSeen& queues = seen_[static_cast<size_t>(rank)];
  const auto found = std::find_if(queues.begin(), queues.end(), [&](const QueueSeen& it) { return it.label == label; });
  return found == queues.end() ? -1 : static_cast<int>(found - queues.begin());
}

// The peer's queue is left out, since its pair gives it: a signal has one waiter, and the waiter names the signal.
uint64_t PlanFold::fingerprint_after(uint64_t before, int rank, const Operation& operation, int told_by) const {
  FoldMixer mixer(before);
  mixer.add(static_cast<int>(operation.kind) << 16 | static_cast<int>(operation.sources.size()), operation.chunks);
  if (action_ != nullptr && operation.chunks > 0) {
    mixer.add(static_cast<uint64_t>(action_->range_before(operation.chunk, operation.chunks, shifts_.node_of(rank))));
  }
  add_places(mixer, operation.destinations, rank, operation.chunks);
  add_places(mixer, operation.sources, rank, operation.chunks);
  if (operation.kind == OpKind::kReduce) return mixer.state();
  const int peer_label = hears(operation) ? label_of(operation.peer_rank, operation.peer_queue) : 0;
  mixer.add(shifts_.unshifted(operation.peer_rank, rank), peer_label);
  mixer.add(static_cast<uint64_t>(told_by + 1));
  return mixer.state();
}

void PlanFold::add_places(FoldMixer& mixer, const std::vector<Place>& places, int rank, int chunks) const {
  uint64_t sum = 0;  // in whatever order they are listed
  for (const Place& place : places) {
    FoldMixer of_place(action_ != nullptr ? mixer.state() : kSeed);
    of_place.add(shifts_.unshifted(place.rank, rank), static_cast<int>(place.buffer));
    if (action_ != nullptr) {
      // In the frame of the rank that stands for its owner.
      of_place.add(static_cast<uint64_t>(has_slots(place.buffer) ? action_->slots_before(place, chunks) : 0));
      mixer = of_place;
    } else {
      of_place.add(0);
      sum += of_place.state();
    }
  }
  mixer.add(sum);
}

int PlanFold::add(int rank, int queue, const Operation& operation, int told_by) {
  QueuesSeen& queues = queues_of(rank);
  QueueSeen& seen = queues[static_cast<size_t>(queue)];
  if (seen.label == kUnlabelled) {
    int16_t label = operation.kind == OpKind::kReceive ? kFirstReceiving : kFirstSending;
    while (queue_labelled(rank, label) >= 0) ++label;
    seen.label = label;
  }
  seen.fingerprint = fingerprint_after(seen.fingerprint, rank, operation, told_by);
  const int place = seen.operations++;
  ++operations_;
  if (is_image_[static_cast<size_t>(rank)]) {
    auto& of_queues = image_chunks_[rank];
    of_queues.resize(queues.size());
    of_queues[static_cast<size_t>(queue)].push_back(operation.chunk);
  }
  if (keeps(rank)) {
    fingerprints_[static_cast<size_t>(rank)][static_cast<size_t>(queue)].push_back(seen.fingerprint);
    if (hears(operation)) pair_up(rank, queue, place, operation, told_by);
    return place;
  }
  // The queue that stands for it may not have come yet.
  const int like = shifts_.representative(rank);
  if (seen.like == kNone) seen.like = static_cast<int16_t>(queue_labelled(like, seen.label));
  if (seen.like == kNone) return place;
  const auto& prints = fingerprints_[static_cast<size_t>(like)][static_cast<size_t>(seen.like)];
  if (static_cast<size_t>(place) < prints.size() && prints[static_cast<size_t>(place)] != seen.fingerprint) {
    refuse("the plan", rank, queue);
  }
  return place;
}

// The teller's queue goes by its label until all are known.
void PlanFold::pair_up(int rank, int queue, int place, const Operation& operation, int told_by) {
  auto& all = operation.kind == OpKind::kWait ? pairing_.signals : pairing_.messages;
  auto& pairs = all[static_cast<size_t>(rank)];
  if (pairs.size() <= static_cast<size_t>(operation.number)) pairs.resize(static_cast<size_t>(operation.number) + 1);
  pairs[static_cast<size_t>(operation.number)] = {
      {shifts_.representative(operation.peer_rank), label_of(operation.peer_rank, operation.peer_queue), told_by},
      {rank, queue, place}};
}

void PlanFold::finish(Plan& plan) {
  compare(plan);
  number(plan);
  fingerprints_.clear();
}

void PlanFold::compare(const Plan& plan) const {
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    const int like = shifts_.representative(rank);
    const QueuesSeen& mine = seen_[static_cast<size_t>(rank)];
    const QueuesSeen& theirs = seen_[static_cast<size_t>(like)];
    const RankPlan& it = plan.ranks[static_cast<size_t>(rank)];
    const RankPlan& its_like = plan.ranks[static_cast<size_t>(like)];
    const bool has_slots_alike = it.scratch_slots == its_like.scratch_slots && it.host_slots == its_like.host_slots;
    if (mine.size() != theirs.size() || (action_ != nullptr && !has_slots_alike)) {
      refuse(plan.algorithm, rank, 0);
    }
    for (size_t queue = 0; queue < mine.size(); ++queue) {
      const int like_queue = queue_labelled(like, mine[queue].label);
      if (like_queue < 0) refuse(plan.algorithm, rank, static_cast<int>(queue));
      const QueueSeen& it = theirs[static_cast<size_t>(like_queue)];
      if (mine[queue].engine != it.engine || mine[queue].operations != it.operations ||
          mine[queue].fingerprint != it.fingerprint) {
        refuse(plan.algorithm, rank, static_cast<int>(queue));
      }
    }
  }
}

// Gives a teller's operation the number by which the rank that stands for the hearer knows it.
void PlanFold::number(Plan& plan) {
  for_each_teller(plan, [](Operation& tells) { tells.number = -1; });
  for (int rank = 0; rank < plan.rank_count(); ++rank) {
    if (!keeps(rank))
      plan.ranks[static_cast<size_t>(rank)].signals = plan.ranks[static_cast<size_t>(rank)].messages = 0;
    for (auto* all : {&pairing_.signals, &pairing_.messages}) {
      std::vector<Pair>& pairs = (*all)[static_cast<size_t>(rank)];
      for (size_t i = 0; i < pairs.size(); ++i) number(plan, pairs[i], static_cast<int>(i));
    }
  }
  for_each_teller(plan, [&](const Operation& tells) {
    if (tells.number < 0)
      fail(ErrorCode::kInternal, "fold of ", plan.algorithm, ": nobody awaits `", to_text(tells), "`");
  });
}

void PlanFold::number(Plan& plan, Pair& pair, int number) const {
  if (pair.to.rank < 0) fail(ErrorCode::kInternal, "fold of ", plan.algorithm, ": nobody awaits signal ", number);
  pair.from.queue = queue_labelled(pair.from.rank, pair.from.queue);
  const auto at = [&](const OperationId& id) -> Operation& {
    return plan.ranks.at(static_cast<size_t>(id.rank))
        .queues.at(static_cast<size_t>(id.queue))
        .operations.at(static_cast<size_t>(id.operation));
  };
  Operation& hearing = at(pair.to);
  Operation& tells = at(pair.from);
  const bool names_hearer = tells.peer_rank == shifts_.unshifted(pair.to.rank, hearing.peer_rank) &&
                            tells.kind == (hearing.kind == OpKind::kWait ? OpKind::kSignal : OpKind::kSend);
  if (!names_hearer || tells.number >= 0) {
    fail(ErrorCode::kInternal, "fold of ", plan.algorithm, ": ", to_text(pair.to), " awaits ", to_text(pair.from),
         ", which tells somebody else");
  }
  tells.number = number;
  tells.peer_queue = pair.to.queue;
  hearing.peer_queue = pair.from.queue;
}

void PlanFold::refuse(const std::string& algorithm, int rank, int queue) const {
  const char* found = action_ != nullptr ? " works on other chunks or slots than that of rank "
                                         : " performs other operations than that of rank ";
  throw NotSymmetric(ErrorCode::kInvalidArgument, join(algorithm, " is not the same under ", shifts_.text(), ": queue ",
                                                       queue, " of rank ", rank, found, shifts_.representative(rank)));
}

}  // namespace plait

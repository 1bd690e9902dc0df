// Constructs plans.
#include "plan/builder.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "plan/conditions.hpp"
#include "plan/fold.hpp"
#include "plan/proof_size.hpp"

namespace plait {
namespace {

std::vector<Place> places_after(std::vector<Place> places, int chunks) {
  for (Place& place : places) place = place_after(place, chunks);
  return places;
}

}  // namespace

PlanBuilder::PlanBuilder(Shape shape)
    : fold_(shape.fold), most_operations_(shape.most_operations), operations_left_(shape.most_operations) {
  const int most_ranks = fold_ != nullptr ? kMaxFoldedRanks : kMaxRanks;
  if (shape.ranks < 1 || shape.ranks > most_ranks) {
    fail(ErrorCode::kInvalidArgument, "a plan has 1 to ", most_ranks, " ranks, not ", shape.ranks);
  }
  plan_.algorithm = std::move(shape.algorithm);
  plan_.collective = shape.collective;
  plan_.access = shape.access;
  plan_.root = has_root(shape.collective) ? shape.root : 0;
  const bool barrier = shape.collective == Collective::kBarrier;
  plan_.blocks = static_cast<int>(block_count(shape.collective, shape.ranks));
  plan_.chunks_per_block = barrier ? 0 : shape.chunks_per_block;
  plan_.node_of = shape.node_of.empty() ? std::vector<int>(shape.ranks, 0) : std::move(shape.node_of);
  plan_.ranks.resize(shape.ranks);
  check_shape(plan_, most_ranks);
}

QueueId PlanBuilder::add_queue(int rank, Engine engine) {
  auto& queues = plan_.ranks.at(rank).queues;
  queues.push_back({engine, {}});
  if (fold_ != nullptr) fold_->add_queue(rank, engine);
  return {rank, static_cast<int>(queues.size()) - 1};
}

Place PlanBuilder::take_scratch(int rank, int count) {
  int& slots = plan_.ranks.at(rank).scratch_slots;
  return {rank, Buffer::kScratch, std::exchange(slots, slots + count)};
}

Place PlanBuilder::take_host(int rank, int count) {
  int& slots = plan_.ranks.at(rank).host_slots;
  return {rank, Buffer::kHost, std::exchange(slots, slots + count)};
}

void PlanBuilder::expect(int64_t operations) const {
  if (operations <= operations_left_) return;
  throw PlanTooLarge(
      ErrorCode::kInvalidArgument,
      join("plan ", plan_.algorithm, " over ", counted(plan_.rank_count(), "rank"), " would have more than ",
           most_operations_, " operations; use fewer ranks or parts, or another algorithm"));
}

int PlanBuilder::append(QueueId queue, Operation operation, int told_by) {
  expect(1);
  --operations_left_;
  std::vector<Operation>& operations = plan_.ranks.at(queue.rank).queues.at(queue.queue).operations;
  const int place =
      fold_ != nullptr ? fold_->add(queue.rank, queue.queue, operation, told_by) : static_cast<int>(operations.size());
  if (fold_ == nullptr || fold_->keeps(queue.rank)) operations.push_back(std::move(operation));
  return place;
}

void PlanBuilder::number_chunks(std::vector<int> order) {
  if (static_cast<int>(order.size()) != chunk_count()) {
    fail(ErrorCode::kInternal, "an order of ", counted(order.size(), "chunk"), " for a plan of ", chunk_count());
  }
  order_ = std::move(order);
}

template <class Visit>
void PlanBuilder::for_each_run(int chunk, int chunks, const Visit& visit) const {
  if (order_.empty()) return visit(chunk, 0, chunks);
  for (int done = 0; done < chunks;) {
    const int first = order_.at(chunk + done);
    int count = 1;
    while (done + count < chunks && order_.at(chunk + done + count) == first + count) ++count;
    visit(first, done, count);
    done += count;
  }
}

void PlanBuilder::append_reduce(QueueId queue, std::vector<Place> destinations, std::vector<Place> sources, int chunk,
                                int chunks) {
  Operation operation;
  operation.kind = OpKind::kReduce;
  operation.chunk = chunk;
  operation.chunks = chunks;
  operation.destinations = std::move(destinations);
  operation.sources = std::move(sources);
  append(queue, std::move(operation));
}

void PlanBuilder::reduce(QueueId queue, std::vector<Place> destinations, std::vector<Place> sources, int chunk,
                         int chunks) {
  if (order_.empty()) return append_reduce(queue, std::move(destinations), std::move(sources), chunk, chunks);
  for_each_run(chunk, chunks, [&](int first, int offset, int count) {
    append_reduce(queue, places_after(destinations, offset), places_after(sources, offset), first, count);
  });
}

void PlanBuilder::copy(QueueId queue, Place destination, Place source, int chunk, int chunks) {
  reduce(queue, {destination}, {source}, chunk, chunks);
}

SignalId PlanBuilder::signal(QueueId from, QueueId to) {
  int& signals = plan_.ranks.at(to.rank).signals;
  SignalId id{from, to, signals++};
  Operation operation;
  operation.kind = OpKind::kSignal;
  operation.peer_rank = to.rank;
  operation.peer_queue = to.queue;
  operation.number = id.number;
  id.operation = append(from, std::move(operation));
  return id;
}

void PlanBuilder::wait(const SignalId& signal) {
  Operation operation;
  operation.kind = OpKind::kWait;
  operation.peer_rank = signal.from.rank;
  operation.peer_queue = signal.from.queue;
  operation.number = signal.number;
  append(signal.to, std::move(operation), signal.operation);
}

void PlanBuilder::send_receive(QueueId from, Place source, QueueId to, Place destination, int chunk, int chunks) {
  for_each_run(chunk, chunks, [&](int first, int offset, int count) {
    Operation send;
    send.chunk = first;
    send.chunks = count;
    Operation receive = send;
    send.sources = {place_after(source, offset)};
    receive.destinations = {place_after(destination, offset)};
    send_receive(from, to, std::move(send), std::move(receive));
  });
}

void PlanBuilder::send_receive_nothing(QueueId from, QueueId to) { send_receive(from, to, {}, {}); }

void PlanBuilder::send_receive(QueueId from, QueueId to, Operation send, Operation receive) {
  int& messages = plan_.ranks.at(to.rank).messages;
  const int number = messages++;
  send.kind = OpKind::kSend;
  send.peer_rank = to.rank;
  send.peer_queue = to.queue;
  send.number = number;
  receive.kind = OpKind::kReceive;
  receive.peer_rank = from.rank;
  receive.peer_queue = from.queue;
  receive.number = number;
  const int told_by = append(from, std::move(send));
  append(to, std::move(receive), told_by);
}

Plan PlanBuilder::finish() {
  if (fold_ != nullptr) fold_->finish(plan_);
  return std::exchange(plan_, Plan{});
}

}  // namespace plait

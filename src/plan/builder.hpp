// Builds a plan: algorithms say what each queue does, and the builder numbers slots, signals and messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace plait {

// One queue of one rank of the plan under construction.
struct QueueId {
  int rank = 0;
  int queue = 0;
};

// A signal that has been sent and not yet awaited.
struct SignalId {
  QueueId from;
  QueueId to;
  int number = -1;
  int operation = -1;  // the place in its queue of the operation that tells it
};

class PlanFold;

class PlanBuilder {
 public:
  // More operations would take more memory and time, here and in the proof, than anybody wants to spend.
  static constexpr int kMaxOperations = 10'000'000;

  struct Shape {
    std::string algorithm;
    Collective collective = Collective::kAllReduce;
    int ranks = 1;
    int root = 0;
    int chunks_per_block = 1;  // ignored for a barrier
    Access access = Access::kStaged;
    std::vector<int> node_of = {};  // empty: all ranks on one node
    int most_operations = kMaxOperations;
    // Is shown every operation; the plan then has those alone that the fold keeps (fold.hpp). Outlives the builder.
    PlanFold* fold = nullptr;
  };

  // Functions that build a plan throw PlanTooLarge (proof_size.hpp) with kInvalidArgument if it would be too large.
  explicit PlanBuilder(Shape shape);

  int rank_count() const { return plan_.rank_count(); }
  int chunk_count() const { return plan_.chunk_count(); }

  // Numbers chunks in an order of the algorithm's own from now on: chunk c is chunk order[c] of the message. An
  // operation on neighbours in this order becomes one operation for each run of neighbours in the message.
  void number_chunks(std::vector<int> order);

  // Adds a queue to `rank`.
  QueueId add_queue(int rank, Engine engine);
  // Takes `count` neighbouring slots of the rank's scratch or host buffer; returns the first.
  Place take_scratch(int rank, int count = 1);
  Place take_host(int rank, int count = 1);

  // Combines `sources` in the listed order into every destination, for `chunks` chunks from `chunk` on.
  void reduce(QueueId queue, std::vector<Place> destinations, std::vector<Place> sources, int chunk, int chunks = 1);
  void copy(QueueId queue, Place destination, Place source, int chunk, int chunks = 1);

  // Tells queue `to` that everything `from` has done so far is visible. Pass the result to wait().
  [[nodiscard]] SignalId signal(QueueId from, QueueId to);
  // Makes the queue that was signalled wait here.
  void wait(const SignalId& signal);

  // A message over a path without load and store: `from` sends and `to` receives, each at its current place in its
  // queue.
  void send_receive(QueueId from, Place source, QueueId to, Place destination, int chunk, int chunks = 1);

  // A barrier's message, which carries no data.
  void send_receive_nothing(QueueId from, QueueId to);

  // Throws PlanTooLarge at once where the plan has no room for so many operations more. Call it before work that grows
  // with the square of the ranks.
  void expect(int64_t operations) const;

  // Marks the plan as wrong if input and output share memory. By default a plan is right then.
  void not_in_place() { plan_.in_place = false; }

  // Returns the plan, not yet verified. The builder is empty afterwards.
  Plan finish();

 private:
  // Calls visit(first chunk of the message, how many of `chunks` come before it, count) for each run.
  template <class Visit>
  void for_each_run(int chunk, int chunks, const Visit& visit) const;
  void append_reduce(QueueId queue, std::vector<Place> destinations, std::vector<Place> sources, int chunk, int chunks);
  void send_receive(QueueId from, QueueId to, Operation send, Operation receive);
  // Returns the operation's place in its queue. `told_by` is what PlanFold::add() is told. Throws PlanTooLarge if the
  // plan has too many operations.
  int append(QueueId queue, Operation operation, int told_by = -1);

  Plan plan_;
  PlanFold* fold_;
  std::vector<int> order_;  // of the chunks; empty: that of the message
  int most_operations_, operations_left_;
};

inline Place input_of(int rank) { return {rank, Buffer::kInput, 0}; }
inline Place output_of(int rank) { return {rank, Buffer::kOutput, 0}; }
// Returns the slot `offset` slots after `place`, which is in scratch or host.
inline Place slot_after(Place place, int offset) { return {place.rank, place.buffer, place.slot + offset}; }
// The place of data `chunks` chunks behind that at `place`. Input and output hold every chunk at a place of its own.
inline Place place_after(Place place, int chunks) {
  return has_slots(place.buffer) ? slot_after(place, chunks) : place;
}

}  // namespace plait

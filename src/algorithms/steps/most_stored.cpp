// Stores most of the data and loads the rest.
#include "algorithms/steps/most_stored.hpp"

#include <optional>
#include <vector>

#include "algorithms/steps/partners.hpp"

namespace plait {
namespace {

class MostStored {
 public:
  MostStored(PlanBuilder& builder, const AlgorithmArguments& arguments)
      : arguments_(arguments),
        ranks_(arguments.ranks),
        parts_(arguments.parts),
        builder_(builder),
        stores_(add_queues(builder_, arguments)),
        combines_(add_queues(builder_, arguments)),
        inboxes_(arguments),
        published_(arguments),
        to_fetch_(arguments.ranks),
        to_combine_(arguments.ranks) {}

  void make() {
    take_scratch();
    const int last = parts_ - 1;
    for (int rank = 0; rank < ranks_; ++rank) {
      give(combines_[rank], published_, last, 1);
      tell(combines_[rank], stores_, to_fetch_);
      if (!keeps(rank) || gives_all_alike()) continue;  // this queue has time until something comes
      builder_.copy(combines_[rank], output_of(rank), input_of(rank), chunk(rank, rank, 0), parts_);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      give(stores_[rank], inboxes_, 0, last);
      tell(stores_[rank], combines_, to_combine_);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      get(stores_[rank], to_fetch_[rank], published_, last, 1);
      get(combines_[rank], to_combine_[rank], inboxes_, 0, last);
    }
  }

 private:
  using Table = PairTable<Place>;  // (to, from)

  bool gives(int from, int to) const { return plait::gives(arguments_, from, to); }
  // Whether all ranks to which a rank gives something get the same.
  bool gives_all_alike() const { return !scatters(arguments_.collective) && !is_all_to_all(); }
  bool is_all_to_all() const { return arguments_.collective == Collective::kAllToAll; }
  // Whether a rank has to copy something to itself.
  bool keeps(int rank) const { return !reduces(arguments_.collective) && gives(rank, rank); }
  // If the collective runs in place.
  bool overwrites_what_it_gives() const { return arguments_.collective == Collective::kAllReduce || is_all_to_all(); }

  // Returns the chunk of this part, in the block that `to` gets from `from`.
  int chunk(int from, int to, int part) const {
    const Collective collective = arguments_.collective;
    const int block = is_all_to_all() ? from * ranks_ + to : gathers(collective) ? from : scatters(collective) ? to : 0;
    return block * parts_ + part;
  }

  void take_scratch() {
    for (int from = 0; from < ranks_; ++from) {
      std::optional<Place> published;
      for (const int to : takers_from(arguments_, from)) {
        inboxes_.at(to, from) = builder_.take_scratch(to, parts_ - 1);
        if (!published || !gives_all_alike()) published = builder_.take_scratch(from);
        published_.at(to, from) = *published;
      }
    }
  }

  // Copies these parts of the data that the queue's rank gives to others to their places, and to its output if it keeps
  // the same data.
  void give(QueueId queue, const Table& places, int part, int parts) {
    const int from = queue.rank;
    std::vector<Place> alike;
    if (gives_all_alike() && keeps(from)) alike.push_back(output_of(from));
    for (const int to : takers_from(arguments_, from)) {
      const Place place = places.at(to, from);
      if (!gives_all_alike()) {
        builder_.copy(queue, place, input_of(from), chunk(from, to, part), parts);
      } else if (alike.empty() || place != alike.back()) {  // one place serves all
        alike.push_back(place);
      }
    }
    if (!alike.empty()) builder_.reduce(queue, alike, {input_of(from)}, chunk(from, from, part), parts);
  }

  // Signals the ranks to which the queue's rank gives something. If that rank overwrites what it gives, it also signals
  // its own other queue.
  void tell(QueueId from, const std::vector<QueueId>& queues, std::vector<std::vector<SignalId>>& signals) {
    std::vector<int> told = takers_from(arguments_, from.rank);
    if (overwrites_what_it_gives()) told.insert(told.begin(), from.rank);
    for (const int to : told) signals[to].push_back(builder_.signal(from, queues[to]));
  }

  // Combines, or copies, what others gave to the queue's rank.
  void get(QueueId queue, const std::vector<SignalId>& signals, const Table& places, int part, int parts) {
    const int to = queue.rank;
    for (const SignalId& signal : signals) builder_.wait(signal);
    if (reduces(arguments_.collective)) {
      if (!gives(to, to)) return;
      std::vector<Place> contributions;
      for (int from = 0; from < ranks_; ++from) {
        contributions.push_back(from == to ? input_of(to) : places.at(to, from));
      }
      builder_.reduce(queue, {output_of(to)}, contributions, chunk(to, to, part), parts);
      return;
    }
    for (const int from : givers_to(arguments_, to)) {
      builder_.copy(queue, output_of(to), places.at(to, from), chunk(from, to, part), parts);
    }
  }

  const AlgorithmArguments& arguments_;
  const int ranks_, parts_;
  PlanBuilder& builder_;
  std::vector<QueueId> stores_, combines_;                    // [rank]: its queues 0 and 1
  Table inboxes_, published_;                                 // what is stored at `to`, and what `from` keeps for it
  std::vector<std::vector<SignalId>> to_fetch_, to_combine_;  // [rank]: those that it waits for
};

}  // namespace

void store_most_and_load_rest(PlanBuilder& builder, const AlgorithmArguments& arguments) {
  builder.expect(2 * pair_count(arguments));  // a signal and a wait
  MostStored(builder, arguments).make();
}

}  // namespace plait

// Plans that look alike from many nodes: the operations of a few ranks, and the proof that they stand for all.
//
// A plan is invariant under shifts (node_shifts.hpp) if every rank's queues are the shifted queues of the rank that
// stands for it. They have the same operations in the same order, on the shifted ranks' buffers. The other ends of
// their signals and messages are the shifted ranks' queues. Whatever depends on no more than that, such as what links
// carry and when, is then the same for all ranks that one stands for. Network queues may be numbered in another order
// on each rank: they go by whether they begin with a receive.
//
// A fold is given to the builder of a plan, which shows it every operation of every rank, and keeps those of the ranks
// that stand for others. The fold compares each queue with the one that stands for it. It keeps a fingerprint of either
// instead of operations: two unlike queues pass for alike by a chance of 2^-64. Chunks count by their number, and slots
// and the order of an operation's sources not at all: they have no influence on time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.hpp"
#include "plan/form.hpp"
#include "plan/node_shifts.hpp"
#include "plan/plan.hpp"

namespace plait {

// More ranks than a whole plan may have (conditions.hpp), and as many operations as take a minute to look at.
inline constexpr int kMaxFoldedRanks = 1 << 17;
inline constexpr int kMaxFoldedOperations = 1'000'000'000;

// The error for a plan that is not invariant under the shifts (kInvalidArgument).
class NotSymmetric : public Error {
 public:
  using Error::Error;
};

class FoldAction;
class FoldMixer;

class PlanFold {
 public:
  explicit PlanFold(NodeShifts shifts);
  // A fold that compares chunks, slots and the order of sources as well, as the action moves them. Outlived by it.
  PlanFold(NodeShifts shifts, const FoldAction& action);

  const NodeShifts& shifts() const { return shifts_; }
  bool compared_by(const FoldAction& action) const { return action_ == &action; }
  // Operations of all ranks.
  size_t operations() const { return operations_; }
  // The pairs of those ranks that stand for others: both ends are such a rank's operations, wherever they really are.
  const Pairing& pairing() const { return pairing_; }

  // The first chunks of the operations of that queue of rank `image` which a queue of `rank` stands for; `image` is
  // `rank` shifted by one in one digit. Known once the plan is built, if its chunks were not compared.
  const std::vector<int>& chunks_of_image(int rank, int queue, int image) const;

  // The builder calls these.
  void add_queue(int rank, Engine engine);
  // Looks at the next operation of a queue, and returns its place in the queue. `told_by` is the place
  // of the operation that a wait or a receive awaits, in the queue it names as its peer. Throws NotSymmetric where it
  // is seen at once that another operation stands for it.
  int add(int rank, int queue, const Operation& operation, int told_by = -1);
  // Whether the operations of a rank are kept.
  bool keeps(int rank) const { return shifts_.is_representative(rank); }
  // Compares all queues, and numbers the signals and messages of `plan` as its pairs do. Throws NotSymmetric, which
  // names a rank that the plan looks different from.
  void finish(Plan& plan);

 private:
  static constexpr int16_t kUnlabelled = -1, kNone = -1;
  struct QueueSeen {
    Engine engine = Engine::kCpu;
    int16_t label = kUnlabelled;  // by which queues of several ranks are compared; of one on the network once it began
    int16_t like = kNone;         // the queue that stands for it, once that has come
    int operations = 0;
    uint64_t fingerprint = 0;
  };
  using QueuesSeen = std::vector<QueueSeen>;  // of a rank

  QueuesSeen& queues_of(int rank) { return seen_[static_cast<size_t>(rank)]; }
  int label_of(int rank, int queue) const;
  int queue_labelled(int rank, int label) const;  // -1 if there is none
  uint64_t fingerprint_after(uint64_t before, int rank, const Operation& operation, int told_by) const;
  void pair_up(int rank, int queue, int place, const Operation& operation, int told_by);
  void number(Plan& plan);
  void compare(const Plan& plan) const;
  void number(Plan& plan, Pair& pair, int number) const;
  [[noreturn]] void refuse(const std::string& algorithm, int rank, int queue) const;

  void add_places(FoldMixer& mixer, const std::vector<Place>& places, int rank, int chunks) const;

  const NodeShifts shifts_;
  const FoldAction* action_ = nullptr;
  std::unordered_map<int, std::vector<std::vector<int>>> image_chunks_;  // [image of a kept rank][queue][operation]
  std::vector<bool> is_image_;                                           // of each rank: whether it is such an image
  size_t operations_ = 0;
  std::vector<QueuesSeen> seen_;                                  // of each rank
  std::vector<std::vector<std::vector<uint64_t>>> fingerprints_;  // [kept rank][queue][operations so far]
  Pairing pairing_;
};

// A plan of which only the operations of those ranks are there that stand for others. Other ranks have empty queues.
// Peers and places of operations name true ranks, signals and messages count from 0 for each kept rank.
struct FoldedPlan {
  Plan plan;
  PlanFold fold;
};

}  // namespace plait

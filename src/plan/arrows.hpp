// The arrows of a plan's picture, and which of them a picture of many queues has room for.
#pragma once

#include <vector>

#include "plan/layout.hpp"
#include "plan/plan.hpp"

namespace plait {

enum class ArrowKind { kStored, kLoaded, kMessage, kSignal };

// An end of an arrow.
struct PictureColumn {
  int rank = 0, queue = 0;

  friend auto operator<=>(const PictureColumn&, const PictureColumn&) = default;
};

// Arrows lead from the top of one gap to the bottom of another, or of the same.
struct Arrow {
  ArrowKind kind = ArrowKind::kStored;
  OperationId operation;  // that stores, loads, sends or signals
  int chunk = 0;          // the first of the data; 0 for signals
  PictureColumn from, to;
  int first_gap = 0, last_gap = 0;
};

// All arrows between ranks, and signals between queues of a rank, in the order of the operations.
std::vector<Arrow> arrows_of(const Plan& plan, const PlanLayout& layout);

// Arrows of one kind in one gap that lead from each of some columns to each of others, drawn as one line with branches.
struct Bus {
  ArrowKind kind = ArrowKind::kStored;
  int gap = 0;
  std::vector<PictureColumn> from, to;  // sorted
};

// What is left of many arrows. Signals inside of a rank are left out, and those that go where data goes in the same
// gap. Operations that reach many ranks are buses; those of several ranks that reach the same ones share a bus.
struct FewArrows {
  std::vector<Arrow> arrows;
  std::vector<Bus> buses;
};
FewArrows thinned_out(const std::vector<Arrow>& arrows);

}  // namespace plait

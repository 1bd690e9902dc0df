// How many rings or trees the links between ranks have room for: the search that all packings share.
#pragma once

#include <cstddef>
#include <vector>

#include "algorithms/algorithm.hpp"

namespace plait {

// The room on each link, as a number of shapes of one bandwidth: rings or trees. Each direction of a link has as much.
class LinkRoom {
 public:
  // More than `most` shapes a link are of no use.
  LinkRoom(int ranks, const std::vector<DeviceLink>& links, double gbps_each, int most);

  int ranks() const { return ranks_; }
  int& at(int from, int to) { return room_[static_cast<size_t>(from * ranks_ + to)]; }
  int at(int from, int to) const { return room_[static_cast<size_t>(from * ranks_ + to)]; }
  int out_of(int rank) const;
  // In one direction, over all links.
  int in_all() const;

  // The fewest links that lead from one rank to the other and have room: the ranks on the way, both ends too. Empty if
  // there is no way.
  std::vector<int> way(int from, int to) const;
  // Takes a way for one shape. A later way may go against it and give back what it took. So in the end as many ways are
  // taken as there is room for (Ford and Fulkerson). Returns false if there is none.
  bool take_way(int from, int to);

 private:
  int ranks_;
  std::vector<int> room_;  // [from * ranks + to]
};

// Shapes that carry equal shares of the message, all at once.
template <class Shape>
struct Packing {
  std::vector<Shape> shapes;  // none: there is no path between some of the ranks
  double gbps_each = 0;

  double gbps() const { return gbps_each * static_cast<double>(shapes.size()); }
};

// The bandwidths, the largest first, at which some link is filled by 1 to `most` shapes, as far as they are above
// `least`. The best packing has one of these, or it could be a little larger.
std::vector<double> filling_bandwidths(const std::vector<DeviceLink>& links, int most, double least);

// 1 to `most`, or only the one that is wanted, unless that is 0.
std::vector<int> counts_up_to(int most, int wanted);

// The least bandwidth, each way, between some of the ranks and all others. Shapes that reach all ranks have no more.
double least_cut(int ranks, const std::vector<DeviceLink>& links);

// The number of shapes, of these, which together have most bandwidth; of equals the fewest. `pack` returns that many
// shapes that fit into the room, or none. Shapes that fit at some bandwidth must fit at a smaller one. No packing has
// more than `bound_gbps`.
template <class Shape, class Pack>
Packing<Shape> best_packing(int ranks, const std::vector<DeviceLink>& links, const std::vector<int>& counts,
                            double bound_gbps, Pack pack) {
  constexpr double kBetter = 1.005;  // more shapes, which cost more steps, must give that much
  Packing<Shape> best;
  for (const int count : counts) {
    if (best.gbps() * kBetter > bound_gbps) break;
    const std::vector<double> gbps = filling_bandwidths(links, count, best.gbps() * kBetter / count);
    for (size_t low = 0, high = gbps.size(); low < high;) {
      const size_t middle = (low + high) / 2;
      std::vector<Shape> shapes = pack(LinkRoom(ranks, links, gbps[middle], count), count);
      if (shapes.empty()) {
        low = middle + 1;
      } else {
        best = {std::move(shapes), gbps[middle]};
        high = middle;
      }
    }
  }
  return best;
}

}  // namespace plait

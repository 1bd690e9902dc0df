// Packing spanning trees.
#include "algorithms/steps/spanning_trees.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

namespace plait {
namespace {

constexpr int kMostTrees = 24;
constexpr int kMostTreesOfEach = 4;  // where every rank is a root

// ---- Trees used both ways: the union of as many graphic matroids ----

// Grows forests edge by edge. An edge that closes a circle in each of them may take the place of another edge of a
// circle. The other edge is then placed in the same way. A shortest chain of such exchanges keeps all forests (Roskind
// and Tarjan). If there is none, the edge is of no use, and stays so.
class Forests {
 public:
  Forests(int ranks, int count) : ranks_(ranks), neighbours_(static_cast<size_t>(count * ranks)) {}

  // Returns false if the edge is of no use.
  bool add(int a, int b) {
    edges_.push_back({a, b, -1});
    const int edge = static_cast<int>(edges_.size()) - 1;
    std::vector<int> reason(edges_.size(), kUnseen);
    reason[static_cast<size_t>(edge)] = kStart;
    std::deque<int> open = {edge};
    for (; !open.empty(); open.pop_front()) {
      const int at = open.front();
      for (int forest = 0; forest < forests(); ++forest) {
        if (edges_[static_cast<size_t>(at)].forest == forest) continue;
        const std::vector<int>& circle =
            path(forest, edges_[static_cast<size_t>(at)].a, edges_[static_cast<size_t>(at)].b);
        if (circle.empty()) {
          exchange(at, forest, reason);
          return true;
        }
        for (const int other : circle) {
          if (reason[static_cast<size_t>(other)] != kUnseen) continue;
          reason[static_cast<size_t>(other)] = at;
          open.push_back(other);
        }
      }
    }
    edges_.pop_back();
    return false;
  }

  int edges() const { return static_cast<int>(edges_.size()); }

  // The edges of each forest.
  std::vector<std::vector<std::pair<int, int>>> all() const {
    std::vector<std::vector<std::pair<int, int>>> forests(static_cast<size_t>(this->forests()));
    for (const Edge& it : edges_) forests[static_cast<size_t>(it.forest)].push_back({it.a, it.b});
    return forests;
  }

 private:
  static constexpr int kUnseen = -2, kStart = -1;
  struct Edge {
    int a, b;
    int forest;
  };

  int forests() const { return static_cast<int>(neighbours_.size()) / ranks_; }
  std::vector<int>& edges_at(int forest, int rank) { return neighbours_[static_cast<size_t>(forest * ranks_ + rank)]; }

  // The edges between two ranks in a forest; none where it does not join them. They are there until the next call,
  // which uses the same memory: a search has thousands of calls.
  const std::vector<int>& path(int forest, int from, int to) {
    edge_to_.assign(static_cast<size_t>(ranks_), kUnseen);
    edge_to_[static_cast<size_t>(from)] = kStart;
    open_.assign(1, from);
    while (!open_.empty() && edge_to_[static_cast<size_t>(to)] == kUnseen) {
      const int at = open_.back();
      open_.pop_back();
      for (const int edge : edges_at(forest, at)) {
        const int other = other_end(edge, at);
        if (edge_to_[static_cast<size_t>(other)] != kUnseen) continue;
        edge_to_[static_cast<size_t>(other)] = edge;
        open_.push_back(other);
      }
    }
    path_.clear();
    if (edge_to_[static_cast<size_t>(to)] == kUnseen) return path_;
    for (int at = to; at != from; at = other_end(path_.back(), at)) path_.push_back(edge_to_[static_cast<size_t>(at)]);
    return path_;
  }

  int other_end(int edge, int end) const {
    const Edge& it = edges_[static_cast<size_t>(edge)];
    return it.a == end ? it.b : it.a;
  }

  // Each edge of the chain goes where the one before it was.
  void exchange(int edge, int forest, const std::vector<int>& reason) {
    for (int at = edge; at != kStart; at = reason[static_cast<size_t>(at)]) forest = move(at, forest);
  }

  int move(int edge, int to) {
    Edge& it = edges_[static_cast<size_t>(edge)];
    const int from = std::exchange(it.forest, to);
    for (const int end : {it.a, it.b}) {
      if (from >= 0) std::erase(edges_at(from, end), edge);
      edges_at(to, end).push_back(edge);
    }
    return from;
  }

  const int ranks_;
  std::vector<Edge> edges_;
  std::vector<std::vector<int>> neighbours_;  // [forest * ranks + rank]: edges
  std::vector<int> edge_to_, open_, path_;    // of path()
};

using Neighbours = std::vector<std::vector<int>>;  // [rank]

Tree tree_from(int root, const Neighbours& neighbours) {
  Tree tree(root, static_cast<int>(neighbours.size()));
  for (size_t i = 0; i < tree.order.size(); ++i) {
    const int above = tree.order[i];
    for (const int rank : neighbours[static_cast<size_t>(above)]) {
      if (rank != tree.parent[static_cast<size_t>(above)]) tree.add(above, rank);
    }
  }
  return tree;
}

// The tree of these edges, rooted where it is the least deep.
Tree tree_of(const std::vector<std::pair<int, int>>& edges, int ranks) {
  Neighbours neighbours(static_cast<size_t>(ranks));
  for (const auto& [a, b] : edges) {
    neighbours[static_cast<size_t>(a)].push_back(b);
    neighbours[static_cast<size_t>(b)].push_back(a);
  }
  Tree best = tree_from(0, neighbours);
  for (int root = 1; root < ranks; ++root) {
    Tree tree = tree_from(root, neighbours);
    if (tree.depth() < best.depth()) best = std::move(tree);
  }
  return best;
}

std::vector<Tree> trees_both_ways(const LinkRoom& room, int count) {
  const int ranks = room.ranks(), edges = count * (ranks - 1);
  if (room.in_all() < edges) return {};
  Forests forests(ranks, count);
  const auto is_full = [&] { return forests.edges() == edges; };
  for (int a = 0; a < ranks; ++a) {
    if (room.out_of(a) < count) return {};
    for (int b = a + 1; b < ranks; ++b) {
      // An edge that is of no use is of none a second time.
      for (int left = room.at(a, b); left > 0 && !is_full() && forests.add(a, b);) --left;
    }
  }
  if (!is_full()) return {};
  std::vector<Tree> trees;
  for (const auto& it : forests.all()) trees.push_back(tree_of(it, ranks));
  return trees;
}

// ---- Trees used one way: Edmonds' branchings ----

// Grows one tree after the other. A rank may be added over a link if enough is left for all trees that are yet to come.
// Enough is left if their roots still have disjoint paths to it (Lovász).
class Branchings {
 public:
  Branchings(LinkRoom room, const std::vector<int>& roots) : room_(std::move(room)), roots_(roots) {}

  std::vector<Tree> find() {
    for (int rank = 0; rank < room_.ranks(); ++rank) {
      if (!reaches(rank, 0)) return {};
    }
    std::vector<Tree> trees;
    for (size_t i = 0; i < roots_.size(); ++i) {
      Tree tree(roots_[i], room_.ranks());
      // Ranks are added to those that came first, so that the tree is not deep.
      for (size_t at = 0; at < tree.order.size(); ++at) add_below(tree, tree.order[at], i + 1);
      // An arc may be free for a rank whose turn was over.
      while (static_cast<int>(tree.order.size()) < room_.ranks()) {
        const size_t before = tree.order.size();
        for (size_t at = 0; at < tree.order.size(); ++at) add_below(tree, tree.order[at], i + 1);
        if (tree.order.size() == before) return {};
      }
      trees.push_back(std::move(tree));
    }
    return trees;
  }

 private:
  void add_below(Tree& tree, int above, size_t next_tree) {
    for (int d = 1; d < room_.ranks(); ++d) {
      const int rank = (above + d) % room_.ranks();
      const bool is_in = rank == tree.root() || tree.parent[static_cast<size_t>(rank)] >= 0;
      if (is_in || room_.at(above, rank) == 0) continue;
      --room_.at(above, rank);
      if (reaches(rank, next_tree)) {
        tree.add(above, rank);
      } else {
        ++room_.at(above, rank);
      }
    }
  }

  // Whether the roots of the trees from this one on have disjoint paths to the rank, in what is left.
  bool reaches(int rank, size_t first_tree) const {
    LinkRoom left = room_;
    return std::all_of(roots_.begin() + static_cast<std::ptrdiff_t>(first_tree), roots_.end(),
                       [&](int root) { return root == rank || left.take_way(root, rank); });
  }

  LinkRoom room_;
  const std::vector<int>& roots_;
};

}  // namespace

Packing<Tree> pack_spanning_trees(int ranks, const std::vector<DeviceLink>& links, int most) {
  const double all =
      std::accumulate(links.begin(), links.end(), 0.0, [](double sum, const DeviceLink& it) { return sum + it.gbps; });
  const double bound = std::min(least_cut(ranks, links), all / std::max(1, ranks - 1));
  return best_packing<Tree>(ranks, links, counts_up_to(kMostTrees, most), bound, trees_both_ways);
}

Packing<Tree> pack_trees_from(int root, int ranks, const std::vector<DeviceLink>& links, int most) {
  const auto pack = [&](LinkRoom room, int count) {
    return Branchings(std::move(room), std::vector<int>(static_cast<size_t>(count), root)).find();
  };
  return best_packing<Tree>(ranks, links, counts_up_to(kMostTrees, most), least_cut(ranks, links), pack);
}

Packing<Tree> pack_trees_from_all(int ranks, const std::vector<DeviceLink>& links, int most) {
  std::vector<int> counts = counts_up_to(kMostTreesOfEach, most);
  for (int& count : counts) count *= ranks;
  const auto pack = [&](LinkRoom room, int count) {
    std::vector<int> roots;
    for (int rank = 0; rank < ranks; ++rank) roots.insert(roots.end(), static_cast<size_t>(count / ranks), rank);
    return Branchings(std::move(room), roots).find();
  };
  // At least its own blocks leave a part of the ranks, so all blocks together may have p times a cut.
  return best_packing<Tree>(ranks, links, counts, ranks * least_cut(ranks, links), pack);
}

}  // namespace plait

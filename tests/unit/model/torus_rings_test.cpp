// Rings along the dimensions of a torus, as Mikami et al. and Ying et al. have two of them (UEN-60, UEN-61), and more:
// as NVG-29 prints them, a whole all-reduce in each dimension, and with scatter first (NVG-32, UEN-14).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/spec.hpp"
#include "base/error.hpp"
#include "model/link_load.hpp"
#include "support/add_device.hpp"
#include "topology/topology.hpp"

namespace plait {
namespace {

using Extents = std::vector<int>;  // of the dimensions, the first of which counts neighbours

constexpr double kGbps = 10;

const std::vector<Extents> kTori = {{4, 4}, {2, 5}, {8, 3}, {2, 2, 2}, {4, 2, 3}, {3, 3, 3}, {2, 3, 2, 2}};

enum class Form { kAsPrinted, kScatterFirst };

int ranks_of(const Extents& extents) {
  int ranks = 1;
  for (const int extent : extents) ranks *= extent;
  return ranks;
}

std::string levels_of(const Extents& extents, Form form) {
  std::string levels;
  for (size_t i = 0; i < extents.size(); ++i) {
    const bool is_last = i + 1 == extents.size();
    levels +=
        join(i > 0 ? ", " : "", extents[i], form == Form::kAsPrinted && !is_last ? ": ring(all_reduce)" : ": ring");
  }
  return join("hierarchical(", levels, ")");
}

VerifiedPlan torus_plan(const Extents& extents, Form form) {
  AlgorithmArguments arguments;
  arguments.collective = Collective::kAllReduce;
  arguments.ranks = ranks_of(extents);
  return verify(make_plan(levels_of(extents, form), arguments));
}

// The rank after this one in a dimension, the last of which is before the first.
int next_in(const Extents& extents, size_t dimension, int rank) {
  int stride = 1;
  for (size_t i = 0; i < dimension; ++i) stride *= extents[i];
  const int own = rank / stride % extents[dimension];
  return rank + ((own + 1) % extents[dimension] - own) * stride;
}

// The dimension in which one rank comes after another.
size_t dimension_of(const Extents& extents, int from, int to) {
  for (size_t i = 0; i < extents.size(); ++i) {
    if (next_in(extents, i, from) == to) return i;
  }
  ADD_FAILURE() << "no neighbours: " << from << " and " << to;
  return 0;
}

// The share of the message that a rank sends in a dimension.
double share_of(const Extents& extents, size_t dimension, Form form) {
  double piece = 2.0 * (extents[dimension] - 1) / extents[dimension];
  for (size_t i = 0; form == Form::kScatterFirst && i < dimension; ++i) piece /= extents[i];
  return piece;
}

template <class Check>
void for_each_torus(const Check& check) {
  for (const Extents& extents : kTori) {
    for (const Form form : {Form::kAsPrinted, Form::kScatterFirst}) {
      SCOPED_TRACE(levels_of(extents, form));
      check(extents, form, torus_plan(extents, form));
    }
  }
}

TEST(TorusRings, TakeTheStepsOfEachDimensionTwice) {
  for_each_torus([](const Extents& extents, Form, const VerifiedPlan& plan) {
    int steps = 0;
    for (const int extent : extents) steps += 2 * (extent - 1);
    EXPECT_EQ(plan.report().steps, steps);
  });
}

// As printed, each dimension carries 2 (pi - 1) / pi of the message. With scatter first it carries that share of what
// the dimensions before left to a rank. Together they then carry the least, 2 (p - 1) / p.
TEST(TorusRings, SendToTheNextInEachDimensionAlone) {
  for_each_torus([](const Extents& extents, Form form, const VerifiedPlan& plan) {
    std::map<std::pair<int, size_t>, int64_t> sent;
    for (const Traffic& it : plan.report().traffic) {
      sent[{it.from.rank, dimension_of(extents, it.from.rank, it.to.rank)}] += it.chunks;
    }
    EXPECT_EQ(sent.size(), static_cast<size_t>(ranks_of(extents)) * extents.size());
    const double message = plan.plan().chunk_count();
    double all = 0;
    for (const auto& [from, chunks] : sent) {
      EXPECT_NEAR(static_cast<double>(chunks) / message, share_of(extents, from.second, form), 1e-12);
      all += static_cast<double>(chunks) / message;
    }
    const double ranks = ranks_of(extents);
    if (form == Form::kScatterFirst) {
      EXPECT_NEAR(all / ranks, 2 * (ranks - 1) / ranks, 1e-12);
    }
  });
}

// The dimensions that a rank's queue sends in, one after the other.
std::vector<size_t> dimensions_in_order(const Extents& extents, const Plan& plan, int rank) {
  std::vector<size_t> order;
  EXPECT_EQ(plan.ranks[rank].queues.size(), 1u);
  for (const Operation& operation : plan.ranks[rank].queues[0].operations) {
    for (const Place& place : operation.destinations) {
      if (place.rank == rank) continue;
      const size_t dimension = dimension_of(extents, rank, place.rank);
      if (order.empty() || order.back() != dimension) order.push_back(dimension);
    }
  }
  return order;
}

// As printed: all of x, then all of y, … With scatter first: x, y, … up to the last dimension, and back.
TEST(TorusRings, GoThroughTheDimensionsInOrder) {
  for_each_torus([](const Extents& extents, Form form, const VerifiedPlan& plan) {
    std::vector<size_t> expected;
    for (size_t i = 0; i < extents.size(); ++i) expected.push_back(i);
    for (size_t i = extents.size() - 1; form == Form::kScatterFirst && i-- > 0;) expected.push_back(i);
    for (int rank = 0; rank < ranks_of(extents); ++rank) {
      EXPECT_EQ(dimensions_in_order(extents, plan.plan(), rank), expected) << "rank " << rank;
    }
  });
}

// GPUs joined to the next in each dimension. Two in a dimension share one link. The way through the host is slow.
Topology torus(const Extents& extents) {
  Topology topology;
  topology.name = "torus";
  const int ranks = ranks_of(extents);
  for (int rank = 0; rank < ranks; ++rank) test::add_device(topology, DeviceKind::kGpu, join("gpu", rank));
  const int cpu = test::add_device(topology, DeviceKind::kCpu, "cpu0");
  for (int rank = 0; rank < ranks; ++rank) topology.add_link({cpu, rank, LinkKind::kPcie, 1, kGbps / 100, ""});
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < extents.size(); ++i) {
      const int next = next_in(extents, i, rank);
      if (extents[i] > 2 || next > rank) topology.add_link({rank, next, LinkKind::kNvlink, 1, kGbps, ""});
    }
  }
  validate(topology);
  return topology;
}

LinkLoad load_on(const Extents& extents, std::string_view algorithm) {
  const Topology topology = torus(extents);
  const Placement placement = place_ranks(topology, devices_of(topology, DeviceKind::kGpu));
  const AlgorithmArguments arguments = arguments_for(topology, placement, Collective::kAllReduce);
  return link_load(verify(make_plan(algorithm, arguments)), topology, placement);
}

// On the torus no two ranks meet on a link: each carries what one rank sends one way round.
TEST(TorusRings, LoadEachLinkByOneRank) {
  for (const Extents& extents : kTori) {
    const Topology topology = torus(extents);
    for (const Form form : {Form::kAsPrinted, Form::kScatterFirst}) {
      SCOPED_TRACE(levels_of(extents, form));
      const LinkLoad load = load_on(extents, levels_of(extents, form));
      for (size_t i = 0; i < topology.links.size(); ++i) {
        const Link& link = topology.links[i];
        if (link.kind != LinkKind::kNvlink) continue;
        for (const auto& [from, to, bytes] :
             {std::tuple(link.a, link.b, load.bytes[i][0]), std::tuple(link.b, link.a, load.bytes[i][1])}) {
          const size_t dimension = dimension_of(extents, link.a, link.b);
          const bool is_used = next_in(extents, dimension, from) == to;
          EXPECT_NEAR(bytes, is_used ? share_of(extents, dimension, form) : 0, 1e-12);
        }
      }
    }
  }
}

// One dimension after the other, each byte that a rank sends takes its time. A ring in the order of the ranks' numbers
// moves no more, but where a row ends it has no link of its own.
TEST(TorusRings, OfTwoDimensionsBeatARingThatLeavesTheLinks) {
  const Extents extents = {4, 4};
  const LinkLoad two = load_on(extents, levels_of(extents, Form::kScatterFirst));
  const LinkLoad printed = load_on(extents, levels_of(extents, Form::kAsPrinted));
  EXPECT_NEAR(two.chain_seconds, 2.0 * 15 / 16 / (kGbps * 1e9), 1e-20);
  EXPECT_NEAR(printed.chain_seconds, 2 * (2.0 * 3 / 4) / (kGbps * 1e9), 1e-20);
  EXPECT_GT(load_on(extents, "ring").busiest_seconds, two.busiest_seconds);
}

}  // namespace
}  // namespace plait

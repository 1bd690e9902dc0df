// Sums over links.
#include "model/explain_links.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "model/link_load.hpp"
#include "model/units.hpp"

namespace plait {
namespace {

constexpr double kSame = 1.01;     // bounds that differ by less than this factor count as equal
constexpr size_t kMostNamed = 64;  // that are named one by one

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string count(size_t number, const char* what) { return join(number, " ", what, number == 1 ? "" : "s"); }

class Explanation {
 public:
  Explanation(const VerifiedPlan& plan, const Topology& topology, const Placement& placement, double message_bytes)
      : plan_(plan), topology_(topology), message_bytes_(message_bytes), load_(link_load(plan, topology, placement)) {}

  std::string text() const {
    std::string text = join(plan_.plan().algorithm, ": ", name(plan_.plan().collective), " over ",
                            count(plan_.plan().ranks.size(), "rank"), " of ", topology_.name, ", ",
                            count(static_cast<size_t>(plan_.report().steps), "step"), "\n");
    if (plan_.plan().collective == Collective::kAllToAll) text += "message   what one rank gives, to all ranks\n";
    if (load_.busiest && load_.busiest_seconds > 0) {
      text += bound_text() + kinds_text() + links_text() + unused_text();
    } else {
      text += "no link is used\n";
    }
    return text;
  }

 private:
  const std::string& device(int index) const { return topology_.devices[static_cast<size_t>(index)].name; }
  std::string link_text(const DirectedLink& hop) const {
    const Link& link = topology_.links[static_cast<size_t>(hop.link)];
    return join(device(hop.forward ? link.a : link.b), " -> ", device(hop.forward ? link.b : link.a));
  }
  double bytes(const DirectedLink& hop) const {
    return load_.bytes[static_cast<size_t>(hop.link)][hop.forward ? 0 : 1];
  }
  double gbps(int link) const { return topology_.links[static_cast<size_t>(link)].gbps; }
  bool used(size_t link) const { return load_.bytes[link][0] + load_.bytes[link][1] > 0; }

  // Seconds for each byte of the message, as people know it: the message's bandwidth, and the time where its size is
  // known.
  std::string time_text(double seconds) const {
    const std::string rate = digits(1e-9 / seconds) + " GB/s of message";
    return message_bytes_ > 0 ? join(seconds_text(seconds * message_bytes_), " (", rate, ")") : rate;
  }

  std::string bound_text() const {
    const DirectedLink& hop = *load_.busiest;
    std::string text =
        join("bound     ", message_bytes_ > 0 ? "at least " : "at most ", time_text(load_.busiest_seconds), ": ",
             link_text(hop), " (", name(topology_.links[static_cast<size_t>(hop.link)].kind), ", ",
             digits(gbps(hop.link)), " GB/s) carries ", digits(bytes(hop)), " times the message\n");
    const double ratio = load_.chain_seconds / load_.busiest_seconds;
    if (ratio > kSame) {
      text += join("          but its operations wait for each other for ", digits(ratio),
                   " times as long: ", time_text(load_.chain_seconds), "\n");
    } else {
      text += "          no chain of its operations takes longer, so it can come close to that\n";
    }
    return text;
  }

  std::string kinds_text() const {
    struct Sum {
      size_t used = 0, all = 0;
      double bytes = 0, capacity = 0;
    };
    std::map<LinkKind, Sum> kinds;
    for (size_t link = 0; link < topology_.links.size(); ++link) {
      Sum& sum = kinds[topology_.links[link].kind];
      ++sum.all;
      sum.used += used(link);
      sum.bytes += load_.bytes[link][0] + load_.bytes[link][1];
      sum.capacity += 2 * topology_.links[link].gbps * kBytesPerGb * load_.busiest_seconds;
    }
    std::string text =
        "by kind   of link, both directions: bytes over those of the message, and use while the busiest is busy\n";
    for (const auto& [kind, sum] : kinds) {
      text += join("  ", padded(name(kind), 8), " ", padded(join(sum.used, " of ", sum.all, " used"), 16),
                   padded(digits(sum.bytes), 7), digits(100 * sum.bytes / sum.capacity, "%.0f"), " %\n");
    }
    return text;
  }

  std::string links_text() const {
    std::vector<DirectedLink> hops;
    size_t width = 0;
    for (size_t link = 0; link < topology_.links.size(); ++link) {
      for (const bool forward : {true, false}) {
        const DirectedLink hop{static_cast<int>(link), forward};
        if (bytes(hop) == 0) continue;
        hops.push_back(hop);
        width = std::max(width, link_text(hop).size());
      }
    }
    const auto share = [&](const DirectedLink& hop) {
      return bytes(hop) / (gbps(hop.link) * kBytesPerGb) / load_.busiest_seconds;
    };
    std::stable_sort(hops.begin(), hops.end(),
                     [&](const auto& a, const auto& b) { return share(a) > share(b) * (1 + 1e-9); });
    std::string text = "by link   bytes over those of the message, bandwidth, time as a share of the busiest link's\n";
    for (const DirectedLink& hop : hops) {
      if (&hop - hops.data() == static_cast<std::ptrdiff_t>(kMostNamed)) {
        return text + join("  and ", hops.size() - kMostNamed, " more, at most ", digits(100 * share(hop), "%.0f"),
                           " % each\n");
      }
      text +=
          join("  ", padded(link_text(hop), width + 2),
               padded(name(topology_.links[static_cast<size_t>(hop.link)].kind), 8), " ", padded(digits(bytes(hop)), 7),
               padded(digits(gbps(hop.link)) + " GB/s", 11), digits(100 * share(hop), "%.0f"), " %\n");
    }
    return text;
  }

  std::string unused_text() const {
    struct Unused {
      size_t count = 0;
      std::string names;
    };
    std::map<LinkKind, Unused> unused;
    for (size_t link = 0; link < topology_.links.size(); ++link) {
      if (used(link)) continue;
      Unused& of_kind = unused[topology_.links[link].kind];
      if (++of_kind.count > kMostNamed) continue;
      of_kind.names += join(of_kind.names.empty() ? "" : ", ", device(topology_.links[link].a), "-",
                            device(topology_.links[link].b));
    }
    std::string text = unused.empty() ? "unused    none\n" : "";
    for (const auto& [kind, links] : unused) {
      const size_t more = links.count - std::min(links.count, kMostNamed);
      text += join(text.empty() ? "unused    " : "          ", name(kind), ": ", links.names,
                   more > 0 ? join(" and ", more, " more") : "", "\n");
    }
    return text;
  }

  const VerifiedPlan& plan_;
  const Topology& topology_;
  const double message_bytes_;
  const LinkLoad load_;
};

}  // namespace

std::string explain_links(const VerifiedPlan& plan, const Topology& topology, const Placement& placement,
                          double message_bytes) {
  return Explanation(plan, topology, placement, message_bytes).text();
}

}  // namespace plait

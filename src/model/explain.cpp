// Explanations of plans.
#include "model/explain.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "model/link_load.hpp"
#include "plan/proof_size.hpp"

namespace plait {
namespace {

constexpr double kSame = 1.01;  // bounds that differ by less than this factor count as equal

std::string padded(std::string text, size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string count(size_t number, const char* what) { return join(number, " ", what, number == 1 ? "" : "s"); }

// One algorithm on this machine.
struct Candidate {
  std::string name;
  double seconds = 0;  // least time for each byte of the message
  int steps = 0;
};

class Explanation {
 public:
  Explanation(const VerifiedPlan& plan, const Topology& topology, const Placement& placement,
              const AlgorithmArguments& arguments, double message_bytes)
      : plan_(plan),
        topology_(topology),
        placement_(placement),
        arguments_(arguments),
        message_bytes_(message_bytes),
        load_(link_load(plan, topology, placement)) {}

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
    return text + alternatives_text();
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
      sum.capacity += 2 * topology_.links[link].gbps * 1e9 * load_.busiest_seconds;
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
      return bytes(hop) / (gbps(hop.link) * 1e9) / load_.busiest_seconds;
    };
    std::stable_sort(hops.begin(), hops.end(),
                     [&](const auto& a, const auto& b) { return share(a) > share(b) * (1 + 1e-9); });
    std::string text = "by link   bytes over those of the message, bandwidth, time as a share of the busiest link's\n";
    for (const DirectedLink& hop : hops) {
      text +=
          join("  ", padded(link_text(hop), width + 2),
               padded(name(topology_.links[static_cast<size_t>(hop.link)].kind), 8), " ", padded(digits(bytes(hop)), 7),
               padded(digits(gbps(hop.link)) + " GB/s", 11), digits(100 * share(hop), "%.0f"), " %\n");
    }
    return text;
  }

  std::string unused_text() const {
    std::map<LinkKind, std::string> unused;
    for (size_t link = 0; link < topology_.links.size(); ++link) {
      if (used(link)) continue;
      std::string& text = unused[topology_.links[link].kind];
      text += join(text.empty() ? "" : ", ", device(topology_.links[link].a), "-", device(topology_.links[link].b));
    }
    std::string text = unused.empty() ? "unused    none\n" : "";
    for (const auto& [kind, links] : unused) {
      text += join(text.empty() ? "unused    " : "          ", name(kind), ": ", links, "\n");
    }
    return text;
  }

  // --- the other algorithms ---

  Candidate candidate(const VerifiedPlan& plan) const {
    const LinkLoad load = link_load(plan, topology_, placement_);
    return {plan.plan().algorithm, load.lower_bound(1), plan.report().steps};
  }

  // All that serve the collective, the explained plan first.
  std::vector<Candidate> candidates(std::string& refused) const {
    std::vector<Candidate> all = {candidate(plan_)};
    for (const Algorithm& algorithm : algorithms()) {
      const auto& served = algorithm.collectives;
      if (std::find(served.begin(), served.end(), arguments_.collective) == served.end()) continue;
      const std::vector<AlgorithmArguments> candidates = algorithm.candidates(arguments_);
      if (candidates.empty()) refused += join(refused.empty() ? "" : ", ", algorithm.name);
      if (candidates.empty()) continue;
      try {
        Plan made = algorithm.make(candidates[0]);
        if (made.algorithm != plan_.plan().algorithm) all.push_back(candidate(verify(std::move(made))));
      } catch (const PlanTooLarge&) {
        refused += join(refused.empty() ? "" : ", ", algorithm.name, " (too large to prove)");
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kInvalidArgument) throw;
        refused += join(refused.empty() ? "" : ", ", algorithm.name);
      }
    }
    return all;
  }

  std::string alternatives_text() const {
    std::string refused;
    const std::vector<Candidate> all = candidates(refused);
    size_t width = 0;
    for (const Candidate& c : all) width = std::max(width, c.name.size());
    std::string text = "choices   bound on the message's bandwidth, and steps\n";
    for (const Candidate& c : all) {
      const std::string bound = c.seconds > 0 ? digits(1e-9 / c.seconds) + " GB/s" : std::string("no link");
      text += join("  ", padded(c.name, width + 2), padded(bound, 12), count(static_cast<size_t>(c.steps), "step"),
                   &c == &all[0] ? "  <- this plan" : "", "\n");
    }
    if (!refused.empty()) text += join("  not for this machine: ", refused, "\n");
    return text + "why       " + verdict(all) + "\n";
  }

  // For large messages bytes decide, for small ones steps.
  static std::string verdict(const std::vector<Candidate>& all) {
    const Candidate& chosen = all[0];
    double best_seconds = chosen.seconds;
    for (const Candidate& c : all) best_seconds = std::min(best_seconds, c.seconds);
    // Of equal bounds the one in the fewest steps; the chosen one unless another is truly better.
    const auto is_fast = [&](const Candidate& c) { return c.seconds <= best_seconds * kSame; };
    const Candidate *fastest = &chosen, *shortest = &chosen;
    for (const Candidate& c : all) {
      if (is_fast(c) && (!is_fast(*fastest) || c.steps < fastest->steps)) fastest = &c;
      if (c.steps < shortest->steps ||
          (shortest != &chosen && c.steps == shortest->steps && c.seconds < shortest->seconds)) {
        shortest = &c;
      }
    }
    const std::string times = fastest != &chosen ? digits(chosen.seconds / fastest->seconds) : "";
    const std::string steps = join(count(static_cast<size_t>(shortest->steps), "step"), ", not ", chosen.steps);
    if (all.size() == 1) return join(chosen.name, ": no other algorithm serves this collective here.");
    if (fastest == &chosen && shortest == &chosen) {
      return join(chosen.name, ": none of the others has a better bound or fewer steps.");
    }
    if (fastest == &chosen) {
      return join(chosen.name, ": none has a better bound, which decides for large messages; for small ones ",
                  shortest->name, " would be better, in ", steps, ".");
    }
    if (is_fast(chosen)) {
      const std::string better = join(fastest->name, " would be better: as good a bound in ",
                                      count(static_cast<size_t>(fastest->steps), "step"), ", not ", chosen.steps);
      return fastest->steps == shortest->steps
                 ? better + "."
                 : join(better, "; for small messages ", shortest->name, ", in ", steps, ".");
    }
    if (shortest == &chosen) {
      return join(chosen.name, ": none has fewer steps, which decides for small messages; for large ones ",
                  fastest->name, " would be better, with a bound ", times, " times as good.");
    }
    if (fastest == shortest) {
      return join(fastest->name, " would be better: ", steps, ", and a bound ", times, " times as good.");
    }
    return join(fastest->name, " would be better for large messages (a bound ", times, " times as good), ",
                shortest->name, " for small ones (", steps, ").");
  }

  const VerifiedPlan& plan_;
  const Topology& topology_;
  const Placement& placement_;
  const AlgorithmArguments& arguments_;
  const double message_bytes_;
  const LinkLoad load_;
};

}  // namespace

std::string explain(const VerifiedPlan& plan, const Topology& topology, const Placement& placement,
                    const AlgorithmArguments& arguments, double message_bytes) {
  return Explanation(plan, topology, placement, arguments, message_bytes).text();
}

}  // namespace plait

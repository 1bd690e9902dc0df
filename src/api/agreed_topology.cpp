// Agreeing on a topology. Ranks mostly see the same, so they compare hashes first, and send each other what they see
// only where these differ.
#include "api/agreed_topology.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "api/live_machine.hpp"
#include "base/error.hpp"
#include "runtime/collective_step.hpp"
#include "topology/readers.hpp"

namespace plait {
namespace {

// A text in a few bytes, or why there is none.
struct Fingerprint : StepResult {
  uint64_t hash = 0, length = 0;

  bool is_of_same_text(const Fingerprint& other) const { return hash == other.hash && length == other.length; }
};

// The texts of all ranks, each different one once, in the order of the first ranks that have them.
struct Texts {
  std::vector<std::string> all;
  std::vector<int> of_rank;  // which of them it has
};

// A part of every rank's text at a time, since what ranks exchange has a fixed size.
std::vector<std::string> send_texts(Bootstrap& bootstrap, const std::string& own, const std::vector<int>& ranks,
                                    const std::vector<Fingerprint>& fingerprints) {
  constexpr size_t kPart = 1 << 14;
  const auto length_of = [&](int rank) { return fingerprints[static_cast<size_t>(rank)].length; };
  size_t most = 0;
  for (const int rank : ranks) most = std::max(most, length_of(rank));
  std::vector<std::string> texts(ranks.size());
  for (size_t at = 0; at < most; at += kPart) {
    std::array<char, kPart> part = {};
    if (at < own.size()) own.copy(part.data(), kPart, at);
    const std::vector<std::array<char, kPart>> parts = bootstrap.all_gather(part);
    for (size_t i = 0; i < ranks.size(); ++i) {
      const size_t left = length_of(ranks[i]) - texts[i].size();
      texts[i].append(parts[static_cast<size_t>(ranks[i])].data(), std::min(kPart, left));
    }
  }
  return texts;
}

Texts exchange_texts(Bootstrap& bootstrap, const std::function<std::string()>& read) {
  Fingerprint mine;
  std::string own;
  try_step(mine, join("rank ", bootstrap.rank()), [&] { own = read(); });
  mine.hash = std::hash<std::string>{}(own);
  mine.length = own.size();
  const std::vector<Fingerprint> fingerprints = bootstrap.all_gather(mine);
  throw_first_failure(fingerprints);

  Texts texts;
  std::vector<int> first_ranks;  // of each text
  for (const Fingerprint& fingerprint : fingerprints) {
    const auto known = std::find_if(first_ranks.begin(), first_ranks.end(), [&](int rank) {
      return fingerprints[static_cast<size_t>(rank)].is_of_same_text(fingerprint);
    });
    const auto rank = static_cast<int>(texts.of_rank.size());
    texts.of_rank.push_back(static_cast<int>(known - first_ranks.begin()));
    if (known == first_ranks.end()) first_ranks.push_back(rank);
  }
  texts.all =
      first_ranks.size() == 1 ? std::vector{std::move(own)} : send_texts(bootstrap, own, first_ranks, fingerprints);
  return texts;
}

// A view as a text: the host on a line of its own.
std::string text_of(const HostView& view) { return view.host + "\n" + to_json(view.topology); }

HostView view_of(const std::string& text) {
  const size_t end = text.find('\n');
  return {text.substr(0, end), parse_machine_json(std::string_view(text).substr(end + 1), "what a rank sees")};
}

AgreedTopology agree_on_described(Bootstrap& bootstrap, const std::string& name) {
  Topology topology;
  const Texts texts = exchange_texts(bootstrap, [&] {
    topology = described_topology(name);
    return to_json(topology);
  });
  if (texts.all.size() > 1) {
    fail(ErrorCode::kMismatch, "PLAIT_TOPOLOGY=", name, " is another machine on rank ",
         std::find(texts.of_rank.begin(), texts.of_rank.end(), 1) - texts.of_rank.begin(),
         " than on rank 0; give all ranks the same file");
  }
  return {std::move(topology), texts.of_rank};
}

}  // namespace

HostView live_view(const HostIdentity& host, bool with_gpus) { return {to_text(host), live_topology(with_gpus)}; }

AgreedTopology agree_on_topology(Bootstrap& bootstrap, const Settings& settings, const ViewReader& read_view) {
  if (!settings.topology.empty()) return agree_on_described(bootstrap, settings.topology);
  HostView own;
  const Texts texts = exchange_texts(bootstrap, [&] {
    own = read_view();
    return text_of(own);
  });
  if (texts.all.size() == 1) return {std::move(own.topology), texts.of_rank};
  std::vector<HostView> views;
  std::map<std::string, int> nodes;  // as merge() numbers them
  std::vector<int> node_of_view;
  for (const std::string& text : texts.all) {
    views.push_back(view_of(text));
    node_of_view.push_back(nodes.emplace(views.back().host, static_cast<int>(nodes.size())).first->second);
  }
  AgreedTopology agreed{merge(views), {}};
  for (const int view : texts.of_rank) agreed.node_of_rank.push_back(node_of_view[static_cast<size_t>(view)]);
  return agreed;
}

AgreedTopology topology_in_process(int ranks, const Settings& settings, bool with_gpus) {
  return {settings.topology.empty() ? live_topology(with_gpus) : described_topology(settings.topology),
          std::vector<int>(static_cast<size_t>(ranks), 0)};
}

}  // namespace plait

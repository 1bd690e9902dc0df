#include "api/measured_network.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "api/choice_for.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait {
namespace {

// Shorter messages take about as long by any good plan, and no longer than a measurement.
constexpr size_t kLeastBytes = size_t{256} << 10;

// A described machine keeps its links.
bool are_hosts_of_their_own(const Hosts& hosts, const Settings& settings) {
  return !hosts.are_one() && settings.topology.empty();
}

}  // namespace

MeasuredNetwork::MeasuredNetwork(Tuner& tuner, const Hosts& hosts, int rank, const Logger& log, Hooks hooks)
    : tuner_(tuner), log_(log), hooks_(std::move(hooks)) {
  const int node = hosts.node_of(rank), nodes = hosts.count();
  if (hosts.ranks_of(node).front() != rank) return;
  to_ = hosts.ranks_of((node + 1) % nodes).front();
  from_ = hosts.ranks_of((node + nodes - 1) % nodes).front();
}

bool MeasuredNetwork::is_wanted_for(const Call& call) const {
  if (call.is_split) return false;
  const Query query = query_of(call, tuner_.machine().ranks());
  return query.bytes >= kLeastBytes && tuner_.goes_by_model(query);
}

void MeasuredNetwork::measure(const Call& call) {
  Call train = call;
  train.measures_network = true;
  NetworkRounds rounds;
  while (!rounds.is_over()) {
    const TrainTime own = hooks_.exchange(train, to_, from_, rounds.bytes());
    std::array<double, 2> most{own.seconds, own.span};
    hooks_.greatest(most);
    rounds.agree({most[0], most[1]});
    log_.debug("measures the network: ", digits(rounds.last_gbps()), " GB/s in round ", rounds.rounds());
  }
  const Tuner::Network before = tuner_.network();
  tuner_.set_network({rounds.gbps(), "measured"});
  log_.info("network: ", tuner_.network().text(), " in ", seconds_text(rounds.seconds()), " with ",
            bytes_text(static_cast<double>(rounds.total_bytes())), " before ", to_text(call), "; was ", before.text(),
            "; PLAIT_NETWORK_GBITS sets it");
}

bool measures_network(const Tuner& tuner, const Hosts& hosts, const Settings& settings) {
  if (!are_hosts_of_their_own(hosts, settings) || !parse_network(settings.network_gbits)->measures) return false;
  const std::vector<Device>& devices = tuner.machine().topology.devices;
  return std::ranges::any_of(devices, [](const Device& it) {
    return it.kind == DeviceKind::kNic && it.port_gbps > 0 && is_assumed(it.source);
  });
}

void take_given_network(Tuner& tuner, const Hosts& hosts, const Settings& settings) {
  const double gbits = parse_network(settings.network_gbits)->gbits;
  if (gbits > 0 && are_hosts_of_their_own(hosts, settings)) {
    tuner.set_network({gbits / 8, "given by PLAIT_NETWORK_GBITS"});
  }
}

}  // namespace plait

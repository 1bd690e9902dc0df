#include "api/meet_over_network.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "runtime/bootstrap_messages.hpp"
#include "runtime/collective_step.hpp"
#include "runtime/net/open_transport.hpp"
#include "runtime/net/port_guard.hpp"

namespace plait {
namespace {

constexpr int kMostRanksThatConnect = 16;
// For their connections. A network that lets nothing through shows at the first call.
constexpr double kGreetingSeconds = 2;

// "2 hosts (ranks 0 and 1 on a, rank 2 on b)".
std::string list_hosts(const Hosts& hosts) {
  std::string text;
  for (int node = 0; node < hosts.count(); ++node) {
    text += join(node == 0 ? "" : ", ", list_ranks(hosts.ranks_of(node)), " on ", hosts.name(node));
  }
  return join(counted(hosts.count(), "host"), " (", text, ")");
}

// Where pip puts the wheel libucx-cu13: beside the package that this code is in.
std::string wheel_library() {
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&list_hosts), &own) == 0 || own.dli_fname == nullptr) return "";
  const std::string file = own.dli_fname;
  const size_t end = file.rfind('/');
  return join(end == std::string::npos ? "." : file.substr(0, end), "/../libucx/lib/libucp.so.0");
}

// In the order of preference: what a user names is taken or nothing.
std::vector<std::string> ucx_libraries(const Settings& settings) {
  if (!settings.ucx_library.empty()) return {settings.ucx_library};
  return {"libucp.so.0", wheel_library()};
}

std::vector<UcxSetting> ucx_settings(Bootstrap& bootstrap) {
  std::vector<UcxSetting> agreed = settings_for_tcp();
  const std::vector<std::string> all = bootstrap.all_gather_texts(to_text(agreed));
  if (std::ranges::any_of(all, [&](const std::string& it) { return it != all.front(); })) agreed.clear();
  for (const UcxSetting& it : settings_of_rank()) agreed.push_back(it);
  return agreed;
}

// `texts` are the addresses of all ranks.
void guard_ports(PortGuard& guard, const Bootstrap& bootstrap, const std::vector<std::string>& texts,
                 const Hosts& hosts, const Transport& transport) {
  std::string why = "a host does not say what its addresses are";
  try {
    const auto callers = callers_of(bootstrap.rank(), texts, hosts.node_of_rank());
    if (callers) return guard.admit_only(*callers, transport.address());
  } catch (const Error& error) {
    why = error.what();
  }
  bootstrap.options().log.warn("every host may connect to the ports at which UCX listens, which asks for no secret: ",
                               why, "; PLAIT_GUARD_PORTS=0 where the network is trusted");
}

// Ranks that are threads of one process open their ports in turn, or one would take those of another for its own.
std::mutex& opens_ports() {
  static std::mutex mutex;
  return mutex;
}

struct OpenedNetwork {
  PortGuard guard;  // older than the ports
  std::unique_ptr<Transport> transport;
};

OpenedNetwork open_network(const Bootstrap& bootstrap, const Hosts& hosts, const Settings& settings,
                           const std::vector<std::string>& host_addresses, const std::vector<UcxSetting>& for_ucx,
                           bool for_gpus) {
  const std::lock_guard in_turn(opens_ports());
  OpenedNetwork opened;
  opened.transport = open_transport(ucx_libraries(settings), for_ucx, for_gpus);
  if (settings.guard_ports) guard_ports(opened.guard, bootstrap, host_addresses, hosts, *opened.transport);
  return opened;
}

// Collective. Few ranks connect at once, and then their ports are closed. For many that would be too many connections,
// of which most are never used.
void close_ports(const PortGuard& guard, OtherNodes& others, Bootstrap& bootstrap) {
  const Logger& log = bootstrap.options().log;
  const std::vector<int> ports_of_ranks = bootstrap.all_gather(guard.ports());
  const bool are_few = bootstrap.size() <= kMostRanksThatConnect;
  const bool any = std::ranges::any_of(ports_of_ranks, [](int count) { return count > 0; });
  bool are_connected = false;
  if (are_few && any) {
    const std::vector<int> have = bootstrap.all_gather(static_cast<int>(others.greet_all(kGreetingSeconds)));
    are_connected = std::ranges::all_of(have, [](int it) { return it != 0; });
  }
  if (are_connected) guard.admit_nobody();
  if (guard.ports() == 0) return;
  log.debug(counted(guard.ports(), "port"), " of UCX ", guard.ports() == 1 ? "admits " : "admit ",
            are_connected ? "nobody any more" : "the hosts of the other ranks alone", " (PLAIT_GUARD_PORTS)");
}

// "UCX 1.22.0" of "UCX 1.22.0 (/usr/lib/…/libucp.so.0)".
std::string version_in(const std::string& name) { return name.substr(0, name.find(" (")); }

// Collective. Two versions of UCX may not understand each other, and UCX itself does not say so: it crashes, or reaches
// nobody. Seen with 1.20 and 1.22 beside older ones, where hosts share a machine's addresses.
void log_networks(Bootstrap& bootstrap, const Transport& transport) {
  const std::vector<std::string> all = bootstrap.all_gather_texts(transport.name());
  const Logger& log = bootstrap.options().log;
  const bool differ =
      std::ranges::any_of(all, [&](const std::string& it) { return version_in(it) != version_in(all.front()); });
  if (bootstrap.rank() != 0 || !log.shows(differ ? LogLevel::kWarn : LogLevel::kInfo)) return;
  std::map<std::string, std::vector<int>> ranks;
  for (size_t rank = 0; rank < all.size(); ++rank) ranks[all[rank]].push_back(static_cast<int>(rank));
  std::string text;
  for (const auto& [name, its] : ranks) {
    text += join(text.empty() ? "" : ", ", name, ranks.size() == 1 ? "" : join(" of ", list_ranks(its)));
  }
  if (!differ) return log.info("between hosts: ", text);
  log.warn(
      "between hosts: ", text,
      "; two versions of UCX may not understand each other, and then end ranks: PLAIT_UCX_LIBRARY names one of the "
      "same version on each host");
}

bool all_reach_gpus(Bootstrap& bootstrap, const Transport& transport) {
  const std::vector<uint8_t> all = bootstrap.all_gather(static_cast<uint8_t>(transport.reaches_gpus()));
  return std::ranges::count(all, 0) == 0;
}

}  // namespace

std::unique_ptr<OtherNodes> meet_over_network(Bootstrap& bootstrap, const Hosts& hosts, const Settings& settings,
                                              bool is_on_host) {
  if (hosts.are_one()) return nullptr;
  const bool for_gpus =
      is_on_host && settings.cpu_driven != CpuDriven::kOff && settings.gpu_messages == GpuMessages::kDirect;
  const std::vector<UcxSetting> for_ucx = ucx_settings(bootstrap);
  const std::vector<std::string> host_addresses = bootstrap.all_gather_texts(own_addresses());
  std::optional<OpenedNetwork> network;
  StepResult opened;
  try_step(opened, join("rank ", bootstrap.rank(), " does not reach the others"),
           [&] { network = open_network(bootstrap, hosts, settings, host_addresses, for_ucx, for_gpus); });
  const std::vector<StepResult> results = bootstrap.all_gather(opened);
  if (const StepResult* failed = first_failure(results)) {
    fail(static_cast<ErrorCode>(failed->failure), "the ranks of this communicator are on ", list_hosts(hosts), ", and ",
         failed->reason,
         "; ranks of one host need none of it (one machine is one host unless PLAIT_HOST_ID says otherwise)");
  }
  const Transport& transport = *network->transport;
  log_networks(bootstrap, transport);
  std::vector<std::string> addresses = bootstrap.all_gather_texts(transport.address());
  const bool reach_gpus = for_gpus && all_reach_gpus(bootstrap, transport);
  auto others = std::make_unique<OtherNodes>(std::move(network->transport), bootstrap.rank(), std::move(addresses),
                                             hosts.node_of_rank(), reach_gpus);
  close_ports(network->guard, *others, bootstrap);
  return others;
}

std::unique_ptr<Control> stay_in_touch(Bootstrap bootstrap, const Hosts& hosts, std::shared_ptr<Segment> segment,
                                       const std::vector<Handshake>& all) {
  if (hosts.are_one()) return nullptr;
  std::vector<std::string> names;
  for (const Handshake& it : all) {
    const auto rank = static_cast<int>(names.size());
    names.push_back(join("rank ", rank, " (process ", it.process_id, " on ", hosts.name(hosts.node_of(rank)), ")"));
  }
  return std::make_unique<Control>(std::move(bootstrap), std::move(segment), std::move(names));
}

void check_described_nodes(const std::string& name, const std::vector<int>& node_of_rank, const Hosts& hosts) {
  if (hosts.are_one() || name.empty() || node_of_rank == hosts.node_of_rank()) return;
  fail(ErrorCode::kInvalidArgument, "PLAIT_TOPOLOGY=", name,
       " has the ranks on other nodes than the hosts that they are ", "on: ", list_hosts(hosts),
       "; name a machine whose nodes are these, such as kesch:nodes=", hosts.count(), ", or leave it unset");
}

void check_nodes(const Plan& plan, const Hosts& hosts) {
  if (plan.node_of == hosts.node_of_rank()) return;
  fail(ErrorCode::kInvalidArgument, "plan ", plan.algorithm, " is for other nodes than the ranks are on, which are on ",
       list_hosts(hosts), "; give a plan whose nodes are these, and leave PLAIT_TOPOLOGY unset over several hosts");
}

}  // namespace plait

#include "api/meet_over_network.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "runtime/bootstrap_messages.hpp"
#include "runtime/collective_step.hpp"
#include "runtime/net/open_transport.hpp"

namespace plait {
namespace {

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

std::vector<UcxSetting> agreed_settings(Bootstrap& bootstrap) {
  std::vector<UcxSetting> own = settings_for_tcp();
  const std::vector<std::string> all = bootstrap.all_gather_texts(to_text(own));
  if (std::ranges::any_of(all, [&](const std::string& it) { return it != all.front(); })) own.clear();
  return own;
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
  const std::vector<UcxSetting> for_tcp = agreed_settings(bootstrap);
  std::unique_ptr<Transport> transport;
  StepResult opened;
  try_step(opened, join("rank ", bootstrap.rank(), " does not reach the others"),
           [&] { transport = open_transport(ucx_libraries(settings), for_tcp, for_gpus); });
  const std::vector<StepResult> results = bootstrap.all_gather(opened);
  if (const StepResult* failed = first_failure(results)) {
    fail(static_cast<ErrorCode>(failed->failure), "the ranks of this communicator are on ", list_hosts(hosts), ", and ",
         failed->reason,
         "; ranks of one host need none of it (one machine is one host unless PLAIT_HOST_ID says otherwise)");
  }
  std::vector<std::string> addresses = bootstrap.all_gather_texts(transport->address());
  const bool reach_gpus = for_gpus && all_reach_gpus(bootstrap, *transport);
  return std::make_unique<OtherNodes>(std::move(transport), bootstrap.rank(), std::move(addresses),
                                      hosts.node_of_rank(), reach_gpus);
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

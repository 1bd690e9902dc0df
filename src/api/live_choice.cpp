// Asking the tuner.
#include "api/live_choice.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "plan/verifier.hpp"
#include "topology/gpu_models.hpp"
#include "tuner/selection.hpp"

namespace plait {
namespace {

// `most_sms`: that a call may keep busy, or 0.
std::string how_directly(Collective collective, const Choice& choice, int most_sms) {
  const auto up_to = [most_sms](int sms) { return most_sms == 0 ? sms : std::min(sms, most_sms); };
  if (choice.arguments.engine == Engine::kSm) return join(" by at most ", up_to(kPullSms), " SMs");
  if (reduces(collective)) return join(" by copy engines, and at most ", up_to(kFoldSms), " SMs that combine");
  return join(" by copy engines, and at most ", up_to(kOwnCopySms), " SMs for what a rank has for itself");
}

}  // namespace

std::string live_choice(const Topology& topology, const Placement& placement, Collective collective, int root,
                        size_t message_bytes, const Settings& settings) {
  const AlgorithmOverrides overrides = AlgorithmOverrides::parse(settings.algorithm);
  std::optional<LaunchShape> launch;
  if (!settings.launch.empty()) launch = parse_launch_shape(settings.launch);
  SelectionQuery query;
  query.most_sms = settings.max_sms;
  query.collective = collective;
  query.bytes = collective == Collective::kBarrier ? 0 : message_bytes;
  query.ranks = static_cast<int>(placement.device_of_rank.size());
  query.root = root;
  std::map<int, int> ranks_of_device;
  bool on_gpus = true;
  for (const int device : placement.device_of_rank) {
    const Device& at = topology.devices[static_cast<size_t>(device)];
    if (at.node != topology.devices[static_cast<size_t>(placement.device_of_rank[0])].node) {
      return "nothing yet: communicators are of one node";
    }
    on_gpus &= at.kind == DeviceKind::kGpu;
    query.ranks_per_device = std::max(query.ranks_per_device, ++ranks_of_device[device]);
  }
  overrides.check(query.ranks, on_gpus);
  if (!on_gpus) {
    const Choice choice = select_for_host(query, overrides);
    return make_plan(choice.algorithm, choice.arguments).algorithm;
  }
  // All GPUs of the machines here are of one model; where it is not known, the choice is that for an H200.
  const GpuModel* const model =
      find_gpu_model(topology.devices[static_cast<size_t>(placement.device_of_rank[0])].model);
  const bool reach_each_other = settings.reach != ReachKind::kHost;
  const bool nvlink_joins_all = arguments_for(topology, placement, collective).groups.size() <= 1;
  query.lines = reach_each_other && nvlink_joins_all;
  query.set_reach(settings.reach, false);
  if (model != nullptr) {
    query.processors = model->processors;
    query.host_path = reach_each_other &&
                      wants_host_path(query.ranks, query.ranks_per_device, model->architecture, query.lines, launch);
  }
  CudaChoice choice = select_for_cuda(query, overrides, launch);
  const VerifiedPlan verified = verify(make_plan(choice.plan.algorithm, choice.plan.arguments));
  choice.fit_protocol(query, verified, DataType::kFloat32);
  const Plan& plan = verified.plan();
  const int lanes = static_cast<int>(plan.ranks[0].lanes.size());
  const int ctas = choice.launch.strands * lanes;
  std::string kernels = join(plan.algorithm, ", ", name(choice.launch.protocol), ", ", ctas,
                             ctas == 1 ? " CTA" : " CTAs", " of ", choice.launch.threads, " threads");
  if (model != nullptr) {
    const int used = std::min(ctas, model->processors);
    kernels += join(" on at most ", used, used == 1 ? " SM" : " SMs");
  }
  kernels += choice.ending_text();
  const HostPart& host = choice.launch.host;
  std::string beside;
  if (host.strands > 0) {
    beside = join("; of that, ", host.percent(), "% of each block through host memory at once, by ",
                  host.strands * lanes, " CTAs more");
  }
  if (!choice.direct) return kernels + beside;
  const bool by_engines = choice.direct->arguments.engine == Engine::kCopy;
  return join(to_text(spec_of(find_algorithm(choice.direct->algorithm, collective), choice.direct->arguments)),
              how_directly(collective, *choice.direct, query.most_sms), ", where ranks come to the call together",
              by_engines ? " (those of one process neither captured nor on the default stream)" : "",
              ", with buffers of cudaMalloc; else ", kernels, beside);
}

}  // namespace plait

// Asking the tuner.
#include "api/live_choice.hpp"

#include <algorithm>
#include <map>

#include "algorithms/algorithm.hpp"
#include "base/error.hpp"
#include "topology/gpu_models.hpp"
#include "tuner/selection.hpp"

namespace plait {

std::string live_choice(const Topology& topology, const Placement& placement, Collective collective, int root,
                        size_t message_bytes) {
  SelectionQuery query;
  query.collective = collective;
  query.bytes = message_bytes;
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
  if (!on_gpus) return select_for_host(query, {}).algorithm;
  // All GPUs of the machines here are of one model; where it is not known, the choice is that for an H200.
  const int processors = processors_of(topology.devices[static_cast<size_t>(placement.device_of_rank[0])].model);
  if (processors > 0) query.processors = processors;
  query.lines = arguments_for(topology, placement, collective).groups.size() <= 1;  // NVLink joins all
  const CudaChoice choice = select_for_cuda(query, {}, {});
  const Plan plan = make_plan(choice.plan.algorithm, choice.plan.arguments);
  const int ctas = choice.launch.strands * static_cast<int>(plan.ranks[0].lanes.size());
  const std::string launch = join(plan.algorithm, ", ", name(choice.launch.protocol), ", ", ctas,
                                  ctas == 1 ? " CTA" : " CTAs", " of ", choice.launch.threads, " threads");
  const int used = std::min(ctas, processors);
  const std::string kernels = processors == 0 ? launch : join(launch, " on at most ", used, used == 1 ? " SM" : " SMs");
  if (!choice.direct) return kernels;
  const std::string how =
      choice.direct->arguments.engine == Engine::kSm
          ? join(" by at most ", kPullSms, " SMs")
          : join(" by copy engines, and at most ", kOwnCopySms, " SMs for what a rank has for itself");
  return join(choice.direct->algorithm, how,
              ", where ranks are processes and come to the call together, with buffers of cudaMalloc; else ", kernels);
}

}  // namespace plait

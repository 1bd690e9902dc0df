// How a plan is laid over GPUs: a stateless function of plan, call and machine (NVG-52: few CTAs suffice).
#pragma once

#include <optional>

#include "plan/verifier.hpp"
#include "tuner/choice.hpp"

namespace plait {

// What is known of a launch beforehand.
struct LaunchWish {
  std::optional<Protocol> protocol = {};  // that the model found cheapest
  int threads = 0;                        // of a channel with signals; 0: as the plan suggests
};

class GpuLaunch {
 public:
  // All must outlive it.
  GpuLaunch(const RankMachine& machine, const Query& query) : machine_(machine), gpus_(*machine.gpus), query_(query) {}

  // Flags inside the data where the plan can carry them and they are faster, else signals.
  LaunchShape shape(const VerifiedPlan& plan, const LaunchWish& wish) const;
  // Has a part of the message go through host memory while links carry the rest, by copy engines or by kernels, where
  // that was measured to pay.
  void add_host_part(LaunchShape& shape, const std::optional<PlanChoice>& zero_copy) const;
  // What users' launches with a part through host memory store there at most; 0 where nothing is known.
  double host_pace() const;
  // CTAs that wait for each other have to be on the GPU at once.
  LaunchShape fit(LaunchShape shape, const VerifiedPlan& plan) const;

 private:
  Protocol protocol_for(const VerifiedPlan& plan, size_t piece) const;
  LaunchShape spread(Protocol protocol, size_t threads) const;
  size_t most_channels(int queues) const;

  const RankMachine& machine_;
  const GpuFacts& gpus_;
  const Query& query_;
};

}  // namespace plait

// Launches of plans on GPUs: a stateless function of plan, call and machine (NVG-52: few CTAs suffice).
#pragma once

#include <optional>

#include "plan/verifier.hpp"
#include "tuner/choice.hpp"

namespace plait {

// The parts of a launch that are decided beforehand.
struct LaunchWish {
  std::optional<Protocol> protocol = {};  // that the model found cheapest
  int threads = 0;                        // of a channel with Simple; 0: as the plan suggests
  bool follows_rules = true;              // of the profile for zero-copy plans and last slices
};

class GpuLaunch {
 public:
  // All must outlive it.
  GpuLaunch(const RankMachine& machine, const Query& query) : machine_(machine), gpus_(*machine.gpus), query_(query) {}

  // LL or LL128 if the plan can carry flags inside the data and that is faster, else Simple.
  LaunchShape shape(const VerifiedPlan& plan, const LaunchWish& wish) const;
  // Sends a part of the message through host memory while links carry the rest, by copy engines or by kernels, if that
  // was measured to pay.
  void add_host_part(LaunchShape& shape, const std::optional<PlanChoice>& zero_copy) const;
  // The most that a user's launch with a host path stores there, in bytes per second; 0 if nothing is known.
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

// The choice for a call: a plan, and on GPUs how it is launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "algorithms/spec.hpp"
#include "base/types.hpp"
#include "plan/verifier.hpp"
#include "tuner/launch_shape.hpp"
#include "tuner/machine.hpp"

namespace plait {

// The facts on which a choice depends, besides the machine. They are equal on all ranks, so that all choose alike.
struct Query {
  Collective collective = Collective::kAllReduce;
  size_t bytes = 0;  // of the whole message
  int root = 0;
  DataType type = DataType::kFloat32;
  uint64_t plan = 0;         // the fingerprint of the plan that the caller gave, which then is the choice; 0: none
  bool only_simple = false;  // no other protocol will do
  bool knows_own_blocks_only = false;  // ranks know the sizes of the blocks that they give and get, and of no others
};

// An algorithm and its arguments, or a plan that the caller gave. Equal choices are equal plans.
struct PlanChoice {
  std::string algorithm;         // or the name of the given plan
  AlgorithmArguments arguments;  // or what the given plan says of itself
  std::string reason;            // one sentence
  uint64_t given = 0;            // the fingerprint of the given plan; 0: the algorithm makes the plan

  std::string text() const;  // "flat(store, parts=2)"
};

// SMs for copies of all data, and for work beside copy engines.
inline constexpr int kOwnCopySms = 8;  // what a rank copies to itself while copy engines serve the links
// SMs for all that a rank copies: 16 that load from peers are as fast as all, 335 GB/s on H200.
inline constexpr int kPullSms = 48;
// SMs that combine straight out of all inputs. Over 4 H200, 8 of them load 325 GB/s, as much as all SMs do. Over two,
// 8 load 304 GB/s and 16 load 334.
inline constexpr int kReduceSms = 16;

struct Choice {
  PlanChoice plan;
  // The user decided, or a measured table; else the model did.
  bool is_forced = false, is_measured = false;
  bool is_tuned = false;           // measured, and for these very ranks
  bool is_simulated = false;       // by the model, which compared simulated runs
  std::string measured_elsewhere;  // where the table was measured, if not on such a machine: "up to 4 ranks of H100"

  // The rest is for ranks on GPUs.
  LaunchShape launch;
  int queues = 1;  // of the rank of `plan` with the most queues; a channel has as many CTAs
  // Another plan for the last slice of each channel, if it is done sooner there. With Simple only.
  std::optional<PlanChoice> ending;
  // A faster plan if all ranks can map each other's buffers: zero-copy, by copy engines, or by SMs where copy engines
  // would take too long to start.
  std::optional<PlanChoice> zero_copy;
  bool insists_on_zero_copy = false;  // the user does

  // How the measured table's reason begins: "measured: ", or that it is a guess from elsewhere.
  std::string origin() const;
  std::string reason() const;  // for what runs on GPUs, in one sentence
  // The launch in words: "16 channels, 32 CTAs of 512 threads, Simple, the last slice of each channel as flat(both)".
  std::string launch_text() const;
  const char* zero_copy_text() const;  // the engine of the zero-copy plan, if there is one
};

}  // namespace plait

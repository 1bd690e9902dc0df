// What a call gets: a plan, and on GPUs how it is launched.
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

// What a choice depends on besides the machine. Equal on all ranks, so that all choose alike.
struct Query {
  Collective collective = Collective::kAllReduce;
  size_t bytes = 0;  // of the whole message
  int root = 0;
  DataType type = DataType::kFloat32;
  uint64_t plan = 0;          // the fingerprint of a plan that was given, which then is the choice; 0: none was
  bool only_simple = false;  // no other protocol will do
};

// An algorithm and its arguments, or a plan that was given; equal choices are equal plans.
struct PlanChoice {
  std::string algorithm;         // of a plan that was given, its name
  AlgorithmArguments arguments;  // of one that was given, what it says itself
  std::string reason;            // one sentence
  uint64_t given = 0;            // the fingerprint of the plan; 0: the algorithm makes it

  std::string text() const;  // "flat(store, parts=2)"
};

// For a copy of all data by SMs, and for what they do beside copy engines.
inline constexpr int kOwnCopySms = 8;  // what a rank copies to itself while copy engines serve the links
// All that a rank copies where SMs do it: 16 that load from peers are as fast as all, 335 GB/s on H200.
inline constexpr int kPullSms = 48;
// What they combine straight out of all inputs: over 4 H200 8 of them take in 325 GB/s, as many as all, and over two
// 304, where 16 take 334.
inline constexpr int kReduceSms = 16;

struct Choice {
  PlanChoice plan;
  // Who says so: the user, a measured table, or else the model.
  bool is_forced = false, is_measured = false;

  // The rest is for ranks on GPUs.
  LaunchShape launch;
  int queues = 1;  // of the rank of `plan` that has most: as many CTAs has a channel
  // The plan for the last slice of each channel, where another one than `plan` is done sooner there. Only with signals.
  std::optional<PlanChoice> ending;
  // Better than that, where every rank's buffers can be mapped by the others: data goes straight from buffer to buffer,
  // by copy engines or, where their starts would last too long, by SMs.
  std::optional<PlanChoice> zero_copy;
  bool insists_on_zero_copy = false;  // the user does

  std::string reason() const;  // for what runs on GPUs, in one sentence
  // How it is launched: "16 channels, 32 CTAs of 512 threads, Simple, the last slice of each channel as flat(both)".
  std::string launch_text() const;
  const char* zero_copy_text() const;  // who performs it, where there is one
};

}  // namespace plait

// The tuner's choice for ranks on GPUs behind an NVSwitch, for tests that change one fact at a time.
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "topology/machines.hpp"
#include "tuner/tuner.hpp"

namespace plait::test {

// A call, and facts about the GPUs.
struct GpuQuery : GpuFacts {
  Collective collective = Collective::kAllReduce;
  size_t bytes = 0;  // of the whole message
  int ranks = 1;
  int root = 0;
  DataType type = DataType::kFloat32;
};

inline std::string settings_text(const LaunchShape& shape) {
  std::string text = join(name(shape.protocol), ':', shape.channels, 'x', shape.threads);
  if (shape.host.channels > 0) text += join('+', shape.host.channels, ':', shape.host.share * 100, '%');
  return text;
}

inline Tuner tuner_for(const GpuQuery& query, const std::string& algorithm = "",
                       const std::optional<LaunchShape>& launch = std::nullopt) {
  static const Topology topology = machine("dgx2");  // 16 GPUs; only the switch matters here
  RankMachine on_gpus = place_on(topology, query.ranks, {});
  on_gpus.gpus = query;
  Settings settings;
  settings.algorithm = algorithm;
  if (launch) settings.launch = settings_text(*launch);
  return Tuner(std::move(on_gpus), settings, {}, true);
}

inline Choice choose_on_gpus(const GpuQuery& query, const std::string& algorithm = "",
                             const std::optional<LaunchShape>& launch = std::nullopt) {
  Tuner tuner = tuner_for(query, algorithm, launch);
  return tuner.choose({query.collective, query.bytes, query.root, query.type});
}

inline VerifiedPlan made(const PlanChoice& choice) {
  return verify(find_algorithm(choice.algorithm, choice.arguments.collective).make(choice.arguments));
}

}  // namespace plait::test

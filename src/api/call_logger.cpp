// Puts log lines into words.
#include "api/call_logger.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "algorithms/steps/arguments.hpp"
#include "api/choice_for.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait {
namespace {

// "0-3", "0 2 4-7"
std::string ranges_text(const std::vector<int>& sorted) {
  std::string text;
  for (size_t i = 0; i < sorted.size();) {
    size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    text += join(text.empty() ? "" : " ", sorted[i]);
    if (last > i) text += join("-", sorted[last]);
    i = last + 1;
  }
  return text;
}

// "NVIDIA H200", "3 Tesla K80 and 1 Tesla V100"; empty where no model is known.
std::string models_text(const Topology& topology, const std::vector<int>& devices) {
  std::map<std::string, size_t> models;
  for (const int device : devices) ++models[topology.devices[static_cast<size_t>(device)].model];
  if (models.size() == 1) return models.begin()->first;
  std::string text;
  for (const auto& [model, count] : models) {
    text += join(text.empty() ? "" : " and ", count, " ", model.empty() ? "unknown" : model);
  }
  return text;
}

std::string groups_text(const RankMachine& machine) {
  std::string text;
  for (const std::vector<int>& group : groups_or_nodes(machine.base)) {
    if (group.size() > 1) text += join(text.empty() ? "NVLink joins ranks " : ", ", ranges_text(group));
  }
  return text.empty() ? "NVLink joins no ranks" : text;
}

// The predicted time of the choice's plan, in words.
std::string prediction_text(Tuner& tuner, const Call& call, const Choice& choice) {
  const auto bytes = static_cast<double>(message_bytes(call, tuner.machine().ranks()));
  return join(", predicted ", seconds_text(tuner.cost(choice).seconds(bytes)));
}

std::string route_text(const MessageChoice& choice) {
  if (!choice.direct) return "";
  return *choice.direct == Engine::kCopy ? ", by copy engines from buffer to buffer" : ", from buffer to buffer";
}

}  // namespace

std::string found_text(const RankMachine& machine, const Settings& settings) {
  const Topology& topology = machine.topology;
  const std::vector<int>& of_rank = machine.placement.device_of_rank;
  const std::set<int> used(of_rank.begin(), of_rank.end());
  const DeviceKind kind = topology.devices[static_cast<size_t>(of_rank[0])].kind;
  const bool on_gpus = kind == DeviceKind::kGpu;
  const size_t all = devices_of(topology, kind).size();
  std::string text = counted(of_rank.size(), "rank") + " on ";
  if (used.size() < all) text += join(used.size(), " of ");
  text += counted(all, on_gpus ? "GPU" : "CPU socket");
  const std::string models = models_text(topology, std::vector<int>(used.begin(), used.end()));
  if (!models.empty()) text += join(" (", models, ")");
  text += join(" of ", counted(topology.nodes, "host"));
  if (on_gpus) text += "; " + groups_text(machine);
  text += settings.topology.empty() ? "; chosen for " : join("; PLAIT_TOPOLOGY=", settings.topology, " has it be ");
  return text + join(topology.name, " (", topology.source, ") with profile ", machine.profile->name);
}

std::string host_call_text(Tuner& tuner, const Call& call) {
  const Choice choice = choice_for(tuner, call);
  return join(choice.plan.text(), ", ", counted(tuner.plan(choice.plan)->report().shape.queues, "queue"),
              prediction_text(tuner, call, choice), "; ", choice.reason());
}

std::string gpu_call_text(Tuner& tuner, const Call& call, const std::string& launch) {
  const Choice choice = choice_for(tuner, call);
  const std::string direct = choice.zero_copy ? choice.zero_copy->text() + ", else " : "";
  const std::string prediction = choice.zero_copy ? "" : prediction_text(tuner, call, choice);
  return join(direct, choice.plan.text(), ", ", launch, prediction, "; ", choice.reason());
}

void CallLogger::write(std::span<const PeerMessage> messages, const Tuner* tuner) const {
  constexpr size_t kMost = 8;
  std::string text;
  for (const PeerMessage& message : messages.first(std::min(messages.size(), kMost))) {
    text += join(text.empty() ? "" : "; ", to_text(message));
    if (tuner != nullptr) text += route_text(tuner->choose_message(message.bytes()));
  }
  if (messages.size() > kMost) text += join("; and ", messages.size() - kMost, " more");
  log_.debug(messages.empty() ? "exchange of no message" : text);
}

}  // namespace plait

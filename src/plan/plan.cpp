// Names of what plans are made of.
#include "plan/plan.hpp"

#include <array>
#include <utility>

#include "base/error.hpp"
#include "base/names.hpp"

namespace plait {
namespace {

constexpr std::array<std::string_view, kCollectiveCount> kCollectives = {
    "all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "gather", "scatter", "all_to_all", "barrier"};
// MPI's names that differ from ours by more than spelling, in the form that simplified() gives them.
constexpr std::pair<std::string_view, Collective> kCollectiveAliases[] = {
    {"bcast", Collective::kBroadcast}, {"reducescatterblock", Collective::kReduceScatter}};
constexpr std::array<const char*, 4> kEngines = {"sm", "copy", "cpu", "net"};
constexpr std::array<const char*, 4> kBuffers = {"input", "output", "scratch", "host"};
constexpr std::array<const char*, 5> kOpKinds = {"reduce", "send", "receive", "signal", "wait"};
constexpr std::array<const char*, 2> kAccesses = {"staged", "zero_copy"};

}  // namespace

const char* name(Collective collective) { return kCollectives.at(static_cast<size_t>(collective)).data(); }
const char* name(Engine engine) { return kEngines.at(static_cast<size_t>(engine)); }
const char* name(Buffer buffer) { return kBuffers.at(static_cast<size_t>(buffer)); }
const char* name(OpKind kind) { return kOpKinds.at(static_cast<size_t>(kind)); }
const char* name(Access access) { return kAccesses.at(static_cast<size_t>(access)); }

Collective parse_collective(std::string_view text) {
  std::string known;
  for (size_t i = 0; i < kCollectives.size(); ++i) {
    if (same_name(text, kCollectives[i])) return static_cast<Collective>(i);
    known += join(i == 0 ? "" : ", ", kCollectives[i]);
  }
  for (const auto& [alias, collective] : kCollectiveAliases) {
    if (simplified(text) == alias) return collective;
  }
  if (const auto equal = collective_by_counts(text)) {
    fail(ErrorCode::kInvalidArgument, "'", text, "' has the plans of ", name(*equal),
         ", bound to blocks of other sizes; name that");
  }
  if (const std::string simple = simplified(text); simple == "sendreceive" || simple == "sendrecv") {
    fail(ErrorCode::kInvalidArgument, "'", text, "' is no collective: messages between two ranks have no plan");
  }
  fail(ErrorCode::kInvalidArgument, "unknown collective '", text, "'; known are ", known,
       did_you_mean(text, kCollectives));
}

std::optional<Collective> collective_by_counts(std::string_view text) {
  std::string simple = simplified(text);
  if (!simple.ends_with('v')) return std::nullopt;
  simple.pop_back();
  for (size_t i = 0; i < kCollectives.size(); ++i) {
    const auto collective = static_cast<Collective>(i);
    if (has_rank_blocks(collective) && simple == simplified(kCollectives[i])) return collective;
  }
  return std::nullopt;
}

}  // namespace plait

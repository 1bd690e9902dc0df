// Describes calls in words and makes their fingerprints.
#include "runtime/call.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "plan/fingerprint.hpp"

namespace plait {
namespace {

constexpr unsigned kBitsOfAxis = 4;

// "(1, 0)"
std::string axes_text(uint32_t order) {
  // Each axis occurs once, so the largest one tells how many there are.
  uint32_t last = 0;
  for (uint32_t rest = order; rest != 0; rest >>= kBitsOfAxis) last = std::max(last, rest & 15);
  std::string text;
  for (uint32_t i = 0; i <= last; ++i) text += join(i == 0 ? "(" : ", ", order >> (i * kBitsOfAxis) & 15);
  return text + ")";
}

}  // namespace

std::optional<uint32_t> pack_axis_order(std::span<const size_t> axes) {
  if (std::ranges::is_sorted(axes)) return 0;
  if (axes.size() * kBitsOfAxis > 32) return std::nullopt;
  uint32_t order = 0;
  for (size_t i = 0; i < axes.size(); ++i) order |= static_cast<uint32_t>(axes[i]) << (i * kBitsOfAxis);
  return order;
}

Call call_by(const VerifiedPlan& verified, DataType type, ReduceOp op, size_t count) {
  const Plan& plan = verified.plan();
  Call call;
  if (plan.collective != Collective::kBarrier) {
    call = {plan.collective, type, reduces(plan.collective) ? op : ReduceOp::kSum, 0, count};
  }
  if (has_root(plan.collective)) call.root = plan.root;
  call.plan = verified.fingerprint();
  return call;
}

std::string to_text(const Call& call) {
  if (call.is_split) return "split of the communicator";
  if (call.is_agreement && call.measures_network) return "agreement on the network's rate (PLAIT_NETWORK_GBITS)";
  if (call.is_agreement) return "agreement on the fastest plan (PLAIT_ADAPT)";
  std::string text = name_of(call);
  if (call.by_counts && !knows_all_counts(call.collective)) {
    text += join(" of ", name(call.type));
  } else if (call.collective != Collective::kBarrier) {
    text += join(" of ", call.count, " ", name(call.type));
  }
  if (reduces(call.collective)) text += join(" (", name(call.op), ")");
  if (has_root(call.collective)) text += join(", root ", call.root);
  if (call.order != 0) text += ", with axes in memory in the order " + axes_text(call.order);
  if (call.is_blocking) text += ", blocking";
  if (call.counts != 0) text += ", by counts " + fingerprint_text(call.counts);
  if (call.plan != 0) text += ", by plan " + fingerprint_text(call.plan);
  if (call.measures_network) text += ", before which ranks measure the network (PLAIT_NETWORK_GBITS)";
  return text;
}

std::string name_of(const Call& call) { return join(name(call.collective), call.by_counts ? "_v" : ""); }

size_t input_elements(const Call& call, int ranks, int rank) {
  if (call.collective == Collective::kBarrier || !has_input(call, rank)) return 0;
  return call.count * (has_rank_blocks(call.collective) && !gathers(call.collective) ? static_cast<size_t>(ranks) : 1);
}

size_t output_elements(const Call& call, int ranks, int rank) {
  if (call.collective == Collective::kBarrier || !has_output(call, rank)) return 0;
  return call.count * (has_rank_blocks(call.collective) && !scatters(call.collective) ? static_cast<size_t>(ranks) : 1);
}

uint32_t signature(const Call& call) {
  const uint64_t facts = static_cast<uint64_t>(call.collective) | static_cast<uint64_t>(call.type) << 8 |
                         static_cast<uint64_t>(call.measures_network) << 59 |
                         static_cast<uint64_t>(call.is_agreement) << 60 | static_cast<uint64_t>(call.op) << 16 |
                         static_cast<uint64_t>(call.root) << 24 | static_cast<uint64_t>(call.is_blocking) << 61 |
                         static_cast<uint64_t>(call.by_counts) << 62 | static_cast<uint64_t>(call.is_split) << 63;
  uint64_t x = (facts * 0x9e3779b97f4a7c15ULL) ^ (call.count + 0x632be59bd9b4e019ULL);
  x += call.order * 0xd6e8feb86659fd93ULL + call.plan * 0xa0761d6478bd642fULL + call.counts * 0xe7037ed1a0b428dbULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  const uint32_t reduced = static_cast<uint32_t>(x ^ (x >> 32));
  return reduced == 0 ? 1 : reduced;
}

}  // namespace plait

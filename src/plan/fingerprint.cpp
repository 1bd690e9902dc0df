// Fingerprints of plans: every number of a plan, in its order, with lists led by their length.
#include "plan/fingerprint.hpp"

#include <vector>

namespace plait {
namespace {

class Mixer {
 public:
  void add(uint64_t number) {
    state_ = (state_ ^ number) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 32;
  }
  void add(int high, int low) { add(static_cast<uint64_t>(high) << 32 | static_cast<uint32_t>(low)); }
  void add(const std::string& text) {
    add(text.size());
    for (const char c : text) add(static_cast<unsigned char>(c));
  }
  void add(const std::vector<Place>& places) {
    add(places.size());
    for (const Place& it : places) {
      add(it.rank, it.slot);
      add(static_cast<uint64_t>(it.buffer));
    }
  }
  void add(const Operation& it) {
    add(static_cast<uint64_t>(it.kind));
    add(it.chunk, it.chunks);
    add(it.peer_rank, it.peer_queue);
    add(static_cast<uint64_t>(it.number));
    add(it.destinations);
    add(it.sources);
  }
  void add(const RankPlan& it) {
    add(it.scratch_slots, it.host_slots);
    add(it.signals, it.messages);
    add(it.queues.size());
    for (const Queue& queue : it.queues) {
      add(static_cast<uint64_t>(queue.engine));
      add(queue.operations.size());
      for (const Operation& operation : queue.operations) add(operation);
    }
  }

  uint64_t state() const { return state_; }

 private:
  uint64_t state_ = 0x243f6a8885a308d3ULL;
};

}  // namespace

uint64_t fingerprint(const Plan& plan) {
  Mixer mixer;
  mixer.add(plan.algorithm);
  mixer.add(static_cast<int>(plan.collective), static_cast<int>(plan.access));
  mixer.add(plan.root, plan.in_place ? 1 : 0);
  mixer.add(plan.blocks, plan.chunks_per_block);
  mixer.add(plan.node_of.size());
  for (const int node : plan.node_of) mixer.add(static_cast<uint64_t>(node));
  mixer.add(plan.ranks.size());
  for (const RankPlan& rank : plan.ranks) mixer.add(rank);
  return mixer.state() == 0 ? 1 : mixer.state();
}

std::string fingerprint_text(uint64_t fingerprint) {
  constexpr int kDigits = 16;
  std::string text(kDigits, '0');
  for (int i = kDigits - 1; i >= 0; --i, fingerprint >>= 4)
    text[static_cast<size_t>(i)] = "0123456789abcdef"[fingerprint & 15];
  return text;
}

}  // namespace plait

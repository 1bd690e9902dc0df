// Follows the calls of a rank on a GPU from the host. The host sees them begin, and then has to watch over ranks that
// wait for each other where no host can see them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "runtime/communicator_state.hpp"
#include "runtime/host/peers.hpp"
#include "runtime/host/segment.hpp"

namespace plait {

class DeviceCalls final : public CommunicatorState {
 public:
  DeviceCalls(std::shared_ptr<Segment> segment, int rank, Peers peers);

  int rank() const override { return rank_; }
  ProcessSharing process_sharing() const override;
  void announce(const Call& call) override;
  std::optional<Error> failure() const override { return segment_->failure_for(rank_); }
  bool has_failed() const override { return segment_->failure().is_set(); }
  void abort(ErrorCode code, const std::string& message) override { segment_->record_failure(code, rank_, message); }
  void compare_calls() override;
  void look_after_peers() override;
  std::optional<uint64_t> awaited_call() const override;
  std::string describe() const override;
  std::byte* agreement_memory() const override { return segment_->agreement_memory(); }
  std::byte* message_agreement_memory(int from, int to) const override {
    return segment_->message_agreement_memory(from, to);
  }
  Exports& exports(int rank) const override { return segment_->exports(rank); }

 private:
  int ranks() const { return segment_->shape().ranks; }
  std::string last_act(int rank) const;

  std::shared_ptr<Segment> segment_;
  const int rank_;
  Peers peers_;
};

}  // namespace plait

// Decides who performs a call.
#include "api/nccl/companion.hpp"

#include <utility>

#include "api/nccl/cuda_driver.hpp"

namespace plait::nccl {

void Companion::take_over(plaitComm_t comm, const TakeSetting& setting, std::shared_ptr<const WinsTable> table) {
  setting_ = setting;
  table_ = std::move(table);
  plait_.store(comm, std::memory_order_release);
}

const char* Companion::why_forwarded(const NcclCall& call, plaitRedOp_t& op) {
  const size_t bytes = element_bytes(call.type);
  if (bytes == 0) return "the type is unknown";
  if (is_message(call.kind) && !takes_messages()) return "messages are not taken";
  if (!is_message(call.kind) && call.count == 0) return "it is empty";
  if (call.count > SIZE_MAX / bytes) return "it is too long";
  const bool has_root = is_rooted(call.kind) || is_message(call.kind);
  if (has_root && (call.root < 0 || call.root >= ranks_)) return "there is no such rank";
  ncclRedOp_t operation = call.op;
  op = static_cast<plaitRedOp_t>(call.op);
  if (is_reducing(call.kind) && (call.op < 0 || call.op >= ncclNumOps)) {
    const auto premul = find_premul(call.op);
    if (!premul) return "the operation is unknown";
    if (premul->type != call.type) return "the operation is of another type";
    op = premul->op;
    operation = ncclNumOps;
  }
  const auto wins = [&](bool is_captured) {
    return setting_.mode == TakeMode::kAll ||
           (table_ != nullptr && table_->has(call.kind, call.type, operation, call.count * bytes, is_captured));
  };
  const bool if_launched = wins(false), if_captured = setting_.graphs && wins(true);
  if (!if_launched && !if_captured) {
    const char* why = table_ == nullptr ? nullptr : table_->why_left_out(call.kind, call.type, operation);
    return why != nullptr ? why : "no win was measured";
  }
  // NCCL: "Whether an operation launch is graph-captured is considered a collective property of that operation."
  if (CudaDriver::of_this_process().is_capturing(call.stream)) {
    if (!setting_.graphs) return "its stream is captured";
    return if_captured ? nullptr : "no win was measured in graphs";
  }
  return if_launched ? nullptr : "a win was measured in graphs alone";
}

void Companion::add_premul(ncclRedOp_t number, const PremulPair& pair) {
  const std::lock_guard lock(mutex_);
  premuls_[number] = pair;
}

std::optional<PremulPair> Companion::find_premul(ncclRedOp_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = premuls_.find(number);
  return found == premuls_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<PremulPair> Companion::take_premul(ncclRedOp_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = premuls_.find(number);
  if (found == premuls_.end()) return std::nullopt;
  const PremulPair pair = found->second;
  premuls_.erase(found);
  return pair;
}

}  // namespace plait::nccl

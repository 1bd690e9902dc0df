// A communicator's memory of the calls that it made. Programs make the same few calls again and again.
#pragma once

#include <cstddef>
#include <unordered_map>
#include <utility>

#include "runtime/call.hpp"

namespace plait {

// A value for each call, made when first asked for.
template <class Value>
class CallCache {
 public:
  // Returns the value for `call`, from make() if there is none yet. It stays until the next get().
  template <class Make>
  const Value& get(const Call& call, const Make& make) {
    if (last_ != nullptr && last_->first == call) return last_->second;
    auto found = values_.find(call);
    if (found == values_.end()) {
      if (values_.size() >= kMostCalls) clear();
      found = values_.emplace(call, make()).first;
    }
    last_ = &*found;
    return last_->second;
  }

  void clear() {
    last_ = nullptr;
    values_.clear();
  }

 private:
  static constexpr size_t kMostCalls = 256;
  struct Hash {
    size_t operator()(const Call& call) const { return signature(call); }
  };
  std::unordered_map<Call, Value, Hash> values_;
  const std::pair<const Call, Value>* last_ = nullptr;
};

}  // namespace plait

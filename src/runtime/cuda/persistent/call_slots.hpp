// The calls that a persistent kernel knows. Programs make the same few calls again and again: those find their slot as
// they left it, and their arguments need not cross PCIe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "runtime/cuda/kernels/prepared_launch.hpp"
#include "runtime/cuda/persistent/request.hpp"

namespace plait {

class CallSlots {
 public:
  // `slots`: kCallSlots of them, in host memory. The kernel reads one only while it performs a request that is new.
  explicit CallSlots(RequestedCall* slots) : slots_(slots) {}

  // The request for such a call with these buffers; its slot holds it. No request may be under way.
  Request request_for(PreparedLaunch& prepared, const void* input, void* output) {
    const PreparedLaunch::TwoShotLlLaunch it = *prepared.two_shot_ll_launch(input, output);
    const Key key{&it.argument, input, output};
    const auto found = std::find(keys_.begin(), keys_.end(), key);
    const bool is_known = found != keys_.end();
    Request request;
    request.slot = is_known ? static_cast<uint32_t>(found - keys_.begin()) : next_++ % kCallSlots;
    request.ctas = static_cast<uint32_t>(prepared.ctas());
    RequestedCall& call = slots_[request.slot];
    // Another launch may have come to the address of one that is gone.
    request.is_new = !is_known || call.type != prepared.call().type || call.kernel != it.kernel ||
                     std::memcmp(&call.launch, &it.argument, sizeof(TwoShotLaunch)) != 0;
    if (!request.is_new) return request;
    keys_[request.slot] = key;
    std::memcpy(static_cast<void*>(&call.launch), &it.argument, sizeof(TwoShotLaunch));
    call.type = prepared.call().type;
    call.kernel = it.kernel;
    return request;
  }

 private:
  struct Key {
    const TwoShotLaunch* argument = nullptr;
    const void* input = nullptr;
    void* output = nullptr;

    friend bool operator==(const Key&, const Key&) = default;
  };

  RequestedCall* const slots_;
  std::array<Key, kCallSlots> keys_{};
  uint32_t next_ = 0;
};

}  // namespace plait

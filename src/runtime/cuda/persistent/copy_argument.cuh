// Brings what a request asks for to a CTA, or to where the others find it.
#pragma once

#include <cstdint>

namespace plait {

// By words, with all threads of the CTA.
template <class Argument>
__device__ inline void copy_argument(Argument* to, const Argument* from) {
  auto* const words = reinterpret_cast<uint64_t*>(to);
  const auto* const its = reinterpret_cast<const uint64_t*>(from);
  for (unsigned i = threadIdx.x; i < sizeof(Argument) / sizeof(uint64_t); i += blockDim.x) words[i] = its[i];
}

}  // namespace plait

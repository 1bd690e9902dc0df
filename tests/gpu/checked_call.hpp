// One call of all ranks of a World, from known inputs to a count of wrong elements.
#pragma once

#include <memory>
#include <vector>

#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "gpu/world.hpp"
#include "runtime/cuda/driver/driver.hpp"

namespace plait::test {

class CheckedCall {
 public:
  CheckedCall(World& world, const Call& call, bool in_place) : world_(world), call_(call), in_place_(in_place) {}

  // Wrong elements of all ranks. Captured: as CUDA graphs.
  size_t run(bool captured, int variant) {
    for (int r = 0; r < world_.size(); ++r) upload(r, variant);
    world_.synchronize();
    const auto enqueue = [&](int r) { world_.rank(r).enqueue(call_, from(r), to(r), world_.stream(r)); };
    if (captured) {
      const std::vector<Graph> graphs = captured_in_turn(world_, enqueue);
      launch(world_, graphs);
      world_.synchronize();
    } else {
      for (int r = 0; r < world_.size(); ++r) enqueue(r);
      world_.synchronize();
    }
    size_t wrong = 0;
    for (int r = 0; r < world_.size(); ++r) wrong += wrong_at(r, variant);
    return wrong;
  }

 private:
  void upload(int r, int variant) {
    std::vector<std::byte> given(input_elements(call_, world_.size(), r) * size_of(call_.type));
    fill_input(call_, world_.size(), r, variant, given.data());
    check_cuda(cudaMemcpyAsync(from(r), given.data(), given.size(), cudaMemcpyHostToDevice, world_.stream(r)),
               "upload");
  }
  size_t wrong_at(int r, int variant) {
    if (const auto error = world_.rank(r).async_error()) throw *error;
    std::vector<std::byte> got(output_elements(call_, world_.size(), r) * size_of(call_.type));
    check_cuda(cudaMemcpyAsync(got.data(), to(r), got.size(), cudaMemcpyDeviceToHost, world_.stream(r)), "download");
    check_cuda(cudaStreamSynchronize(world_.stream(r)), "download");
    return count_wrong(call_, world_.size(), r, variant, got.data());
  }
  size_t own_block(int r) const { return static_cast<size_t>(r) * call_.count * size_of(call_.type); }
  std::byte* from(int r) {
    if (!in_place_) return world_.input(r);
    return world_.output(r) + (gathers(call_.collective) ? own_block(r) : 0);
  }
  std::byte* to(int r) { return world_.output(r) + (in_place_ && scatters(call_.collective) ? own_block(r) : 0); }

  World& world_;
  const Call call_;
  const bool in_place_;
};

}  // namespace plait::test

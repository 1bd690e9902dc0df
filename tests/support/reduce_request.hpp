// What a work request must do, by the reduce of the host.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "runtime/host/reduce.hpp"
#include "runtime/work_request.hpp"

namespace plait::test {

// Performs a request on host memory.
inline void reduce_request(const WorkRequest& request) {
  std::vector<void*> places(request.places, request.places + request.destinations + request.sources);
  std::vector<uint8_t> wide;
  for (int s = 0; s < request.sources; ++s) wide.push_back(request.wide_sources >> s & 1);
  ReduceArguments arguments;
  arguments.destinations = places.data();
  arguments.destination_count = request.destinations;
  arguments.sources = places.data() + request.destinations;
  arguments.source_count = request.sources;
  arguments.source_is_wide = wide.data();
  arguments.result_is_wide = request.result_is_wide != 0;
  arguments.elements = request.elements;
  arguments.divisor = request.divisor;
  find_reduce(request.type, request.op)(arguments);
}

// Stores a number, as an element of a floating type or of its accumulator.
inline void store_number(std::byte* to, DataType type, bool is_wide, float value) {
  const double wider = value;
  if (type == DataType::kFloat64) {
    std::memcpy(to, &wider, sizeof wider);
    return;
  }
  if (is_wide || type == DataType::kFloat32) {
    std::memcpy(to, &value, sizeof value);
    return;
  }
  WorkRequest copy;  // rounds it
  copy.type = type;
  copy.destinations = copy.sources = 1;
  copy.wide_sources = 1;
  copy.elements = 1;
  std::byte* const from = reinterpret_cast<std::byte*>(&value);
  copy.places[0] = to;
  copy.places[1] = from;
  reduce_request(copy);
}

}  // namespace plait::test

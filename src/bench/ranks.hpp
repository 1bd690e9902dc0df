// Ranks of a benchmark: values they agree on through their communicator, and their buffers.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "api/communicator.hpp"
#include "runtime/call.hpp"

namespace plait {

// One value of every rank, combined; collective.
template <class T>
T over_ranks(Communicator& communicator, T value, DataType type, ReduceOp op) {
  T result{};
  communicator.all_reduce(&value, &result, 1, type, op);
  return result;
}

// Throws on all ranks where a rank has an error: that of the lowest such rank. Collective.
void agree(Communicator& communicator, const std::optional<Error>& own);

// Runs `step` on every rank; where it throws an Error on one, it throws on all. Collective; `step` must not wait for
// other ranks.
template <class Step>
void on_all_ranks(Communicator& communicator, Step step) {
  std::optional<Error> own;
  try {
    step();
  } catch (const Error& error) {
    own = error;
  }
  agree(communicator, own);
}

struct BufferPair {
  std::byte* first = nullptr;
  std::byte* second = nullptr;
};

struct BufferPlacement {
  std::byte* input = nullptr;
  std::byte* output = nullptr;
};

// The places of a rank's input and output, given two buffers of the message's size; in place takes the first alone.
BufferPlacement place(const Call& call, int rank, BufferPair buffers, bool in_place);

}  // namespace plait

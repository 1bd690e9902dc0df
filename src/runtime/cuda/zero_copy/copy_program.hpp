// A plan of copies, and perhaps a reduce before them, in the form that it is enqueued in: for each queue of a rank,
// what it signals and waits for, what it copies, and what it signals and waits for after that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/verifier.hpp"
#include "runtime/call.hpp"
#include "runtime/cuda/zero_copy/barrier_kernel.hpp"

namespace plait {

// From the input of a rank, or from its output after a reduce, to the output of the own one.
struct DeviceCopy {
  int from_rank = 0;
  size_t source_offset = 0;  // bytes
  size_t output_offset = 0;
  size_t bytes = 0;
};

struct CopyQueue {
  BarrierQueue before, after;  // count 0: nothing
  std::vector<DeviceCopy> copies;
  bool by_kernel = false;  // else by a copy engine
};

struct CopyQueues {
  bool by_one_kernel = false;  // all are; else kernels only copy within one GPU
  bool leaves_room = false;    // on the GPU, for a kernel beside it that may not wait for it
  std::vector<CopyQueue> queues;
};

struct DeviceSource {
  int rank = 0;
  size_t input_offset = 0;  // bytes
};

// What SMs combine out of the inputs of all ranks into the own output, between barriers of its own. All ranks have one,
// or none has: barriers count by peer, so what a reduce signals has to come before what is signalled for copies, on
// every rank.
struct DeviceReduce {
  std::vector<CopyQueue> barriers;    // which copy nothing
  std::vector<DeviceSource> sources;  // in the order in which they are combined
  size_t output_offset = 0;           // bytes
  size_t elements = 0;
  int divisor = 0;  // 0: none
};

// What is performed for a call: the reduce first, where there is one, and then the copies, which then take from outputs
// what other ranks have reduced.
struct CopyProgram : CopyQueues {
  Call call;
  std::optional<DeviceReduce> reduce;
  // Not worth it where buffers of a rank begin between two vectors of 16 bytes; where the size of the allocation that
  // its own block is copied from is no multiple of 64 KiB.
  bool only_aligned = false, only_even = false;
  bool in_place = true;         // right also where output and input are the same memory
  bool input_is_read = false;   // by other ranks
  bool output_is_read = false;  // likewise
  size_t input_bytes = 0;       // of this rank
  size_t output_bytes = 0;
};

// Throws kInvalidPlan where a queue of `rank` is of another form, or reads anything but inputs, or writes anything but
// its own output: a rank that gives up may go on with its copies, and spoils nothing but that. Outputs of others are
// copied after a reduce only.
CopyProgram make_copy_program(const VerifiedPlan& plan, const Call& call, int rank);
// The same for the first `count` elements of every block only.
CopyProgram make_copy_program(const VerifiedPlan& plan, const Call& call, int rank, size_t count);

// What a rank does for a message that goes straight from its input to `peer`, and for one that comes from there into
// its output. Beside a copy of its own, a rank waits for its peer's after that.
CopyQueue sending_queue(int peer, bool beside_copy);
CopyQueue receiving_queue(int peer, size_t bytes, bool by_kernel);

// Whether a copy leads to where its source lies.
bool is_in_place(const DeviceCopy& copy, const std::byte* source, const std::byte* output);

// A copy with addresses.
struct PlacedCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // of this rank, or mapped memory of another
  uint64_t bytes = 0;
};

// Those of a queue, but for what lies where it is to go. sources[r]: what is copied from of rank r, as this rank's GPU
// addresses it.
std::vector<PlacedCopy> place(const CopyQueue& queue, std::span<const std::byte* const> sources, std::byte* output);

}  // namespace plait

// A plan of copies, perhaps with a reduce before them, in the form in which it is enqueued. Each queue of a rank has
// signals and waits, then copies, then signals and waits again.
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

// A copy from the input of a rank, or from its output after a reduce, to this rank's output.
struct DeviceCopy {
  int from_rank = 0;
  size_t source_offset = 0;  // bytes
  size_t output_offset = 0;
  size_t bytes = 0;
};

struct CopyQueue {
  BarrierQueue before, after;  // count 0: none
  std::vector<DeviceCopy> copies;
  bool by_kernel = false;  // false: by a copy engine
};

struct CopyQueues {
  bool by_one_kernel = false;  // one kernel performs all copies; else kernels copy only within one GPU
  bool leaves_room = false;    // the kernel leaves room on the GPU for a concurrent one, which must not wait for it
  std::vector<CopyQueue> queues;
};

struct DeviceSource {
  int rank = 0;
  size_t input_offset = 0;  // bytes
};

// A reduce of the inputs of all ranks into this rank's output by SMs, between its own barriers. Either all ranks have
// one or none does: barriers count signals by peer, so on every rank the signals of a reduce have to come before those
// of copies.
struct DeviceReduce {
  std::vector<CopyQueue> barriers;    // without copies
  std::vector<DeviceSource> sources;  // in the order in which they are combined
  size_t output_offset = 0;           // bytes
  size_t elements = 0;
  int divisor = 0;  // 0: none
};

// The work of a rank in one call: a reduce if there is one, then the copies. After a reduce, copies read the outputs of
// other ranks.
struct CopyProgram : CopyQueues {
  Call call;
  std::optional<DeviceReduce> reduce;
  bool only_aligned = false;    // only worth it if all buffers are 16-byte aligned
  bool only_even = false;       // only worth it if a rank's own block is in an allocation of a multiple of 64 KiB
  bool in_place = true;         // also right if output and input are the same memory
  bool input_is_read = false;   // by other ranks
  bool output_is_read = false;  // likewise
  size_t input_bytes = 0;       // of this rank
  size_t output_bytes = 0;
};

// Throws kInvalidPlan if a queue of `rank` has another form, if it reads anything but inputs (or outputs, after a
// reduce), or if it writes anything but this rank's output. The last rule is there because a rank that gives up may go
// on with its copies, and then spoils nothing but its output.
CopyProgram make_copy_program(const VerifiedPlan& plan, const Call& call, int rank);
// The same for only the first `count` elements of every block.
CopyProgram make_copy_program(const VerifiedPlan& plan, const Call& call, int rank, size_t count);

// A rank's queue for a zero-copy message to `peer`, and for one from `peer`. `beside_copy`: the sending rank receives
// as well, and waits for its peer's copy only after its own.
CopyQueue sending_queue(int peer, bool beside_copy);
CopyQueue receiving_queue(int peer, size_t bytes, bool by_kernel);

// Whether source and destination of a copy are the same memory.
bool is_in_place(const DeviceCopy& copy, const std::byte* source, const std::byte* output);

// A copy with addresses.
struct PlacedCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // memory of this rank, or mapped memory of another
  uint64_t bytes = 0;
};

// The copies of a queue, except those whose source and destination are the same. sources[r] is the buffer that is
// copied from rank r, as this rank's GPU addresses it.
std::vector<PlacedCopy> place(const CopyQueue& queue, std::span<const std::byte* const> sources, std::byte* output);

}  // namespace plait

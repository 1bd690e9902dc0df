// Copies inputs, and makes calls by counts out of what callers give.
#include "api/calls_by_counts.hpp"

#include <cstring>
#include <new>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "base/figures.hpp"

namespace plait {

const void* CallsByCounts::copy(const Call& call, std::span<const BufferBlock> blocks, const void* input) {
  const size_t element = size_of(call.type), bytes = extent(blocks) * element;
  if (bytes > capacity_) {
    copy_.reset();
    capacity_ = 0;
    copy_.reset(new (std::nothrow) std::byte[bytes]);
    if (!copy_) {
      fail(ErrorCode::kResources, "the system has no ", counted(bytes, "byte"), " to copy the input of an ",
           name_of(call), " in place; use less memory, or give another output");
    }
    capacity_ = bytes;
  }
  for (const BufferBlock& block : blocks) {
    if (block.count == 0) continue;
    std::memcpy(copy_.get() + block.first * element, static_cast<const std::byte*>(input) + block.first * element,
                block.count * element);
  }
  return copy_.get();
}

void CallsByCounts::release() {
  if (capacity_ <= kMostKeptBytes) return;
  copy_.reset();
  capacity_ = 0;
}

void Communicator::all_gather_v(const void* input, void* output, const BlockCounts& counts, DataType type) {
  const Call call{Collective::kAllGather, type, ReduceOp::kSum, 0, 0};
  run_by_counts(call_by_counts(call, size(), rank(), {}, counts), input, output);
}

void Communicator::reduce_scatter_v(const void* input, void* output, const BlockCounts& counts, DataType type,
                                    ReduceOp op) {
  const Call call{Collective::kReduceScatter, type, op, 0, 0};
  run_by_counts(call_by_counts(call, size(), rank(), counts, {}), input, output);
}

void Communicator::gather_v(const void* input, size_t count, void* output, const BlockCounts& counts, DataType type,
                            int root) {
  const Call call{Collective::kGather, type, ReduceOp::kSum, root, 0};
  run_by_counts(call_by_counts(call, size(), rank(), {{&count, 1}}, counts), input, output);
}

void Communicator::scatter_v(const void* input, const BlockCounts& counts, void* output, size_t count, DataType type,
                             int root) {
  const Call call{Collective::kScatter, type, ReduceOp::kSum, root, 0};
  run_by_counts(call_by_counts(call, size(), rank(), counts, {{&count, 1}}), input, output);
}

void Communicator::all_to_all_v(const void* input, const BlockCounts& given, void* output, const BlockCounts& received,
                                DataType type) {
  const Call call{Collective::kAllToAll, type, ReduceOp::kSum, 0, 0};
  run_by_counts(call_by_counts(call, size(), rank(), given, received), input, output);
}

}  // namespace plait

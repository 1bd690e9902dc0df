// The collectives of a communicator, as calls.
#include "api/communicator.hpp"

namespace plait {

void Communicator::all_reduce(const void* input, void* output, size_t count, DataType type, ReduceOp op) {
  run({Collective::kAllReduce, type, op, 0, count}, input, output);
}

void Communicator::reduce(const void* input, void* output, size_t count, DataType type, ReduceOp op, int root) {
  run({Collective::kReduce, type, op, root, count}, input, output);
}

void Communicator::broadcast(const void* input, void* output, size_t count, DataType type, int root) {
  run({Collective::kBroadcast, type, ReduceOp::kSum, root, count}, input, output);
}

void Communicator::reduce_scatter(const void* input, void* output, size_t count, DataType type, ReduceOp op) {
  run({Collective::kReduceScatter, type, op, 0, count}, input, output);
}

void Communicator::all_gather(const void* input, void* output, size_t count, DataType type) {
  run({Collective::kAllGather, type, ReduceOp::kSum, 0, count}, input, output);
}

void Communicator::gather(const void* input, void* output, size_t count, DataType type, int root) {
  run({Collective::kGather, type, ReduceOp::kSum, root, count}, input, output);
}

void Communicator::scatter(const void* input, void* output, size_t count, DataType type, int root) {
  run({Collective::kScatter, type, ReduceOp::kSum, root, count}, input, output);
}

void Communicator::all_to_all(const void* input, void* output, size_t count, DataType type) {
  run({Collective::kAllToAll, type, ReduceOp::kSum, 0, count}, input, output);
}

void Communicator::barrier() { run({}, nullptr, nullptr); }

}  // namespace plait

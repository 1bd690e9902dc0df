// Zero-copy calls by copy engines or SMs: captured, at any offset, with memory that comes and goes, with buffers that
// cannot be mapped, and with ranks that come late.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "bench/exact_input.hpp"
#include "machine.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "support/rank_processes.hpp"
#include "world.hpp"

namespace plait::test {
namespace {

using Values = std::vector<uint32_t>;

// The engine of all copies from here on, and the launch shape of kernels that perform the rest, if there is any.
const char* engine = "copy";
const char* launch = "";

Settings insisting() {
  Settings settings;
  settings.timeout_seconds = 20;
  settings.launch = launch;
  for (const char* collective :
       {"all_gather", "all_reduce", "all_to_all", "broadcast", "gather", "reduce_scatter", "scatter"}) {
    settings.algorithm +=
        join(settings.algorithm.empty() ? "" : ",", collective, ":flat(load, zero_copy, engine=", engine, ")");
  }
  return settings;
}

Call call_of(Collective collective, int root, size_t count) {
  return {collective, DataType::kUint32, ReduceOp::kSum, root, count};
}

// Element i of what `from` sends to `to`. In collectives that send the same to all ranks, `to` is 0.
uint32_t value(unsigned seed, int from, int to, size_t i) {
  return static_cast<uint32_t>((seed * 31 + static_cast<unsigned>(from)) * 1000003 + static_cast<unsigned>(to) * 7919 +
                               i);
}

Values block(unsigned seed, int from, int to, size_t count) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = value(seed, from, to, i);
  return values;
}

void append(Values& all, const Values& more) { all.insert(all.end(), more.begin(), more.end()); }

// The sum of what all ranks send to `to`.
Values sum_of_blocks(unsigned seed, int ranks, int to, size_t count) {
  Values sums(count, 0);
  for (int from = 0; from < ranks; ++from) {
    for (size_t i = 0; i < count; ++i) sums[i] += value(seed, from, to, i);
  }
  return sums;
}

Values input_of(const Call& call, int rank, int ranks, unsigned seed) {
  if (!has_input(call, rank)) return {};
  if (call.collective != Collective::kAllToAll && !scatters(call.collective)) return block(seed, rank, 0, call.count);
  Values values;
  for (int to = 0; to < ranks; ++to) append(values, block(seed, rank, to, call.count));
  return values;
}

Values output_of(const Call& call, int rank, int ranks, unsigned seed) {
  if (!has_output(call, rank)) return {};
  switch (call.collective) {
    case Collective::kBroadcast:
      return block(seed, call.root, 0, call.count);
    case Collective::kScatter:
      return block(seed, call.root, rank, call.count);
    case Collective::kAllReduce:
      return sum_of_blocks(seed, ranks, 0, call.count);
    case Collective::kReduceScatter:
      return sum_of_blocks(seed, ranks, rank, call.count);
    default: {
      Values values;
      const int to = call.collective == Collective::kAllToAll ? rank : 0;
      for (int from = 0; from < ranks; ++from) append(values, block(seed, from, to, call.count));
      return values;
    }
  }
}

// In place, the offset of a rank's input in its output, or the other way round, in bytes.
size_t own_block(const Call& call, int rank) { return static_cast<size_t>(rank) * call.count * 4; }

void upload(std::byte* to, const Values& values, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(to, values.data(), values.size() * 4, cudaMemcpyHostToDevice, stream), "upload");
}

// One rank's memory and stream.
struct End {
  Communicator& communicator;
  std::byte* input;
  std::byte* output;
  cudaStream_t stream;

  // Makes the call and returns whether the output is right.
  bool check(const Call& call, unsigned seed, size_t offset, bool in_place) const {
    prepare(call, seed, offset, in_place);
    enqueue(call, offset, in_place);
    return is_right(call, seed, offset, in_place);
  }
  void prepare(const Call& call, unsigned seed, size_t offset, bool in_place) const {
    check_cuda(cudaMemsetAsync(output, 0xee, kBufferBytes, stream), "clearing");
    upload(input_at(call, offset, in_place), input_of(call, rank(), ranks(), seed), stream);
  }
  void enqueue(const Call& call, size_t offset, bool in_place) const {
    communicator.enqueue(call, input_at(call, offset, in_place), output_at(call, offset, in_place), stream);
  }
  bool is_right(const Call& call, unsigned seed, size_t offset, bool in_place = false) const {
    const Values expected = output_of(call, rank(), ranks(), seed);
    Values got(expected.size());
    const std::byte* const from = output_at(call, offset, in_place);
    check_cuda(cudaMemcpyAsync(got.data(), from, got.size() * 4, cudaMemcpyDeviceToHost, stream), "download");
    check_cuda(cudaStreamSynchronize(stream), "the call");
    if (const auto error = communicator.async_error()) throw *error;
    return got == expected;
  }
  std::byte* input_at(const Call& call, size_t offset, bool in_place) const {
    if (!in_place) return input + offset;
    return output + offset + (gathers(call.collective) ? own_block(call, rank()) : 0);
  }
  std::byte* output_at(const Call& call, size_t offset, bool in_place) const {
    return output + offset + (in_place && scatters(call.collective) ? own_block(call, rank()) : 0);
  }
  int rank() const { return communicator.rank(); }
  int ranks() const { return communicator.size(); }
};

constexpr Collective kPulled[] = {Collective::kAllGather, Collective::kAllReduce, Collective::kAllToAll,
                                  Collective::kBroadcast, Collective::kGather,    Collective::kReduceScatter,
                                  Collective::kScatter};

std::byte* allocate() { return test::allocate(kBufferBytes); }

// Every collective at many offsets, also in place.
void call_everything(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(), allocate(), stream};
  unsigned seed = 0;
  uint64_t zero_copy = 0;
  for (const Collective collective : kPulled) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{300'001}}) {
      for (const int root : {0, communicator.size() - 1}) {
        for (const size_t offset : {size_t{0}, size_t{4}, size_t{36}, size_t{512 * 1024 + 4}}) {
          for (const bool in_place : {false, true}) {
            if (collective == Collective::kAllToAll && in_place) continue;  // see below
            const Call call = call_of(collective, has_root(collective) ? root : 0, count);
            if (!end.check(call, ++seed, offset, in_place)) fail(ErrorCode::kInternal, "wrong: ", to_text(call));
            if (count > 0) ++zero_copy;  // empty calls launch nothing
          }
        }
      }
    }
  }
  expect_zero_copy(communicator, zero_copy);
  if (communicator.size() == 1) return;
  // In place, copies would overwrite what others have yet to read.
  const Call call = call_of(Collective::kAllToAll, 0, 1000);
  if (!end.check(call, 1, 0, true)) fail(ErrorCode::kInternal, "wrong: in place ", to_text(call));
  expect_zero_copy(communicator, zero_copy);
}

// Reductions of every type and operation.
void reduce_everything(Communicator& communicator, cudaStream_t stream) {
  std::byte *const input = allocate(), *const output = allocate();
  const int rank = communicator.rank(), ranks = communicator.size();
  uint64_t calls = 0;
  for (int type = 0; type < kDataTypeCount; ++type) {
    for (const ReduceOp op : reductions_of(static_cast<DataType>(type))) {
      for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter}) {
        for (const size_t offset : {size_t{0}, size_t{1}}) {
          const Call call{collective, static_cast<DataType>(type), op, 0, 50'003};
          const size_t from = offset * size_of(call.type);
          std::vector<std::byte> given(input_elements(call, ranks, rank) * size_of(call.type));
          std::vector<std::byte> got(output_elements(call, ranks, rank) * size_of(call.type));
          fill_input(call, ranks, rank, static_cast<int>(++calls), given.data());
          check_cuda(cudaMemcpyAsync(input + from, given.data(), given.size(), cudaMemcpyHostToDevice, stream),
                     "upload");
          communicator.enqueue(call, input + from, output, stream);
          check_cuda(cudaMemcpyAsync(got.data(), output, got.size(), cudaMemcpyDeviceToHost, stream), "download");
          check_cuda(cudaStreamSynchronize(stream), "the call");
          if (const auto error = communicator.async_error()) throw *error;
          const uint64_t wrong = count_wrong(call, ranks, rank, static_cast<int>(calls), got.data());
          if (wrong > 0) fail(ErrorCode::kInternal, wrong, " wrong elements: ", to_text(call), ", offset ", from);
        }
      }
    }
  }
  expect_zero_copy(communicator, calls);
}

Graph captured(const End& end, const Call& call, size_t offset, int times = 1) {
  return Graph(end.stream, [&] {
    for (int i = 0; i < times; ++i) end.enqueue(call, offset, false);
  });
}

// Calls are captured once, and replayed with eager calls in between.
void replay(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(), allocate(), stream};
  for (const Collective collective : kPulled) {
    const Call call = call_of(collective, 0, 200'000);
    const Graph replayed = captured(end, call, 0, 2);
    for (unsigned seed = 1; seed < 8; ++seed) {
      end.prepare(call, seed, 0, false);
      replayed.launch();
      if (!end.is_right(call, seed, 0)) fail(ErrorCode::kInternal, "wrong: replayed ", to_text(call));
      if (!end.check(call, seed + 100, 4, false))
        fail(ErrorCode::kInternal, "wrong: ", to_text(call), " after a replay");
    }
  }
  expect_zero_copy(communicator, std::size(kPulled) * (2 + 7));
}

// Some ranks capture a call that others make at once.
void differ_in_capture(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(), allocate(), stream};
  const Call call = call_of(Collective::kAllGather, 0, 5000);
  std::vector<Graph> graphs;  // must live until their work is done
  end.prepare(call, 1, 0, false);
  if (communicator.rank() == 0) {
    graphs.push_back(captured(end, call, 0));
    graphs.back().launch();
  } else {
    end.enqueue(call, 0, false);
  }
  if (!end.is_right(call, 1, 0)) fail(ErrorCode::kInternal, "wrong where one captures");
  if (!end.check(call, 2, 0, false)) fail(ErrorCode::kInternal, "wrong after one captured");
  // Calls that all ranks capture from then on do not match what one of them had captured before.
  for (unsigned seed = 3; seed < 6; ++seed) {
    end.prepare(call, seed, 0, false);
    graphs.push_back(captured(end, call, 0));
    graphs.back().launch();
    if (!end.is_right(call, seed, 0)) fail(ErrorCode::kInternal, "wrong where all capture after one did");
  }
  expect_zero_copy(communicator, 0);
}

// A rank that comes late: the call is performed all the same.
void come_late(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(), allocate(), stream};
  for (unsigned round = 0; round < 3; ++round) {
    if (communicator.rank() == 1 && round == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    if (!end.check(call_of(Collective::kAllGather, 0, 5000), round, 0, false)) fail(ErrorCode::kInternal, "wrong");
  }
  expect_zero_copy(communicator, 1);
}

// One rank has memory without a handle.
void use_a_pool(Communicator& communicator, cudaStream_t stream) {
  void* memory = nullptr;
  if (communicator.rank() == 1) check_cuda(cudaMallocAsync(&memory, kBufferBytes, stream), "memory of a pool");
  const End end{communicator, memory == nullptr ? allocate() : static_cast<std::byte*>(memory), allocate(), stream};
  for (unsigned round = 0; round < 3; ++round) {
    if (!end.check(call_of(Collective::kAllGather, 0, 5000), round, 0, false)) fail(ErrorCode::kInternal, "wrong");
  }
  expect_zero_copy(communicator, 0);
}

// Waits until all ranks have come here, the given number of times in all.
struct Rendezvous {
  std::atomic<int> arrived{0};
  void wait(int ranks, int times) {
    ++arrived;
    while (arrived < ranks * times) usleep(1000);
  }
};

// Buffers come and go, and all ranks unmap freed ones.
void come_and_go(Communicator& communicator, cudaStream_t stream, Rendezvous& rendezvous) {
  size_t free_before = 0;
  for (int cycle = 0; cycle < 4; ++cycle) {
    const End end{communicator, allocate(), allocate(), stream};
    for (const Collective collective : kPulled) {
      const Call call = call_of(collective, cycle % communicator.size(), 500'000);
      if (!end.check(call, static_cast<unsigned>(cycle), 0, false))
        fail(ErrorCode::kInternal, "wrong: ", to_text(call));
    }
    expect_zero_copy(communicator, static_cast<uint64_t>(cycle + 1) * std::size(kPulled));
    if (communicator.mapped_buffers() == 0) fail(ErrorCode::kInternal, "nothing is mapped");
    rendezvous.wait(communicator.size(), 3 * cycle + 1);  // all have seen that
    check_cuda(cudaFree(end.input), "freeing");
    check_cuda(cudaFree(end.output), "freeing");
    for (int tries = 0; tries < 500 && communicator.mapped_buffers() > 0; ++tries) usleep(10'000);
    if (communicator.mapped_buffers() > 0) fail(ErrorCode::kInternal, "freed memory is still mapped");
    rendezvous.wait(communicator.size(), 3 * cycle + 2);
    usleep(50'000);  // others unmap it
    if (cycle == 0) free_before = free_bytes();
    if (free_bytes() + (8 << 20) < free_before) {
      fail(ErrorCode::kInternal, "cycle ", cycle, ": ", (free_before - free_bytes()) >> 20, " MiB are gone");
    }
    rendezvous.wait(communicator.size(), 3 * cycle + 3);
  }
}

// Buffers are freed and allocated again at once, so that most lie where earlier ones lay that others may still have
// mapped.
void follow_each_other(Communicator& communicator, cudaStream_t stream) {
  constexpr unsigned kCycles = 30;
  for (unsigned cycle = 0; cycle < kCycles; ++cycle) {
    const End end{communicator, allocate(), allocate(), stream};
    const Call call = call_of(Collective::kAllGather, 0, 10'000);
    if (!end.check(call, cycle, 0, false)) fail(ErrorCode::kInternal, "wrong in cycle ", cycle);
    check_cuda(cudaFree(end.input), "freeing");
    check_cuda(cudaFree(end.output), "freeing");
  }
  // Not all calls are zero-copy: while earlier buffers are still mapped, calls go the usual way.
  if (communicator.zero_copy_calls() == 0) fail(ErrorCode::kInternal, "no zero-copy call");
}

// Takes almost all of the GPU's memory, or gives it back, on one rank of each GPU.
class Hoard {
 public:
  explicit Hoard(bool takes_part) : takes_part_(takes_part) {}
  void take() {
    size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
    if (takes_part_) check_cuda(cudaMalloc(&memory_, free - total / 64), "nearly all memory");
  }
  void give_back() {
    if (takes_part_) check_cuda(cudaFree(memory_), "freeing");
  }

 private:
  const bool takes_part_;
  void* memory_ = nullptr;
};

// If a GPU is short of memory, other ranks keep none of it mapped, except for graphs. Calls are right meanwhile.
void run_short_of_memory(Communicator& communicator, cudaStream_t stream, Rendezvous& rendezvous, int gpus) {
  const int ranks = communicator.size();
  int times = 0;
  const auto meet = [&] { rendezvous.wait(ranks, ++times); };
  const Call call = call_of(Collective::kAllGather, 0, 100'000);
  const End in_graph{communicator, allocate(), allocate(), stream}, end{communicator, allocate(), allocate(), stream};
  const Graph graph = captured(in_graph, call, 0);
  const size_t kept = communicator.mapped_buffers();
  if (!end.check(call, 1, 0, false)) fail(ErrorCode::kInternal, "wrong at first");
  expect_zero_copy(communicator, 2);
  if (communicator.mapped_buffers() == kept) fail(ErrorCode::kInternal, "nothing is mapped");
  meet();
  Hoard hoard(communicator.rank() < gpus);
  hoard.take();
  for (int tries = 0; tries < 500 && communicator.mapped_buffers() > kept; ++tries) usleep(10'000);
  if (communicator.mapped_buffers() != kept) fail(ErrorCode::kInternal, communicator.mapped_buffers(), " are mapped");
  meet();
  if (!end.check(call, 2, 0, false)) fail(ErrorCode::kInternal, "wrong where memory is short");
  expect_zero_copy(communicator, 2);
  in_graph.prepare(call, 3, 0, false);
  graph.launch();
  if (!in_graph.is_right(call, 3, 0)) fail(ErrorCode::kInternal, "wrong in a graph");
  meet();
  hoard.give_back();
  usleep(200'000);  // time for ranks to notice
  meet();
  if (!end.check(call, 4, 0, false)) fail(ErrorCode::kInternal, "wrong afterwards");
  expect_zero_copy(communicator, 3);
  for (unsigned round = 0; round < 20; ++round) {  // memory changes while calls are under way
    end.prepare(call, round, 0, false);
    for (int i = 0; i < 5; ++i) end.enqueue(call, 0, false);
    round % 2 == 0 ? hoard.take() : hoard.give_back();
    if (!end.is_right(call, round, 0)) fail(ErrorCode::kInternal, "wrong in round ", round);
  }
}

// Ranks unmap what others have freed, and launches wait until the GPU is idle for that. It must not happen while a call
// is under way that waits for a rank that waits for a launch.
void free_while_others_wait(Communicator& first, cudaStream_t stream, const UniqueId& other_id,
                            Rendezvous& rendezvous) {
  Communicator second = Communicator::create(other_id, first.rank(), first.size(), insisting(), first.device());
  cudaStream_t other;
  check_cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "a stream");
  const End end{first, allocate(), allocate(), stream};
  if (!end.check(call_of(Collective::kAllGather, 0, 500'000), 1, 0, false)) fail(ErrorCode::kInternal, "wrong");
  expect_zero_copy(first, 1);
  const auto wait_for = [](Communicator& communicator, cudaStream_t its_stream) {
    check_cuda(cudaStreamSynchronize(its_stream), "the call");
    if (const auto error = communicator.async_error()) throw *error;
  };
  const Call barrier;
  if (first.rank() == 0) {
    rendezvous.wait(first.size(), 1);
    check_cuda(cudaFree(end.input), "freeing");
    check_cuda(cudaFree(end.output), "freeing");
    second.enqueue(barrier, nullptr, nullptr, other);
    wait_for(second, other);
    first.enqueue(barrier, nullptr, nullptr, stream);
  } else {
    first.enqueue(barrier, nullptr, nullptr, stream);
    rendezvous.wait(first.size(), 1);
    usleep(300'000);  // meanwhile this rank learns what has been freed
    second.enqueue(barrier, nullptr, nullptr, other);
    wait_for(second, other);
  }
  wait_for(first, stream);
  for (int tries = 0; tries < 500 && first.mapped_buffers() >= first.size() - 1u; ++tries) usleep(10'000);
  if (first.mapped_buffers() >= first.size() - 1u) fail(ErrorCode::kInternal, "freed memory is still mapped");
}

// Ranks launch graphs of different calls, with different addresses of each other's buffers. The kernels notice it.
void mix_up_graphs(Communicator& communicator, cudaStream_t stream, Collective collective) {
  const End end{communicator, allocate(), allocate(), stream};
  const Call call = call_of(collective, 0, 5000);
  const Graph graphs[] = {captured(end, call, 0), captured(end, call, 1 << 20)};
  expect_zero_copy(communicator, 2);
  graphs[communicator.rank() == 0 ? 0 : 1].launch();
  check_cuda(cudaStreamSynchronize(stream), "the call");
  expect_error(communicator, ErrorCode::kMismatch, "makes another call");
}

// A rank that is done ends its communicator and frees its memory. The others stay, and unmap it.
void end_early(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(), allocate(), stream};
  if (!end.check(call_of(Collective::kAllGather, 0, 500'000), 1, 0, false)) fail(ErrorCode::kInternal, "wrong");
  expect_zero_copy(communicator, 1);
  if (communicator.rank() == 0) {
    const Communicator ended = std::move(communicator);
  } else {
    for (int tries = 0; tries < 500 && communicator.mapped_buffers() >= communicator.size() - 1u; ++tries)
      usleep(10'000);
    if (communicator.mapped_buffers() >= communicator.size() - 1u)
      fail(ErrorCode::kInternal, "memory of who left is mapped");
  }
}

// Two communicators at once, on two streams: only one of them can use copy engines, and both are right.
void use_two(Communicator& first, cudaStream_t stream, const UniqueId& other_id) {
  Communicator second = Communicator::create(other_id, first.rank(), first.size(), insisting(), first.device());
  cudaStream_t other;
  check_cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "a stream");
  const End a{first, allocate(), allocate(), stream}, b{second, allocate(), allocate(), other};
  const Call call = call_of(Collective::kAllGather, 0, 1'000'000);
  for (unsigned round = 0; round < 20; ++round) {
    a.prepare(call, round, 0, false);
    b.prepare(call, round + 50, 0, false);
    for (int times = 0; times < 3; ++times) {
      a.enqueue(call, 0, false);
      b.enqueue(call, 0, false);
    }
    if (!a.is_right(call, round, 0) || !b.is_right(call, round + 50, 0)) fail(ErrorCode::kInternal, "wrong with two");
  }
  if (first.zero_copy_calls() < 20) fail(ErrorCode::kInternal, first.zero_copy_calls(), " zero-copy calls");
}

// Some ranks multiply their input first, and the others do not know it. All ranks then perform the call by kernels, and
// later calls still match.
void mix_factors(Communicator& communicator, cudaStream_t stream) {
  const End end{communicator, allocate(), allocate(), stream};
  const Call call = call_of(Collective::kAllReduce, 0, 5000);
  const auto ranks = static_cast<uint32_t>(communicator.size());
  Scalar three;
  three.type = call.type;
  three.value[0] = std::byte{3};
  for (unsigned round = 0; round < 40; ++round) {
    const bool any = round % 4 < 2;
    const bool multiplies = any && (static_cast<unsigned>(communicator.rank()) + round) % 2 == 0;
    upload(end.input, Values(call.count, 1), stream);
    communicator.enqueue(call, end.input, end.output, stream, multiplies ? &three : nullptr);
    uint32_t expected = ranks;
    for (uint32_t rank = 0; any && rank < ranks; ++rank) expected += (rank + round) % 2 == 0 ? 2 : 0;
    if (round % 3 > 0) continue;  // several calls at once
    Values got(call.count);
    check_cuda(cudaMemcpyAsync(got.data(), end.output, got.size() * 4, cudaMemcpyDeviceToHost, stream), "download");
    check_cuda(cudaStreamSynchronize(stream), "the call");
    if (const auto error = communicator.async_error()) throw *error;
    if (got != Values(call.count, expected)) fail(ErrorCode::kInternal, "wrong in round ", round);
  }
  if (communicator.zero_copy_calls() == 0) fail(ErrorCode::kInternal, "no zero-copy call");
}

// ---- Ranks of one process

class OneProcess {
 public:
  explicit OneProcess(int ranks)
      : world_(ranks, insisting()),
        // Only one of the ranks that share a GPU gets the copy-engine lock.
        is_expected_(engine == std::string("sm") || ranks <= gpus()) {}

  // One thread takes every step for all ranks before the next one.
  void in_steps() {
    for (const Collective collective : kPulled) {
      for (const bool in_place : {false, true}) {
        if (collective == Collective::kAllToAll && in_place) continue;
        const Call call = call_of(collective, has_root(collective) ? world_.size() - 1 : 0, 20'001);
        prepare(call, 7, in_place);
        enqueue_in_steps(call, in_place);
        expect_right(call, 7, in_place, to_text(call));
        // (Reduce_scatter has no copies.)
        expect_zero_copy("in steps", is_expected_ || collective == Collective::kReduceScatter);
      }
    }
  }
  void replayed() {
    const Call call = call_of(Collective::kAllGather, 0, 30'000);
    Graphs graphs(world_, [&] { enqueue_in_steps(call, false); });
    for (unsigned seed = 1; seed < 4; ++seed) {
      prepare(call, seed, false);
      graphs.launch();
      expect_right(call, seed, false, "replayed");
    }
    expect_zero_copy("captured", engine == std::string("sm"));  // see ZeroCopyConditions::try_lock() for copy engines
  }
  void by_threads() {
    const Call call = call_of(Collective::kAllToAll, 0, 10'007);
    prepare(call, 5, false);
    std::vector<std::thread> threads;
    for (int r = 0; r < world_.size(); ++r) threads.emplace_back([this, r, &call] { end(r).enqueue(call, 0, false); });
    for (std::thread& thread : threads) thread.join();
    expect_right(call, 5, false, "by threads");
    expect_zero_copy("by threads", is_expected_);
  }
  // Ranks do not come to the call at the same time.
  void one_after_the_other() {
    const Call call = call_of(Collective::kAllGather, 0, 5000);
    prepare(call, 3, false);
    for (int r = 0; r < world_.size(); ++r) end(r).enqueue(call, 0, false);
    expect_right(call, 3, false, "one after the other");
    expect_zero_copy("one after the other", 0);
  }
  // There, copies between GPUs of one process would wait for each other.
  void on_the_default_stream() {
    const Call call = call_of(Collective::kBroadcast, 0, 70'000);
    prepare(call, 9, false);
    world_.in_steps(
        [&](int r) { return world_.rank(r).start_enqueue(call, world_.input(r), world_.output(r), nullptr); });
    for (int r = 0; r < world_.size(); ++r) {
      const DeviceGuard guard(world_.device(r));
      check_cuda(cudaStreamSynchronize(nullptr), "the default stream");
    }
    expect_right(call, 9, false, "on the default stream");
    expect_zero_copy("on the default stream", engine == std::string("sm"));
  }

 private:
  End end(int r) { return {world_.rank(r), world_.input(r), world_.output(r), world_.stream(r)}; }
  void prepare(const Call& call, unsigned seed, bool in_place) {
    for (int r = 0; r < world_.size(); ++r) {
      const DeviceGuard guard(world_.device(r));
      end(r).prepare(call, seed, 0, in_place);
    }
    world_.synchronize();
  }
  void enqueue_in_steps(const Call& call, bool in_place) {
    world_.in_steps([&](int r) {
      const End it = end(r);
      return it.communicator.start_enqueue(call, it.input_at(call, 0, in_place), it.output_at(call, 0, in_place),
                                           it.stream);
    });
  }
  void expect_right(const Call& call, unsigned seed, bool in_place, const std::string& what) {
    for (int r = 0; r < world_.size(); ++r) {
      const DeviceGuard guard(world_.device(r));
      EXPECT_TRUE(end(r).is_right(call, seed, 0, in_place)) << "ranks of one process, " << what << ", by " << engine;
    }
  }
  // Checks how many calls were zero-copy since the last check.
  void expect_zero_copy(const char* what, uint64_t calls) {
    for (int r = 0; r < world_.size(); ++r) {
      const uint64_t before = std::exchange(before_[static_cast<size_t>(r)], world_.rank(r).zero_copy_calls());
      const uint64_t found = world_.rank(r).zero_copy_calls() - before;
      EXPECT_EQ(found, calls) << "zero-copy within one process, " << what << ", by " << engine << ", rank " << r
                              << " of " << world_.size() << ": " << found << " and not " << calls;
    }
  }

  World world_;
  const bool is_expected_;
  std::vector<uint64_t> before_ = std::vector<uint64_t>(static_cast<size_t>(world_.size()), 0);
};

void test_one_process() {
  for (const char* const each : {"sm", "copy"}) {
    engine = each;
    for (const int ranks : {2, 3, 4}) {
      OneProcess process(ranks);
      process.in_steps();
      process.by_threads();
      process.replayed();
      if (ranks <= gpus()) process.on_the_default_stream();  // each GPU has only one
      process.one_after_the_other();                         // last, since no agreement is attempted for the next calls
    }
  }
}

using Work = std::function<void(Communicator&, cudaStream_t)>;

// Makes the work anew for each engine and number of ranks, since ids and rendezvous serve once.
void by_each_engine(const char* what, const std::vector<int>& counts, const std::function<Work(int ranks)>& make_work) {
  for (const char* const each : {"sm", "copy"}) {
    engine = each;
    for (const int ranks : counts) {
      on_processes(join(what, ", by ", engine, ' ', launch), ranks, insisting(), make_work(ranks));
    }
  }
}

void by_each_engine(const char* what, const std::vector<int>& counts, void (*work)(Communicator&, cudaStream_t)) {
  by_each_engine(what, counts, [work](int) -> Work { return work; });
}

TEST(ZeroCopy, Everything) { by_each_engine("everything", {1, 2, 3, 4}, call_everything); }
TEST(ZeroCopy, Reduces) { by_each_engine("reduces", {2, 3, 4}, reduce_everything); }
TEST(ZeroCopy, BuffersThatComeAndGo) {
  by_each_engine("buffers that come and go", {2, 3}, [](int) -> Work {
    return
        [all = std::make_shared<Shared<Rendezvous>>()](Communicator& c, cudaStream_t s) { come_and_go(c, s, **all); };
  });
}
TEST(ZeroCopy, BuffersThatFollowEachOther) {
  by_each_engine("buffers that follow each other", {2, 3}, follow_each_other);
}
TEST(ZeroCopy, LittleMemory) {
  by_each_engine("little memory", {2, 3}, [](int) -> Work {
    return [all = std::make_shared<Shared<Rendezvous>>()](Communicator& c, cudaStream_t s) {
      run_short_of_memory(c, s, **all, gpus());
    };
  });
}
TEST(ZeroCopy, MemoryThatIsFreedWhileOthersWait) {
  by_each_engine("memory that is freed while others wait", {2, 3}, [](int) -> Work {
    return [id = new_id(), all = std::make_shared<Shared<Rendezvous>>()](Communicator& c, cudaStream_t s) {
      free_while_others_wait(c, s, id, **all);
    };
  });
}
TEST(ZeroCopy, Graphs) { by_each_engine("graphs", {2, 3}, replay); }
TEST(ZeroCopy, OneCaptures) { by_each_engine("one captures", {2, 3}, differ_in_capture); }
TEST(ZeroCopy, MixedUpGraphs) {
  for (const Collective collective : {Collective::kAllGather, Collective::kAllReduce}) {
    by_each_engine("mixed up graphs", {2, 3}, [collective](int) -> Work {
      return [collective](Communicator& c, cudaStream_t s) { mix_up_graphs(c, s, collective); };
    });
  }
}
TEST(ZeroCopy, SomeMultiply) { by_each_engine("some multiply", {2, 3}, mix_factors); }
TEST(ZeroCopy, ARankThatLeaves) { by_each_engine("a rank that leaves", {2, 3}, end_early); }
TEST(ZeroCopy, ALatecomer) { by_each_engine("a latecomer", {2, 3}, come_late); }
TEST(ZeroCopy, MemoryOfAPool) { by_each_engine("memory of a pool", {2, 3}, use_a_pool); }
TEST(ZeroCopy, TwoCommunicators) {
  by_each_engine("two communicators", {2, 3},
                 [](int) -> Work { return [id = new_id()](Communicator& c, cudaStream_t s) { use_two(c, s, id); }; });
}
TEST(ZeroCopy, BesideTheHostPath) {
  launch = "Simple:8x256+2:30%";  // the rest takes the host path
  by_each_engine("everything", {2, 3}, call_everything);
  by_each_engine("graphs", {2}, replay);
  launch = "";
}
TEST(ZeroCopy, OneProcess) { test_one_process(); }  // the last, since it uses CUDA in this process

}  // namespace
}  // namespace plait::test

// Staged calls move every element to where it belongs, whatever the GPU and the CPU are slow with, and let streams go
// on when something fails.
#include "runtime/host/staging_pipeline.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <stdexcept>
#include <vector>

#include "runtime/host/proxy.hpp"
#include "runtime/host/scale.hpp"
#include "support/fake_staging.hpp"
#include "support/seed.hpp"

namespace plait {
namespace {

using test::FakeStaging;
using test::FakeStream;

// The byte at an index of a rank's buffer, in call `number`.
std::byte byte_at(uint64_t number, size_t index, bool output) {
  return static_cast<std::byte>((number * 131 + index * 7 + index / 251 + (output ? 89 : 0)) & 0xff);
}

// A call, its buffers, and what the CPU must see and give.
struct Case {
  Case(const Call& its_call, int ranks, int rank, uint64_t its_number, size_t chunk_bytes)
      : number(its_number),
        call{its_call, CallChunks(its_call, ranks, rank, chunk_bytes)},
        input(input_elements(its_call, ranks, rank) * size_of(its_call.type)),
        output(output_elements(its_call, ranks, rank) * size_of(its_call.type)) {
    call.input = input.data();
    call.output = output.data();
  }

  void fill() {
    for (size_t i = 0; i < input.size(); ++i) input[i] = byte_at(number, i, false);
  }
  // Does the work of all ranks on one chunk.
  void perform(size_t i, const void* in, void* out) const {
    check(i, static_cast<const std::byte*>(in));
    const StagedRows rows = call.chunks.output(i);
    for (size_t row = 0; row < rows.count; ++row) {
      for (size_t b = 0; b < rows.bytes; ++b) {
        static_cast<std::byte*>(out)[row * rows.bytes + b] =
            byte_at(number, call.chunks.offset(i) + row * rows.stride + b, true);
      }
    }
  }
  void check(size_t i, const std::byte* in) const {
    const StagedRows rows = call.chunks.input(i);
    for (size_t row = 0; row < rows.count; ++row) {
      for (size_t b = 0; b < rows.bytes; ++b) {
        if (in[row * rows.bytes + b] != byte_at(number, call.chunks.offset(i) + row * rows.stride + b, false)) {
          throw std::runtime_error("an input is wrong");
        }
      }
    }
  }
  size_t wrong() const {
    size_t count = 0;
    for (size_t i = 0; i < output.size(); ++i) count += output[i] != byte_at(number, i, true);
    return count;
  }

  const uint64_t number;
  StagedCall call;
  std::vector<std::byte> input, output;
};

// A rank with a proxy for each lane.
class Rank {
 public:
  explicit Rank(size_t chunk_bytes, size_t lanes = 1)
      : device(StagingPipeline::bytes_for(lanes, chunk_bytes)), pipeline_(device, lanes, chunk_bytes, 0, {}) {
    for (size_t lane = 0; lane < lanes; ++lane) {
      proxies_.push_back(std::make_unique<Proxy>([this](std::exception_ptr error) {
        const std::scoped_lock lock(mutex_);
        if (!error_) error_ = std::move(error);
        end();
      }));
    }
  }

  void call(Case& it, FakeStream& stream, const StagingPipeline::Perform& perform) {
    device.begin(&stream);
    pipeline_.number(it.call);
    const auto look = [this] {
      if (is_aborted) throw std::runtime_error("aborted");
    };
    for (size_t lane = 0; lane < proxies_.size(); ++lane) {
      proxies_[lane]->add([=, this, &it] { pipeline_.perform(it.call, lane, perform, look); });
    }
    try {
      pipeline_.enqueue(it.call);
      device.end(&stream);
    } catch (...) {
      end();
      device.end(&stream);  // as StagedBackend, so that the buffers may be freed once the stream is done
      throw;
    }
  }
  void call(Case& it, FakeStream& stream) {
    call(it, stream, [&it](size_t i, const void* in, void* out) { it.perform(i, in, out); });
  }
  void drain() {
    for (const auto& proxy : proxies_) proxy->drain();
  }
  std::string error() {
    drain();
    try {
      if (error_) std::rethrow_exception(error_);
    } catch (const std::exception& it) {
      return it.what();
    }
    return "";
  }

  FakeStaging device;
  std::atomic<bool> is_aborted = false;

 private:
  void end() {
    is_aborted = true;
    pipeline_.give_up();
  }

  StagingPipeline pipeline_;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::vector<std::unique_ptr<Proxy>> proxies_;
};

Call random_call(test::Random& random, int ranks) {
  Call call;
  call.collective = static_cast<Collective>(random() % kCollectiveCount);
  if (call.collective == Collective::kBarrier) return call;
  call.type = static_cast<DataType>(random() % kDataTypeCount);
  call.count = random() % 4 == 0 ? random() % 5 : random() % 30'000;
  if (has_root(call.collective)) call.root = static_cast<int>(random() % ranks);
  return call;
}

TEST(StagingPipeline, MovesEveryElementOfManyCallsOnTwoStreams) {
  test::Random random(test::run_seed());
  for (int round = 0; round < 12; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 4), rank = static_cast<int>(random() % ranks);
    const size_t chunk_bytes = 1024 + random() % 20'000;
    std::deque<Case> cases;
    Rank own(chunk_bytes, 1 + random() % 4);
    FakeStream streams[2];
    for (uint64_t number = 0; number < 30; ++number) {
      Case& it = cases.emplace_back(random_call(random, ranks), ranks, rank, number, chunk_bytes);
      FakeStream& stream = streams[random() % 2];
      const bool slow = random() % 5 == 0;
      stream.add([&it, slow] {
        if (slow) ::usleep(300);
        it.fill();
      });
      own.call(it, stream);
      if (random() % 4 == 0) stream.finish();
    }
    for (FakeStream& stream : streams) stream.finish();
    EXPECT_EQ(own.error(), "");
    for (const Case& it : cases) EXPECT_EQ(it.wrong(), 0u) << to_text(it.call.call) << ", rank " << rank;
    if (HasFailure()) return;
  }
}

// The GPU copies ahead, up to the slots that there are.
TEST(StagingPipeline, CopiesTheNextChunksInWhileOneIsPerformed) {
  const size_t chunk_bytes = 1024, chunks = 8;
  Case it({Collective::kAllReduce, DataType::kUint8, ReduceOp::kSum, 0, chunks * chunk_bytes}, 2, 0, 1, chunk_bytes);
  it.fill();
  Rank own(chunk_bytes);
  FakeStream stream;
  own.call(it, stream, [&](size_t i, const void* in, void* out) {
    const size_t ahead = std::min(chunks, i + StagingPipeline::slots_for(1));
    while (own.device.counters().in.chunk < ahead) ::usleep(20);
    EXPECT_EQ(own.device.counters().in.chunk, ahead);  // the slot after that is in use
    it.perform(i, in, out);
  });
  stream.finish();
  EXPECT_EQ(own.error(), "");
  EXPECT_EQ(it.wrong(), 0u);
}

// Each lane waits in its chunk until the other one is in the next.
TEST(StagingPipeline, LanesPerformChunksAtTheSameTime) {
  const size_t chunk_bytes = 1024;
  Case it({Collective::kAllReduce, DataType::kUint8, ReduceOp::kSum, 0, 2 * chunk_bytes}, 2, 0, 1, chunk_bytes);
  it.fill();
  Rank own(chunk_bytes, 2);
  FakeStream stream;
  std::atomic<int> under_way = 0;
  own.call(it, stream, [&](size_t i, const void* in, void* out) {
    ++under_way;
    while (under_way < 2) ::usleep(20);
    it.perform(i, in, out);
  });
  stream.finish();
  EXPECT_EQ(own.error(), "");
  EXPECT_EQ(it.wrong(), 0u);
}

TEST(StagingPipeline, MultipliesByScalarsOfTheHostAndOfTheDevice) {
  const size_t count = 5000, chunk_bytes = 4096;
  for (const bool on_device : {false, true}) {
    const float factor = 3;
    std::vector<float> input(count), output(count);
    StagedCall call{
        {Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, count},
        CallChunks({Collective::kAllReduce, DataType::kFloat32, ReduceOp::kSum, 0, count}, 2, 0, chunk_bytes),
        input.data(),
        output.data()};
    call.scalar = make_scalar(DataType::kFloat32, 3.0);
    if (on_device) *call.scalar = {DataType::kFloat32, {}, &factor};
    for (size_t i = 0; i < count; ++i) input[i] = static_cast<float>(i);
    FakeStaging device(StagingPipeline::bytes_for(1, chunk_bytes));
    StagingPipeline pipeline(device, 1, chunk_bytes, 0, {});
    FakeStream stream;
    device.begin(&stream);
    pipeline.number(call);
    pipeline.enqueue(call);
    device.end(&stream);
    pipeline.perform(
        call, 0, [&](size_t i, const void* in, void* out) { std::memcpy(out, in, call.chunks.input(i).total_bytes()); },
        [] {});
    stream.finish();
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(output[i], 3 * input[i]) << i << (on_device ? ", on device" : "");
  }
}

TEST(StagingPipeline, RefusesCapturedStreams) {
  Rank own(1024);
  FakeStream stream;
  stream.is_captured = true;
  Case it({Collective::kAllReduce, DataType::kUint8, ReduceOp::kSum, 0, 10}, 2, 0, 1, 1024);
  EXPECT_THROW(own.call(it, stream), Error);
  stream.is_captured = false;
  it.fill();
  own.call(it, stream);
  stream.finish();
  EXPECT_EQ(it.wrong(), 0u);
}

// ---- Faults. That finish() returns is what they are about: no stream waits for ever.

constexpr size_t kChunk = 1024, kChunks = 8;

Case long_case(uint64_t number) {
  return Case({Collective::kAllReduce, DataType::kUint8, ReduceOp::kSum, 0, kChunks * kChunk}, 2, 0, number, kChunk);
}

TEST(StagingPipeline, AFailureInAnyChunkLetsStreamsGoOn) {
  for (size_t failing = 0; failing < kChunks; ++failing) {
    Rank own(kChunk, 1 + failing % 3);
    Case first = long_case(1), second = long_case(2);
    first.fill();
    second.fill();
    FakeStream stream;
    own.call(first, stream, [&](size_t i, const void* in, void* out) {
      if (i == failing) throw std::runtime_error("rank 1 has died");
      first.perform(i, in, out);
    });
    own.call(second, stream);  // dropped
    stream.finish();
    EXPECT_EQ(own.error(), "rank 1 has died");
  }
}

TEST(StagingPipeline, AnAbortWhileTheGpuIsBusyLetsTheStreamGoOnWhenItComes) {
  Rank own(kChunk);
  Case it = long_case(1);
  FakeStream stream;
  std::atomic<bool> is_over = false;
  stream.add([&] { is_over.wait(false); });
  own.call(it, stream);
  own.is_aborted = true;
  EXPECT_EQ(own.error(), "aborted");
  is_over = true;
  is_over.notify_all();
  stream.finish();
}

TEST(StagingPipeline, ACopyThatIsRefusedLetsTheStreamGoOn) {
  for (int refused = 1; refused <= 2 * static_cast<int>(kChunks); ++refused) {
    Rank own(kChunk);
    own.device.refused_copy = refused;
    Case it = long_case(1);
    it.fill();
    FakeStream stream;
    EXPECT_THROW(own.call(it, stream), Error) << refused;
    stream.finish();
    own.drain();
  }
}

TEST(StagingPipeline, AGpuThatFailsIsFoundByItsCheck) {
  for (int broken = 1; broken <= 2 * static_cast<int>(kChunks); broken += 3) {
    Rank own(kChunk);
    own.device.broken_copy = broken;
    Case it = long_case(1);
    it.fill();
    FakeStream stream;
    own.call(it, stream);
    stream.finish();  // a GPU that has failed does nothing, and waits for nothing
    EXPECT_THROW(own.device.check(), Error);
    own.is_aborted = true;  // as who finds that does
    own.drain();
  }
}

}  // namespace
}  // namespace plait

// Communicators begin and end while others have calls under way, or while a thread captures a stream.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "machine.hpp"
#include "runtime/cuda/driver/driver.hpp"
#include "support/rank_processes.hpp"
#include "world.hpp"

namespace plait::test {
namespace {

void finish(const Communicator& communicator, cudaStream_t stream) {
  const RelaxedCapture aside;
  check_cuda(cudaStreamSynchronize(stream), "the call");
  if (const auto error = communicator.async_error()) throw *error;
}

// A communicator of all ranks begins, makes a call and ends.
void live_once(const Communicator& like, const UniqueId& id, const Settings& settings, cudaStream_t stream) {
  Communicator communicator = Communicator::create(id, like.rank(), like.size(), settings, like.device());
  communicator.enqueue(Call{}, nullptr, nullptr, stream);
  finish(communicator, stream);
}

// All ranks except the first one wait for it in a kernel. The first rank begins and ends communicators before it comes.
// Work that is enqueued behind the waiting kernel must not block the GPU either.
void live_while_others_wait(Communicator& communicator, cudaStream_t stream, const std::vector<UniqueId>& ids,
                            const Settings& settings) {
  const OwnStream other;
  std::byte* const memory = allocate(4);
  communicator.enqueue(Call{}, nullptr, nullptr, stream);
  finish(communicator, stream);  // from now on kernels are loaded
  if (communicator.rank() > 0) communicator.enqueue(Call{}, nullptr, nullptr, stream);
  check_cuda(cudaMemsetAsync(memory, 0, 4, stream), "what follows");
  for (const UniqueId& id : ids) live_once(communicator, id, settings, other.get());
  if (communicator.rank() == 0) communicator.enqueue(Call{}, nullptr, nullptr, stream);
  finish(communicator, stream);
}

// How many ranks have come to their calls, and how many to the end; the first one does not count there.
struct Progress {
  std::atomic<int> called{0}, ended{0};
};
void wait_until(const std::atomic<int>& count, int expected) {
  for (int tries = 0; count < expected; ++tries) {
    if (tries == 30'000) fail(ErrorCode::kInternal, "another rank has not come");
    usleep(1000);
  }
}

// All ranks except the first one end a communicator, or abort it in a call that the first one does not come to.
// Meanwhile they wait for the first one in another communicator; it comes when they are done. Soon after, their memory
// is free.
void end_while_others_wait(Communicator& communicator, cudaStream_t stream, const std::vector<UniqueId>& ids,
                           const Settings& settings, bool aborts, Progress& progress) {
  const int others = communicator.size() - 1;
  const OwnStream aside;
  size_t free_at_first = 0;
  int times = 0;
  for (const UniqueId& id : ids) {
    ++times;
    std::optional<Communicator> second =
        Communicator::create(id, communicator.rank(), communicator.size(), settings, communicator.device());
    second->enqueue(Call{}, nullptr, nullptr, aside.get());
    finish(*second, aside.get());
    if (communicator.rank() == 0) {
      ++progress.called;
      wait_until(progress.ended, times * others);
      communicator.enqueue(Call{}, nullptr, nullptr, stream);
      second.reset();
    } else {
      communicator.enqueue(Call{}, nullptr, nullptr, stream);
      if (aborts) second->enqueue(Call{}, nullptr, nullptr, aside.get());
      ++progress.called;
      wait_until(progress.called, times * communicator.size());
      if (aborts) second->abort("the test says so");
      second.reset();
      ++progress.ended;
    }
    finish(communicator, stream);
    if (times == 1) free_at_first = free_bytes();
  }
  for (int tries = 0; tries < 300 && free_bytes() < free_at_first; ++tries) usleep(10'000);
  const size_t free_now = free_bytes();
  if (free_now < free_at_first) fail(ErrorCode::kInternal, (free_at_first - free_now) >> 20, " MiB are gone");
}

// The capture is of a stream that is ordered with the default stream, in the strictest mode. All ranks except the first
// one wait for it meanwhile.
void live_beside_a_capture(Communicator& communicator, cudaStream_t stream, const UniqueId& id,
                           const Settings& settings) {
  const OwnStream aside;
  communicator.enqueue(Call{}, nullptr, nullptr, stream);
  finish(communicator, stream);
  if (communicator.rank() > 0) communicator.enqueue(Call{}, nullptr, nullptr, stream);
  cudaStream_t captured;
  check_cuda(cudaStreamCreate(&captured), "a stream");
  const auto live = [&] {
    std::exception_ptr thrown;
    std::thread other([&] {
      try {
        const DeviceGuard guard(communicator.device());
        live_once(communicator, id, settings, aside.get());
      } catch (...) {
        thrown = std::current_exception();
      }
    });
    other.join();
    usleep(100'000);  // time to free what has ended
    if (thrown) std::rethrow_exception(thrown);
  };
  const Graph graph(captured, live, cudaStreamCaptureModeGlobal);
  if (communicator.rank() == 0) communicator.enqueue(Call{}, nullptr, nullptr, stream);
  finish(communicator, stream);
}

std::vector<UniqueId> new_ids(size_t count) {
  std::vector<UniqueId> ids;
  while (ids.size() < count) ids.push_back(new_id());
  return ids;
}

using Work = std::function<void(Communicator&, cudaStream_t, const Settings&)>;

// Makes the work anew for each kind of peer memory and number of ranks, since ids and counts serve once.
void by_every_kind(const char* what, const std::function<Work()>& make_work) {
  for (const PeerMemoryKind kind : {PeerMemoryKind::kAuto, PeerMemoryKind::kIpc, PeerMemoryKind::kHost}) {
    Settings settings;
    settings.timeout_seconds = 10;
    settings.bootstrap_timeout_seconds = 20;
    settings.peer_memory = kind;
    for (const int ranks : {2, 3}) {
      const Work work = make_work();
      on_processes(join(what, ", peer memory ", plait::name(kind)), ranks, settings,
                   [&](Communicator& communicator, cudaStream_t stream) { work(communicator, stream, settings); });
    }
  }
}

void end_while_others_wait(const char* what, bool aborts) {
  by_every_kind(what, [aborts]() -> Work {
    return [aborts, ids = new_ids(6), progress = std::make_shared<Shared<Progress>>()](Communicator& c, cudaStream_t s,
                                                                                       const Settings& settings) {
      end_while_others_wait(c, s, ids, settings, aborts, **progress);
    };
  });
}

TEST(Lifetime, WhileOthersWait) {
  by_every_kind("while others wait", []() -> Work {
    return [ids = new_ids(3)](Communicator& c, cudaStream_t s, const Settings& settings) {
      live_while_others_wait(c, s, ids, settings);
    };
  });
}
TEST(Lifetime, EndsWhileOthersWait) { end_while_others_wait("ended while others wait", false); }
TEST(Lifetime, AbortsWhileOthersWait) { end_while_others_wait("aborted while others wait", true); }
TEST(Lifetime, BesideACapture) {
  by_every_kind("beside a capture", []() -> Work {
    return [id = new_id()](Communicator& c, cudaStream_t s, const Settings& settings) {
      live_beside_a_capture(c, s, id, settings);
    };
  });
}

}  // namespace
}  // namespace plait::test

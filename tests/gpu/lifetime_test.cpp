// Communicators that begin and end while others have calls under way, or while a thread captures a stream. A program
// without a test framework, since machines with GPUs often have none. Exit status 77: no GPU, nothing was tested.
#include <cuda_runtime.h>

#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "api/communicator.hpp"
#include "base/error.hpp"
#include "machine.hpp"
#include "runtime/cuda/driver.hpp"
#include "support/rank_processes.hpp"
#include "world.hpp"

namespace plait::test {
namespace {

void finish(const Communicator& communicator, cudaStream_t stream) {
  const CaptureAside aside;
  check_cuda(cudaStreamSynchronize(stream), "the call");
  if (const auto error = communicator.async_error()) throw *error;
}

// One of all ranks begins, makes a call and ends.
void live_once(const Communicator& like, const UniqueId& id, const Settings& settings, cudaStream_t stream) {
  Communicator communicator = Communicator::create(id, like.rank(), like.size(), settings, like.device());
  communicator.enqueue(Call{}, nullptr, nullptr, stream);
  finish(communicator, stream);
}

// All ranks but the first one wait in a kernel for that one, which has to go through all of this before it comes.
void live_while_others_wait(Communicator& communicator, cudaStream_t stream, const UniqueId& id,
                            const Settings& settings) {
  const OwnStream other;
  communicator.enqueue(Call{}, nullptr, nullptr, stream);
  finish(communicator, stream);  // from now on kernels are loaded
  if (communicator.rank() > 0) communicator.enqueue(Call{}, nullptr, nullptr, stream);
  live_once(communicator, id, settings, other.get());
  if (communicator.rank() == 0) communicator.enqueue(Call{}, nullptr, nullptr, stream);
  finish(communicator, stream);
}

// Of a stream that is ordered with the default stream, and in the mode that forbids most.
void live_beside_a_capture(const Communicator& communicator, const UniqueId& id, const Settings& settings) {
  const OwnStream aside;
  cudaStream_t stream;
  check_cuda(cudaStreamCreate(&stream), "a stream");
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
    if (thrown) std::rethrow_exception(thrown);
  };
  const Graph graph(stream, live, cudaStreamCaptureModeGlobal);
}

int run_all(int gpus) {
  Report report;
  for (const ReachKind kind : {ReachKind::kAuto, ReachKind::kIpc, ReachKind::kHost}) {
    Settings settings;
    settings.timeout_seconds = 10;
    settings.bootstrap_timeout_seconds = 20;
    settings.reach = kind;
    for (const int ranks : {2, 3}) {
      const UniqueId one = new_id(), other = new_id();
      const auto expect = [&](const char* what, const auto& work) {
        const std::string name = join(what, ", reach ", plait::name(kind));
        report.expect(on_processes(name, gpus, ranks, settings, work), name);
      };
      expect("while others wait",
             [&](Communicator& c, cudaStream_t s) { live_while_others_wait(c, s, one, settings); });
      expect("beside a capture", [&](Communicator& c, cudaStream_t) { live_beside_a_capture(c, other, settings); });
    }
  }
  return report.finish();
}

}  // namespace
}  // namespace plait::test

int main() { return plait::test::run_on_gpus(plait::test::run_all); }

// Plans that no kernel performs, on GPUs of one host: CPUs perform them, staged in host memory (TEM-12). The GPUs are
// none (fake_staging.hpp), and whoever asks for a kernel there is told so.
#include <gtest/gtest.h>

#include "algorithms/algorithm.hpp"
#include "api/plan_limits.hpp"
#include "support/algorithm_plans.hpp"
#include "support/expect_outcomes.hpp"
#include "support/failing_ranks.hpp"
#include "support/fake_staging.hpp"
#include "support/random_calls.hpp"
#include "support/rank_processes.hpp"
#include "support/seed.hpp"

namespace plait::test {
namespace {

using Given = std::shared_ptr<const VerifiedPlan>;

Call sum_of(size_t count) { return {Collective::kAllReduce, DataType::kInt32, ReduceOp::kSum, 0, count}; }

Settings gpu_settings() {
  Settings settings = fault_settings();
  settings.timeout_seconds = 30;
  return settings;
}

// Enqueues a call behind the filling of its input, waits for the stream and checks the result.
void enqueue_and_check(Communicator& communicator, void* stream, const Call& call, int variant, bool in_place) {
  const int ranks = communicator.size(), rank = communicator.rank();
  CallBuffers buffers(call, ranks, rank, {in_place, 0, 8, false});
  if (has_input(call, rank) && call.count > 0) fill_input(call, ranks, rank, variant, buffers.input());
  buffers.remember();
  communicator.enqueue(call, buffers.input(), buffers.output(), stream);
  if (stream != kBlockingStream) static_cast<FakeStream*>(stream)->finish();
  if (const auto error = communicator.async_error()) throw *error;
  buffers.require_untouched_surroundings();
  require(count_wrong(call, ranks, rank, variant, buffers.output(), false) == 0, "wrong: ", to_text(call));
}

using GpuBody = std::function<void(Communicator&, FakeStream&)>;

Outcomes on_gpus(int ranks, const Settings& settings, const GpuBody& body) {
  const UniqueId id = new_id();
  return run_processes(ranks, kLimit, [=](int rank) {
    FakeStream stream;
    Communicator communicator = Communicator::create(id, rank, ranks, settings, 0);
    body(communicator, stream);
    communicator.close();
  });
}

// All that kernels cannot perform: slots in host memory, and messages between nodes that others stand for.
std::vector<Given> plans_beyond_kernels(int ranks) {
  AlgorithmArguments machine;
  machine.ranks = ranks;
  machine.engine = Engine::kSm;
  std::vector<AlgorithmArguments> machines(3, machine);
  for (int rank = 0; rank < ranks; ++rank) machines[1].node_of.push_back(rank * 2 / ranks);
  machines[2].groups = {{}, {}};
  for (int rank = 0; rank < ranks; ++rank) machines[2].groups[static_cast<size_t>(rank * 2 / ranks)].push_back(rank);
  std::vector<Given> plans;
  for (AlgorithmArguments on : machines) {
    for (const Algorithm& algorithm : algorithms()) {
      for (const Collective collective : algorithm.collectives) {
        on.collective = collective;
        for (const AlgorithmArguments& form : forms_of(algorithm, on)) {
          const auto plan = std::make_shared<const VerifiedPlan>(verify(algorithm.make(form)));
          if (form.access == Access::kStaged && gpu_plan_limits().excess(*plan)) plans.push_back(plan);
        }
      }
    }
  }
  return plans;
}

TEST(StagedPlans, APinnedAlgorithmOfHostMemoryRuns) {
  Random random(run_seed());
  for (const int ranks : {2, 3, 5}) {
    Settings settings = gpu_settings();
    settings.algorithm = "all_reduce:host_staged";
    settings.staging_bytes = size_t{4096} << random() % 8;
    const uint64_t seed = random();
    expect_all_well(on_gpus(ranks, settings, [&](Communicator& communicator, FakeStream& stream) {
      Random common(seed);
      for (int i = 0; i < 20; ++i) {
        Call call = random_call(common, ranks);
        call.collective = Collective::kAllReduce;
        call.count = common() % 3 == 0 ? common() % 4 : common() % 50'000;
        enqueue_and_check(communicator, &stream, call, i, one_in(common, 3));
      }
      require(communicator.launch_for(sum_of(100)).starts_with("staged in host memory"), "how it is performed");
      require_refusal("kernels were asked to perform broadcast", [&] {
        std::vector<int32_t> data(10);
        communicator.enqueue({Collective::kBroadcast, DataType::kInt32, ReduceOp::kSum, 0, 10}, data.data(),
                             data.data(), &stream);
      });
    }));
    if (HasFailure()) return;
  }
}

TEST(StagedPlans, GivenPlansThatNoKernelPerformsRun) {
  for (const int ranks : {2, 4}) {
    Settings settings = gpu_settings();
    settings.staged_plans = true;
    expect_all_well(on_gpus(ranks, settings, [&](Communicator& communicator, FakeStream& stream) {
      int host_slots = 0, messages = 0, variant = 0;
      for (const Given& plan : plans_beyond_kernels(ranks)) {
        communicator.give(plan);
        for (const size_t count : {size_t{1}, size_t{1000}, size_t{300'001}}) {
          const Call call = call_by(*plan, DataType::kInt32, ReduceOp::kSum, count);
          enqueue_and_check(communicator, &stream, call, ++variant, plan->plan().in_place && count > 1);
        }
        host_slots += has_host_slots(plan->plan());
        messages += sends_messages(plan->plan());
      }
      require(host_slots > 0 && messages > 0, host_slots, " plans of host memory, and ", messages, " of messages");
    }));
  }
}

TEST(StagedPlans, ABlockingCallRuns) {
  Settings settings = gpu_settings();
  settings.algorithm = "all_reduce:host_staged";
  expect_all_well(on_gpus(3, settings, [](Communicator& communicator, FakeStream&) {
    for (int i = 0; i < 5; ++i) enqueue_and_check(communicator, kBlockingStream, sum_of(10'000), i, false);
  }));
}

TEST(StagedPlans, RanksOfOneProcessRun) {
  Settings settings = gpu_settings();
  settings.algorithm = "all_reduce:host_staged";
  const std::vector<int> devices(3, 0);
  std::vector<Communicator> ranks = Communicator::in_process(devices, settings);
  std::vector<FakeStream> streams(devices.size());
  std::vector<std::vector<int32_t>> data(devices.size(), std::vector<int32_t>(100'000, 1));
  for (int i = 0; i < 3; ++i) {
    for (size_t r = 0; r < ranks.size(); ++r)
      ranks[r].enqueue(sum_of(data[r].size()), data[r].data(), data[r].data(), &streams[r]);
  }
  for (FakeStream& stream : streams) stream.finish();
  for (const auto& of_rank : data) EXPECT_EQ(of_rank, std::vector<int32_t>(100'000, 27));
}

TEST(StagedPlans, WithoutTheSettingAGivenPlanIsRefused) {
  expect_all_well(on_gpus(2, gpu_settings(), [](Communicator& communicator, FakeStream&) {
    for (const Given& plan : plans_beyond_kernels(2)) {
      require_refusal("with PLAIT_STAGED_PLANS=1 on all ranks", [&] { communicator.give(plan); });
    }
  }));
}

TEST(StagedPlans, RanksWithDifferentSettingsMeetAnError) {
  const UniqueId id = new_id();
  const Outcomes outcomes = run_processes(2, kLimit, [=](int rank) {
    Settings settings = gpu_settings();
    settings.staged_plans = rank == 1;
    Communicator::create(id, rank, 2, settings, 0);
  });
  expect_errors(outcomes, -1, ErrorCode::kMismatch, {"PLAIT_STAGED_PLANS differs between ranks"});
}

// A failure on the way through host memory ends the communicator for all ranks.
TEST(StagedPlans, ARankThatIsMissingIsATimeoutThatNamesIt) {
  Settings settings = gpu_settings();
  settings.timeout_seconds = 1;
  settings.algorithm = "all_reduce:host_staged";
  const Outcomes outcomes = on_gpus(3, settings, [](Communicator& communicator, FakeStream& stream) {
    for (int i = 0;; ++i) {
      if (communicator.rank() == 2 && i == 2) {
        while (!communicator.async_error()) ::usleep(1000);
        throw *communicator.async_error();
      }
      enqueue_and_check(communicator, &stream, sum_of(1000), i, false);
    }
  });
  expect_errors(outcomes, -1, ErrorCode::kTimeout, {"rank 2"});
}

}  // namespace
}  // namespace plait::test

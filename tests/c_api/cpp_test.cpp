// The C++ header: a program that includes nothing else of Plait.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <plait/plait.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using plait::api::Communicator;
using plait::api::Error;

int failures = 0;

void check(bool good, const char* what) {
  if (good) return;
  ++failures;
  std::fprintf(stderr, "failed: %s\n", what);
}

template <class Body>
void expect_error(plaitResult_t result, const std::string& words, const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    check(error.result() == result, error.what());
    check(std::string(error.what()).find(words) != std::string::npos, error.what());
    return;
  }
  check(false, words.c_str());
}

static_assert(plait::api::data_type<char>() == (std::is_signed_v<char> ? plaitInt8 : plaitUint8));
static_assert(plait::api::data_type<uint16_t>() == plaitUint16 && plait::api::data_type<long>() == plaitInt64);
static_assert(plait::api::data_type<float>() == plaitFloat32 && plait::api::data_type<double>() == plaitFloat64);
static_assert(!std::is_copy_constructible_v<Communicator> && std::is_nothrow_move_constructible_v<Communicator>);

// What `body` has written to stderr.
template <class Body>
std::string logged_by(const Body& body) {
  std::FILE* const file = std::tmpfile();
  const int before = dup(STDERR_FILENO);
  if (file == nullptr || before < 0 || dup2(fileno(file), STDERR_FILENO) < 0) return "no file";
  body();
  dup2(before, STDERR_FILENO);
  close(before);
  std::string text(10'000, '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

void test_one_thread() {
  std::vector<Communicator> ranks = Communicator::all_on_host(3);
  std::vector<float> values = {1, 2, 3};
  std::vector<float> sums(3), gathered(9);
  plait::api::group([&] {
    for (int r = 0; r < 3; ++r) {
      check(ranks[r].rank() == r && ranks[r].size() == 3 && ranks[r].device() == PLAIT_DEVICE_HOST, "rank and size");
      ranks[r].all_reduce(&values[r], &sums[r], 1);
      ranks[r].all_gather(&values[r], &gathered[3 * r], 1);
      ranks[r].barrier();
    }
  });
  check(sums == std::vector<float>{6, 6, 6}, "all_reduce in a group");
  check(gathered == std::vector<float>{1, 2, 3, 1, 2, 3, 1, 2, 3}, "all_gather in a group");
  expect_error(plaitInvalidArgument, "sendbuff is NULL", [&] {
    plait::api::group([&] {
      ranks[0].barrier();
      ranks[1].all_reduce<int>(nullptr, nullptr, 5);
    });
  });
  expect_error(plaitInvalidArgument, "ndev is 0", [] { Communicator::all_on_host(0); });
  expect_error(plaitInvalidArgument, "config->device is PLAIT_DEVICE_CUDA",
               [] { Communicator(1, plait::api::unique_id(), 0, plait::api::default_config(PLAIT_DEVICE_CUDA)); });
}

void in_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

// Rank r gives r elements to each rank of 4, or has a block of r elements.
void check_counts(Communicator& comm, int r) {
  using Counts = Communicator::Counts;
  const Counts counts = {0, 1, 2, 3}, places = {6, 5, 3, 0}, own(4, static_cast<size_t>(r));
  const std::vector<int> mine(static_cast<size_t>(4 * r), r);
  std::vector<int> all(6);
  comm.all_to_all_v(mine.data(), own, all.data(), counts);
  check(all == std::vector<int>{1, 2, 2, 3, 3, 3}, "all_to_all_v");
  comm.all_gather_v(mine.data(), all.data(), counts, places);
  check(all == std::vector<int>{3, 3, 3, 2, 2, 1}, "all_gather_v");
  std::vector<int> block(3, -1);
  comm.scatter_v(all.data(), counts, block.data(), static_cast<size_t>(r), 3, places);
  check(block[0] == (r > 0 ? r : -1) && block[2] == (r > 2 ? r : -1), "scatter_v");
  comm.reduce_scatter_v(all.data(), block.data(), counts, plaitSum, places);
  check(block[0] == (r > 0 ? 4 * r : -1), "reduce_scatter_v");
  std::vector<int> table(6);
  comm.gather_v(block.data(), static_cast<size_t>(r), table.data(), r == 1 ? counts : Counts{}, 1);
  check(r != 1 || table == std::vector<int>{4, 8, 8, 12, 12, 12}, "gather_v");
  expect_error(plaitInvalidArgument, "3 counts or displacements for 4 ranks",
               [&] { comm.all_gather_v(mine.data(), all.data(), Counts{1, 2, 3}); });
}

void test_threads() {
  const plaitUniqueId id = plait::api::unique_id();
  std::atomic<int> checked = 0;
  in_threads(4, [&](int r) {
    const plaitConfig_t config = plait::api::default_config(PLAIT_DEVICE_HOST);
    Communicator comm(4, id, r, config);
    Communicator moved = std::move(comm);
    check(!comm && moved, "moving");
    std::vector<double> values(8, r), block(2);
    moved.reduce_scatter(values.data(), block.data(), 2, plaitMax);
    check(block == std::vector<double>{3, 3}, "reduce_scatter");
    moved.broadcast(values.data(), values.data(), 8, 2);
    check(values[7] == 2, "broadcast");
    moved.reduce(values.data(), values.data(), 8, plaitProd, 1);
    check(values[0] == (r == 1 ? 16 : 2), "reduce");
    std::vector<int> table(4), mine = {10 * r, 10 * r + 1, 10 * r + 2, 10 * r + 3};
    moved.gather(&r, table.data(), 1, 3);
    check(r != 3 || table == std::vector<int>{0, 1, 2, 3}, "gather");
    int part = -1;
    moved.scatter(mine.data(), &part, 1, 2);
    check(part == 20 + r, "scatter");
    moved.all_to_all(mine.data(), mine.data(), 1);
    check(mine == std::vector<int>{r, 10 + r, 20 + r, 30 + r}, "all_to_all");
    check_counts(moved, r);
    using plait::api::PremultipliedSum;
    const PremultipliedSum weighted(moved, 0.5 * (r + 1));
    double weight = 2, sum = 0;
    moved.all_reduce(&weight, &sum, 1, weighted);
    check(sum == 10 && weight == 2, "all_reduce with factors");
    uint16_t two = 0x4000;  // in float16
    PremultipliedSum doubled(moved, &two, plaitFloat16, plaitScalarHostImmediate);
    PremultipliedSum taken = std::move(doubled);
    moved.all_reduce(&two, &two, 1, plaitFloat16, taken);
    check(two == 0x4c00, "2 * 2 of 4 ranks in float16");
    expect_error(plaitInvalidArgument, "op was made for float64", [&] { moved.all_reduce(&r, &r, 1, weighted); });
    uint16_t bits = 0x3c00;  // 1 in float16
    moved.all_reduce(&bits, &bits, 1, plaitFloat16, plaitAvg);
    check(bits == 0x3c00, "all_reduce of a type that C++ lacks");
    Communicator half = moved.split(r < 2 ? 0 : PLAIT_SPLIT_NOCOLOR, -r);
    check(static_cast<bool>(half) == (r < 2), "split");
    if (half) check(half.size() == 2 && half.rank() == 1 - r, "the order of a split");
    check(moved.async_error() == plaitSuccess, "async_error");
    // Rank 0 aborts when all have looked, and none is in a call.
    for (++checked; checked < 4;) std::this_thread::yield();
    if (r == 0) moved.abort();
    if (r != 0) expect_error(plaitRemoteError, "rank 0 aborted", [&] { moved.barrier(); });
    expect_error(r == 0 ? plaitInvalidArgument : plaitRemoteError, "", [&] { moved.barrier(); });
  });
}

void test_plans_and_machine() {
  constexpr const char* kAlone =
      R"({"plait_plan": 2, "algorithm": "alone", "collective": "all_reduce", "access": "staged", "root": 0, "blocks": 1,
          "chunks_per_block": 1, "in_place": true, "node_of": [0], "ranks": [{"scratch_slots": 0, "host_slots": 0,
          "signals": 0, "messages": 0, "queues": [{"engine": "cpu", "operations": [
            {"op": "reduce", "to": ["r0.output"], "from": ["r0.input"], "chunk": 0}]}]}]})";
  using plait::api::Plan;
  std::vector<Communicator> ranks = Communicator::all_on_host(1);
  Plan plan = Plan::parse(kAlone);
  Plan moved = std::move(plan);
  const float value = 3;
  float result = 0;
  ranks[0].run(moved, &value, &result, 1);
  check(result == 3, "a plan of one rank");
  expect_error(plaitInvalidArgument, "plan is NULL", [&] { ranks[0].run(plan, &value, &result, 1); });
  expect_error(plaitInvalidArgument, "cannot be read", [] { Plan::load("/no/such/plan"); });
  check(ranks[0].groups() == std::vector<int>{0}, "groups");
  check(ranks[0].topology().find("\"devices\"") != std::string::npos, "topology");
}

// No rank waits for another where each is the root. Who ends the communicator is told, and a destructor says it.
void test_roots_that_differ() {
  const auto is_told = [](plaitResult_t result) {
    return result == plaitInvalidUsage &&
           std::string(plaitGetLastError(nullptr)).find("call 1 differs between ranks") != std::string::npos;
  };
  for (const bool finalizes : {true, false}) {
    const plaitUniqueId id = plait::api::unique_id();
    in_threads(2, [&](int r) {
      Communicator comm(2, id, r, plait::api::default_config(PLAIT_DEVICE_HOST));
      comm.broadcast(&r, &r, 1, r);
      if (finalizes) check(is_told(plaitCommFinalize(comm.get())), "plaitCommFinalize");
      const plaitResult_t result = plaitCommDestroy(comm.release());
      check(finalizes ? result == plaitSuccess : is_told(result), "plaitCommDestroy");
    });
  }
  const plaitUniqueId id = plait::api::unique_id();
  const std::string log = logged_by([&] {
    in_threads(2, [&](int r) {
      Communicator comm(2, id, r, plait::api::default_config(PLAIT_DEVICE_HOST));
      comm.broadcast(&r, &r, 1, r);
    });
  });
  for (const std::string rank : {"[rank 0]", "[rank 1]"}) {
    check(log.find("plait: " + rank + " error: call 1 differs between ranks") != std::string::npos, log.c_str());
  }
}

void test_launcher() {
  const plaitConfig_t config = plait::api::default_config(PLAIT_DEVICE_HOST);
  Communicator alone = Communicator::from_launcher(config);
  check(alone.size() == 1 && alone.rank() == 0 && plait::api::local_rank() == 0, "without a launcher");
  setenv("PLAIT_RANK", "0", 1);
  expect_error(plaitInvalidUsage, "PLAIT_WORLD_SIZE", [&] { Communicator::from_launcher(config, 1); });
  unsetenv("PLAIT_RANK");
}

}  // namespace

int main() {
  setenv("CUDA_VISIBLE_DEVICES", "", 1);
  alarm(120);
  check(plait::api::version() == PLAIT_VERSION_CODE, "version");
  test_one_thread();
  test_threads();
  test_plans_and_machine();
  test_roots_that_differ();
  test_launcher();
  std::printf("cpp_test: %d failed\n", failures);
  return failures == 0 ? 0 : 1;
}

// Random sequences of calls, the same on every rank.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/steps/levels.hpp"
#include "api/communicator.hpp"
#include "api/live_machine.hpp"
#include "api/plan_limits.hpp"
#include "runtime/bound_plan.hpp"
#include "support/algorithm_plans.hpp"
#include "support/call_buffers.hpp"
#include "support/reference_reduction.hpp"
#include "support/seed.hpp"
#include "tuner/tuner.hpp"

namespace plait::test {

struct Step {
  Call call;
  BufferLayout layout;
  int variant = 0;
  bool exact = true;  // inputs with a known result; false: random inputs, reduced in the plan's order for comparison
  bool repeated = false;  // called twice with the same input
};

struct Sequence {
  std::string name;  // for messages
  uint64_t seed = 0;
  int ranks = 1;
  Settings settings;
  std::vector<Step> steps;
};

inline std::string describe(const Step& step) {
  return join(to_text(step.call), step.layout.in_place ? ", in place" : "", ", offsets ", step.layout.input_offset, "/",
              step.layout.output_offset, step.exact ? "" : ", random input");
}

// ---- Generation.

// A random way to write `number` as a product.
inline std::vector<int> random_factors(Random& random, int number) {
  std::vector<int> factors;
  for (int rest = number; rest > 1;) {
    int factor = 2 + static_cast<int>(random() % static_cast<uint64_t>(rest - 1));
    while (rest % factor != 0) ++factor;
    factors.push_back(factor);
    rest /= factor;
  }
  return factors;
}

// Random factors, each a level with any algorithm that serves the collective.
inline std::vector<Level> random_levels(Random& random, Collective collective, int ranks) {
  std::vector<Level> levels;
  for (const int factor : random_factors(random, ranks)) {
    LevelAlgorithm algorithm = any_of(random, level_algorithms());
    while (!serves(algorithm, collective)) algorithm = any_of(random, level_algorithms());
    levels.push_back({.factor = factor, .algorithm = std::string(algorithm.name)});
  }
  return levels;
}

// Adds suitable parameters to `form`, which comes from texts_for(): "chain(load, parts=4)", "hierarchical_ring(3x2)".
inline std::string with_random_parameters(Random& random, const std::string& form, Collective collective, int ranks) {
  AlgorithmSpec spec = parse_spec(form, collective);
  const Algorithm& algorithm = find_algorithm(spec.name, collective);
  if (algorithm.uses.factors && !one_in(random, 3)) spec.factors = random_factors(random, ranks);
  if (algorithm.uses.levels && !one_in(random, 3)) spec.levels = random_levels(random, collective, ranks);
  // With many ranks, many parts need more signals than a rank has.
  if (ranks > 16 || one_in(random, 2)) return to_text(spec);
  AlgorithmArguments arguments;
  arguments.collective = collective;
  arguments.ranks = ranks;
  arguments.parts = static_cast<int>(between(random, 1, 7));
  if (arguments.parts > 1 && is_taken(algorithm, apply(spec, arguments))) spec.parts = arguments.parts;
  return to_text(spec);
}

// As Communicator divides the scratch memory.
inline BindLimits limits_of(const Settings& settings) {
  BindLimits limits;
  limits.scratch_bytes = std::max<size_t>(settings.scratch_bytes / 2, 4096);
  limits.signals = 1 << 20;
  limits.messages = true;
  return limits;
}

inline std::shared_ptr<const VerifiedPlan> plan_for(const Call& call, int ranks, const Settings& settings) {
  Tuner tuner(host_machine(topology_in_process(ranks, settings, false), settings), settings, host_plan_limits(settings),
              true);
  return tuner.plan(tuner.choose({call.collective, message_bytes(call, ranks), call.root, call.type}).plan);
}

// Whether an algorithm's slots fit the scratch memory even for the widest partial results.
inline bool fits(Collective collective, int ranks, const Settings& settings) {
  const Call call{collective, DataType::kFloat8E4M3, ReduceOp::kSum, 0, 1};
  try {
    bind(*plan_for(call, ranks, settings), call, 0, limits_of(settings));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResources) throw;
    return false;
  }
}

// Pins about half of the collectives.
inline void pin_random_algorithms(Random& random, int ranks, Settings& settings) {
  for (int c = 0; c < kCollectiveCount; ++c) {
    if (one_in(random, 2)) continue;
    const auto collective = static_cast<Collective>(c);
    std::vector<std::string> forms = texts_for(collective, ranks);
    const std::string before = settings.algorithm;
    settings.algorithm += join(before.empty() ? "" : ",", name(collective), ":",
                               with_random_parameters(random, any_of(random, forms), collective, ranks));
    if (!fits(collective, ranks, settings)) settings.algorithm = before;
  }
}

// How many elements of a block each slice has, except the last one; `call.count` if there is only one slice.
inline size_t slice_elements(const VerifiedPlan& plan, const Call& call, const Settings& settings) {
  const BoundPlan bound = bind(plan, call, 0, limits_of(settings));
  return bound.slices > 1 ? bound.slice_bytes / size_of(call.type) : call.count;
}

// Counts at and around the borders of slices and chunks, and small ones.
class RandomCounts {
 public:
  RandomCounts(Random& random, const Settings& settings, int ranks, size_t most_bytes)
      : random_(random), settings_(settings), ranks_(ranks), most_bytes_(most_bytes) {}

  size_t draw(Call call) {
    const size_t copies = has_rank_blocks(call.collective) ? static_cast<size_t>(ranks_) : 1;
    const size_t most = most_bytes_ / size_of(call.type) / copies;
    size_t count = 0;
    switch (random_() % 6) {
      case 0:
        return random_() % 4;
      case 1:
        count = between(random_, 1, 300);
        break;
      case 2:
        count = between(random_, 1, most);
        break;
      default:
        count = near_border(call, most);
    }
    return std::min(count, most);
  }

 private:
  size_t near_border(Call call, size_t most) {
    call.count = most;
    const std::shared_ptr<const VerifiedPlan> plan = plan_for(call, ranks_, settings_);
    const size_t slice = slice_elements(*plan, call, settings_);
    const size_t chunk = chunk_elements_for(slice, std::max(1, plan->plan().chunks_per_block), size_of(call.type));
    const size_t border = one_in(random_, 2) ? slice * between(random_, 1, 3) : chunk * between(random_, 1, 9);
    const size_t distance = one_in(random_, 3) ? 17 : random_() % 3;
    return one_in(random_, 2) ? border + distance : border - std::min(border, distance);
  }

  Random& random_;
  const Settings& settings_;
  const int ranks_;
  const size_t most_bytes_;
};

inline BufferLayout random_layout(Random& random) {
  BufferLayout layout;
  layout.in_place = one_in(random, 3);
  if (one_in(random, 2)) layout.input_offset = random() % 67;
  if (one_in(random, 2)) layout.output_offset = random() % 67;
  layout.null_where_unused = one_in(random, 2);
  return layout;
}

inline Call random_call(Random& random, int ranks) {
  Call call;
  call.collective = static_cast<Collective>(random() % kCollectiveCount);
  if (call.collective == Collective::kBarrier) return call;
  call.type = static_cast<DataType>(random() % kDataTypeCount);
  if (reduces(call.collective)) call.op = any_of(random, reductions_of(call.type));
  if (has_root(call.collective)) call.root = static_cast<int>(random() % static_cast<uint64_t>(ranks));
  return call;
}

// Time-outs end what hangs.
inline Settings random_settings(Random& random, int ranks) {
  Settings settings;
  settings.timeout_seconds = 30;
  settings.bootstrap_timeout_seconds = 30;
  settings.scratch_bytes = size_t{1024} << between(random, ranks > 9 ? 7 : 4, 7);
  settings.wait_policy = static_cast<WaitPolicy>(random() % 4);
  pin_random_algorithms(random, ranks, settings);
  return settings;
}

inline Sequence random_sequence(uint64_t seed, int ranks, int steps, size_t most_bytes) {
  Random random(seed);
  Sequence sequence;
  sequence.seed = seed;
  sequence.ranks = ranks;
  sequence.settings = random_settings(random, ranks);
  RandomCounts counts(random, sequence.settings, ranks, most_bytes);
  for (int i = 0; i < steps; ++i) {
    Step step;
    step.call = random_call(random, ranks);
    if (step.call.collective != Collective::kBarrier) step.call.count = counts.draw(step.call);
    step.layout = random_layout(random);
    step.variant = static_cast<int>(random() % 1000);
    // With many ranks, the sums of an int8 average overflow, for which exact inputs are not made.
    const bool overflows = step.call.type == DataType::kInt8 && step.call.op == ReduceOp::kAverage && ranks > 42;
    step.exact = !overflows && one_in(random, 2);
    step.repeated = one_in(random, 4);
    sequence.steps.push_back(step);
  }
  sequence.name = join("seed ", seed, ", ", ranks, " ranks, scratch ", sequence.settings.scratch_bytes, ", wait ",
                       name(sequence.settings.wait_policy), ", '", sequence.settings.algorithm, "'");
  return sequence;
}

// ---- Random inputs: a pure function, so that every rank knows the inputs of all others.

inline uint64_t hash(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Bits of exponent and mantissa of a floating type; {0, 0} for integers.
inline std::pair<int, int> float_format(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return {5, 10};
    case DataType::kBfloat16:
      return {8, 7};
    case DataType::kFloat32:
      return {8, 23};
    case DataType::kFloat64:
      return {11, 52};
    case DataType::kFloat8E4M3:
      return {4, 3};
    case DataType::kFloat8E5M2:
      return {5, 2};
    default:
      return {0, 0};
  }
}

// Element `i` of the message that `rank` contributes: mostly numbers of similar size, whose sums have to be rounded,
// and sometimes any bits at all (NaN, infinity, subnormal numbers).
inline uint64_t random_code(DataType type, uint64_t seed, int rank, size_t i) {
  const uint64_t bits = hash(hash(seed + static_cast<uint64_t>(rank) * 0x9e3779b97f4a7c15ULL) + i);
  const uint64_t mask = size_of(type) == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * size_of(type)) - 1;
  const auto [exponent_bits, mantissa_bits] = float_format(type);
  if (exponent_bits == 0 || hash(bits) % 16 == 0) return bits & mask;
  const uint64_t bias = (uint64_t{1} << (exponent_bits - 1)) - 1;
  const uint64_t exponent = bias - 2 + (bits >> 55) % 5;
  const uint64_t mantissa = bits & ((uint64_t{1} << mantissa_bits) - 1);
  return (bits >> 63) << (exponent_bits + mantissa_bits) | exponent << mantissa_bits | mantissa;
}

// ---- Performing a sequence as one rank.

class SequenceRunner {
 public:
  SequenceRunner(Communicator& communicator, const Sequence& sequence)
      : communicator_(communicator),
        sequence_(sequence),
        rank_(communicator.rank()),
        ranks_(communicator.size()),
        random_(sequence.seed * 64 + static_cast<uint64_t>(rank_)) {}

  // Throws at the first error.
  void run() {
    for (size_t i = 0; i < sequence_.steps.size(); ++i) {
      const Step& step = sequence_.steps[i];
      linger();
      try {
        perform(step, i);
      } catch (const Error& error) {
        throw Error(error.code(), join(place(i), ": ", error.what()));
      } catch (const std::exception& error) {
        throw std::runtime_error(join(place(i), ": ", error.what()));
      }
    }
  }

 private:
  std::string place(size_t i) const {
    return join("[", sequence_.name, "] step ", i, ", ", describe(sequence_.steps[i]), ", rank ", rank_);
  }

  // Now and then waits a little, so that ranks make their calls at different times.
  void linger() {
    if (!one_in(random_, 12)) return;
    const timespec time{0, static_cast<long>(random_() % 300'000)};
    nanosleep(&time, nullptr);
  }

  void perform(const Step& step, size_t index) {
    if (step.call.collective == Collective::kBarrier) return communicator_.barrier();
    std::vector<std::byte> first;
    for (int round = 0; round < (step.repeated ? 2 : 1); ++round) {
      CallBuffers buffers(step.call, ranks_, rank_, step.layout);
      fill(step, index, buffers.input());
      buffers.remember();
      communicator_.run(step.call, buffers.input(), buffers.output());
      buffers.require_untouched_surroundings();
      check(step, index, buffers.output());
      const std::vector<std::byte> output(buffers.output(), buffers.output() + buffers.output_bytes());
      require(round == 0 || output == first, "a repeated call gave other bits");
      first = output;
    }
  }

  // The index in the message of element `i` of a rank's buffer; in all_to_all, in its source's message.
  size_t message_index(const Call& call, size_t i, bool output) const {
    const size_t own_block = static_cast<size_t>(rank_) * call.count;
    if (output && call.collective == Collective::kAllToAll) return own_block + i % call.count;
    return (output ? scatters(call.collective) : gathers(call.collective)) ? own_block + i : i;
  }

  // The rank that element `i` of the output comes from.
  int source_of(const Call& call, size_t i) const {
    const bool from_root = call.collective == Collective::kBroadcast || call.collective == Collective::kScatter;
    return from_root ? call.root : static_cast<int>(i / call.count);
  }

  void fill(const Step& step, size_t index, std::byte* input) const {
    if (input == nullptr) return;
    if (step.exact) return fill_input(step.call, ranks_, rank_, step.variant, input);
    const size_t bytes = size_of(step.call.type);
    for (size_t i = 0; i < input_elements(step.call, ranks_, rank_); ++i) {
      const uint64_t code =
          random_code(step.call.type, sequence_.seed + index, rank_, message_index(step.call, i, false));
      std::memcpy(input + i * bytes, &code, bytes);
    }
  }

  void check(const Step& step, size_t index, const std::byte* output) {
    const size_t elements = output_elements(step.call, ranks_, rank_);
    if (elements == 0) return;
    if (step.exact) {
      const size_t wrong = count_wrong(step.call, ranks_, rank_, step.variant, output);
      require(wrong == 0, wrong, " of ", elements, " elements are wrong");
    } else if (reduces(step.call.collective)) {
      check_reduction(step, index, output, elements);
    } else {
      for (size_t i = 0; i < elements; ++i) {
        const size_t at = message_index(step.call, i, true);
        const int source = source_of(step.call, i);
        require_code(step, output, i, random_code(step.call.type, sequence_.seed + index, source, at));
      }
    }
  }

  // Checks all elements of short messages, and a sample of long ones.
  void check_reduction(const Step& step, size_t index, const std::byte* output, size_t elements) {
    constexpr size_t kSample = 300;
    const Call& call = step.call;
    const VerifiedPlan& plan = communicator_.plan_for(call);
    auto& reference = references_[&plan];
    if (!reference) reference = std::make_unique<ReferenceReduction>(plan.plan());
    const size_t slice = slice_elements(plan, call, sequence_.settings);
    std::vector<uint64_t> codes(static_cast<size_t>(ranks_));
    for (size_t n = 0; n < std::min(elements, kSample); ++n) {
      const size_t i = elements <= kSample ? n : random_() % elements;
      const size_t at = message_index(call, i, true);
      for (int rank = 0; rank < ranks_; ++rank) {
        codes[static_cast<size_t>(rank)] = random_code(call.type, sequence_.seed + index, rank, at);
      }
      const uint64_t code = reference->result(chunk_of(plan.plan(), call, slice, at), call.type, call.op, codes);
      require_code(step, output, i, code);
    }
  }

  // The chunk that element `at` of the message is in.
  int chunk_of(const Plan& plan, const Call& call, size_t slice, size_t at) const {
    const size_t in_block = at % call.count;
    const size_t slice_begin = in_block / slice * slice;
    const size_t in_slice = std::min(slice, call.count - slice_begin);
    const size_t chunk = chunk_elements_for(in_slice, plan.chunks_per_block, size_of(call.type));
    return static_cast<int>(at / call.count) * plan.chunks_per_block +
           static_cast<int>((in_block - slice_begin) / chunk);
  }

  void require_code(const Step& step, const std::byte* output, size_t i, uint64_t expected) const {
    const size_t bytes = size_of(step.call.type);
    uint64_t code = 0;
    std::memcpy(&code, output + i * bytes, bytes);
    require(code == expected, "element ", i, " of the output is ", std::hex, code, ", not ", expected);
  }

  Communicator& communicator_;
  const Sequence& sequence_;
  const int rank_;
  const int ranks_;
  Random random_;  // different on each rank
  std::map<const VerifiedPlan*, std::unique_ptr<ReferenceReduction>> references_;
};

}  // namespace plait::test

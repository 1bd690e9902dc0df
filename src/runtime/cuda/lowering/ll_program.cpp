// Lowers a queue's program to steps and places.
#include "runtime/cuda/lowering/ll_program.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "runtime/cuda/lowering/device_block.hpp"

namespace plait {
namespace {

class StepWriter {
 public:
  StepWriter(const QueueProgram& program, Protocol protocol, DataType type, std::span<std::byte* const> blocks)
      : program_(program),
        protocol_(protocol),
        element_bytes_(size_of(type)),
        blocks_(blocks),
        stored_at_(protocol == Protocol::kLl ? BlockLayout::ll_at(0, 0) : BlockLayout::ll128_at(0, 0)) {}

  LlProgram run() {
    if (program_.slices > UINT32_MAX) {
      fail(ErrorCode::kResources, program_.slices, " slices are too many for an LL or LL128 launch");
    }
    result_.words_are_aligned = program_.slice_bytes % sizeof(uint64_t) == 0;
    result_.last = add(program_.last[0]);
    const SliceProgram &a = program_.full[0], &b = program_.last[0];
    const bool same = a.first == b.first && a.count == b.count;
    result_.full = same ? result_.last : add(program_.full[0]);
    lay_out();
    return std::move(result_);
  }

 private:
  using Places = std::vector<DevicePlace>;

  struct Step {
    LlStep step;
    Places sources, destinations;
  };

  SliceProgram add(const SliceProgram& from) {
    SliceProgram to = from;
    to.first = static_cast<uint16_t>(steps_.size());
    for (int i = 0; i < from.count; ++i) {
      const DeviceOperation& operation = program_.operations[from.first + i];
      if (operation.is_batched) continue;
      if (operation.batch > 1) {
        for (int c = 0; c < operation.batch; c += kMostGroup) {
          add_copies(operation, c, std::min<int>(operation.batch - c, kMostGroup));
        }
      } else {
        add_reduce(operation);
      }
    }
    if (steps_.size() == to.first) steps_.emplace_back();  // the kernel needs at least one
    to.count = static_cast<uint16_t>(steps_.size() - to.first);
    return to;
  }

  void add_reduce(const DeviceOperation& operation) {
    const auto destinations = program_.places.begin() + operation.first;
    const auto sources = destinations + operation.destinations;
    const bool copies = protocol_ == Protocol::kLl && operation.sources == 1 && operation.divisor == 0;
    const int times = copies ? operation.destinations : 1;
    Places from;
    for (int i = 0; i < times; ++i) from.insert(from.end(), sources, sources + operation.sources);
    add_step(operation, std::move(from), {destinations, sources}, copies);
  }

  // Adds a batch of copies. In the queue's program, destinations and sources alternate.
  void add_copies(const DeviceOperation& operation, int first, int count) {
    Places sources, destinations;
    for (int c = first; c < first + count; ++c) {
      destinations.push_back(program_.places[operation.first + 2 * c]);
      sources.push_back(program_.places[operation.first + 2 * c + 1]);
    }
    add_step(operation, std::move(sources), std::move(destinations), true);
  }

  void add_step(const DeviceOperation& operation, Places sources, Places destinations, bool copies) {
    const size_t most = std::max(sources.size(), destinations.size());
    const size_t in_word = sizeof(uint64_t) / element_bytes_;
    const size_t words = (operation.elements + in_word - 1) / in_word;
    if (operation.divisor > UINT8_MAX || most > kMostGroup || words > UINT16_MAX) {
      fail(ErrorCode::kResources, "a step with ", most, " places, of ", operation.elements,
           " elements, is too much for an LL or LL128 launch; use PLAIT_LAUNCH=Simple:… for this algorithm");
    }
    for (const Places* const places : {&sources, &destinations}) expect_room(*places, operation.elements);
    while (size_t{1} << result_.group_shift < most) ++result_.group_shift;
    LlStep step;
    step.words = static_cast<uint16_t>(words);
    step.last_elements = static_cast<uint8_t>(words == 0 ? 0 : operation.elements - (words - 1) * in_word);
    step.last_word_is_full = step.last_elements == in_word;
    step.sources = static_cast<uint8_t>(sources.size());
    step.destinations = static_cast<uint8_t>(destinations.size());
    step.copies = copies;
    step.divisor = static_cast<uint8_t>(operation.divisor);
    steps_.push_back({step, std::move(sources), std::move(destinations)});
  }

  // Checks that the stores stay within the memory of one epoch; another epoch's lies behind it. Bound plans leave room
  // for flags behind each slot's data (CudaRank::limits), but only for as many slots as the tuner's plans have.
  void expect_room(const Places& places, size_t elements) const {
    const size_t bytes = stored_bytes(protocol_, elements * element_bytes_);
    const size_t room = protocol_ == Protocol::kLl ? BlockLayout::kLlBytes : BlockLayout::kLl128Bytes;
    for (const DevicePlace& place : places) {
      if (place.base >= kFirstScratchBase && place.offset + bytes > room) {
        fail(ErrorCode::kResources, "a step stores ", bytes, " bytes from ", place.offset,
             " on, and an LL or LL128 launch has room for ", room, "; use PLAIT_LAUNCH=Simple:… for this algorithm");
      }
    }
  }

  // Fills the table, once its width is known.
  void lay_out() {
    for (const Step& step : steps_) {
      const size_t first = result_.places.size();
      result_.places.resize(first + (size_t{1} << result_.group_shift));
      for (size_t s = 0; s < step.sources.size(); ++s) put(step.sources[s], first + s, false);
      for (size_t d = 0; d < step.destinations.size(); ++d) put(step.destinations[d], first + d, true);
      result_.steps.push_back(step.step);
    }
  }

  void put(const DevicePlace& from, size_t place, bool is_destination) {
    if (from.base < kFirstScratchBase) {
      result_.user_places.push_back(
          {static_cast<uint16_t>(place), is_destination, from.base == kOutputBase, from.offset});
      result_.words_are_aligned &= from.offset % sizeof(uint64_t) == 0;
      return;
    }
    const auto block = reinterpret_cast<uintptr_t>(blocks_[from.base - kFirstScratchBase]);
    LlPlace& to = result_.places[place];
    (is_destination ? to.destination : to.source) =
        ll_address(block + stored_at_ + from.offset, static_cast<int>(from.writer));
  }

  const QueueProgram& program_;
  const Protocol protocol_;
  const size_t element_bytes_;
  const std::span<std::byte* const> blocks_;
  const size_t stored_at_;
  std::vector<Step> steps_;
  LlProgram result_;
};

}  // namespace

LlProgram make_ll_program(const QueueProgram& program, Protocol protocol, DataType type,
                          std::span<std::byte* const> blocks) {
  return StepWriter(program, protocol, type, blocks).run();
}

}  // namespace plait

// Recognizes two-shot calls.
#include "runtime/cuda/lowering/two_shot_program.hpp"

#include <algorithm>

namespace plait {
namespace {

// An address, or where the caller's will be.
struct Address {
  uint64_t packet = 0;
  const LlProgram::UserPlace* callers = nullptr;

  bool exists() const { return packet != 0 || callers != nullptr; }
  bool operator==(const Address& other) const {
    if (packet != other.packet || (callers == nullptr) != (other.callers == nullptr)) return false;
    return callers == nullptr || (callers->output == other.callers->output && callers->offset == other.callers->offset);
  }
};

struct Pair {
  Address from, to;
  TwoShotSteps::Extent extent;
};

// The steps of a slice, sorted into what is given and what is taken.
class Sorter {
 public:
  Sorter(const LlProgram& program, const SliceProgram& slice, DataType type)
      : program_(program), element_bytes_(size_of(type)) {
    for (int step = slice.first; step < slice.first + slice.count; ++step) add(static_cast<size_t>(step));
  }

  struct Taking {
    std::vector<Pair> pairs;
    TwoShotSteps::Taking counts;
  };

  bool is_two_shot() const { return is_two_shot_; }
  // Of the place that has most.
  const TwoShotSteps::Extent& most() const { return most_; }
  bool has_whole_words() const { return has_whole_words_; }
  bool is_one_step() const { return is_one_step_; }
  bool gives_one() const {
    return std::all_of(given_.begin(), given_.end(), [&](const Pair& pair) {
      return pair.from == given_[0].from && pair.extent.bytes() == given_[0].extent.bytes();
    });
  }
  bool combines() const {
    return std::any_of(takings_.begin(), takings_.end(), [](const Taking& it) { return it.counts.combined > 0; });
  }
  const std::vector<Pair>& given() const { return given_; }
  const std::vector<Taking>& takings() const { return takings_; }
  size_t width() const {
    size_t width = given_.size();
    for (const Taking& taking : takings_) width = std::max(width, taking.pairs.size());
    return width;
  }

 private:
  void add(size_t number) {
    const LlStep& step = program_.steps[number];
    if (step.words == 0) return;
    std::vector<Pair> pairs = pairs_of(number);
    const bool is_copy = step.copies || (step.sources == 1 && step.divisor == 0);
    if (is_copy && !step.copies) {
      for (Pair& pair : pairs) pair.from = pairs[0].from;
    }
    const auto from_packet = [](const Pair& pair) { return pair.from.packet != 0; };
    const auto to_packet = [](const Pair& pair) { return pair.to.packet != 0; };
    const auto from_output = [](const Pair& pair) { return pair.from.callers != nullptr && pair.from.callers->output; };
    const TwoShotSteps::Extent extent = extent_of(step);
    for (Pair& pair : pairs) pair.extent = extent;
    is_one_step_ = is_one_step_ && (most_.words == 0 || most_.bytes() == extent.bytes());
    has_whole_words_ = has_whole_words_ && step.last_word_is_full;
    if (extent.bytes() > most_.bytes()) most_ = extent;
    if (step.divisor != 0) {
      is_two_shot_ = false;
    } else if (takings_.empty()) {
      // What is the caller's is loaded before anything is stored, so it must be what it was at the start.
      is_two_shot_ = is_two_shot_ && (given_.empty() || std::none_of(pairs.begin(), pairs.end(), from_output));
      if (is_copy && std::none_of(pairs.begin(), pairs.end(), from_packet)) {
        given_.insert(given_.end(), pairs.begin(), pairs.end());
      } else {
        is_one_step_ = is_one_step_ && std::none_of(pairs.begin(), pairs.end(), to_packet);
        add_taking(step, pairs, is_copy);
      }
    } else {
      // What has been taken before must not be what is taken here.
      is_two_shot_ = is_two_shot_ && is_copy && std::all_of(pairs.begin(), pairs.end(), from_packet) &&
                     std::none_of(pairs.begin(), pairs.end(), to_packet);
      is_one_step_ = false;
      if (takings_.size() == 1) return add_taking(step, pairs, is_copy);
      Taking& second = takings_.back();  // copies of another length are another step
      second.pairs.insert(second.pairs.end(), pairs.begin(), pairs.end());
      second.counts.places = static_cast<int>(second.pairs.size());
    }
  }

  TwoShotSteps::Extent extent_of(const LlStep& step) const {
    return {step.words, static_cast<uint32_t>(sizeof(uint64_t) - step.last_elements * element_bytes_)};
  }

  void add_taking(const LlStep& step, const std::vector<Pair>& pairs, bool is_copy) {
    Taking taking{pairs, {static_cast<int>(pairs.size()), 0, 0}};
    if (!is_copy) taking.counts = {step.sources, step.sources, step.destinations};
    takings_.push_back(std::move(taking));
  }

  std::vector<Pair> pairs_of(size_t step) const {
    const size_t width = size_t{1} << program_.group_shift, first = step << program_.group_shift;
    std::vector<Pair> pairs(width);
    for (size_t i = 0; i < width; ++i) {
      pairs[i].from.packet = program_.places[first + i].source;
      pairs[i].to.packet = program_.places[first + i].destination;
    }
    for (const LlProgram::UserPlace& it : program_.callers) {
      if (it.place < first || it.place >= first + width) continue;
      Pair& pair = pairs[it.place - first];
      (it.is_destination ? pair.to : pair.from).callers = &it;
    }
    while (!pairs.empty() && !pairs.back().from.exists() && !pairs.back().to.exists()) pairs.pop_back();
    return pairs;
  }

  const LlProgram& program_;
  const size_t element_bytes_;
  std::vector<Pair> given_;
  std::vector<Taking> takings_;
  TwoShotSteps::Extent most_;
  bool is_two_shot_ = true, is_one_step_ = true, has_whole_words_ = true;
};

void put(TwoShotProgram& program, bool full, size_t taking, size_t place, TwoShotPlace::Field field,
         const Address& address) {
  TwoShotSteps::Slice& slice = full ? program.steps.full : program.steps.last;
  slice.places[taking][place].addresses[field] = address.packet;
  if (address.callers == nullptr) return;
  program.callers.push_back({full, static_cast<uint8_t>(taking), static_cast<uint8_t>(place), field,
                             address.callers->output, address.callers->offset});
}

void write(TwoShotProgram& program, bool full, const Sorter& from, const EpochEnd& end) {
  TwoShotSteps::Slice& slice = full ? program.steps.full : program.steps.last;
  program.width = std::max(program.width, static_cast<int>(from.width()));
  program.is_one_step = program.is_one_step && from.is_one_step();
  program.is_whole = program.is_whole && from.has_whole_words();
  slice.most = from.most();
  slice.given = static_cast<int>(from.given().size());
  slice.given_is_one = from.gives_one();
  slice.takings = static_cast<int>(from.takings().size());
  slice.end = end;
  for (size_t i = 0; i < from.given().size(); ++i) {
    slice.given_of[i] = from.given()[i].extent;
    put(program, full, 0, i, TwoShotPlace::kGiven, from.given()[i].from);
    put(program, full, 0, i, TwoShotPlace::kGivenTo, from.given()[i].to);
  }
  for (size_t t = 0; t < from.takings().size(); ++t) {
    const std::vector<Pair>& pairs = from.takings()[t].pairs;
    slice.taken[t] = from.takings()[t].counts;
    for (size_t i = 0; i < pairs.size(); ++i) {
      slice.taken_of[t][i] = pairs[i].extent;
      put(program, full, t, i, TwoShotPlace::kTaken, pairs[i].from);
      put(program, full, t, i, TwoShotPlace::kTakenTo, pairs[i].to);
    }
  }
}

}  // namespace

std::optional<TwoShotProgram> make_two_shot_program(const LlProgram& program, uint64_t slices, const Call& call) {
  if (slices == 0) return std::nullopt;
  TwoShotProgram result;
  result.is_whole = program.words_are_aligned;
  const auto add = [&](bool full) {
    const SliceProgram& slice = full ? program.full : program.last;
    const Sorter sorted(program, slice, call.type);
    if (!sorted.is_two_shot() || sorted.width() > kMostGroup) return false;
    if (sorted.combines() && call.op != ReduceOp::kSum) return false;
    write(result, full, sorted, slice.end);
    return true;
  };
  if (slices > 1 && !add(true)) return std::nullopt;
  if (!add(false)) return std::nullopt;
  while (1 << result.steps.group_shift < result.width) ++result.steps.group_shift;
  return result;
}

}  // namespace plait

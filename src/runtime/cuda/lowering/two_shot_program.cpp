// Recognises two-shot calls.
#include "runtime/cuda/lowering/two_shot_program.hpp"

#include <algorithm>

namespace plait {
namespace {

// An LL address, or where an address in a user buffer will be.
struct Address {
  uint64_t ll = 0;
  const LlProgram::UserPlace* user = nullptr;

  bool exists() const { return ll != 0 || user != nullptr; }
  bool operator==(const Address& other) const {
    if (ll != other.ll || (user == nullptr) != (other.user == nullptr)) return false;
    return user == nullptr || (user->output == other.user->output && user->offset == other.user->offset);
  }
};

struct PlacePair {
  Address from, to;
  TwoShotSteps::Extent extent;
};

// Sorts the steps of a slice into what is sent and what is received in each phase.
class Sorter {
 public:
  Sorter(const LlProgram& program, const SliceProgram& slice, DataType type)
      : program_(program), element_bytes_(size_of(type)) {
    for (int step = slice.first; step < slice.first + slice.count; ++step) add(static_cast<size_t>(step));
  }

  struct Phase {
    std::vector<PlacePair> pairs;
    TwoShotSteps::Phase counts;
  };

  bool is_two_shot() const { return is_two_shot_; }
  // The extent of the largest place.
  const TwoShotSteps::Extent& most() const { return most_; }
  bool has_full_words() const { return has_full_words_; }
  bool is_one_step() const { return is_one_step_; }
  bool sends_same() const {
    return std::all_of(sent_.begin(), sent_.end(), [&](const PlacePair& pair) {
      return pair.from == sent_[0].from && pair.extent.bytes() == sent_[0].extent.bytes();
    });
  }
  bool combines() const {
    return std::any_of(phases_.begin(), phases_.end(), [](const Phase& it) { return it.counts.combined > 0; });
  }
  const std::vector<PlacePair>& sent() const { return sent_; }
  const std::vector<Phase>& phases() const { return phases_; }
  size_t width() const {
    size_t width = sent_.size();
    for (const Phase& phase : phases_) width = std::max(width, phase.pairs.size());
    return width;
  }

 private:
  void add(size_t number) {
    const LlStep& step = program_.steps[number];
    if (step.words == 0) return;
    std::vector<PlacePair> pairs = pairs_of(number);
    const bool is_copy = step.copies || (step.sources == 1 && step.divisor == 0);
    if (is_copy && !step.copies) {
      for (PlacePair& pair : pairs) pair.from = pairs[0].from;
    }
    const auto from_ll = [](const PlacePair& pair) { return pair.from.ll != 0; };
    const auto to_ll = [](const PlacePair& pair) { return pair.to.ll != 0; };
    const auto from_output = [](const PlacePair& pair) { return pair.from.user != nullptr && pair.from.user->output; };
    const TwoShotSteps::Extent extent = extent_of(step);
    for (PlacePair& pair : pairs) pair.extent = extent;
    is_one_step_ = is_one_step_ && (most_.words == 0 || most_.bytes() == extent.bytes());
    has_full_words_ = has_full_words_ && step.last_word_is_full;
    if (extent.bytes() > most_.bytes()) most_ = extent;
    if (step.divisor != 0) {
      is_two_shot_ = false;
    } else if (phases_.empty()) {
      // The kernel loads from user buffers before it stores anything, so no step before may have changed them.
      is_two_shot_ = is_two_shot_ && (sent_.empty() || std::none_of(pairs.begin(), pairs.end(), from_output));
      if (is_copy && std::none_of(pairs.begin(), pairs.end(), from_ll)) {
        sent_.insert(sent_.end(), pairs.begin(), pairs.end());
      } else {
        is_one_step_ = is_one_step_ && std::none_of(pairs.begin(), pairs.end(), to_ll);
        add_phase(step, pairs, is_copy);
      }
    } else {
      // The second phase receives only from peers and into user buffers.
      is_two_shot_ = is_two_shot_ && is_copy && std::all_of(pairs.begin(), pairs.end(), from_ll) &&
                     std::none_of(pairs.begin(), pairs.end(), to_ll);
      is_one_step_ = false;
      if (phases_.size() == 1) return add_phase(step, pairs, is_copy);
      Phase& second = phases_.back();  // copies of another length are another step
      second.pairs.insert(second.pairs.end(), pairs.begin(), pairs.end());
      second.counts.places = static_cast<int>(second.pairs.size());
    }
  }

  TwoShotSteps::Extent extent_of(const LlStep& step) const {
    return {step.words, static_cast<uint32_t>(sizeof(uint64_t) - step.last_elements * element_bytes_)};
  }

  void add_phase(const LlStep& step, const std::vector<PlacePair>& pairs, bool is_copy) {
    Phase phase{pairs, {static_cast<int>(pairs.size()), 0, 0}};
    if (!is_copy) phase.counts = {step.sources, step.sources, step.destinations};
    phases_.push_back(std::move(phase));
  }

  std::vector<PlacePair> pairs_of(size_t step) const {
    const size_t width = size_t{1} << program_.group_shift, first = step << program_.group_shift;
    std::vector<PlacePair> pairs(width);
    for (size_t i = 0; i < width; ++i) {
      pairs[i].from.ll = program_.places[first + i].source;
      pairs[i].to.ll = program_.places[first + i].destination;
    }
    for (const LlProgram::UserPlace& it : program_.user_places) {
      if (it.place < first || it.place >= first + width) continue;
      PlacePair& pair = pairs[it.place - first];
      (it.is_destination ? pair.to : pair.from).user = &it;
    }
    while (!pairs.empty() && !pairs.back().from.exists() && !pairs.back().to.exists()) pairs.pop_back();
    return pairs;
  }

  const LlProgram& program_;
  const size_t element_bytes_;
  std::vector<PlacePair> sent_;
  std::vector<Phase> phases_;
  TwoShotSteps::Extent most_;
  bool is_two_shot_ = true, is_one_step_ = true, has_full_words_ = true;
};

void put(TwoShotProgram& program, bool full, size_t phase, size_t place, TwoShotPlace::Field field,
         const Address& address) {
  TwoShotSteps::Slice& slice = full ? program.steps.full : program.steps.last;
  slice.places[phase][place].addresses[field] = address.ll;
  if (address.user == nullptr) return;
  program.user_places.push_back({full, static_cast<uint8_t>(phase), static_cast<uint8_t>(place), field,
                                 address.user->output, address.user->offset});
}

void write(TwoShotProgram& program, bool full, const Sorter& from, const EpochEnd& end) {
  TwoShotSteps::Slice& slice = full ? program.steps.full : program.steps.last;
  program.width = std::max(program.width, static_cast<int>(from.width()));
  program.is_one_step = program.is_one_step && from.is_one_step();
  program.is_aligned = program.is_aligned && from.has_full_words();
  slice.most = from.most();
  slice.sent = static_cast<int>(from.sent().size());
  slice.sends_same = from.sends_same();
  slice.phase_count = static_cast<int>(from.phases().size());
  slice.end = end;
  for (size_t i = 0; i < from.sent().size(); ++i) {
    slice.sent_extents[i] = from.sent()[i].extent;
    put(program, full, 0, i, TwoShotPlace::kSend, from.sent()[i].from);
    put(program, full, 0, i, TwoShotPlace::kSendTo, from.sent()[i].to);
  }
  for (size_t t = 0; t < from.phases().size(); ++t) {
    const std::vector<PlacePair>& pairs = from.phases()[t].pairs;
    slice.phases[t] = from.phases()[t].counts;
    for (size_t i = 0; i < pairs.size(); ++i) {
      slice.received_extents[t][i] = pairs[i].extent;
      put(program, full, t, i, TwoShotPlace::kReceive, pairs[i].from);
      put(program, full, t, i, TwoShotPlace::kReceiveTo, pairs[i].to);
    }
  }
}

}  // namespace

std::optional<TwoShotProgram> make_two_shot_program(const LlProgram& program, uint64_t slices, const Call& call) {
  if (slices == 0) return std::nullopt;
  TwoShotProgram result;
  result.is_aligned = program.words_are_aligned;
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

// Recognizes short calls.
#include "runtime/cuda/short_program.hpp"

#include <algorithm>

namespace plait {
namespace {

// An address, or where the caller's will be.
struct Address {
  uint64_t packet = 0;
  const FlaggedProgram::CallersPlace* callers = nullptr;

  bool exists() const { return packet != 0 || callers != nullptr; }
  bool operator==(const Address& other) const {
    if (packet != other.packet || (callers == nullptr) != (other.callers == nullptr)) return false;
    return callers == nullptr || (callers->output == other.callers->output && callers->offset == other.callers->offset);
  }
};

struct Pair {
  Address from, to;
};

// The steps of a slice, sorted into what is given and what is taken.
class Sorter {
 public:
  Sorter(const FlaggedProgram& program, const SliceProgram& slice) : program_(program) {
    for (int step = slice.first; step < slice.first + slice.count; ++step) add(static_cast<size_t>(step));
  }

  struct Taking {
    std::vector<Pair> pairs;
    ShortSteps::Taking counts;
  };

  bool is_short() const { return is_short_; }
  uint32_t words() const { return words_; }
  bool gives_one() const {
    return std::all_of(given_.begin(), given_.end(), [&](const Pair& pair) { return pair.from == given_[0].from; });
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
    const FlaggedStep& step = program_.steps[number];
    std::vector<Pair> pairs = pairs_of(number);
    const bool is_copy = step.copies || (step.sources == 1 && step.divisor == 0);
    if (is_copy && !step.copies) {
      for (Pair& pair : pairs) pair.from = pairs[0].from;
    }
    const auto from_packet = [](const Pair& pair) { return pair.from.packet != 0; };
    const auto to_callers = [](const Pair& pair) { return pair.to.callers != nullptr; };
    const bool same_words = words_ == 0 || words_ == step.words;
    words_ = step.words;
    if (!same_words || !step.whole_words || step.divisor != 0) {
      is_short_ = false;
    } else if (is_copy && takings_.empty() && std::none_of(pairs.begin(), pairs.end(), from_packet)) {
      given_.insert(given_.end(), pairs.begin(), pairs.end());
    } else if (takings_.empty()) {
      add_taking(step, pairs, is_copy);
    } else {
      // What has been taken before must not be what is taken here.
      is_short_ = is_short_ && is_copy && takings_.size() < ShortSteps::kMostTakings &&
                  std::all_of(pairs.begin(), pairs.end(), from_packet) &&
                  std::all_of(pairs.begin(), pairs.end(), to_callers);
      add_taking(step, pairs, is_copy);
    }
  }

  void add_taking(const FlaggedStep& step, const std::vector<Pair>& pairs, bool is_copy) {
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
    for (const FlaggedProgram::CallersPlace& it : program_.callers) {
      if (it.place < first || it.place >= first + width) continue;
      Pair& pair = pairs[it.place - first];
      (it.is_destination ? pair.to : pair.from).callers = &it;
    }
    while (!pairs.empty() && !pairs.back().from.exists() && !pairs.back().to.exists()) pairs.pop_back();
    return pairs;
  }

  const FlaggedProgram& program_;
  std::vector<Pair> given_;
  std::vector<Taking> takings_;
  uint32_t words_ = 0;
  bool is_short_ = true;
};

void put(ShortProgram& program, bool full, size_t taking, size_t place, ShortPlace::Field field,
         const Address& address) {
  ShortSteps::Slice& slice = full ? program.steps.full : program.steps.last;
  slice.places[taking][place].addresses[field] = address.packet;
  if (address.callers == nullptr) return;
  program.callers.push_back({full, static_cast<uint8_t>(taking), static_cast<uint8_t>(place), field,
                             address.callers->output, address.callers->offset});
}

void write(ShortProgram& program, bool full, const Sorter& from) {
  (full ? program.steps.full : program.steps.last).words = from.words();
  for (size_t i = 0; i < from.given().size(); ++i) {
    put(program, full, 0, i, ShortPlace::kGiven, from.given()[i].from);
    put(program, full, 0, i, ShortPlace::kGivenTo, from.given()[i].to);
  }
  for (size_t t = 0; t < from.takings().size(); ++t) {
    const std::vector<Pair>& pairs = from.takings()[t].pairs;
    for (size_t i = 0; i < pairs.size(); ++i) {
      program.takes_for_others |= pairs[i].to.packet != 0;
      put(program, full, t, i, ShortPlace::kTaken, pairs[i].from);
      put(program, full, t, i, ShortPlace::kTakenTo, pairs[i].to);
    }
  }
}

bool are_alike(const Sorter& a, const Sorter& b) {
  const auto same = [](const Sorter::Taking& x, const Sorter::Taking& y) { return x.counts == y.counts; };
  return a.is_short() == b.is_short() && a.given().size() == b.given().size() && a.gives_one() == b.gives_one() &&
         std::equal(a.takings().begin(), a.takings().end(), b.takings().begin(), b.takings().end(), same);
}

}  // namespace

std::optional<ShortProgram> make_short_program(const FlaggedProgram& program, uint64_t slices, const Call& call) {
  if (!program.has_whole_words || slices == 0) return std::nullopt;
  const Sorter full(program, program.full), last(program, program.last);
  if (!last.is_short() || last.width() > kMostGroup) return std::nullopt;
  ShortProgram result;
  ShortSteps& steps = result.steps;
  while (size_t{1} << steps.group_shift < last.width()) ++steps.group_shift;
  steps.given = static_cast<int>(last.given().size());
  steps.given_is_one = last.gives_one();
  steps.takings = static_cast<int>(last.takings().size());
  for (int i = 0; i < steps.takings; ++i) {
    steps.taken[i] = last.takings()[static_cast<size_t>(i)].counts;
    if (steps.taken[i].combined > 0 && call.op != ReduceOp::kSum) return std::nullopt;
  }
  steps.end = program.last.end;
  write(result, false, last);
  if (slices == 1) return result;
  if (!are_alike(full, last) || program.full.end != program.last.end) return std::nullopt;
  write(result, true, full);
  return result;
}

}  // namespace plait

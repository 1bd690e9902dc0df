// Arrays as the blocks of one buffer.
#include "bindings/scattered_blocks.hpp"

#include <list>
#include <optional>
#include <vector>

#include "base/figures.hpp"
#include "bindings/array_view.hpp"
#include "bindings/staged_array.hpp"

namespace plait::python {
namespace {

// The buffer begins where the first of the arrays in memory does. Nothing is read or written between them.
class ScatteredBlocks {
 public:
  ScatteredBlocks(nb::sequence arrays, nb::handle dtype, const char* role) : role_(role) {
    for (const nb::handle array : arrays) parts_.emplace_back(array, dtype, role);
    for (const Part& part : parts_) check_type(part.view.type());
  }

  const ElementType& type() const { return parts_.front().view.type(); }
  void check_type(const ElementType& other) const {
    if (type() == other) return;
    fail(ErrorCode::kInvalidArgument, role_, ": arrays of ", name(type()), " and of ", name(other),
         "; all must have one type");
  }
  void check_writable() const {
    for (const Part& part : parts_) part.view.check_writable();
  }

  // What lies with gaps is copied. Needs no lock of the interpreter.
  void begin(bool load) {
    for (Part& part : parts_) {
      part.staged.emplace(part.view, AxisOrder());
      if (load) part.staged->load();
      if (part.elements() > 0 && (start_ == nullptr || part.data() < start_)) start_ = part.data();
    }
    const size_t element = size_of(type().type);
    for (const Part& part : parts_) {
      const size_t distance = part.elements() == 0 ? 0 : static_cast<size_t>(part.data() - start_);
      if (distance % element != 0) {
        fail(ErrorCode::kInvalidArgument, role_, ": an array begins in the middle of an element, seen from another; ",
             "pass a copy of it");
      }
      counts_.push_back(part.elements());
      displacements_.push_back(distance / element);
    }
  }
  void end() {
    for (Part& part : parts_) part.staged->store();
  }

  std::byte* data() const { return start_; }
  BlockCounts blocks() const { return {counts_, displacements_}; }

 private:
  struct Part {
    Part(nb::handle array, nb::handle dtype, const char* role) : view(array, dtype, role) {}
    size_t elements() const { return view.elements() * view.type().parts(); }
    std::byte* data() const { return static_cast<std::byte*>(staged->data()); }

    ArrayView view;
    std::optional<StagedArray> staged;
  };

  const char* role_;
  std::list<Part> parts_;  // which cannot move
  std::vector<size_t> counts_, displacements_;
  std::byte* start_ = nullptr;
};

}  // namespace

void run_all_to_all(CommunicatorHandle& handle, nb::sequence inputs, nb::sequence outputs, nb::handle dtype) {
  const auto ranks = static_cast<size_t>(handle.open()->size());
  if (nb::len(inputs) != ranks || nb::len(outputs) != ranks) {
    fail(ErrorCode::kInvalidArgument, counted(nb::len(inputs), "input"), " and ", counted(nb::len(outputs), "output"),
         "; all_to_all has one for each of the ", counted(ranks, "rank"));
  }
  ScatteredBlocks given(inputs, dtype, "inputs"), got(outputs, dtype, "outputs");
  given.check_type(got.type());
  got.check_writable();
  Call call;
  call.collective = Collective::kAllToAll;
  call.type = given.type().type;
  handle.use([&](Communicator& c) {
    given.begin(true);
    got.begin(false);
    c.run_by_counts(call_by_counts(call, c.size(), c.rank(), given.blocks(), got.blocks()), given.data(), got.data());
    got.end();
  });
}

}  // namespace plait::python

// An array's elements in the order in which a call takes them.
#pragma once

#include <cstddef>
#include <memory>

#include "bindings/array_view.hpp"

namespace plait::python {

// The memory of the array itself where its elements lie so, without gaps; else a copy of it, which costs two passes
// over the array and as much memory. Needs no lock of the interpreter. The view lives longer.
class StagedArray {
 public:
  StagedArray(const ArrayView& view, const AxisOrder& order);

  void* data() const { return copy_ ? copy_.get() : view_.data(); }
  void load();   // before a call that reads it
  void store();  // after a call that has written to it

 private:
  const ArrayView& view_;
  Layout layout_;  // of the copy, where there is one
  std::unique_ptr<std::byte[]> copy_;
};

}  // namespace plait::python

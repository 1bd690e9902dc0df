// The places of an array's elements in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace plait::python {

// The axes of an array as they follow each other in memory, from the outermost to the innermost: 1, 0 of a table in
// Fortran's order. Empty: 0, 1, 2, …, which is C's.
using AxisOrder = std::vector<size_t>;

struct Layout {
  std::vector<size_t> shape;
  std::vector<int64_t> strides;  // bytes from one element to the next along each axis; empty: C's order, no gaps
  size_t item_bytes = 0;

  // The layout that an array states. Strides that are C's without gaps are left out.
  static Layout of(std::vector<size_t> shape, std::span<const int64_t> strides, size_t item_bytes);

  // The order in which the elements lie without gaps; none where they do not. C's wherever it is one of several.
  std::optional<AxisOrder> order() const;
  // Whether several elements are in one place, as of what numpy.broadcast_to() gives.
  bool shares_elements() const;
  // The same array without gaps.
  Layout dense(const AxisOrder& order) const;
};

// Whether the elements of two arrays of one shape lie alike.
bool lie_alike(const Layout& a, const Layout& b);

// An order in a number, for the core (Call::order): equal for arrays whose elements lie alike but for axes of one
// element, and 0 for C's. None where there are too many axes for that.
std::optional<uint32_t> packed_order(const std::vector<size_t>& shape, const AxisOrder& order);

// Copies an array to another one of the same shape and type. The two do not overlap.
void copy_elements(const std::byte* from, const Layout& from_layout, std::byte* to, const Layout& to_layout);

}  // namespace plait::python

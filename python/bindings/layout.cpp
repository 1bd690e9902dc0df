#include "bindings/layout.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "runtime/call.hpp"

namespace plait::python {
namespace {

// One axis of a copy.
struct Axis {
  size_t extent;
  int64_t from, to;  // strides
};

bool is_empty(const std::vector<size_t>& shape) { return std::ranges::find(shape, size_t{0}) != shape.end(); }

AxisOrder c_order(size_t axes) {
  AxisOrder order(axes);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

std::vector<int64_t> dense_strides(const std::vector<size_t>& shape, const AxisOrder& order, size_t item_bytes) {
  std::vector<int64_t> strides(shape.size());
  auto stride = static_cast<int64_t>(item_bytes);
  for (size_t i = shape.size(); i-- > 0;) {
    const size_t axis = order.empty() ? i : order[i];
    strides[axis] = stride;
    stride *= static_cast<int64_t>(shape[axis]);
  }
  return strides;
}

// Axes of one element do not count.
bool are_equal(const std::vector<size_t>& shape, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  if (is_empty(shape)) return true;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1 && a[i] != b[i]) return false;
  }
  return true;
}

bool are_dense(const std::vector<size_t>& shape, std::span<const int64_t> strides, const AxisOrder& order,
               size_t item_bytes) {
  if (is_empty(shape)) return true;
  auto expected = static_cast<int64_t>(item_bytes);
  for (size_t i = shape.size(); i-- > 0;) {
    const size_t axis = order.empty() ? i : order[i];
    if (shape[axis] != 1 && strides[axis] != expected) return false;
    expected *= static_cast<int64_t>(shape[axis]);
  }
  return true;
}

std::vector<int64_t> strides_of(const Layout& layout) {
  return layout.strides.empty() ? dense_strides(layout.shape, {}, layout.item_bytes) : layout.strides;
}

// The axes over which to copy, for arrays that have elements. Writes go in the order of memory. Axes along which both
// arrays continue become one.
std::vector<Axis> axes_of_copy(const Layout& from, const Layout& to) {
  const std::vector<int64_t> from_strides = strides_of(from), to_strides = strides_of(to);
  std::vector<Axis> axes;
  for (size_t i = 0; i < from.shape.size(); ++i) {
    if (from.shape[i] != 1) axes.push_back({from.shape[i], from_strides[i], to_strides[i]});
  }
  std::ranges::stable_sort(axes, std::greater<>(), [](const Axis& axis) { return std::abs(axis.to); });
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    const auto extent = static_cast<int64_t>(axis.extent);
    const bool goes_on =
        !merged.empty() && merged.back().from == axis.from * extent && merged.back().to == axis.to * extent;
    if (goes_on) {
      merged.back() = {merged.back().extent * axis.extent, axis.from, axis.to};
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

// Copies along one axis, elements of so many bytes.
using CopyRow = void (*)(const Axis& axis, const std::byte* from, std::byte* to);

template <size_t kBytes>
void copy_row(const Axis& axis, const std::byte* from, std::byte* to) {
  if (axis.from == kBytes && axis.to == kBytes) {
    std::memcpy(to, from, axis.extent * kBytes);
    return;
  }
  for (size_t i = 0; i < axis.extent; ++i, from += axis.from, to += axis.to) std::memcpy(to, from, kBytes);
}

CopyRow copy_row_of(size_t item_bytes) {
  switch (item_bytes) {
    case 1:
      return copy_row<1>;
    case 2:
      return copy_row<2>;
    case 4:
      return copy_row<4>;
    case 8:
      return copy_row<8>;
    default:
      return copy_row<16>;  // the largest element is a complex128
  }
}

void copy_along(std::span<const Axis> axes, CopyRow copy_row, const std::byte* from, std::byte* to) {
  if (axes.size() == 1) return copy_row(axes[0], from, to);
  for (size_t i = 0; i < axes[0].extent; ++i, from += axes[0].from, to += axes[0].to) {
    copy_along(axes.subspan(1), copy_row, from, to);
  }
}

}  // namespace

Layout Layout::of(std::vector<size_t> shape, std::span<const int64_t> strides, size_t item_bytes) {
  Layout layout{std::move(shape), {}, item_bytes};
  if (!are_dense(layout.shape, strides, {}, item_bytes)) layout.strides.assign(strides.begin(), strides.end());
  return layout;
}

std::optional<AxisOrder> Layout::order() const {
  if (strides.empty()) return AxisOrder();
  AxisOrder order = c_order(shape.size());
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    if (shape[a] == 1 || shape[b] == 1) return shape[a] == 1 && shape[b] != 1;  // whose strides say nothing
    return strides[a] > strides[b];
  });
  return are_dense(shape, strides, order, item_bytes) ? std::optional(order) : std::nullopt;
}

bool Layout::shares_elements() const {
  for (size_t i = 0; i < strides.size(); ++i) {
    if (shape[i] > 1 && strides[i] == 0) return true;
  }
  return false;
}

Layout Layout::dense(const AxisOrder& order) const {
  Layout layout{shape, {}, item_bytes};
  if (!order.empty()) layout.strides = dense_strides(shape, order, item_bytes);
  return layout;
}

bool lie_alike(const Layout& a, const Layout& b) {
  if (a.strides.empty() || b.strides.empty()) return a.strides.empty() && b.strides.empty();
  return are_equal(a.shape, a.strides, b.strides);
}

std::optional<uint32_t> packed_order(const std::vector<size_t>& shape, const AxisOrder& order) {
  if (order.empty()) return 0;
  std::vector<size_t> number(shape.size());  // of each axis among those of more than one element
  size_t count = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) number[axis] = shape[axis] == 1 ? count : count++;
  AxisOrder axes;
  for (const size_t axis : order) {
    if (shape[axis] != 1) axes.push_back(number[axis]);
  }
  return pack_axis_order(axes);
}

void copy_elements(const std::byte* from, const Layout& from_layout, std::byte* to, const Layout& to_layout) {
  if (is_empty(from_layout.shape)) return;
  std::vector<Axis> axes = axes_of_copy(from_layout, to_layout);
  if (axes.empty()) axes.push_back({1, 0, 0});
  copy_along(axes, copy_row_of(from_layout.item_bytes), from, to);
}

}  // namespace plait::python

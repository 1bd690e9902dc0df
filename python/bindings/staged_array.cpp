#include "bindings/staged_array.hpp"

namespace plait::python {

StagedArray::StagedArray(const ArrayView& view, const AxisOrder& order) : view_(view) {
  if (order.empty() && view.layout().strides.empty()) return;
  layout_ = view.layout().dense(order);
  if (lie_alike(layout_, view.layout())) return;
  copy_ = std::make_unique_for_overwrite<std::byte[]>(view.elements() * layout_.item_bytes);
}

void StagedArray::load() {
  if (copy_) copy_elements(static_cast<const std::byte*>(view_.data()), view_.layout(), copy_.get(), layout_);
}

void StagedArray::store() {
  if (copy_) copy_elements(copy_.get(), layout_, static_cast<std::byte*>(view_.data()), view_.layout());
}

}  // namespace plait::python

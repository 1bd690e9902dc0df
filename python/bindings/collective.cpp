// Arrays in, calls out.
#include "bindings/collective.hpp"

#include "bindings/array_view.hpp"

namespace plait::python {
namespace {

using Shape = std::vector<size_t>;

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, parts...);
}

Shape output_shape(Collective collective, const Shape& input, size_t ranks) {
  Shape shape = input;
  if (collective == Collective::kAllGather) {
    if (shape.empty()) return {ranks};
    shape[0] *= ranks;
  }
  if (collective == Collective::kReduceScatter) {
    if (shape.empty() || shape[0] % ranks != 0) {
      refuse("array: reduce_scatter over ", ranks, " ranks needs a first axis that ", ranks,
             " divides, but the shape is ", shape_text(shape));
    }
    shape[0] /= ranks;
  }
  return shape;
}

// all_gather may also fill (ranks, *shape), and reduce_scatter of (ranks, *shape) may fill shape.
bool fits(Collective collective, const Shape& output, const Shape& expected, const Shape& input, size_t ranks) {
  if (output == expected) return true;
  Shape stacked = collective == Collective::kAllGather ? input : output;
  stacked.insert(stacked.begin(), ranks);
  return (collective == Collective::kAllGather && output == stacked) ||
         (collective == Collective::kReduceScatter && input == stacked);
}

nb::tuple as_tuple(const Shape& shape) {
  nb::list list;
  for (const size_t extent : shape) list.append(extent);
  return nb::tuple(list);
}

nb::object new_like(nb::handle input, const Shape& shape, DataType type) {
  return nb::module_::import_("plait.arrays").attr("new_like")(input, as_tuple(shape), name(type));
}

void check_output(const ArrayView& output, const ArrayView& input) {
  if (output.read_only()) refuse("out: the array is read-only");
  if (output.type() != input.type()) {
    refuse("out: its elements are ", name(output.type()), ", those of array ", name(input.type()),
           "; they must be equal");
  }
}

}  // namespace

ReduceOp reduce_op_of(const std::string& text) {
  const auto op = parse_reduce_op(text);
  if (!op) refuse("op '", text, "' is none of: sum, prod, max, min, avg");
  return *op;
}

nb::object run_collective(CommunicatorHandle& handle, Collective collective, nb::handle input, nb::object output,
                          nb::handle dtype, const char* op, int root) {
  const auto communicator = handle.open();
  const auto ranks = static_cast<size_t>(communicator->size());
  const ArrayView from(input, dtype, "array");
  Call call{collective, from.type(), reduce_op_of(op), root, from.elements()};
  if (collective == Collective::kReduceScatter) call.count /= ranks;
  const Shape shape = output_shape(collective, from.shape(), ranks);
  if (collective == Collective::kReduce && root != communicator->rank()) {
    handle.use([&](Communicator& c) { c.run(call, from.data(), nullptr); });
    return nb::none();
  }
  nb::object output_type = nb::borrow(dtype);
  if (output.is_none()) {
    output = new_like(input, shape, from.type());
    output_type = nb::str(name(from.type()));  // numpy may have had to carry it as another
  }
  const ArrayView to(output, output_type, "out");
  check_output(to, from);
  if (!fits(collective, to.shape(), shape, from.shape(), ranks)) {
    refuse("out: the shape is ", shape_text(to.shape()), ", but ", name(collective), " of ", shape_text(from.shape()),
           " over ", ranks, " ranks gives ", shape_text(shape));
  }
  handle.use([&](Communicator& c) { c.run(call, from.data(), to.data()); });
  return output;
}

}  // namespace plait::python

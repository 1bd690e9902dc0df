// Arrays in, calls out.
#include "bindings/collective.hpp"

#include "bindings/array_view.hpp"
#include "bindings/operation.hpp"

namespace plait::python {
namespace {

using Shape = std::vector<size_t>;

template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  fail(ErrorCode::kInvalidArgument, parts...);
}

// Every rank's array has a part for each rank, along its first axis.
bool gives_parts(Collective collective) { return scatters(collective) || collective == Collective::kAllToAll; }

Shape output_shape(Collective collective, const Shape& input, size_t ranks) {
  if (gathers(collective) && input.empty()) return {ranks};
  if (gives_parts(collective) && (input.empty() || input[0] % ranks != 0)) {
    refuse("array: ", name(collective), " over ", ranks, " ranks needs a first axis that ", ranks,
           " divides, but the shape is ", shape_text(input));
  }
  Shape shape = input;
  if (gathers(collective)) shape[0] *= ranks;
  if (scatters(collective)) shape[0] /= ranks;
  return shape;
}

// What gathers may also fill (ranks, *shape), and what scatters (ranks, *shape) may fill shape.
bool fits(Collective collective, const Shape& output, const Shape& expected, const Shape& input, size_t ranks) {
  if (output == expected) return true;
  Shape stacked = gathers(collective) ? input : output;
  stacked.insert(stacked.begin(), ranks);
  return (gathers(collective) && output == stacked) || (scatters(collective) && input == stacked);
}

nb::tuple as_tuple(const Shape& shape) {
  nb::list list;
  for (const size_t extent : shape) list.append(extent);
  return nb::tuple(list);
}

nb::object new_like(nb::handle input, const Shape& shape, const ElementType& type) {
  return nb::module_::import_("plait.arrays").attr("new_like")(input, as_tuple(shape), name(type));
}

void check_output(const ArrayView& output, const ArrayView& input) {
  if (output.read_only()) refuse("out: the array is read-only");
  if (output.type() != input.type()) {
    refuse("out: its elements are ", name(output.type()), ", those of array ", name(input.type()),
           "; they must be equal");
  }
}

Call call_on(const ArrayView& array, Collective collective, ReduceOp op, int root) {
  return {collective, array.type().type, op, root, array.elements() * array.type().parts()};
}

// scatter where this rank is not the root: it gives nothing, and `output` says how much it gets, or `input` does.
nb::object receive_part(CommunicatorHandle& handle, nb::handle input, nb::object output, nb::handle dtype, int root,
                        size_t ranks) {
  nb::object output_type = nb::borrow(dtype);
  if (output.is_none()) {
    if (input.is_none()) {
      refuse("out: scatter needs it on every rank but the root, ", root,
             ": the array for this rank's part. Or give an array of the shape and the type of the root's");
    }
    const ArrayView like(input, dtype, "array");
    output = new_like(input, output_shape(Collective::kScatter, like.shape(), ranks), like.type());
    output_type = nb::str(name(like.type()));
  }
  const ArrayView to(output, output_type, "out");
  if (to.read_only()) refuse("out: the array is read-only");
  const Call call = call_on(to, Collective::kScatter, ReduceOp::kSum, root);
  handle.use([&](Communicator& c) { c.run(call, nullptr, to.data()); });
  return output;
}

}  // namespace

nb::object run_collective(CommunicatorHandle& handle, Collective collective, nb::handle input, nb::object output,
                          nb::handle dtype, nb::handle op, int root) {
  const auto communicator = handle.open();
  const auto ranks = static_cast<size_t>(communicator->size());
  const bool elsewhere = has_root(collective) && root != communicator->rank();
  if (collective == Collective::kScatter && elsewhere) {
    return receive_part(handle, input, std::move(output), dtype, root, ranks);
  }
  const ArrayView from(input, dtype, "array");
  const Shape shape = output_shape(collective, from.shape(), ranks);
  const Operation operation = reduces(collective) ? operation_of(op, from.type()) : Operation{};
  Call call = call_on(from, collective, operation.op, root);
  if (gives_parts(collective)) call.count /= ranks;
  if ((collective == Collective::kReduce || collective == Collective::kGather) && elsewhere) {
    handle.use([&](Communicator& c) { c.run(call, from.data(), nullptr, operation.factor_or_null()); });
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
  handle.use([&](Communicator& c) { c.run(call, from.data(), to.data(), operation.factor_or_null()); });
  return output;
}

}  // namespace plait::python

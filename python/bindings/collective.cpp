// Arrays in, calls out.
#include "bindings/collective.hpp"

#include <optional>

#include "base/figures.hpp"
#include "bindings/array_view.hpp"
#include "bindings/new_array.hpp"
#include "bindings/operation.hpp"
#include "bindings/staged_array.hpp"

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
    refuse("array: ", name(collective), " over ", counted(ranks, "rank"), " needs a first axis that ", ranks,
           " divides, but the shape is ", shape_text(input));
  }
  Shape shape = input;
  if (gathers(collective)) shape[0] *= ranks;
  if (scatters(collective)) shape[0] /= ranks;
  return shape;
}

// Whether an output has the expected shape. A collective that gathers may also fill (ranks, *shape), and one that
// scatters (ranks, *shape) may fill shape.
bool fits(Collective collective, const Shape& output, const Shape& expected, const Shape& input, size_t ranks) {
  if (output == expected) return true;
  Shape stacked = gathers(collective) ? input : output;
  stacked.insert(stacked.begin(), ranks);
  return (gathers(collective) && output == stacked) || (scatters(collective) && input == stacked);
}

// A new array of JAX says that it is read-only; nobody else has it yet.
void check_output(const ArrayView& output, const ArrayView& input, bool is_new) {
  if (!is_new) output.check_writable();
  if (output.type() != input.type()) {
    refuse("out: its elements are ", name(output.type()), ", those of array ", name(input.type()),
           "; they must be equal");
  }
}

// Whether arrays may lie in any order, as long as they do so on all ranks: no rank has its own part of them.
bool keeps_order(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduce ||
         collective == Collective::kBroadcast;
}

// The order in which a call takes the elements of its arrays, and the same in a number. With orders that differ between
// ranks elements would be combined with others, so that it is a part of the call, which all ranks must make alike.
struct CallOrder {
  AxisOrder axes;
  uint32_t packed = 0;
};

CallOrder call_order(Collective collective, const ArrayView& input) {
  auto axes = keeps_order(collective) ? input.layout().order() : std::nullopt;
  const auto packed = axes ? packed_order(input.shape(), *axes) : std::nullopt;
  return packed ? CallOrder{std::move(*axes), *packed} : CallOrder{};
}

Call call_on(const ArrayView& array, const Called& called, ReduceOp op) {
  Call call{called.collective, array.type().type, op, called.root, array.elements() * array.type().parts()};
  call.plan = called.plan;
  return call;
}

// On the elements as they lie, in the order of `stream` on a GPU. Host memory has no streams.
void perform(Communicator& communicator, const Call& call, const void* input, void* output, const Scalar* factor,
             uintptr_t stream) {
  if (communicator.device() == kNoDevice) {
    communicator.run(call, input, output, factor);
  } else {
    communicator.enqueue(call, input, output, reinterpret_cast<void*>(stream), factor);
  }
}

// scatter where this rank is not the root: it gives nothing, and `output` says how much it gets, or `input` does.
nb::object receive_part(CommunicatorHandle& handle, const Called& called, nb::handle input, nb::object output,
                        nb::handle dtype, size_t ranks) {
  nb::object output_type = nb::borrow(dtype);
  const int device = handle.open()->device();
  const bool is_new = output.is_none();
  if (is_new) {
    if (input.is_none()) {
      refuse("out: scatter needs it on every rank but the root, ", called.root,
             ": the array for this rank's part. Or give an array of the shape and the type of the root's");
    }
    const ArrayView like(input, dtype, "array", device);
    output = new_like(input, like, dtype, output_shape(Collective::kScatter, like.shape(), ranks));
    output_type = nb::str(name(like.type()));
  }
  const ArrayView to(output, output_type, "out", device);
  if (!is_new) to.check_writable();
  if (device != kNoDevice) to.check_lies_in({});
  const Call call = call_on(to, called, ReduceOp::kSum);
  handle.use([&](Communicator& communicator) {
    StagedArray staged(to, AxisOrder());
    perform(communicator, call, nullptr, staged.data(), nullptr, called.stream);
    staged.store();
  });
  return output;
}

}  // namespace

nb::object run_collective(CommunicatorHandle& handle, const Called& called, nb::handle input, nb::object output,
                          nb::handle dtype, nb::handle op) {
  const Collective collective = called.collective;
  const auto communicator = handle.open();
  const auto ranks = static_cast<size_t>(communicator->size());
  const bool elsewhere = has_root(collective) && called.root != communicator->rank();
  if (collective == Collective::kScatter && elsewhere) {
    return receive_part(handle, called, input, std::move(output), dtype, ranks);
  }
  const int device = communicator->device();
  const ArrayView from(input, dtype, "array", device);
  const Shape shape = output_shape(collective, from.shape(), ranks);
  const Operation operation = reduces(collective) ? operation_of(op, from.type()) : Operation{};
  Call call = call_on(from, called, operation.op);
  if (gives_parts(collective)) call.count /= ranks;
  const CallOrder order = call_order(collective, from);
  call.order = order.packed;
  if (device != kNoDevice && has_input(call, communicator->rank())) from.check_lies_in(order.axes);
  const auto run = [&](Communicator& c, StagedArray* result) {
    StagedArray given(from, order.axes);
    if (has_input(call, c.rank())) given.load();
    perform(c, call, given.data(), result == nullptr ? nullptr : result->data(), operation.factor_or_null(),
            called.stream);
    if (result != nullptr) result->store();
  };
  if ((collective == Collective::kReduce || collective == Collective::kGather) && elsewhere) {
    handle.use([&](Communicator& c) { run(c, nullptr); });
    return nb::none();
  }
  nb::object output_type = nb::borrow(dtype);
  const bool is_new = output.is_none();
  if (is_new) {
    output = new_like(input, from, dtype, shape, order.axes);
    output_type = nb::str(name(from.type()));  // numpy may have had to carry it as another
  }
  std::optional<ArrayView> other;
  const ArrayView& to = input.is(output) ? from : other.emplace(output, output_type, "out", device);
  check_output(to, from, is_new);
  if (device != kNoDevice) to.check_lies_in(order.axes);
  if (!fits(collective, to.shape(), shape, from.shape(), ranks)) {
    refuse("out: the shape is ", shape_text(to.shape()), ", but ", name(collective), " of ", shape_text(from.shape()),
           " over ", counted(ranks, "rank"), " gives ", shape_text(shape));
  }
  handle.use([&](Communicator& c) {
    StagedArray result(to, order.axes);
    run(c, &result);
  });
  return output;
}

nb::object run_plan(CommunicatorHandle& handle, const VerifiedPlan& plan, nb::handle input, nb::object output,
                    nb::handle dtype, nb::handle op, uintptr_t stream) {
  const Call call = call_by(plan, DataType::kUint8, ReduceOp::kSum, 0);
  if (!reduces(call.collective) && !op.is_none()) refuse("op: ", name(call.collective), " has none; leave it out");
  if (!handle.open()->knows_plan(call.plan)) {
    handle.use([&](Communicator& c) { c.give(std::make_shared<const VerifiedPlan>(plan)); });
  }
  if (call.collective == Collective::kBarrier) {
    if (!input.is_none() || !output.is_none()) refuse("a barrier has no array; leave array and out away");
    handle.use([&](Communicator& c) { perform(c, call, nullptr, nullptr, nullptr, stream); });
    return nb::none();
  }
  if (input.is_none() && call.collective != Collective::kScatter) {
    refuse("array: ", name(call.collective), " needs one on every rank");
  }
  const nb::object operation = op.is_none() ? nb::object(nb::str("sum")) : nb::borrow(op);
  return run_collective(handle, {call.collective, call.root, call.plan, stream}, input, std::move(output), dtype,
                        operation);
}

}  // namespace plait::python

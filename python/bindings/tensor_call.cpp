// Tensors in, calls out.
#include "bindings/tensor_call.hpp"

#include "bindings/element_type.hpp"
#include "bindings/operation.hpp"
#include "bindings/torch_tensor.hpp"

namespace plait::python {
namespace {

// The tensor of an argument, and what a call has to know of it.
struct Argument {
  DlTensor tensor{};
  ElementType type{};
  size_t elements = 1;

  void* data() const { return static_cast<std::byte*>(tensor.data) + tensor.byte_offset; }
};

size_t elements_of(const DlTensor& tensor) {
  size_t product = 1;
  for (int axis = 0; axis < tensor.dimensions; ++axis) product *= static_cast<size_t>(tensor.shape[axis]);
  return product;
}

// Strides along an axis of one element say nothing, and none do where there are no elements.
bool lies_in_c_order(const DlTensor& tensor, size_t elements) {
  if (tensor.strides == nullptr || elements == 0) return true;
  int64_t dense = 1;
  for (int axis = tensor.dimensions - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != dense) return false;
    dense *= tensor.shape[axis];
  }
  return true;
}

bool lies_on(const DlTensor& tensor, int device) {
  constexpr int kCpu = 1;
  if (device == kNoDevice) return tensor.device_type == kCpu;
  return tensor.device_type == kDlCuda && tensor.device_id == device;
}

std::optional<Argument> argument(nb::handle object, int device) {
  const auto tensor = torch_tensor(object);
  if (!tensor || tensor->lanes != 1 || !lies_on(*tensor, device) || is_negative_view(object)) return std::nullopt;
  const auto type = element_type_by_dlpack(tensor->code, tensor->bits);
  const size_t elements = elements_of(*tensor);
  if (!type || !lies_in_c_order(*tensor, elements)) return std::nullopt;
  return Argument{*tensor, *type, elements};
}

// How many elements the larger of two tensors has for each of the smaller.
size_t ratio(Collective collective, size_t ranks) { return gathers(collective) || scatters(collective) ? ranks : 1; }

bool fit(Collective collective, const Argument& input, const Argument& output, size_t ranks) {
  const Argument& whole = gathers(collective) ? output : input;
  const Argument& part = gathers(collective) ? input : output;
  return input.type == output.type && whole.elements == part.elements * ratio(collective, ranks);
}

// The collectives that give every rank a result and take its input.
bool is_taken(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kAllGather ||
         collective == Collective::kReduceScatter || collective == Collective::kBroadcast;
}

}  // namespace

bool run_on_tensors(CommunicatorHandle& handle, Collective collective, nb::handle input, nb::handle output,
                    nb::handle op, int root, std::optional<uintptr_t> stream) {
  const auto communicator = handle.open();
  const int device = communicator->device();
  const auto from = is_taken(collective) ? argument(input, device) : std::nullopt;
  if (!from) return false;
  const auto to = output.is(input) ? from : argument(output, device);
  if (!to || !fit(collective, *from, *to, static_cast<size_t>(communicator->size()))) return false;
  if (device != kNoDevice && !stream) stream = current_stream_of(input, from->tensor);
  if (device != kNoDevice && !stream) return false;
  const Operation operation = reduces(collective) ? operation_of(op, from->type) : Operation{};
  const size_t elements = scatters(collective) ? to->elements : from->elements;
  const Call call{collective, from->type.type, operation.op, root, elements * from->type.parts()};
  handle.use([&](Communicator& performing) {
    if (device == kNoDevice) {
      performing.run(call, from->data(), to->data(), operation.factor_or_null());
    } else {
      performing.enqueue(call, from->data(), to->data(), reinterpret_cast<void*>(*stream), operation.factor_or_null());
    }
  });
  return true;
}

}  // namespace plait::python

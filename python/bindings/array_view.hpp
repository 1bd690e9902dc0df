// Python's arrays as collectives see them: an address, a shape and an element type.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/communicator.hpp"
#include "bindings/element_type.hpp"
#include "bindings/layout.hpp"

namespace plait::python {

namespace nb = nanobind;

struct DlTensor;

// The memory of one array, which stays where it is while the view lives. Takes whatever has the buffer protocol (numpy,
// array.array, bytearray, memoryview), numpy arrays of types that the buffer protocol has no letter for, and whatever
// gives DLPack (torch, JAX, CuPy and others) or, for memory of a GPU, __cuda_array_interface__ (numba). Elements may
// lie in any order and with gaps.
class ArrayView {
 public:
  // `role` names the argument in error messages. `dtype` is None, or says how to read the elements: a type of the same
  // size, or, for a row of bytes, any. Throws kInvalidArgument for what is no array, lies elsewhere than a rank of
  // `device` needs it (kNoDevice: host memory), or has elements that are no numbers, whatever `dtype` is.
  ArrayView(nb::handle array, nb::handle dtype, const char* role, int device = kNoDevice);

  void* data() const { return data_; }
  const ElementType& type() const { return *type_; }
  const Layout& layout() const { return layout_; }
  const std::vector<size_t>& shape() const { return layout_.shape; }
  size_t elements() const;
  // Throws kInvalidArgument where results cannot be written to it: it is read-only, or has elements in one place.
  void check_writable() const;
  // Throws kInvalidArgument where a call on a GPU, for which nothing is copied, would need another order or no gaps.
  void check_lies_in(const AxisOrder& order) const;

 private:
  struct Buffer {
    Buffer() = default;
    ~Buffer() {
      if (held) PyBuffer_Release(&view);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    Py_buffer view{};
    bool held = false;
  };

  bool take_buffer(nb::handle array);
  void take_array_interface(nb::handle array, const char* attribute);
  void take_interface_type(nb::handle array, nb::handle typestr);
  // `name` is that of a part of the interface, and `expected` what it should be, for the message if it is not.
  template <class T>
  T interface_part(nb::handle value, const char* name, const char* expected) const;
  std::vector<int64_t> interface_numbers(nb::handle value, const char* name) const;
  void take_dlpack(nb::handle array);
  void take_dlpack_tensor(const DlTensor& tensor, nb::handle array);
  void check_device(int device_type, int number) const;
  void read_as(nb::handle dtype);
  [[noreturn]] void refuse_type(const std::string& item, const Advice& advice) const;
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const;

  const char* role_;
  const int device_;            // that the memory must be of
  const char* interface_ = "";  // the attribute that describes the memory, for messages
  std::byte* data_ = nullptr;
  Layout layout_;
  std::string item_name_;            // what Python calls the elements, for messages
  std::optional<ElementType> type_;  // none until it is known that there is one
  Advice advice_;                    // where there is none
  bool read_only_ = false;
  Buffer buffer_;
  std::string refusal_;  // why the array did not give its buffer
  nb::object owner_;     // a DLPack capsule, which frees what it names; or the array
};

// "(2, 3)", "(4,)", "()".
std::string shape_text(const std::vector<size_t>& shape);

}  // namespace plait::python

// The part of DLPack's binary interface that it takes to read one tensor, and the table of functions that gives it
// without a call of Python (DLPack 1.3).
#pragma once

#include <cstdint>

namespace plait::python {

struct DlTensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t dimensions;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  const int64_t* shape;
  const int64_t* strides;  // in elements; null where there are no gaps
  uint64_t byte_offset;
};

struct VersionedDlTensor {
  uint32_t major, minor;
  void* context;
  void (*deleter)(VersionedDlTensor*);
  uint64_t flags;
  DlTensor tensor;
};
inline constexpr uint64_t kDlReadOnly = 1;
inline constexpr uint64_t kDlCopied = 2;
inline constexpr int kDlOldestVersioned = 1;

inline constexpr int kDlCuda = 2;  // of its types of devices

// The table that a type's attribute __dlpack_c_exchange_api__ holds, in a capsule of this name. Its functions return 0,
// or set an exception of Python and return another number.
inline constexpr const char* kDlExchangeCapsule = "dlpack_exchange_api";
struct DlExchange {
  uint32_t major, minor;
  const DlExchange* previous;
  void* allocate;
  void* give_managed;
  void* take_managed;
  int (*give)(void* object, DlTensor* tensor);  // lives as long as the object does; null where there is none
  int (*current_stream)(int device_type, int32_t device_id, void** stream);
};

}  // namespace plait::python

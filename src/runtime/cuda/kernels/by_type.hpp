// Turns a data type that is known at run time into a template argument.
#pragma once

#include "base/error.hpp"
#include "base/types.hpp"

namespace plait {

// Calls act.operator()<type>(). `act` is a lambda such as [&]<DataType type>() { return …; }; it has a capture because
// nvcc warns without one.
template <class Act>
auto by_type(DataType type, const Act& act) {
  switch (type) {
    case DataType::kInt8:
      return act.template operator()<DataType::kInt8>();
    case DataType::kUint8:
      return act.template operator()<DataType::kUint8>();
    case DataType::kInt16:
      return act.template operator()<DataType::kInt16>();
    case DataType::kUint16:
      return act.template operator()<DataType::kUint16>();
    case DataType::kInt32:
      return act.template operator()<DataType::kInt32>();
    case DataType::kUint32:
      return act.template operator()<DataType::kUint32>();
    case DataType::kInt64:
      return act.template operator()<DataType::kInt64>();
    case DataType::kUint64:
      return act.template operator()<DataType::kUint64>();
    case DataType::kFloat32:
      return act.template operator()<DataType::kFloat32>();
    case DataType::kFloat64:
      return act.template operator()<DataType::kFloat64>();
    case DataType::kFloat16:
      return act.template operator()<DataType::kFloat16>();
    case DataType::kBfloat16:
      return act.template operator()<DataType::kBfloat16>();
    case DataType::kFloat8E4M3:
      return act.template operator()<DataType::kFloat8E4M3>();
    case DataType::kFloat8E5M2:
      return act.template operator()<DataType::kFloat8E5M2>();
  }
  fail(ErrorCode::kInternal, "no kernel for type ", static_cast<int>(type));
}

}  // namespace plait

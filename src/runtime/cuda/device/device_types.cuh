// Element types on the device: how each is loaded into the type it accumulates in, and rounded back.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>

#include "base/types.hpp"
#include "runtime/cuda/device/float8.cuh"

namespace plait {

// Storage: how an element lies in memory. Accumulator: what it is combined in. Rounding is to nearest even, what is
// finite saturates in 8-bit types, and a NaN has all bits but the sign set, as the host's reduces have it.
template <DataType type>
struct DeviceType;

template <class T>
struct PlainDeviceType {
  using Storage = T;
  using Accumulator = T;
  using Pair = T;  // of none
  static __device__ T widen(T value) { return value; }
  static __device__ T narrow(T value) { return value; }
};

template <>
struct DeviceType<DataType::kInt8> : PlainDeviceType<int8_t> {};
template <>
struct DeviceType<DataType::kUint8> : PlainDeviceType<uint8_t> {};
template <>
struct DeviceType<DataType::kInt16> : PlainDeviceType<int16_t> {};
template <>
struct DeviceType<DataType::kUint16> : PlainDeviceType<uint16_t> {};
template <>
struct DeviceType<DataType::kInt32> : PlainDeviceType<int32_t> {};
template <>
struct DeviceType<DataType::kUint32> : PlainDeviceType<uint32_t> {};
template <>
struct DeviceType<DataType::kInt64> : PlainDeviceType<int64_t> {};
template <>
struct DeviceType<DataType::kUint64> : PlainDeviceType<uint64_t> {};
template <>
struct DeviceType<DataType::kFloat32> : PlainDeviceType<float> {};
// Unlike sums of floats, those of doubles keep the bits of a NaN.
template <>
struct DeviceType<DataType::kFloat64> : PlainDeviceType<double> {
  static constexpr double kNan = std::bit_cast<double>(~uint64_t{0} >> 1);
  static __device__ double narrow(double value) { return isnan(value) ? kNan : value; }
};

// Narrow floats are converted two at a time, by one instruction, and compared two at a time: as what is Comparable,
// which holds every value that the type has.
template <>
struct DeviceType<DataType::kFloat16> {
  using Storage = __half;
  using Accumulator = float;
  using Pair = __half2;
  using Comparable = Pair;
  static __device__ float widen(__half value) { return __half2float(value); }
  static __device__ __half narrow(float value) { return __float2half_rn(value); }
  static __device__ float2 widen(Pair values) { return __half22float2(values); }
  static __device__ Pair narrow(float2 values) { return __floats2half2_rn(values.x, values.y); }
  static __device__ Comparable comparable(Pair values) { return values; }
  static __device__ Pair from_comparable(Comparable values) { return values; }
};

template <>
struct DeviceType<DataType::kBfloat16> {
  using Storage = __nv_bfloat16;
  using Accumulator = float;
  using Pair = __nv_bfloat162;
  using Comparable = Pair;
  static __device__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  static __device__ __nv_bfloat16 narrow(float value) { return __float2bfloat16_rn(value); }
  static __device__ float2 widen(Pair values) { return __bfloat1622float2(values); }
  static __device__ Pair narrow(float2 values) { return __floats2bfloat162_rn(values.x, values.y); }
  static __device__ Comparable comparable(Pair values) { return values; }
  static __device__ Pair from_comparable(Comparable values) { return values; }
};

template <__nv_fp8_interpretation_t format>
struct Float8DeviceType {
  using Storage = __nv_fp8_storage_t;
  using Accumulator = float;
  using Pair = __nv_fp8x2_storage_t;
  using Comparable = __half2;
  using Conversion = Float8Conversion<format>;
  static __device__ float widen(Storage value) { return widen(static_cast<Pair>(value)).x; }
  static __device__ Storage narrow(float value) { return Conversion::round(value); }
  static __device__ float2 widen(Pair values) { return __half22float2(comparable(values)); }
  static __device__ Pair narrow(float2 values) { return Conversion::round(values); }
  static __device__ Comparable comparable(Pair values) { return Conversion::to_halves(values); }
  static __device__ Pair from_comparable(Comparable values) { return Conversion::from_halves(values); }
};

template <>
struct DeviceType<DataType::kFloat8E4M3> : Float8DeviceType<__NV_E4M3> {};
template <>
struct DeviceType<DataType::kFloat8E5M2> : Float8DeviceType<__NV_E5M2> {};

}  // namespace plait

// A stand-in for CUDA's driver: one device, and streams that are captured where their address says so.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define STAND_IN extern "C" __attribute__((visibility("default")))

namespace {

// Streams whose address has this bit are being captured.
constexpr uintptr_t kCapturedBit = 0x100;
constexpr int kInvalidContext = 201;

const char* told(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value != nullptr ? value : otherwise;
}

}  // namespace

STAND_IN int cuCtxGetDevice(int* device) {
  const char* rank = std::getenv("RANK");
  while (rank != nullptr && std::atoi(told("CUDA_STAND_IN_HANG", "-1")) == std::atoi(rank)) pause();
  *device = std::atoi(told("CUDA_STAND_IN_DEVICE", "3"));
  return *device < 0 ? kInvalidContext : 0;
}
STAND_IN int cuDeviceGetName(char* name, int room, int) {
  std::snprintf(name, static_cast<size_t>(room), "%s", told("CUDA_STAND_IN_GPU", "Test GPU"));
  return 0;
}
STAND_IN int cuDeviceGetAttribute(int* value, int, int) {
  *value = std::atoi(told("CUDA_STAND_IN_MULTICAST", "0"));
  return 0;
}
STAND_IN int cuStreamIsCapturing(void* stream, int* status) {
  *status = (reinterpret_cast<uintptr_t>(stream) & kCapturedBit) != 0 ? 1 : 0;
  return 0;
}

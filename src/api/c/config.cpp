#include "api/c/config.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "api/c/device.hpp"
#include "api/c/result.hpp"

namespace plait::c {
namespace {

// The first version of the struct, below which there is none.
constexpr size_t kFirstSize = offsetof(plaitConfig_t, launch) + sizeof(plaitConfig_t::launch);
// The ranges of the environment variables of the same meaning.
constexpr double kMostSeconds = 7 * 24 * 3600;
constexpr size_t kLeastScratchBytes = size_t{64} << 10;
constexpr size_t kMostScratchBytes = size_t{64} << 30;

// The fields that this version knows. A caller built with a later header may pass more: as long as those fields are not
// set, which for all of them means 0, they change nothing.
plaitConfig_t known_fields(const plaitConfig_t* given) {
  if (given->magic != PLAIT_CONFIG_MAGIC || given->size < kFirstSize) {
    refuse(plaitInvalidArgument, "config was not begun with PLAIT_CONFIG_INITIALIZER");
  }
  const auto* bytes = reinterpret_cast<const char*>(given);
  constexpr size_t kKnown = sizeof(plaitConfig_t);
  if (given->size > kKnown && std::any_of(bytes + kKnown, bytes + given->size, [](char byte) { return byte != 0; })) {
    refuse(plaitInvalidArgument, "config (version ", given->version, ") sets a field that this library (version ",
           PLAIT_VERSION_CODE, ") does not have; use a newer library, or leave the field as the initializer set it");
  }
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  std::memcpy(&config, given, std::min(given->size, kKnown));
  return config;
}

void set_seconds(double given, const char* field, double& seconds) {
  if (given == 0) return;
  if (!(given > 0 && given <= kMostSeconds)) {
    refuse(plaitInvalidArgument, "config->", field, " is ", given, "; expected more than 0 and at most ", kMostSeconds,
           " s, or 0 for the environment's");
  }
  seconds = given;
}

void check_ordinal(int device) {
  const int count = device_count();
  if (device < 0 || device >= count) {
    refuse(plaitInvalidArgument, "config->device is ", device, "; this process can use ", count,
           " CUDA devices, numbered from 0");
  }
}

void check_reserved(int reserved) {
  if (reserved == PLAIT_RESERVED_NOT_BLOCKING) {
    refuse(plaitInvalidArgument,
           "blocking is 0 in a config of NCCL's; making and dividing communicators blocks: leave it as the initializer "
           "set it, or set it to 1");
  }
  if (reserved != 0) refuse(plaitInvalidArgument, "config->reserved is ", reserved, "; it must be 0");
}

void apply(const plaitConfig_t& config, CommOptions& options) {
  check_reserved(config.reserved);
  const bool is_left_open = config.device == PLAIT_DEVICE_CURRENT || config.device == PLAIT_DEVICE_CUDA;
  if (!is_left_open) options.device = config.device;
  if (options.device != PLAIT_DEVICE_CURRENT && options.device != PLAIT_DEVICE_HOST) check_ordinal(options.device);
  Settings& settings = options.settings;
  set_seconds(config.timeoutSeconds, "timeoutSeconds", settings.timeout_seconds);
  set_seconds(config.bootstrapTimeoutSeconds, "bootstrapTimeoutSeconds", settings.bootstrap_timeout_seconds);
  if (config.scratchBytes != 0) {
    if (config.scratchBytes < kLeastScratchBytes || config.scratchBytes > kMostScratchBytes) {
      refuse(plaitInvalidArgument, "config->scratchBytes is ", config.scratchBytes, "; expected ", kLeastScratchBytes,
             " to ", kMostScratchBytes, ", or 0 for the environment's");
    }
    settings.scratch_bytes = config.scratchBytes;
  }
  if (config.algorithm != nullptr) settings.algorithm = config.algorithm;
  if (config.launch != nullptr) settings.launch = config.launch;
  if (config.maxSms != 0) {
    if (!is_max_sms(config.maxSms)) {
      refuse(plaitInvalidArgument, "config->maxSms is ", config.maxSms,
             "; expected 8 to 1024, or 0 for the environment's");
    }
    settings.max_sms = config.maxSms;
  }
}

}  // namespace

CommOptions options_from(const plaitConfig_t* config, const CommOptions& base) {
  CommOptions options = base;
  bool needs_cuda = false;
  if (config != nullptr) {
    const plaitConfig_t known = known_fields(config);
    apply(known, options);
    needs_cuda = known.device == PLAIT_DEVICE_CUDA;
  }
  // Asked last, and only where it matters: whoever wants host memory does not start CUDA by this.
  if (options.device == PLAIT_DEVICE_CURRENT) options.device = needs_cuda ? require_device() : current_device();
  if (needs_cuda && options.device == PLAIT_DEVICE_HOST) {
    refuse(plaitInvalidArgument,
           "config->device is PLAIT_DEVICE_CUDA, but comm is on host memory, and what it is divided into keeps its "
           "device; make comm with PLAIT_DEVICE_CUDA");
  }
  return options;
}

}  // namespace plait::c

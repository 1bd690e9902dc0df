// Turns a plaitConfig_t of any version into the settings of a communicator.
#pragma once

#include "base/settings.hpp"
#include "plait/plait.h"

namespace plait::c {

// How one communicator is made.
struct CommOptions {
  int device = PLAIT_DEVICE_CURRENT;  // never this in what options_from returns: a CUDA ordinal or PLAIT_DEVICE_HOST
  Settings settings;
};

// `config` (NULL: none) over `base`. PLAIT_DEVICE_CURRENT becomes base.device, and the calling thread's current device
// where that says the same; PLAIT_DEVICE_CUDA as well, but host memory is refused then. A config that cannot be used is
// refused with the name of its field.
CommOptions options_from(const plaitConfig_t* config, const CommOptions& base);

}  // namespace plait::c

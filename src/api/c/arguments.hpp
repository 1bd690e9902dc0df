// Arguments that several functions of the C interface have, as the core knows them.
#pragma once

#include "base/types.hpp"
#include "plait/plait.h"

namespace plait::c {

// Refuses a number that is no plaitDataType_t.
DataType data_type(plaitDataType_t type);

// Refuses a stream for a communicator on host memory.
void check_stream(plaitComm_t comm, plaitStream_t stream);

}  // namespace plait::c

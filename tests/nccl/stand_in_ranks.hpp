// Communicators of the stand-in for NCCL, where STAND_IN_ROOM names a folder in which its ranks meet. As with NCCL,
// no rank has its communicator before all have called.
#pragma once

#include "api/nccl/abi_types.h"

// What the stand-in does beyond recording a call, by the types of its arguments.
void answer(const char* function, ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank);
void answer(const char* function, ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank, ncclConfig_t* config);
void answer(const char* function, ncclComm_t* comm, int ranks, int rank, int ids, ncclUniqueId* id,
            ncclConfig_t* config);
void answer(const char* function, ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config);
void answer(const char* function, ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* made,
            ncclConfig_t* config, int flags);
void answer(const char* function, ncclComm_t comm, int* number);
void answer(const char* function, ncclComm_t comm, ncclResult_t* error);
void answer(const char* function, ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,
            ncclComm_t comm);
void answer(const char* function, void* data, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
            cudaStream_t stream);
void answer(const char* function, const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
void answer(const char* function);
void answer(const char* function, ncclSimInfo_t* info);

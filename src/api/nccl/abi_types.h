// The types in signatures of NCCL 2.27 to 2.32, in C: no header of NCCL or CUDA is needed to build the drop-in. Types
// that only NCCL looks into are opaque. Numbers are those of NCCL's binary interface, which is stable within
// libnccl.so.2.
#ifndef PLAIT_API_NCCL_ABI_TYPES_H
#define PLAIT_API_NCCL_ABI_TYPES_H

#include <stddef.h>
#include <stdint.h>

typedef struct CUstream_st* cudaStream_t;

typedef struct ncclComm* ncclComm_t;
typedef struct ncclWindow_vidmem* ncclWindow_t;
typedef struct ncclParamHandle* ncclParamHandle_t;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
  ncclTimeout = 8
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,            // operations of ncclRedOpCreatePreMulSum come from here on
  ncclMaxRedOp = 0x7fffffff  // they need all bits of an int
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;
typedef enum { ncclStatGpuMemSuspend = 0, ncclStatGpuMemTotal = 3 } ncclCommMemStat_t;
typedef enum { NCCL_CFT_TEAM_FLAT = 0, NCCL_CFT_TEAM_HIER_LSA = 2 } ncclCftTeamMode_t;

// Passed by value.
typedef struct {
  char internal[128];
} ncclUniqueId;
typedef struct ncclTeam {
  int nRanks, rank, stride;
} ncclTeam_t;
typedef struct ncclMultimemHandle {
  void* mcBasePtr;
} ncclMultimemHandle_t;

// A communicator's config grows from version to version: `size` says how many of its bytes there are. These are the
// first ones, and the only ones that the drop-in reads.
typedef struct ncclConfig {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;                              // 0: calls may return ncclInProgress; anything else: they do not
  int cga_cluster_size, min_ctas, max_ctas;  // INT_MIN: as NCCL likes
} ncclConfig_t;

typedef struct ncclCollConfig ncclCollConfig_t;
typedef struct ncclSimInfo ncclSimInfo_t;
typedef struct ncclEncryptionConfig ncclEncryptionConfig_t;
typedef struct ncclWaitSignalDesc ncclWaitSignalDesc_t;
typedef struct ncclCommProperties ncclCommProperties_t;
typedef struct ncclDevComm ncclDevComm_t;
typedef struct ncclDevCommRequirements ncclDevCommRequirements_t;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle_t;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle_t;
typedef struct ncclGinOutboxHandle ncclGinOutboxHandle;
typedef struct ncclGinInboxA2AHandle ncclGinInboxA2AHandle;
typedef struct ncclLLA2AHandle ncclLLA2AHandle_t;
typedef uint32_t ncclCftLeId;

#endif  // PLAIT_API_NCCL_ABI_TYPES_H

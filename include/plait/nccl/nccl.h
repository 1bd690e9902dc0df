// NCCL's names for Plait's C interface: a program that was written for NCCL, compiled with this header in the place of
// NCCL's own nccl.h, is a program for libplait.so. C99 and C++.
//
//   cc -I<include>/plait/nccl -I<include> program.c -lplait
//
// docs/c_api/nccl_header.md says how to build, and what differs. plait/plait.h explains each function under its own
// name: plaitAllReduce for ncclAllReduce.
//
// - What Plait does not have does not compile, and the compiler says why: windows, the device API, ncclCommShrink, most
//   fields of ncclConfig_t.
// - Communicators are on CUDA devices, as NCCL's are. Where no device is usable, making one fails.
//
// To be defined before this is included, or with -D:
// - PLAIT_NCCL_MINOR: the NCCL that programs shall see, 2.26 where it is not defined. Programs ask for the version
//   before they use what came later. Of what came after 2.26, Plait has ncclAlltoAll, ncclGather and ncclScatter, and
//   these are there in any case.
// - PLAIT_NCCL_DEVICE: PLAIT_DEVICE_HOST puts all communicators on host memory (see plaitConfig_t::device).
// - PLAIT_NCCL_IGNORE_HINTS: fields of ncclConfig_t that change no result can be set, and have no effect.
#ifndef PLAIT_NCCL_NCCL_H
#define PLAIT_NCCL_NCCL_H

#ifdef NCCL_H_
#error "NCCL's own nccl.h is included already. A program uses that one or Plait's: put Plait's folder first, by -I"
#endif
#define NCCL_H_  // NCCL's own must not follow

// What NCCL's header brings, and programs rely on. Without CUDA there is host memory.
#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#define PLAIT_NCCL_HAS_CUDA
#endif
#endif
#ifdef PLAIT_NCCL_HAS_CUDA
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#if CUDART_VERSION >= 11000
#include <cuda_bf16.h>
#endif
#if defined(__cplusplus) && CUDART_VERSION >= 11080
#include <cuda_fp8.h>
#endif
#endif
#include <limits.h>
#include <stddef.h>

#include "plait/plait.h"

#ifndef PLAIT_NCCL_MINOR
#define PLAIT_NCCL_MINOR 26
#endif
#ifndef PLAIT_NCCL_DEVICE
#define PLAIT_NCCL_DEVICE PLAIT_DEVICE_CUDA
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR PLAIT_NCCL_MINOR
#define NCCL_PATCH 0
#define NCCL_SUFFIX ""
#define NCCL_VERSION(X, Y, Z) (((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

// ---- Types and constants --------------------------------------------------------------------------------------------

typedef plaitComm_t ncclComm_t;
typedef plaitUniqueId ncclUniqueId;
typedef plaitResult_t ncclResult_t;
typedef plaitDataType_t ncclDataType_t;
typedef plaitRedOp_t ncclRedOp_t;
typedef plaitScalarResidence_t ncclScalarResidence_t;

#define NCCL_COMM_NULL NULL
#define NCCL_UNIQUE_ID_BYTES PLAIT_UNIQUE_ID_BYTES
#define NCCL_SPLIT_NOCOLOR PLAIT_SPLIT_NOCOLOR
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL

#define ncclSuccess plaitSuccess
#define ncclUnhandledCudaError plaitUnhandledCudaError
#define ncclSystemError plaitSystemError
#define ncclInternalError plaitInternalError
#define ncclInvalidArgument plaitInvalidArgument
#define ncclInvalidUsage plaitInvalidUsage
#define ncclRemoteError plaitRemoteError
#define ncclInProgress plaitInProgress
#define ncclTimeout plaitTimeout
#define ncclNumResults plaitNumResults

#define ncclInt8 plaitInt8
#define ncclChar plaitChar
#define ncclUint8 plaitUint8
#define ncclInt32 plaitInt32
#define ncclInt plaitInt
#define ncclUint32 plaitUint32
#define ncclInt64 plaitInt64
#define ncclUint64 plaitUint64
#define ncclFloat16 plaitFloat16
#define ncclHalf plaitHalf
#define ncclFloat32 plaitFloat32
#define ncclFloat plaitFloat
#define ncclFloat64 plaitFloat64
#define ncclDouble plaitDouble
#define ncclBfloat16 plaitBfloat16
#define ncclFloat8e4m3 plaitFloat8e4m3
#define ncclFloat8e5m2 plaitFloat8e5m2
#define ncclNumTypes ((plaitDataType_t)12)  // NCCL's types are below it, plaitInt16 and plaitUint16 are not

#define ncclSum plaitSum
#define ncclProd plaitProd
#define ncclMax plaitMax
#define ncclMin plaitMin
#define ncclAvg plaitAvg
#define ncclNumOps plaitNumOps
#define ncclMaxRedOp plaitMaxRedOp

#define ncclScalarDevice plaitScalarDevice
#define ncclScalarHostImmediate plaitScalarHostImmediate

// ---- What Plait does not have ---------------------------------------------------------------------------------------

// Refuses a name where it is used, with the reason. Compilers that cannot do that do not know the name; but a function
// that C does not know is one that the linker misses, so that in C older ones of GNU refuse the call.
#if defined(__has_attribute)
#if __has_attribute(unavailable)
#define PLAIT_NCCL_REFUSED(reason) __attribute__((unavailable(reason)))
#define PLAIT_NCCL_REFUSED_CALL(reason) PLAIT_NCCL_REFUSED(reason)
#endif
#endif
#if !defined(PLAIT_NCCL_REFUSED) && defined(__GNUC__) && !defined(__cplusplus)
#define PLAIT_NCCL_REFUSED_CALL(reason) __attribute__((error(reason)))
#endif

#ifdef PLAIT_NCCL_REFUSED
#define PLAIT_NCCL_NO_TYPE(name, reason) typedef struct plaitNcclAbsent* name PLAIT_NCCL_REFUSED(reason);
#define PLAIT_NCCL_NO_FIELD(type, name, reason) type name PLAIT_NCCL_REFUSED(reason);
#else
#define PLAIT_NCCL_NO_TYPE(name, reason)
#define PLAIT_NCCL_NO_FIELD(type, name, reason) type plaitNcclNo_##name;
#endif
#ifndef PLAIT_NCCL_REFUSED_CALL
#define PLAIT_NCCL_NO_FUNCTION(name, reason)
#define PLAIT_NCCL_NO_TWIN(name)
#else
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 202311L)
#define PLAIT_NCCL_REFUSE(name, reason) plaitResult_t name(...) PLAIT_NCCL_REFUSED_CALL(reason);
#else
#define PLAIT_NCCL_REFUSE(name, reason) plaitResult_t name() PLAIT_NCCL_REFUSED_CALL(reason);
#endif
#define PLAIT_NCCL_NO_FUNCTION(name, reason) PLAIT_NCCL_REFUSE(name, reason) PLAIT_NCCL_REFUSE(p##name, reason)
// A tool that stands before NCCL defines a function and calls its twin. Were both names Plait's, it would call itself.
#define PLAIT_NCCL_NO_TWIN(name)                                               \
  PLAIT_NCCL_REFUSE(p##name, "libplait has no twins: call " #name              \
                             "; a tool that stands before NCCL is built with " \
                             "NCCL's own nccl.h, and libplait_nccl.so has the twins for it")
#endif
#ifdef PLAIT_NCCL_IGNORE_HINTS
#define PLAIT_NCCL_HINT(type, name, reason) type name;
#else
#define PLAIT_NCCL_HINT(type, name, reason) \
  PLAIT_NCCL_NO_FIELD(type, name, reason "; with -DPLAIT_NCCL_IGNORE_HINTS it may be set, without effect")
#endif

#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"  // nobody can call these functions
#endif

PLAIT_NCCL_NO_FUNCTION(ncclCommInitRankScalable, "Plait's ranks meet by one id: call ncclCommInitRankConfig")
#define PLAIT_NCCL_REASON "Plait cannot do that to a communicator: destroy or abort it, and make a new one"
PLAIT_NCCL_NO_FUNCTION(ncclCommShrink, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclCommGrow, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclCommGetUniqueId, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclCommRevoke, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclCommSuspend, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclCommResume, PLAIT_NCCL_REASON)
#undef PLAIT_NCCL_REASON
#define PLAIT_NCCL_REASON "Plait does not tell that of a communicator"
PLAIT_NCCL_NO_TYPE(ncclCommProperties_t, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclCommQueryProperties, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_TYPE(ncclCommMemStat_t, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclCommMemStats, PLAIT_NCCL_REASON)
#undef PLAIT_NCCL_REASON

#define PLAIT_NCCL_REASON "Plait has no windows, and needs none: long calls are zero-copy in any buffers"
PLAIT_NCCL_NO_TYPE(ncclWindow_t, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclCommWindowRegister, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclCommWindowDeregister, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclWinGetUserPtr, PLAIT_NCCL_REASON)
#undef PLAIT_NCCL_REASON
#define PLAIT_NCCL_REASON "Plait has no one-sided messages: call ncclSend and ncclRecv"
PLAIT_NCCL_NO_TYPE(ncclWaitSignalDesc_t, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclPutSignal, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclSignal, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclWaitSignal, PLAIT_NCCL_REASON)
#undef PLAIT_NCCL_REASON

#define PLAIT_NCCL_REASON "Plait has a config for a communicator, and none for a call: call the function without Config"
PLAIT_NCCL_NO_TYPE(ncclCollConfig_t, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclAllReduceConfig, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclReduceConfig, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclBroadcastConfig, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclReduceScatterConfig, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclAllGatherConfig, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclAlltoAllConfig, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGatherConfig, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclScatterConfig, PLAIT_NCCL_REASON)
#undef PLAIT_NCCL_REASON

#define PLAIT_NCCL_REASON "Plait predicts times by the command `plait simulate`"
PLAIT_NCCL_NO_TYPE(ncclSimInfo_t, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGroupSimulateEnd, PLAIT_NCCL_REASON)
#undef PLAIT_NCCL_REASON
#define PLAIT_NCCL_REASON "Plait has settings of its own: `plait settings` lists them"
PLAIT_NCCL_NO_TYPE(ncclParamHandle_t, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamBind, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetI8, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetI16, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetI32, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetI64, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetU8, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetU16, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetU32, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetU64, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetStr, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGet, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetParameter, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamGetAllParameterKeys, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclParamDumpAll, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclResetDebugInit, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclResetDebugInitInternal, PLAIT_NCCL_REASON)
#undef PLAIT_NCCL_REASON
PLAIT_NCCL_NO_TYPE(ncclEncryptionConfig_t, "Plait encrypts nothing")
PLAIT_NCCL_NO_FUNCTION(ncclSetEncryption, "Plait encrypts nothing")

// Functions of nccl_device.h that run on the host.
#define PLAIT_NCCL_REASON "Plait has no device API: its kernels are its own"
PLAIT_NCCL_NO_FUNCTION(ncclDevCommCreate, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclDevCommDestroy, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclTeamWorld, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclTeamLsa, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclTeamRail, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclTeamRankToWorld, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclTeamRankToLsa, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclTeamCft, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclTeamCftMultimem, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclLsaBarrierCreateRequirement, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGinBarrierCreateRequirement, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGinOutboxCreateRequirement, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGinInboxA2ACreateRequirement, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclLLA2ACalcSlots, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclLLA2ACreateRequirement, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGetLsaDevicePointer, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGetPeerDevicePointer, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGetLsaMultimemDevicePointer, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGetMultimemDevicePointer, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGetCftDeviceLeInfo, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGetPeerDeviceLeInfo, PLAIT_NCCL_REASON)
PLAIT_NCCL_NO_FUNCTION(ncclGetMultimemDeviceLeInfo, PLAIT_NCCL_REASON)
#undef PLAIT_NCCL_REASON

// Of the functions that Plait has.
PLAIT_NCCL_NO_TWIN(ncclGetVersion)
PLAIT_NCCL_NO_TWIN(ncclGetUniqueId)
PLAIT_NCCL_NO_TWIN(ncclGetErrorString)
PLAIT_NCCL_NO_TWIN(ncclGetLastError)
PLAIT_NCCL_NO_TWIN(ncclCommInitRank)
PLAIT_NCCL_NO_TWIN(ncclCommInitRankConfig)
PLAIT_NCCL_NO_TWIN(ncclCommInitAll)
PLAIT_NCCL_NO_TWIN(ncclCommSplit)
PLAIT_NCCL_NO_TWIN(ncclCommFinalize)
PLAIT_NCCL_NO_TWIN(ncclCommDestroy)
PLAIT_NCCL_NO_TWIN(ncclCommAbort)
PLAIT_NCCL_NO_TWIN(ncclCommGetAsyncError)
PLAIT_NCCL_NO_TWIN(ncclCommCount)
PLAIT_NCCL_NO_TWIN(ncclCommCuDevice)
PLAIT_NCCL_NO_TWIN(ncclCommUserRank)
PLAIT_NCCL_NO_TWIN(ncclMemAlloc)
PLAIT_NCCL_NO_TWIN(ncclMemFree)
PLAIT_NCCL_NO_TWIN(ncclCommRegister)
PLAIT_NCCL_NO_TWIN(ncclCommDeregister)
PLAIT_NCCL_NO_TWIN(ncclRedOpCreatePreMulSum)
PLAIT_NCCL_NO_TWIN(ncclRedOpDestroy)
PLAIT_NCCL_NO_TWIN(ncclAllReduce)
PLAIT_NCCL_NO_TWIN(ncclReduce)
PLAIT_NCCL_NO_TWIN(ncclBcast)
PLAIT_NCCL_NO_TWIN(ncclBroadcast)
PLAIT_NCCL_NO_TWIN(ncclReduceScatter)
PLAIT_NCCL_NO_TWIN(ncclAllGather)
PLAIT_NCCL_NO_TWIN(ncclSend)
PLAIT_NCCL_NO_TWIN(ncclRecv)
PLAIT_NCCL_NO_TWIN(ncclGroupStart)
PLAIT_NCCL_NO_TWIN(ncclGroupEnd)
PLAIT_NCCL_NO_TWIN(ncclAlltoAll)
PLAIT_NCCL_NO_TWIN(ncclGather)
PLAIT_NCCL_NO_TWIN(ncclScatter)

#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic pop
#endif

// ---- The config -----------------------------------------------------------------------------------------------------

// Values of fields below, and arguments of functions above, so that these are what a compiler complains of.
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01
#define NCCL_UNDEF_FLOAT (-1.0f)
#define ncclStatGpuMemSuspend 0
#define ncclStatGpuMemSuspended 1
#define ncclStatGpuMemPersist 2
#define ncclStatGpuMemTotal 3
#define NCCL_SIM_INFO_INITIALIZER NULL  // of types that are refused
#define NCCL_COLLCONFIG_INITIALIZER NULL
#define NCCL_ENCRYPTION_CONFIG_INITIALIZER NULL
typedef enum {
  ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
  ncclHostCftEnable = 1,
  ncclHostCftDisable = 2,
  ncclHostCftFallback = 3
} ncclHostCftMode_t;
typedef enum {
  ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
  ncclNvlsHostModeEnable = 0,
  ncclNvlsHostModeDisableTransport = 1,
  ncclNvlsHostModeDisableSymmetricMultimem = 2,
  ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

// NCCL's fields. Two can be set: `blocking`, to 1, and `maxCTAs`, which is plaitConfig_t::maxSms, at least 8.
typedef struct ncclConfig {
  size_t size;           // set by the initializer
  unsigned int magic;    // set by the initializer
  unsigned int version;  // set by the initializer
  int blocking;          // 0: ncclInvalidArgument, since making a communicator blocks
  int maxCTAs;
  PLAIT_NCCL_HINT(int, cgaClusterSize, "Plait's kernels use no clusters")
  PLAIT_NCCL_HINT(int, minCTAs, "Plait has no lower bound of CTAs: set maxCTAs alone")
  PLAIT_NCCL_HINT(const char*, netName, "Plait's networks are UCX's: UCX_TLS and UCX_NET_DEVICES choose")
  PLAIT_NCCL_HINT(int, splitShare, "Plait's communicators share no memory")
  PLAIT_NCCL_HINT(int, trafficClass, "Plait's networks are UCX's: UCX_IB_TRAFFIC_CLASS chooses")
  PLAIT_NCCL_HINT(const char*, commName, "Plait's communicators have no names")
  PLAIT_NCCL_HINT(int, collnetEnable, "Plait has no collectives in switches of networks")
  PLAIT_NCCL_HINT(int, CTAPolicy, "Plait has no policy for CTAs: set maxCTAs")
  PLAIT_NCCL_HINT(int, shrinkShare, "Plait's communicators share no memory")
  PLAIT_NCCL_HINT(int, nvlsCTAs, "Plait does not use NVLink's multicast")
  PLAIT_NCCL_HINT(int, nChannelsPerNetPeer, "Plait's networks are UCX's")
  PLAIT_NCCL_HINT(int, nvlinkCentricSched, "Plait has no such schedule")
  PLAIT_NCCL_HINT(int, graphUsageMode, "Plait allows any use of CUDA graphs")
  PLAIT_NCCL_HINT(int, numRmaCtx, "Plait has no one-sided messages")
  PLAIT_NCCL_HINT(int, maxP2pPeers, "Plait has a FIFO for every other rank")
  PLAIT_NCCL_NO_FIELD(int, graphStreamOrdering, "Plait orders calls by streams and graphs alone")
  PLAIT_NCCL_NO_FIELD(int, launchOrderImplicit, "Plait orders calls by streams and graphs alone")
  PLAIT_NCCL_HINT(int, numRmaSig, "Plait has no one-sided messages")
  PLAIT_NCCL_HINT(int, rmaEagerInit, "Plait has no one-sided messages")
  PLAIT_NCCL_HINT(int, hostCftMode, "Plait has no such mode")
  PLAIT_NCCL_HINT(int, nvlsHostMode, "Plait does not use NVLink's multicast")
} ncclConfig_t;

// clang-format off
#define NCCL_CONFIG_INITIALIZER {                                                          \
  sizeof(ncclConfig_t), PLAIT_CONFIG_MAGIC, NCCL_VERSION_CODE,                             \
  INT_MIN, INT_MIN, INT_MIN, INT_MIN, /* minCTAs */                                        \
  NULL, INT_MIN, INT_MIN, NULL, /* commName */                                             \
  INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, /* numRmaCtx */  \
  INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN, INT_MIN                            \
}
// clang-format on

// Plait's config for NCCL's; `device` is that of a new communicator. libplait refuses values that it cannot do.
static inline plaitConfig_t plaitNcclConfig(const ncclConfig_t* given, int device) {
  plaitConfig_t made = PLAIT_CONFIG_INITIALIZER;
  made.device = device;
  if (given == NULL) return made;
  made.magic = given->magic;  // it is wrong where a config was not begun with the initializer
  const int blocks = given->blocking == NCCL_CONFIG_UNDEF_INT || given->blocking == 1;
  made.reserved = blocks ? 0 : PLAIT_RESERVED_NOT_BLOCKING;
  // 0, which would leave it open, becomes a number that is refused.
  if (given->maxCTAs != NCCL_CONFIG_UNDEF_INT) made.maxSms = given->maxCTAs == 0 ? -1 : given->maxCTAs;
  return made;
}

// ---- Functions ------------------------------------------------------------------------------------------------------

// The version by which programs choose what they call. plaitGetVersion has Plait's own.
static inline plaitResult_t plaitNcclGetVersion(int* version) {
  if (version == NULL) return plaitGetVersion(NULL);  // says what is wrong
  *version = NCCL_VERSION_CODE;
  return plaitSuccess;
}
static inline plaitResult_t plaitNcclCommInitRankConfig(plaitComm_t* comm, int nranks, plaitUniqueId commId, int rank,
                                                        const ncclConfig_t* config) {
  const plaitConfig_t made = plaitNcclConfig(config, PLAIT_NCCL_DEVICE);
  return plaitCommInitRankConfig(comm, nranks, commId, rank, &made);
}
static inline plaitResult_t plaitNcclCommInitRank(plaitComm_t* comm, int nranks, plaitUniqueId commId, int rank) {
  return plaitNcclCommInitRankConfig(comm, nranks, commId, rank, NULL);
}
// Without a list, plaitCommInitAll would fall back to host memory.
static inline plaitResult_t plaitNcclCommInitAll(plaitComm_t* comms, int ndev, const int* devlist) {
  int devices[1024];  // libplait refuses more ranks
  const int on_host = PLAIT_NCCL_DEVICE == PLAIT_DEVICE_HOST;
  const int may_be_on_host = PLAIT_NCCL_DEVICE == PLAIT_DEVICE_CURRENT;
  if (may_be_on_host || ndev < 1 || ndev > 1024 || (devlist != NULL && !on_host)) {
    return plaitCommInitAll(comms, ndev, devlist);
  }
  for (int rank = 0; rank < ndev; ++rank) devices[rank] = on_host ? PLAIT_DEVICE_HOST : rank;
  return plaitCommInitAll(comms, ndev, devices);
}
// The new communicators have the device of `comm`.
static inline plaitResult_t plaitNcclCommSplit(plaitComm_t comm, int color, int key, plaitComm_t* newcomm,
                                               const ncclConfig_t* config) {
  const plaitConfig_t made = plaitNcclConfig(config, PLAIT_DEVICE_CURRENT);
  return plaitCommSplit(comm, color, key, newcomm, config == NULL ? NULL : &made);
}

#define ncclGetVersion plaitNcclGetVersion
#define ncclCommInitRank plaitNcclCommInitRank
#define ncclCommInitRankConfig plaitNcclCommInitRankConfig
#define ncclCommInitAll plaitNcclCommInitAll
#define ncclCommSplit plaitNcclCommSplit

#define ncclGetErrorString plaitGetErrorString
#define ncclGetLastError plaitGetLastError
#define ncclGetUniqueId plaitGetUniqueId
#define ncclCommFinalize plaitCommFinalize
#define ncclCommDestroy plaitCommDestroy
#define ncclCommAbort plaitCommAbort
#define ncclCommGetAsyncError plaitCommGetAsyncError
#define ncclCommCount plaitCommCount
#define ncclCommCuDevice plaitCommCuDevice
#define ncclCommUserRank plaitCommUserRank
#define ncclMemAlloc plaitMemAlloc
#define ncclMemFree plaitMemFree
#define ncclCommRegister plaitCommRegister  // a hint without effect, as plait.h says
#define ncclCommDeregister plaitCommDeregister
#define ncclRedOpCreatePreMulSum plaitRedOpCreatePreMulSum
#define ncclRedOpDestroy plaitRedOpDestroy
#define ncclGroupStart plaitGroupStart
#define ncclGroupEnd plaitGroupEnd
#define ncclAllReduce plaitAllReduce
#define ncclReduce plaitReduce
#define ncclBcast plaitBcast
#define ncclBroadcast plaitBroadcast
#define ncclReduceScatter plaitReduceScatter
#define ncclAllGather plaitAllGather
#define ncclAlltoAll plaitAlltoAll
#define ncclGather plaitGather
#define ncclScatter plaitScatter
#define ncclSend plaitSend
#define ncclRecv plaitRecv

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PLAIT_NCCL_NCCL_H

// Every function that libnccl.so.2 of NCCL 2.27 to 2.32 exports, by the version that it came with. (2.27 stands for
// that version and all before it.) Each has a twin whose name begins with a p, of the same type.
//
// tools/nccl_functions.py reads this file, and makes of it all that must have every function: what the drop-in exports,
// its way to NCCL, and the stand-in for NCCL in tests. Declarations are PLAIT_WATCHED where Plait looks into calls;
// all others go to NCCL as they are. Include abi_types.h first, or nccl.h and nccl_device.h, to have the compiler
// compare them.
#ifndef PLAIT_API_NCCL_ABI_H
#define PLAIT_API_NCCL_ABI_H

#define PLAIT_WATCHED
#define PLAIT_SINCE(major, minor)

#ifdef __cplusplus
extern "C" {
#endif

PLAIT_SINCE(2, 27)

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
PLAIT_WATCHED const char* ncclGetErrorString(ncclResult_t result);
PLAIT_WATCHED const char* ncclGetLastError(ncclComm_t comm);
void ncclResetDebugInit(void);

PLAIT_WATCHED ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank);
PLAIT_WATCHED ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                                  ncclConfig_t* config);
PLAIT_WATCHED ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int ids, ncclUniqueId* id,
                                                    ncclConfig_t* config);
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* device);
PLAIT_WATCHED ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config);
PLAIT_WATCHED ncclResult_t ncclCommShrink(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* made,
                                          ncclConfig_t* config, int flags);
PLAIT_WATCHED ncclResult_t ncclCommFinalize(ncclComm_t comm);
PLAIT_WATCHED ncclResult_t ncclCommDestroy(ncclComm_t comm);
PLAIT_WATCHED ncclResult_t ncclCommAbort(ncclComm_t comm);

PLAIT_WATCHED ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error);
ncclResult_t ncclCommCount(const ncclComm_t comm, int* ranks);
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);

ncclResult_t ncclMemAlloc(void** memory, size_t bytes);
ncclResult_t ncclMemFree(void* memory);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, size_t bytes, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);
PLAIT_WATCHED ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t bytes, ncclWindow_t* window,
                                                  int flags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);

PLAIT_WATCHED ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                                    ncclScalarResidence_t residence, ncclComm_t comm);
PLAIT_WATCHED ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

PLAIT_WATCHED ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                                         ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
PLAIT_WATCHED ncclResult_t ncclReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                                      ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
PLAIT_WATCHED ncclResult_t ncclBcast(void* data, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                     cudaStream_t stream);
PLAIT_WATCHED ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                                         ncclComm_t comm, cudaStream_t stream);
PLAIT_WATCHED ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type,
                                             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
PLAIT_WATCHED ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type,
                                         ncclComm_t comm, cudaStream_t stream);
PLAIT_WATCHED ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    cudaStream_t stream);
PLAIT_WATCHED ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                    cudaStream_t stream);

PLAIT_WATCHED ncclResult_t ncclGroupStart(void);
PLAIT_WATCHED ncclResult_t ncclGroupEnd(void);
PLAIT_WATCHED ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info);

PLAIT_SINCE(2, 28)

PLAIT_WATCHED ncclResult_t ncclAlltoAll(const void* input, void* output, size_t count, ncclDataType_t type,
                                        ncclComm_t comm, cudaStream_t stream);
PLAIT_WATCHED ncclResult_t ncclGather(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                                      ncclComm_t comm, cudaStream_t stream);
PLAIT_WATCHED ncclResult_t ncclScatter(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                                       ncclComm_t comm, cudaStream_t stream);

PLAIT_WATCHED ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags);

ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t* needs, ncclDevComm_t* made);
ncclResult_t ncclDevCommDestroy(ncclComm_t comm, const ncclDevComm_t* made);
ncclTeam_t ncclTeamWorld(ncclComm_t comm);
ncclTeam_t ncclTeamLsa(ncclComm_t comm);
ncclTeam_t ncclTeamRail(ncclComm_t comm);
int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int barriers, ncclLsaBarrierHandle_t* handle,
                                             ncclDevResourceRequirements_t* needs);
ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int barriers,
                                             ncclGinBarrierHandle_t* handle, ncclDevResourceRequirements_t* needs);
int ncclLLA2ACalcSlots(int elements, int element_bytes);
ncclResult_t ncclLLA2ACreateRequirement(int blocks, int slots, ncclLLA2AHandle_t* handle,
                                        ncclDevResourceRequirements_t* needs);
void ncclResetDebugInitInternal(void);

PLAIT_SINCE(2, 29)

ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id);
ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank, ncclComm_t* made,
                          ncclConfig_t* config);
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);
ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t which, uint64_t* value);
ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t* properties);

ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void** memory);
ncclResult_t ncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void** memory);
ncclResult_t ncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int rank, void** memory);
ncclResult_t ncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void** memory);
ncclResult_t ncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
                                          void** memory);
ncclResult_t ncclGinOutboxCreateRequirement(int blocks, int log2_bytes, ncclGinOutboxHandle* handle,
                                            ncclDevResourceRequirements_t* needs);
ncclResult_t ncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int blocks, int log2_bytes,
                                              ncclGinInboxA2AHandle* handle, ncclDevResourceRequirements_t* needs);

ncclResult_t ncclPutSignal(const void* data, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                           size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t* signals, ncclComm_t comm, cudaStream_t stream);

PLAIT_SINCE(2, 30)

ncclResult_t ncclParamBind(ncclParamHandle_t* parameter, const char* key);
ncclResult_t ncclParamGetI8(ncclParamHandle_t parameter, int8_t* value);
ncclResult_t ncclParamGetI16(ncclParamHandle_t parameter, int16_t* value);
ncclResult_t ncclParamGetI32(ncclParamHandle_t parameter, int32_t* value);
ncclResult_t ncclParamGetI64(ncclParamHandle_t parameter, int64_t* value);
ncclResult_t ncclParamGetU8(ncclParamHandle_t parameter, uint8_t* value);
ncclResult_t ncclParamGetU16(ncclParamHandle_t parameter, uint16_t* value);
ncclResult_t ncclParamGetU32(ncclParamHandle_t parameter, uint32_t* value);
ncclResult_t ncclParamGetU64(ncclParamHandle_t parameter, uint64_t* value);
ncclResult_t ncclParamGetStr(ncclParamHandle_t parameter, const char** value);
ncclResult_t ncclParamGet(ncclParamHandle_t parameter, void* value, int room, int* length);
ncclResult_t ncclParamGetParameter(const char* key, const char** value, int* length);
ncclResult_t ncclParamGetAllParameterKeys(const char*** keys, int* count);
void ncclParamDumpAll(void);

PLAIT_SINCE(2, 31)

ncclResult_t ncclAllReduceConfig(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclReduceConfig(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                              int root, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclBroadcastConfig(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclReduceScatterConfig(const void* input, void* output, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                     ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAllGatherConfig(const void* input, void* output, size_t count, ncclDataType_t type, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAlltoAllConfig(const void* input, void* output, size_t count, ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclGatherConfig(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                              ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclScatterConfig(const void* input, void* output, size_t count, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config);

ncclTeam_t ncclTeamCft(ncclComm_t comm, ncclCftTeamMode_t mode);
ncclTeam_t ncclTeamCftMultimem(ncclComm_t comm);
ncclResult_t ncclGetCftDeviceLeInfo(ncclWindow_t window, size_t offset, int peer, ncclTeam_t team, ncclCftLeId* id,
                                    size_t* id_offset);
ncclResult_t ncclGetPeerDeviceLeInfo(ncclWindow_t window, size_t offset, int peer, ncclCftLeId* id, size_t* id_offset);
ncclResult_t ncclGetMultimemDeviceLeInfo(ncclWindow_t window, size_t offset, ncclCftLeId* id, size_t* id_offset);

PLAIT_SINCE(2, 32)

ncclResult_t ncclSetEncryption(const ncclEncryptionConfig_t* config);

#ifdef __cplusplus
}
#endif

#endif  // PLAIT_API_NCCL_ABI_H

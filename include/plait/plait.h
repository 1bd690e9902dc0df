// Plait's C interface: collectives over the ranks of one machine, on GPU memory or on host memory.
//
// Names, arguments, numbers and rules are NCCL's wherever NCCL has them. docs/c_api/nccl.md lists the differences.
// Programs in NCCL's own names compile with plait/nccl/nccl.h.
// docs/c_api/errors.md says what every result means for a communicator. This header is C99 and C++, and needs no CUDA.
//
// Memory. Every communicator is of one of two kinds, the same on all of its ranks:
// - device: A CUDA device was current and usable when the communicator was made, or its config names one. Buffers are
//   memory of that device. Collectives are asynchronous: they return at once, run in the order of `stream`, and may be
//   captured in CUDA graphs; with PLAIT_BLOCKING in the place of a stream they block. Errors on the GPU show in
//   plaitCommGetAsyncError and in the next call.
// - host: There was no usable device, or the config says PLAIT_DEVICE_HOST. Buffers are host memory, `stream` must be
//   NULL or PLAIT_BLOCKING, and collectives block until this rank's part is done.
//
// Use PLAIT_DEVICE_CUDA to get an error instead of a host communicator if no device is usable. Plait does not check in
// which memory a pointer lies.
//
// Device and stream. The device of a communicator need not be current in calls, and calls leave the current device as
// it is. A NULL stream is the legacy default stream of the communicator's device, however the program is compiled. A
// stream goes on even if a call on it has failed.
//
// CUDA graphs. Either all ranks capture a call, or none does. All ranks launch it, in the same order among their calls.
// As long as a graph may be launched, the buffers of ALL ranks must exist, since other ranks may read them directly,
// and so must the handles of all ranks. A graph must neither run nor be launched after its communicator is finalized,
// destroyed or aborted; nothing checks that. Only streams and the graph order a captured call with other calls of its
// communicator, and these must not run at the same time.
//
// The one rule. All ranks of a communicator make the same calls, with the same counts, types, operations and roots, in
// the same order. Ranks that do not get plaitInvalidUsage. If a rank dies, or does not come within timeoutSeconds (600
// by default; NCCL would wait for ever), the call ends on all other ranks with plaitRemoteError or plaitTimeout. After
// that the communicator is unusable: every later call returns the same error, and calls under way leave undefined
// contents in their buffers. Only plaitCommDestroy or plaitCommAbort remain to be called. If several ranks share a
// process, do that for all of them before freeing buffers: copies of one rank may still read the buffers of another.
//
// Buffers. Counts are in elements. A call with count 0 takes part like any other, and its buffers may be NULL. Buffers
// of a collective on a device must be aligned to the size of an element; all others may be anywhere. The send and
// receive buffers either do not overlap or are exactly in place; each function says what in place means. Collectives
// refuse anything else with plaitInvalidArgument. Results are equal bit for bit on all ranks and from run to run. 16-
// and 8-bit floating types add up in float32 and are rounded once.
//
// Threads. Different threads may use different communicators at once. Any thread may use a communicator, but only one
// at a time: a collective or split that finds another one under way returns plaitInvalidUsage. Any thread may call
// plaitCommGetAsyncError, plaitCommAbort, plaitCommCount, plaitCommUserRank, plaitCommCuDevice, plaitCommTopology and
// plaitCommGroups at any moment. Groups, and the text of plaitGetLastError, belong to the calling thread.
//
// Errors. All functions except the two that return text return a plaitResult_t. plaitInvalidArgument means that nothing
// has happened on this rank (for groups see plaitGroupEnd). It is also the result for a handle that was destroyed, or
// is NULL unless the function says that NULL does nothing. plaitGetLastError says in words what was wrong, where, and
// what to do. No function exits or throws. Except for plaitCommDestroy, none prints more than warnings, to stderr, for
// instance about a PLAIT_ variable that does not exist; PLAIT_LOG=error turns them off. Functions may be called as long
// as the program runs, even from destructors of static objects and from functions given to atexit. A thread that is
// cancelled (pthread_cancel) finishes its call first.
#ifndef PLAIT_PLAIT_H
#define PLAIT_PLAIT_H

#include <stddef.h>

// The version of this header. plaitGetVersion has that of the library.
#define PLAIT_MAJOR 0
#define PLAIT_MINOR 1
#define PLAIT_PATCH 0
// Versions as one number: PLAIT_VERSION_CODE >= PLAIT_VERSION(0, 1, 0).
#define PLAIT_VERSION(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))
#define PLAIT_VERSION_CODE PLAIT_VERSION(PLAIT_MAJOR, PLAIT_MINOR, PLAIT_PATCH)

#if defined(__GNUC__)
#define PLAIT_API __attribute__((visibility("default")))
#else
#define PLAIT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// ---- Types ----------------------------------------------------------------------------------------------------------

// The type of cudaStream_t, without its header.
typedef struct CUstream_st* plaitStream_t;

// In the place of the stream of a collective, on all ranks: the call waits for earlier calls of the communicator, and
// returns when its result is there, or with what went wrong. The send buffer must be ready when it is called: wait for
// your stream first. Not in groups, nor for messages. Short calls need no launch: a kernel serves them that stays on
// the GPU and leaves when it has nothing to do (docs/gpu/blocking_calls.md). On host memory it is the same as NULL.
#define PLAIT_BLOCKING ((plaitStream_t)(~(size_t)0))

// One rank's handle of a communicator.
typedef struct plaitComm* plaitComm_t;

// A plan: who moves which data where in a collective, proved right. See plaitRunPlan.
typedef struct plaitPlan* plaitPlan_t;

// What functions return.
typedef enum {
  plaitSuccess = 0,
  plaitUnhandledCudaError = 1,  // CUDA refused something
  plaitSystemError = 2,         // no memory, descriptor or address, or another failure of a system call
  plaitInternalError = 3,       // a defect of Plait
  plaitInvalidArgument = 4,     // one argument cannot be used; nothing has happened
  plaitInvalidUsage =
      5,  // calls that do not match: those of ranks (the communicator has then ended), or those of this rank
  plaitRemoteError = 6,  // another rank died, left or aborted
  plaitInProgress = 7,   // kept for NCCL's number; calls of this version never return it
  plaitTimeout = 8,      // a rank did not come in time
  plaitNumResults = 9
} plaitResult_t;

// The type of an element. Names of one number mean the same.
typedef enum {
  plaitInt8 = 0,
  plaitChar = 0,
  plaitUint8 = 1,
  plaitInt32 = 2,
  plaitInt = 2,
  plaitUint32 = 3,
  plaitInt64 = 4,
  plaitUint64 = 5,
  plaitFloat16 = 6,
  plaitHalf = 6,
  plaitFloat32 = 7,
  plaitFloat = 7,
  plaitFloat64 = 8,
  plaitDouble = 8,
  plaitBfloat16 = 9,
  plaitFloat8e4m3 = 10,
  plaitFloat8e5m2 = 11,
  // Plait's own types, with numbers that NCCL will not use.
  plaitInt16 = 64,
  plaitUint16 = 65
} plaitDataType_t;

// How elements are combined. Integers wrap.
typedef enum {
  plaitSum = 0,
  plaitProd = 1,
  plaitMax = 2,
  plaitMin = 3,
  plaitAvg = 4,  // the sum divided by the number of ranks; integers are truncated toward zero
  plaitNumOps = 5,
  // Operations from plaitRedOpCreatePreMulSum are more than plaitNumOps, and at most this.
  plaitMaxRedOp = 0x7fffffff
} plaitRedOp_t;

// The location of the scalar of a pre-multiplied sum.
typedef enum {
  plaitScalarDevice = 0,        // memory of the communicator's device, read when a collective runs
  plaitScalarHostImmediate = 1  // host memory, read before the function returns
} plaitScalarResidence_t;

// How long an id is.
#define PLAIT_UNIQUE_ID_BYTES 128
// An id that the ranks of a new communicator share so that they find each other and nobody else. It holds a secret:
// copy it to the other ranks by any means that strangers cannot read.
typedef struct {
  char internal[PLAIT_UNIQUE_ID_BYTES];  // copied as it is
} plaitUniqueId;

// Values of plaitConfig_t::device other than CUDA's ordinals.
#define PLAIT_DEVICE_HOST (-1)     // buffers are host memory
#define PLAIT_DEVICE_CURRENT (-2)  // the current CUDA device if it is usable, else PLAIT_DEVICE_HOST
#define PLAIT_DEVICE_CUDA (-3)     // the current CUDA device; if it is not usable, plaitInvalidArgument and the reason

// What plait/nccl/nccl.h puts into plaitConfig_t::reserved for a config of NCCL's with blocking = 0.
#define PLAIT_RESERVED_NOT_BLOCKING 2

// How a communicator works. Start with PLAIT_CONFIG_INITIALIZER and set the fields that should differ. Fields that are
// set take precedence over environment variables. Later versions add fields at the end: a program runs with a newer
// library, and with an older one as long as it sets no field that the older one lacks. Fields that must be the same on
// all ranks are compared as ranks join; if they differ, all ranks get plaitInvalidUsage. A value out of range is
// plaitInvalidArgument.
typedef struct plaitConfig {
  size_t size;           // set by the initializer
  unsigned int magic;    // set by the initializer
  unsigned int version;  // set by the initializer

  int device;    // CUDA ordinal, or one of PLAIT_DEVICE_*
  int reserved;  // must be 0; PLAIT_RESERVED_NOT_BLOCKING is refused, too, in words of its own
  // Seconds that a call waits for a peer, at most 604800 (a week). 0: PLAIT_TIMEOUT_SEC, else 600.
  double timeoutSeconds;
  // Seconds that ranks wait for each other when they join, at most 604800. 0: PLAIT_BOOTSTRAP_TIMEOUT_SEC, else 600.
  double bootstrapTimeoutSeconds;
  // Bytes of staging memory of a rank on host memory, the same on all ranks. 0: PLAIT_SCRATCH_KIB, else 2 MiB.
  size_t scratchBytes;
  // Pins algorithms, such as "all_reduce:ring", the same on all ranks. NULL: PLAIT_ALGORITHM, else Plait chooses.
  const char* algorithm;
  // Pins how GPUs are used, such as "LL:32x512", the same on all ranks. NULL: PLAIT_LAUNCH, else Plait chooses.
  const char* launch;
  // SMs of a GPU that a call may keep busy, at least 8, the same on all ranks. Messages that pass through FIFOs need
  // one SM for each peer and direction all the same, and `launch` takes precedence. 0: PLAIT_MAX_SMS, else as many as
  // make a call fast.
  int maxSms;
} plaitConfig_t;

// What a plaitConfig_t starts as: all defaults.
#define PLAIT_CONFIG_MAGIC 0x506c6149u
#define PLAIT_CONFIG_INITIALIZER \
  {sizeof(plaitConfig_t), PLAIT_CONFIG_MAGIC, PLAIT_VERSION_CODE, PLAIT_DEVICE_CURRENT, 0, 0.0, 0.0, 0, NULL, NULL, 0}

// ---- Errors and version ---------------------------------------------------------------------------------------------

// Sets *version to the PLAIT_VERSION_CODE of the library, which may differ from that of this header.
PLAIT_API plaitResult_t plaitGetVersion(int* version);

// Returns the meaning of a result in a few words. Never NULL; the text is never freed.
PLAIT_API const char* plaitGetErrorString(plaitResult_t result);

// Returns a sentence about the last error. For a communicator that has failed, it says why that failed. Otherwise (and
// for NULL) it is about the last error that a function returned to this thread, as its result or by
// plaitCommGetAsyncError. Ending a communicator that has failed makes its failure the last error. Never NULL; "" if
// there was no error. The text is valid until this thread calls Plait again.
PLAIT_API const char* plaitGetLastError(plaitComm_t comm);

// ---- Making communicators -------------------------------------------------------------------------------------------

// Makes an id for one new communicator. Rank 0 must be in this process, or in a child that it forks afterwards, before
// either calls exec. The other ranks need only the bytes; they are of the same machine and user, or of any host that
// reaches an interface which PLAIT_SOCKET_IFNAME names here (docs/nodes.md). If rank 0 is elsewhere, it
// gets plaitInvalidArgument, and the others get plaitRemoteError, or plaitTimeout as long as this process lives. An id
// serves once. One that is never used costs a socket until the process ends, and one whose rank 0 is in a forked child
// costs a socket until the next id is made. Any thread may call this.
PLAIT_API plaitResult_t plaitGetUniqueId(plaitUniqueId* uniqueId);

// Joins the communicator of `commId` as `rank` (0 to nranks - 1) of `nranks` ranks (at most 4096; on devices 16).
// Returns when all ranks have joined. If one does not come, all others get the reason after
// PLAIT_BOOTSTRAP_TIMEOUT_SEC. Settings come from the environment (`plait settings` lists the variables). Within a
// group it returns at once with *comm NULL, and plaitGroupEnd joins and sets *comm, so that one thread can make several
// ranks. On an error *comm is NULL.
PLAIT_API plaitResult_t plaitCommInitRank(plaitComm_t* comm, int nranks, plaitUniqueId commId, int rank);

// The same with a config (NULL: as plaitCommInitRank). Its texts need to exist only until this returns.
PLAIT_API plaitResult_t plaitCommInitRankConfig(plaitComm_t* comm, int nranks, plaitUniqueId commId, int rank,
                                                const plaitConfig_t* config);

// Joins the communicator of all processes that a launcher started: `plait run`, torchrun, mpirun, srun and others,
// whose variables say rank and number of ranks (docs/bootstrap.md). Without a launcher it has one rank. `sequence` is 0
// for the job's first communicator of this kind, 1 for the next, and so on, the same on all ranks. Returns, waits,
// takes `config` and counts as a part of a group like plaitCommInitRankConfig. If the variables say too little, or
// contradict each other, it is plaitInvalidUsage, and plaitGetLastError names them.
PLAIT_API plaitResult_t plaitCommInitLauncher(plaitComm_t* comm, int sequence, const plaitConfig_t* config);

// Sets *localRank to the number, from 0, of this process among those that a launcher started on this host: a program
// with a GPU for each rank passes it to cudaSetDevice before it joins. 0 without a launcher. It is the rank itself
// where the launcher says neither this number nor how many ranks a host has (ranks that were started by hand, PMIx,
// aprun): on several hosts take the remainder by the number of GPUs then.
PLAIT_API plaitResult_t plaitGetLocalRank(int* localRank);

// Makes a whole communicator of `ndev` ranks (at most 1024; on devices 16) in this process. comms[r] is rank r, on CUDA
// device devlist[r], or on device r if devlist is NULL. Several ranks may share a device. The ranks are on host memory
// if devlist is NULL and no device is usable, or if all of devlist is PLAIT_DEVICE_HOST. One thread that drives several
// ranks puts each collective of all of them between plaitGroupStart and plaitGroupEnd. Never waits, even within a
// group.
PLAIT_API plaitResult_t plaitCommInitAll(plaitComm_t* comms, int ndev, const int* devlist);

// A negative `color`: this rank will be in none of the new communicators.
#define PLAIT_SPLIT_NOCOLOR (-1)

// Splits a communicator. Ranks that give the same `color` (0 or more) form a new one, in the order of their `key` and,
// among equal keys, of their ranks in `comm`. *newcomm is NULL for ranks with PLAIT_SPLIT_NOCOLOR. All ranks of `comm`
// call it. It blocks like plaitCommInitRank; within a group plaitGroupEnd does it. `comm` stays as it is. The new
// communicators have the device and settings of `comm`, except for fields that `config` (NULL: none) sets. Its `device`
// must be PLAIT_DEVICE_CURRENT, that of `comm`, or, if `comm` is on a device, PLAIT_DEVICE_CUDA. If one rank's
// arguments are wrong, all ranks get an error. Several splits of one `comm` in one group are made in the order of the
// calls, which must be the same on all ranks.
PLAIT_API plaitResult_t plaitCommSplit(plaitComm_t comm, int color, int key, plaitComm_t* newcomm,
                                       const plaitConfig_t* config);

// ---- Ending communicators -------------------------------------------------------------------------------------------

// Waits until this rank's calls on the GPU are done, and releases what they used: now, or, if calls of other
// communicators of the process are under way, as soon as none is. Collectives return plaitInvalidUsage from now on; the
// handle still has to be destroyed. It concerns this rank alone: others go on until they need it. NULL: nothing
// happens.
//
// Returns plaitInvalidUsage if ranks turn out to have made different calls, or if one has left after more or fewer
// calls than this one. No earlier call reports that if no rank waits for another, as in broadcasts in which each rank
// is the root. Waits at most a second for ranks that have not come to this one's last calls. The communicator is
// finalized all the same.
PLAIT_API plaitResult_t plaitCommFinalize(plaitComm_t comm);

// Does plaitCommFinalize, if that was not done, and ends the handle, whatever it returns. If it returns
// plaitInvalidUsage for different calls, it also writes that to stderr. NULL: nothing happens.
PLAIT_API plaitResult_t plaitCommDestroy(plaitComm_t comm);

// Ends the communicator for all ranks, and the handle of this one. Calls under way, of any thread and any rank, soon
// return plaitRemoteError, and kernels that wait for other ranks end. Any thread may call this. A later call with this
// handle, even by a thread that does not know, returns plaitInvalidArgument. NULL: nothing happens.
PLAIT_API plaitResult_t plaitCommAbort(plaitComm_t comm);

// ---- Asking communicators -------------------------------------------------------------------------------------------

// Sets *asyncError to the failure that ended the communicator, or to plaitSuccess if there is none. plaitGetLastError
// describes it, with `comm` or NULL.
PLAIT_API plaitResult_t plaitCommGetAsyncError(plaitComm_t comm, plaitResult_t* asyncError);
// Sets *count to the number of ranks.
PLAIT_API plaitResult_t plaitCommCount(plaitComm_t comm, int* count);
// Sets *device to the CUDA ordinal of the communicator's device, or to PLAIT_DEVICE_HOST if buffers are host memory.
PLAIT_API plaitResult_t plaitCommCuDevice(plaitComm_t comm, int* device);
// Sets *rank to this rank.
PLAIT_API plaitResult_t plaitCommUserRank(plaitComm_t comm, int* rank);
// *json = the machine that calls are planned for, as all ranks agreed on it when the communicator was made, or the one
// that PLAIT_TOPOLOGY names: devices and links, in the JSON of docs/topology/machine_files.md. The text lives until the
// communicator is destroyed or aborted.
PLAIT_API plaitResult_t plaitCommTopology(plaitComm_t comm, const char** json);
// groups[r] = the group of rank r, for all nranks ranks: GPUs that NVLink joins to each other are of one group, and
// where that machine has no GPUs, all ranks of a node. Groups are numbered from 0, by their lowest ranks. The number
// can be the `color` of plaitCommSplit.
PLAIT_API plaitResult_t plaitCommGroups(plaitComm_t comm, int* groups);

// ---- Groups ---------------------------------------------------------------------------------------------------------

// Between these two calls, collectives, messages, plaitCommInitRank* and plaitCommSplit of this thread are only
// recorded. The outermost plaitGroupEnd first makes the communicators, all at the same time, and then issues the
// collectives. Those on one GPU are issued in the recorded order. Those on host memory run at the same time for
// different communicators, and in the recorded order for each. Sends and receives of a communicator follow its
// collectives, all at once. If they are on several streams, they begin when all of these streams have come to them, and
// all streams go on when they are done. plaitGroupEnd returns the first error. If a call could not be recorded, nothing
// of the group is done. If a call cannot be issued, its communicator is aborted, so that no rank waits for it, and the
// others are issued. Groups nest. All other functions act at once, before the recorded calls: destroy and free what
// those need after plaitGroupEnd.
PLAIT_API plaitResult_t plaitGroupStart(void);
PLAIT_API plaitResult_t plaitGroupEnd(void);

// ---- Collectives ----------------------------------------------------------------------------------------------------

// Reduces `count` elements of every rank's sendbuff into recvbuff of every rank. In place: sendbuff = recvbuff.
PLAIT_API plaitResult_t plaitAllReduce(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                       plaitRedOp_t op, plaitComm_t comm, plaitStream_t stream);

// Copies `count` elements of sendbuff of `root` into recvbuff of every rank. sendbuff of other ranks is ignored and may
// be NULL. In place: sendbuff = recvbuff.
PLAIT_API plaitResult_t plaitBroadcast(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                       int root, plaitComm_t comm, plaitStream_t stream);

// plaitBroadcast in place.
PLAIT_API plaitResult_t plaitBcast(void* buff, size_t count, plaitDataType_t datatype, int root, plaitComm_t comm,
                                   plaitStream_t stream);

// Like plaitAllReduce, but only `root` gets the result. recvbuff of other ranks is not touched and may be NULL.
PLAIT_API plaitResult_t plaitReduce(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                    plaitRedOp_t op, int root, plaitComm_t comm, plaitStream_t stream);

// Every rank gives `sendcount` elements, and gets those of all ranks, in the order of ranks: recvbuff has nranks *
// sendcount elements. In place: sendbuff = recvbuff + rank * sendcount.
PLAIT_API plaitResult_t plaitAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, plaitDataType_t datatype,
                                       plaitComm_t comm, plaitStream_t stream);

// Reduces nranks * recvcount elements of every rank's sendbuff. Rank r gets the r-th recvcount of them. In place:
// recvbuff = sendbuff + rank * recvcount.
PLAIT_API plaitResult_t plaitReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                           plaitDataType_t datatype, plaitRedOp_t op, plaitComm_t comm,
                                           plaitStream_t stream);

// Every rank gives `sendcount` elements, and `root` gets those of all ranks, in the order of ranks. recvbuff of other
// ranks is not touched and may be NULL. In place: sendbuff = recvbuff + rank * sendcount on the root.
PLAIT_API plaitResult_t plaitGather(const void* sendbuff, void* recvbuff, size_t sendcount, plaitDataType_t datatype,
                                    int root, plaitComm_t comm, plaitStream_t stream);

// The reverse of plaitGather: rank r gets the r-th `recvcount` of the nranks * recvcount elements of `root`. sendbuff
// of other ranks is ignored and may be NULL. In place: recvbuff = sendbuff + rank * recvcount on the root.
PLAIT_API plaitResult_t plaitScatter(const void* sendbuff, void* recvbuff, size_t recvcount, plaitDataType_t datatype,
                                     int root, plaitComm_t comm, plaitStream_t stream);

// Every rank gives nranks * count elements, the r-th `count` of them to rank r. It gets `count` elements from each
// rank, in the order of ranks. In place: sendbuff = recvbuff.
PLAIT_API plaitResult_t plaitAlltoAll(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                      plaitComm_t comm, plaitStream_t stream);

// Waits until every rank has come to it: on host memory the call returns then, and on a GPU `stream` goes on then.
PLAIT_API plaitResult_t plaitBarrier(plaitComm_t comm, plaitStream_t stream);

// ---- Collectives with a count for each rank
// ---------------------------------------------------------------------------

// The collectives above with blocks of unequal sizes, for communicators on host memory; on a device they return
// plaitInvalidArgument, which says what to call there. Arrays have a number for each rank, in elements, and are read
// before the function returns. A displacement is the distance from the start of the buffer to a block; if the array of
// displacements is NULL, each block follows the one before it. Counts may be 0. Blocks may have gaps between them, in
// any order; those of a recvbuff must not overlap. If two ranks disagree about the size of a block, all ranks get
// plaitInvalidUsage, and plaitGetLastError names the two.

// Every rank r gives recvcounts[r] elements, and gets those of all ranks. All ranks pass the same counts. In place:
// sendbuff = recvbuff + the displacement of the own block.
PLAIT_API plaitResult_t plaitAllGatherv(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                        const size_t* rdispls, plaitDataType_t datatype, plaitComm_t comm,
                                        plaitStream_t stream);

// Reduces the blocks of every rank's sendbuff; rank r gets block r, of recvcounts[r] elements. All ranks pass the same
// counts. In place: recvbuff = sendbuff + the displacement of the own block.
PLAIT_API plaitResult_t plaitReduceScatterv(const void* sendbuff, void* recvbuff, const size_t* recvcounts,
                                            const size_t* sdispls, plaitDataType_t datatype, plaitRedOp_t op,
                                            plaitComm_t comm, plaitStream_t stream);

// Every rank gives `sendcount` elements, and `root` gets those of all ranks. recvbuff, recvcounts and rdispls of other
// ranks are not looked at and may be NULL. In place: as plaitAllGatherv, on the root.
PLAIT_API plaitResult_t plaitGatherv(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t* recvcounts,
                                     const size_t* rdispls, plaitDataType_t datatype, int root, plaitComm_t comm,
                                     plaitStream_t stream);

// `root` gives block r to rank r, which gets `recvcount` elements. sendbuff, sendcounts and sdispls of other ranks are
// not looked at and may be NULL. In place: as plaitReduceScatterv, on the root.
PLAIT_API plaitResult_t plaitScatterv(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                      void* recvbuff, size_t recvcount, plaitDataType_t datatype, int root,
                                      plaitComm_t comm, plaitStream_t stream);

// Every rank gives its block r to rank r, and gets a block from each rank. No rank passes the counts of others. In
// place: sendbuff = recvbuff, with equal counts and displacements for both; the data is copied first.
PLAIT_API plaitResult_t plaitAlltoAllv(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls,
                                       void* recvbuff, const size_t* recvcounts, const size_t* rdispls,
                                       plaitDataType_t datatype, plaitComm_t comm, plaitStream_t stream);

// ---- Plans of your own ----------------------------------------------------------------------------------------------

// *plan = the plan of the file `path`, or of the text `json`: what `plait plan --format json` writes, as it is or
// edited (docs/algorithms/plans.md). It is proved right; a file or a text that cannot be read or is no plan, and a plan
// that is wrong, are plaitInvalidArgument, and plaitGetLastError says in which line, or in which operation of which
// rank. A plan belongs to no communicator. Any thread. On an error *plan is NULL.
PLAIT_API plaitResult_t plaitPlanLoad(plaitPlan_t* plan, const char* path);
PLAIT_API plaitResult_t plaitPlanParse(plaitPlan_t* plan, const char* json);

// Ends it. Calls that were made with it, or noted in a group, go on as if it had not ended. Any thread. NULL: nothing
// happens.
PLAIT_API plaitResult_t plaitPlanDestroy(plaitPlan_t plan);

// The collective of `plan`, performed by it and no other: whatever Plait would choose for the call, and whatever
// PLAIT_ALGORITHM says. Buffers and `count` are those of that collective's function; a root is the plan's. `op` is
// looked at only where the collective reduces, and of a barrier nothing but `comm` and `stream`. In place as there, if
// the plan claims to be right so ("in_place"). All ranks run the same plan; where they do not, all get
// plaitInvalidUsage.
//
// plaitInvalidArgument where the plan is for another number of ranks, or not of a form that these ranks perform:
// docs/gpu/limits.md says what GPUs do.
PLAIT_API plaitResult_t plaitRunPlan(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                     plaitRedOp_t op, plaitPlan_t plan, plaitComm_t comm, plaitStream_t stream);

// ---- Messages between two ranks -------------------------------------------------------------------------------------

// The n-th plaitSend of rank a to rank b matches the n-th plaitRecv of b from a, which must have as many bytes.
// Otherwise the receiver gets plaitInvalidUsage, and so does the sender, for a short message with its next call at the
// latest. Only these two ranks take part. Outside of a group each call is done by itself: a send may have to wait for
// its receive, and two ranks that both send first may wait for each other. In a group all sends and receives of a
// communicator are done together, after the collectives of the group. So put messages to several ranks, messages in
// both directions, and messages of a rank to itself into a group. The memory of a receive must not overlap that of a
// send under way: the other end may then get either content.
PLAIT_API plaitResult_t plaitSend(const void* sendbuff, size_t count, plaitDataType_t datatype, int peer,
                                  plaitComm_t comm, plaitStream_t stream);
PLAIT_API plaitResult_t plaitRecv(void* recvbuff, size_t count, plaitDataType_t datatype, int peer, plaitComm_t comm,
                                  plaitStream_t stream);

// ---- Operations -----------------------------------------------------------------------------------------------------

// Sets *op to a pre-multiplied sum, for plaitAllReduce, plaitReduce and plaitReduceScatter of `comm` with elements of
// `datatype`: this rank's input is multiplied by the scalar at `scalar` before the sum. The product is rounded to the
// datatype once; products of integers wrap. sendbuff is written only in place. Every rank has its own scalar; a rank
// that calls with plaitSum has the scalar 1.
//
// With plaitScalarHostImmediate the scalar is read now. With plaitScalarDevice the GPU reads it when the collective
// runs, and again in each replay of a CUDA graph: it must stay there until then, and `comm` must have a device. Any
// thread may call this. *op belongs to this handle of `comm`, which can have 4096 at a time.
PLAIT_API plaitResult_t plaitRedOpCreatePreMulSum(plaitRedOp_t* op, void* scalar, plaitDataType_t datatype,
                                                  plaitScalarResidence_t residence, plaitComm_t comm);

// Ends an operation. Collectives that were called with it, or recorded in a group, go on as if it had not ended. Any
// thread may call this. Operations that are left end with the communicator.
PLAIT_API plaitResult_t plaitRedOpDestroy(plaitRedOp_t op, plaitComm_t comm);

// ---- Memory ---------------------------------------------------------------------------------------------------------

// Allocates memory for buffers, of the current CUDA device if one is usable, else of the host. That does not depend on
// communicators: for one with PLAIT_DEVICE_HOST on a machine with GPUs, use malloc instead. Aligned to at least 256
// bytes. No collective needs buffers from here. `size` is in bytes; 0 gives NULL. Any thread may call this.
PLAIT_API plaitResult_t plaitMemAlloc(void** ptr, size_t size);
// Frees what plaitMemAlloc returned, and nothing else. Any device may be current. May wait until the GPU is idle. NULL:
// nothing happens.
PLAIT_API plaitResult_t plaitMemFree(void* ptr);

// A hint that `size` bytes at `buff` will be used again and again. Never needed; this version does not use it. *handle
// is for plaitCommDeregister, which checks only `comm`.
PLAIT_API plaitResult_t plaitCommRegister(plaitComm_t comm, void* buff, size_t size, void** handle);
PLAIT_API plaitResult_t plaitCommDeregister(plaitComm_t comm, void* handle);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PLAIT_PLAIT_H

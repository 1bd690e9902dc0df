// Plait's C interface: collectives over the ranks of one machine, on GPU memory or on host memory.
//
// Names, arguments, numbers and rules are NCCL's wherever NCCL has them; docs/c_api.md lists the differences, and what
// every result means for a communicator. This header is C99 and C++, and needs no CUDA.
//
// Where the data is. Every communicator is of one of two kinds, the same on all of its ranks:
//   device  A CUDA device was current and usable when it was made, or its config names one. Buffers are memory of that
//           device. Collectives are asynchronous: they return at once, run in the order of `stream`, and may be
//           captured in CUDA graphs. What goes wrong on the GPU shows in plaitCommGetAsyncError and in the next call.
//   host    There was no usable device, or its config says PLAIT_DEVICE_HOST. Buffers are host memory, `stream` must be
//           NULL, and collectives block until this rank's part is done.
// Whoever must not get the second for want of a device says PLAIT_DEVICE_CUDA. Which memory a pointer is of is not
// checked.
//
// Device and stream. The device of a communicator need not be current in calls, and the caller's current device stays.
// A NULL stream is the legacy default stream of the communicator's device, however the program is compiled. A stream
// goes on also after a call on it has failed.
//
// CUDA graphs. All ranks capture a call, or none does, and all launch it, in the same order among their calls. As long
// as a graph may be launched, the buffers of ALL ranks must live, since other ranks may read them directly, and all
// ranks' handles too: a graph must neither run nor be launched once its communicator is finalized, destroyed or
// aborted, which nothing checks. What orders a captured call with other calls of its communicator is streams and the
// graph alone; they must not run at the same time.
//
// The one rule. All ranks of a communicator make the same calls, with the same counts, types, operations and roots, in
// the same order. Ranks that do not are told so (plaitInvalidUsage), and a rank that dies, or comes later than others
// wait (timeoutSeconds, 600 by default; NCCL would wait for ever), ends the call on all others (plaitRemoteError,
// plaitTimeout). After that the communicator is of no more use: every later call returns the same error, what calls
// under way have left in their buffers is undefined, and plaitCommDestroy or plaitCommAbort is all that is left to do.
// Where its ranks share a process, do that for all of them before freeing buffers: copies of one may still read
// another's.
//
// Buffers. Counts are elements, a count of 0 takes part like any other (its buffers may be NULL). Buffers of a
// collective on a device begin at a multiple of the size of an element, all others anywhere. Sending and receiving
// buffer are either apart or exactly in place; the functions say what that means. Collectives refuse all else with
// plaitInvalidArgument. Results are equal bit for bit on all ranks and from run to run. 16- and 8-bit floating types
// add up in float32 and are rounded once.
//
// Threads. Different communicators may be used by different threads at once. One communicator is used by any thread,
// but by one at a time: a collective or split that finds another one under way returns plaitInvalidUsage. At any moment
// and from any thread may be called: plaitCommGetAsyncError, plaitCommAbort, plaitCommCount, plaitCommUserRank,
// plaitCommCuDevice, plaitCommTopology and plaitCommGroups. Groups, and the text of plaitGetLastError, belong to the
// calling thread.
//
// Errors. All functions but the two that return text return a plaitResult_t. plaitInvalidArgument means that nothing
// has happened on this rank (of a group see plaitGroupEnd). No function exits or throws, and none but plaitCommDestroy
// prints more than warnings, to stderr, such as of a PLAIT_ variable that does not exist (PLAIT_LOG=error does
// without); plaitGetLastError says in words what was wrong, where, and what to do. A handle that was destroyed, or is
// NULL where that is not said to do nothing, is plaitInvalidArgument. Functions may be called as long as the program
// runs, also from destructors of static objects and from functions given to atexit. A thread that is cancelled
// (pthread_cancel) finishes its call first.
#ifndef PLAIT_PLAIT_H
#define PLAIT_PLAIT_H

#include <stddef.h>

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

// One rank's end of a communicator.
typedef struct plaitComm* plaitComm_t;

// Who moves what where in a collective, proved right: see plaitRunPlan.
typedef struct plaitPlan* plaitPlan_t;

typedef enum {
  plaitSuccess = 0,
  plaitUnhandledCudaError = 1,  // CUDA refused something
  plaitSystemError = 2,         // no memory, descriptor or address, or another failure of a system call
  plaitInternalError = 3,       // a defect of Plait
  plaitInvalidArgument = 4,     // one argument cannot be used; nothing has happened
  plaitInvalidUsage = 5,        // calls that do not fit together: those of ranks (then it has ended), or of this one
  plaitRemoteError = 6,         // another rank died, left or aborted
  plaitInProgress = 7,          // kept for NCCL's number; calls of this version never return it
  plaitTimeout = 8,             // a rank did not come in time
  plaitNumResults = 9
} plaitResult_t;

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
  // Plait's own, past the numbers that NCCL may come to use.
  plaitInt16 = 64,
  plaitUint16 = 65
} plaitDataType_t;

typedef enum {
  plaitSum = 0,
  plaitProd = 1,
  plaitMax = 2,
  plaitMin = 3,
  plaitAvg = 4,  // the sum divided by the number of ranks; of integers truncated toward zero
  plaitNumOps = 5,
  // What plaitRedOpCreatePreMulSum makes is more than plaitNumOps, and at most this.
  plaitMaxRedOp = 0x7fffffff
} plaitRedOp_t;

// Where the factor of a pre-multiplied sum is.
typedef enum {
  plaitScalarDevice = 0,        // memory of the communicator's device: read when a collective runs
  plaitScalarHostImmediate = 1  // host memory: read before the function returns
} plaitScalarResidence_t;

#define PLAIT_UNIQUE_ID_BYTES 128
// What the ranks of a new communicator share so that they find each other and nobody else. It holds a secret: copy it
// to the other ranks by any means that strangers cannot read.
typedef struct {
  char internal[PLAIT_UNIQUE_ID_BYTES];
} plaitUniqueId;

// Values of plaitConfig_t::device besides CUDA's ordinals.
#define PLAIT_DEVICE_HOST (-1)     // buffers are host memory
#define PLAIT_DEVICE_CURRENT (-2)  // the current CUDA device where it is usable, else PLAIT_DEVICE_HOST
#define PLAIT_DEVICE_CUDA (-3)     // the current CUDA device; plaitInvalidArgument, and why, where none is usable

// How a communicator works. Begin with PLAIT_CONFIG_INITIALIZER and set what should differ from it; what is set here
// goes before environment variables. Later versions add fields at the end: a program runs with a newer library, and
// with an older one as long as it sets no field that the older one lacks. Fields to be the same on all ranks are
// compared as ranks join: where they differ, all get plaitInvalidUsage. What is out of range is plaitInvalidArgument.
typedef struct plaitConfig {
  size_t size;           // set by the initializer,
  unsigned int magic;    // like this
  unsigned int version;  // and this

  int device;    // CUDA ordinal, or one of PLAIT_DEVICE_*
  int reserved;  // 0
  // How long a call waits for a peer: at most 604800, a week. 0: PLAIT_TIMEOUT_SEC, else 600.
  double timeoutSeconds;
  // How long ranks wait for each other when they join, at most as long. 0: PLAIT_BOOTSTRAP_TIMEOUT_SEC, else
  // 600.
  double bootstrapTimeoutSeconds;
  // Staging memory of a rank on host memory, the same on all ranks. 0: PLAIT_SCRATCH_KIB, else 2 MiB.
  size_t scratchBytes;
  // Pins algorithms, such as "all_reduce:ring", on all ranks the same. NULL: PLAIT_ALGORITHM, else Plait chooses.
  const char* algorithm;
  // Pins how GPUs are used, such as "packets:32x512", on all ranks the same. NULL: PLAIT_LAUNCH, else Plait chooses.
  const char* launch;
  // SMs of a GPU that a call may keep busy, at least 8, on all ranks the same; but messages through inboxes need one
  // for each peer and way, and `launch` goes before it. 0: PLAIT_MAX_SMS, else as many as make a call fast.
  int maxSms;
} plaitConfig_t;

#define PLAIT_CONFIG_MAGIC 0x506c6149u
#define PLAIT_CONFIG_INITIALIZER \
  {sizeof(plaitConfig_t), PLAIT_CONFIG_MAGIC, PLAIT_VERSION_CODE, PLAIT_DEVICE_CURRENT, 0, 0.0, 0.0, 0, NULL, NULL, 0}

// ---- Errors and version ---------------------------------------------------------------------------------------------

// *version = the PLAIT_VERSION_CODE of the library, which may differ from that of this header.
PLAIT_API plaitResult_t plaitGetVersion(int* version);

// What a result means, in a few words. Never NULL; the text lives for ever.
PLAIT_API const char* plaitGetErrorString(plaitResult_t result);

// What went wrong last, in a sentence: with a communicator that has failed, why it failed; else (and with NULL) the
// last error that a function returned to this thread, as its result or by plaitCommGetAsyncError; ending a communicator
// that has failed makes its failure the last error. Never NULL, "" where there was none. The text lives until this
// thread calls Plait again.
PLAIT_API const char* plaitGetLastError(plaitComm_t comm);

// ---- Making communicators -------------------------------------------------------------------------------------------

// Makes an id for one new communicator. Rank 0 must be in this process, or in a child that it forks afterwards, before
// either calls exec; the other ranks, of the same machine and user, need only the bytes. Rank 0 elsewhere gets
// plaitInvalidArgument, and the others plaitRemoteError, or, as long as this process lives, plaitTimeout. An id serves
// once; one that serves nobody costs a socket until the process ends, and one whose rank 0 is in a forked child until
// the next id is made. Any thread.
PLAIT_API plaitResult_t plaitGetUniqueId(plaitUniqueId* uniqueId);

// Joins the communicator of `nranks` ranks (at most 4096; on devices 16) that `commId` stands for, as `rank` (0 to
// nranks - 1). Returns when all ranks have joined; where one does not come, all that did come get the reason after
// PLAIT_BOOTSTRAP_TIMEOUT_SEC. Settings come from the environment (`plait settings` lists the variables). Within a
// group it returns at once, *comm is NULL, and plaitGroupEnd joins and sets *comm: so one thread makes several ranks.
// On an error *comm is NULL.
PLAIT_API plaitResult_t plaitCommInitRank(plaitComm_t* comm, int nranks, plaitUniqueId commId, int rank);

// The same with a config (NULL: plaitCommInitRank). Its texts need live only until this returns.
PLAIT_API plaitResult_t plaitCommInitRankConfig(plaitComm_t* comm, int nranks, plaitUniqueId commId, int rank,
                                                const plaitConfig_t* config);

// Makes a whole communicator of `ndev` ranks (at most 1024; on devices 16) in this process: comms[r] is rank r, on CUDA
// device devlist[r], or on device r where devlist is NULL. Several ranks may share a device. Where no device is usable
// and devlist is NULL, or where all of devlist is PLAIT_DEVICE_HOST, the ranks are on host memory. One thread that
// drives several ranks puts each collective of all of them between plaitGroupStart and plaitGroupEnd. Never waits, also
// within a group.
PLAIT_API plaitResult_t plaitCommInitAll(plaitComm_t* comms, int ndev, const int* devlist);

// A negative `color`: this rank will be in none of the new communicators.
#define PLAIT_SPLIT_NOCOLOR (-1)

// Divides a communicator: ranks that give the same `color` (0 or more) form a new one, in the order of their `key` and,
// among equal keys, of their ranks in `comm`. *newcomm is NULL for ranks of PLAIT_SPLIT_NOCOLOR. All ranks of `comm`
// call it; it blocks like plaitCommInitRank, and within a group is done by plaitGroupEnd. `comm` stays as it is. The
// new communicators have the device and settings of `comm`, except where `config` (NULL: none) sets a field; its
// `device` must be PLAIT_DEVICE_CURRENT or that of `comm`, or PLAIT_DEVICE_CUDA where that is no host memory. Where one
// rank's arguments are wrong, all ranks are told. Several parts of one `comm` in one group are made in the order noted,
// which must be the same on all ranks.
PLAIT_API plaitResult_t plaitCommSplit(plaitComm_t comm, int color, int key, plaitComm_t* newcomm,
                                       const plaitConfig_t* config);

// ---- Ending communicators -------------------------------------------------------------------------------------------

// Waits until this rank's calls on the GPU are done and gives back what they used, now or, where calls of other
// communicators of the process are under way, once none is. Collectives are plaitInvalidUsage from now on; the handle
// still has to be destroyed. Concerns this rank alone: others go on until they need it. NULL: nothing happens.
//
// plaitInvalidUsage where ranks turn out to have made different calls, or one has left after more or fewer than this
// one: no call tells of those in which no rank waits for another, such as broadcasts in which each rank is the root.
// For ranks that have not come to this one's last calls it waits a second at most. It is finalized all the same.
PLAIT_API plaitResult_t plaitCommFinalize(plaitComm_t comm);

// plaitCommFinalize, where that was not done, and the end of the handle, whatever it returns. What plaitInvalidUsage it
// returns for different calls is also written to stderr. NULL: nothing happens.
PLAIT_API plaitResult_t plaitCommDestroy(plaitComm_t comm);

// Ends the communicator for all ranks, and the handle of this one. Calls under way, of any thread and any rank, return
// plaitRemoteError soon, and kernels that wait for other ranks end. From any thread; a later call with this handle,
// also one that another thread makes without knowing, returns plaitInvalidArgument. NULL: nothing happens.
PLAIT_API plaitResult_t plaitCommAbort(plaitComm_t comm);

// ---- Asking communicators -------------------------------------------------------------------------------------------

// *asyncError = the failure that ended the communicator, plaitSuccess as long as there is none. plaitGetLastError has
// the words, with `comm` or NULL.
PLAIT_API plaitResult_t plaitCommGetAsyncError(plaitComm_t comm, plaitResult_t* asyncError);
// *count = the number of ranks.
PLAIT_API plaitResult_t plaitCommCount(plaitComm_t comm, int* count);
// *device = the CUDA ordinal of its device, PLAIT_DEVICE_HOST where buffers are host memory.
PLAIT_API plaitResult_t plaitCommCuDevice(plaitComm_t comm, int* device);
// *rank = this rank.
PLAIT_API plaitResult_t plaitCommUserRank(plaitComm_t comm, int* rank);
// *json = the machine that calls are planned for, as all ranks agreed on it when the communicator was made, or the one
// that PLAIT_TOPOLOGY names: devices and links, in the JSON of docs/topology.md. The text lives until the communicator
// is destroyed or aborted.
PLAIT_API plaitResult_t plaitCommTopology(plaitComm_t comm, const char** json);
// groups[r] = the group of rank r, for all nranks ranks: GPUs that NVLink joins to each other are of one group, and
// where that machine has no GPUs, all ranks of a node. Groups are numbered from 0, by their lowest ranks. The number
// can be the `color` of plaitCommSplit.
PLAIT_API plaitResult_t plaitCommGroups(plaitComm_t comm, int* groups);

// ---- Groups ---------------------------------------------------------------------------------------------------------

// Between these two, on this thread, collectives, messages, plaitCommInitRank* and plaitCommSplit are only noted. The
// outermost plaitGroupEnd first makes the communicators, all at the same time, and then issues the collectives: those
// on one GPU in the order noted; those on host memory at the same time for different communicators, and in the order
// noted for each. Sends and receives of a communicator follow its collectives, all at once; where they are on several
// streams, they begin when all of these have come to them, and all go on when they are done. It returns the first
// error. Where noting a call failed, nothing of the group is done. Where issuing one fails, its communicator is
// aborted, so that no rank waits for it, and the rest is issued. Groups nest. All other functions act at once, before
// what is noted: destroy and free what that needs after plaitGroupEnd.
PLAIT_API plaitResult_t plaitGroupStart(void);
PLAIT_API plaitResult_t plaitGroupEnd(void);

// ---- Collectives ----------------------------------------------------------------------------------------------------

// Reduces `count` elements of every rank's sendbuff; every rank gets all of it in recvbuff. In place: sendbuff =
// recvbuff.
PLAIT_API plaitResult_t plaitAllReduce(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                       plaitRedOp_t op, plaitComm_t comm, plaitStream_t stream);

// recvbuff of every rank becomes the `count` elements of sendbuff of `root`; sendbuff of other ranks is not looked at
// and may be NULL. In place: sendbuff = recvbuff.
PLAIT_API plaitResult_t plaitBroadcast(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                       int root, plaitComm_t comm, plaitStream_t stream);

// plaitBroadcast in place.
PLAIT_API plaitResult_t plaitBcast(void* buff, size_t count, plaitDataType_t datatype, int root, plaitComm_t comm,
                                   plaitStream_t stream);

// As plaitAllReduce, but only `root` gets the result; recvbuff of other ranks is not touched and may be NULL.
PLAIT_API plaitResult_t plaitReduce(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                    plaitRedOp_t op, int root, plaitComm_t comm, plaitStream_t stream);

// Every rank gives `sendcount` elements; every rank gets those of all ranks, in the order of ranks: recvbuff has nranks
// * sendcount elements. In place: sendbuff = recvbuff + rank * sendcount.
PLAIT_API plaitResult_t plaitAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, plaitDataType_t datatype,
                                       plaitComm_t comm, plaitStream_t stream);

// Reduces nranks * recvcount elements of every rank's sendbuff; rank r gets the r-th recvcount of them. In place:
// recvbuff = sendbuff + rank * recvcount.
PLAIT_API plaitResult_t plaitReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                           plaitDataType_t datatype, plaitRedOp_t op, plaitComm_t comm,
                                           plaitStream_t stream);

// Every rank gives `sendcount` elements; `root` gets those of all ranks, in the order of ranks; recvbuff of other ranks
// is not touched and may be NULL. In place: sendbuff = recvbuff + rank * sendcount on the root.
PLAIT_API plaitResult_t plaitGather(const void* sendbuff, void* recvbuff, size_t sendcount, plaitDataType_t datatype,
                                    int root, plaitComm_t comm, plaitStream_t stream);

// The reverse: rank r gets the r-th `recvcount` of the nranks * recvcount elements of `root`; sendbuff of other ranks
// is not looked at and may be NULL. In place: recvbuff = sendbuff + rank * recvcount on the root.
PLAIT_API plaitResult_t plaitScatter(const void* sendbuff, void* recvbuff, size_t recvcount, plaitDataType_t datatype,
                                     int root, plaitComm_t comm, plaitStream_t stream);

// Every rank gives nranks * count elements, the r-th `count` of them to rank r, and gets as many, from each rank
// `count`, in the order of ranks. In place: sendbuff = recvbuff.
PLAIT_API plaitResult_t plaitAlltoAll(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                      plaitComm_t comm, plaitStream_t stream);

// On host memory returns, and on a GPU lets `stream` go on, when every rank has come to it.
PLAIT_API plaitResult_t plaitBarrier(plaitComm_t comm, plaitStream_t stream);

// ---- Plans of your own ----------------------------------------------------------------------------------------------

// *plan = the plan of the file `path`, or of the text `json`: what `plait plan --format json` writes, as it is or
// edited (docs/algorithms.md). It is proved right; a file or a text that cannot be read or is no plan, and a plan that
// is wrong, are plaitInvalidArgument, and plaitGetLastError says in which line, or in which operation of which rank. A
// plan belongs to no communicator. Any thread. On an error *plan is NULL.
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
// docs/gpu.md says what GPUs do.
PLAIT_API plaitResult_t plaitRunPlan(const void* sendbuff, void* recvbuff, size_t count, plaitDataType_t datatype,
                                     plaitRedOp_t op, plaitPlan_t plan, plaitComm_t comm, plaitStream_t stream);

// ---- Messages between two ranks -------------------------------------------------------------------------------------

// The n-th plaitSend of rank a to rank b is received by the n-th plaitRecv of b from a, which must give as many bytes;
// else the receiver gets plaitInvalidUsage, and so does the sender, of a short message with its next call at the
// latest. Only these two ranks take part. Outside of a group each is done by itself: then a send may have to wait for
// its receive, and two ranks that both send first may wait for each other. In a group all sends and receives of a
// communicator are done together, after the collectives of the group; so messages to several ranks, in both directions,
// belong into a group, and so do those of a rank to itself. What is received must not lie over what is sent meanwhile:
// the other end may get either.
PLAIT_API plaitResult_t plaitSend(const void* sendbuff, size_t count, plaitDataType_t datatype, int peer,
                                  plaitComm_t comm, plaitStream_t stream);
PLAIT_API plaitResult_t plaitRecv(void* recvbuff, size_t count, plaitDataType_t datatype, int peer, plaitComm_t comm,
                                  plaitStream_t stream);

// ---- Operations -----------------------------------------------------------------------------------------------------

// *op = a pre-multiplied sum, for plaitAllReduce, plaitReduce and plaitReduceScatter of `comm` with elements of
// `datatype`: this rank's input is multiplied by the factor at `scalar` before the sum. The product is rounded to the
// datatype once; those of integers wrap. sendbuff is written in place only. Every rank has its own factor; one that
// calls with plaitSum has the factor 1.
//
// plaitScalarHostImmediate takes the factor now. plaitScalarDevice lets the GPU read it when the collective runs, a
// replay of a CUDA graph as well: it must stay there until then, and `comm` must have a device. Any thread; *op belongs
// to this handle of `comm`, which can have 4096 at a time.
PLAIT_API plaitResult_t plaitRedOpCreatePreMulSum(plaitRedOp_t* op, void* scalar, plaitDataType_t datatype,
                                                  plaitScalarResidence_t residence, plaitComm_t comm);

// Ends an operation. Collectives that were called with it, or noted in a group, go on as if it had not ended. Any
// thread. What is left ends with the communicator.
PLAIT_API plaitResult_t plaitRedOpDestroy(plaitRedOp_t op, plaitComm_t comm);

// ---- Memory ---------------------------------------------------------------------------------------------------------

// Memory for buffers: of the current CUDA device where one is usable, else of the host, whatever communicators there
// are; for one of PLAIT_DEVICE_HOST, where there are GPUs, use malloc instead. At least 256-byte aligned. No collective
// needs buffers from here. Any thread. `size` is bytes; 0 gives NULL.
PLAIT_API plaitResult_t plaitMemAlloc(void** ptr, size_t size);
// Gives back what plaitMemAlloc gave, and nothing else. Any device may be current; may wait until the GPU is idle.
// NULL: nothing happens.
PLAIT_API plaitResult_t plaitMemFree(void* ptr);

// A hint that `size` bytes at `buff` will be used again and again. Never needed; this version makes no use of it.
// *handle is for plaitCommDeregister, which looks at `comm` only.
PLAIT_API plaitResult_t plaitCommRegister(plaitComm_t comm, void* buff, size_t size, void** handle);
PLAIT_API plaitResult_t plaitCommDeregister(plaitComm_t comm, void* handle);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PLAIT_PLAIT_H

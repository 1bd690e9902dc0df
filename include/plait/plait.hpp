// The C interface for C++20: communicators that end themselves, and errors that are thrown. Header only. Everything
// here is one call of a function in plait.h, which explains it.
#ifndef PLAIT_PLAIT_HPP
#define PLAIT_PLAIT_HPP

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plait/plait.h"

namespace plait::api {

// What functions throw: a result that is not plaitSuccess, with its words.
class Error : public std::runtime_error {
 public:
  // The result that a function returned.
  Error(plaitResult_t result, const std::string& text) : std::runtime_error(text), result_(result) {}
  plaitResult_t result() const { return result_; }

 private:
  plaitResult_t result_;
};

// Throws an error with the words of plaitGetLastError, unless `result` is plaitSuccess.
inline void check(plaitResult_t result) {
  if (result != plaitSuccess) throw Error(result, plaitGetLastError(nullptr));
}

// The number of an element type that C++ itself has. C++ has no narrow floating types: pass theirs by name.
template <class T>
constexpr plaitDataType_t data_type() {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8,
                "Plait has no such element type; pass a plaitDataType_t");
  if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? plaitFloat32 : plaitFloat64;
  } else {
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return is_signed ? plaitInt8 : plaitUint8;
    if constexpr (sizeof(T) == 2) return is_signed ? plaitInt16 : plaitUint16;
    if constexpr (sizeof(T) == 4) return is_signed ? plaitInt32 : plaitUint32;
    if constexpr (sizeof(T) == 8) return is_signed ? plaitInt64 : plaitUint64;
  }
}

inline int version() {
  int version = 0;
  check(plaitGetVersion(&version));
  return version;
}

inline plaitUniqueId unique_id() {
  plaitUniqueId id;
  check(plaitGetUniqueId(&id));
  return id;
}

// For cudaSetDevice, where a launcher started a process for each GPU.
inline int local_rank() {
  int rank = 0;
  check(plaitGetLocalRank(&rank));
  return rank;
}

// With PLAIT_DEVICE_CUDA, communicators made with this config never fall back to host memory.
inline plaitConfig_t default_config(int device = PLAIT_DEVICE_CURRENT) {
  plaitConfig_t config = PLAIT_CONFIG_INITIALIZER;
  config.device = device;
  return config;
}

// A plan of your own, for Communicator::run(). Moves like a unique_ptr.
class Plan {
 public:
  // Reads a plan from a file, or from a text in JSON.
  static Plan load(const std::string& path) { return made(plaitPlanLoad, path); }
  static Plan parse(const std::string& json) { return made(plaitPlanParse, json); }
  Plan(Plan&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Plan& operator=(Plan&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Plan() { plaitPlanDestroy(handle_); }

  // The handle, which stays this object's.
  plaitPlan_t get() const { return handle_; }

 private:
  explicit Plan(plaitPlan_t handle) : handle_(handle) {}
  static Plan made(plaitResult_t (*make)(plaitPlan_t*, const char*), const std::string& from) {
    plaitPlan_t handle = nullptr;
    check(make(&handle, from.c_str()));
    return Plan(handle);
  }

  plaitPlan_t handle_ = nullptr;
};

// One rank's handle of a communicator. Moves like a unique_ptr. Empty if it was moved from, aborted, or split with no
// color.
class Communicator {
 public:
  Communicator() = default;
  Communicator(int size, const plaitUniqueId& id, int rank) { check(plaitCommInitRank(&handle_, size, id, rank)); }
  Communicator(int size, const plaitUniqueId& id, int rank, const plaitConfig_t& config) {
    check(plaitCommInitRankConfig(&handle_, size, id, rank, &config));
  }
  // That of all processes that a launcher started. `sequence` is 0 for the job's first one, 1 for the next, and so on.
  static Communicator from_launcher(const plaitConfig_t& config = default_config(), int sequence = 0) {
    plaitComm_t handle = nullptr;
    check(plaitCommInitLauncher(&handle, sequence, &config));
    return Communicator(handle);
  }
  // Takes ownership of a handle.
  explicit Communicator(plaitComm_t handle) : handle_(handle) {}
  Communicator(Communicator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    if (this != &other) plaitCommDestroy(std::exchange(handle_, std::exchange(other.handle_, nullptr)));
    return *this;
  }
  ~Communicator() { plaitCommDestroy(handle_); }

  // Makes all ranks in this process: on host memory, or on devices[r].
  static std::vector<Communicator> all_on_host(int size) {
    return all_on_devices(std::vector<int>(static_cast<size_t>(size < 0 ? 0 : size), PLAIT_DEVICE_HOST));
  }
  static std::vector<Communicator> all_on_devices(const std::vector<int>& devices) {
    std::vector<plaitComm_t> handles(devices.size() + 1);  // never empty, so that the library answers for 0 ranks
    check(plaitCommInitAll(handles.data(), static_cast<int>(devices.size()), devices.data()));
    handles.pop_back();
    return std::vector<Communicator>(handles.begin(), handles.end());
  }

  // Whether there is a handle; the handle, which stays this object's, or, by release(), becomes the caller's to end.
  explicit operator bool() const { return handle_ != nullptr; }
  plaitComm_t get() const { return handle_; }
  plaitComm_t release() { return std::exchange(handle_, nullptr); }

  int rank() const { return ask(plaitCommUserRank); }
  int size() const { return ask(plaitCommCount); }
  int device() const { return ask(plaitCommCuDevice); }
  // The machine that calls are planned for, as JSON.
  std::string topology() const {
    const char* json = nullptr;
    check(plaitCommTopology(handle_, &json));
    return json;
  }
  // The group of each rank: of GPUs that NVLink joins to each other, or of a node.
  std::vector<int> groups() const {
    std::vector<int> groups(static_cast<size_t>(size()));
    check(plaitCommGroups(handle_, groups.data()));
    return groups;
  }
  // The failure that ended the communicator, or plaitSuccess.
  plaitResult_t async_error() const {
    plaitResult_t error = plaitSuccess;
    check(plaitCommGetAsyncError(handle_, &error));
    return error;
  }

  // As plaitCommSplit: empty for PLAIT_SPLIT_NOCOLOR.
  Communicator split(int color, int key) const { return split(color, key, nullptr); }
  Communicator split(int color, int key, const plaitConfig_t& config) const { return split(color, key, &config); }
  // As plaitCommFinalize.
  void finalize() { check(plaitCommFinalize(handle_)); }
  // For the thread that owns this object. Other threads call plaitCommAbort(get()).
  void abort() { check(plaitCommAbort(release())); }

  template <class T>
  void all_reduce(const T* send, T* receive, size_t count, plaitRedOp_t op = plaitSum, plaitStream_t stream = {}) {
    all_reduce(send, receive, count, data_type<T>(), op, stream);
  }
  void all_reduce(const void* send, void* receive, size_t count, plaitDataType_t type, plaitRedOp_t op = plaitSum,
                  plaitStream_t stream = {}) {
    check(plaitAllReduce(send, receive, count, type, op, handle_, stream));
  }

  template <class T>
  void broadcast(const T* send, T* receive, size_t count, int root, plaitStream_t stream = {}) {
    broadcast(send, receive, count, data_type<T>(), root, stream);
  }
  void broadcast(const void* send, void* receive, size_t count, plaitDataType_t type, int root,
                 plaitStream_t stream = {}) {
    check(plaitBroadcast(send, receive, count, type, root, handle_, stream));
  }

  template <class T>
  void reduce(const T* send, T* receive, size_t count, plaitRedOp_t op, int root, plaitStream_t stream = {}) {
    reduce(send, receive, count, data_type<T>(), op, root, stream);
  }
  void reduce(const void* send, void* receive, size_t count, plaitDataType_t type, plaitRedOp_t op, int root,
              plaitStream_t stream = {}) {
    check(plaitReduce(send, receive, count, type, op, root, handle_, stream));
  }

  // `send_count` elements from each rank.
  template <class T>
  void all_gather(const T* send, T* receive, size_t send_count, plaitStream_t stream = {}) {
    all_gather(send, receive, send_count, data_type<T>(), stream);
  }
  void all_gather(const void* send, void* receive, size_t send_count, plaitDataType_t type, plaitStream_t stream = {}) {
    check(plaitAllGather(send, receive, send_count, type, handle_, stream));
  }

  // `receive_count` elements for each rank.
  template <class T>
  void reduce_scatter(const T* send, T* receive, size_t receive_count, plaitRedOp_t op = plaitSum,
                      plaitStream_t stream = {}) {
    reduce_scatter(send, receive, receive_count, data_type<T>(), op, stream);
  }
  void reduce_scatter(const void* send, void* receive, size_t receive_count, plaitDataType_t type,
                      plaitRedOp_t op = plaitSum, plaitStream_t stream = {}) {
    check(plaitReduceScatter(send, receive, receive_count, type, op, handle_, stream));
  }

  // `send_count` elements from each rank, to `root`.
  template <class T>
  void gather(const T* send, T* receive, size_t send_count, int root, plaitStream_t stream = {}) {
    gather(send, receive, send_count, data_type<T>(), root, stream);
  }
  void gather(const void* send, void* receive, size_t send_count, plaitDataType_t type, int root,
              plaitStream_t stream = {}) {
    check(plaitGather(send, receive, send_count, type, root, handle_, stream));
  }

  // `receive_count` elements for each rank, from `root`.
  template <class T>
  void scatter(const T* send, T* receive, size_t receive_count, int root, plaitStream_t stream = {}) {
    scatter(send, receive, receive_count, data_type<T>(), root, stream);
  }
  void scatter(const void* send, void* receive, size_t receive_count, plaitDataType_t type, int root,
               plaitStream_t stream = {}) {
    check(plaitScatter(send, receive, receive_count, type, root, handle_, stream));
  }

  // `count` elements from each rank to each.
  template <class T>
  void all_to_all(const T* send, T* receive, size_t count, plaitStream_t stream = {}) {
    all_to_all(send, receive, count, data_type<T>(), stream);
  }
  void all_to_all(const void* send, void* receive, size_t count, plaitDataType_t type, plaitStream_t stream = {}) {
    check(plaitAlltoAll(send, receive, count, type, handle_, stream));
  }

  // The same with a count for each rank, on host memory. Vectors have a number for each rank; no displacements: each
  // block follows the one before it.
  using Counts = std::vector<size_t>;

  template <class T>
  void all_gather_v(const T* send, T* receive, const Counts& counts, const Counts& displacements = {}) {
    all_gather_v(send, receive, data_type<T>(), counts, displacements);
  }
  void all_gather_v(const void* send, void* receive, plaitDataType_t type, const Counts& counts,
                    const Counts& displacements = {}) {
    check(plaitAllGatherv(send, receive, all_of(counts), all_or_none(displacements), type, handle_, nullptr));
  }

  template <class T>
  void reduce_scatter_v(const T* send, T* receive, const Counts& counts, plaitRedOp_t op = plaitSum,
                        const Counts& displacements = {}) {
    reduce_scatter_v(send, receive, data_type<T>(), counts, op, displacements);
  }
  void reduce_scatter_v(const void* send, void* receive, plaitDataType_t type, const Counts& counts,
                        plaitRedOp_t op = plaitSum, const Counts& displacements = {}) {
    check(plaitReduceScatterv(send, receive, all_of(counts), all_or_none(displacements), type, op, handle_, nullptr));
  }

  // `counts` are looked at on the root only.
  template <class T>
  void gather_v(const T* send, size_t send_count, T* receive, const Counts& counts, int root,
                const Counts& displacements = {}) {
    gather_v(send, send_count, receive, data_type<T>(), counts, root, displacements);
  }
  void gather_v(const void* send, size_t send_count, void* receive, plaitDataType_t type, const Counts& counts,
                int root, const Counts& displacements = {}) {
    const bool is_root = rank() == root;
    check(plaitGatherv(send, send_count, receive, is_root ? all_of(counts) : nullptr,
                       is_root ? all_or_none(displacements) : nullptr, type, root, handle_, nullptr));
  }

  template <class T>
  void scatter_v(const T* send, const Counts& counts, T* receive, size_t receive_count, int root,
                 const Counts& displacements = {}) {
    scatter_v(send, counts, receive, receive_count, data_type<T>(), root, displacements);
  }
  void scatter_v(const void* send, const Counts& counts, void* receive, size_t receive_count, plaitDataType_t type,
                 int root, const Counts& displacements = {}) {
    const bool is_root = rank() == root;
    check(plaitScatterv(send, is_root ? all_of(counts) : nullptr, is_root ? all_or_none(displacements) : nullptr,
                        receive, receive_count, type, root, handle_, nullptr));
  }

  template <class T>
  void all_to_all_v(const T* send, const Counts& send_counts, T* receive, const Counts& receive_counts,
                    const Counts& send_displacements = {}, const Counts& receive_displacements = {}) {
    all_to_all_v(send, send_counts, receive, receive_counts, data_type<T>(), send_displacements, receive_displacements);
  }
  void all_to_all_v(const void* send, const Counts& send_counts, void* receive, const Counts& receive_counts,
                    plaitDataType_t type, const Counts& send_displacements = {},
                    const Counts& receive_displacements = {}) {
    check(plaitAlltoAllv(send, all_of(send_counts), all_or_none(send_displacements), receive, all_of(receive_counts),
                         all_or_none(receive_displacements), type, handle_, nullptr));
  }

  // The collective of a plan of your own, by it; `count` as that collective takes it.
  template <class T>
  void run(const Plan& plan, const T* send, T* receive, size_t count, plaitRedOp_t op = plaitSum,
           plaitStream_t stream = {}) {
    run(plan, send, receive, count, data_type<T>(), op, stream);
  }
  void run(const Plan& plan, const void* send, void* receive, size_t count, plaitDataType_t type,
           plaitRedOp_t op = plaitSum, plaitStream_t stream = {}) {
    check(plaitRunPlan(send, receive, count, type, op, plan.get(), handle_, stream));
  }

  // To and from one rank. Messages that belong together go into a group().
  template <class T>
  void send(const T* data, size_t count, int peer, plaitStream_t stream = {}) {
    send(data, count, data_type<T>(), peer, stream);
  }
  void send(const void* data, size_t count, plaitDataType_t type, int peer, plaitStream_t stream = {}) {
    check(plaitSend(data, count, type, peer, handle_, stream));
  }
  template <class T>
  void receive(T* data, size_t count, int peer, plaitStream_t stream = {}) {
    receive(data, count, data_type<T>(), peer, stream);
  }
  void receive(void* data, size_t count, plaitDataType_t type, int peer, plaitStream_t stream = {}) {
    check(plaitRecv(data, count, type, peer, handle_, stream));
  }

  void barrier(plaitStream_t stream = {}) { check(plaitBarrier(handle_, stream)); }

 private:
  int ask(plaitResult_t (*question)(plaitComm_t, int*)) const {
    int answer = 0;
    check(question(handle_, &answer));
    return answer;
  }
  // Throws unless there is a number for each rank.
  const size_t* all_of(const Counts& numbers) const {
    const int ranks = size();
    if (numbers.size() == static_cast<size_t>(ranks)) return numbers.data();
    throw Error(plaitInvalidArgument, std::to_string(numbers.size()) + " counts or displacements for " +
                                          std::to_string(ranks) + " ranks; expected one for each rank");
  }
  const size_t* all_or_none(const Counts& numbers) const { return numbers.empty() ? nullptr : all_of(numbers); }

  Communicator split(int color, int key, const plaitConfig_t* config) const {
    plaitComm_t handle = nullptr;
    check(plaitCommSplit(handle_, color, key, &handle, config));
    return Communicator(handle);
  }

  plaitComm_t handle_ = nullptr;
};

// A pre-multiplied sum: each rank's input times a scalar of that rank. Pass it as `op`. It must end before the
// communicator that it was made for is destroyed, or that ends it.
class PremultipliedSum {
 public:
  // `scalar` is read at once.
  template <class T>
  PremultipliedSum(const Communicator& comm, T scalar)
      : PremultipliedSum(comm, &scalar, data_type<T>(), plaitScalarHostImmediate) {}
  // `scalar` is of any type. It is in host memory, which is read at once, or in memory of the communicator's device.
  PremultipliedSum(const Communicator& comm, void* scalar, plaitDataType_t type, plaitScalarResidence_t residence)
      : comm_(comm.get()) {
    check(plaitRedOpCreatePreMulSum(&op_, scalar, type, residence, comm_));
  }
  PremultipliedSum(PremultipliedSum&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)), op_(other.op_) {}
  PremultipliedSum& operator=(PremultipliedSum&& other) noexcept {
    std::swap(comm_, other.comm_);
    std::swap(op_, other.op_);
    return *this;
  }
  // Calls that were made with it go on.
  ~PremultipliedSum() {
    if (comm_ != nullptr) plaitRedOpDestroy(op_, comm_);
  }

  // The operation, to pass as `op`.
  operator plaitRedOp_t() const { return op_; }

 private:
  plaitComm_t comm_ = nullptr;
  plaitRedOp_t op_ = plaitSum;
};

// Runs `body` within a group: group([&] { for (auto& rank : ranks) rank.all_reduce(...); }). The constructors above
// need their handles at once, so they cannot make communicators in a group; use plait.h for that.
template <class Body>
void group(const Body& body) {
  check(plaitGroupStart());
  try {
    body();
  } catch (...) {
    // A call that could not be recorded has failed the group. After any other exception, the recorded calls are done.
    plaitGroupEnd();
    throw;
  }
  check(plaitGroupEnd());
}

}  // namespace plait::api

#endif  // PLAIT_PLAIT_HPP

// MPI as a peer, through the few symbols it takes. The two families differ in what a handle is: a pointer to a global
// object in Open MPI, a fixed number in MPICH and its relatives.
#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "bench/peer_library.hpp"

namespace plait {
namespace {

// Both families pass handles in one machine word: Open MPI's are pointers, MPICH's are ints (the upper half is
// ignored).
using Handle = void*;

class Mpi : public PeerLibrary {
 public:
  Mpi() {
    const char* family = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr ? "libmpi.so.40" : "libmpi.so.12";
    library_ = dlopen(family, RTLD_NOW | RTLD_GLOBAL);
    if (library_ == nullptr) {
      fail(ErrorCode::kInvalidArgument, "cannot open ", family, " (", dlerror(),
           "); install Open MPI or MPICH and launch under its mpirun, as `plait bench --vs mpi` does");
    }
    open_mpi_ = dlsym(library_, "ompi_mpi_comm_world") != nullptr;
    int initialized = 0;
    function<int(int*)>("MPI_Initialized")(&initialized);
    if (initialized == 0) function<int(int*, char***)>("MPI_Init")(nullptr, nullptr);
    world_ = handle("ompi_mpi_comm_world", 0x44000000);
    all_reduce_ = function<AllReduce>("MPI_Allreduce");
    reduce_ = function<Reduce>("MPI_Reduce");
    broadcast_ = function<Broadcast>("MPI_Bcast");
    reduce_scatter_ = function<AllReduce>("MPI_Reduce_scatter_block");
    all_gather_ = function<AllGather>("MPI_Allgather");
    gather_ = function<Gather>("MPI_Gather");
    scatter_ = function<Gather>("MPI_Scatter");
    all_to_all_ = function<AllGather>("MPI_Alltoall");
    barrier_ = function<int(Handle)>("MPI_Barrier");
    send_receive_ = function<SendReceive>("MPI_Sendrecv");
    send_ = function<Send>("MPI_Isend");
    receive_ = function<Receive>("MPI_Irecv");
    wait_all_ = function<int(int, void*, void*)>("MPI_Waitall");
    function<int(Handle, int*)>("MPI_Comm_rank")(world_, &rank_);
    in_place_ = open_mpi_ ? reinterpret_cast<void*>(1) : reinterpret_cast<void*>(-1);
  }

  ~Mpi() override {
    int finalized = 0;
    function<int(int*)>("MPI_Finalized")(&finalized);
    if (finalized == 0) function<int()>("MPI_Finalize")();
  }

  std::string name() const override {
    char text[8192] = {};
    int length = 0;
    function<int(char*, int*)>("MPI_Get_library_version")(text, &length);
    std::string version(text);
    // "Open MPI v4.1.4, package: …", "MPICH Version: 4.0.2\nMPICH Release date: …"
    version = version.substr(0, version.find_first_of(",\n"));
    const size_t v = version.find(" v");
    if (v != std::string::npos) version.erase(v + 1, 1);
    return version;
  }

  bool serves(const Call& call) const override {
    if (call.collective == Collective::kBarrier) return true;
    if (call.count > INT32_MAX) return false;
    if (!reduces(call.collective)) return size_of(call.type) <= 8;
    return type_of(call.type) != nullptr && facts_of(call.op).mpi.open_mpi != nullptr;
  }

  void run(const Call& call, const void* input, void* output) override {
    const int count = static_cast<int>(call.count);
    const Handle type = reduces(call.collective) ? type_of(call.type) : bytes_of(size_of(call.type));
    const size_t block = call.count * size_of(call.type);
    const auto* in = static_cast<const char*>(input);
    auto* out = static_cast<char*>(output);
    int error = 0;
    switch (call.collective) {
      case Collective::kAllReduce:
        error = all_reduce_(in == out ? in_place_ : in, out, count, type, op_of(call.op), world_);
        break;
      case Collective::kReduce:
        error = reduce_(in == out && rank_ == call.root ? in_place_ : in, out, count, type, op_of(call.op), call.root,
                        world_);
        break;
      case Collective::kBroadcast:
        // MPI broadcasts in place only: the root's input is the buffer.
        error = broadcast_(rank_ == call.root ? const_cast<char*>(in) : out, count, type, call.root, world_);
        break;
      case Collective::kReduceScatter: {
        const bool in_place = out == in + rank_ * block;
        // In place, MPI takes the whole input where it puts the result.
        error = in_place ? all_reduce_block(const_cast<char*>(in), count, type, op_of(call.op))
                         : reduce_scatter_(in, out, count, type, op_of(call.op), world_);
        break;
      }
      case Collective::kAllGather:
        error = all_gather_(in == out + rank_ * block ? in_place_ : in, count, type, out, count, type, world_);
        break;
      case Collective::kGather:
        error = gather_(in == out + rank_ * block && rank_ == call.root ? in_place_ : in, count, type, out, count, type,
                        call.root, world_);
        break;
      case Collective::kScatter:
        error = scatter_(in, count, type, out == in + rank_ * block && rank_ == call.root ? in_place_ : out, count,
                         type, call.root, world_);
        break;
      case Collective::kAllToAll:
        error = all_to_all_(in == out ? in_place_ : in, count, type, out, count, type, world_);
        break;
      case Collective::kBarrier:
        error = barrier_(world_);
        break;
    }
    if (error != 0) fail(ErrorCode::kInternal, "MPI failed with error ", error);
  }

  bool serves(const RingShift& shift) const override { return shift.count <= INT32_MAX && size_of(shift.type) <= 8; }

  void run(const RingShift& shift, const void* input, void* output) override {
    if (shift.window > 1 || !shift.is_both_ways()) return run_window(shift, input, output);
    const int count = static_cast<int>(shift.count);
    const Handle type = bytes_of(size_of(shift.type));
    std::array<uint64_t, 16> status{};  // more than any MPI's, whose names for none differ
    const int error =
        send_receive_(input, count, type, shift.to, 0, output, count, type, shift.from, 0, world_, status.data());
    if (error != 0) fail(ErrorCode::kInternal, "MPI_Sendrecv failed with error ", error);
  }

 private:
  using SendReceive = int(const void*, int, Handle, int, int, void*, int, Handle, int, int, Handle, void*);
  using Send = int(const void*, int, Handle, int, int, Handle, void*);
  using Receive = int(void*, int, Handle, int, int, Handle, void*);
  using AllReduce = int(const void*, void*, int, Handle, Handle, Handle);
  using Reduce = int(const void*, void*, int, Handle, Handle, int, Handle);
  using Broadcast = int(void*, int, Handle, int, Handle);
  using AllGather = int(const void*, int, Handle, void*, int, Handle, Handle);
  using Gather = int(const void*, int, Handle, void*, int, Handle, int, Handle);

  // As osu_bw and osu_bibw do.
  void run_window(const RingShift& shift, const void* input, void* output) {
    const int count = static_cast<int>(shift.count);
    const Handle type = bytes_of(size_of(shift.type));
    const size_t request_bytes = open_mpi_ ? sizeof(Handle) : sizeof(int);
    requests_.resize(2 * static_cast<size_t>(shift.window) * request_bytes);
    std::byte* next = requests_.data();
    int started = 0, error = 0;
    const auto start = [&](const auto& begin) {
      if (error == 0) error = begin(next);
      next += request_bytes;
      ++started;
    };
    for (int i = 0; i < shift.window && shift.receives(); ++i) {
      start([&](void* request) { return receive_(output, count, type, shift.from, 0, world_, request); });
    }
    for (int i = 0; i < shift.window && shift.sends(); ++i) {
      start([&](void* request) { return send_(input, count, type, shift.to, 0, world_, request); });
    }
    void* const statuses = reinterpret_cast<void*>(uintptr_t{open_mpi_ ? 0U : 1U});  // to be ignored
    if (error == 0) error = wait_all_(started, requests_.data(), statuses);
    if (error != 0) fail(ErrorCode::kInternal, "messages of MPI failed with error ", error);
  }

  template <class Signature>
  Signature* function(const char* symbol) const {
    void* address = dlsym(library_, symbol);
    if (address == nullptr) fail(ErrorCode::kInvalidArgument, "this MPI library has no ", symbol);
    return reinterpret_cast<Signature*>(address);
  }

  int all_reduce_block(char* buffer, int count, Handle type, Handle op) {
    return reduce_scatter_(in_place_, buffer, count, type, op, world_);
  }

  Handle handle(const char* open_mpi_symbol, uintptr_t mpich_value) const {
    return open_mpi_ ? dlsym(library_, open_mpi_symbol) : reinterpret_cast<Handle>(mpich_value);
  }

  Handle type_of(DataType type) const {
    switch (type) {
      case DataType::kInt8:
        return handle("ompi_mpi_int8_t", 0x4c000137);
      case DataType::kUint8:
        return handle("ompi_mpi_uint8_t", 0x4c00013b);
      case DataType::kInt16:
        return handle("ompi_mpi_int16_t", 0x4c000238);
      case DataType::kUint16:
        return handle("ompi_mpi_uint16_t", 0x4c00023c);
      case DataType::kInt32:
        return handle("ompi_mpi_int32_t", 0x4c000439);
      case DataType::kUint32:
        return handle("ompi_mpi_uint32_t", 0x4c00043d);
      case DataType::kInt64:
        return handle("ompi_mpi_int64_t", 0x4c00083a);
      case DataType::kUint64:
        return handle("ompi_mpi_uint64_t", 0x4c00083e);
      case DataType::kFloat32:
        return handle("ompi_mpi_float", 0x4c00040a);
      case DataType::kFloat64:
        return handle("ompi_mpi_double", 0x4c00080b);
      default:
        return nullptr;  // MPI has no portable handles for the narrow floating types
    }
  }

  // A type of this size, for collectives that only move data.
  Handle bytes_of(size_t bytes) const {
    return type_of(bytes == 1   ? DataType::kUint8
                   : bytes == 2 ? DataType::kUint16
                   : bytes == 4 ? DataType::kUint32
                                : DataType::kUint64);
  }

  Handle op_of(ReduceOp op) const {
    const MpiOperation& operation = facts_of(op).mpi;
    return handle(operation.open_mpi, operation.mpich);
  }

  void* library_ = nullptr;  // never closed: MPI libraries do not survive it
  bool open_mpi_ = false;
  int rank_ = 0;
  void* in_place_ = nullptr;
  Handle world_ = nullptr;
  AllReduce* all_reduce_ = nullptr;
  Reduce* reduce_ = nullptr;
  Broadcast* broadcast_ = nullptr;
  AllReduce* reduce_scatter_ = nullptr;
  AllGather* all_gather_ = nullptr;
  Gather *gather_ = nullptr, *scatter_ = nullptr;
  AllGather* all_to_all_ = nullptr;
  int (*barrier_)(Handle) = nullptr;
  SendReceive* send_receive_ = nullptr;
  Send* send_ = nullptr;
  Receive* receive_ = nullptr;
  int (*wait_all_)(int, void*, void*) = nullptr;
  std::vector<std::byte> requests_;  // of a window
};

}  // namespace

std::unique_ptr<PeerLibrary> make_mpi_peer(Communicator& communicator) {
  auto mpi = std::make_unique<Mpi>();
  (void)communicator;
  return mpi;
}

}  // namespace plait

// Creates and lays out the shared memory.
#include "runtime/host/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/figures.hpp"
#include "base/memory_file.hpp"
#include "runtime/agreement.hpp"

namespace plait {
namespace {

constexpr size_t kPage = 4096;

size_t round_to_page(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

size_t header_bytes() { return round_to_page(sizeof(FailureRecord)); }
// Offset of the agreement of a pair: that of all ranks comes first, then those of each pair.
size_t agreement_of_pair_at(const SegmentShape& shape, int from, int to) {
  return Agreement::bytes_for(shape.ranks) + static_cast<size_t>(from * shape.ranks + to) * Agreement::bytes_for(2);
}
size_t agreement_bytes(const SegmentShape& shape) {
  return shape.ranks <= kMostAgreeingRanks ? round_to_page(agreement_of_pair_at(shape, shape.ranks, 0)) : 0;
}
// A rank's exports begin behind its status, which fills whole lines.
size_t status_bytes() { return round_to_page(sizeof(RankStatus) + sizeof(Exports)); }
bool is_small(uint32_t room) { return room >= kLargeRooms; }
size_t signal_bytes(int signals) { return static_cast<size_t>(signals) * Segment::kSignalStride; }
size_t signal_bytes(const SegmentShape& shape, uint32_t room) {
  return is_small(room) ? signal_bytes(small_signals(shape.signals)) : round_to_page(signal_bytes(shape.signals));
}
size_t scratch_bytes(const SegmentShape& shape, uint32_t room) {
  return is_small(room) ? small_scratch_bytes(shape.scratch_bytes) : round_to_page(shape.scratch_bytes);
}
// Small rooms that began at the same place of a page would compete for a few sets of a cache.
constexpr size_t kSmallRoomSkew = 5 * Segment::kSignalStride;
size_t room_bytes(const SegmentShape& shape, uint32_t room) {
  return signal_bytes(shape, room) + scratch_bytes(shape, room) + (is_small(room) ? kSmallRoomSkew : 0);
}
// Of the first rooms of a rank, so many.
size_t rooms_bytes(const SegmentShape& shape, uint32_t rooms) {
  const uint32_t large = std::min(rooms, kLargeRooms);
  return large * room_bytes(shape, 0) + (rooms - large) * room_bytes(shape, kLargeRooms);
}
size_t senders(const SegmentShape& shape) { return static_cast<size_t>(shape.ranks) - 1; }  // to one rank
size_t slot_data_bytes(const SegmentShape& shape) { return Fifo::data_bytes_for(shape.ranks - 1); }
size_t fifos_bytes(const SegmentShape& shape) {
  return round_to_page(senders(shape) * Fifo::bytes_for(slot_data_bytes(shape)));
}
size_t rank_bytes(const SegmentShape& shape) {
  return status_bytes() + round_to_page(rooms_bytes(shape, kRooms)) + fifos_bytes(shape);
}

size_t mebibytes(const SegmentShape& shape) { return (shape.total_bytes() + (1 << 20) - 1) >> 20; }

// Advises what to do about `error_number` in PLAIT_SHM_DIR.
std::string directory_hint(const SegmentShape& shape, const std::string& directory, int error_number) {
  constexpr const char* kInstead = " or unset PLAIT_SHM_DIR, to use anonymous memory";
  struct stat status{};
  const bool there = ::stat(directory.c_str(), &status) == 0;
  switch (error_number) {
    case ENOENT:
      if (!there) return join("; make that directory,", kInstead);
      break;
    case ENOTDIR:
      return join("; name a directory in PLAIT_SHM_DIR,", kInstead);
    case EACCES:
    case EPERM:
    case EROFS:
      return join("; let user ", ::geteuid(), " write to that directory,", kInstead);
    case ENOSPC:
    case EDQUOT:
      return join("; make room on that device (containers: --shm-size=", mebibytes(shape) + 1,
                  "m), lower PLAIT_SCRATCH_KIB (now ", 2 * shape.scratch_bytes >> 10, "),", kInstead);
    case EMFILE:
    case ENFILE:
      return more_files_hint();
    default:
      break;
  }
  return join("; name a directory in PLAIT_SHM_DIR where files can be made, such as /dev/shm,", kInstead);
}

[[noreturn]] void fail_in_directory(const SegmentShape& shape, const std::string& directory, int error_number) {
  fail(ErrorCode::kResources, "cannot get ", mebibytes(shape), " MiB of shared memory for ",
       counted(shape.ranks, "rank"), " in PLAIT_SHM_DIR=", directory, ": ", std::strerror(error_number),
       directory_hint(shape, directory, error_number));
}

[[noreturn]] void fail_without_directory(const SegmentShape& shape, int error_number) {
  const bool too_many = error_number == EMFILE || error_number == ENFILE;
  fail(ErrorCode::kResources, "cannot get ", mebibytes(shape), " MiB of shared memory for ",
       counted(shape.ranks, "rank"), " from an anonymous memory file: ", std::strerror(error_number),
       too_many ? more_files_hint()
                : join("; raise the memory limit of this process or container by that much, or lower PLAIT_SCRATCH_KIB "
                       "(now ",
                       2 * shape.scratch_bytes >> 10, ")"));
}

// A file that grows beyond the limit would not fail but kill the process with SIGXFSZ.
void check_file_size_limit(const SegmentShape& shape) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (shape.total_bytes() <= limit.rlim_cur) return;
  fail(ErrorCode::kResources, "cannot get ", mebibytes(shape), " MiB of shared memory for ",
       counted(shape.ranks, "rank"), ": files of this process may have ", limit.rlim_cur >> 10,
       " KiB only. Raise that limit (ulimit -f), or lower PLAIT_SCRATCH_KIB (now ", 2 * shape.scratch_bytes >> 10, ")");
}

[[noreturn]] void fail_to_map(const SegmentShape& shape, int error_number) {
  fail(ErrorCode::kResources, "cannot map ", mebibytes(shape), " MiB of shared memory of ",
       counted(shape.ranks, "rank"), ": ", std::strerror(error_number),
       ". Raise the limit on this process's address space (ulimit -v) by that much, or lower PLAIT_SCRATCH_KIB (now ",
       2 * shape.scratch_bytes >> 10, ")");
}

// Opens a file in `directory` that no longer has a name when it is returned.
UniqueFd open_unnamed_file(const SegmentShape& shape, const std::string& directory) {
  UniqueFd file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  // Old file systems have no unnamed files: make a named one and remove the name at once.
  uint64_t nonce = 0;
  if (getrandom(&nonce, sizeof(nonce), 0) != sizeof(nonce)) fail_system(errno, "getrandom");
  const std::string path = join(directory, "/plait-", nonce);
  file = UniqueFd(::open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  if (!file) fail_in_directory(shape, directory, errno);
  ::unlink(path.c_str());
  return file;
}

}  // namespace

size_t SegmentShape::total_bytes() const {
  return header_bytes() + agreement_bytes(*this) + static_cast<size_t>(ranks) * rank_bytes(*this);
}

UniqueFd Segment::create(const SegmentShape& shape, const std::string& directory) {
  const size_t bytes = shape.total_bytes();
  check_file_size_limit(shape);
  if (directory.empty()) {
    // An anonymous memory file takes pages from the process's memory as they are touched. It has no quota to check.
    UniqueFd file = make_memory_file("plait", bytes);
    if (!file) fail_without_directory(shape, errno);
    return file;
  }
  UniqueFd file = open_unnamed_file(shape, directory);
  // Allocate the space now: a full file system would otherwise kill the ranks with SIGBUS in the middle of a
  // collective.
  int error_number = EINTR;
  while (error_number == EINTR) error_number = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  if (error_number != 0) fail_in_directory(shape, directory, error_number);
  return file;
}

Segment::Segment(const SegmentShape& shape, const UniqueFd& file) : shape_(shape) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_system(errno, "fstat");
  identity_ = {status.st_dev, status.st_ino};
  void* address = mmap(nullptr, shape.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED) fail_to_map(shape, errno);
  base_ = static_cast<std::byte*>(address);
}

Segment::Segment(const SegmentShape& shape) : shape_(shape) {
  void* address =
      mmap(nullptr, shape.total_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) fail_to_map(shape, errno);
  base_ = static_cast<std::byte*>(address);
  identity_ = {0, reinterpret_cast<uintptr_t>(address)};
}

Segment::~Segment() { munmap(base_, shape_.total_bytes()); }

std::optional<Error> Segment::failure_for(int rank) const {
  std::optional<Error> failure = failure_in(this->failure(), rank);
  if (failure) status(rank).knows_failure.store(true, std::memory_order_relaxed);
  return failure;
}

void Segment::record_failure(ErrorCode code, int reporter, const std::string& message) const {
  set_failure(failure(), code, reporter, message);
  if (when_failed_) when_failed_();
}

std::byte* Segment::rank_base(int rank) const {
  return base_ + header_bytes() + agreement_bytes(shape_) + static_cast<size_t>(rank) * rank_bytes(shape_);
}

std::byte* Segment::agreement_memory() const { return agreement_bytes(shape_) > 0 ? base_ + header_bytes() : nullptr; }
std::byte* Segment::message_agreement_memory(int from, int to) const {
  return agreement_bytes(shape_) > 0 ? agreement_memory() + agreement_of_pair_at(shape_, from, to) : nullptr;
}

std::byte* Segment::room_base(int rank, uint32_t room) const {
  return rank_base(rank) + status_bytes() + rooms_bytes(shape_, room);
}

std::byte* Segment::scratch(int rank, uint32_t room) const {
  return room_base(rank, room) + signal_bytes(shape_, room);
}

Fifo Segment::fifo(int from, int to) const {
  const size_t bytes = slot_data_bytes(shape_);
  const auto place = static_cast<size_t>(from < to ? from : from - 1);  // a rank has no FIFO to itself
  return {rank_base(to) + rank_bytes(shape_) - fifos_bytes(shape_) + place * Fifo::bytes_for(bytes), bytes};
}

}  // namespace plait

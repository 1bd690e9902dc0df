// The memory that the ranks of a communicator share.
//
// The first rank of a host makes one block, and all ranks of that host map it. It has room for the ranks of all hosts,
// so that a rank has one number everywhere; of ranks elsewhere only the status is ever touched (control.hpp).
//
// The block begins with a header with the failure record, and the agreements if there are few ranks. Then it has for
// every rank its status, its exports, its rooms and the FIFOs to it. A room has the signals and the scratch of one
// epoch, which is one run of a plan over one slice of a message. There are large rooms and small ones
// (epoch_rooms.hpp). An epoch may use its room as soon as every rank has completed the epoch that had the room before.
//
// The block is an anonymous memory file, so nothing is left in any file system however the ranks end. A directory such
// as /dev/shm can be named instead; the file is then removed from it before anyone uses it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "runtime/exports.hpp"
#include "runtime/host/epoch_rooms.hpp"
#include "runtime/host/failure.hpp"
#include "runtime/host/fifo.hpp"
#include "runtime/host/rank_status.hpp"
#include "runtime/segment_identity.hpp"

namespace plait {

// Sizes that all ranks must agree on.
struct SegmentShape {
  int ranks = 1;
  size_t scratch_bytes = 0;  // of a rank in a large room
  int signals = 0;           // the same

  size_t total_bytes() const;
};

class Segment {
 public:
  // Rank 0 makes the memory. It is anonymous if `directory` is empty. Throws kResources, which says how much is needed
  // and how to get it.
  static UniqueFd create(const SegmentShape& shape, const std::string& directory);
  // Maps the memory.
  Segment(const SegmentShape& shape, const UniqueFd& file);
  // Makes memory of this process only, for ranks that are threads.
  explicit Segment(const SegmentShape& shape);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const SegmentShape& shape() const { return shape_; }
  // All of it.
  std::span<std::byte> memory() const { return {base_, shape_.total_bytes()}; }
  const SegmentIdentity& identity() const { return identity_; }
  FailureRecord& failure() const { return *reinterpret_cast<FailureRecord*>(base_); }
  // Returns the failure that ended the communicator, if there was one, for the user of `rank`, and records that the
  // user has been told.
  std::optional<Error> failure_for(int rank) const;
  // Records that `reporter`, a rank of this process, has found a failure, unless there is one already. Any thread.
  void record_failure(ErrorCode code, int reporter, const std::string& message) const;
  // `then` is called on the thread that has recorded one, for who tells other hosts. Call it before any call is made.
  void when_failed(std::function<void()> then) { when_failed_ = std::move(then); }
  RankStatus& status(int rank) const { return *reinterpret_cast<RankStatus*>(rank_base(rank)); }
  // Memory for the `Agreement` of all ranks, and for that of two ranks on messages from one to the other. Null for more
  // than kMostAgreeingRanks ranks.
  std::byte* agreement_memory() const;
  std::byte* message_agreement_memory(int from, int to) const;
  Exports& exports(int rank) const { return *reinterpret_cast<Exports*>(rank_base(rank) + sizeof(RankStatus)); }
  // Flags, kSignalStride bytes apart.
  std::byte* signals(int rank, uint32_t room) const { return room_base(rank, room); }
  std::byte* scratch(int rank, uint32_t room) const;
  // The FIFO for messages from one rank to another.
  Fifo fifo(int from, int to) const;

  // Each flag has one writer and one reader, and a cache line of its own.
  static constexpr size_t kSignalStride = 64;
  // Bytes of the line behind the flag.
  static constexpr size_t kSignalPayload = kSignalStride - sizeof(uint64_t);

 private:
  std::byte* rank_base(int rank) const;
  std::byte* room_base(int rank, uint32_t room) const;

  SegmentShape shape_;
  SegmentIdentity identity_;
  std::byte* base_ = nullptr;
  std::function<void()> when_failed_;
};

}  // namespace plait

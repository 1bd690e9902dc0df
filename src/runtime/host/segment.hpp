// The memory that the ranks of a communicator share.
//
// One block, made by rank 0 and mapped by all: a header with the failure record, the offers where few ranks are, then
// for every rank its status, its exports, its signals, its scratch and the fifos to it. Signals and scratch exist
// twice, for even and odd epochs (an epoch is one run of a plan over one slice of a message): epoch e may use its half
// as soon as every rank is done with epoch e
// - 2.
//
// The block is an anonymous memory file, so that nothing is left in any file system however the ranks end; a directory
// such as /dev/shm can be named instead, then the file is removed from it before anyone uses it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/unique_fd.hpp"
#include "runtime/exports.hpp"
#include "runtime/host/failure.hpp"
#include "runtime/host/fifo.hpp"
#include "runtime/host/rank_status.hpp"
#include "runtime/segment_identity.hpp"

namespace plait {

// Sizes that all ranks must agree on.
struct SegmentShape {
  int ranks = 1;
  size_t scratch_bytes = 0;  // per rank and epoch parity
  int signals = 0;           // per rank and epoch parity

  size_t total_bytes() const;
};

class Segment {
 public:
  // Makes the memory (rank 0). `directory` empty: anonymous. Throws kResources that says how much is needed and how to
  // get it.
  static UniqueFd create(const SegmentShape& shape, const std::string& directory);
  // Maps it.
  Segment(const SegmentShape& shape, const UniqueFd& file);
  // Memory of this process only, for ranks that are threads.
  explicit Segment(const SegmentShape& shape);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  const SegmentShape& shape() const { return shape_; }
  const SegmentIdentity& identity() const { return identity_; }
  FailureRecord& failure() const { return *reinterpret_cast<FailureRecord*>(base_); }
  // What ended the communicator, if anything did, for the user of `rank`, who then knows of it.
  std::optional<Error> failure_for(int rank) const;
  RankStatus& status(int rank) const { return *reinterpret_cast<RankStatus*>(rank_base(rank)); }
  // For `Meetings` of all ranks, and of two of them about messages from one to the other; none where there are more
  // than kMostOfferingRanks.
  std::byte* offers() const;
  std::byte* message_offers(int from, int to) const;
  Exports& exports(int rank) const { return *reinterpret_cast<Exports*>(rank_base(rank) + sizeof(RankStatus)); }
  // Signal words, kSignalStride bytes apart.
  std::byte* signals(int rank, uint32_t parity) const;
  std::byte* scratch(int rank, uint32_t parity) const;
  // For messages from one rank to another one.
  Fifo fifo(int from, int to) const;

  // One writer and one reader a word: each has a cache line of its own.
  static constexpr size_t kSignalStride = 64;
  // What the line has room for behind the word.
  static constexpr size_t kSignalPayload = kSignalStride - sizeof(uint64_t);

 private:
  std::byte* rank_base(int rank) const;

  SegmentShape shape_;
  SegmentIdentity identity_;
  std::byte* base_ = nullptr;
};

}  // namespace plait

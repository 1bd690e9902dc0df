// How ranks of one host find each other and exchange the few bytes and descriptors that a communicator starts from.
// A star through rank 0: simple, bounded in every wait, and a dead rank shows at once as a closed connection. Data of
// collectives never passes here. See docs/bootstrap.md.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/unique_fd.hpp"
#include "runtime/bootstrap_options.hpp"
#include "runtime/unique_id.hpp"

namespace plait {

// One rank's end. Belongs to one thread at a time and moves like a unique_ptr. Every call below is collective: all
// ranks make the same calls in the same order. A call that fails fails on all ranks, with the reason that rank 0 found,
// and leaves this object closed.
class Bootstrap {
 public:
  // Joins `size` ranks (1 to 4096) as `rank`. Returns when all are there; throws kTimeout naming the ranks that are
  // not, kPeerFailed where one ended, kMismatch for two ranks of one number, another size or another version of the
  // library, kInvalidArgument where this rank's arguments cannot be right. Rank 0 must be called in the process that
  // created the id (RendezvousPoint::claim says why); the ids of jobs have no such process.
  static Bootstrap create(const UniqueId& id, int rank, int size, const BootstrapOptions& options = {});

  // Rank 0, for a caller that still owns the point.
  static Bootstrap lead(RendezvousPoint point, int size, const BootstrapOptions& options = {});

  // A world of one rank, without any socket.
  static Bootstrap alone();

  Bootstrap(Bootstrap&&) noexcept;
  Bootstrap& operator=(Bootstrap&&) noexcept;
  ~Bootstrap();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // By rank, as rank 0 sees them; 0 where rank 0 cannot see a rank's process, or over TCP cannot tell which it is: in
  // another process namespace.
  const std::vector<pid_t>& process_ids() const { return process_ids_; }

  // Every rank gives `mine.size()` bytes, the same number on all; `all` (size() times as many) gets them by rank.
  // At most kMostBytes in `all`: this is for addresses and handles, not for data.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);
  template <class T>
  std::vector<T> all_gather(const T& mine);
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // No rank returns before all ranks have called.
  void barrier();

  // Gives all ranks a descriptor of rank 0, for instance of a memory file, which then needs no name. `descriptor`
  // counts on rank 0 only and stays the caller's there. Every rank gets one of its own, which closes on exec.
  UniqueFd broadcast_descriptor(int descriptor);

  // Gives all ranks a descriptor of every rank, for instance of memory that each of them made: by rank, this rank's own
  // among them. `descriptor` stays the caller's. Every rank gets size() new ones, which close on exec.
  std::vector<UniqueFd> all_gather_descriptors(int descriptor);

  // Leaves. Local and immediate, and safe to repeat: the other ranks notice at their next call.
  void close();

 private:
  class End;  // of the star: rank 0's or another rank's
  class RankZero;
  class OtherRank;

  explicit Bootstrap(std::unique_ptr<End> end);
  // Runs one call; one that throws closes this end.
  template <class Call>
  auto run(Call call);

  int rank_;
  int size_;
  std::vector<pid_t> process_ids_;
  std::unique_ptr<End> end_;  // none once closed
  std::string failure_;       // why it is closed, where a call failed
};

template <class T>
std::vector<T> Bootstrap::all_gather(const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<size_t>(size_));
  all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace plait

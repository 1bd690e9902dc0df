// Lets ranks find each other and exchange the few bytes, and on one host descriptors, that a communicator starts from.
// The ranks form a star around rank 0. That is simple, every wait is bounded, and a dead rank shows at once as a closed
// connection. The data of collectives never passes here. See docs/dev/connections.md.
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
#include "runtime/internet_address.hpp"
#include "runtime/rank_link.hpp"
#include "runtime/unique_id.hpp"

namespace plait {

// One rank's endpoint. It belongs to one thread at a time and moves like a unique_ptr. Every call below is collective:
// all ranks make the same calls in the same order. A call that fails does so on all ranks, with the reason that rank 0
// found, and leaves this object closed.
class Bootstrap {
 public:
  // Joins `size` ranks (1 to 4096) as `rank`. Returns when all ranks are there. Throws kTimeout naming the ranks that
  // are missing, kPeerFailed if one ended, and kInvalidArgument if this rank's arguments cannot be right. Throws
  // kMismatch for two ranks of one number, a different size or a different version of the library. Rank 0 must call it
  // in the process that created the id (RendezvousPoint::claim says why); the id of a job has no such process.
  static Bootstrap create(const UniqueId& id, int rank, int size, const BootstrapOptions& options = {});

  // Joins as rank 0, for a caller that still owns the point.
  static Bootstrap lead(RendezvousPoint point, int size, const BootstrapOptions& options = {});

  // Makes a world of one rank, without any socket.
  static Bootstrap alone();

  Bootstrap(Bootstrap&&) noexcept;
  Bootstrap& operator=(Bootstrap&&) noexcept;
  ~Bootstrap();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Process ids by rank, as rank 0 sees them. A rank in another process namespace has 0 if rank 0 cannot see its
  // process or, over TCP, cannot tell which one it is.
  const std::vector<pid_t>& process_ids() const { return process_ids_; }
  // Until it is closed.
  const BootstrapOptions& options() const;
  // The address of this host by which it and another host reach each other; none if this end has no connection to one.
  InternetAddress own_address() const;

  // Gathers `mine.size()` bytes of every rank, the same number on all, into `all` (size() times as many), by rank.
  // `all` has at most kMostBytes: this is for addresses and handles, not for data.
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all);
  template <class T>
  std::vector<T> all_gather(const T& mine);
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // Gathers a text of every rank, by rank, of whatever length: addresses of a transport, for instance.
  std::vector<std::string> all_gather_texts(const std::string& mine);

  // Returns only after all ranks have called it.
  void barrier();

  // The next two are for ranks of one host.
  //
  // Gives all ranks a descriptor of rank 0, for instance of a memory file, which then needs no name. `descriptor`
  // counts only on rank 0, whose caller keeps it. Every rank gets a descriptor of its own, which closes on exec.
  UniqueFd broadcast_descriptor(int descriptor);

  // Gives all ranks a descriptor of every rank, for instance of memory that each of them made. They come by rank, with
  // this rank's own among them. The caller keeps `descriptor`. Every rank gets size() new descriptors, which close on
  // exec.
  std::vector<UniqueFd> all_gather_descriptors(int descriptor);

  // Gives up the connections, for who goes on using them, and leaves. On rank 0 they are those to all ranks, by rank;
  // on another rank only the first is there, to rank 0. Nothing is under way on them.
  std::vector<RankLink> release();

  // Leaves. Local, immediate and safe to repeat: the other ranks notice at their next call.
  void close();

 private:
  class End;  // of the star: rank 0 or another rank
  class RankZero;
  class OtherRank;

  explicit Bootstrap(std::unique_ptr<End> end);
  // Runs one call. If it throws, this endpoint is closed.
  template <class Call>
  auto run(Call call);

  int rank_;
  int size_;
  std::vector<pid_t> process_ids_;
  std::unique_ptr<End> end_;  // null once closed
  std::string failure_;       // the reason, if a failed call closed it
};

template <class T>
std::vector<T> Bootstrap::all_gather(const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<size_t>(size_));
  all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

}  // namespace plait

#include "runtime/rendezvous.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>

#include "base/figures.hpp"
#include "base/process.hpp"
#include "runtime/host_identity.hpp"
#include "runtime/interfaces.hpp"
#include "runtime/name_holder.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {
namespace {

// A rank answers within microseconds. One that a busy machine keeps from running comes back and tries again.
constexpr double kHandshakeSeconds = 2;
// Callers that were accepted are served between two rounds of accepting, so that a crowd of new ones cannot starve
// them.
constexpr int kAcceptsPerRound = 16;
constexpr double kFirstPauseSeconds = 0.0002;
constexpr double kLongestPauseSeconds = 0.02;

// A connection that has not yet proved to come from a rank.
struct Caller {
  Caller(UniqueFd connection, std::optional<PeerCredentials> credentials)
      : socket(std::move(connection)), peer(credentials), deadline(Deadline::after(kHandshakeSeconds)) {}

  // The process id as this process would write it, or 0 if it cannot see that process. Believe it only once the caller
  // has proved to be a rank.
  pid_t process_id() const {
    if (peer) return peer->process_id;
    return hello.process_namespace == own_process_namespace() ? hello.process_id : 0;
  }

  UniqueFd socket;
  std::optional<PeerCredentials> peer;
  Deadline deadline;
  bool greeted = false;  // the Hello has arrived whole and was answered
  size_t received = 0;   // bytes of the current message
  Hello hello;
  Challenge challenge;
  Proof proof;
};

template <class Message>
Progress receive_message(Caller& caller, Message& message) {
  std::span<std::byte> rest = writable_bytes_of(message).subspan(caller.received);
  const Progress progress = receive_some(caller.socket.get(), rest);
  caller.received = sizeof message - rest.size();
  return progress;
}

// Rank 0's side: one poll() over the listening socket, the callers and the ranks that have arrived.
class Gathering {
 public:
  Gathering(RendezvousPoint point, int size, Stage stage, std::span<const RankLink> met,
            const BootstrapOptions& options)
      : point_(std::move(point)),
        secret_(point_.id().secret),
        size_(size),
        stage_(stage),
        met_(met),
        seconds_(options.timeout_seconds),
        deadline_(options.deadline([this] { return join(list_ranks(missing_ranks()), " of ", size_, " to arrive"); })),
        log_(options.log),
        links_(static_cast<size_t>(size)) {}

  std::vector<RankLink> run() {
    try {
      while (arrived_ < size_ - 1) one_round();
    } catch (...) {
      Failure failure = told_;
      failure.stage = stage_;
      failure.size = size_;
      send_failure(links_, failure);
      point_.shut_down();
      throw;
    }
    point_.shut_down();
    if (refused_ > 0)
      log_.info("bootstrap: refused ", counted(refused_, "connection"), " that could not prove to be a rank");
    return std::move(links_);
  }

 private:
  void one_round() {
    // The order in `polled` is: the listening socket, the ranks (poll() skips -1), the callers.
    std::vector<pollfd> polled{{point_.listener(), POLLIN, 0}};
    for (int rank = 1; rank < size_; ++rank) polled.push_back({known(rank).socket.get(), POLLIN, 0});
    for (const Caller& caller : callers_) polled.push_back({caller.socket.get(), POLLIN, 0});
    const int ready = ::poll(polled.data(), polled.size(), milliseconds_to_wait());
    if (ready < 0 && errno != EINTR) fail_system(errno, "cannot poll the ranks' connections");
    if (ready <= 0) deadline_.hear_interrupts();
    // A rank has nothing to say before all have arrived, so whatever is readable is the end of its connection.
    for (int rank = 1; rank < size_; ++rank) {
      if (polled[static_cast<size_t>(rank)].revents != 0) give_up(about(Reason::kLeft, rank, known(rank).process_id));
    }
    serve_callers(std::span(polled).subspan(static_cast<size_t>(size_)));
    if (polled[0].revents != 0) accept_callers();
    if (deadline_.passed() && arrived_ < size_ - 1) give_up(late());
  }

  // Returns the link to a rank that has arrived. For another rank, returns its link of the first rendezvous, if there
  // was one.
  const RankLink& known(int rank) const {
    const auto at = static_cast<size_t>(rank);
    return links_[at].socket || met_.empty() ? links_[at] : met_[at];
  }

  int milliseconds_to_wait() const {
    int next = deadline_.poll_milliseconds();
    for (const Caller& caller : callers_) next = std::min(next, caller.deadline.poll_milliseconds());
    return next;
  }

  void serve_callers(std::span<const pollfd> polled) {
    std::vector<Caller> staying;
    std::vector<Caller> present = std::move(callers_);
    callers_.clear();
    for (size_t i = 0; i < present.size(); ++i) {
      Caller& caller = present[i];
      const bool keep = polled[i].revents == 0 || serve(caller);
      if (keep && !caller.deadline.passed()) {
        staying.push_back(std::move(caller));
      } else if (caller.socket) {
        ++refused_;  // an admitted one has given its socket away
      }
    }
    callers_ = std::move(staying);
  }

  // Goes on with one handshake. Returns false when it is over, whether it succeeded or not.
  bool serve(Caller& caller) {
    if (!caller.greeted) {
      const Progress progress = receive_message(caller, caller.hello);
      if (progress != Progress::kDone) return progress == Progress::kMore;
      if (caller.hello.magic != Hello::kMagic) return false;
      caller.challenge = make_challenge(secret_, caller.hello, random_128_bits());
      std::span<const std::byte> rest = bytes_of(caller.challenge);
      // A fresh connection has room for these few bytes. If it has not, the caller is not a rank.
      if (send_some(caller.socket.get(), rest) != Progress::kDone) return false;
      caller.greeted = true;
      caller.received = 0;
    }
    const Progress progress = receive_message(caller, caller.proof);
    if (progress != Progress::kDone) return progress == Progress::kMore;
    if (is_genuine(secret_, caller.hello, caller.challenge, caller.proof)) admit(caller);
    return false;
  }

  // The caller knows the secret, so its mistakes are mistakes of the job, and they end the rendezvous for everyone.
  void admit(Caller& caller) {
    const Hello& hello = caller.hello;
    Failure failure = about(Reason::kWrongVersion, hello.rank, caller.process_id());
    failure.found = hello.version;
    failure.expected = kBootstrapVersion;
    if (hello.version != kBootstrapVersion) turn_away(caller, failure);
    failure.reason = Reason::kWrongSize;
    failure.found = static_cast<uint64_t>(hello.size);
    if (hello.size != size_) turn_away(caller, failure);
    failure.reason = Reason::kRankOutOfRange;
    if (hello.rank < 1 || hello.rank >= size_) turn_away(caller, failure);
    failure.reason = Reason::kDuplicateRank;
    failure.other_process_id = link(hello.rank).process_id;
    if (link(hello.rank).socket) turn_away(caller, failure);
    welcome(caller);
  }

  void welcome(Caller& caller) {
    Frame frame;
    frame.seconds_left = deadline_.seconds_left();
    std::span<const std::byte> rest = bytes_of(frame);
    // A rank that is gone by now has not arrived. It may come back.
    if (send_some(caller.socket.get(), rest) != Progress::kDone) return;
    log_.debug("bootstrap: rank ", caller.hello.rank, " arrived, pid ", caller.process_id());
    link(caller.hello.rank) = {std::move(caller.socket), caller.process_id()};
    ++arrived_;
  }

  void accept_callers() {
    for (int i = 0; i < kAcceptsPerRound; ++i) {
      SocketOrError accepted = accept_from(point_.listener());
      if (accepted.error == EAGAIN) return;
      if (accepted.error != 0) return make_room(accepted.error);
      const std::optional<PeerCredentials> peer = peer_of(accepted.socket.get());
      if (peer && peer->user_id != ::geteuid()) {
        ++refused_;
        continue;
      }
      if (callers_.size() >= kMostCallers) make_room(0);
      Caller caller(std::move(accepted.socket), peer);
      // A rank speaks first, so its Hello is usually here already.
      if (serve(caller)) {
        callers_.push_back(std::move(caller));
      } else if (caller.socket) {
        ++refused_;
      }
    }
  }

  // Drops one caller: the first that has not said anything useful, or else the first. `error` is set if the system has
  // no more descriptors; that is fatal if no caller holds one.
  void make_room(int error) {
    if (callers_.empty()) {
      fail(ErrorCode::kResources, "rank 0 cannot accept more connections (", arrived_, " of ", size_ - 1,
           " ranks are in): ", std::generic_category().message(error), more_files_hint());
    }
    auto idle = std::ranges::find(callers_, false, &Caller::greeted);
    callers_.erase(idle == callers_.end() ? callers_.begin() : idle);
    ++refused_;
  }

  Failure about(Reason reason, int rank, pid_t process_id) const {
    Failure failure;
    failure.reason = reason;
    failure.stage = stage_;
    failure.size = size_;
    failure.set_ranks(std::span(&rank, 1));
    failure.process_id = process_id;
    return failure;
  }

  std::vector<int> missing_ranks() const {
    std::vector<int> missing;
    for (int rank = 1; rank < size_; ++rank) {
      if (!links_[static_cast<size_t>(rank)].socket) missing.push_back(rank);
    }
    return missing;
  }

  Failure late() const {
    Failure failure;
    failure.reason = Reason::kTimedOut;
    failure.stage = stage_;
    failure.size = size_;
    failure.set_ranks(missing_ranks());
    failure.seconds = seconds_;
    failure.refused_connections = refused_;
    return failure;
  }

  [[noreturn]] void turn_away(Caller& caller, const Failure& failure) {
    const RankLink offender{std::move(caller.socket), caller.process_id()};
    send_failure(std::span(&offender, 1), failure);
    give_up(failure);
  }

  [[noreturn]] void give_up(const Failure& failure) {
    told_ = failure;
    const bool goes_by_address = failure.reason == Reason::kTimedOut && point_.id().leads_to_other_hosts();
    fail(code_of(failure), "rank 0: ", text_of(failure), goes_by_address ? where_others_look() : "");
  }

  // Rank 0 listens at all addresses of its host. So it does not notice a wrong one, which keeps the others away.
  std::string where_others_look() const {
    const std::string place = join(" (they look for rank 0 at ", point_.id().meeting_place().text());
    if (is_of_this_host(point_.id().address)) return place + ")";
    return join(
        place, ", which is no address of this host",
        point_.id().is_of_job() ? "; is PLAIT_MASTER_ADDR, or the launcher's MASTER_ADDR, that of rank 0's?)" : ")");
  }

  // True where nobody can tell.
  static bool is_of_this_host(const InternetAddress& address) {
    if (address.is_loopback()) return true;
    try {
      const std::vector<InterfaceAddress> own = interface_addresses();
      return std::ranges::any_of(own, [&](const InterfaceAddress& it) { return it.address == address; });
    } catch (const Error&) {
      return true;
    }
  }

  RankLink& link(int rank) { return links_[static_cast<size_t>(rank)]; }

  RendezvousPoint point_;
  Secret secret_;
  int size_;
  Stage stage_;
  std::span<const RankLink> met_;  // by rank; empty in a first rendezvous
  double seconds_;
  Deadline deadline_;
  Logger log_;
  std::vector<RankLink> links_;
  int arrived_ = 0;
  std::vector<Caller> callers_;
  int refused_ = 0;
  Failure told_;  // sent to the others when run() throws
};

// The side of the other ranks.
class Approach {
 public:
  Approach(const UniqueId& id, int rank, int size, const BootstrapOptions& options)
      : id_(id),
        place_(id.meeting_place()),
        seconds_(options.timeout_seconds),
        deadline_(options.deadline([this, size] { return join("rank 0 of ", size, " to arrive", place_text()); })) {
    hello_.rank = rank;
    hello_.size = size;
    hello_.process_id = ::getpid();
    hello_.process_namespace = own_process_namespace();
  }

  RankLink run(double& seconds_left) {
    require_one_network();
    for (double pause = kFirstPauseSeconds;; pause = std::min(2 * pause, kLongestPauseSeconds)) {
      SocketOrError connection = connect_to(place_);
      if (connection.error == 0) {
        const std::optional<PeerCredentials> peer = peer_of(connection.socket.get());
        if (peer) require_one_user(hello_.rank, *peer);
        if (shake_hands(connection.socket.get(), seconds_left)) {
          return {std::move(connection.socket), challenge_.process_id};
        }
      } else if (connection.error == ECONNREFUSED && id_.origin == UniqueId::Origin::kProcess) {
        fail_without_listener();
      }
      if (connection.error == ENETUNREACH || connection.error == EHOSTUNREACH) {
        if (id_.leads_to_other_hosts()) fail_without_way(connection.error);
        fail(ErrorCode::kSystem, "rank ", hello_.rank, " of ", hello_.size,
             ": the loopback interface (lo) is missing or down here, so rank 0 at 127.0.0.1 cannot be reached; bring "
             "it up (ip link set lo up)");
      }
      if (deadline_.passed()) time_out();
      deadline_.hear_interrupts();
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(pause, deadline_.seconds_left())));
    }
  }

 private:
  // Neither ports of 127.0.0.1 nor names lead from one network namespace to another.
  void require_one_network() const {
    if (id_.leads_to_other_hosts()) return;
    const uint64_t own = own_network_namespace();
    if (own == id_.network_namespace || own == 0 || id_.network_namespace == 0) return;
    fail(ErrorCode::kSystem, "rank ", hello_.rank, " of ", hello_.size,
         ": this process is in another network namespace than rank 0 (pid ", id_.creator_process_id,
         "), which it cannot reach: in a container or sandbox of its own",
         has_loopback() ? "" : ", where even the loopback interface (lo) is missing or down",
         "; start all ranks in one network namespace (containers: --network=host, or --network=container:NAME), or set "
         "PLAIT_SOCKET_IFNAME where the id is made, to an interface that this process can reach");
  }

  // Initial network namespaces have one number on all hosts, so only now it shows that rank 0 is on another one.
  [[noreturn]] void fail_without_listener() const {
    const uint64_t own = own_kernel();
    if (!id_.leads_to_other_hosts() && own != id_.kernel && own != 0 && id_.kernel != 0) {
      fail(ErrorCode::kSystem, "rank ", hello_.rank, " of ", hello_.size,
           ": this process is on another host than the one where the id was made, out of which it does not lead; set "
           "PLAIT_SOCKET_IFNAME where it is made, to an interface that this process can reach");
    }
    fail(ErrorCode::kPeerFailed, "rank ", hello_.rank, ": nobody waits for ranks with this id any more (made by pid ",
         id_.creator_process_id, "): all ranks have already arrived, or rank 0 gave up or ended");
  }

  [[noreturn]] void fail_without_way(int error) const {
    fail(ErrorCode::kSystem, "rank ", hello_.rank, " of ", hello_.size, ": no way leads from here to rank 0",
         place_text(), " (", std::generic_category().message(error), "); ",
         id_.is_of_job() ? "PLAIT_MASTER_ADDR" : "PLAIT_SOCKET_IFNAME, where the id is made,",
         " says at which address or interface other hosts reach it");
  }

  // Returns false if rank 0 hung up: it was too busy, so try again.
  bool shake_hands(int socket, double& seconds_left) {
    hello_.nonce = random_128_bits();
    if (!move(send_all(socket, bytes_of(hello_), deadline_))) return false;
    if (!move(receive_all(socket, writable_bytes_of(challenge_), deadline_))) return false;
    if (!is_genuine(id_.secret, hello_, challenge_)) {
      const bool goes_by_variables = id_.is_of_job() && id_.leads_to_other_hosts();
      fail(ErrorCode::kMismatch, "rank ", hello_.rank, ": the process that answers at the ranks' meeting place",
           place_text(), " does not know the secret of the id; it is not rank 0, or not any more",
           goes_by_variables ? "; all ranks want the same PLAIT_JOB, and the host of rank 0 in PLAIT_MASTER_ADDR" : "");
    }
    const Proof proof = make_proof(id_.secret, hello_, challenge_);
    if (!move(send_all(socket, bytes_of(proof), deadline_))) return false;
    if (challenge_.version != kBootstrapVersion) {
      // Rank 0 has the proof and reports the same error on its side. This version may not understand what else it
      // sends.
      fail(ErrorCode::kMismatch, "rank ", hello_.rank, " speaks version ", kBootstrapVersion,
           " of the bootstrap's protocol, rank 0 version ", challenge_.version,
           "; use one build of Plait in all ranks");
    }
    Frame frame;
    if (!move(receive_all(socket, writable_bytes_of(frame), deadline_))) return false;
    if (frame.kind == Frame::Kind::kFailure) receive_failure(socket, hello_.rank, deadline_);
    seconds_left = frame.seconds_left;
    return true;
  }

  bool move(Progress progress) const {
    if (progress == Progress::kMore) time_out();
    return progress == Progress::kDone;
  }

  [[noreturn]] void time_out() const {
    const bool is_of_job = id_.is_of_job();
    fail(ErrorCode::kTimeout, "rank ", hello_.rank, " of ", hello_.size, ": rank 0 did not take part within ", seconds_,
         " s (PLAIT_BOOTSTRAP_TIMEOUT_SEC)", place_text(), "; not started, started with another ",
         is_of_job ? "job" : "id",
         id_.leads_to_other_hosts() ? ", or behind a firewall?"
         : is_of_job                ? ", or in another container or on another host (PLAIT_MASTER_ADDR)?"
                                    : ", or in another container?");
  }

  // " at 10.0.0.1 port 4000", where other hosts go.
  std::string place_text() const { return id_.leads_to_other_hosts() ? join(" at ", place_.text()) : ""; }

  UniqueId id_;
  SocketAddress place_;
  double seconds_;
  Deadline deadline_;
  Hello hello_;
  Challenge challenge_;
};

}  // namespace

std::vector<RankLink> gather_ranks(RendezvousPoint point, int size, const BootstrapOptions& options) {
  return Gathering(std::move(point), size, Stage::kRendezvous, {}, options).run();
}

std::vector<RankLink> gather_ranks_again(RendezvousPoint point, std::span<const RankLink> met, Stage stage,
                                         const BootstrapOptions& options) {
  return Gathering(std::move(point), static_cast<int>(met.size()), stage, met, options).run();
}

RankLink reach_rank_zero(const UniqueId& id, int rank, int size, const BootstrapOptions& options,
                         double& seconds_left) {
  return Approach(id, rank, size, options).run(seconds_left);
}

void send_failure(std::span<const RankLink> links, const Failure& failure) {
  struct {
    Frame frame;
    Failure failure;
  } message;
  message.frame.kind = Frame::Kind::kFailure;
  message.frame.stage = failure.stage;
  message.failure = failure;
  for (const RankLink& link : links) {
    if (!link.socket) continue;
    std::span<const std::byte> rest = bytes_of(message);
    try {
      send_some(link.socket.get(), rest);
    } catch (const Error&) {
      // Another error is already under way. A rank that cannot be told sees its connection end.
    }
  }
}

void receive_failure(int socket, int rank, const Deadline& deadline) {
  Failure failure;
  if (receive_all(socket, writable_bytes_of(failure), deadline) != Progress::kDone) {
    fail(ErrorCode::kPeerFailed, "rank ", rank, ": rank 0 gave up, and ended before it could tell why");
  }
  fail(code_of(failure), "rank ", rank, ": told by rank 0: ", text_of(failure));
}

}  // namespace plait

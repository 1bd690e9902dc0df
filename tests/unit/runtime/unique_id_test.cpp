#include "runtime/unique_id.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "runtime/stream_socket.hpp"

namespace plait {
namespace {

template <class Call>
std::string error_of(Call call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "";
}

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" has no \"" << part << "\"";
}

std::string parse_error(const std::string& text) {
  return error_of([&] { UniqueId::parse(text); }, ErrorCode::kInvalidInput);
}

TEST(UniqueId, EveryNewOneDiffersAndItsTextReadsBack) {
  const RendezvousPoint a = RendezvousPoint::create(), b = RendezvousPoint::create();
  EXPECT_NE(a.id().secret, b.id().secret);
  EXPECT_NE(a.id().rendezvous_name(), b.id().rendezvous_name());
  EXPECT_EQ(UniqueId::parse(a.id().text()), a.id());
  EXPECT_EQ(UniqueId::parse(b.id().text()), b.id());
  EXPECT_EQ(a.id().text().find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
}

TEST(UniqueId, SurvivesBeingCopiedAsBytes) {
  const RendezvousPoint point = RendezvousPoint::create();
  char bytes[128];
  std::memcpy(bytes, &point.id(), sizeof bytes);
  UniqueId copy;
  std::memcpy(&copy, bytes, sizeof bytes);
  EXPECT_EQ(copy, point.id());
  EXPECT_EQ(std::memcmp(bytes, "PlaitID", 8), 0);
}

TEST(UniqueId, EveryChangedLetterOfATextIsNoticed) {
  const std::string text = UniqueId::for_job("job", 0).text();
  EXPECT_EQ(parse_error(text), "");
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_NE(parse_error(changed), "") << "letter " << i;
    EXPECT_NE(parse_error(text.substr(0, i)), "") << "cut after " << i;
  }
  EXPECT_NE(parse_error(text + "0"), "");
  EXPECT_TRUE(has(parse_error("0.0.0.0:1234"), "not the text of a Plait id, or only a part of it: \"0.0.0.0:1234"));
}

TEST(UniqueId, OfAJobFollowsFromKeyAndSequence) {
  EXPECT_EQ(UniqueId::for_job("a", 0), UniqueId::for_job("a", 0));
  EXPECT_NE(UniqueId::for_job("a", 0).secret, UniqueId::for_job("a", 1).secret);
  EXPECT_NE(UniqueId::for_job("a", 0).secret, UniqueId::for_job("b", 0).secret);
  EXPECT_NE(UniqueId::for_job("", 0).secret, UniqueId::for_job(std::string_view("\0", 1), 0).secret);
}

// Users have different numbers on hosts that share no list of them.
TEST(UniqueId, OfAJobOverHostsFollowsFromTheKeyAloneWhoeverTheUserIs) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const InternetAddress address = InternetAddress::loopback();
  const UniqueId own = UniqueId::for_job("job", 0, address, 0), own_here = UniqueId::for_job("job", 0);
  ASSERT_EQ(::seteuid(12345), 0);
  const UniqueId theirs = UniqueId::for_job("job", 0, address, 0), theirs_here = UniqueId::for_job("job", 0);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(own, theirs);
  EXPECT_NE(own_here, theirs_here) << "on one host users have jobs of their own";
  EXPECT_NE(own.secret, own_here.secret);
  EXPECT_NE(own, UniqueId::for_job("job", 1, address, 0));
  EXPECT_NE(own, UniqueId::for_job("jab", 0, address, 0));
}

TEST(RendezvousPoint, APortThatTheUserMayNotHaveIsNamed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be another user";
  const UniqueId id = UniqueId::for_job("job", 0, InternetAddress::loopback(), 80);
  ASSERT_EQ(::seteuid(12345), 0);
  std::string said;
  try {
    RendezvousPoint::claim(id);
  } catch (const Error& error) {
    said = error.what();
  }
  ASSERT_EQ(::seteuid(0), 0);
  if (said.empty()) GTEST_SKIP() << "all users may have all ports here";
  EXPECT_TRUE(has(said, " port 80"));
}

TEST(UniqueId, BytesThatAreNoneAreRefused) {
  const auto check = [](const UniqueId& id) { return error_of([&] { id.check(); }, ErrorCode::kInvalidArgument); };
  UniqueId id = UniqueId::for_job("job", 0);
  EXPECT_EQ(check(id), "");
  EXPECT_TRUE(has(check(UniqueId()), "these 128 bytes are not a Plait id"));
  id.version = 9;
  EXPECT_TRUE(has(check(id), join("this id is of version 9, this library of version ", UniqueId::kVersion)));
  id = UniqueId::for_job("job", 0);
  id.origin = static_cast<UniqueId::Origin>(3);
  EXPECT_NE(check(id), "");
}

TEST(RendezvousPoint, AReleasedOneIsClaimedOnce) {
  const UniqueId id = RendezvousPoint::create().release();
  EXPECT_NE(::fcntl(id.creator_descriptor, F_GETFD) & FD_CLOEXEC, 0);
  {
    const RendezvousPoint point = RendezvousPoint::claim(id);
    EXPECT_EQ(point.id(), id);
    EXPECT_TRUE(listens_at(point.listener(), id.meeting_place()));
    EXPECT_NE(::fcntl(point.listener(), F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_TRUE(has(error_of([&] { RendezvousPoint::claim(id); }, ErrorCode::kInvalidArgument), "was already used"));
}

TEST(RendezvousPoint, ADescriptorThatMeansSomethingElseByNowIsLeftAlone) {
  const UniqueId id = RendezvousPoint::create().release();
  RendezvousPoint::claim(id);
  const RendezvousPoint other = RendezvousPoint::create();
  ASSERT_EQ(other.listener(), id.creator_descriptor) << "the system gives the lowest free number";
  EXPECT_NE(error_of([&] { RendezvousPoint::claim(id); }, ErrorCode::kInvalidArgument), "");
  EXPECT_TRUE(listens_at(other.listener(), other.id().meeting_place()));
}

TEST(RendezvousPoint, AnIdOfAnotherProcessCannotBeClaimed) {
  UniqueId id;
  {
    id = RendezvousPoint::create().id();
  }
  id.creator_process_id = 1;
  for (const int descriptor : {-1, 0, 1000000}) {
    id.creator_descriptor = descriptor;
    EXPECT_TRUE(has(error_of([&] { RendezvousPoint::claim(id); }, ErrorCode::kInvalidArgument),
                    join("rank 0 must be in the process that created the id (pid 1; this is pid ", ::getpid(), ")")));
  }
}

TEST(RendezvousPoint, OfManyThreadsThatClaimOneIdOneGetsIt) {
  for (int round = 0; round < 20; ++round) {
    const UniqueId id = RendezvousPoint::create().release();
    std::atomic<int> claimed = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        if (error_of([&] { RendezvousPoint::claim(id); }, ErrorCode::kInvalidArgument).empty()) ++claimed;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(claimed, 1);
  }
}

TEST(RendezvousPoint, OneThatIsShutDownRefusesEvenWhereACopyOfItsSocketIsOpen) {
  RendezvousPoint point = RendezvousPoint::create();
  const SocketAddress place = point.id().meeting_place();
  const UniqueFd copy(::fcntl(point.listener(), F_DUPFD_CLOEXEC, 0));
  EXPECT_EQ(connect_to(place).error, 0);
  point.shut_down();
  EXPECT_EQ(connect_to(place).error, ECONNREFUSED);
  EXPECT_FALSE(listens_at(copy.get(), place));
}

// Otherwise a program whose ranks are its children would lose a descriptor for each communicator.
TEST(RendezvousPoint, OneThatAForkedChildHasUsedIsClosedWhenTheNextIsReleased) {
  const UniqueId used = RendezvousPoint::create().release(), unused = RendezvousPoint::create().release();
  const pid_t child = ::fork();
  if (child == 0) {
    RendezvousPoint point = RendezvousPoint::claim(used);
    point.shut_down();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(::fcntl(used.creator_descriptor, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  const UniqueId next = RendezvousPoint::create().release();
  EXPECT_LT(::fcntl(used.creator_descriptor, F_GETFD), 0);
  for (const UniqueId& id : {unused, next}) EXPECT_EQ(RendezvousPoint::claim(id).id(), id);
}

TEST(RendezvousPoint, ANewIdListensAtAPortOfThisHostOnly) {
  const RendezvousPoint point = RendezvousPoint::create();
  sockaddr_in address{};
  socklen_t length = sizeof address;
  ASSERT_EQ(::getsockname(point.listener(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  EXPECT_EQ(address.sin_family, AF_INET);
  EXPECT_EQ(address.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_NE(address.sin_port, 0);
  EXPECT_EQ(address.sin_port, point.id().port) << "network order in both";
}

TEST(RendezvousPoint, ANewIdTellsItsNetworkNamespace) {
  const UniqueId id = RendezvousPoint::create().id();
  EXPECT_EQ(id.network_namespace, own_network_namespace());
  EXPECT_EQ(UniqueId::parse(id.text()).network_namespace, id.network_namespace);
}

TEST(RendezvousPoint, AtANameAndOfAJobThereIsNoPort) {
  const RendezvousPoint at_name = RendezvousPoint::create_at_name();
  const RendezvousPoint of_job = RendezvousPoint::claim(UniqueId::for_job(at_name.id().text(), 0));
  for (const RendezvousPoint* point : {&at_name, &of_job}) {
    EXPECT_EQ(point->id().port, 0);
    EXPECT_TRUE(listens_at(point->listener(), SocketAddress::at_name(point->id().rendezvous_name())));
  }
  EXPECT_NE(at_name.id().rendezvous_name(), of_job.id().rendezvous_name());
}

bool sends_at_once(int socket) {
  int on = 0;
  socklen_t length = sizeof on;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, &length) == 0 && on != 0;
}

TEST(StreamSocket, BothEndsOverAPortSendAtOnceAndTellNobody) {
  const RendezvousPoint point = RendezvousPoint::create();
  const SocketOrError caller = connect_to(point.id().meeting_place());
  const SocketOrError accepted = accept_from(point.listener());
  ASSERT_EQ(caller.error, 0);
  ASSERT_EQ(accepted.error, 0);
  for (const int socket : {caller.socket.get(), accepted.socket.get()}) {
    EXPECT_TRUE(sends_at_once(socket));
    EXPECT_FALSE(passes_descriptors(socket));
    EXPECT_FALSE(peer_of(socket).has_value());
  }
}

TEST(StreamSocket, OverANameTheKernelTellsWhoItIs) {
  const RendezvousPoint point = RendezvousPoint::create_at_name();
  const SocketOrError caller = connect_to(point.id().meeting_place());
  const SocketOrError accepted = accept_from(point.listener());
  ASSERT_EQ(caller.error, 0);
  ASSERT_EQ(accepted.error, 0);
  for (const int socket : {caller.socket.get(), accepted.socket.get()}) {
    EXPECT_TRUE(passes_descriptors(socket));
    ASSERT_TRUE(peer_of(socket).has_value());
    EXPECT_EQ(peer_of(socket)->process_id, ::getpid());
    EXPECT_EQ(peer_of(socket)->user_id, ::geteuid());
  }
}

TEST(StreamSocket, APlaceThatIsTakenIsNotListenedAtTwice) {
  for (const RendezvousPoint& point : {RendezvousPoint::create(), RendezvousPoint::create_at_name()}) {
    EXPECT_FALSE(listen_at(point.id().meeting_place()));
    EXPECT_FALSE(listens_at(-1, point.id().meeting_place()));
    EXPECT_FALSE(listens_at(0, point.id().meeting_place()));
  }
}

TEST(StreamSocket, WhereAQueueIsFullACallerIsToldToComeAgain) {
  // listen(2) with another length shortens the queue of a socket that listens already.
  const RendezvousPoint at_port = RendezvousPoint::create(), at_name = RendezvousPoint::create_at_name();
  for (const RendezvousPoint* point : {&at_port, &at_name}) {
    ASSERT_EQ(::listen(point->listener(), 1), 0);
    std::vector<SocketOrError> callers;
    do {
      callers.push_back(connect_to(point->id().meeting_place()));
    } while (callers.back().error == 0 && callers.size() < 10);
    EXPECT_EQ(callers.back().error, EAGAIN);
  }
}

}  // namespace
}  // namespace plait

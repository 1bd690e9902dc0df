#include "runtime/unique_id.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "runtime/local_socket.hpp"

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

TEST(UniqueId, BytesThatAreNoneAreRefused) {
  const auto check = [](const UniqueId& id) { return error_of([&] { id.check(); }, ErrorCode::kInvalidArgument); };
  UniqueId id = UniqueId::for_job("job", 0);
  EXPECT_EQ(check(id), "");
  EXPECT_TRUE(has(check(UniqueId()), "these 128 bytes are no Plait id"));
  id.version = 9;
  EXPECT_TRUE(has(check(id), "this id is of version 9, this library of version 1"));
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
    EXPECT_EQ(listening_name(point.listener()), id.rendezvous_name());
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
  EXPECT_EQ(listening_name(other.listener()), other.id().rendezvous_name());
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
  const std::string name = point.id().rendezvous_name();
  const UniqueFd copy(::fcntl(point.listener(), F_DUPFD_CLOEXEC, 0));
  EXPECT_EQ(connect_to(name).error, 0);
  point.shut_down();
  EXPECT_EQ(connect_to(name).error, ECONNREFUSED);
}

}  // namespace
}  // namespace plait

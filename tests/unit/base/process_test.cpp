// Tests what tells processes apart.
#include "base/process.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace plait {
namespace {

// What a child process says of its namespace, relative to its parent's. Its exit status, for a test's assertions do not
// leave it.
enum Answer : int { kSame, kOther, kCannot };

Answer answer_of_child(uint64_t ours) {
  const pid_t child = fork();
  if (child == 0) _exit(own_process_namespace() == ours ? kSame : kOther);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return kCannot;
  return static_cast<Answer>(WEXITSTATUS(status));
}

TEST(ProcessNamespace, IsTheOneThatTheKernelNames) {
  char text[64] = {};
  ASSERT_GT(readlink("/proc/self/ns/pid", text, sizeof(text) - 1), 0);
  EXPECT_EQ("pid:[" + std::to_string(own_process_namespace()) + "]", text);
}

TEST(ProcessNamespace, IsThatOfAChild) { EXPECT_EQ(answer_of_child(own_process_namespace()), kSame); }

TEST(ProcessNamespace, IsAnotherInAContainer) {
  const uint64_t ours = own_process_namespace();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // Of the child's children: so that the test itself stays where it is.
    const bool moved = unshare(CLONE_NEWPID) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWPID) == 0;
    _exit(moved ? answer_of_child(ours) : kCannot);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannot) GTEST_SKIP() << "this process may make no process namespace";
  EXPECT_EQ(WEXITSTATUS(status), kOther);
}

TEST(NetworkNamespace, IsTheOneThatTheKernelNames) {
  char text[64] = {};
  ASSERT_GT(readlink("/proc/self/ns/net", text, sizeof(text) - 1), 0);
  EXPECT_EQ("net:[" + std::to_string(own_network_namespace()) + "]", text);
}

}  // namespace
}  // namespace plait

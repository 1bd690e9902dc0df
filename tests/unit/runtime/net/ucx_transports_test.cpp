#include "runtime/net/ucx_transports.hpp"

#include <gtest/gtest.h>

namespace plait {
namespace {

TEST(UcxTransports, LeavesOutWhatAllocatesOnGpus) {
  EXPECT_EQ(host_transports("all"), "^cuda");
  EXPECT_EQ(host_transports("tcp,all"), "^cuda");
  EXPECT_EQ(host_transports("^tcp"), "^tcp,cuda");
  EXPECT_EQ(host_transports("tcp,self"), "tcp,self");
  EXPECT_EQ(host_transports("rc,cuda_copy,gdr_copy,sm,\\cuda_ipc"), "rc,sm");
  EXPECT_EQ(host_transports("cuda"), "^cuda");
  EXPECT_EQ(host_transports(""), "^cuda");
  EXPECT_EQ(host_transports(",tcp,,"), "tcp");
}

}  // namespace
}  // namespace plait

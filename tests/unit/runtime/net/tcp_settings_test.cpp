#include "runtime/net/tcp_settings.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

namespace plait {
namespace {

class TcpSettings : public ::testing::Test {
 protected:
  TcpSettings() {
    std::string name = ::testing::TempDir() + "plait-devices-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~TcpSettings() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const UcxSetting& it : settings_for_tcp(folder_)) names.emplace_back(it.name);
    return names;
  }

  std::string folder_;
};

TEST_F(TcpSettings, AreMadeWhereTheKernelListsNoRdmaDevice) {
  EXPECT_EQ(names(), (std::vector<std::string>{"RNDV_THRESH", "TX_SEG_SIZE", "RX_SEG_SIZE"}));
  EXPECT_FALSE(settings_for_tcp(folder_ + "/that-is-not-there").empty());
  std::filesystem::create_directory(folder_ + "/mlx5_0");
  EXPECT_TRUE(names().empty());
}

TEST_F(TcpSettings, LeaveThoseThatUsersMake) {
  for (const char* variable : {"UCX_RNDV_THRESH", "UCX_TCP_TX_SEG_SIZE"}) setenv(variable, "8K", 1);
  EXPECT_EQ(names(), std::vector<std::string>{"RX_SEG_SIZE"});
  for (const char* variable : {"UCX_RNDV_THRESH", "UCX_TCP_TX_SEG_SIZE"}) unsetenv(variable);
}

TEST_F(TcpSettings, OfOneRankAreMadeWithAnyNetwork) {
  ASSERT_EQ(settings_of_rank().size(), 1u);
  EXPECT_STREQ(settings_of_rank()[0].name, "CONN_NB");
  setenv("UCX_TCP_CONN_NB", "n", 1);
  EXPECT_TRUE(settings_of_rank().empty());
  unsetenv("UCX_TCP_CONN_NB");
}

TEST_F(TcpSettings, AreComparedByTheirText) {
  EXPECT_EQ(to_text(settings_for_tcp(folder_)), "RNDV_THRESH=inf TX_SEG_SIZE=64K RX_SEG_SIZE=256K ");
  EXPECT_EQ(to_text({}), "");
}

}  // namespace
}  // namespace plait

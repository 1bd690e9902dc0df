#include "runtime/net/tcp_settings.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <utility>
#include <vector>

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

// UCX takes any name at first, and warns of those that it does not know.
TEST(UcxSettingNames, AreThoseOfTheVersion) {
  const UcxSetting of_tcp{"TX_SEG_SIZE", "64K"}, of_all{"RNDV_THRESH", "inf", false};
  for (const auto& [version, expected] : std::vector<std::pair<UcxVersion, const char*>>{
           {{1, 11}, "TX_SEG_SIZE"},
           {{1, 16}, "TX_SEG_SIZE"},
           {{1, 17}, "TCP_TX_SEG_SIZE"},
           {{1, 22}, "TCP_TX_SEG_SIZE"},
           {{2, 0}, "TCP_TX_SEG_SIZE"},
       }) {
    EXPECT_EQ(name_for_program(of_tcp, version), expected) << version.major << '.' << version.minor;
    EXPECT_EQ(name_for_program(of_all, version), "RNDV_THRESH");
  }
}

TEST_F(TcpSettings, AreComparedByTheirText) {
  EXPECT_EQ(to_text(settings_for_tcp(folder_)), "RNDV_THRESH=inf TX_SEG_SIZE=64K RX_SEG_SIZE=256K ");
  EXPECT_EQ(to_text({}), "");
}

}  // namespace
}  // namespace plait

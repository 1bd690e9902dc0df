// NCCL's variables: where they are found, and what they mean for the drop-in.
#include "api/nccl/nccl_variables.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "api/nccl/notices.hpp"

namespace plait::nccl {
namespace {

VariableEffect effect_of(const std::string& name, const std::string& value) {
  const auto set = NcclVariables({{name, value}}, {}).set();
  EXPECT_EQ(set.size(), 1u) << name << '=' << value;
  EXPECT_TRUE(set.empty() || set[0].is_known) << name;
  EXPECT_TRUE(set.empty() || !set[0].meaning.empty()) << name;
  return set.empty() ? VariableEffect::kNone : set[0].effect;
}

// What user-demand asks the drop-in to honour, and what NCCL takes each value for.
TEST(NcclVariables, ValuesMeanWhatTheyMeanToNccl) {
  using enum VariableEffect;
  const struct {
    const char *name, *value;
    VariableEffect effect;
  } rows[] = {
      {"NCCL_DEBUG", "INFO", kFollowed},
      {"NCCL_DEBUG_SUBSYS", "^COLL", kFollowed},
      {"NCCL_DEBUG_FILE", "/tmp/%h", kFollowed},
      {"NCCL_ALGO", "Ring", kLeavesAll},
      {"NCCL_ALGO", "^NVLS", kLeavesAll},
      {"NCCL_ALGO", "0", kLeavesAll},
      {"NCCL_PROTO", "LL128", kLeavesAll},
      {"NCCL_P2P_DISABLE", "1", kLeavesAll},
      {"NCCL_P2P_DISABLE", "0", kNone},
      {"NCCL_P2P_LEVEL", "LOC", kLeavesAll},
      {"NCCL_P2P_LEVEL", "0", kLeavesAll},
      {"NCCL_P2P_LEVEL", "NVL", kLeavesAll},
      {"NCCL_P2P_LEVEL", "3", kLeavesAll},
      {"NCCL_P2P_LEVEL", "SYS", kNone},
      {"NCCL_P2P_LEVEL", "4", kNone},
      {"NCCL_P2P_LEVEL", "5", kNone},
      {"NCCL_SHM_DISABLE", "1", kLeavesAll},
      {"NCCL_SHM_DISABLE", "0", kNone},
      {"NCCL_SHM_LOCALITY", "1", kLeavesWins},
      {"NCCL_NVLS_ENABLE", "0", kFollowed},
      {"NCCL_NVLS_ENABLE", "1", kFollowed},
      {"NCCL_NVLS_NCHANNELS", "8", kLeavesWins},
      {"NCCL_CUMEM_ENABLE", "0", kNone},
      {"NCCL_SOCKET_IFNAME", "eth0", kNone},
      {"NCCL_COMM_ID", "10.0.0.1:5000", kLeavesAll},
      {"NCCL_HOSTID", "a", kFollowed},
      {"NCCL_TOPO_FILE", "/t.xml", kNone},
      {"NCCL_TOPO_DUMP_FILE", "/t.xml", kNone},
      {"NCCL_MIN_CTAS", "8", kLeavesAll},
      {"NCCL_MAX_CTAS", "8", kLeavesAll},
      {"NCCL_MAX_CTAS", "0", kNone},
      {"NCCL_MAX_NCHANNELS", "8", kLeavesAll},
      {"NCCL_CGA_CLUSTER_SIZE", "0", kLeavesAll},
      {"NCCL_LAUNCH_ORDER_IMPLICIT", "1", kLeavesAll},
      {"NCCL_LAUNCH_ORDER_IMPLICIT", "0", kNone},
      {"NCCL_IGNORE_CPU_AFFINITY", "1", kNone},
      {"NCCL_COMM_BLOCKING", "0", kLeavesAll},
      {"NCCL_COMM_BLOCKING", "1", kNone},
      {"NCCL_ENV_PLUGIN", "x", kLeavesAll},
      {"NCCL_ENV_PLUGIN", "none", kNone},
      {"NCCL_BUFFSIZE", "4194304", kLeavesWins},
      {"NCCL_P2P_NVL_CHUNKSIZE", "524288", kLeavesWins},
      {"NCCL_P2P_NET_CHUNKSIZE", "524288", kNone},
      {"NCCL_COLLNET_ENABLE", "0", kNone},
      {"NCCL_COLLNET_ENABLE", "1", kLeavesWins},
      {"NCCL_IB_HCA", "mlx5", kNone},
      {"NCCL_CHECK_POINTERS", "1", kNone},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(name(effect_of(row.name, row.value)), std::string(name(row.effect))) << row.name << '=' << row.value;
  }
  EXPECT_TRUE(NcclVariables({{"NCCL_ALGO", ""}, {"PLAIT_LOG", "info"}}, {}).set().empty());
  const auto unknown = NcclVariables({{"NCCL_FOO", "1"}}, {}).set();
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_FALSE(unknown[0].is_known);
}

class Files : public ::testing::Test {
 protected:
  Files() { std::filesystem::create_directories(folder_); }
  ~Files() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("plait-nccl-conf-" + std::to_string(::getpid()));
};

TEST_F(Files, TheEnvironmentThenTheFirstFileCounts) {
  const std::string first =
      write("first", "# NCCL_PROTO=LL\nNCCL_ALGO=Tree\r\nNCCL_DEBUG=INFO\nnothing\nPLAIT_LOG=info");
  const std::string second = write("second", "NCCL_ALGO=Ring\nNCCL_DEBUG=TRACE\nNCCL_SOCKET_IFNAME= eth0\nNCCL_PROTO=");
  const NcclVariables variables({{"NCCL_DEBUG", "WARN"}, {"NCCL_IB_HCA", ""}}, {first, "/no/such/file", second});
  EXPECT_EQ(variables.value("NCCL_DEBUG"), "WARN");
  EXPECT_EQ(variables.value("NCCL_ALGO"), "Tree");
  EXPECT_EQ(variables.value("NCCL_SOCKET_IFNAME"), " eth0");  // NCCL trims nothing
  EXPECT_EQ(variables.value("NCCL_PROTO"), "");
  EXPECT_EQ(variables.value("PLAIT_LOG"), "");
  EXPECT_EQ(variables.first_that(VariableEffect::kLeavesAll),
            "NCCL_ALGO is set (in " + first + "): Plait does not follow NCCL's algorithms");
  EXPECT_EQ(variables.first_that(VariableEffect::kLeavesWins), "");
  EXPECT_EQ(NcclVariables({{"NCCL_ALGO", ""}}, {first}).value("NCCL_ALGO"), "");  // set, and empty
}

TEST(NcclVariables, FilesAreThoseOfNccl) {
  using Names = std::vector<std::string>;
  const Environment home{{"HOME", "/my home"}};
  EXPECT_EQ(conf_files(home, 23007), (Names{"/my home/.nccl.conf", "/etc/nccl.conf"}));
  const Names older = conf_files(home, 22907);  // asks the system for the folder
  EXPECT_EQ(older.back(), "/etc/nccl.conf");
  EXPECT_NE(older.front(), "/my home/.nccl.conf");
  EXPECT_EQ(conf_files({{"HOME", "/h"}, {"NCCL_CONF_FILE", "/f"}}, 23007), (Names{"/f", "/etc/nccl.conf"}));
  EXPECT_EQ(conf_files({}, 23007), Names{"/etc/nccl.conf"});
}

TEST(Notices, SubsystemsOfNccl) {
  using enum Subsystem;
  const auto shown = [](const char* value) {
    std::string text;
    if (shows_subsystem(value, kInit)) text += 'I';
    if (shows_subsystem(value, kEnv)) text += 'E';
    if (shows_subsystem(value, kColl)) text += 'C';
    return text;
  };
  EXPECT_EQ(shown(""), "IE");
  EXPECT_EQ(shown("COLL"), "C");
  EXPECT_EQ(shown("init,Coll"), "IC");
  EXPECT_EQ(shown("ALL"), "IEC");
  EXPECT_EQ(shown("^INIT"), "EC");
  EXPECT_EQ(shown("^INIT,COLL"), "E");
  EXPECT_EQ(shown("^ALL"), "");
  EXPECT_EQ(shown("NET"), "");
}

TEST(Notices, LevelsOfNccl) {
  const auto shows = [](Environment environment, LogLevel level, Subsystem about) {
    return Notices(NcclVariables(environment, {}), level).shows(about);
  };
  for (const char* level : {"INFO", "info", "TRACE", "ABORT"}) {
    EXPECT_TRUE(shows({{"NCCL_DEBUG", level}}, LogLevel::kWarn, Subsystem::kInit)) << level;
    EXPECT_FALSE(shows({{"NCCL_DEBUG", level}}, LogLevel::kWarn, Subsystem::kColl)) << level;
  }
  for (const char* level : {"", "WARN", "VERSION", "verbose"}) {
    EXPECT_FALSE(shows({{"NCCL_DEBUG", level}, {"NCCL_DEBUG_SUBSYS", "ALL"}}, LogLevel::kWarn, Subsystem::kInit));
  }
  EXPECT_TRUE(shows({{"NCCL_DEBUG_SUBSYS", "NET"}}, LogLevel::kInfo, Subsystem::kInit));  // Plait's own level
}

}  // namespace
}  // namespace plait::nccl

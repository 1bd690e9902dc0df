#include "base/settings.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <thread>

namespace plait {
namespace {

testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != text.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "\"" << text << "\" has no \"" << part << "\"";
}

// The message of the Error that reading `environment` throws; empty where it throws none.
std::string error_of(const Environment& environment) {
  try {
    Settings::from_environment(environment);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

std::string warnings_of(const Environment& environment) {
  testing::internal::CaptureStderr();
  Settings::from_environment(environment);
  return testing::internal::GetCapturedStderr();
}

TEST(Settings, AnEmptyEnvironmentGivesTheDefaults) {
  const Settings settings = Settings::from_environment(Environment{});
  EXPECT_EQ(settings.timeout_seconds, 600);
  EXPECT_EQ(settings.bootstrap_timeout_seconds, 600);
  EXPECT_EQ(settings.scratch_bytes, 2048u * 1024);
  EXPECT_EQ(settings.shared_memory_directory, "");
  EXPECT_EQ(settings.wait_policy, WaitPolicy::kAuto);
  EXPECT_EQ(settings.algorithm, "");
  EXPECT_EQ(settings.peer_memory, PeerMemoryKind::kAuto);
  EXPECT_EQ(settings.log_level, LogLevel::kWarn);
}

TEST(Settings, EveryFieldIsReadFromItsVariable) {
  const Settings settings = Settings::from_environment({{"PLAIT_TIMEOUT_SEC", "2.5"},
                                                        {"PLAIT_BOOTSTRAP_TIMEOUT_SEC", "7"},
                                                        {"PLAIT_SCRATCH_KIB", "64"},
                                                        {"PLAIT_SHM_DIR", "/dev/shm"},
                                                        {"PLAIT_WAIT", "sleep"},
                                                        {"PLAIT_ALGORITHM", "all_reduce:ring"},
                                                        {"PLAIT_MAX_SMS", "8"},
                                                        {"PLAIT_PEER_MEMORY", "ipc"},
                                                        {"PLAIT_PDL", "0"},
                                                        {"PLAIT_NETWORK_GBITS", "2.5"},
                                                        {"PLAIT_LOG", "debug"}});
  EXPECT_EQ(settings.network_gbits, "2.5");
  EXPECT_EQ(settings.timeout_seconds, 2.5);
  EXPECT_EQ(settings.bootstrap_timeout_seconds, 7);
  EXPECT_EQ(settings.scratch_bytes, 65536u);
  EXPECT_EQ(settings.shared_memory_directory, "/dev/shm");
  EXPECT_EQ(settings.wait_policy, WaitPolicy::kSleep);
  EXPECT_EQ(settings.algorithm, "all_reduce:ring");
  EXPECT_EQ(settings.max_sms, 8);
  EXPECT_EQ(settings.peer_memory, PeerMemoryKind::kIpc);
  EXPECT_FALSE(settings.pdl);
  EXPECT_EQ(settings.log_level, LogLevel::kDebug);
}

TEST(Settings, TheNetworkIsMeasuredOrGivenOrNeither) {
  const auto expect = [](const char* text, bool measures, double gbits) {
    const auto network = parse_network(text);
    ASSERT_TRUE(network) << text;
    EXPECT_EQ(network->measures, measures) << text;
    EXPECT_EQ(network->gbits, gbits) << text;
  };
  expect("auto", true, 0);
  expect("off", false, 0);
  expect("0.5", false, 0.5);
  expect("400", false, 400);
  for (const char* text : {"0", "-1", "inf", "nan", "10G", "on", "1e9", "0.0001"}) {
    EXPECT_FALSE(parse_network(text)) << text;
    EXPECT_TRUE(has(error_of({{"PLAIT_NETWORK_GBITS", text}}), "expected auto, off, or")) << text;
    Settings settings;
    settings.network_gbits = text;
    EXPECT_THROW(settings.check(), Error) << text;
  }
}

TEST(Settings, OldNamesAreTakenWithAWarning) {
  const Environment old = {{"PLAIT_REACH", "ipc"}, {"PLAIT_EARLY_LAUNCH", "0"}};
  const Settings settings = Settings::from_environment(old);
  EXPECT_EQ(settings.peer_memory, PeerMemoryKind::kIpc);
  EXPECT_FALSE(settings.pdl);
  EXPECT_EQ(unknown_settings(old),
            (std::vector<std::string>{"environment variable PLAIT_EARLY_LAUNCH is called PLAIT_PDL now",
                                      "environment variable PLAIT_REACH is called PLAIT_PEER_MEMORY now"}));
  EXPECT_EQ(Settings::from_environment({{"PLAIT_REACH", "ipc"}, {"PLAIT_PEER_MEMORY", "host"}}).peer_memory,
            PeerMemoryKind::kHost)
      << "the new name goes first";
  EXPECT_TRUE(has(error_of({{"PLAIT_REACH", "nvlink"}}), "PLAIT_REACH"));
}

TEST(Settings, EveryNamedChoiceReadsBack) {
  for (const auto policy : {WaitPolicy::kAuto, WaitPolicy::kSpin, WaitPolicy::kYield, WaitPolicy::kSleep}) {
    EXPECT_EQ(Settings::from_environment({{"PLAIT_WAIT", name(policy)}}).wait_policy, policy);
  }
  for (const auto kind : {PeerMemoryKind::kAuto, PeerMemoryKind::kVmm, PeerMemoryKind::kIpc, PeerMemoryKind::kHost}) {
    EXPECT_EQ(Settings::from_environment({{"PLAIT_PEER_MEMORY", name(kind)}}).peer_memory, kind);
  }
  for (const auto level : {LogLevel::kError, LogLevel::kWarn, LogLevel::kInfo, LogLevel::kDebug}) {
    EXPECT_EQ(Settings::from_environment({{"PLAIT_LOG", name(level)}}).log_level, level);
  }
}

TEST(Settings, AnEmptyValueIsTheDefault) {
  for (const SettingRow& row : settings_table()) EXPECT_EQ(error_of({{row.name, ""}}), "") << row.name;
  EXPECT_EQ(Settings::from_environment({{"PLAIT_TIMEOUT_SEC", ""}}).timeout_seconds, 600);
}

TEST(Settings, ABadValueNamesVariableValueAndExpectation) {
  const std::string error = error_of({{"PLAIT_TIMEOUT_SEC", "soon"}});
  EXPECT_TRUE(has(error, "PLAIT_TIMEOUT_SEC is \"soon\""));
  EXPECT_TRUE(has(error, "expected seconds"));
}

TEST(Settings, NumbersThatOnlyBeginWellAreRefused) {
  for (const char* text : {"0", "-1", "60s", " 60", "60 ", "inf", "nan", "1e999", "604801", "0x10", "+5"}) {
    EXPECT_NE(error_of({{"PLAIT_TIMEOUT_SEC", text}}), "") << text;
    EXPECT_NE(error_of({{"PLAIT_BOOTSTRAP_TIMEOUT_SEC", text}}), "") << text;
  }
  for (const char* text : {"0", "63", "-64", "64.5", "4096K", "67108865", "18446744073709551616"}) {
    EXPECT_NE(error_of({{"PLAIT_SCRATCH_KIB", text}}), "") << text;
  }
  EXPECT_EQ(Settings::from_environment({{"PLAIT_SCRATCH_KIB", "67108864"}}).scratch_bytes, size_t{1} << 36);
  for (const char* text : {"7", "-8", "8.5", "1025", "all", "4294967304"}) {
    EXPECT_TRUE(has(error_of({{"PLAIT_MAX_SMS", text}}), "a whole number from 8 to 1024, or 0 for no limit")) << text;
  }
  EXPECT_EQ(Settings::from_environment({{"PLAIT_MAX_SMS", "0"}}).max_sms, 0);
  EXPECT_NE(error_of({{"PLAIT_WAIT", "Spin"}}), "");
  EXPECT_NE(error_of({{"PLAIT_LOG", "trace"}}), "");
  EXPECT_TRUE(has(error_of({{"PLAIT_PEER_MEMORY", "nvlink"}}), "expected auto, vmm, ipc or host"));
  EXPECT_TRUE(has(error_of({{"PLAIT_PDL", "yes"}}), "expected 0 or 1"));
  EXPECT_TRUE(has(error_of({{"PLAIT_CPU_DRIVEN", "1"}}), "expected off, one_queue or queue_per_cta"));
  EXPECT_TRUE(has(error_of({{"PLAIT_CPU_REDUCE_BYTES", "-1"}}), "expected a whole number of bytes from 0"));
  for (const auto queues : {CpuDriven::kOff, CpuDriven::kOneQueue, CpuDriven::kQueuePerCta}) {
    EXPECT_EQ(Settings::from_environment({{"PLAIT_CPU_DRIVEN", name(queues)}}).cpu_driven, queues);
  }
  EXPECT_TRUE(has(error_of({{"PLAIT_GPU_MESSAGES", "gpu"}}), "expected host or direct"));
  for (const auto messages : {GpuMessages::kThroughHost, GpuMessages::kDirect}) {
    EXPECT_EQ(Settings::from_environment({{"PLAIT_GPU_MESSAGES", name(messages)}}).gpu_messages, messages);
  }
  EXPECT_EQ(Settings::from_environment({{"PLAIT_CPU_REDUCE_BYTES", "4096"}}).cpu_reduce_bytes, 4096);
  EXPECT_EQ(Settings::from_environment({{"PLAIT_CPU_DRIVEN_BYTES", "65536"}}).cpu_driven_bytes, 65536);
  EXPECT_TRUE(Settings::from_environment({{"PLAIT_PDL", "1"}}).pdl);
  EXPECT_NE(error_of({{"PLAIT_SHM_DIR", "dev/shm"}}), "");
}

TEST(Settings, AMisspelledVariableIsWarnedAboutWithTheNearestName) {
  EXPECT_EQ(warnings_of({{"PLAIT_TIMOUT_SEC", "5"}}),
            "plait: warn: environment variable PLAIT_TIMOUT_SEC is unknown and has no effect; "
            "did you mean PLAIT_TIMEOUT_SEC?\n");
  EXPECT_TRUE(has(warnings_of({{"PLAIT_BOOTSTRAP_TIMEOUT_MS", "5"}}), "PLAIT_BOOTSTRAP_TIMEOUT_SEC?"));
  EXPECT_TRUE(has(warnings_of({{"PLAIT_", "5"}}), "PLAIT_ is unknown"));
}

TEST(Settings, KnownAndForeignVariablesAreNotWarnedAbout) {
  Environment environment{{"PLAITS", "1"}, {"PLAID_LOG", "info"}, {"plait_log", "x"}, {"NCCL_DEBUG", "INFO"}};
  for (const SettingRow& row : settings_table()) environment[row.name] = "";
  EXPECT_EQ(warnings_of(environment), "");
  EXPECT_EQ(warnings_of({{"PLAIT_TYPO", "1"}, {"PLAIT_LOG", "error"}}), "");
}

TEST(Settings, TheTableShowsDefaultsAndValuesThatReadBack) {
  Settings changed;
  changed.timeout_seconds = 1.5;
  changed.scratch_bytes = 128 * 1024;
  changed.wait_policy = WaitPolicy::kYield;
  changed.algorithm = "all_gather:ring";
  changed.max_sms = 16;
  changed.shared_memory_directory = "/tmp";
  changed.peer_memory = PeerMemoryKind::kHost;
  changed.pdl = false;
  changed.log_level = LogLevel::kInfo;
  Environment environment;
  std::set<std::string> names;
  for (const SettingRow& row : settings_table(changed)) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(row.name.starts_with("PLAIT_"));
    EXPECT_FALSE(row.expected.empty());
    EXPECT_FALSE(row.meaning.empty());
    environment[row.name] = row.value;
  }
  const Settings read = Settings::from_environment(environment);
  EXPECT_EQ(read.timeout_seconds, 1.5);
  EXPECT_EQ(read.scratch_bytes, 128u * 1024);
  EXPECT_EQ(read.wait_policy, WaitPolicy::kYield);
  EXPECT_EQ(read.algorithm, "all_gather:ring");
  EXPECT_EQ(read.max_sms, 16);
  EXPECT_EQ(read.shared_memory_directory, "/tmp");
  EXPECT_EQ(read.peer_memory, PeerMemoryKind::kHost);
  EXPECT_FALSE(read.pdl);
  EXPECT_EQ(read.log_level, LogLevel::kInfo);
  EXPECT_EQ(settings_table()[0].default_value, "600");
  EXPECT_EQ(settings_table(changed)[0].default_value, "600");
  EXPECT_EQ(settings_table(changed)[0].value, "1.5");
}

TEST(Settings, TheProcessEnvironmentIsReadWithValuesThatHoldEqualsSigns) {
  ASSERT_EQ(setenv("PLAIT_ALGORITHM", "a=b", 1), 0);
  EXPECT_EQ(process_environment().at("PLAIT_ALGORITHM"), "a=b");
  EXPECT_EQ(Settings::from_environment().algorithm, "a=b");
  unsetenv("PLAIT_ALGORITHM");
}

TEST(Logger, WritesOneLineWithRankAndLevelAndHidesTheRest) {
  testing::internal::CaptureStderr();
  const Logger log = Logger(LogLevel::kWarn).with_rank(3);
  log.error("first");
  log.warn("second ", 2, "\nstill second");
  log.info("hidden");
  log.debug("hidden");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "plait: [rank 3] error: first\nplait: [rank 3] warn: second 2 still second\n");
}

TEST(Logger, LinesOfSeveralThreadsDoNotMix) {
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([log = Logger(LogLevel::kInfo, rank)] {
      for (int i = 0; i < 50; ++i) log.info(std::string(100, 'x'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream lines(testing::internal::GetCapturedStderr());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(line.size(), std::string("plait: [rank 0] info: ").size() + 100);
  }
  EXPECT_EQ(count, 200);
}

// Fields that were set without the environment.
TEST(Settings, CheckRefusesWhatCannotBeUsed) {
  EXPECT_NO_THROW(Settings{}.check());
  for (const double seconds : {0.0, -1.0, std::nan(""), double{INFINITY}, 1e9}) {
    Settings settings;
    settings.timeout_seconds = seconds;
    EXPECT_THROW(settings.check(), Error) << seconds;
    settings = {};
    settings.bootstrap_timeout_seconds = seconds;
    EXPECT_THROW(settings.check(), Error) << seconds;
  }
  for (const size_t bytes : {size_t{0}, size_t{1023}, size_t{1} << 62, SIZE_MAX - 4095}) {
    Settings settings;
    settings.scratch_bytes = bytes;
    EXPECT_THROW(settings.check(), Error) << bytes;
  }
  for (const int sms : {-1, 7, 1025}) {
    Settings settings;
    settings.max_sms = sms;
    EXPECT_THROW(settings.check(), Error) << sms;
  }
}

}  // namespace
}  // namespace plait

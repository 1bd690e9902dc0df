#include "runtime/interfaces.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"

namespace plait {
namespace {

InternetAddress address(const std::string& text) { return resolve(text, "this test").front(); }

const std::vector<InterfaceAddress> kMachine = {
    {"lo", address("127.0.0.1")},  {"docker0", address("172.17.0.1")}, {"eth0", address("fd00::2")},
    {"eth0", address("10.0.0.2")}, {"eth1", address("10.0.1.2")},      {"ib0", address("10.0.2.2")},
};

std::string chosen(const std::string& list) { return choose_address(kMachine, list).text(); }

TEST(Interfaces, AreTakenAsNcclTakesThem) {
  struct {
    const char* list;
    const char* interface;
    bool is_taken;
  } const cases[] = {
      {"eth", "eth0", true},     {"eth", "veth0", false},     {"eth,ib", "ib0", true},
      {"=eth0", "eth0", true},   {"=eth", "eth0", false},     {"=eth0,eth1", "eth1", true},
      {"^docker", "eth0", true}, {"^docker,lo", "lo", false}, {"^docker", "docker0", false},
      {"^=eth0", "eth0", false}, {"^=eth", "eth0", true},     {"^=eth0,lo", "lo", false},
      {"eth0", "eth01", true},   {"=eth0", "eth01", false},   {",", "eth0", false},
  };
  for (const auto& it : cases) {
    EXPECT_EQ(takes_interface(it.list, it.interface), it.is_taken) << it.list << " " << it.interface;
  }
}

TEST(Interfaces, TheFirstThatIsTakenCountsAndIPv4BeforeIPv6) {
  EXPECT_EQ(chosen("eth"), "10.0.0.2");
  EXPECT_EQ(chosen("=eth1"), "10.0.1.2");
  EXPECT_EQ(chosen("^eth,lo,ib"), "172.17.0.1");
  EXPECT_EQ(chosen("lo"), "127.0.0.1");
  EXPECT_EQ(chosen("lo,eth"), "10.0.0.2");
}

TEST(Interfaces, AListThatLeavesSomeOutTakesLoopbackLast) {
  EXPECT_EQ(chosen("^docker"), "10.0.0.2");
  EXPECT_EQ(chosen("^docker,=eth0"), "10.0.0.2");
  EXPECT_EQ(chosen("^docker,eth,ib"), "127.0.0.1");
}

TEST(Interfaces, WithoutAListFastOnesComeFirstAndLoopbackLast) {
  std::vector<InterfaceAddress> rest = kMachine;
  for (const char* expected : {"10.0.2.2", "10.0.0.2", "172.17.0.1", "127.0.0.1"}) {
    const InternetAddress found = choose_address(rest, "");
    EXPECT_EQ(found.text(), expected);
    const auto it = std::ranges::find(rest, found, &InterfaceAddress::address);
    const std::string used = it->interface;
    std::erase_if(rest, [&](const InterfaceAddress& one) { return one.interface.substr(0, 3) == used.substr(0, 3); });
  }
  EXPECT_TRUE(choose_address({}, "").is_loopback());
}

TEST(Interfaces, AListThatTakesNoneIsAnErrorThatShowsThem) {
  try {
    choose_address(kMachine, "=wlan0");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    for (const char* part : {"PLAIT_SOCKET_IFNAME is \"=wlan0\"", "eth1 (10.0.1.2)", "eth0 (fd00::2)"}) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST(Interfaces, OfThisHostAreFound) {
  for (const InterfaceAddress& it : interface_addresses()) {
    EXPECT_FALSE(it.interface.empty());
    EXPECT_EQ(address(it.address.text()), it.address);
  }
}

TEST(InternetAddress, IsReadAndWritten) {
  EXPECT_EQ(address("10.1.2.3").text(), "10.1.2.3");
  EXPECT_EQ(address("fd00::0:1").text(), "fd00::1");
  EXPECT_EQ(address("::ffff:10.1.2.3"), address("10.1.2.3"));
  EXPECT_TRUE(address("127.9.9.9").is_loopback());
  EXPECT_TRUE(address("::1").is_loopback());
  EXPECT_FALSE(address("10.1.2.3").is_loopback());
  EXPECT_FALSE(InternetAddress().is_there());
  EXPECT_EQ(InternetAddress().text(), "");
}

TEST(InternetAddress, ANameWithoutOneIsAnErrorThatSaysWhoseItIs) {
  try {
    resolve("no-such-host.invalid", "PLAIT_MASTER_ADDR");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystem);
    EXPECT_NE(std::string(error.what()).find("\"no-such-host.invalid\" (PLAIT_MASTER_ADDR)"), std::string::npos);
  }
}

}  // namespace
}  // namespace plait

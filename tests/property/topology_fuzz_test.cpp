// Damaged machine descriptions: every mutant of a good one must either be read, and then be valid, or be refused with
// an Error. PLAIT_TEST_SEED repeats a run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "topology/describe.hpp"
#include "topology/machines.hpp"
#include "topology/readers.hpp"
#include "unit/topology/samples.hpp"

namespace plait {
namespace {

constexpr int kMutantsPerSample = 3500;

uint64_t seed() {
  const char* text = std::getenv("PLAIT_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 20170607;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    for (size_t count = 1 + below(4); count > 0; --count) change(text);
    return text;
  }

 private:
  size_t below(size_t bound) { return bound == 0 ? 0 : static_cast<size_t>(random_() % bound); }

  std::string_view token() {
    static constexpr std::string_view kTokens[] = {"-1",
                                                   "0",
                                                   "1e999",
                                                   "NaN",
                                                   "inf",
                                                   "99999999999999999999",
                                                   "0.5",
                                                   "\"\"",
                                                   "null",
                                                   "true",
                                                   "[",
                                                   "]",
                                                   "{",
                                                   "}",
                                                   ",",
                                                   ":",
                                                   "\"",
                                                   "\\u0000",
                                                   "\\ud800",
                                                   "<",
                                                   ">",
                                                   "/>",
                                                   "</cpu>",
                                                   "<!--",
                                                   "-->",
                                                   "<![CDATA[",
                                                   "<!DOCTYPE a>",
                                                   "&amp;",
                                                   "&#0;",
                                                   "&bomb;",
                                                   "<pci busid=\"0000:01:00.0\">",
                                                   "<gpu dev=\"0\"/>",
                                                   "GPU0",
                                                   "NV18",
                                                   "NV99999",
                                                   "X",
                                                   "SYS",
                                                   "PIX",
                                                   "NIC0",
                                                   "\t",
                                                   "\n",
                                                   "\r",
                                                   "\x1b[",
                                                   "\xff\xfe",
                                                   "\xc3",
                                                   " CPU Affinity ",
                                                   "N/A",
                                                   "count=\"-1\"",
                                                   "gpu1",
                                                   "cpu0",
                                                   "\"nodes\": 1048576,"};
    return kTokens[below(std::size(kTokens))];
  }

  void change(std::string& text) {
    const size_t at = below(text.size() + 1);
    const size_t length = std::min(below(1 + (below(8) == 0 ? 400 : 12)), text.size() - at);
    switch (below(7)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, token());
        break;
      case 2:
        text.replace(at, length, token());
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 4:
        text.insert(below(text.size() + 1), text.substr(at, length));
        break;
      case 5:
        text.resize(at);
        break;
      default:
        change_number(text, at);
    }
  }

  // Changes the digits that come next, so that the text stays well formed more often.
  void change_number(std::string& text, size_t at) {
    const size_t digit = text.find_first_of("0123456789", at);
    if (digit == std::string::npos) return;
    text.replace(digit, 1,
                 below(2) == 0 ? std::to_string(random_() % 100) : std::string(1, static_cast<char>('0' + below(10))));
  }

  std::mt19937_64 random_;
};

struct Outcome {
  int read = 0;
  int refused = 0;
};

void try_mutant(const std::string& text, Outcome& outcome) {
  try {
    const Topology topology = parse_topology(text, "mutant");
    validate(topology);
    // What was read must also bear use.
    if (topology.devices.size() < 200) {
      find_groups(topology, GroupRule::kNvGroup);
      to_text(topology);
      EXPECT_EQ(parse_machine_json(to_json(topology), "again"), topology);
    }
    ++outcome.read;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput) << error.what();
    EXPECT_LT(std::string_view(error.what()).size(), 2000u);
    ++outcome.refused;
  }
}

TEST(TopologyFuzz, MutantsAreReadOrRefused) {
  std::printf("PLAIT_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed()));
  const std::vector<std::pair<const char*, std::string>> samples = {
      {"machine", samples::kMachine},        {"a described machine", to_json(machine("summit", 2))},
      {"switched", samples::kXmlSwitched},   {"power", samples::kXmlPower},
      {"old matrix", samples::kMatrixOld},   {"new matrix", samples::kMatrixNew},
      {"xgmi and fused", samples::kXmlXgmi},
  };
  Mutator mutator(seed());
  for (const auto& [name, text] : samples) {
    Outcome outcome;
    try_mutant(text, outcome);
    ASSERT_EQ(outcome.read, 1) << name << " must be readable unchanged";
    for (int i = 0; i < kMutantsPerSample; ++i) {
      const std::string mutant = mutator.mutate(text);
      try {
        try_mutant(mutant, outcome);
      } catch (const std::exception& other) {
        FAIL() << name << ", mutant " << i << ": " << other.what() << "\n" << mutant;
      }
      if (HasFailure()) FAIL() << name << ", mutant " << i << ":\n" << mutant;
    }
    // A fuzzer that only ever sees one outcome tests nothing.
    EXPECT_GT(outcome.read, kMutantsPerSample / 100) << name;
    EXPECT_GT(outcome.refused, kMutantsPerSample / 100) << name;
    std::printf("%-20s %d read, %d refused\n", name, outcome.read, outcome.refused);
  }
}

}  // namespace
}  // namespace plait

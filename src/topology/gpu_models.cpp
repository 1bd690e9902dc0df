#include "topology/gpu_models.hpp"

#include <algorithm>
#include <cctype>

#include "base/error.hpp"

namespace plait {
namespace {

// Numbers of SMs from NVIDIA's architecture whitepapers; for a K80, those of one of its two GPUs. If a name is part of
// another, the longer one comes first. GB200, GB300 and B300 are as the driver reports them: whitepapers give only the
// numbers of the whole chips.
constexpr GpuModel kModels[] = {
    {"K80", 13, 37},
    {"P100", 56, 60},
    {"V100", 80, 70},
    {"T4", 40, 75},
    {"Quadro RTX 8000", 72, 75},
    {"Quadro RTX 6000", 72, 75},
    {"A100", 108, 80},
    {"A800", 108, 80},
    {"A30", 56, 80},
    {"A10", 72, 86},
    {"A10G", 80, 86},
    {"A40", 84, 86},
    {"RTX A6000", 84, 86},
    {"RTX A5000", 64, 86},
    {"RTX 3090 Ti", 84, 86},
    {"RTX 3090", 82, 86},
    {"L4", 58, 89},
    {"L40S", 142, 89},
    {"L40", 142, 89},
    {"L20", 92, 89},
    {"RTX 6000 Ada", 142, 89},
    {"RTX 4090 D", 114, 89},
    {"RTX 4090", 128, 89},
    {"H100 PCIe", 114, 90},
    {"H100", 132, 90},
    {"H800 PCIe", 114, 90},
    {"H800", 132, 90},
    {"H20", 78, 90},
    {"H200", 132, 90},
    {"GH200", 132, 90},
    {"B200", 148, 100},
    {"GB200", 152, 100},
    {"B300", 148, 103},
    {"GB300", 152, 103},
    {"RTX PRO 6000", 188, 120},
    {"RTX 5090", 170, 120},
};

bool is_word_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

// Whether `words` are in `text`, with neither end of them in the middle of a word.
bool has_words(std::string_view text, std::string_view words) {
  for (auto at = text.begin();; ++at) {
    at = std::search(at, text.end(), words.begin(), words.end(), same_letter);
    if (at == text.end()) return false;
    const auto end = at + static_cast<ptrdiff_t>(words.size());
    if ((at == text.begin() || !is_word_character(at[-1])) && (end == text.end() || !is_word_character(*end)))
      return true;
  }
}

}  // namespace

const GpuModel* find_gpu_model(std::string_view vendors_name) {
  for (const GpuModel& known : kModels) {
    if (has_words(vendors_name, known.name)) return &known;
  }
  return nullptr;
}

const GpuModel& gpu_model_named(std::string_view name) {
  if (const GpuModel* known = find_gpu_model(name)) return *known;
  std::string all;
  for (const GpuModel& known : kModels) all += (all.empty() ? "" : ", ") + std::string(known.name);
  fail(ErrorCode::kInvalidArgument, "no GPU model \"", name.substr(0, 64), "\" is known; there are: ", all);
}

}  // namespace plait

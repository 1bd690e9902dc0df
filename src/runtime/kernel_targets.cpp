// Reads the names of CMake's CUDA architectures, and says on which GPUs their code runs.
#include "runtime/kernel_targets.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"

#ifndef PLAIT_KERNEL_TARGETS
#define PLAIT_KERNEL_TARGETS ""
#endif

namespace plait {
namespace {

// "8.0, 9.0 and 10.0"
std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 < words.size() ? ", " : " and ") + words[i];
  return text;
}

}  // namespace

std::string capability_text(int capability) { return join(capability / 10, ".", capability % 10); }

KernelTargets KernelTargets::built() { return parse(PLAIT_KERNEL_TARGETS); }

KernelTargets KernelTargets::parse(std::string_view names) {
  KernelTargets targets;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    Target target;
    const char* const end = name.data() + name.size();
    const char* at = std::from_chars(name.data(), end, target.capability).ptr;
    if (at != end && (*at == 'a' || *at == 'f')) target.only = *at++;
    const std::string_view kind(at, static_cast<size_t>(end - at));
    target.has_code = kind.empty() || kind == "-real";
    target.has_ptx = kind.empty() || kind == "-virtual";
    if (target.capability < 10 || !(target.has_code || target.has_ptx)) {
      fail(ErrorCode::kInvalidArgument, "'", name,
           "' is no CUDA architecture; it should look like 90, 90-real or "
           "75-virtual");
    }
    targets.targets_.push_back(target);
  }
  return targets;
}

bool KernelTargets::serve(int capability) const {
  return std::ranges::any_of(targets_, [&](const Target& target) {
    if (capability < target.capability) return false;
    if (target.only == 'a') return capability == target.capability;
    const bool is_near = capability / 10 == target.capability / 10;
    return is_near ? target.has_code || target.has_ptx : target.has_ptx && target.only == ' ';
  });
}

std::string KernelTargets::text() const {
  std::vector<std::string> code, ptx;
  int least = 0;  // whose PTX is for all later GPUs
  for (const auto& [capability, only, has_code, has_ptx] : targets_) {
    const bool is_for_later = has_ptx && only == ' ';
    const std::string name = capability_text(capability) + (only == ' ' ? "" : std::string(1, only));
    if (has_code) code.push_back(name);
    if (has_ptx && !is_for_later) ptx.push_back(name);
    if (is_for_later && (least == 0 || capability < least)) least = capability;
  }
  std::vector<std::string> parts;
  if (!code.empty()) parts.push_back("machine code for " + listed(code));
  if (!ptx.empty()) parts.push_back("PTX for " + listed(ptx));
  if (least != 0) parts.push_back(join("PTX for all from ", capability_text(least), " on"));
  if (parts.empty()) return "none, since it was built without CUDA";
  std::string text = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) text += (i + 1 < parts.size() ? ", " : ", and ") + parts[i];
  return text;
}

std::string no_kernels_text(std::string_view gpu, int capability, const KernelTargets& targets) {
  const std::string known = join(gpu, " has compute capability ", capability_text(capability),
                                 ", for which Plait has no kernels (", targets.text(), "); ");
  if (capability < kLeastCapability)
    return known + "it needs a GPU of " + capability_text(kLeastCapability) + " or later";
  return join(known, "build it for this GPU: make install CUDA_ARCHITECTURES=", capability, "-real");
}

}  // namespace plait

// Finding the real functions, and what is said where there is none.
#include "api/nccl/forward.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <nccl_functions.hpp>
#include <string>

#include "api/nccl/drop_in.hpp"
#include "base/error.hpp"

namespace plait::nccl {
namespace {

constinit std::atomic<void*> targets[std::size(kSymbols)] = {};

// No std::string: it would be gone where destructors of static objects still make calls.
constexpr size_t kMostTextBytes = kMostMessageBytes;
constinit thread_local char own_error[kMostTextBytes + 1] = "";

std::string why_missing(const SymbolFacts& symbol, const RealLibrary& real) {
  if (!real.is_open()) return join(symbol.name, ": ", real.error());
  return join(symbol.name, ": NCCL ", real.version_text(), " (", real.path(), ") does not have it; it came with NCCL ",
              symbol.major, '.', symbol.minor, ": install that, or name its libnccl.so.2 in PLAIT_NCCL_LIBRARY");
}

}  // namespace

std::atomic<void*>& target_of(Symbol symbol) { return targets[static_cast<size_t>(symbol)]; }

void* find_target(Symbol symbol, ncclResult_t& result) noexcept {
  try {
    const SymbolFacts& facts = kSymbols[static_cast<size_t>(symbol)];
    const RealLibrary& real = DropIn::of_this_process().real();
    void* target = real.find(facts.name);
    if (target != nullptr) {
      target_of(symbol).store(target, std::memory_order_release);
      return target;
    }
    result = real.is_open() ? ncclInvalidUsage : ncclSystemError;
    remember_own_error(why_missing(facts, real));
  } catch (const std::exception&) {
    result = ncclSystemError;  // no memory for more words
  }
  return nullptr;
}

void forget_own_error() noexcept { own_error[0] = '\0'; }

void remember_own_error(std::string_view text) noexcept {
  const size_t length = std::min(text.size(), kMostTextBytes);
  std::memcpy(own_error, text.data(), length);
  own_error[length] = '\0';
}

// The drop-in's own error, where that is the last one, else NCCL's.
const char* watched::ncclGetLastError(ncclComm_t comm) {
  if (own_error[0] != '\0') return own_error;
  return real::ncclGetLastError(comm);
}

// Where there is no NCCL, what to do about that is more than any code says.
const char* watched::ncclGetErrorString(ncclResult_t code) {
  ncclResult_t result = ncclSuccess;
  const Symbol symbol = Symbol::ncclGetErrorString;
  if (target_of(symbol).load(std::memory_order_acquire) == nullptr && find_target(symbol, result) == nullptr) {
    return own_error;
  }
  return real::ncclGetErrorString(code);
}

}  // namespace plait::nccl

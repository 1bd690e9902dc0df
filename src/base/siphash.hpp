// SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash short enough to read, used as the message authentication
// code of the bootstrap. It is not a hash for files or for anything without a secret key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace plait {

using SipKey = std::array<uint8_t, 16>;
using SipDigest = std::array<uint8_t, 16>;

// The 64-bit tag of `message`, as the paper defines it.
uint64_t siphash64(const SipKey& key, std::span<const std::byte> message);

// The 128-bit variant of the authors' reference code; 16 bytes in the order in which that code writes them.
SipDigest siphash128(const SipKey& key, std::span<const std::byte> message);

// True where both are equal, in a time that does not tell at which byte they differ.
bool equal_digests(const SipDigest& a, const SipDigest& b);

}  // namespace plait

// SHA-256 (FIPS 180-4), and HMAC over it (RFC 2104): short enough to read, and fast enough for the few hundred bytes
// that ranks hash when they meet.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace plait {

using Sha256Digest = std::array<uint8_t, 32>;

Sha256Digest sha256(std::span<const std::byte> message);

// Keys may have any length. With a secret key the digest proves that its maker knows the key. With a public key and a
// secret message the digest is a secret, too (HKDF-Extract, RFC 5869).
Sha256Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

}  // namespace plait

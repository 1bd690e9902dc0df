// Secrets of 128 bits that ranks share, and what is derived from them. All of it is HMAC-SHA-256, cut to 128 bits as
// RFC 4868 does. docs/dev/meeting.md says what is used where.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace plait {

using Secret = std::array<uint8_t, 16>;
using Nonce = std::array<uint8_t, 16>;
using Tag = std::array<uint8_t, 16>;

// 128 bits from the kernel's random source, for a secret or a nonce.
std::array<uint8_t, 16> random_128_bits();

// Derives a secret from `message`. It is as secret as the message. Each purpose gets a different secret.
Secret derive_secret(std::string_view purpose, std::span<const std::byte> message);

// Proves, to those who know the secret, that whoever made the tag knows it too and meant this very message. Reveals
// nothing to others.
Tag tag_of(const Secret& secret, std::span<const std::byte> message);

// Compares two tags in a time that does not reveal at which byte they differ.
bool equal_tags(const Tag& a, const Tag& b);

}  // namespace plait

// Secrets of 128 bits that ranks have in common, and what is made of them. All of it is HMAC-SHA-256, cut to 128 bits
// as RFC 4868 cuts it: for what it is used where, see docs/bootstrap.md.
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

// From the kernel's random source: a secret or a nonce.
std::array<uint8_t, 16> random_128_bits();

// A secret that follows from `message`, as secret as the message is. Other purposes get other secrets.
Secret derive_secret(std::string_view purpose, std::span<const std::byte> message);

// Tells whoever knows the secret that its maker knows it too, and meant this very message. Tells others nothing.
Tag tag_of(const Secret& secret, std::span<const std::byte> message);

// True where both are equal, in a time that does not tell at which byte they differ.
bool equal_tags(const Tag& a, const Tag& b);

}  // namespace plait

// Random numbers by position instead of by sequence, so that any shard of any world size gets the same values. Depends
// on nothing.
#pragma once

#include <cstdint>
#include <string_view>

namespace zeroplan::runtime {

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that mixes all bits.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// 64-bit FNV-1a.
constexpr std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash;
}

/// Number `index` of stream `stream` under `seed`.
constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return mix_bits(mix_bits(mix_bits(seed) ^ stream) ^ index);
}

}  // namespace zeroplan::runtime

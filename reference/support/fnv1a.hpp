// reference/support/fnv1a.hpp: FNV-1a, a hash of 64 bits that is the same on every machine.
//
// Source  Fowler, Noll, Vo, Eastlake, *The FNV Non-Cryptographic Hash Algorithm*, draft-eastlake-fnv.
#pragma once

#include <cstdint>
#include <string_view>

namespace plumbline::comm {

class Fnv1a {
 public:
  static constexpr std::uint64_t kStart = 0xcbf29ce484222325u;

  constexpr Fnv1a() = default;
  constexpr explicit Fnv1a(std::uint64_t start) : value_(start) {}

  /// A whole word in one step.
  constexpr Fnv1a& add_word(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x100000001b3u;
    return *this;
  }
  constexpr Fnv1a& add(std::string_view text) {
    for (const char c : text) add_word(static_cast<unsigned char>(c));
    return *this;
  }
  /// The bytes of a number, the lowest first.
  template <class Unsigned>
  constexpr Fnv1a& add_bytes(Unsigned number) {
    for (unsigned shift = 0; shift < 8 * sizeof number; shift += 8) add_word((number >> shift) & 0xffu);
    return *this;
  }
  [[nodiscard]] constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = kStart;
};

}  // namespace plumbline::comm

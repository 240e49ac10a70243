// reference/support/control_characters.hpp: a stranger's text for a terminal, which obeys control characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plumbline {

/// The text with `instead` for each control character: U+0000 to U+001F, U+007F, and U+0080 to U+009F (C1, of which
/// U+009B begins a command as ESC [ does). Bytes 80 to 9F that are part of no UTF-8 are controls as well: a terminal of
/// eight bits takes them so. All else stays, byte by byte.
[[nodiscard]] inline std::string without_controls(std::string_view text, char instead) {
  const auto is_continuation = [&](std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
  };
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0, length = 1; at < text.size(); at += length) {
    const auto first = static_cast<unsigned char>(text[at]);
    length = first >= 0xf0 && first < 0xf8   ? 4
             : first >= 0xe0 && first < 0xf0 ? 3
             : first >= 0xc2 && first < 0xe0 ? 2
                                             : 1;
    for (std::size_t i = 1; i < length; ++i)
      if (!is_continuation(at + i)) length = 1;
    const bool is_c1 = first == 0xc2 && length == 2 && static_cast<unsigned char>(text[at + 1]) < 0xa0;
    if (is_c1 || (length == 1 && (first < 0x20 || first == 0x7f || (first >= 0x80 && first < 0xa0))))
      out += instead;
    else
      out += text.substr(at, length);
  }
  return out;
}

}  // namespace plumbline

// harness/run/quoted.hpp: commands that a person repeats in a shell.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>

namespace plumbline::run {

/// An argument as a shell takes it.
[[nodiscard]] inline std::string quoted(const std::string& text) {
  const bool plain = std::ranges::all_of(
      text, [](unsigned char c) { return std::isalnum(c) || std::strchr("-_./:=,+", c) != nullptr; });
  if (plain && !text.empty()) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace plumbline::run

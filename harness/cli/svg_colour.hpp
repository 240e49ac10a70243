// harness/cli/svg_colour.hpp: colours of pictures, and what can be read on them.
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>

namespace plumbline::cli {

struct Colour {
  int red = 0, green = 0, blue = 0;
  [[nodiscard]] std::string text() const { return fmt::format("#{:02x}{:02x}{:02x}", red, green, blue); }
  /// As WCAG weighs them.
  [[nodiscard]] double luminance() const {
    const auto linear = [](int value) {
      const double share = value / 255.0;
      return share <= 0.04045 ? share / 12.92 : std::pow((share + 0.055) / 1.055, 2.4);
    };
    return 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
  }
  /// Black or white, whichever is read more easily on it.
  [[nodiscard]] const char* ink() const { return luminance() > 0.179 ? "#111" : "#fff"; }
  /// With this part of white in it.
  [[nodiscard]] Colour lighter(double part) const {
    const auto mixed = [part](int value) { return static_cast<int>(std::lround(value + (255 - value) * part)); };
    return {mixed(red), mixed(green), mixed(blue)};
  }
};

}  // namespace plumbline::cli

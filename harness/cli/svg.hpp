// harness/cli/svg.hpp: what all pictures are made of: a page, texts, rectangles, and colours that can be read on one
// another.
//
// Dark    Where the reader's screen is dark (`prefers-color-scheme`), the page, its texts and its lines are drawn in
//         other tones; boxes keep theirs, and so do texts in boxes, which are written in Colour::ink().
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

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
  /// Black or white, whichever is read more easily on it. Texts on the page itself are never of these two.
  [[nodiscard]] const char* ink() const { return luminance() > 0.179 ? "#000" : "#fff"; }
  /// With this part of white in it.
  [[nodiscard]] Colour lighter(double part) const {
    const auto mixed = [part](int value) { return static_cast<int>(std::lround(value + (255 - value) * part)); };
    return {mixed(red), mixed(green), mixed(blue)};
  }
};

/// Text between tags and in attributes.
[[nodiscard]] inline std::string svg_escaped(std::string_view text) {
  std::string safe;
  for (const char c : text)
    safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : std::string(1, c);
  return safe;
}

/// A page, white or dark as the reader's screen is. `title` and `definitions`, such as patterns, may be left out.
[[nodiscard]] std::string svg_page(double width, double height, const std::string& body, const std::string& title = "",
                                   const std::string& definitions = "");

/// The attribute of what is a part of the page and no data: its fill is dark on a dark screen.
inline constexpr const char* kPaper = " class=\"paper\"";

/// The attribute that gives the line of a series its own dashes, for readers who see no colours.
[[nodiscard]] std::string svg_dashes(std::size_t series);

/// `anchor` is start, middle or end.
[[nodiscard]] inline std::string svg_text(double x, double y, double size, const char* anchor, std::string_view text,
                                          std::string_view fill = "#333", bool bold = false) {
  return fmt::format(
      "<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"{:.4g}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n", x, y, size,
      anchor, fill, bold ? " font-weight=\"bold\"" : "", svg_escaped(text));
}

/// `more` are attributes, and the title what is shown where the pointer rests.
[[nodiscard]] inline std::string svg_rectangle(double x, double y, double width, double height, const std::string& fill,
                                               const std::string& title = "", const std::string& more = "") {
  return fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"{}{}\n", x, y,
                     width, height, fill, more,
                     title.empty() ? "/>" : "><title>" + svg_escaped(title) + "</title></rect>");
}

}  // namespace plumbline::cli

#include "harness/cli/svg.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>

namespace plumbline::cli {
namespace {

constexpr Colour kDarkPage{22, 24, 29};
constexpr double kReadable = 4.5;  // WCAG 2.1, 1.4.3: contrast of a text with its ground

// "#9ad" or "#9aa2ad".
std::optional<Colour> colour_from(std::string_view text) {
  if (!text.starts_with('#') || (text.size() != 4 && text.size() != 7)) return std::nullopt;
  const std::size_t digits = text.size() / 3;
  std::array<int, 3> parts{};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string_view part = text.substr(1 + i * digits, digits);
    if (std::from_chars(part.begin(), part.end(), parts[i], 16).ptr != part.end()) return std::nullopt;
    if (digits == 1) parts[i] *= 17;
  }
  return Colour{parts[0], parts[1], parts[2]};
}

double contrast(const Colour& one, const Colour& other) {
  const double a = one.luminance(), b = other.luminance();
  return (std::max(a, b) + 0.05) / (std::min(a, b) + 0.05);
}

bool is_grey(const Colour& colour) {
  const auto [low, high] = std::minmax({colour.red, colour.green, colour.blue});
  return high - low < 24;
}

// Black becomes nearly white, and white the dark page.
Colour mirrored(const Colour& grey) {
  constexpr int kWhite = 244;
  const auto part = [](int value, int page) { return kWhite - value * (kWhite - page) / 255; };
  return {part(grey.red, kDarkPage.red), part(grey.green, kDarkPage.green), part(grey.blue, kDarkPage.blue)};
}

// Of a line or a text on the page.
Colour ink_in_the_dark(const Colour& colour) {
  if (is_grey(colour)) return mirrored(colour);
  Colour lighter = colour;
  for (int tenths = 1; tenths <= 10 && contrast(lighter, kDarkPage) < kReadable; ++tenths)
    lighter = colour.lighter(tenths / 10.0);
  return lighter;
}

Colour paper_in_the_dark(const Colour& colour) {
  if (is_grey(colour)) return mirrored(colour);
  return {colour.red * 3 / 10, colour.green * 3 / 10, colour.blue * 3 / 10};
}

std::string_view attribute(std::string_view tag, const std::string& name) {
  const std::string start = " " + name + "=\"";
  const std::size_t at = tag.find(start);
  if (at == tag.npos) return {};
  const std::size_t begin = at + start.size();
  return tag.substr(begin, tag.find('"', begin) - begin);
}

// The rules that a tag needs on a dark screen.
void add_dark_rules(std::string_view tag, std::set<std::string>& rules) {
  const std::string_view name = tag.substr(1, tag.find_first_of(" />", 1) - 1);
  const std::string_view fill = attribute(tag, "fill"), stroke = attribute(tag, "stroke");
  const bool is_paper = attribute(tag, "class") == "paper";
  if (const auto colour = colour_from(stroke))
    rules.insert(fmt::format("[stroke=\"{}\"]{{stroke:{}}}", stroke, ink_in_the_dark(*colour).text()));
  const auto colour = colour_from(fill);
  if (!colour) return;
  if (is_paper) rules.insert(fmt::format(".paper[fill=\"{}\"]{{fill:{}}}", fill, paper_in_the_dark(*colour).text()));
  const std::string is_drawn_as_ink = name == "text" && fill != "#000" && fill != "#fff" ? "text"
                                      : name == "path"                                   ? "path"
                                      : name == "circle" && stroke.empty()               ? "circle:not([stroke])"
                                                                                         : "";
  if (!is_drawn_as_ink.empty())
    rules.insert(fmt::format("{}[fill=\"{}\"]{{fill:{}}}", is_drawn_as_ink, fill, ink_in_the_dark(*colour).text()));
}

std::string dark_style(const std::string& picture) {
  std::set<std::string> rules;
  for (std::size_t at = picture.find('<'); at != picture.npos; at = picture.find('<', at + 1))
    add_dark_rules(std::string_view(picture).substr(at, picture.find('>', at) - at), rules);
  std::string style = "<style>@media (prefers-color-scheme: dark) {\n";
  for (const std::string& rule : rules) style += rule + '\n';
  return style + "}</style>\n";
}

}  // namespace

std::string svg_page(double width, double height, const std::string& body, const std::string& title,
                     const std::string& definitions) {
  const std::string head = (title.empty() ? "" : "<title>" + svg_escaped(title) + "</title>\n") +
                           (definitions.empty() ? "" : "<defs>" + definitions + "</defs>\n");
  const std::string paper = fmt::format("<rect width=\"100%\" height=\"100%\" fill=\"#fff\"{}/>\n", kPaper);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
             "{1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n",
             width, height) +
         dark_style(head + paper + body) + head + paper + body + "</svg>\n";
}

std::string svg_dashes(std::size_t series) {
  constexpr std::array<const char*, 7> kDashes{"", "7 3", "2 3", "9 3 2 3", "14 4", "5 2 1 2 1 2", "1 1.5"};
  const std::string dashes = kDashes[series % kDashes.size()];
  return dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dashes);
}

}  // namespace plumbline::cli

// Pictures on a dark screen: what is drawn on the page can be read there, and what is in boxes stays.
#include "harness/cli/svg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace plumbline::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(SvgPage, HasADarkPageWithLightTexts) {
  const std::string page =
      svg_page(100, 50, svg_text(0, 0, 12, "start", "words") + svg_text(0, 9, 12, "end", "more", "#a03010"));
  EXPECT_THAT(page, HasSubstr("@media (prefers-color-scheme: dark)"));
  EXPECT_THAT(page, HasSubstr(".paper[fill=\"#fff\"]{fill:#16181d}"));
  EXPECT_THAT(page, HasSubstr("text[fill=\"#333\"]{fill:#c8c8c9}"));
  EXPECT_THAT(page, Not(HasSubstr("{fill:#a03010}"))) << "too dark on a dark page";
}

TEST(SvgPage, KeepsTheColoursOfBoxes) {
  const Colour pale{200, 220, 250}, deep{20, 40, 90};
  std::string boxes;
  for (const Colour& colour : {pale, deep})
    boxes += svg_rectangle(0, 0, 9, 9, colour.text()) + svg_text(0, 0, 9, "middle", "1", colour.ink());
  const std::string page = svg_page(100, 50, boxes);
  for (const std::string& colour : {pale.text(), deep.text(), std::string("#000")})
    EXPECT_THAT(page, Not(HasSubstr("[fill=\"" + colour + "\"]")));
  EXPECT_THAT(page, Not(HasSubstr("text[fill=\"#fff\"]")));
}

TEST(SvgPage, LightensLinesThatAreTooDark) {
  const std::string page =
      svg_page(100, 50, "<path d=\"M0 0h9\" stroke=\"#5650a0\"/><path d=\"M0 0h9\" stroke=\"#e3e6ea\"/>");
  EXPECT_THAT(page, Not(HasSubstr("{stroke:#5650a0}")));
  EXPECT_THAT(page, HasSubstr("[stroke=\"#e3e6ea\"]{stroke:#2f2e2f}")) << "a line of the grid is faint there, too";
}

TEST(SvgDashes, TellsSeriesApartWithoutColours) {
  for (std::size_t one = 0; one < 7; ++one)
    for (std::size_t other = 0; other < one; ++other) EXPECT_NE(svg_dashes(one), svg_dashes(other));
}

}  // namespace
}  // namespace plumbline::cli

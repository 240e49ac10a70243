#include "conformance/topology/shapes.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"

namespace plumbline::conformance {

suite::Axis shapes(std::vector<std::string> sizes) { return {"shape", std::move(sizes)}; }

void judge_shapes(suite::Context& context, const std::function<std::string(const Shape&)>& problem,
                  const ShapeLimits& limits, int trials) {
  const std::string& name = context.parameters().text("shape");
  if (name == "random") {
    const Property<Shape> property{.draw = [&](Random& random) { return draw_shape(random, limits); },
                                   .problem = problem,
                                   .smaller = [&](const Shape& shape) { return smaller(shape, limits); },
                                   .words = [](const Shape& shape) { return text_of(shape); }};
    return report_words(search(property, context.seed(), trials));
  }
  const Shape shape = shape_of(name);
  if (const std::string words = problem(shape); !words.empty()) report_words(text_of(shape) + ": " + words);
}

std::vector<Ranks> lists_of(const Shape& shape, const std::set<std::string>& axes) {
  std::vector<int> along;
  for (const std::string& axis : axes) along.push_back(number_of(shape, axis));
  std::vector<Ranks> lists = lists_along(shape, positions_in(shape, Fastest::first), along);
  std::ranges::sort(lists);
  return lists;
}

std::string problem_of_group(const nlohmann::json& row, const std::string& axis, int rank, Ranks expected) {
  const auto told = row.at("group_ranks").at(axis).get<Ranks>();
  Ranks got = told;
  std::ranges::sort(got);
  std::ranges::sort(expected);
  if (got != expected)
    return fmt::format("its group of {} is {}, it should have {}", axis, nlohmann::json(told).dump(),
                       nlohmann::json(expected).dump());
  if (const int local = row.at("local_rank").at(axis); told.at(static_cast<std::size_t>(local)) != rank)
    return fmt::format("its local rank on {} is {}, its group {}", axis, local, nlohmann::json(told).dump());
  return {};
}

int number_of(const Shape& shape, const std::string& axis) {
  const auto found = std::ranges::find(shape.axes, axis);
  return found == shape.axes.end() ? -1 : static_cast<int>(found - shape.axes.begin());
}

}  // namespace plumbline::conformance

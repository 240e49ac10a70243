#include "conformance/topology/asking.hpp"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/suite/adapter_error.hpp"

namespace plumbline::conformance {

using nlohmann::json;

namespace {

std::string shortened(const json& value) { return value.dump().substr(0, 160); }

std::string difference_of_lists(const json& expected, const json& got, const std::string& where) {
  if (expected.size() != got.size())
    return fmt::format("{}: expected {} items, {}, got {}, {}", where, expected.size(), shortened(expected), got.size(),
                       shortened(got));
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (std::string words = first_difference(expected[i], got[i], fmt::format("{}[{}]", where, i)); !words.empty())
      return words;
  return {};
}

std::string difference_of_objects(const json& expected, const json& got, const std::string& where) {
  for (const auto& [name, value] : expected.items()) {
    const std::string place = where + "." + name;
    if (!got.contains(name)) return fmt::format("{}: expected {}, got nothing", place, shortened(value));
    if (std::string words = first_difference(value, got[name], place); !words.empty()) return words;
  }
  return {};
}

}  // namespace

Answer answer_to(suite::Adapter& adapter, const std::string& op, const json& args) {
  try {
    return {.result = adapter.ask(op, args), .kind = {}, .message = {}};
  } catch (const suite::AdapterError& error) {
    return {.result = {}, .kind = std::string(error.kind()), .message = error.message()};
  }
}

std::string first_difference(const json& expected, const json& got, const std::string& where) {
  if (expected == got) return {};
  if (expected.is_array() && got.is_array()) return difference_of_lists(expected, got, where);
  if (expected.is_object() && got.is_object()) return difference_of_objects(expected, got, where);
  return fmt::format("{}: expected {}, got {}", where, shortened(expected), shortened(got));
}

void report_words(const std::string& problem, std::source_location where) {
  if (!problem.empty()) ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << problem;
}

std::string problem_of(suite::Adapter& adapter, const std::string& op, const json& args, const JudgeResult& judge) {
  const Answer answer = answer_to(adapter, op, args);
  if (answer.is_refused()) return fmt::format("{} is refused: {}: {}", op, answer.kind, answer.message);
  try {
    return judge(answer.result);
  } catch (const json::exception& error) {
    return fmt::format("{} answers in another form: {}: {}", op, error.what(), shortened(answer.result));
  } catch (const std::out_of_range&) {
    return fmt::format("{} names what is not there: {}", op, shortened(answer.result));
  }
}

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

int number_of(const Shape& shape, const std::string& axis) {
  const auto found = std::ranges::find(shape.axes, axis);
  return found == shape.axes.end() ? -1 : static_cast<int>(found - shape.axes.begin());
}

}  // namespace plumbline::conformance

#include "conformance/scaler/overflows.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "conformance/support/asking.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using nlohmann::json;

std::vector<bool> draw_overflows(const std::string& kind, Random& random) {
  const auto of_100 = [&]() -> int {
    if (kind == "none") return 0;
    if (kind == "few") return 15;
    if (kind == "many") return 60;
    if (kind == "all") return 100;
    throw NotFound(fmt::format("no sequence of overflows '{}'", kind));
  }();
  std::vector<bool> found(static_cast<std::size_t>(random.between(1, 40)));
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = random.between(0, 99) < of_100;
  return found;
}

std::vector<std::vector<bool>> smaller_overflows(const std::vector<bool>& found) {
  std::vector<std::vector<bool>> list;
  for (std::size_t i = found.size(); i-- > 0 && found.size() > 1;) {
    list.push_back(found);
    list.back().erase(list.back().begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i]) list.push_back(found), list.back()[i] = false;
  return list;
}

std::string text_of(const std::vector<bool>& found) {
  std::string text;
  for (const bool one : found) text += one ? '!' : '.';
  return text;
}

std::string problem_of_first(const ScaleRows& rows, const json& init) {
  const double given = init.at(init.contains("init_scale") ? "init_scale" : "initial_scale").get<double>();
  if (rows.empty()) return "there is no row";
  return is_near(scale_at(rows, 0), given)
             ? ""
             : fmt::format("the first scale is {}, not the initial one, {}", rows[0].at("scale").dump(), given);
}

std::string ask_for_rows(suite::Adapter& adapter, const std::string& convention, const Overflows& asked,
                         std::size_t end, const std::function<std::string(const ScaleRows&)>& judge) {
  const json args{{"convention", convention},
                  {"init", asked.init},
                  {convention == "deepspeed" ? "overflow" : "found_inf", asked.found}};
  return problem_of(adapter, "scaler.trace", args, [&](const json& result) -> std::string {
    const ScaleRows rows = result.at("trace").get<ScaleRows>();
    if (std::string words = problem_of_first(rows, asked.init); !words.empty()) return words;
    for (std::size_t row = 0; row < rows.size(); ++row)
      if (const bool ends = rows[row].contains("error"); ends != (row == end))
        return fmt::format("row {}: the run {}", row, ends ? "ends" : "does not end");
    const std::size_t expected = std::min(end, asked.found.size()) + 1;
    if (rows.size() != expected)
      return fmt::format("{} rows for {} steps; expected {}", rows.size(), asked.found.size(), expected);
    return judge(rows);
  });
}

void judge_overflows(suite::Context& context, const std::string& convention,
                     const std::function<json(Random&)>& draw_init, const JudgeRows& judge, const FindEnd& end) {
  constexpr int trials = 60;
  const Property<Overflows> property{
      .draw =
          [&](Random& random) {
            return Overflows{draw_init(random), draw_overflows(context.parameters().text("overflows"), random)};
          },
      .problem =
          [&](const Overflows& asked) {
            return ask_for_rows(context.adapter(), convention, asked, end ? end(asked) : kNoEnd,
                                [&](const ScaleRows& rows) { return judge(asked, rows); });
          },
      .smaller =
          [](const Overflows& asked) {
            std::vector<Overflows> list;
            for (auto& found : smaller_overflows(asked.found)) list.push_back({asked.init, std::move(found)});
            return list;
          },
      .words = [](const Overflows& asked) { return asked.init.dump() + " " + text_of(asked.found); }};
  report_words(search(property, context.seed(), trials));
}

bool is_near(double got, double expected) {
  return got == expected || std::abs(got - expected) <= 2.4e-7 * std::abs(expected);
}

}  // namespace plumbline::conformance

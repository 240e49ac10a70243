// Overflows found in gradients, and agreed on, as adapters answer.
#include <set>

#include <fmt/format.h>

#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/support/property.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

const char* const kOverflow = "scaler.overflow";

// One rank with two parameters, of which one may have no gradient.
void found_in_gradients(Context& context, const std::string& convention) {
  const std::string& what = context.parameters().text("what");
  const std::string& dtype = context.parameters().text("dtype");
  const double large = dtype == "float16" ? 60000 : 3e38;
  json grads = json::parse("[[1.0, -2.0, 0.0], [0.5]]");
  if (what == "inf" || what == "-inf" || what == "nan") grads[0][1] = what;
  if (what == "last_nan") grads[1][0] = "nan";
  if (what == "both_infinities") grads[0] = {"inf", "-inf", 1.0};
  if (what == "large_sum") grads[0] = {large, large, large};
  if (what == "too_large") grads[0][2] = dtype == "float16" ? 70000.0 : 1e39;
  if (what == "no_gradient") grads[0] = nullptr;
  if (what == "no_elements") grads[0] = json::array();
  const std::set<std::string> finite{"finite", "large_sum", "no_gradient", "no_elements"};
  const json expected = finite.contains(what) ? json::array() : json{0};
  const json args{{"convention", convention},      {"tensor", 1},    {"pipeline", 1}, {"data", 1},
                  {"ranks", {{{"grads", grads}}}}, {"dtype", dtype}, {"over", "none"}};
  report_words(problem_of(context.adapter(), kOverflow, args, [&](const json& result) {
    return first_difference({{"local", expected}, {"overflow", expected}}, result);
  }));
}

struct OverflowWorld {
  int tensor = 1, pipeline = 1, data = 1;
  std::set<int> found;
  [[nodiscard]] int model() const { return tensor * pipeline; }
  [[nodiscard]] json question(const std::string& convention, const std::string& over) const {
    json ranks = json::array();
    for (int rank = 0; rank < model() * data; ++rank)
      ranks.push_back({{"grads", {{1.0, found.contains(rank) ? json("inf") : json(2.0)}}}});
    return {{"convention", convention}, {"tensor", tensor}, {"pipeline", pipeline}, {"data", data},
            {"ranks", ranks},           {"over", over}};
  }
};

void agreed(Context& context, const std::string& convention) {
  const std::string& over = context.parameters().text("over");
  const Property<OverflowWorld> property{
      .draw =
          [](Random& random) {
            OverflowWorld world{.tensor = random.between(1, 3),
                                .pipeline = random.between(1, 3),
                                .data = random.between(2, 3),
                                .found = {}};
            for (int i = random.between(0, 2); i > 0; --i)
              world.found.insert(random.between(0, world.model() * world.data - 1));
            return world;
          },
      .problem =
          [&](const OverflowWorld& world) {
            std::set<int> expected;
            for (int rank = 0; rank < world.model() * world.data; ++rank)
              for (const int other : world.found)
                if (over == "world" || rank == other ||
                    (over == "model" && rank / world.model() == other / world.model()))
                  expected.insert(rank);
            return problem_of(context.adapter(), kOverflow, world.question(convention, over), [&](const json& result) {
              return first_difference({{"local", world.found}, {"overflow", expected}}, result);
            });
          },
      .smaller =
          [](const OverflowWorld& world) {
            std::vector<OverflowWorld> list;
            for (const int rank : world.found) list.push_back(world), list.back().found.erase(rank);
            return list;
          },
      .words = [&](const OverflowWorld& world) { return world.question(convention, over).dump(); }};
  report_words(search(property, context.seed(), 40));
}

}  // namespace

void add_overflow_checks(suite::Suite& suite) {
  using Body = void (*)(Context&, const std::string& convention);
  const auto add = [&](const std::string& name, const char* requirement, const std::vector<suite::Axis>& axes,
                       std::vector<AskedOption> options, Body body) {
    for (const std::string convention : {"plumbline", "deepspeed"})
      suite.add({.id = fmt::format("scaler.overflow.{}{}", convention == "deepspeed" ? "deepspeed_" : "", name),
                 .verifies = {requirement},
                 .door = suite::Door::adapter,
                 .axes = axes,
                 .operations = {kOverflow},
                 .convention = convention,
                 .options = options_of(options),
                 .body = [body, convention](Context& context) { body(context, convention); }});
  };
  add("found_in_gradients", "SCALER-133@114e",
      {{"what",
        {"finite", "inf", "-inf", "nan", "last_nan", "both_infinities", "large_sum", "too_large", "no_gradient",
         "no_elements"}},
       {"dtype", {"float16", "float32"}}},
      {{kOverflow, "dtype", {}, "dtype"}}, found_in_gradients);
  add("agreed", "SCALER-134@261d", {{"over", {"none", "model", "world"}}}, {{kOverflow, "dtype", {"float32"}}}, agreed);
}

}  // namespace plumbline::conformance

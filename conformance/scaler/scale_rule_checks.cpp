// Scales with hysteresis, of Megatron-LM, ColossalAI and DeepSpeed: each rule as a sentence about a sequence of steps.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "conformance/scaler/overflows.hpp"
#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

// How a row came to be, counted from the steps alone.
struct History {
  std::int64_t clean = 0;      // clean steps in a row, this one included
  std::int64_t overflows = 0;  // since the chances were last all there, this one included
};

// ---- Megatron-LM and ColossalAI ----

json draw_hysteresis(Random& random, bool has_maximum) {
  const auto factors = random.one_of(std::vector<std::pair<double, double>>{{2, 0.5}, {3, 0.25}, {1.5, 0.3}});
  json init{{"initial_scale", random.one_of(std::vector<double>{16, 100, 65536, 0x1p32})},
            {"min_scale", random.one_of(std::vector<double>{1, 0.7, 8})},
            {"growth_factor", factors.first},
            {"backoff_factor", factors.second},
            {"growth_interval", random.between(1, 5)},
            {"hysteresis", random.between(1, 4)}};
  if (has_maximum && random.between(0, 2) > 0)
    init["max_scale"] = init["initial_scale"].get<double>() * random.one_of(std::vector<double>{1, 3, 32});
  return init;
}

// All chances are there at first, and again after the last clean step of an interval.
std::vector<History> histories(const Overflows& asked) {
  std::vector<History> all(asked.found.size() + 1);
  const auto interval = asked.init.at("growth_interval").get<std::int64_t>();
  for (std::size_t step = 1; step < all.size(); ++step) {
    const History& before = all[step - 1];
    const bool was_refilled = before.clean > 0 && before.clean % interval == 0;
    all[step].clean = asked.found[step - 1] ? 0 : before.clean + 1;
    all[step].overflows = (was_refilled ? 0 : before.overflows) + (asked.found[step - 1] ? 1 : 0);
  }
  return all;
}

std::string chances_are_spent(const Overflows& asked, const ScaleRows& rows) {
  const auto all = histories(asked);
  for (std::size_t step = 1; step < rows.size(); ++step) {
    if (!asked.found[step - 1]) continue;
    const double before = scale_at(rows, step - 1), after = scale_at(rows, step);
    const double backed_off = std::max(before * asked.init.at("backoff_factor").get<double>(),
                                       std::min(before, asked.init.at("min_scale").get<double>()));
    const bool is_spent = all[step].overflows >= asked.init.at("hysteresis").get<std::int64_t>();
    if (!is_near(after, is_spent ? backed_off : before))
      return fmt::format("step {}, overflow {} of {} chances: the scale goes from {} to {}, it should be {}", step,
                         all[step].overflows, asked.init.at("hysteresis").dump(), before, after,
                         is_spent ? backed_off : before);
  }
  return {};
}

std::string counters_are_told(const Overflows& asked, const ScaleRows& rows) {
  const auto all = histories(asked);
  const auto interval = asked.init.at("growth_interval").get<std::int64_t>();
  for (std::size_t step = 0; step < rows.size(); ++step) {
    const bool refilled = step > 0 && !asked.found[step - 1] && all[step].clean % interval == 0;
    const std::int64_t left = asked.init.at("hysteresis").get<std::int64_t>() - (refilled ? 0 : all[step].overflows);
    if (rows[step].at("growth_tracker") != all[step].clean % interval)
      return fmt::format("step {}: growth_tracker {}, it should be {}", step, rows[step].at("growth_tracker").dump(),
                         all[step].clean % interval);
    if (rows[step].at("hysteresis_tracker") != left)
      return fmt::format("step {}: hysteresis_tracker {}, it should be {}", step,
                         rows[step].at("hysteresis_tracker").dump(), left);
    const double inverse = 1 / scale_at(rows, step);
    if (!is_near(rows[step].at("inv_scale").get<double>(), inverse))
      return fmt::format("step {}: inv_scale {} of {}", step, rows[step].at("inv_scale").dump(), scale_at(rows, step));
  }
  return {};
}

std::string grows_when_an_interval_is_over(const Overflows& asked, const ScaleRows& rows) {
  const auto all = histories(asked);
  const auto interval = asked.init.at("growth_interval").get<std::int64_t>();
  for (std::size_t step = 1; step < rows.size(); ++step) {
    if (asked.found[step - 1]) continue;
    const double before = scale_at(rows, step - 1), after = scale_at(rows, step);
    const bool is_last = all[step].clean % interval == 0;
    const bool may_grow = !asked.init.contains("max_scale") || before < asked.init["max_scale"].get<double>();
    const double expected = is_last && may_grow ? before * asked.init.at("growth_factor").get<double>() : before;
    if (!is_near(after, expected))
      return fmt::format("step {}, clean step {} in a row: the scale goes from {} to {}, it should be {}", step,
                         all[step].clean, before, after, expected);
  }
  return {};
}

std::string never_below_minimum(const Overflows& asked, const ScaleRows& rows) {
  const double least = static_cast<double>(static_cast<float>(asked.init.at("min_scale").get<double>()));
  for (std::size_t step = 0; step < rows.size(); ++step)
    if (scale_at(rows, step) < least)
      return fmt::format("step {}: the scale is {}, below {}", step, scale_at(rows, step), least);
  return {};
}

std::string passes_its_maximum_once(const Overflows& asked, const ScaleRows& rows) {
  if (!asked.init.contains("max_scale")) return {};
  const double most = asked.init["max_scale"].get<double>() * asked.init.at("growth_factor").get<double>();
  for (std::size_t step = 0; step < rows.size(); ++step) {
    const double scale = scale_at(rows, step);
    if (scale > most * (1 + 1e-6))
      return fmt::format("step {}: the scale is {}, past one growth over the maximum", step, scale);
  }
  return {};
}

void hysteresis(Context& context, const std::string& convention, const JudgeRows& judge) {
  judge_overflows(
      context, convention, [&](Random& random) { return draw_hysteresis(random, convention == "colossalai"); }, judge);
}

// ---- DeepSpeed ----

json draw_deepspeed(Random& random, const std::string& minimum, const std::string& refill) {
  return {{"init_scale", random.one_of(std::vector<double>{1, 16, 100, 65536})},
          {"scale_window", random.between(1, 4)},
          {"min_scale", random.one_of(std::vector<double>{1, 4})},
          {"delayed_shift", random.between(1, 3)},
          {"consecutive_hysteresis", refill == "consecutive"},
          {"raise_error_at_min_scale", minimum == "raise"}};
}

// Of the steps up to a row: clean ones in a row, and overflows since the chances were all there.
std::vector<History> deepspeed_histories(const Overflows& asked) {
  std::vector<History> all(asked.found.size() + 1);
  const auto window = asked.init.at("scale_window").get<std::int64_t>();
  const bool is_consecutive = asked.init.at("consecutive_hysteresis").get<bool>();
  for (std::size_t step = 1; step < all.size(); ++step) {
    const History& before = all[step - 1];
    const bool has_grown = before.clean > 1 && (before.clean - 1) % window == 0;
    const bool was_refilled = has_grown || (is_consecutive && before.clean > 0);
    all[step].clean = asked.found[step - 1] ? 0 : before.clean + 1;
    all[step].overflows = (was_refilled ? 0 : before.overflows) + (asked.found[step - 1] ? 1 : 0);
  }
  return all;
}

std::string window_counts_from_the_second(const Overflows& asked, const ScaleRows& rows) {
  const auto all = deepspeed_histories(asked);
  const auto window = asked.init.at("scale_window").get<std::int64_t>();
  for (std::size_t step = 1; step < rows.size(); ++step) {
    if (asked.found[step - 1]) continue;
    const bool grows = all[step].clean > 1 && (all[step].clean - 1) % window == 0;
    const double before = scale_at(rows, step - 1), expected = grows ? before * 2 : before;
    if (scale_at(rows, step) != expected)
      return fmt::format(
          "step {}, clean step {} in a row with window {}: the scale goes from {} to {}, it should be {}", step,
          all[step].clean, window, before, scale_at(rows, step), expected);
  }
  return {};
}

std::string last_chance_is_kept(const Overflows& asked, const ScaleRows& rows) {
  const auto all = deepspeed_histories(asked);
  for (std::size_t step = 1; step < rows.size(); ++step) {
    if (!asked.found[step - 1] || rows[step].contains("error")) continue;
    const double before = scale_at(rows, step - 1);
    const double halved = std::max(before / 2, asked.init.at("min_scale").get<double>());
    const bool is_last = all[step].overflows >= asked.init.at("delayed_shift").get<std::int64_t>();
    if (scale_at(rows, step) != (is_last ? halved : before))
      return fmt::format("step {}, overflow {} of {} chances: the scale goes from {} to {}, it should be {}", step,
                         all[step].overflows, asked.init.at("delayed_shift").dump(), before, scale_at(rows, step),
                         is_last ? halved : before);
  }
  return {};
}

// The first row with an overflow at the smallest scale and without a chance left, where that ends a run.
std::size_t deepspeed_end(const Overflows& asked) {
  if (!asked.init.at("raise_error_at_min_scale").get<bool>()) return kNoEnd;
  const auto all = deepspeed_histories(asked);
  const auto window = asked.init.at("scale_window").get<std::int64_t>();
  const auto least = asked.init.at("min_scale").get<double>();
  double scale = asked.init.at("init_scale").get<double>();
  for (std::size_t step = 1; step < all.size(); ++step) {
    const bool is_last = all[step].overflows >= asked.init.at("delayed_shift").get<std::int64_t>();
    if (asked.found[step - 1] && is_last && scale == least) return step;
    if (asked.found[step - 1] && is_last) scale = std::max(scale / 2, least);
    if (all[step].clean > 1 && (all[step].clean - 1) % window == 0) scale *= 2;
  }
  return kNoEnd;
}

std::string stops_at_the_minimum(const Overflows& asked, const ScaleRows& rows) {
  const auto least = asked.init.at("min_scale").get<double>();
  for (std::size_t step = 0; step < rows.size(); ++step) {
    // It may begin below, and is lifted to it by the first overflow that lowers it.
    if (scale_at(rows, step) < std::min(least, scale_at(rows, 0)))
      return fmt::format("step {}: the scale is {}", step, scale_at(rows, step));
    if (rows[step].contains("error") && scale_at(rows, step) != scale_at(rows, step - 1))
      return fmt::format("step {} ends the run and changes the scale from {} to {}", step, scale_at(rows, step - 1),
                         scale_at(rows, step));
  }
  return {};
}

void deepspeed(Context& context, const JudgeRows& judge) {
  const auto& parameters = context.parameters();
  judge_overflows(
      context, "deepspeed",
      [&](Random& random) {
        return draw_deepspeed(random, parameters.has("minimum") ? parameters.text("minimum") : "hold",
                              parameters.has("refill") ? parameters.text("refill") : "growth");
      },
      judge, deepspeed_end);
}

// The optimizer's own update unscales with the scale that it has just changed.
void unscales_with_the_new_scale(Context& context) {
  const std::string window = context.parameters().text("window");
  const json args{{"convention", "deepspeed"},
                  {"scaler", "FP16_Optimizer._update_scale"},
                  {"init",
                   {{"profile", context.parameters().text("profile")},
                    {"args", {{"init_scale", 64.0}, {"scale_window", std::stoi(window)}, {"min_scale", 2.0}}},
                    {"static", nullptr}}},
                  {"overflow", {false, false, false, true, false, false, false, false, true}}};
  report_words(problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
    const auto rows = result.at("trace").get<ScaleRows>();
    if (std::string words = problem_of_first(rows, args.at("init").at("args")); !words.empty()) return words;
    if (const std::size_t expected = args.at("overflow").size() + 1; rows.size() != expected)
      return fmt::format("{} rows; expected {}", rows.size(), expected);
    for (std::size_t step = 1; step < rows.size(); ++step) {
      if (args.at("overflow").at(step - 1).get<bool>()) {
        if (rows[step].contains("gradient_one_unscaled")) return fmt::format("step {} overflows, and unscales", step);
        continue;
      }
      const double expected = scale_at(rows, step - 1) / scale_at(rows, step);
      if (rows[step].at("gradient_one_unscaled") != expected)
        return fmt::format("step {}: a gradient of 1 becomes {}, from scale {} to {}", step,
                           rows[step].at("gradient_one_unscaled").dump(), scale_at(rows, step - 1),
                           scale_at(rows, step));
    }
    return {};
  }));
}

// ---- what never changes, and what is refused ----

void constant_stays(Context& context, const std::string& convention) {
  const double scale = std::stod(context.parameters().text("scale"));
  json args{{"convention", convention}, {"init", {{"initial_scale", scale}}}};
  args["found_inf"] = {true, false, true, true, false, false, false};
  if (convention == "deepspeed") {
    args = {{"convention", convention},
            {"scaler", "FP16_Optimizer._update_scale"},
            {"init", {{"profile", "FUSED"}, {"args", nullptr}, {"static", scale}}},
            {"overflow", args["found_inf"]}};
  }
  report_words(problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
    const auto rows = result.at("trace").get<ScaleRows>();
    if (rows.size() != 8) return fmt::format("{} rows for 7 steps", rows.size());
    for (std::size_t step = 0; step < rows.size(); ++step)
      if (scale_at(rows, step) != scale)
        return fmt::format("step {}: a constant scale of {} is {}", step, scale, scale_at(rows, step));
    return {};
  }));
}

void rule_is_refused(Context& context, const std::string& convention) {
  const std::string what = context.parameters().text("what");
  json init{{"initial_scale", 16.0}, {"min_scale", 1.0},     {"growth_factor", 2.0},
            {"backoff_factor", 0.5}, {"growth_interval", 3}, {"hysteresis", 2}};
  if (convention == "deepspeed")
    // All that DeepSpeed's constructor demands: what lacks one of them is refused whatever else it says.
    init = {{"init_scale", 16.0},
            {"min_scale", 1.0},
            {"scale_window", 3},
            {"delayed_shift", 2},
            {"consecutive_hysteresis", false}};
  const bool is_ours = convention == "deepspeed";
  const std::vector<std::pair<std::string, std::pair<const char*, json>>> changes{
      {"scale_zero", {is_ours ? "init_scale" : "initial_scale", 0.0}},
      {"scale_infinite", {is_ours ? "init_scale" : "initial_scale", "inf"}},
      {"scale_nan", {is_ours ? "init_scale" : "initial_scale", "nan"}},
      {"scale_negative", {is_ours ? "init_scale" : "initial_scale", -16.0}},
      {"minimum_negative", {"min_scale", -1.0}},
      {"minimum_nan", {"min_scale", "nan"}},
      {"minimum_infinite", {"min_scale", "inf"}},
      {"growth_half", {"growth_factor", 0.5}},
      {"growth_negative", {"growth_factor", -2.0}},
      {"backoff_two", {"backoff_factor", 2.0}},
      {"backoff_negative", {"backoff_factor", -0.5}},
      {"interval_negative", {is_ours ? "scale_window" : "growth_interval", -3}},
      {"negative_chances", {is_ours ? "delayed_shift" : "hysteresis", -2}},
      {"minimum_zero", {"min_scale", 0.0}},
      {"minimum_above", {"min_scale", 17.0}},
      {"growth_one", {"growth_factor", 1.0}},
      {"backoff_one", {"backoff_factor", 1.0}},
      {"backoff_zero", {"backoff_factor", 0.0}},
      {"interval_zero", {is_ours ? "scale_window" : "growth_interval", 0}},
      {"no_chances", {is_ours ? "delayed_shift" : "hysteresis", 0}},
      {"maximum_below", {"max_scale", 8.0}},
      {"maximum_one", {"max_scale", 1.0}},
      {"maximum_one_and_a_half", {"max_scale", 1.5}},
      {"unknown_field", {"growth", 2.0}},
      {"factor_one", {"scale_factor", 1.0}},
      {"factor_half", {"scale_factor", 0.5}},
      {"factor_negative", {"scale_factor", -2.0}},
      {"factor_infinite", {"scale_factor", "inf"}},
  };
  for (const auto& [name, change] : changes)
    if (name == what) init[change.first] = change.second;
  if (what.starts_with("maximum_one")) init["initial_scale"] = 0.5, init["min_scale"] = 0.25;
  const json args{{"convention", convention}, {"init", init}, {is_ours ? "overflow" : "found_inf", {true}}};
  if (what == "maximum_one_and_a_half")
    report_words(problem_of(context.adapter(), kTrace, args, [](const json& result) {
      return first_difference(json(2), json(result.at("trace").size()), "rows");
    }));
  else if (what == "nothing")
    report_words(problem_of_control(context.adapter(), kTrace, args));
  else
    report_words(problem_of_refusal(context.adapter(), kTrace, args));
}

// What looks like a rule, and is none where the scale is kept in 32 bits.
void bound_is_refused(Context& context, const std::string& convention) {
  const std::string what = context.parameters().text("what");
  json init{{"initial_scale", 16.0}, {"min_scale", 1.0},     {"growth_factor", 2.0},
            {"backoff_factor", 0.5}, {"growth_interval", 3}, {"hysteresis", 2}};
  const std::vector<std::pair<std::string, std::pair<const char*, json>>> changes{
      {"minimum_vanishes", {"min_scale", 1e-60}},    {"scale_infinite", {"initial_scale", "inf"}},
      {"scale_overflows", {"initial_scale", 1e39}},  {"growth_vanishes", {"growth_factor", 1 + 0x1p-40}},
      {"growth_overflows", {"growth_factor", 1e39}}, {"backoff_vanishes", {"backoff_factor", 1 - 0x1p-40}},
      {"maximum_infinite", {"max_scale", "inf"}},    {"maximum_nan", {"max_scale", "nan"}},
      {"maximum_overflows", {"max_scale", 1e39}},
  };
  for (const auto& [name, change] : changes)
    if (name == what) init[change.first] = change.second;
  const json args{{"convention", convention}, {"init", init}, {"found_inf", {true}}};
  if (what == "nothing")
    report_words(problem_of_control(context.adapter(), kTrace, args));
  else
    report_words(problem_of_refusal(context.adapter(), kTrace, args));
}

}  // namespace

void add_scale_rule_checks(suite::Suite& suite) {
  const suite::Axis overflows{"overflows", {"none", "few", "many", "all"}};
  const auto add = [&](const std::string& convention, const char* name, const char* requirement,
                       std::vector<suite::Axis> axes, std::function<void(Context&)> body) {
    // FP16_Optimizer has a constant scale, and unscales.
    const bool is_fused =
        name == std::string_view("constant_stays") || name == std::string_view("unscales_with_the_new_scale");
    suite.add(
        {.id = "scaler." + convention + "." + name,
         .verifies = {requirement},
         .door = Door::adapter,
         .axes = std::move(axes),
         .operations = {kTrace},
         .convention = convention,
         .options =
             convention != "deepspeed"
                 ? OptionsOfCase()
                 : options_of({{kTrace, "scaler", {is_fused ? "FP16_Optimizer._update_scale" : "DynamicLossScaler"}}}),
         .body = std::move(body)});
  };
  for (const std::string convention : {"deepspeed", "megatron", "colossalai"})
    add(convention, "constant_stays", "SCALER-035@cbec", {{"scale", {"1", "128", "0.5"}}},
        [convention](Context& context) { constant_stays(context, convention); });
  add("deepspeed", "rule_is_refused", "SCALER-113@8007",
      {{"what",
        {"nothing", "scale_zero", "scale_negative", "scale_infinite", "scale_nan", "minimum_zero", "minimum_negative",
         "minimum_nan", "minimum_infinite", "interval_zero", "interval_negative", "no_chances", "negative_chances",
         "unknown_field"}}},
      [](Context& context) { rule_is_refused(context, "deepspeed"); });
  add("deepspeed", "factor_is_refused", "SCALER-119@26be",
      {{"what", {"nothing", "factor_one", "factor_half", "factor_negative", "factor_infinite"}}},
      [](Context& context) { rule_is_refused(context, "deepspeed"); });
  std::vector<std::string> wrong{"nothing",       "scale_zero",    "scale_nan",   "minimum_zero",
                                 "growth_one",    "interval_zero", "no_chances",  "unknown_field",
                                 "minimum_above", "backoff_one",   "backoff_zero"};
  wrong.insert(wrong.end(), {"scale_negative", "minimum_negative", "minimum_nan", "growth_half", "growth_negative",
                             "backoff_two", "backoff_negative", "interval_negative", "negative_chances"});
  for (const std::string convention : {"megatron", "colossalai"}) {
    if (convention == "colossalai")
      wrong.insert(wrong.end(), {"maximum_below", "maximum_one", "maximum_one_and_a_half"});
    add(convention, "rule_is_refused", "SCALER-036@757a", {{"what", wrong}},
        [convention](Context& context) { rule_is_refused(context, convention); });
  }
  std::vector<std::string> none{"nothing",         "minimum_vanishes", "scale_infinite",  "scale_overflows",
                                "growth_vanishes", "growth_overflows", "backoff_vanishes"};
  for (const std::string convention : {"megatron", "colossalai"}) {
    if (convention == "colossalai") none.insert(none.end(), {"maximum_infinite", "maximum_nan", "maximum_overflows"});
    add(convention, "bound_is_refused", "SCALER-111@1146", {{"what", none}},
        [convention](Context& context) { bound_is_refused(context, convention); });
  }
  for (const std::string convention : {"megatron", "colossalai"}) {
    const auto add_judge = [&](const char* name, const char* requirement,
                               std::string (*judge)(const Overflows&, const ScaleRows&)) {
      add(convention, name, requirement, {overflows},
          [convention, judge](Context& context) { hysteresis(context, convention, judge); });
    };
    add_judge("chances_are_spent", "SCALER-020@0a67", chances_are_spent);
    add_judge("counters_are_told", "SCALER-021@1bc2", counters_are_told);
    add_judge("grows_when_an_interval_is_over", "SCALER-022@b415", grows_when_an_interval_is_over);
    add_judge("never_below_minimum", "SCALER-023@3c62", never_below_minimum);
    if (convention == "colossalai") add_judge("passes_its_maximum_once", "SCALER-024@eb1b", passes_its_maximum_once);
  }
  const suite::Axis refill{"refill", {"growth", "consecutive"}};
  const auto add_deepspeed = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes,
                                 std::string (*judge)(const Overflows&, const ScaleRows&)) {
    add("deepspeed", name, requirement, std::move(axes), [judge](Context& context) { deepspeed(context, judge); });
  };
  add_deepspeed("window_counts_from_the_second", "SCALER-030@a852", {refill, overflows}, window_counts_from_the_second);
  add_deepspeed("last_chance_is_kept", "SCALER-031@15fb", {refill, overflows}, last_chance_is_kept);
  add_deepspeed("stops_at_the_minimum", "SCALER-032@f278", {{"minimum", {"hold", "raise"}}, refill, overflows},
                stops_at_the_minimum);
  add("deepspeed", "unscales_with_the_new_scale", "SCALER-033@ef72",
      {{"profile", {"FUSED", "UNFUSED"}}, {"window", {"1", "2", "100"}}}, unscales_with_the_new_scale);
}

}  // namespace plumbline::conformance

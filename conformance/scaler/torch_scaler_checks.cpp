// PyTorch's scaler: what each call does to scale, gradients and parameters, on sequences of steps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

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

// Operations of steps, and which row is what.
struct Calls {
  json ops = json::array({json::array({"scale", {1.0}})});
  std::vector<std::size_t> updates;  // rows after each step

  void add(json op) { ops.push_back(std::move(op)); }
  void update() {
    updates.push_back(ops.size());
    add({"update"});
  }
};

json question(json init, const Calls& calls, const std::vector<std::vector<int>>& sizes = {{2}}) {
  return {{"init", std::move(init)}, {"dtype", "float32"}, {"sizes", sizes}, {"lr", 0.5}, {"ops", calls.ops}};
}

json gradient(int optimizer, bool is_bad) {
  return json::array({"grads", optimizer, json::array({json::array({4.0, is_bad ? json("inf") : json(8.0)})})});
}

// The scale and counter before the first step and after each.
ScaleRows rows_of(const json& result, const Calls& calls) {
  const json& results = result.at("results");
  ScaleRows rows{results.at(0)};
  for (const std::size_t update : calls.updates) {
    rows.push_back(results.at(update));
    if (rows.back().contains("error")) throw std::out_of_range("an update is refused");
  }
  return rows;
}

json draw_torch(Random& random) {
  const auto factors = random.one_of(std::vector<std::pair<double, double>>{{2, 0.5}, {3, 0.25}, {1.5, 0.75}});
  return {{"init_scale", random.one_of(std::vector<double>{8, 300, 65536})},
          {"growth_factor", factors.first},
          {"backoff_factor", factors.second},
          {"growth_interval", random.between(1, 5)}};
}

Calls calls_of(const std::vector<bool>& found) {
  Calls calls;
  for (const bool one : found) {
    calls.add(gradient(0, one));
    calls.add({"step", 0});
    calls.update();
  }
  return calls;
}

using JudgeSteps = std::string (*)(const Overflows&, const ScaleRows&);

template <JudgeSteps judge>
std::string problem_of_steps(const Overflows& asked, const ScaleRows& rows) {
  std::string words = problem_of_first(rows, asked.init);
  return words.empty() ? judge(asked, rows) : words;
}

template <JudgeSteps judge>
void steps(Context& context) {
  constexpr int trials = 40;
  const Property<Overflows> property{
      .draw =
          [&](Random& random) {
            return Overflows{draw_torch(random), draw_overflows(context.parameters().text("overflows"), random)};
          },
      .problem =
          [&](const Overflows& asked) {
            const Calls calls = calls_of(asked.found);
            return problem_of(context.adapter(), kTrace, question(asked.init, calls), [&](const json& result) {
              return problem_of_steps<judge>(asked, rows_of(result, calls));
            });
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

std::string overflow_backs_off(const Overflows& asked, const ScaleRows& rows) {
  for (std::size_t step = 1; step < rows.size(); ++step) {
    if (!asked.found[step - 1]) continue;
    const double expected = scale_at(rows, step - 1) * asked.init.at("backoff_factor").get<double>();
    if (!is_near(scale_at(rows, step), expected))
      return fmt::format("step {} overflows: the scale goes from {} to {}, it should be {}", step,
                         scale_at(rows, step - 1), scale_at(rows, step), expected);
    if (rows[step].at("growth_tracker") != 0)
      return fmt::format("step {} overflows: growth_tracker is {}", step, rows[step].at("growth_tracker").dump());
  }
  return {};
}

std::string interval_grows(const Overflows& asked, const ScaleRows& rows) {
  const auto interval = asked.init.at("growth_interval").get<std::int64_t>();
  std::int64_t clean = 0;  // in a row
  for (std::size_t step = 1; step < rows.size(); ++step) {
    clean = asked.found[step - 1] ? 0 : clean + 1;
    if (clean == 0) continue;
    const double before = scale_at(rows, step - 1);
    const double expected = clean % interval == 0 ? before * asked.init.at("growth_factor").get<double>() : before;
    if (!is_near(scale_at(rows, step), expected))
      return fmt::format("clean step {} in a row, interval {}: the scale goes from {} to {}, it should be {}", clean,
                         interval, before, scale_at(rows, step), expected);
    if (rows[step].at("growth_tracker") != clean % interval)
      return fmt::format("clean step {} in a row, interval {}: growth_tracker is {}", clean, interval,
                         rows[step].at("growth_tracker").dump());
  }
  return {};
}

// ---- the ends of the range ----

void ends_of_the_range(Context& context) {
  const std::string end = context.parameters().text("end");
  const double first = end == "largest" ? 0x1p126 : end == "smallest" ? 0x1p-147 : 16;
  const bool overflows = end == "smallest";
  const Calls calls = calls_of(std::vector<bool>(5, overflows));
  const json init{{"init_scale", first}, {"growth_interval", 1}};
  report_words(problem_of(context.adapter(), kTrace, question(init, calls), [&](const json& result) {
    const ScaleRows rows = rows_of(result, calls);
    double expected = first;
    for (std::size_t step = 1; step < rows.size(); ++step) {
      // Nothing keeps it above 0; a growth that 32 bits cannot hold is not made.
      if (overflows || expected < 0x1p127)
        expected = static_cast<double>(static_cast<float>(expected * (overflows ? 0.5 : 2)));
      if (rows[step].at("scale") != expected)
        return fmt::format("from {}, step {}: the scale is {}, it should be {}", first, step,
                           rows[step].at("scale").dump(), expected);
      if (rows[step].at("growth_tracker") != 0)
        return fmt::format("from {}, step {}: growth_tracker is {}", first, step,
                           rows[step].at("growth_tracker").dump());
    }
    return std::string();
  }));
}

// ---- several optimizers ----

void each_for_itself(Context& context) {
  const int count = static_cast<int>(context.parameters().number("optimizers"));
  for (int pattern = 0; pattern < 1 << count; ++pattern) {
    const auto is_bad = [&](int optimizer) { return (pattern >> optimizer & 1) != 0; };
    Calls calls;
    std::vector<std::size_t> rows_of_steps;
    for (int i = 0; i < count; ++i) calls.add(gradient(i, is_bad(i)));
    for (int i = 0; i < count; ++i) rows_of_steps.push_back(calls.ops.size()), calls.add({"step", i});
    calls.update();
    const json args = question({{"init_scale", 8.0}, {"growth_interval", 1}}, calls,
                               std::vector<std::vector<int>>(static_cast<std::size_t>(count), {2}));
    const std::string problem = problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
      for (int i = 0; i < count; ++i) {
        const json& row = result.at("results").at(rows_of_steps[static_cast<std::size_t>(i)]);
        if (row.at("stepped") == is_bad(i))
          return fmt::format("optimizer {}, whose gradients are {}, {}", i, is_bad(i) ? "not finite" : "finite",
                             is_bad(i) ? "steps" : "skips");
        const double first = 0.125 + i;
        const double expected = is_bad(i) ? first : first - 0.25;
        if (row.at("params").at(0).at(0) != expected)
          return fmt::format("optimizer {}: parameter {}, it should be {}", i, row.at("params").dump(), expected);
      }
      const double expected = pattern == 0 ? 16 : 4;
      const json scale = rows_of(result, calls).back().at("scale");
      return scale == expected ? "" : fmt::format("the scale becomes {}, it should be {}", scale.dump(), expected);
    });
    if (!problem.empty())
      return report_words(fmt::format("overflows {:b} of {} optimizers: {}", pattern, count, problem));
  }
}

// ---- unscaling ----

void unscaled_once(Context& context) {
  const std::string call = context.parameters().text("call");
  const bool is_bad = context.parameters().text("gradients") == "infinite";
  for (const double scale : {8.0, 3.0, 1.0, 65536.0}) {
    Calls calls;
    calls.add(json::array({"grads", 0, {{4.0, is_bad ? json("-inf") : json(10.0)}, {-6.0}}}));
    if (call != "step") calls.add({"unscale", 0});
    if (call == "unscale_clip_step") calls.add({"clip", 0, 1e9, 2.0});
    const std::size_t last = calls.ops.size();
    calls.add({"step", 0});
    calls.update();
    const json args = question({{"init_scale", scale}}, calls, {{2, 1}});
    const std::string problem = problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
      const json& row = result.at("results").at(last);
      const auto divided = [&](double value) {
        return static_cast<double>(static_cast<float>(value) * static_cast<float>(1 / scale));
      };
      const bool clipped = call == "unscale_clip_step" && is_bad;  // by an infinite norm: all others are 0
      const json expected = {{clipped ? 0.0 : divided(4), is_bad ? json(clipped ? "nan" : "-inf") : json(divided(10))},
                             {clipped ? -0.0 : divided(-6)}};
      if (row.at("grads") != expected)
        return fmt::format("gradients are {}, they should be {}", row.at("grads").dump(), expected.dump());
      return row.at("found_inf") == (is_bad ? 1.0 : 0.0) ? "" : "found_inf is " + row.at("found_inf").dump();
    });
    if (!problem.empty()) return report_words(fmt::format("scale {}: {}", scale, problem));
  }
}

// Four parameters of five elements: every place, of infinity and of NaN.
void found_anywhere(Context& context) {
  const std::string where = context.parameters().text("where"), what = context.parameters().text("what");
  constexpr std::size_t parameters = 4, elements = 5;
  const std::size_t parameter = where.starts_with("first") ? 0 : where.starts_with("middle") ? 2 : parameters - 1;
  const std::size_t element = where.ends_with("first") ? 0 : where.ends_with("middle") ? 2 : elements - 1;
  std::vector<std::vector<json>> values(parameters, std::vector<json>(elements, 1.0));
  if (what != "nothing") values[parameter][element] = what;
  Calls calls;
  calls.add(json::array({"grads", 0, values}));
  calls.add({"step", 0});
  calls.update();
  const json args = question({{"init_scale", 8.0}}, calls, {std::vector<int>(parameters, static_cast<int>(elements))});
  report_words(problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
    const json& row = result.at("results").at(2);
    const bool is_bad = what != "nothing";
    if (row.at("stepped") == is_bad)
      return fmt::format("{} in element {} of parameter {}: it {}", what, element, parameter,
                         is_bad ? "steps" : "skips");
    json before = json::array();
    for (std::size_t i = 0; i < parameters; ++i) before.push_back({0.125, 0.25, 0.375, 0.5, 0.625});
    if (is_bad && row.at("params") != before) return "a skipped step changed parameters: " + row.at("params").dump();
    return {};
  }));
}

// ---- order ----

struct OutOfOrder {
  const char* name;
  json ops;                 // the last of them is refused
  bool needs_scale = true;  // begins with a scaled loss
};

std::vector<OutOfOrder> out_of_order() {
  const json grads = gradient(0, false), unscale{"unscale", 0}, step{"step", 0}, update = json::array({"update"});
  const json none = json::array({"grads", 0, json::array({nullptr})});
  return {{"unscale_twice", {grads, unscale, unscale}},
          {"unscale_after_step", {grads, step, unscale}},
          {"step_twice", {grads, step, step}},
          {"update_alone", json::array({grads, update})},
          {"update_twice", {grads, step, update, update}},
          {"update_before_scale", json::array({update}), false},
          {"unscale_before_scale", {grads, unscale}, false},
          {"step_before_scale", {grads, step}, false},
          {"step_without_gradients", {none, step}},
          {"step_with_closure", {grads, json::array({"step", 0, "closure"})}}};
}

void refused_out_of_order(Context& context) {
  const std::string name = context.parameters().text("call");
  const auto list = out_of_order();
  const auto found = std::ranges::find(list, name, [](const OutOfOrder& one) { return std::string(one.name); });
  Calls calls;
  if (found == list.end()) {
    for (int i = 0; i < 2; ++i)
      for (const json& op :
           {gradient(0, false), json::array({"unscale", 0}), json::array({"step", 0}), json::array({"update"})})
        calls.add(op);
  } else {
    if (!found->needs_scale) calls.ops = json::array();
    for (const json& op : found->ops) calls.add(op);
  }
  const json args = question({{"init_scale", 8.0}, {"growth_interval", 2}}, calls);
  report_words(problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
    const json& rows = result.at("results");
    if (rows.size() != calls.ops.size()) return fmt::format("{} rows for {} calls", rows.size(), calls.ops.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool is_refused = rows[i].contains("error"), must = found != list.end() && i + 1 == rows.size();
      // Two clean steps are an interval.
      const double scale = found == list.end() && i + 1 == rows.size() ? 16 : 8;
      if ((found == list.end() || found->needs_scale) && rows[i].at("scale") != scale)
        return fmt::format("call {} leaves the scale at {}; expected {}", i + 1, rows[i].at("scale").dump(), scale);
      if (is_refused != must)
        return fmt::format("call {} of {}, {}: {}", i + 1, rows.size(), calls.ops[i].dump(),
                           is_refused ? "refused: " + rows[i]["error"].dump() : "accepted");
      if (!must) continue;
      if (rows[i]["error"].at("kind") != "state") return "refused as " + rows[i]["error"].dump();
      // The state stays as it was, but for the tag of an optimizer that was looked at in vain.
      for (const char* field : {"scale", "growth_tracker", "scale_created"})
        if (i > 0 && rows[i].at(field) != rows[i - 1].at(field)) return fmt::format("{} changes", field);
      for (const char* field : {"grads", "params"})
        if (i > 0 && rows[i].contains(field) && rows[i - 1].contains(field) && rows[i][field] != rows[i - 1][field])
          return fmt::format("{} change", field);
    }
    return {};
  }));
}

// ---- what is told, kept, refused, or off ----

void goes_on_from_its_state(Context& context) {
  const bool saves = context.parameters().text("saved") == "yes";
  Random random(context.seed());
  for (int trial = 0; trial < 30; ++trial) {
    const json init = draw_torch(random);
    std::vector<bool> found = draw_overflows("few", random);
    found.resize(20);
    const auto cut = static_cast<std::size_t>(random.between(1, 19));
    Calls straight = calls_of(found), resumed;
    for (std::size_t step = 0; step < found.size(); ++step) {
      if (saves && step == cut) {
        resumed.add({"save"});
        resumed.add({"load", {{"init_scale", 2.0}, {"growth_interval", 77}}});
        resumed.add(json::array({"scale", {1.0}}));
      }
      resumed.add(gradient(0, found[step]));
      resumed.add({"step", 0});
      resumed.update();
    }
    std::vector<json> last;
    for (const Calls& calls : {straight, resumed}) {
      const std::string problem = problem_of(context.adapter(), kTrace, question(init, calls), [&](const json& result) {
        json seen = json::array();
        const ScaleRows rows = rows_of(result, calls);
        for (const json& row : rows)
          seen.push_back({{"scale", row.at("scale")}, {"growth_tracker", row.at("growth_tracker")}});
        last.push_back(seen);
        std::string words = problem_of_steps<overflow_backs_off>({init, found}, rows);
        return words.empty() ? interval_grows({init, found}, rows) : words;
      });
      if (!problem.empty()) return report_words(problem);
    }
    const std::string words = first_difference(last[0], last[1], "saved after step " + std::to_string(cut));
    if (!words.empty()) return report_words(words);
  }
}

// A state with what no scaler by our rules has.
std::vector<std::pair<std::string, json>> wrong_state_fields() {
  return {{"scale", -1.0},          {"scale", "inf"},        {"scale", "nan"},          {"growth_factor", 1.0},
          {"growth_factor", "nan"}, {"backoff_factor", 0.0}, {"backoff_factor", 1.0},   {"growth_interval", 0},
          {"growth_interval", -3},  {"growth_tracker", -1},  {"backoff_factor", "nan"}, {"growth_factor", "inf"}};
}
// The last of some states that is right counts, whatever came after it: one finite step more ends its interval.
void loads_states(Context& context) {
  const json right{
      {"scale", 4.0}, {"growth_factor", 3.0}, {"backoff_factor", 0.25}, {"growth_interval", 2}, {"growth_tracker", 1}};
  json fallen = right;
  fallen["scale"] = 0.0;
  std::vector<json> states{fallen, right};
  if (context.parameters().text("state") == "wrong")
    for (const auto& [field, value] : wrong_state_fields()) {
      states.push_back(right);
      states.back()[field] = value;
    }
  Calls calls = calls_of({false});
  json args = question({{"init_scale", 8.0}}, calls);
  args["states"] = states;
  report_words(problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
    for (std::size_t i = 0; i < states.size(); ++i) {
      const json& load = result.at("loads").at(i);
      if (i < 2 && !load.is_null()) return fmt::format("{} is rejected: {}", states[i].dump(), load.dump());
      if (i >= 2 && (!load.is_object() || load.at("kind") != "invalid_argument"))
        return fmt::format("{} is not rejected: {}", states[i].dump(), load.dump());
    }
    const ScaleRows rows = rows_of(result, calls);
    if (result.at("results").at(0).at("out") != json::array({4.0})) return "a loss of 1 is not scaled by the state's 4";
    return first_difference({{"scale", 12.0}, {"growth_tracker", 0}}, rows.back(), "after a finite step");
  }));
}

void fallen_scale_is_saved(Context& context) {
  const bool saves = context.parameters().text("saved") == "yes";
  Calls calls;
  for (const bool is_bad : {true, false, false}) {
    calls.add(gradient(0, is_bad));
    calls.add({"step", 0});
    calls.update();
    if (!saves || !is_bad) continue;
    calls.add({"save"});
    calls.add({"load", {{"init_scale", 2.0}}});
    calls.add(json::array({"scale", {1.0}}));
  }
  const json args = question({{"init_scale", 0x1p-149}, {"growth_interval", 2}}, calls);
  report_words(problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
    for (const json& row : result.at("results"))
      if (row.contains("error")) return "refused: " + row["error"].dump();
    const json row = rows_of(result, calls).back();
    const json scale = row.at("scale"), tracker = row.at("growth_tracker");
    return scale == 0.0 && tracker == 0
               ? ""
               : fmt::format("a scale of 0 becomes {}, with a count of {}", scale.dump(), tracker.dump());
  }));
}

void told_scale_is_taken(Context& context) {
  const std::string told = context.parameters().text("told");
  Calls calls;
  for (int i = 0; i < 2; ++i) {
    calls.add(gradient(0, false));
    calls.add({"step", 0});
    if (i == 0) calls.update();
  }
  calls.updates.push_back(calls.ops.size());
  calls.add(told == "nothing" ? json::array({"update"}) : json::array({"update", std::stod(told)}));
  const json args = question({{"init_scale", 8.0}, {"growth_interval", 9}}, calls);
  report_words(problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
    const json row = rows_of(result, calls).back();
    const double scale = told == "nothing" ? 8 : std::stod(told);
    const int tracker = told == "nothing" ? 2 : 1;
    if (row.at("scale") != scale) return "the scale is " + row.at("scale").dump();
    return row.at("growth_tracker") == tracker
               ? ""
               : fmt::format("growth_tracker is {}, it should be {}", row.at("growth_tracker").dump(), tracker);
  }));
}

void disabled_does_nothing(Context& context) {
  const bool is_enabled = context.parameters().text("enabled") == "yes";
  Calls calls;
  for (const bool is_bad : {false, true}) {
    calls.add(gradient(0, is_bad));
    calls.add({"step", 0});
    calls.update();
  }
  // A factor that is none is looked at where the scaler is enabled.
  const json args =
      question({{"init_scale", 8.0}, {"enabled", is_enabled}, {"growth_factor", is_enabled ? 2.0 : 0.5}}, calls);
  report_words(problem_of(context.adapter(), kTrace, args, [&](const json& result) -> std::string {
    const json& rows = result.at("results");
    const double scale = is_enabled ? 8 : 1;
    if (rows.at(0).at("out") != json::array({scale})) return "a loss of 1 is scaled to " + rows.at(0).at("out").dump();
    if (rows.at(2).at("grads").at(0).at(0) != 4 / scale) return "a gradient of 4 is " + rows.at(2).at("grads").dump();
    if (rows.at(5).at("stepped") == is_enabled) return "a step with an infinity is taken wrongly";
    return rows.at(6).at("scale") == (is_enabled ? 4.0 : 1.0) ? ""
                                                              : "the scale becomes " + rows.at(6).at("scale").dump();
  }));
}

void torch_rule_is_refused(Context& context) {
  const std::string what = context.parameters().text("what");
  const std::vector<std::pair<std::string, std::pair<const char*, json>>> changes{
      {"nothing", {"growth_factor", 2.0}},
      {"growth_one", {"growth_factor", 1.0}},
      {"growth_nan", {"growth_factor", "nan"}},
      {"backoff_one", {"backoff_factor", 1.0}},
      {"backoff_zero", {"backoff_factor", 0.0}},
      {"growth_half", {"growth_factor", 0.5}},
      {"growth_negative", {"growth_factor", -2.0}},
      {"growth_infinite", {"growth_factor", "inf"}},
      {"backoff_two", {"backoff_factor", 2.0}},
      {"backoff_negative", {"backoff_factor", -0.5}},
      {"backoff_nan", {"backoff_factor", "nan"}},
      {"interval_zero", {"growth_interval", 0}},
      {"interval_negative", {"growth_interval", -3}},
      {"scale_too_small", {"init_scale", 1e-60}},
      {"scale_zero", {"init_scale", 0.0}},
      {"scale_negative", {"init_scale", -4.0}},
      {"scale_infinite", {"init_scale", "inf"}},
      {"scale_nan", {"init_scale", "nan"}},
      {"scale_too_large", {"init_scale", 1e39}},
      {"unknown_field", {"growth", 2.0}},
      {"interval_fraction", {"growth_interval", 1.5}}};
  json init{{"init_scale", 8.0}};
  for (const auto& [name, change] : changes)
    if (name == what) init[change.first] = change.second;
  const json args = question(init, calls_of({false}));
  if (what == "nothing")
    report_words(problem_of_control(context.adapter(), kTrace, args));
  else
    report_words(problem_of_refusal(context.adapter(), kTrace, args));
}

}  // namespace

void add_torch_scaler_checks(suite::Suite& suite) {
  const suite::Axis overflows{"overflows", {"none", "few", "many", "all"}};
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<std::string> fields = {}) {
    suite.add({.id = std::string("scaler.calls.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {kTrace},
               .options = options_of({{kTrace, "dtype", {"float32"}}, {kTrace, "fields", std::move(fields)}}),
               .body = body});
  };
  add("overflow_backs_off", "SCALER-001@3b1d", {overflows}, steps<overflow_backs_off>);
  add("interval_grows", "SCALER-002@96f1", {overflows}, steps<interval_grows>);
  add("ends_of_the_range", "SCALER-003@3bf3", {{"end", {"usual", "largest", "smallest"}}}, ends_of_the_range);
  add("each_for_itself", "SCALER-004@6ac8", {{"optimizers", {"1", "2", "3"}}}, each_for_itself);
  add("unscaled_once", "SCALER-005@b9be",
      {{"call", {"step", "unscale_step", "unscale_clip_step"}}, {"gradients", {"finite", "infinite"}}}, unscaled_once);
  add("found_anywhere", "SCALER-006@ba6d",
      {{"what", {"nothing", "inf", "-inf", "nan"}},
       {"where", {"first_first", "first_last", "middle_middle", "last_first", "last_last"}}},
      found_anywhere);
  std::vector<std::string> calls{"in_order"};
  for (const OutOfOrder& one : out_of_order()) calls.emplace_back(one.name);
  add("refused_out_of_order", "SCALER-007@dacb", {{"call", calls}}, refused_out_of_order);
  add("goes_on_from_its_state", "SCALER-008@04ad", {{"saved", {"no", "yes"}}}, goes_on_from_its_state);
  add("loads_states", "SCALER-127@d689", {{"state", {"right", "wrong"}}}, loads_states, {"states"});
  add("fallen_scale_is_saved", "SCALER-008@04ad", {{"saved", {"no", "yes"}}}, fallen_scale_is_saved);
  add("told_scale_is_taken", "SCALER-009@0ef9", {{"told", {"nothing", "4", "0.5", "1024"}}}, told_scale_is_taken);
  add("disabled_does_nothing", "SCALER-010@a047", {{"enabled", {"yes", "no"}}}, disabled_does_nothing);
  add("rule_is_refused", "SCALER-011@9b99",
      {{"what", {"nothing",        "growth_one",     "growth_half",       "growth_negative",   "growth_infinite",
                 "growth_nan",     "backoff_one",    "backoff_two",       "backoff_zero",      "backoff_negative",
                 "backoff_nan",    "interval_zero",  "interval_negative", "interval_fraction", "scale_zero",
                 "scale_negative", "scale_infinite", "scale_nan",         "scale_too_large",   "scale_too_small",
                 "unknown_field"}}},
      torch_rule_is_refused);
}

}  // namespace plumbline::conformance

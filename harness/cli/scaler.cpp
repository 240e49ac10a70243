// `plumbline scaler`: the loss scales of several systems side by side, and who skips when one rank finds an infinity.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/cli/arguments.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/program.hpp"
#include "harness/cli/scaler_views.hpp"
#include "harness/cli/subject_options.hpp"
#include "harness/record/file.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {
namespace {

struct ScalerCommandOptions {
  std::optional<std::string> overflows, pattern, file, names;
  std::optional<int> steps;
  scaler::DialectSettings settings;
  bool published = false, injection = false;
  scaler::InjectionWorld world;
  std::string value = "both", format = "text", out;
};

constexpr int kMostSteps = 100'000;
constexpr int kMostInjectedRanks = 16;  // threads

// "..!.": a character a step, white space left out.
std::vector<bool> pattern_steps(const std::string& option, const std::string& text) {
  std::vector<bool> found;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    if (c != '.' && c != '!')
      throw InvalidArgument(
          fmt::format("{}: step {} is '{}'; it must be . (clean) or ! (overflow)", option, found.size() + 1, c));
    found.push_back(c == '!');
  }
  if (found.empty()) throw InvalidArgument(fmt::format("{}: it has no step; there is 1 at least", option));
  return found;
}

std::vector<bool> listed_steps(const std::string& list, int steps) {
  std::vector<bool> found(static_cast<std::size_t>(steps));
  if (list.empty()) return found;
  for (const std::string& part : split(list)) {
    const int step = whole_number("--overflows", part);
    if (step < 1 || step > steps)
      throw InvalidArgument(fmt::format("--overflows: step {}; there are 1 to {}", step, steps));
    found[static_cast<std::size_t>(step - 1)] = true;
  }
  return found;
}

std::vector<bool> steps_of(const ScalerCommandOptions& options) {
  constexpr int usual = 2100;
  if (!options.pattern && !options.file)
    return listed_steps(options.overflows.value_or(""), options.steps.value_or(usual));
  std::vector<bool> found = options.pattern
                                ? pattern_steps("--pattern", *options.pattern)
                                : pattern_steps("--file " + *options.file, read_text("--file", *options.file));
  const std::size_t length = found.size();
  if (length > kMostSteps)
    throw InvalidArgument(fmt::format("{}: {} steps; there are {} at most", options.pattern ? "--pattern" : "--file",
                                      length, kMostSteps));
  found.resize(static_cast<std::size_t>(options.steps.value_or(static_cast<int>(length))));
  for (std::size_t step = length; step < found.size(); ++step) found[step] = found[step - length];
  return found;
}

// The option that a rule's field comes from, by whatever name the rule has for it.
std::string_view option_of(std::string_view message) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> options{
      {{"max_scale", "--max-scale"},
       {"min_scale", "--min-scale"},
       {"growth_interval", "--growth-interval"},
       {"hysteresis", "--hysteresis"},
       {"init", "--scale"}}};
  for (const auto& [field, option] : options)
    if (message.starts_with(field)) return option;
  return "--scale";
}

std::vector<scaler::Dialect> chosen_dialects(const ScalerCommandOptions& options) {
  std::vector<scaler::Dialect> all;
  try {
    all = options.published ? scaler::dialects_as_published() : scaler::dialects(options.settings);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{}: {}", option_of(error.what()), error.what()));
  }
  if (!options.names) return all;
  std::vector<scaler::Dialect> chosen;
  for (const std::string& name : split(*options.names)) {
    const auto at = std::ranges::find(all, name, &scaler::Dialect::name);
    if (at == all.end()) {
      std::vector<std::string> names;
      for (const scaler::Dialect& one : all) names.push_back(one.name);
      throw InvalidArgument(fmt::format("--dialects: there is no '{}'; {}", name, there_are(name, names)));
    }
    chosen.push_back(*at);
  }
  return chosen;
}

DialectView dialect_view(const ScalerCommandOptions& options) {
  const scaler::DialectSettings& given = options.settings;
  DialectView view{.settings = {}, .found_inf = steps_of(options), .runs = {}, .partings = {}};
  view.settings = options.published
                      ? "each as its system sets it"
                      : fmt::format("all with scale {:g}, growth interval {}, hysteresis {}, minimum {:g}, {}",
                                    given.scale, given.growth_interval, given.hysteresis, given.min_scale,
                                    given.max_scale ? fmt::format("maximum {:g}", *given.max_scale) : "no maximum");
  for (const scaler::Dialect& one : chosen_dialects(options))
    view.runs.push_back(scaler::run_through(one, view.found_inf));
  view.partings = scaler::partings(view.runs, view.found_inf);
  return view;
}

InjectionView injection_view(const ScalerCommandOptions& options) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> values;
  if (options.value == "inf" || options.value == "both") values.push_back(inf);
  if (options.value == "nan" || options.value == "both") values.push_back(nan);
  if (values.empty())
    throw InvalidArgument(
        fmt::format("--value: there is no '{}'; {}", options.value, there_are(options.value, {"inf", "nan", "both"})));
  const scaler::InjectionWorld& world = options.world;
  if (world.size() > kMostInjectedRanks)
    throw InvalidArgument(fmt::format("--tensor {} --pipeline {} --data {}: {} ranks; there are {} at most",
                                      world.tensor, world.pipeline, world.data, world.size(), kMostInjectedRanks));
  return {.world = world, .outcomes = scaler::inject(world, scaler::injections(world, values), kMostInjectedRanks)};
}

template <class View>
struct Writers {
  std::string (*text)(const View&);
  std::string (*json)(const View&);
  std::string (*csv)(const View&);
  std::string (*svg)(const View&);
  [[nodiscard]] std::string operator()(const std::string& format, const View& view) const {
    return (format == "svg" ? svg : format == "csv" ? csv : format == "json" ? json : text)(view);
  }
};

int run_scaler(const ScalerCommandOptions& options) {
  if (options.format != "text" && options.format != "json" && options.format != "csv" && options.format != "svg")
    throw InvalidArgument(fmt::format("--format: there is no '{}'; {}", options.format,
                                      there_are(options.format, {"text", "json", "csv", "svg"})));
  const Writers<DialectView> of_dialects{dialects_text, dialects_json, dialects_csv, dialects_svg};
  const Writers<InjectionView> of_injections{injections_text, injections_json, injections_csv, injections_svg};
  const std::string text = options.injection ? of_injections(options.format, injection_view(options))
                                             : of_dialects(options.format, dialect_view(options));
  if (options.out.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  const auto file = output_file(options.out, options.format == "text" ? "scaler.txt" : "scaler." + options.format,
                                {{"--file", options.file.value_or("")}});
  record::write_file(file, text);
  fmt::print("written: {}\n", file.string());
  return 0;
}

// Throws for anything that is no number; which ones make sense, the rules know.
CLI::Validator a_number() {
  return CLI::Validator(
      [](const std::string& text) {
        std::size_t used = 0;
        try {
          (void)std::stod(text, &used);
        } catch (const std::exception&) {
        }
        return used > 0 && used == text.size() ? std::string() : fmt::format("'{}' is not a number", text);
      },
      "NUMBER");
}

void add_dialect_options(CLI::App& command, ScalerCommandOptions& options, CLI::Option* injection) {
  const auto add = [&](const char* name, auto& to, const char* words) {
    return command.add_option(name, to, words)->excludes(injection);
  };
  CLI::Option* overflows =
      add("--overflows", options.overflows, "steps that overflow, counted from 1: 3,4,1000")->type_name("STEP,...");
  CLI::Option* pattern =
      add("--pattern", options.pattern, "steps as a pattern, . for finite and ! for overflow: '..!.'")
          ->type_name("PATTERN");
  CLI::Option* file = add("--file", options.file, "file that holds such a pattern")->type_name("FILE");
  overflows->excludes(pattern)->excludes(file);
  pattern->excludes(file);
  add("--steps", options.steps,
      "number of steps; a shorter pattern is repeated (default 2100, or the length of the pattern)")
      ->check(at_least(1, kMostSteps));
  CLI::Option* published = command.add_flag("--published", options.published,
                                            "give each implementation the default settings of its own system");
  published->excludes(injection);
  const std::array settings{
      add("--scale", options.settings.scale, "initial loss scale")
          ->type_name("SCALE")
          ->check(a_number())
          ->capture_default_str(),
      add("--growth-interval", options.settings.growth_interval, "finite steps before the scale grows")
          ->check(at_least(1))
          ->capture_default_str(),
      add("--hysteresis", options.settings.hysteresis,
          "overflows before the scale backs off, in implementations that have it")
          ->check(at_least(1))
          ->capture_default_str(),
      add("--min-scale", options.settings.min_scale, "minimum scale, in implementations that have one")
          ->type_name("SCALE")
          ->check(a_number())
          ->capture_default_str(),
      add("--max-scale", options.settings.max_scale, "maximum scale of ColossalAI (commit 96780e6)")
          ->type_name("SCALE")
          ->check(a_number()),
      command.add_flag("!--hold-at-minimum", options.settings.raise_at_minimum,
                       "let DeepSpeed's scaler stay at its minimum instead of raising an error")};
  for (CLI::Option* setting : settings) setting->excludes(injection)->excludes(published);
  add("--dialects", options.names, "show only these implementations: torch,deepspeed")->type_name("NAME,...");
}

}  // namespace

Command add_scaler(CLI::App& app, const Program&) {
  CLI::App* command = app.add_subcommand(
      "scaler", "Compare the loss scales of implementations, or show which ranks skip a step on overflow");
  auto options = std::make_shared<ScalerCommandOptions>();
  CLI::Option* injection =
      command->add_flag("--injection", options->injection,
                        "inject Inf and NaN into each rank at each moment of a step, and show which ranks skip it");
  add_dialect_options(*command, *options, injection);
  const auto add_size = [&](const char* name, int& to, const char* words) {
    command->add_option(name, to, words)
        ->check(at_least(1, kMostInjectedRanks))
        ->capture_default_str()
        ->needs(injection);
  };
  add_size("--tensor", options->world.tensor, "number of tensor-parallel ranks");
  add_size("--pipeline", options->world.pipeline, "number of pipeline stages");
  add_size("--data", options->world.data, "number of data-parallel replicas");
  command->add_option("--value", options->value, "injected value: inf, nan or both")
      ->type_name("inf|nan|both")
      ->capture_default_str()
      ->needs(injection);
  command->add_option("--format", options->format, "text, json, csv or svg")
      ->type_name("FORMAT")
      ->capture_default_str();
  command
      ->add_option("--out", options->out,
                   "file to write in place of standard output; in a folder scaler.txt, .json, .csv or .svg")
      ->type_name("FILE");
  group_options(*command, "Overflows", {"--overflows", "--pattern", "--file", "--steps"});
  group_options(*command, "Implementations",
                {"--dialects", "--published", "--scale", "--growth-interval", "--hysteresis", "--min-scale",
                 "--max-scale", "--hold-at-minimum"});
  group_options(*command, "Injection", {"--injection", "--tensor", "--pipeline", "--data", "--value"});
  group_options(*command, "Output", {"--format", "--out"});
  command->footer(
      "Example: plumbline scaler --overflows 3,4,1100 --steps 2200\n"
      "         plumbline scaler --injection --pipeline 3\n"
      "Exit status: 0 success; 2 usage error; 3 the output was not written.");
  return [options] { return run_scaler(*options); };
}

}  // namespace plumbline::cli

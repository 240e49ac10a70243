// `plumbline buckets`: which gradients are reduced together by a rule, and whether a plan from a file is right.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "harness/cli/arguments.hpp"
#include "harness/cli/buckets_svg.hpp"
#include "harness/cli/help.hpp"
#include "harness/cli/program.hpp"
#include "harness/record/file.hpp"
#include "harness/run/counted.hpp"
#include "reference/bucketing/check_plan.hpp"
#include "reference/bucketing/exposed.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/plan_json.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::cli {
namespace {

using bucketing::NamedGradients;
using bucketing::Plan;
using nlohmann::json;

struct BucketsOptions {
  std::string gradients, check, order, out;
  std::string rule = "torch", limits = "1MiB,25MiB", format = "text";
  // Of the distributed optimizer; "": none.
  std::string distributed_optimizer;
  std::string instances;  // of it; "": one
  bool pad_for_bandwidth = false;
  std::vector<std::string> given;  // the options that were given, and not left at what they are by default
  // Of the picture.
  std::string backward = "0.1", ranks = "8", latency = "2e-5", bandwidth = "1e10";
};

bool was_given(const BucketsOptions& options, std::string_view name) {
  return std::ranges::find(options.given, name) != options.given.end();
}

// An option that would change nothing is one that somebody misunderstands.
void refuse_without_effect(const BucketsOptions& options) {
  const auto refuse = [&](std::initializer_list<const char*> names, const std::string& words) {
    for (const char* name : names)
      if (was_given(options, name)) throw InvalidArgument(fmt::format("{}: {}", name, words));
  };
  const bool checks = !options.check.empty(), has_rule = was_given(options, "--rule");
  if (options.format != "svg") refuse({"--backward", "--ranks", "--latency", "--bandwidth"}, "only for --format svg");
  if (checks && options.format != "text") refuse({"--format"}, "the report of --check is text");
  if (options.rule != "torch" || (checks && !has_rule)) refuse({"--limits"}, "only for --rule torch");
  if (options.rule != "megatron" && !(checks && !has_rule))
    refuse({"--distributed-optimizer", "--instances", "--pad-for-bandwidth"}, "only for --rule megatron");
  if (options.distributed_optimizer.empty())
    refuse({"--instances", "--pad-for-bandwidth"}, "it needs --distributed-optimizer");
  if (options.rule == "megatron" && !checks)
    refuse({"--order"}, "--rule megatron goes from the last gradient to the first");
}

std::vector<std::int64_t> limits_of(const BucketsOptions& options) {
  std::vector<std::int64_t> limits;
  for (const std::string& limit : split(options.limits)) limits.push_back(bytes_in("--limits", limit));
  return limits;
}

json parsed(const std::string& option, const std::string& file) {
  try {
    return json::parse(read_text(option, file));
  } catch (const json::parse_error& error) {
    throw InvalidArgument(fmt::format("{} {}: not JSON from byte {} on", option, file, error.byte));
  }
}

// Errors of reading a file, after the option and the file.
template <class Read>
auto from_file(const char* option, const std::string& file, const Read& read) {
  try {
    return read();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(fmt::format("{} {}: {}", option, file, error.what()));
  } catch (const OutOfRange& error) {
    throw OutOfRange(fmt::format("{} {}: {}", option, file, error.what()));
  }
}

NamedGradients read_gradients(const BucketsOptions& options) {
  if (options.gradients.ends_with(".json")) {
    const json value = parsed("--gradients", options.gradients);
    return from_file("--gradients", options.gradients, [&] { return bucketing::gradients_of_json(value); });
  }
  const std::string text = read_text("--gradients", options.gradients);
  return from_file("--gradients", options.gradients, [&] { return bucketing::gradients_of_csv(text); });
}

NamedGradients gradients_of(const BucketsOptions& options) {
  if (options.gradients.empty())
    throw InvalidArgument("--gradients: it names no file; name,elements,dtype begins a table");
  NamedGradients named = read_gradients(options);
  if (named.gradients.empty())
    throw InvalidArgument(
        fmt::format("--gradients {}: it has no gradients; a table has a line for each after name,elements,dtype",
                    options.gradients));
  return named;
}

// The gradients as they become ready: a name a line. Empty without a file.
std::vector<int> order_of(const BucketsOptions& options, const NamedGradients& named) {
  if (options.order.empty()) return {};
  std::map<std::string_view, int> indices;
  for (std::size_t i = 0; i < named.names.size(); ++i) indices.emplace(named.names[i], static_cast<int>(i));
  std::vector<int> order;
  std::vector<bool> seen(named.names.size());
  std::istringstream lines(read_text("--order", options.order));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const auto found = indices.find(line);
    if (found == indices.end())
      throw InvalidArgument(fmt::format("--order {}: there is no gradient '{}'", options.order, line));
    if (seen[static_cast<std::size_t>(found->second)])
      throw InvalidArgument(fmt::format("--order {}: gradient '{}' comes twice", options.order, line));
    seen[static_cast<std::size_t>(found->second)] = true;
    order.push_back(found->second);
  }
  if (order.size() != named.names.size())
    throw InvalidArgument(fmt::format(
        "--order {}: it has {} of {} gradients; '{}' is missing", options.order, order.size(), named.names.size(),
        named.names[static_cast<std::size_t>(std::ranges::find(seen, false) - seen.begin())]));
  return order;
}

bucketing::MegatronOptions megatron_options(const BucketsOptions& options) {
  bucketing::MegatronOptions megatron{.bucket_elements = bucketing::megatron_default_elements(1)};
  if (options.distributed_optimizer.empty()) return megatron;
  const int instances = options.instances.empty() ? 1 : whole_number("--instances", options.instances);
  const int ranks = whole_number("--distributed-optimizer", options.distributed_optimizer);
  if (ranks < 1)
    throw InvalidArgument(fmt::format("--distributed-optimizer: {} ranks; there must be 1 or more", ranks));
  megatron.bucket_elements = bucketing::megatron_default_elements(ranks);
  megatron.distributed_optimizer = {
      .ranks = ranks, .instances = instances, .pads_for_bandwidth = options.pad_for_bandwidth, .shared_embedding = {}};
  return megatron;
}

void require_rule(const std::string& rule) {
  constexpr std::array<std::string_view, 5> kRules{"torch", "megatron", "colossalai", "flat", "unfused"};
  if (std::ranges::find(kRules, rule) == kRules.end())
    throw InvalidArgument(
        fmt::format("--rule: there is no '{}'; {}", rule, there_are(rule, {kRules.begin(), kRules.end()})));
}

bucketing::Alignment alignment_of(const BucketsOptions& options) {
  const bucketing::MegatronOptions megatron = megatron_options(options);
  if (!megatron.distributed_optimizer) return {};
  return {.member = bucketing::kMegatronParameterStart,
          .bucket = bucketing::megatron_bucket_multiple(*megatron.distributed_optimizer)};
}

Plan planned(const BucketsOptions& options, const NamedGradients& named, const std::vector<int>& order) {
  if (options.rule == "torch")
    return order.empty() ? reversed(bucketing::plan_by_size(named.gradients, limits_of(options)))
                         : bucketing::plan_by_size(named.gradients, limits_of(options), order);
  if (options.rule == "flat") return bucketing::plan_flat(named.gradients, order);
  if (options.rule == "unfused") return bucketing::plan_unfused(named.gradients, order);
  if (options.rule == "colossalai") return bucketing::plan_as_colossalai(named.gradients, order);
  return bucketing::plan_as_megatron(named.gradients, megatron_options(options));
}

// What a plan is held to beside what all are: what was asked for, and the alignment that it says itself.
bucketing::PlanRules rules_of(const BucketsOptions& options, std::size_t gradients, const std::vector<int>& order,
                              const bucketing::Alignment& of_plan) {
  const bool is_aligned = !options.distributed_optimizer.empty();
  const bucketing::Alignment alignment = is_aligned ? alignment_of(options) : of_plan;
  bucketing::PlanRules rules{.member_alignment = alignment.member, .bucket_alignment = alignment.bucket};
  if (!order.empty()) rules.ready = order;
  if (!was_given(options, "--rule")) return rules;
  const bool is_megatron = options.rule == "megatron";
  if (!is_megatron) rules.member_alignment = rules.bucket_alignment = 1;  // no other rule pads
  std::vector<int> planned = order;
  if (order.empty() || is_megatron) {
    planned.resize(gradients);
    std::iota(planned.begin(), planned.end(), 0);
  }
  if (is_megatron) {
    std::ranges::reverse(planned);  // buckets may have any size: a plan does not say which was asked for
  } else if (options.rule == "torch") {
    rules.limits = limits_of(options);
    rules.planned_in_reverse = order.empty();
  } else {
    rules.limits = {options.rule == "unfused" ? 0 : std::numeric_limits<std::int64_t>::max()};
  }
  rules.order = std::move(planned);
  return rules;
}

std::string table_of(const Plan& plan, const NamedGradients& named) {
  std::string text = fmt::format("{:>6}  {:5}  {:8}  {:>5}  {:>9}  {:>14}  {}\n", "bucket", "type", "device", "group",
                                 "gradients", "bytes", "from .. to");
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const bucketing::Bucket& bucket = plan.buckets[i];
    const auto members = plan.members_of(bucket);
    const auto name = [&](const bucketing::Member& member) {
      return named.names[static_cast<std::size_t>(member.gradient)];
    };
    const std::string ends = members.empty()       ? ""
                             : members.size() == 1 ? name(members.front())
                                                   : name(members.front()) + " .. " + name(members.back());
    text += fmt::format("{:>6}  {:5}  {:8}  {:>5}  {:>9}  {:>14}  {}\n", i,
                        bucketing::name_of(bucketing::ElementType{bucket.dtype, bucket.components_per_element}),
                        comm::name_of(bucket.device), bucket.group, bucket.members, bucket.bytes(), ends);
    bytes += bucket.bytes();
  }
  return text + fmt::format("{} of {}, {}, in the order of their launches\n",
                            run::counted(plan.buckets.size(), "bucket"), run::counted(plan.members.size(), "gradient"),
                            run::counted(bytes, "byte"));
}

double at_least(const char* option, const std::string& text, double least) {
  const double value = number(option, text);
  if (value < least) throw InvalidArgument(fmt::format("{}: {} is below {}", option, text, least));
  return value;
}

std::string picture_of(const BucketsOptions& options, const Plan& plan, const NamedGradients& named,
                       const std::vector<int>& order) {
  const double seconds = at_least("--backward", options.backward, 0);
  if (seconds == 0) throw InvalidArgument("--backward: 0 seconds have no picture; it must be above 0");
  const int ranks = whole_number("--ranks", options.ranks);
  if (ranks < 1) throw InvalidArgument(fmt::format("--ranks: {} is below 1", ranks));
  const bucketing::Link link{.ranks = ranks,
                             .latency = at_least("--latency", options.latency, 0),
                             .bandwidth = at_least("--bandwidth", options.bandwidth, 0)};
  const std::vector<double> ready = bucketing::ready_evenly(named.gradients, seconds, order);
  return buckets_svg(plan, named, {.ready = ready, .seconds = seconds},
                     bucketing::exposed_communication(plan, ready, seconds, link));
}

void write(const BucketsOptions& options, const std::string& text) {
  if (options.out.empty()) {
    fmt::print("{}", text);
    return;
  }
  const auto file =
      output_file(options.out, options.format == "text" ? "buckets.txt" : "buckets." + options.format,
                  {{"--gradients", options.gradients}, {"--check", options.check}, {"--order", options.order}});
  record::write_file(file, text);
  fmt::print("written: {}\n", file.string());
}

// After a message that has its number, where it has a name of its own.
std::string name_of_gradient(const NamedGradients& named, int gradient) {
  if (gradient < 0 || static_cast<std::size_t>(gradient) >= named.names.size()) return {};
  const std::string& name = named.names[static_cast<std::size_t>(gradient)];
  return name == fmt::format("gradient {}", gradient) ? std::string() : fmt::format(" ('{}')", name);
}

int checked(const BucketsOptions& options, const NamedGradients& named, const std::vector<int>& order) {
  const json value = parsed("--check", options.check);
  const auto [plan, form] =
      from_file("--check", options.check, [&] { return bucketing::plan_of_any_form(value, named); });
  const bucketing::Alignment of_plan =
      from_file("--check", options.check, [&] { return bucketing::alignment_of_json(value); });
  const bucketing::PlanRules rules = rules_of(options, named.gradients.size(), order, of_plan);
  const auto problems = bucketing::check_plan(plan, named.gradients, rules);
  const bool is_right = bucketing::is_right(problems);
  std::string text;
  for (const bucketing::PlanProblem& problem : problems) {
    text += fmt::format("{}: {}: {}{}\n", problem.severity == bucketing::Severity::error ? "error" : "warning",
                        bucketing::name_of(problem.fault), problem.message, name_of_gradient(named, problem.gradient));
  }
  const bool is_padded = rules.member_alignment > 1 || rules.bucket_alignment > 1;
  const bool has_gap = std::ranges::count(problems, bucketing::PlanFault::gap, &bucketing::PlanProblem::fault) > 0;
  if (has_gap && !is_padded) text += "padding is reported as a gap unless --distributed-optimizer N explains it\n";
  const std::string held = is_padded ? fmt::format("members at multiples of {} elements, buckets of multiples of {}, ",
                                                   rules.member_alignment, rules.bucket_alignment)
                                     : std::string();
  write(options, text + fmt::format("{}: {}{}: {}, {}, {}{}\n", is_right ? "OK" : "NOT OK", options.check,
                                    form.empty() ? "" : ", " + form, run::counted(plan.buckets.size(), "bucket"),
                                    run::counted(named.gradients.size(), "gradient"), held,
                                    run::counted(problems.size(), "problem")));
  return is_right ? 0 : 1;
}

int run_buckets(const BucketsOptions& options) {
  if (options.format != "text" && options.format != "json" && options.format != "svg")
    throw InvalidArgument(fmt::format("--format: there is no '{}'; {}", options.format,
                                      there_are(options.format, {"text", "json", "svg"})));
  require_rule(options.rule);
  refuse_without_effect(options);
  (void)limits_of(options);
  (void)alignment_of(options);
  const NamedGradients named = gradients_of(options);
  const std::vector<int> order = order_of(options, named);
  if (!options.check.empty()) return checked(options, named, order);
  const Plan plan = planned(options, named, order);
  write(options, options.format == "json"  ? bucketing::json_of(plan, alignment_of(options)).dump() + '\n'
                 : options.format == "svg" ? picture_of(options, plan, named, order)
                                           : table_of(plan, named));
  return 0;
}

}  // namespace

Command add_buckets(CLI::App& app, const Program&) {
  CLI::App* command =
      app.add_subcommand("buckets", "Show which gradients each bucketing rule reduces together; check a bucket plan");
  auto options = std::make_shared<BucketsOptions>();
  command
      ->add_option("--gradients", options->gradients,
                   "gradients in registration order: CSV with columns name, elements, dtype, device, group, sparse, or "
                   "the same as JSON")
      ->type_name("FILE");
  command
      ->add_option("--rule", options->rule,
                   "rule by which gradients are bucketed: torch, megatron, colossalai (commit 96780e6), flat or "
                   "unfused; with --check, the rule that the plan must follow")
      ->type_name("RULE")
      ->capture_default_str();
  command
      ->add_option("--limits", options->limits,
                   "bucket sizes of rule torch, the last for all further buckets: 100, 64KiB, 25MiB")
      ->type_name("SIZE,...")
      ->capture_default_str();
  command
      ->add_option("--check", options->check,
                   "check that the plan in this file covers each gradient exactly once, without overlap: Plumbline's "
                   "JSON, Megatron-core's layout, DDP's logging data or Paddle's groups")
      ->type_name("FILE");
  command
      ->add_option("--order", options->order,
                   "names of all gradients in the order in which a backward pass produces them, one per line; with "
                   "--check, warn of buckets that wait for others")
      ->type_name("FILE");
  command
      ->add_option(
          "--distributed-optimizer", options->distributed_optimizer,
          "pad buckets of rule megatron for a distributed optimizer of N ranks; with --check, require it of the plan")
      ->type_name("N");
  command
      ->add_option("--instances", options->instances,
                   "number of instances of the distributed optimizer, each with the complete state (default 1)")
      ->type_name("N");
  command->add_flag("--pad-for-bandwidth", options->pad_for_bandwidth,
                    "also pad buckets for the highest NCCL bus bandwidth");
  command
      ->add_option("--format", options->format,
                   "text, json, or svg (the buckets over a backward pass, with predicted reductions)")
      ->type_name("FORMAT")
      ->capture_default_str();
  command->add_option("--backward", options->backward, "duration of the backward pass in the picture")
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, "number of ranks in the picture")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--latency", options->latency, "latency of a message in the picture")
      ->type_name("SECONDS")
      ->capture_default_str();
  command->add_option("--bandwidth", options->bandwidth, "bandwidth in the picture in bytes per second; 0 is infinite")
      ->type_name("BYTES")
      ->capture_default_str();
  command
      ->add_option("--out", options->out,
                   "file to write in place of standard output; in a folder buckets.txt, .json or .svg")
      ->type_name("FILE");
  group_options(*command, "Buckets",
                {"--gradients", "--rule", "--limits", "--distributed-optimizer", "--instances", "--pad-for-bandwidth"});
  group_options(*command, "Plan from a file", {"--check", "--order"});
  group_options(*command, "Picture", {"--backward", "--ranks", "--latency", "--bandwidth"});
  group_options(*command, "Output", {"--format", "--out"});
  command->footer(
      "Example: plumbline buckets --gradients gradients.csv --rule torch --limits 1MiB,25MiB\n"
      "         plumbline buckets --gradients gradients.csv --rule torch --check plan.json\n"
      "Gradients are a CSV with a header; elements is the element count, dtype f32 or float32, and device,\n"
      "group and sparse may be missing. JSON is a list of objects with these fields. Plans are described in\n"
      "share/doc/plumbline/reference/bucketing/README.md of the installation.\n"
      "  name,elements,dtype\n"
      "  layer1.weight,4096,f32\n"
      "  layer1.bias,64,f32\n"
      "Exit status: 0 success; 1 the checked plan is not valid; 2 usage error; 3 the output failed.");
  return [options, command] {
    for (const CLI::Option* option : command->get_options())
      if (option->count() > 0) options->given.push_back(option->get_name());
    return run_buckets(*options);
  };
}

}  // namespace plumbline::cli

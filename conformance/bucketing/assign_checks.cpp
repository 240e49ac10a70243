// Which gradients are reduced together: PyTorch's rule, property by property, and as recorded.
#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/bucketing/question.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/recorded.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

const char* const kAssign = "bucketing.assign";

struct Assigned {
  std::vector<std::vector<int>> buckets;
  std::vector<std::int64_t> limits;
};

Assigned assigned_in(const json& result) {
  return {result.at("buckets").get<std::vector<std::vector<int>>>(),
          result.at("bucket_limits").get<std::vector<std::int64_t>>()};
}

using Judge = std::string (*)(const BucketQuestion& question, const Assigned& got);

// ---- properties ----

std::string cover(const BucketQuestion& question, const Assigned& got) {
  std::vector<int> times(question.size());
  for (const auto& bucket : got.buckets)
    for (const int index : bucket) {
      if (index < 0 || static_cast<std::size_t>(index) >= question.size())
        return fmt::format("there is no gradient {}", index);
      if (++times[static_cast<std::size_t>(index)] > 1) return fmt::format("gradient {} is twice in buckets", index);
    }
  const auto missing = std::ranges::find(times, 0);
  if (missing != times.end()) return fmt::format("gradient {} is in no bucket", missing - times.begin());
  if (std::ranges::any_of(got.buckets, [](const auto& bucket) { return bucket.empty(); })) return "a bucket is empty";
  return got.limits.size() == got.buckets.size()
             ? ""
             : fmt::format("{} limits for {} buckets", got.limits.size(), got.buckets.size());
}

// Only asked of a cover, as all that follows.
std::string one_type_each(const BucketQuestion& question, const Assigned& got) {
  const auto positions = question.positions();
  for (const auto& bucket : got.buckets)
    for (const int index : bucket) {
      const std::string mine = question.key_at(positions[static_cast<std::size_t>(index)]);
      const std::string first = question.key_at(positions[static_cast<std::size_t>(bucket.front())]);
      if (mine != first) return fmt::format("bucket [{}] has {} and {}", fmt::join(bucket, ","), first, mine);
    }
  return {};
}

// The dense buckets of each type and device, in the order in which they were filled.
std::map<std::string, std::vector<std::size_t>> filled(const BucketQuestion& question, const Assigned& got) {
  const auto positions = question.positions();
  const auto first_of = [&](std::size_t bucket) {
    std::size_t first = question.size();
    for (const int index : got.buckets[bucket]) first = std::min(first, positions[static_cast<std::size_t>(index)]);
    return first;
  };
  std::map<std::string, std::vector<std::size_t>> keys;
  for (std::size_t bucket = 0; bucket < got.buckets.size(); ++bucket) {
    const std::size_t position = positions[static_cast<std::size_t>(got.buckets[bucket].front())];
    if (!question.is_sparse_at(position)) keys[question.key_at(position)].push_back(bucket);
  }
  for (auto& [key, buckets] : keys) std::ranges::sort(buckets, {}, first_of);
  return keys;
}

std::string limits_in_turn(const BucketQuestion& question, const Assigned& got) {
  for (const auto& [key, buckets] : filled(question, got))
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const std::int64_t expected = question.limits[std::min(i, question.limits.size() - 1)];
      if (got.limits[buckets[i]] != expected)
        return fmt::format("bucket {} of {} has limit {}, it is {}", i, key, got.limits[buckets[i]], expected);
    }
  return {};
}

// By the limits of the question: a bucket without its last gradient is below its own, and with it not, unless it is the
// last.
std::string closed_on_reaching(const BucketQuestion& question, const Assigned& got) {
  const auto positions = question.positions();
  for (const auto& [key, buckets] : filled(question, got))
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const std::int64_t limit = question.limits[std::min(i, question.limits.size() - 1)];
      std::vector<std::size_t> members;
      for (const int index : got.buckets[buckets[i]]) members.push_back(positions[static_cast<std::size_t>(index)]);
      std::ranges::sort(members);
      std::int64_t bytes = 0;
      for (const std::size_t position : members) {
        if (bytes >= limit && position != members.front())
          return fmt::format("bucket {} of {} had {} of {} bytes, and goes on", i, key, bytes, limit);
        bytes += question.bytes_at(position);
      }
      if (bytes < limit && i + 1 < buckets.size())
        return fmt::format("bucket {} of {} ends with {} of {} bytes", i, key, bytes, limit);
    }
  return {};
}

std::string sparse_alone(const BucketQuestion& question, const Assigned& got) {
  const auto positions = question.positions();
  for (std::size_t bucket = 0; bucket < got.buckets.size(); ++bucket)
    for (const int index : got.buckets[bucket]) {
      if (!question.is_sparse_at(positions[static_cast<std::size_t>(index)])) continue;
      if (got.buckets[bucket].size() > 1) return fmt::format("sparse gradient {} is among others", index);
      if (got.limits[bucket] != 0) return fmt::format("sparse gradient {} has limit {}", index, got.limits[bucket]);
    }
  return {};
}

// In a type and device nothing overtakes: members, and buckets one after the other, are as they came.
std::string order_kept(const BucketQuestion& question, const Assigned& got) {
  const auto positions = question.positions();
  for (const auto& [key, buckets] : filled(question, got)) {
    std::size_t next = 0;
    for (const std::size_t bucket : buckets)
      for (const int index : got.buckets[bucket]) {
        const std::size_t position = positions[static_cast<std::size_t>(index)];
        if (position < next) return fmt::format("gradient {} of {} is after one that came later", index, key);
        next = position;
      }
  }
  return {};
}

// Where the last member came.
std::size_t completed(const BucketQuestion& question, const std::vector<int>& bucket) {
  const auto positions = question.positions();
  std::size_t last = 0;
  for (const int index : bucket) last = std::max(last, positions[static_cast<std::size_t>(index)]);
  return last;
}

// In the order of registration by the smallest index, in another one as buckets close, those that never do at the end.
std::string buckets_in_order(const BucketQuestion& question, const Assigned& got) {
  if (question.indices.empty()) {
    const auto smallest = [](const auto& bucket) { return std::ranges::min(bucket); };
    return std::ranges::is_sorted(got.buckets, {}, smallest) ? "" : "buckets are not sorted by their smallest index";
  }
  const auto positions = question.positions();
  std::map<std::vector<int>, bool> is_open;
  for (const auto& [key, buckets] : filled(question, got)) {
    std::int64_t bytes = 0;
    for (const int index : got.buckets[buckets.back()])
      bytes += question.bytes_at(positions[static_cast<std::size_t>(index)]);
    is_open[got.buckets[buckets.back()]] =
        bytes < question.limits[std::min(buckets.size(), question.limits.size()) - 1];
  }
  std::pair<bool, std::size_t> last{false, 0};
  for (const auto& bucket : got.buckets) {
    const std::pair now{is_open[bucket], completed(question, bucket)};
    if (now < last) return fmt::format("bucket [{}] comes after one that is complete later", fmt::join(bucket, ","));
    last = now;
  }
  return {};
}

// ---- asking ----

std::string problem_with(suite::Adapter& adapter, const BucketQuestion& question, const std::string& convention,
                         const std::vector<Judge>& judges) {
  return problem_of(adapter, kAssign, question.args(convention), [&](const json& result) -> std::string {
    const Assigned got = assigned_in(result);
    for (const Judge judge : judges)
      if (std::string problem = judge(question, got); !problem.empty()) return problem;
    return {};
  });
}

void judge_questions(Context& context, const std::string& kind, const std::string& convention,
                     const std::vector<Judge>& judges, int trials) {
  const Property<BucketQuestion> property{
      .draw = [&](Random& random) { return draw_question(kind, random); },
      .problem =
          [&](const BucketQuestion& question) { return problem_with(context.adapter(), question, convention, judges); },
      .smaller = smaller_questions,
      .words = [&](const BucketQuestion& question) { return question.args(convention).dump(); }};
  report_words(search(property, context.seed(), kind == "equal" ? 1 : trials));
}

constexpr int kTrials = 120;

template <Judge... judges>
void judge(Context& context) {
  judge_questions(context, context.parameters().text("gradients"), "plumbline", {cover, judges...}, kTrials);
}

// All of them under PyTorch's convention, but for the order of those that never close, which is recorded.
void torch_properties(Context& context) {
  judge_questions(context, context.parameters().text("gradients"), "torch",
                  {cover, one_type_each, limits_in_turn, closed_on_reaching, sparse_alone, order_kept}, kTrials);
}

// ---- limits count ----

// How many reductions there are: a number that is checked, since a wrong one gives right results, and no benefit.
void launches_follow_the_limit(Context& context) {
  const BucketQuestion sizes{.numel = {5, 30, 7, 1, 64, 2, 2, 100, 9, 12},
                             .dtype = std::vector<std::string>(10, context.parameters().text("dtype")),
                             .device = std::vector<std::string>(10, "cpu"),
                             .limits = {0},
                             .sparse = {},
                             .indices = {}};
  std::size_t before = sizes.size() + 1;
  const std::vector<std::pair<std::int64_t, std::size_t>> counts{{0, 10}, {24, 6}, {160, 4}, {400, 3}, {1 << 20, 1}};
  const std::int64_t scale = context.parameters().text("dtype") == "f16"   ? 2
                             : context.parameters().text("dtype") == "f32" ? 4
                                                                           : 8;
  for (const auto& [limit, count] : counts) {
    BucketQuestion question = sizes;
    question.limits = {limit * scale / 4};
    report_words(problem_of(context.adapter(), kAssign, question.args("plumbline"), [&](const json& result) {
      const Assigned assigned = assigned_in(result);
      if (std::string problem = cover(question, assigned); !problem.empty()) return problem;
      const std::size_t got = assigned.buckets.size();
      return got == count ? ""
                          : fmt::format("a limit of {} bytes makes {} buckets, it is {} (a smaller one made {})",
                                        question.limits.front(), got, count, before);
    }));
    before = count;
  }
}

// ---- recorded ----

json fields_of(const json& one, std::initializer_list<const char*> names) {
  json fields = json::object();
  for (const char* name : names)
    if (one.contains(name)) fields[name] = one[name];
  return fields;
}

void ask(Context& context, const char* op, const json& args, const json& expected) {
  const std::string words = op + (" " + args.dump().substr(0, 300));
  if (expected.is_null()) {
    const Answer answer = answer_to(context.adapter(), op, args);
    if (!refuses_bad_value(answer, args))
      report_words(words + " is refused in the record, here " + (answer.is_refused() ? answer.kind : "answered") +
                   ": " + answer.result.dump().substr(0, 120));
    return;
  }
  const std::string problem =
      problem_of(context.adapter(), op, args, [&](const json& result) { return first_difference(expected, result); });
  if (!problem.empty()) report_words(words + ": " + problem);
}

// What a recorded question has in it.
std::string kind_of(const json& one) {
  if (one.contains("error")) return "refused";
  const json devices = one.value("device", json::array());
  const auto is_cuda = [](const json& name) { return name.get<std::string>().starts_with("cuda"); };
  if (std::ranges::any_of(devices, is_cuda)) return "devices";
  if (!one.value("tensor_indices", json::array()).empty()) return "ordered";
  const json flags = one.value("expect_sparse_gradient", json::array());
  if (std::ranges::find(flags, json(true)) != flags.end()) return "sparse";
  if (one.contains("device")) return "types";
  return one.at("dtype").is_array() ? "types" : one.at("limits").size() > 1 ? "limits" : "one_type";
}

void torch_recorded(Context& context) {
  const json record = recorded("bucketing", "torch");
  for (const json& one : record.at("cases")) {
    if (one.at("kind") != "assign" || kind_of(one) != context.parameters().text("gradients")) continue;
    json args = fields_of(one, {"numel", "dtype", "device", "limits", "expect_sparse_gradient", "tensor_indices"});
    args["convention"] = "torch";
    ask(context, kAssign, args, one.contains("error") ? json() : fields_of(one, {"buckets", "bucket_limits"}));
  }
}

void capacity_recorded(Context& context, const char* convention) {
  const bool listed = context.parameters().text("caps") == "list", given = context.parameters().text("caps") == "one";
  const json record = recorded("bucketing", "torch");
  for (const json& one : record.at("cases")) {
    if (one.at("kind") != "capacity_config") continue;
    const bool has_list = one.at("bucket_cap_mb_list").is_array() && !one.at("bucket_cap_mb_list").empty();
    if (has_list != listed || (!has_list && given == one.at("bucket_cap_mb").is_null())) continue;
    json args = fields_of(one, {"bucket_cap_mb", "bucket_cap_mb_list"});
    args["convention"] = convention;
    ask(context, "bucketing.capacity_config", args,
        fields_of(one, {"bucket_bytes_cap", "per_bucket_bytes_caps", "first_bucket_bytes_cap", "limits"}));
  }
}
void torch_capacity(Context& context) { capacity_recorded(context, "torch"); }
void default_capacity(Context& context) { capacity_recorded(context, "plumbline"); }

json run_args(const json& one, const char* convention) {
  json args = fields_of(one, {"ready", "expect_sparse_gradient"});
  args.update({{"numel", one["parameters"]["numel"]},
               {"dtype", one["parameters"]["dtype"]},
               {"iterations", one["launches"].size()},
               {"convention", convention}});
  args.update(one.at("ddp"));
  return args;
}

void runs_recorded(Context& context, const char* convention) {
  const std::string& asked = context.parameters().text("options");
  const json record = recorded("bucketing", "torch_ddp");
  for (const json& one : record.at("cases")) {
    const json& ddp = one.at("ddp");
    const std::string has = ddp.contains("find_unused_parameters") ? "find_unused"
                            : ddp.contains("static_graph")         ? "static_graph"
                                                                   : "neither";
    if (has == asked) ask(context, "bucketing.ddp_runs", run_args(one, convention), {{"launches", one.at("launches")}});
  }
}

void ddp_recorded(Context& context) { runs_recorded(context, "torch"); }
void default_runs(Context& context) { runs_recorded(context, "plumbline"); }

// Sizes and an order that were drawn: the first buckets are PyTorch's of the registration turned round, the rebuilt
// ones those of the ready order. Both are asked of the same subject. All parameters of a model that DDP takes are on
// one kind of device.
void rebuilt_once(Context& context) {
  const std::string &options = context.parameters().text("options"), &device = context.parameters().text("device");
  const bool searches = options != "static_graph" && options != "neither";
  Random random(context.seed());
  for (int trial = 0; trial < kTrials / 4; ++trial) {
    BucketQuestion drawn = draw_question("ordered", random);
    std::ranges::fill(drawn.device, device);
    BucketQuestion registered = drawn;
    for (std::size_t position = 0; position < drawn.size(); ++position) {
      const auto index = static_cast<std::size_t>(drawn.indices[position]);
      registered.numel[index] = drawn.numel[position];
      // PyTorch has no gradients of embeddings of complex numbers, and no others are sparse.
      if (!drawn.sparse.empty() && drawn.sparse[index] && drawn.dtype[position] == "c64") drawn.dtype[position] = "f32";
      registered.dtype[index] = drawn.dtype[position];
    }
    registered.indices.clear();
    const std::vector<double> caps{0.0001, 0.001};
    json args = registered.args("torch");
    args.erase("limits");
    args.update({{"bucket_cap_mb_list", caps}, {"ready", drawn.indices}, {"iterations", 4}});
    if (options != "neither") args[searches ? "find_unused_parameters" : options] = true;
    if (options == "both") args["static_graph"] = true;
    BucketQuestion first = registered, rebuilt = drawn;
    first.limits = rebuilt.limits = {104, 1048};
    const Answer of_first = answer_to(context.adapter(), kAssign, first.args("torch"));
    const Answer of_rebuilt = answer_to(context.adapter(), kAssign, rebuilt.args("torch"));
    if (of_first.is_refused() || of_rebuilt.is_refused())
      return report_words("refused: " + of_first.message + of_rebuilt.message);
    report_words(problem_of(context.adapter(), "bucketing.ddp_runs", args, [&](const json& result) -> std::string {
      const int since = options == "neither" ? 1 : options == "find_unused_parameters" ? 4 : 2;
      for (int iteration = 0; iteration < 4; ++iteration) {
        json buckets = iteration < since ? of_first.result.at("buckets") : of_rebuilt.result.at("buckets");
        if (iteration < since) std::reverse(buckets.begin(), buckets.end());
        json got = json::array();
        for (const json& launch : result.at("launches").at(static_cast<std::size_t>(iteration)))
          got.push_back(launch.at("params").get<std::vector<int>>());
        if (got != buckets)
          return fmt::format("{}: iteration {} launches {}, it is {}", args.dump(), iteration, got.dump(),
                             buckets.dump());
      }
      return {};
    }));
  }
}

// ---- refusals ----

const std::vector<BadQuestion>& bad_assignments() {
  const auto assign = [](json change) {
    json args{{"numel", {4, 4}}, {"dtype", "f32"}, {"limits", {100}}};
    args.update(change);
    return args;
  };
  static const std::vector<BadQuestion> list{
      {"negative_size", kAssign, assign({{"numel", {4, -1}}})},
      {"negative_limit", kAssign, assign({{"limits", {100, -1}}})},
      {"no_limit", kAssign, assign({{"limits", json::array()}})},
      {"overflow", kAssign, assign({{"numel", {std::int64_t{1} << 62, 4}}})},
      {"negative_first_limit", kAssign, assign({{"limits", {-1, 100}}})},
      {"negative_size_later", kAssign, assign({{"numel", {-1, 4}}})},
      {"order_below_0", kAssign, assign({{"tensor_indices", {0, -1}}})},
      {"order_too_long", kAssign, assign({{"tensor_indices", {0, 1, 2}}})},
      {"too_many_types", kAssign, assign({{"dtype", {"f32", "f32", "f32"}}})},
      {"too_many_flags", kAssign, assign({{"expect_sparse_gradient", {true, false, false}}})},
      {"too_few_devices", kAssign, assign({{"device", {"cpu"}}})},
      {"overflow_of_sparse", kAssign,
       assign({{"numel", {std::int64_t{1} << 60, std::int64_t{1} << 60}}, {"expect_sparse_gradient", {true, true}}})},
      {"overflow_of_sum", kAssign, assign({{"numel", {std::int64_t{1} << 60, std::int64_t{1} << 60}}})},
      {"unknown_type", kAssign, assign({{"dtype", "f33"}})},
      {"too_few_types", kAssign, assign({{"dtype", {"f32"}}})},
      {"too_few_flags", kAssign, assign({{"expect_sparse_gradient", {true}}})},
      {"order_too_short", kAssign, assign({{"tensor_indices", {0}}})},
      {"order_with_a_repetition", kAssign, assign({{"tensor_indices", {1, 1}}})},
      {"order_with_a_stranger", kAssign, assign({{"tensor_indices", {0, 2}}})},
      {"unknown_field", kAssign, assign({{"limit", 100}})},
      {"negative_cap", "bucketing.capacity_config", {{"bucket_cap_mb", -1}}},
      {"cap_not_a_number", "bucketing.capacity_config", {{"bucket_cap_mb_list", {1, "nan"}}}},
      {"cap_of_too_many_bytes", "bucketing.capacity_config", {{"bucket_cap_mb", 1e13}}},
      {"cap_not_a_number_alone", "bucketing.capacity_config", {{"bucket_cap_mb", "nan"}}},
      {"cap_of_one_byte_too_many", "bucketing.capacity_config", {{"bucket_cap_mb", 8796093022208.0}}},
      {"cap_infinite", "bucketing.capacity_config", {{"bucket_cap_mb_list", {"inf"}}}},
      {"ready_too_short",
       "bucketing.ddp_runs",
       {{"numel", {4, 4}}, {"dtype", "f32"}, {"iterations", 2}, {"ready", {0}}}},
      {"ready_with_a_repetition",
       "bucketing.ddp_runs",
       {{"numel", {4, 4}}, {"dtype", "f32"}, {"iterations", 2}, {"ready", {0, 0}}}},
      {"too_many_iterations", "bucketing.ddp_runs", {{"numel", {4}}, {"dtype", "f32"}, {"iterations", 1001}}},
      {"negative_iterations", "bucketing.ddp_runs", {{"numel", {4}}, {"dtype", "f32"}, {"iterations", -1}}},
      {"order_unknown",
       "bucketing.ddp_runs",
       {{"numel", {4}}, {"dtype", "f32"}, {"iterations", 2}, {"ready", json::array()}}}};
  return list;
}

void refuses_bad_assignments(Context& context) { report_words(problem_of_bad_question(context, bad_assignments())); }

}  // namespace

void add_assign_checks(suite::Suite& suite) {
  const std::string runs = "bucketing.ddp_runs";
  const std::vector<std::string> any_type{"bf16", "c64", "f16", "f32", "f64"}, one_type{"f32"}, two_types{"f32", "f64"},
      every_type{"bf16", "c32", "c64", "c128", "f16", "f32", "f64", "i32", "i64", "u8"}, here{"cpu"},
      both{"cpu", "cuda:1"};
  const auto of_each = [](const suite::Axis& axis, const std::vector<std::string>& plain,
                          std::map<std::string, std::vector<std::string>> other) {
    for (const std::string& value : axis.values) other.emplace(value, plain);
    return other;
  };
  const suite::Axis drawn{"gradients",
                          {"equal", "one_type", "limits", "types", "sparse", "ordered", "around_limit", "large"}};
  const suite::Axis options{"options", {"neither", "find_unused_parameters", "static_graph", "both"}};
  const std::vector<AskedOption> of_drawn{
      {kAssign, "dtype", {}, "gradients", of_each(drawn, one_type, {{"types", any_type}, {"ordered", any_type}})},
      {kAssign, "device", {}, "gradients", of_each(drawn, here, {{"types", both}, {"ordered", both}})}};
  const std::vector<AskedOption> of_runs{
      {runs, "dtype", {}, "options", {{"neither", two_types}, {"find_unused", two_types}, {"static_graph", one_type}}},
      {runs, "device", here}};
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> operations, suite::Axis axis,
                       void (*body)(Context&), std::vector<AskedOption> options, const char* convention = "plumbline",
                       OperationsOfCase asks = {}, std::optional<suite::Axis> second = {}) {
    std::vector<suite::Axis> axes{std::move(axis)};
    if (second) axes.push_back(*std::move(second));
    suite.add({.id = std::string("bucketing.assign.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = std::move(operations),
               .asks = std::move(asks),
               .convention = convention,
               .options = options_of(std::move(options)),
               .body = body});
  };
  add("each_gradient_once", "BUCKET-001@6b00", {kAssign}, drawn, judge<>, of_drawn);
  add("one_type_and_device", "BUCKET-002@c69c", {kAssign}, drawn, judge<one_type_each>, of_drawn);
  add("closes_on_reaching", "BUCKET-003@4e98", {kAssign}, drawn, judge<closed_on_reaching>, of_drawn);
  add("limits_in_turn", "BUCKET-004@d2b1", {kAssign}, drawn, judge<limits_in_turn>, of_drawn);
  add("sparse_alone", "BUCKET-005@0a1f", {kAssign}, drawn, judge<sparse_alone>, of_drawn);
  add("order_kept", "BUCKET-006@3a83", {kAssign}, drawn, judge<order_kept>, of_drawn);
  add("buckets_in_order", "BUCKET-007@a3b9", {kAssign}, drawn, judge<buckets_in_order>, of_drawn);
  add("launches_follow_the_limit", "BUCKET-008@7312", {kAssign}, {"dtype", {"f16", "f32", "f64", "c64"}},
      launches_follow_the_limit, {{kAssign, "dtype", {}, "dtype"}, {kAssign, "device", here}});
  add("bad_arguments", "BUCKET-009@3989", {kAssign}, faults_of(bad_assignments(), {kAssign}), refuses_bad_assignments,
      {{kAssign, "dtype", {}, "fault", of_each(faults_of(bad_assignments(), {kAssign}), one_type, {})},
       {kAssign, "device", here}});
  add("torch_recorded", "BUCKET-010@6fcf", {kAssign},
      {"gradients", {"one_type", "limits", "types", "sparse", "ordered", "devices", "refused"}}, torch_recorded,
      {{kAssign,
        "dtype",
        {},
        "gradients",
        {{"one_type", any_type},
         {"limits", {"f16", "f32", "f64"}},
         {"types", every_type},
         {"sparse", any_type},
         {"ordered", every_type},
         {"devices", every_type},
         {"refused", one_type}}},
       {kAssign,
        "device",
        {},
        "gradients",
        {{"one_type", here},
         {"limits", here},
         {"types", {"cpu", "meta"}},
         {"sparse", here},
         {"ordered", {"cpu", "meta"}},
         {"devices", {"cpu", "meta", "cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:7"}},
         {"refused", here}}}},
      "torch");
  add("torch_properties", "BUCKET-010@6fcf", {kAssign}, drawn, torch_properties, of_drawn, "torch");
  add("torch_capacity", "BUCKET-011@8188", {"bucketing.capacity_config"}, {"caps", {"default", "one", "list"}},
      torch_capacity, {}, "torch");
  add("ddp_recorded", "BUCKET-012@3287", {"bucketing.ddp_runs"},
      {"options", {"neither", "find_unused", "static_graph"}}, ddp_recorded, of_runs, "torch");
  add("rebuilt_once", "BUCKET-013@d637", {"bucketing.ddp_runs", kAssign}, options, rebuilt_once,
      {{runs, "dtype", any_type},
       {runs, "device", {}, "device"},
       {kAssign, "dtype", any_type},
       {kAssign, "device", {}, "device"}},
      "torch", {}, suite::Axis{"device", both});
  add("default_capacity", "BUCKET-041@84e5", {"bucketing.capacity_config"}, {"caps", {"default", "one", "list"}},
      default_capacity, {});
  add("default_runs", "BUCKET-041@84e5", {"bucketing.ddp_runs"},
      {"options", {"neither", "find_unused", "static_graph"}}, default_runs, of_runs);
  add("bad_caps", "BUCKET-014@b3b0", {"bucketing.capacity_config", "bucketing.ddp_runs"},
      faults_of(bad_assignments(), {"bucketing.capacity_config", "bucketing.ddp_runs"}), refuses_bad_assignments,
      {{runs, "dtype", {}, "fault", of_each(faults_of(bad_assignments(), {runs}), one_type, {})},
       {runs, "device", {}, "fault", of_each(faults_of(bad_assignments(), {runs}), here, {})}},
      "plumbline", operation_of_fault(bad_assignments()));
}

}  // namespace plumbline::conformance

// Plans that a reducer is made with, where no adapter is asked for them: of some gradients, of a buffer of several
// types, and tables of gradients.
#include <array>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/support/property.hpp"
#include "conformance/support/refusal.hpp"
#include "reference/bucketing/exposed.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/plan_json.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::DType;
using nlohmann::json;
using suite::Context;
using testing::ElementsAre;

namespace {

// ---- a buffer of each type ----

struct Buffered {
  std::vector<bucketing::Gradient> gradients;
  bucketing::MegatronOptions options;
};
Buffered buffered(Random& random, bool distributed) {
  Buffered one;
  const std::array types{DType::f32, DType::f16, DType::f64};
  for (int left = random.between(1, 14); left > 0; --left)
    one.gradients.push_back({.elements = random.between(0, 300),
                             .dtype = types.at(static_cast<std::size_t>(random.between(0, 2))),
                             .group = random.between(0, 1)});
  if (random.between(0, 2) > 0) one.options.bucket_elements = random.between(1, 500);
  if (!distributed) return one;
  bucketing::DistributedOptimizer optimizer{.ranks = 6 * random.between(1, 3), .instances = random.between(1, 3)};
  for (int i = 0; i < static_cast<int>(one.gradients.size()); ++i)
    if (random.between(0, 4) == 0) optimizer.shared_embedding.push_back(i);
  one.options.distributed_optimizer = optimizer;
  return one;
}

// From the last gradient on, each type and group in a buffer of its own: the buckets of each, and who lies where.
bucketing::Plan expected_buffers(const Buffered& of) {
  const auto& optimizer = of.options.distributed_optimizer;
  const std::int64_t start = optimizer ? 64 : 1;
  const std::int64_t end_of =
      optimizer ? std::lcm(std::int64_t{optimizer->ranks / optimizer->instances}, std::int64_t{128}) : 1;
  const auto padded = [](std::int64_t number, std::int64_t multiple) {
    return (number + multiple - 1) / multiple * multiple;
  };
  using Key = std::pair<DType, int>;
  std::vector<Key> keys;
  for (auto one = of.gradients.rbegin(); one != of.gradients.rend(); ++one)
    if (const Key key{one->dtype, one->group}; std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  bucketing::Plan plan;
  for (const Key& key : keys) {
    std::int64_t begin = 0, end = 0;
    bool open = false;
    const auto close = [&] {
      if (!open) return;
      end = padded(end, end_of);
      plan.buckets.back().elements = end - begin;
      begin = end;
      open = false;
    };
    for (int i = static_cast<int>(of.gradients.size()) - 1; i >= 0; --i) {
      const bucketing::Gradient& one = of.gradients[static_cast<std::size_t>(i)];
      if (Key(one.dtype, one.group) != key) continue;
      const bool alone = optimizer && std::ranges::count(optimizer->shared_embedding, i) > 0;
      end = padded(end, start);
      if (alone) close();
      if (!open) {
        plan.buckets.push_back({.first_member = static_cast<int>(plan.members.size()),
                                .members = 0,
                                .dtype = one.dtype,
                                .group = one.group});
        const auto each = static_cast<std::int64_t>(comm::size_of(one.dtype));
        plan.buckets.back().limit_bytes = of.options.bucket_elements ? *of.options.bucket_elements * each : 0;
      }
      open = true;
      ++plan.buckets.back().members;
      plan.members.push_back({i, end - begin});
      end += one.elements;
      if (alone || (of.options.bucket_elements && end - begin >= *of.options.bucket_elements)) close();
    }
    close();
  }
  return plan;
}

void judge_buffers(Context& context, bool distributed, const char* requirement) {
  Random random(context.seed());
  for (int trial = 0; trial < 200; ++trial) {
    const Buffered of = buffered(random, distributed);
    const bucketing::Plan plan = bucketing::plan_as_megatron(of.gradients, of.options);
    const json expected = bucketing::json_of(expected_buffers(of)), found = bucketing::json_of(plan);
    ASSERT_EQ(found, expected) << requirement << ": trial " << trial;
  }
}
void buffers_of_types(Context& context) { judge_buffers(context, false, "BUCKET-019"); }
void sharded_buffers_of_types(Context& context) { judge_buffers(context, true, "BUCKET-018"); }

void default_elements(Context&) {
  EXPECT_EQ(bucketing::megatron_default_elements(1), 40'000'000) << "BUCKET-021: elements of a bucket by default";
  EXPECT_EQ(bucketing::megatron_default_elements(40), 40'000'000) << "BUCKET-021";
  EXPECT_EQ(bucketing::megatron_default_elements(41), 41'000'000) << "BUCKET-021";
}

void buffers_refused(Context&) {
  const auto said = [](std::vector<bucketing::Gradient> gradients, const bucketing::DistributedOptimizer& optimizer) {
    try {
      (void)bucketing::plan_as_megatron(gradients, {.distributed_optimizer = optimizer});
    } catch (const InvalidArgument&) {
      return "invalid";
    } catch (const Unsupported&) {
      return "unsupported";
    }
    return "accepted";
  };
  const std::vector<bucketing::Gradient> two{{.elements = 3}, {.elements = 4, .dtype = DType::f16}};
  EXPECT_STREQ(said(two, {.ranks = 6, .instances = 3, .shared_embedding = {0, 1}}), "accepted") << "BUCKET-022";
  for (const auto& [ranks, instances] :
       {std::pair{0, 1}, std::pair{-2, 1}, std::pair{6, 0}, std::pair{6, -2}, std::pair{6, 4}, std::pair{6, 12}})
    EXPECT_STREQ(said(two, {.ranks = ranks, .instances = instances}), "invalid")
        << "BUCKET-022: " << ranks << " ranks in " << instances << " instances";
  for (const int embedding : {-1, 2})
    EXPECT_STREQ(said(two, {.shared_embedding = {embedding}}), "invalid") << "BUCKET-022: embedding " << embedding;
  EXPECT_STREQ(said({{.elements = -1}}, {}), "invalid") << "BUCKET-022: elements below 0";
  EXPECT_STREQ(said({{.elements = 3, .sparse = true}}, {}), "unsupported") << "BUCKET-022: a sparse gradient";
}

// ColossalAI's handlers flatten dense gradients of one device.
void handlers_refuse(Context& context) {
  const std::string what = context.parameters().text("what");
  for (const std::size_t at : {0U, 1U, 2U}) {
    std::vector<bucketing::Gradient> gradients(3, {.elements = 2, .device = {comm::Device::Kind::cuda, 1}});
    if (what == "sparse") gradients[at].sparse = true;
    if (what == "device_number") gradients[at].device.index = 0;
    if (what == "device_kind") gradients[at].device = {};
    const auto plan = [&] { return bucketing::plan_as_colossalai(gradients); };
    if (what == "nothing")
      EXPECT_EQ(plan().members.size(), 3U) << "BUCKET-220";
    else
      EXPECT_THROW((void)plan(), Unsupported) << "BUCKET-220: " << what << " at gradient " << at;
  }
}

// ---- of some gradients ----

void some_in_order(Context&) {
  const std::vector<bucketing::Gradient> gradients(4, {.elements = 2});
  const std::vector<std::int64_t> limits{8, 16};
  const auto said = [&](const std::vector<int>& order, const std::vector<int>& delayed,
                        const std::vector<std::int64_t>& of_limits) -> std::string {
    try {
      return bucketing::json_of(bucketing::buckets_in_order(gradients, order, of_limits, delayed)).dump();
    } catch (const InvalidArgument&) {
      return "invalid";
    } catch (const OutOfRange&) {
      return "out of range";
    }
  };
  EXPECT_EQ(said({1, 1}, {}, limits), "invalid") << "BUCKET-009: a repetition";
  EXPECT_EQ(said({0}, {1, 1}, limits), "invalid") << "BUCKET-009: a repetition of what is delayed";
  EXPECT_EQ(said({0, 1}, {1}, limits), "invalid") << "BUCKET-009: delayed, and not";
  for (const int stranger : {-1, 4}) {
    EXPECT_EQ(said({0, stranger}, {}, limits), "out of range") << "BUCKET-009: " << stranger;
    EXPECT_EQ(said({0}, {stranger}, limits), "out of range") << "BUCKET-009: delayed, " << stranger;
  }
  EXPECT_EQ(said({0}, {}, {-1}), "invalid") << "BUCKET-009: a limit below 0";
  const bucketing::Plan plan = bucketing::buckets_in_order(gradients, std::vector{3, 1, 0}, limits, std::vector{2});
  std::vector<std::vector<int>> members;
  for (const auto& bucket : plan.buckets) {
    members.emplace_back();
    for (const auto& member : plan.members_of(bucket)) members.back().push_back(member.gradient);
  }
  EXPECT_THAT(members, ElementsAre(ElementsAre(3), ElementsAre(1, 0), ElementsAre(2))) << "BUCKET-009: the buckets";
  EXPECT_TRUE(bucketing::buckets_in_order(gradients, {}, limits).buckets.empty()) << "BUCKET-009: of no gradients";
  // Those that are delayed have the last limit alone.
  const std::vector<bucketing::Gradient> six(6, {.elements = 2});
  const bucketing::Plan late = bucketing::buckets_in_order(six, std::vector{5, 0}, limits, std::vector{2, 4, 3, 1});
  std::vector<std::pair<int, std::int64_t>> sizes;
  for (const auto& bucket : late.buckets) sizes.emplace_back(bucket.members, bucket.limit_bytes);
  EXPECT_THAT(sizes, ElementsAre(std::pair(1, 8), std::pair(1, 16), std::pair(2, 16), std::pair(2, 16)))
      << "BUCKET-009: members and limits of buckets, of which the last two are delayed";
}

// What is wrong with a gradient, first or last of all: no rule plans it.
void bad_gradients(Context& context) {
  const std::map<std::string, std::pair<bucketing::Gradient, std::string>> wrong{
      {"nothing", {{.elements = 2, .components_per_element = 2, .group = 7}, "planned"}},
      {"no_numbers", {{.elements = 2, .components_per_element = 0}, "invalid"}},
      {"three_numbers", {{.elements = 2, .components_per_element = 3}, "invalid"}},
      {"elements", {{.elements = -1}, "invalid"}},
      {"group", {{.elements = 2, .group = -1}, "invalid"}},
      {"bytes", {{.elements = std::int64_t{1} << 61}, "out of range"}},
      {"sum", {{.elements = (std::int64_t{1} << 61) - 4}, "out of range"}}};
  const auto& [gradient, expected] = wrong.at(context.parameters().text("wrong"));
  const auto said = [](const auto& rule) -> std::string {
    try {
      return rule().members.size() == 3 ? "planned" : "planned otherwise";
    } catch (const InvalidArgument&) {
      return "invalid";
    } catch (const OutOfRange&) {
      return "out of range";
    }
  };
  const std::vector<std::int64_t> limits{64};
  const std::vector<int> order{1, 0, 2};
  for (const std::size_t at : {0, 2}) {
    std::vector<bucketing::Gradient> gradients(3, {.elements = 2});
    gradients[at] = gradient;
    const auto where = fmt::format("BUCKET-009: gradient {}", at);
    EXPECT_EQ(said([&] { return bucketing::plan_by_size(gradients, limits); }), expected) << where;
    EXPECT_EQ(said([&] { return bucketing::plan_by_size(gradients, limits, order); }), expected) << where;
    EXPECT_EQ(said([&] { return bucketing::buckets_in_order(gradients, order, limits); }), expected) << where;
    EXPECT_EQ(said([&] { return bucketing::plan_flat(gradients); }), expected) << where;
    EXPECT_EQ(said([&] { return bucketing::plan_unfused(gradients, order); }), expected) << where;
    EXPECT_EQ(said([&] { return bucketing::plan_as_colossalai(gradients); }), expected) << where;
    EXPECT_EQ(said([&] { return bucketing::plan_as_megatron(gradients, {}); }), expected) << where;
    const std::vector<std::string> names{"a", "b", "c"};
    const json torch{{"rebuilt_per_bucket_param_indices", "2, 1, 0"}},
        paddle = json::array({{{"gradients", names}}}),
        megatron{{"param_index", {{4, 6, 0}, {2, 4, 0}, {0, 2, 0}}}, {"bucket_indices", {{0, 6}}}};
    EXPECT_EQ(said([&] { return bucketing::plan_of_ddp_logging(torch, gradients); }), expected) << where;
    EXPECT_EQ(said([&] { return bucketing::plan_of_megatron_layout(megatron, gradients); }), expected) << where;
    EXPECT_EQ(said([&] { return bucketing::plan_of_paddle_groups(paddle, names, gradients); }), expected) << where;
    for (const int iteration : {0, 1})
      EXPECT_EQ(said([&] { return bucketing::ddp_plan({}, gradients, iteration, order); }), expected) << where;
    EXPECT_EQ(said([&] { return bucketing::ddp_plan({}, gradients, -1, order); }), "invalid") << where;
  }
}

void ready_in_time(Context&) {
  const std::vector<bucketing::Gradient> gradients{
      {.elements = 3}, {.elements = 2, .dtype = DType::f64}, {.elements = 0}, {.elements = 1}};
  EXPECT_THAT(bucketing::ready_evenly(gradients, 16), ElementsAre(16, 10, 2, 2)) << "BUCKET-221: from the last one on";
  EXPECT_THAT(bucketing::ready_evenly(gradients, 16, std::vector{1, 0, 3, 2}), ElementsAre(14, 8, 16, 16))
      << "BUCKET-221: in an order";
  EXPECT_THAT(bucketing::ready_evenly(std::vector<bucketing::Gradient>(2), 16), ElementsAre(16, 16))
      << "BUCKET-221: gradients without elements";
  EXPECT_THAT(bucketing::ready_evenly(
                  std::vector<bucketing::Gradient>{{.elements = 1, .dtype = DType::u8}, {.elements = 0}}, 16),
              ElementsAre(16, 0))
      << "BUCKET-221: one byte in all";
  for (const auto& order : {std::vector{0}, std::vector{0, 1, 2, 2}, std::vector{0, 1, 2, 4}})
    EXPECT_NE(refusal<InvalidArgument>([&] { (void)bucketing::ready_evenly(gradients, 1, order); }), kNotRefused)
        << "BUCKET-221: an order of other gradients";
}

void latency_alone(Context&) {
  EXPECT_EQ(bucketing::all_reduce_seconds(0, {.ranks = 3, .latency = 0.25, .bandwidth = 4}), 1) << "BUCKET-034";
}

void times_refused(Context&) {
  const std::vector<bucketing::Gradient> gradients{{.elements = 3}};
  EXPECT_NE(refusal<InvalidArgument>([&] { (void)bucketing::ready_evenly(gradients, -1); }), kNotRefused)
      << "BUCKET-037: a time below 0";
  EXPECT_NE(refusal<InvalidArgument>([] { (void)bucketing::all_reduce_seconds(-1, {.ranks = 3}); }), kNotRefused)
      << "BUCKET-037: bytes below 0";
}

// ---- tables ----

json as_json(const bucketing::NamedGradients& list) {
  json rows = json::array();
  for (std::size_t i = 0; i < list.gradients.size(); ++i) {
    const bucketing::Gradient& one = list.gradients[i];
    rows.push_back({list.names[i], one.elements, comm::name_of(one.dtype), int{one.components_per_element},
                    comm::name_of(one.device), one.group, one.sparse});
  }
  return rows;
}

void tables(Context&) {
  const json full =
      as_json(bucketing::gradients_of_csv("\r\ngroup, sparse ,name,elements,dtype,device\r\n3,true,w.1,17, f16 "
                                          ",cuda:2\r\n\n0,false,w 2,0,c64,cpu\n1,false,17,1,torch.bfloat16,cpu\n"));
  EXPECT_EQ(full, (json{{"w.1", 17, "f16", 1, "cuda:2", 3, true},
                        {"w 2", 0, "f32", 2, "cpu", 0, false},
                        {"17", 1, "bf16", 1, "cpu", 1, false}}))
      << "BUCKET-219: a table with all columns";
  const json least = as_json(bucketing::gradients_of_csv("elements,group\n5,\n6,2"));
  EXPECT_EQ(least, (json{{"gradient 0", 5, "f32", 1, "cpu", 0, false}, {"gradient 1", 6, "f32", 1, "cpu", 2, false}}))
      << "BUCKET-219: a table with the least";
  EXPECT_TRUE(bucketing::gradients_of_csv("").names.empty()) << "BUCKET-219: no table";
  EXPECT_TRUE(bucketing::gradients_of_csv("elements\n").names.empty()) << "BUCKET-219: a table of none";
}

// Tables with one thing wrong, and the column in which it is.
void spoilt_tables(Context&) {
  const std::vector<std::pair<const char*, const char*>> spoilt{{"elements,size\n1,1", "size"},
                                                                {"elements,elements\n1,1", "elements"},
                                                                {"elements,group\n1", ""},
                                                                {"elements,group\n1,2,3", ""},
                                                                {"name\nw", "elements"},
                                                                {"elements\nmany", "elements"},
                                                                {"elements\n1.5", "elements"},
                                                                {"elements\n-1", "elements"},
                                                                {"name,elements\nw,1\nw,2", "name"},
                                                                {"elements,dtype\n1,f33", "dtype"},
                                                                {"elements,device\n1,drum", "device"},
                                                                {"elements,group\n1,-1", "group"},
                                                                {"elements,sparse\n1,maybe", "sparse"}};
  for (const auto& [text, column] : spoilt)
    EXPECT_THAT(refusal<InvalidArgument>([&text = text] { (void)bucketing::gradients_of_csv(text); }),
                testing::AllOf(testing::HasSubstr(column), testing::Not(testing::HasSubstr(kNotRefused)),
                               testing::Not(testing::HasSubstr("another error"))))
        << "BUCKET-036: " << text;
}

// ---- plans of any form ----

bucketing::NamedGradients two_gradients() {
  return {.names = {"a", "b"}, .gradients = {{.elements = 4}, {.elements = 6}}};
}

// Two buckets of one gradient each, the second one first. Whose plan it is, is seen from what it has.
void reads_form(const std::vector<json>& plans, bool is_own, const char* requirement) {
  for (const json& plan : plans) {
    const bucketing::ReadPlan read = bucketing::plan_of_any_form(plan, two_gradients());
    std::vector<int> members;
    for (const auto& member : read.plan.members) members.push_back(member.gradient);
    EXPECT_THAT(members, ElementsAre(1, 0)) << requirement << ": " << plan.dump();
    EXPECT_EQ(read.plan.buckets.size(), 2U) << requirement << ": " << plan.dump();
    EXPECT_EQ(read.form.empty(), is_own) << requirement << ": whose form it is";
  }
}

void own_form(Context&) {
  const auto bucket = [](int gradient, int elements) {
    return json{{"dtype", "f32"}, {"elements", elements}, {"members", json::array({json::array({gradient, 0})})}};
  };
  reads_form({{{"buckets", {bucket(1, 6), bucket(0, 4)}}}}, true, "BUCKET-219");
}
// An error begins with the field that is wrong.
void fields_first(Context&) {
  const std::vector<std::pair<json, const char*>> spoilt{
      {{{"schema", 2}, {"buckets", json::array()}}, "plan.schema"},
      {{{"buckets", json::array({{{"dtype", "f32"}, {"elements", 4}, {"members", json::array({json::array({1})})}}})}},
       "plan.buckets[0].members[0]"}};
  for (const auto& [plan, field] : spoilt)
    EXPECT_THAT(refusal<InvalidArgument>([&plan = plan] { (void)bucketing::plan_of_json(plan); }),
                testing::StartsWith(field))
        << "BUCKET-036: " << plan.dump();
  for (const char* field : {"member_alignment", "bucket_alignment"})
    EXPECT_THAT(refusal<InvalidArgument>([&] { (void)bucketing::alignment_of_json({{field, 0}}); }),
                testing::StartsWith(std::string("plan.") + field))
        << "BUCKET-036";
}
void torch_form(Context&) {
  const json rebuilt{{"rebuilt_per_bucket_param_indices", "1, 0"}};
  json sizes = rebuilt, count = rebuilt;
  sizes["rebuilt_bucket_sizes"] = "24, 16";
  count["num_parameter_tensors"] = 2;
  reads_form({rebuilt, sizes, count}, false, "BUCKET-031");
}
void megatron_form(Context&) {
  reads_form({{{"param_index", {{6, 10, 1}, {0, 6, 0}}}, {"bucket_indices", {{0, 6}, {6, 10}}}}}, false, "BUCKET-032");
}
void paddle_form(Context&) {
  const json groups = json::array({{{"gradients", {"b"}}}, {{"gradients", {"a"}}}});
  reads_form({groups, json{{"groups", groups}}}, false, "BUCKET-033");
}
void no_form(Context&) {
  for (const json& plan : {json(), json(3), json::object(), json{{"bucket", 1}}})
    EXPECT_NE(refusal<InvalidArgument>([&] { (void)bucketing::plan_of_any_form(plan, two_gradients()); }), kNotRefused)
        << "BUCKET-036: " << plan.dump();
}

}  // namespace

void add_plan_library_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes,
                       void (*body)(Context&)) {
    axes.push_back(suite::worlds({1, 3}));
    suite.add({.id = std::string("bucketing.planned.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .body = body});
  };
  add("buffers_of_types", "BUCKET-019@f6b8", {}, buffers_of_types);
  add("sharded_buffers_of_types", "BUCKET-018@ed67", {}, sharded_buffers_of_types);
  add("default_elements", "BUCKET-021@2767", {}, default_elements);
  add("buffers_refused", "BUCKET-022@3ed5", {}, buffers_refused);
  add("handlers_refuse", "BUCKET-220@1e82", {{"what", {"nothing", "sparse", "device_number", "device_kind"}}},
      handlers_refuse);
  add("some_in_order", "BUCKET-009@3989", {}, some_in_order);
  add("bad_gradients", "BUCKET-009@3989",
      {{"wrong", {"nothing", "no_numbers", "three_numbers", "elements", "group", "bytes", "sum"}}}, bad_gradients);
  add("ready_in_time", "BUCKET-221@9eda", {}, ready_in_time);
  add("latency_alone", "BUCKET-034@2337", {}, latency_alone);
  add("times_refused", "BUCKET-037@190f", {}, times_refused);
  add("tables", "BUCKET-219@a1a3", {}, tables);
  add("spoilt_tables", "BUCKET-036@ec8f", {}, spoilt_tables);
  add("own_form", "BUCKET-219@a1a3", {}, own_form);
  add("fields_first", "BUCKET-036@ec8f", {}, fields_first);
  add("torch_form", "BUCKET-031@b0fe", {}, torch_form);
  add("megatron_form", "BUCKET-032@166d", {}, megatron_form);
  add("paddle_form", "BUCKET-033@0e95", {}, paddle_form);
  add("no_form", "BUCKET-036@ec8f", {}, no_form);
}

}  // namespace plumbline::conformance

// What a reducer and its hooks reject when they are made, and calls out of turn: each beside what differs from it in
// that alone, which is accepted.
#include <array>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/support/refusal.hpp"
#include "conformance/support/words.hpp"
#include "reference/bucketing/compression.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using bucketing::Gradient;
using bucketing::GradientMemory;
using bucketing::PowerSgd;
using bucketing::PowerSgdOptions;
using bucketing::Reducer;
using bucketing::Results;
using bucketing::Unused;
using comm::Buffer;
using comm::DType;
using suite::Context;

namespace {

// Whether a part is accepted, or refused as InvalidArgument, OutOfRange or Unsupported.
std::string verdict(const std::function<void()>& part) {
  try {
    part();
  } catch (const InvalidArgument&) {
    return "invalid";
  } catch (const OutOfRange&) {
    return "out of range";
  } catch (const Unsupported&) {
    return "unsupported";
  } catch (const StateError&) {
    return "state";
  } catch (const Error& error) {
    return error.what();
  }
  return kNotRefused;
}

// ---- what a reducer is made of ----

// Of two gradients in one bucket, over the world.
struct MadeOf {
  comm::Communicator* world = nullptr;
  std::vector<comm::Communicator*> groups{world};
  std::vector<Gradient> gradients{{.elements = 12}, {.elements = 24}};
  bucketing::Plan plan{.buckets = {{.elements = 36, .members = 2}}, .members = {{0, 0}, {1, 12}}};
  bucketing::ReducerOptions options{};
  [[nodiscard]] std::string verdict() const {
    return conformance::verdict([&] { const Reducer reducer(groups, gradients, plan, options); });
  }
  [[nodiscard]] int ranks() const { return world->size(); }
  // Each gradient has a bucket of its own.
  void split_buckets() {
    plan.buckets = {{.elements = 12, .members = 1}, {.elements = 24, .first_member = 1, .members = 1}};
    plan.members = {{0, 0}, {1, 0}};
  }
  void make(DType dtype) {
    for (Gradient& one : gradients) one.dtype = dtype;
    for (bucketing::Bucket& one : plan.buckets) one.dtype = dtype;
  }
  void make_sparse(DType dtype = DType::f32) {
    make(dtype);
    split_buckets();
    gradients[1].sparse = plan.buckets[1].sparse = true;
    plan.buckets[0].dtype = plan.buckets[1].dtype = dtype;
  }
  void shard() { options.results = Results::sharded; }
};

using Change = std::function<void(MadeOf&)>;

// What is refused how, and its neighbours, which are accepted.
struct Choices {
  std::string how;
  std::vector<Change> refused, accepted;
};

bucketing::CommunicationHook any_hook() {
  return {.start = [](comm::Communicator&, const bucketing::HookedBucket&) { return comm::Work(); }, .finish = {}};
}
bucketing::Plan no_plan(std::span<const int>) { return {}; }

std::map<std::string, Choices> cases_of_options() {
  const auto two_groups = [](MadeOf& made) { made.groups.push_back(made.world); };
  const auto split = [](int before, int after) { return [=](MadeOf& made) { made.options.split = {before, after}; }; };
  const auto divisors = [](std::vector<int> list) { return [=](MadeOf& made) { made.options.divisors = list; }; };
  const auto with = [](const Change& first, const Change& second) {
    return [=](MadeOf& made) { first(made), second(made); };
  };
  const auto unused = [](Unused kind) { return [=](MadeOf& made) { made.options.unused = kind; }; };
  const Change copies = [](MadeOf& made) { made.options.memory = GradientMemory::copies; };
  const Change lazy = [](MadeOf& made) { made.options.lazy = true; };
  const Change joins = [](MadeOf& made) { made.options.join = true; };
  const Change rebuilds = [](MadeOf& made) { made.options.rebuild = no_plan; };
  const Change sums = [](MadeOf& made) { made.options.average = false; };
  const Change hooked = [](MadeOf& made) { made.options.hook = any_hook(); };
  const Change shards = [](MadeOf& made) { made.shard(); };
  const Change tells = [](MadeOf& made) { made.options.reduced = [](int) {}; };
  const Change present = [](MadeOf& made) { made.options.join_divisor = bucketing::JoinDivisor::present_ranks; };
  const Change whole = [](MadeOf& made) { made.options.split = {made.ranks(), 1}; };
  const Change one_divisor = divisors({1});
  const auto wire = [](DType dtype, int buffers) {
    return [=](MadeOf& made) { made.options.wire = dtype, made.options.wire_buffers = buffers; };
  };
  const auto across = [](std::size_t count) {
    return [=](MadeOf& made) { made.shard(), made.options.inter_instance.assign(count, made.world); };
  };
  return {
      {"groups",
       {"invalid",
        {[](MadeOf& made) { made.groups.clear(); }, [](MadeOf& made) { made.groups = {nullptr}; }},
        {two_groups}}},
      {"names",
       {"invalid",
        {[](MadeOf& made) { made.options.names = {"a"}; }, [](MadeOf& made) { made.options.names = {"a", "b", "c"}; }},
        {[](MadeOf& made) { made.options.names = {"a", "b"}; }}}},
      {"lazy", {"invalid", {lazy}, {with(lazy, copies)}}},
      {"one_group", {"invalid", {with(joins, two_groups), with(rebuilds, two_groups)}, {joins, rebuilds}}},
      {"split",
       {"invalid",
        {[](MadeOf& made) { made.options.split = {1, made.ranks() + 1}; },
         [](MadeOf& made) { made.options.split = {made.ranks() + 1, 1}; },
         [](MadeOf& made) { made.options.split = {1, made.ranks() - 1}; },
         [](MadeOf& made) { made.options.split = {-1, -made.ranks()}; }, split(0, 0), with(whole, present),
         [](MadeOf& made) {
           const auto alone = made.world->create_group(std::vector{made.world->rank()});
           made.groups.push_back(alone.get());
           made.options.split = {1, made.ranks() > 1 ? made.ranks() : 2};
           Reducer(made.groups, made.gradients, made.plan, made.options);
         }},
        {whole, [](MadeOf& made) { made.options.split = {1, made.ranks()}; }, present}}},
      {"divisors",
       {"invalid",
        {divisors({0}), divisors({1, 1}), with(two_groups, one_divisor), with(two_groups, divisors({1, 0})),
         with(one_divisor, sums), with(one_divisor, whole), with(one_divisor, joins)},
        {one_divisor, with(two_groups, divisors({1, 1})), divisors({7}), sums, joins}}},
      {"wire",
       {"invalid",
        {wire(DType::i32, 2), wire(DType::u8, 2), wire(DType::bf16, 0), with(wire(DType::bf16, 2), hooked)},
        {wire(DType::bf16, 1), wire(DType::f64, 2), hooked, [](MadeOf& made) { made.options.wire_buffers = 0; }}}},
      {"sharded",
       {"invalid",
        {with(shards, copies), with(shards, hooked), with(shards, rebuilds), with(shards, unused(Unused::find_unused)),
         with(shards, unused(Unused::static_graph))},
        {shards, copies, with(shards, unused(Unused::zeros)), with(shards, joins)}}},
      {"instances",
       {"invalid",
        {across(2), [](MadeOf& made) { made.shard(), made.options.inter_instance = {nullptr}; },
         [](MadeOf& made) { made.options.inter_instance = {made.world}; }, with(across(1), joins)},
        {across(1), with(across(2), two_groups)}}},
      {"told",
       {"invalid",
        {with(tells, unused(Unused::find_unused)), with(tells, unused(Unused::static_graph))},
        {tells, with(tells, unused(Unused::zeros)), unused(Unused::find_unused), unused(Unused::static_graph)}}},
      {"join", {"invalid", {with(joins, unused(Unused::static_graph))}, {with(joins, unused(Unused::find_unused))}}}};
}

std::map<std::string, Choices> cases_of_gradients() {
  const auto elements = [](std::int64_t count) {
    return [=](MadeOf& made) {
      made.split_buckets();
      made.gradients[1].elements = count;
    };
  };
  const auto components = [](std::int8_t count) {
    return [=](MadeOf& made) {
      for (Gradient& one : made.gradients) one.components_per_element = count;
      for (bucketing::Bucket& one : made.plan.buckets) one.components_per_element = count;
    };
  };
  const auto group = [](int number) {
    return [=](MadeOf& made) {
      made.split_buckets();
      made.gradients[1].group = made.plan.buckets[1].group = number;
    };
  };
  const auto sparse = [](DType dtype) { return [=](MadeOf& made) { made.make_sparse(dtype); }; };
  const Change of_two_groups = [](MadeOf& made) {
    made.split_buckets();
    made.groups.push_back(made.world);
    made.gradients[1].group = made.plan.buckets[1].group = 1;
  };
  return {{"elements", {"invalid", {elements(-1), elements(25)}, {elements(0), elements(24)}}},
          {"components", {"invalid", {components(0), components(3), components(-1)}, {components(1), components(2)}}},
          {"group", {"invalid", {group(-1), group(1)}, {group(0), of_two_groups}}},
          {"sparse_type",
           {"unsupported", {sparse(DType::f16), sparse(DType::bf16)}, {sparse(DType::f32), sparse(DType::f64)}}},
          {"sparse",
           {"unsupported",
            {[](MadeOf& made) { made.make_sparse(), made.options.hook = any_hook(); },
             [](MadeOf& made) { made.make_sparse(), made.shard(); }},
            {sparse(DType::f32), [](MadeOf& made) { made.shard(); }}}},
          {"device",
           {"unsupported",
            {[](MadeOf& made) {
              for (Gradient& one : made.gradients) one.device = {comm::Device::Kind::emulated, 0};
              for (bucketing::Bucket& one : made.plan.buckets) one.device = {comm::Device::Kind::emulated, 0};
            }},
            {[](MadeOf&) {}}}},
          {"average",
           {"unsupported",
            {[](MadeOf& made) { made.make(DType::i32); }},
            {[](MadeOf& made) { made.make(DType::i32), made.options.average = false; },
             [](MadeOf& made) { made.make(DType::i32), made.options.hook = any_hook(); },
             [](MadeOf& made) { made.make(DType::f16); }}}}};
}

std::map<std::string, Choices> cases_of_plans() {
  const auto bucket = [](auto change) { return [=](MadeOf& made) { change(made.plan.buckets[0]); }; };
  const auto member = [](std::size_t which, int gradient, std::int64_t begin) {
    return [=](MadeOf& made) { made.plan.members[which] = {gradient, begin}; };
  };
  // Memory is taken later, so that a bucket of very many elements is possible.
  const auto large = [](std::int64_t more) {
    return [=](MadeOf& made) {
      made.options.memory = GradientMemory::copies;
      made.options.lazy = true;
      made.plan.buckets[0].elements = std::numeric_limits<std::int64_t>::max() / 4 + more;
    };
  };
  const auto padded = [](int by_ranks, int more) {
    return [=](MadeOf& made) { made.shard(), made.plan.buckets[0].elements = 36 * by_ranks * made.ranks() + more; };
  };
  std::map<std::string, Choices> cases{
      {"members",
       {"invalid",
        {bucket([](auto& one) { one.first_member = -1; }), bucket([](auto& one) { one.members = -1; }),
         bucket([](auto& one) { one.members = 3; }), bucket([](auto& one) { one.first_member = 1; })},
        {bucket([](auto& one) { one.members = 1; }), bucket([](auto& one) { one.first_member = one.members = 1; }),
         bucket([](auto& one) { one.members = 0; })}}},
      {"bucket",
       {"invalid",
        {bucket([](auto& one) { one.elements = -1, one.members = 0; }), large(1),
         bucket([](auto& one) { one.components_per_element = 0, one.members = 0; }),
         bucket([](auto& one) { one.components_per_element = 3, one.members = 0; }),
         bucket([](auto& one) { one.group = 1, one.members = 0; }),
         bucket([](auto& one) { one.group = -1, one.members = 0; })},
        {bucket([](auto& one) { one.elements = 0, one.members = 0; }), large(0),
         bucket([](auto& one) { one.components_per_element = 2, one.members = 0; })}}},
      {"which", {"invalid", {member(1, 2, 12), member(1, -1, 12), member(1, 0, 12)}, {member(0, 0, 0)}}},
      {"where",
       {"invalid",
        {member(1, 1, 11), member(1, 1, 13), member(0, 0, -1), member(0, 0, 1), member(1, 1, 36), member(0, 0, 36)},
        {[](MadeOf& made) { made.plan.members = {{1, 0}, {0, 24}}; },
         [](MadeOf& made) { made.plan.members = {{0, 24}, {1, 0}}; },
         [](MadeOf& made) { made.plan.buckets[0].elements = 40, made.plan.members[1].begin = 16; }}}},
      {"kind",
       {"invalid",
        {bucket([](auto& one) { one.dtype = DType::f64; }), bucket([](auto& one) { one.components_per_element = 2; }),
         bucket([](auto& one) { one.device = {comm::Device::Kind::cuda, 0}; }),
         [](MadeOf& made) { made.groups.push_back(made.world), made.plan.buckets[0].group = 1; },
         [](MadeOf& made) { made.gradients[1].sparse = true; }},
        {[](MadeOf& made) { made.make_sparse(); }}}},
      {"twice",
       {"invalid",
        {[](MadeOf& made) {
          made.split_buckets();
          made.plan.members[1] = {0, 0};
        }},
        {[](MadeOf& made) { made.split_buckets(); }}}}};
  cases["shards"] = {"invalid", {padded(1, 1), padded(1, -1)}, {padded(1, 0), padded(2, 0)}};
  return cases;
}

const std::map<std::string, Choices>& cases_of(const std::string& what) {
  static const std::map<std::string, std::map<std::string, Choices>> all{
      {"options", cases_of_options()}, {"gradients", cases_of_gradients()}, {"plans", cases_of_plans()}};
  return all.at(what);
}

void made_of(Context& context) {
  for (const auto& [name, one] : cases_of(context.parameters().text("of"))) {
    // Of one rank every number of elements is shared out in equal parts.
    if (name == "shards" && context.size() == 1) continue;
    for (std::size_t i = 0; i < one.accepted.size(); ++i) {
      MadeOf made{.world = &context.world()};
      one.accepted[i](made);
      EXPECT_EQ(made.verdict(), kNotRefused) << "BUCKET-216: " << name << ", possible choice " << i;
    }
    for (std::size_t i = 0; i < one.refused.size(); ++i)
      EXPECT_EQ(verdict([&] {
                  MadeOf made{.world = &context.world()};
                  one.refused[i](made);
                  const Reducer reducer(made.groups, made.gradients, made.plan, made.options);
                }),
                one.how)
          << "BUCKET-216: " << name << ", wrong choice " << i;
  }
}

// ---- what errors say, in numbers ----

std::string words_of_error(const std::function<void()>& part) {
  try {
    part();
  } catch (const Error& error) {
    return error.what();
  }
  return kNotRefused;
}

struct Worded {
  Change change;
  std::vector<std::int64_t> numbers;  // after the rank's
};

std::vector<Worded> options_in_numbers(int ranks) {
  return {{[](MadeOf& made) { made.options.names = {"a"}; }, {1, 2}},
          {[=](MadeOf& made) { made.options.split = {3, ranks + 5}; }, {3, ranks + 5, ranks}},
          {[](MadeOf& made) { made.options.divisors = {7, 8, 9}; }, {3, 1}},
          {[](MadeOf& made) { made.options.divisors = {-4}; }, {-4}},
          {[](MadeOf& made) { made.options.wire = DType::bf16, made.options.wire_buffers = -3; }, {-3}},
          {[](MadeOf& made) { made.shard(), made.options.inter_instance.assign(2, made.world); }, {2, 1}}};
}

// Of gradients in no bucket, where the plan says nothing about them.
std::vector<Worded> gradients_in_numbers() {
  const auto of_second = [](const std::function<void(Gradient&)>& change) {
    return [=](MadeOf& made) { made.plan = {}, change(made.gradients[1]); };
  };
  return {{[](MadeOf& made) { made.plan = {}, made.gradients[0].elements = -5; }, {0, -5}},
          {of_second([](Gradient& one) { one.elements = -5; }), {1, -5}},
          {of_second([](Gradient& one) { one.components_per_element = 3; }), {1, 3}},
          {of_second([](Gradient& one) { one.components_per_element = 0; }), {1, 0}},
          {of_second([](Gradient& one) { one.group = 4; }), {1, 4, 1}},
          {of_second([](Gradient& one) { one.sparse = true, one.dtype = DType::f16; }), {1}},
          {of_second([](Gradient& one) { one.sparse = true, one.dtype = DType::bf16; }), {1}},
          {of_second([](Gradient& one) { one.sparse = true, one.dtype = DType::i32; }), {1}},
          {of_second([](Gradient& one) { one.device = {comm::Device::Kind::emulated, 3}; }), {1, 3}}};
}

std::vector<Worded> plans_in_numbers(int ranks) {
  const auto bucket = [](const std::function<void(bucketing::Bucket&)>& change) {
    return [=](MadeOf& made) { change(made.plan.buckets[0]); };
  };
  const auto member = [](int gradient, std::int64_t begin) {
    return [=](MadeOf& made) { made.plan.members[1] = {gradient, begin}; };
  };
  std::vector<Worded> list{
      {bucket([](auto& one) { one.elements = -6; }), {-6, 1}},
      {bucket([](auto& one) { one.group = 3; }), {3, 1}},
      {bucket([](auto& one) { one.device = {comm::Device::Kind::cuda, 4}; }), {0, 4}},
      {bucket([](auto& one) { one.dtype = DType::f16; }), {0}},
      {bucket([](auto& one) { one.dtype = DType::f64; }), {0}},
      {member(7, 12), {7, 2}},
      {member(2, 12), {2, 2}},
      {member(0, 12), {0}},
      {member(1, 11), {1, 24, 11, 36, 12}},
      {member(1, 13), {1, 24, 13, 36, 12}},
      {[](MadeOf& made) { made.gradients[1].components_per_element = 2; }, {1, 2}},
      {[](MadeOf& made) { made.gradients[1].sparse = true; }, {1, 1}},
      {[](MadeOf& made) { made.groups.push_back(made.world), made.gradients[1].group = 1; }, {1, 1, 0}},
      {[](MadeOf& made) { made.groups.push_back(made.world), made.plan.buckets[0].group = 1; }, {0, 0, 1}}};
  if (ranks > 1)
    list.push_back(
        {[=](MadeOf& made) { made.shard(), made.plan.buckets[0].elements = 36 * ranks + 1; }, {36 * ranks + 1, ranks}});
  return list;
}

void made_of_in_numbers(Context& context) {
  const std::string& of = context.parameters().text("of");
  const std::vector<Worded> list = of == "options"     ? options_in_numbers(context.size())
                                   : of == "gradients" ? gradients_in_numbers()
                                                       : plans_in_numbers(context.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    MadeOf made{.world = &context.world()};
    list[i].change(made);
    std::vector<std::int64_t> expected{context.rank()};
    expected.insert(expected.end(), list[i].numbers.begin(), list[i].numbers.end());
    const std::string said =
        words_of_error([&] { const Reducer reducer(made.groups, made.gradients, made.plan, made.options); });
    EXPECT_EQ(missing_numbers(said, expected), "") << "BUCKET-224: choice " << i;
  }
}

// Rows of a gradient of 6 numbers.
void rows_in_numbers(Context& context) {
  struct Rows {
    std::vector<std::int64_t> indices;
    std::vector<float> values;
    std::vector<std::int64_t> numbers;
  };
  const std::vector<Rows> list{{{0, 1}, std::vector<float>(7), {7, 2}},   {{}, std::vector<float>(3), {3, 0}},
                               {{0}, std::vector<float>(4), {4, 6}},      {{1, 2}, std::vector<float>(6), {2, 0, 1}},
                               {{-5}, std::vector<float>(2), {-5, 0, 2}}, {{0, 7}, std::vector<float>(6), {7, 0, 1}}};
  const auto own = context.world().create_group(std::vector{context.rank()});
  const std::vector<Gradient> gradients{{.elements = 5}, {.elements = 6, .sparse = true}};
  Reducer reducer({own.get()}, gradients, bucketing::plan_unfused(gradients));
  reducer.begin();
  for (const Rows& one : list) {
    std::vector<std::int64_t> expected{0, 1};  // the rank of its own group, and the gradient
    expected.insert(expected.end(), one.numbers.begin(), one.numbers.end());
    const std::string said = words_of_error(
        [&] { reducer.ready(1, {.indices = one.indices, .values = comm::ConstBuffer::of(one.values)}); });
    EXPECT_EQ(missing_numbers(said, expected), "") << "BUCKET-224";
  }
}

// A bucket for integers that no gradient has is reduced with others that are averaged; a gradient in no bucket is never
// waited for, also where the first step said which there are.
void spare_parts(Context& context) {
  const std::vector<Gradient> gradients{{.elements = 3}, {.elements = 5}, {.elements = 4}};
  const bucketing::Plan plan{.buckets = {{.elements = 3, .members = 1},
                                         {.elements = 6, .first_member = 1, .members = 0, .dtype = DType::i32},
                                         {.elements = 4, .first_member = 1, .members = 1}},
                             .members = {{0, 0}, {2, 0}}};
  Reducer reducer({&context.world()}, gradients, plan, {.unused = Unused::static_graph});
  for (int step = 0; step < 3; ++step) {
    reducer.begin();
    for (const int gradient : {0, 2}) {
      static_cast<float*>(reducer.view(gradient).data)[0] = static_cast<float>(2 * gradient + 7);
      reducer.ready(gradient);
    }
    const bucketing::Outcome outcome = reducer.finish();
    EXPECT_EQ(outcome.produced, (std::vector<bool>{true, false, true})) << "BUCKET-107: step " << step;
    EXPECT_EQ(outcome.copied_in, 0) << "BUCKET-058: bytes of gradients that are made in their buckets";
    std::vector<std::int64_t> elements;
    std::vector<int> ready;
    for (const bucketing::Launch& launch : outcome.launches) {
      if (launch.what != bucketing::Launch::What::bucket) continue;
      elements.push_back(launch.elements);
      ready.push_back(launch.ready_before);
    }
    EXPECT_THAT(elements, testing::ElementsAre(3, 6, 4)) << "BUCKET-058: step " << step;
    EXPECT_EQ(ready.back(), 2) << "BUCKET-107: gradients that there were before the last bucket";
    for (const int gradient : {0, 2})
      EXPECT_EQ(static_cast<const float*>(reducer.view(gradient).data)[0], static_cast<float>(2 * gradient + 7))
          << "BUCKET-058: the mean of gradient " << gradient;
    reducer.clear();
  }
}

// Eight names are read at a glance; of more, how many there are.
void late_in_numbers(Context& context) {
  const auto missing = static_cast<int>(context.parameters().number("missing"));
  const auto own = context.world().create_group(std::vector{context.rank()});
  const std::vector<Gradient> gradients(static_cast<std::size_t>(missing + 1), {.elements = 5});
  std::vector<std::string> names;
  for (int i = 0; i <= missing; ++i) names.push_back(fmt::format("layer{}", i));
  Reducer reducer({own.get()}, gradients, bucketing::plan_unfused(gradients), {.names = names});
  reducer.begin();
  reducer.ready(missing);
  const std::string said = words_of_error([&] { (void)reducer.finish(); });
  EXPECT_EQ(verdict([&] { reducer.clear(); }), kNotRefused) << "BUCKET-224: the step that failed ends";
  names.pop_back();
  const int listed = missing - static_cast<int>(std::ranges::count_if(
                                   names, [&](const std::string& name) { return !has_word(said, name); }));
  EXPECT_EQ(missing_numbers(said, {0, missing, missing + 1}), "") << "BUCKET-224";
  EXPECT_GE(listed, std::min(missing, 8)) << "BUCKET-224: names in " << said;
  if (listed < missing) {
    EXPECT_EQ(missing_numbers(said, {missing, missing - listed}), "") << "BUCKET-224: others";
  }
}

// ---- what hooks are made of ----

void hooks_made_of(Context& context) {
  const double infinite = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();
  const auto expect = [](const char* how, const std::function<void()>& part, const char* what) {
    EXPECT_EQ(verdict(part), how) << "BUCKET-216: " << what;
  };
  if (context.parameters().text("hook") == "bytes") {
    for (const int channel : {0, 1, 512})
      expect(kNotRefused, [&] { (void)bucketing::quantising_hook(channel); }, "numbers of a channel");
    return expect("invalid", [] { (void)bucketing::quantising_hook(-1); }, "numbers of a channel below 0");
  }
  const auto sgd = [](const bucketing::MatrixShape& shape, const PowerSgdOptions& options) {
    return [=] { const PowerSgd made({{3, 4}, shape}, options); };
  };
  for (const PowerSgdOptions& options :
       {PowerSgdOptions{}, PowerSgdOptions{.rank = 1, .start = 0, .least_rate = 0, .epsilon = 0},
        PowerSgdOptions{.rank = 9, .start = 1, .least_rate = 0.5, .epsilon = 1}})
    expect(kNotRefused, sgd({5, 6}, options), "options");
  for (const PowerSgdOptions& options :
       {PowerSgdOptions{.rank = 0}, PowerSgdOptions{.rank = -1}, PowerSgdOptions{.start = -1},
        PowerSgdOptions{.least_rate = -0.5}, PowerSgdOptions{.least_rate = none},
        PowerSgdOptions{.least_rate = infinite}, PowerSgdOptions{.epsilon = -1e-9}, PowerSgdOptions{.epsilon = none},
        PowerSgdOptions{.epsilon = infinite}})
    expect("invalid", sgd({5, 6}, options), "options out of range");
  for (const auto& [rows, columns] : {std::pair{0, 0}, std::pair{0, 7}, std::pair{7, 0}, std::pair{1, 1}})
    expect(kNotRefused, sgd({rows, columns}, {}), "shapes");
  for (const auto& [rows, columns] : {std::pair{-1, 7}, std::pair{7, -1}, std::pair{-2, -3}})
    expect("invalid", sgd({rows, columns}, {}), "shapes below 0");
}

void hook_of_strangers(Context&) {
  const PowerSgd two({{3, 4}, {5, 6}});
  for (const int gradient : {0, 1}) EXPECT_TRUE(two.error(gradient).empty()) << "BUCKET-217: nothing was compressed";
  for (const int gradient : {-1, 2})
    EXPECT_EQ(verdict([&] { (void)two.error(gradient); }), "out of range") << "BUCKET-217: gradient " << gradient;
}

// What a bucket's gradients are, beside the shapes that PowerSGD was given of them.
void shapes_fit(Context& context) {
  const auto own = context.world().create_group(std::vector{context.rank()});
  const auto compressed = [&](std::int64_t elements, const std::vector<bucketing::MatrixShape>& shapes,
                              std::int8_t components = 1) {
    return verdict([&] {
      const PowerSgd sgd(shapes, {.start = 0});
      const std::vector<Gradient> gradients{{.elements = elements, .components_per_element = components}};
      bucketing::Plan plan{.buckets = {{.elements = elements, .members = 1, .components_per_element = components}},
                           .members = {{0, 0}}};
      Reducer reducer({own.get()}, gradients, plan, {.hook = sgd.hook()});
      reducer.begin();
      reducer.ready(0);
      (void)reducer.finish();
    });
  };
  constexpr std::int64_t huge = std::int64_t{1} << 32;  // huge x huge has no bits of 64
  for (const auto& [elements, rows, columns] :
       std::vector<std::array<std::int64_t, 3>>{{200, 10, 20}, {200, 200, 1}, {0, 0, 7}, {0, 7, 0}, {0, 0, 0}})
    EXPECT_EQ(compressed(elements, {{rows, columns}}), kNotRefused)
        << "BUCKET-216: " << elements << " elements as " << rows << " x " << columns;
  for (const auto& [elements, rows, columns] : std::vector<std::array<std::int64_t, 3>>{{200, 10, 19},
                                                                                        {200, 10, 21},
                                                                                        {200, 9, 20},
                                                                                        {200, 11, 20},
                                                                                        {200, 0, 20},
                                                                                        {200, 20, 0},
                                                                                        {0, 10, 20},
                                                                                        {0, huge, huge}})
    EXPECT_EQ(compressed(elements, {{rows, columns}}), "invalid")
        << "BUCKET-216: " << elements << " elements as " << rows << " x " << columns;
  EXPECT_EQ(compressed(200, {}), "invalid") << "BUCKET-216: no shape";
  EXPECT_EQ(compressed(200, {{10, 20}}, 2), "invalid") << "BUCKET-216: elements of two numbers";
}

// A bucket that is given to the hook itself.
void shapes_have_room(Context& context) {
  const auto own = context.world().create_group(std::vector{context.rank()});
  const std::vector<Gradient> known{{.elements = 200}};
  const auto started = [&](int gradient, std::int64_t begin, std::span<const Gradient> gradients) {
    return verdict([&] {
      const PowerSgd sgd({{10, 20}, {10, 20}});
      std::vector<float> values(210);
      const std::vector<bucketing::Member> members{{gradient, begin}};
      sgd.hook()
          .start(*own, {.index = 0, .values = Buffer::of(values), .members = members, .gradients = gradients})
          .wait();
    });
  };
  for (const std::int64_t begin : {0, 9, 10})
    EXPECT_EQ(started(0, begin, known), kNotRefused) << "BUCKET-216: 200 of 210 numbers from " << begin << " on";
  for (const std::int64_t begin : {11, 210})
    EXPECT_EQ(started(0, begin, known), "invalid") << "BUCKET-216: 200 of 210 numbers from " << begin << " on";
  EXPECT_EQ(started(1, 0, known), "invalid") << "BUCKET-216: a gradient whose elements are unknown";
  EXPECT_EQ(started(0, 0, {}), "invalid") << "BUCKET-216: no gradients";
}

// ---- numbers that are not to be reduced ----

// One that is too large, at each end and in the middle; of integers none is looked at.
void largest_of_type(Context& context) {
  const DType dtype = *comm::parse_dtype(context.parameters().text("dtype"));
  const auto own = context.world().create_group(std::vector{context.rank()});
  const auto said = [&](std::size_t at, double value) {
    std::vector<double> wide{1, -100, 2, 100, 0};
    wide[at] = value;
    std::vector<std::int32_t> whole(wide.begin(), wide.end());
    std::vector<std::byte> memory(5 * comm::size_of(dtype));
    Buffer values{memory.data(), 5, dtype};
    if (dtype == DType::i32)
      values.data = whole.data();
    else
      bucketing::copy_divided(Buffer::of(wide), values, 1);
    const std::vector<Gradient> gradients{{.elements = 5, .dtype = dtype}};
    Reducer reducer({own.get()}, gradients, bucketing::plan_unfused(gradients),
                    {.memory = GradientMemory::copies, .average = false, .largest = 100});
    return refusal<InvalidArgument>([&] {
      reducer.begin();
      reducer.ready(0, values);
    });
  };
  EXPECT_EQ(said(4, 100), kNotRefused) << "BUCKET-102: the largest that is possible";
  EXPECT_EQ(said(0, -100), kNotRefused) << "BUCKET-102: the lowest that is possible";
  for (const std::size_t at : {0, 2, 4})
    for (const double value : {104.0, -104.0})
      if (dtype == DType::i32)
        EXPECT_EQ(said(at, value), kNotRefused) << "BUCKET-102: integers";
      else
        EXPECT_EQ(missing_numbers(said(at, value), {static_cast<int>(value), static_cast<std::int64_t>(at), 100}), "")
            << "BUCKET-102: the number, the element, and what is possible";
}

// ---- calls out of turn ----

// A dense gradient, a sparse one and a dense one, each in a bucket, of this rank alone.
class Alone {
 public:
  Alone(Context& context, bucketing::ReducerOptions options)
      : own_(context.world().create_group(std::vector{context.rank()})),
        gradients_{{.elements = 5}, {.elements = 6, .sparse = true}, {.elements = 4}},
        reducer_({own_.get()}, gradients_, bucketing::plan_unfused(gradients_), std::move(options)) {}

  Reducer& operator*() { return reducer_; }
  Reducer* operator->() { return &reducer_; }
  void make(int gradient) {
    if (gradient != 1) {
      const Buffer view = reducer_.view(gradient);
      for (std::int64_t at = 0; at < view.count; ++at) static_cast<float*>(view.data)[at] = number(gradient, at);
    }
    say(gradient);
  }
  void say(int gradient) {
    if (gradient == 1)
      reducer_.ready(gradient, {.indices = indices_, .values = comm::ConstBuffer::of(row_)});
    else
      reducer_.ready(gradient);
  }
  void expect_results() {
    for (const int gradient : {0, 2}) {
      const Buffer view = reducer_.view(gradient);
      for (std::int64_t at = 0; at < view.count; ++at)
        EXPECT_EQ(static_cast<const float*>(view.data)[at], number(gradient, at))
            << "BUCKET-217: gradient " << gradient << " after calls that were refused";
    }
    const bucketing::SparseRows rows = reducer_.rows(1);
    ASSERT_EQ(rows.values.count, 3) << "BUCKET-217: the sparse gradient after calls that were refused";
    EXPECT_EQ(rows.indices.front(), 1) << "BUCKET-217: its row";
  }
  void refuses(const char* how, const char* what, const std::function<void(Reducer&)>& call) {
    EXPECT_EQ(verdict([&] { call(reducer_); }), how) << "BUCKET-217: " << what;
  }
  [[nodiscard]] bucketing::Plan plan() const { return bucketing::plan_unfused(gradients_); }

 private:
  static float number(int gradient, std::int64_t at) { return static_cast<float>(10 * gradient + at); }

  std::unique_ptr<comm::Communicator> own_;
  std::vector<Gradient> gradients_;
  std::vector<std::int64_t> indices_{1};
  std::vector<float> row_{1, 2, 3};
  Reducer reducer_;
};

void refuse_outside(Alone& alone) {
  alone.refuses("state", "ready outside of a pass", [](Reducer& one) { one.ready(0); });
  alone.refuses("state", "the end of no pass", [](Reducer& one) { (void)one.finish(); });
  alone.refuses("state", "unused outside of a pass", [](Reducer& one) { one.mark_unused(0); });
}
void refuse_inside(Alone& alone, bool synchronises) {
  alone.refuses("state", "a pass in a pass", [=](Reducer& one) { one.begin({.synchronise = synchronises}); });
  alone.refuses("state", "a step that ends in a pass", [](Reducer& one) { one.clear(); });
  alone.refuses("state", "another plan in a pass", [&](Reducer& one) { one.use(alone.plan()); });
}
void refuse_strangers(Alone& alone) {
  for (const int stranger : {-1, 3}) {
    alone.refuses("out of range", "ready", [=](Reducer& one) { one.ready(stranger); });
    alone.refuses("out of range", "unused", [=](Reducer& one) { one.mark_unused(stranger); });
    alone.refuses("out of range", "a view", [=](Reducer& one) { (void)one.view(stranger); });
    alone.refuses("out of range", "rows", [=](Reducer& one) { (void)one.rows(stranger); });
    alone.refuses("out of range", "results", [=](Reducer& one) { (void)one.results(stranger); });
  }
  alone.refuses("invalid", "rows of a dense gradient", [](Reducer& one) { (void)one.rows(0); });
  alone.refuses("invalid", "a view of a sparse one", [](Reducer& one) { (void)one.view(1); });
  alone.refuses("invalid", "results of a sparse one", [](Reducer& one) { (void)one.results(1); });
}

void out_of_turn(Context& context) {
  Alone alone(context, {.average = false, .unused = Unused::zeros});
  for (int step = 0; step < 2; ++step) {
    for (const bool synchronises : {false, true}) {
      refuse_outside(alone);
      alone->begin({.synchronise = synchronises});
      refuse_inside(alone, synchronises);
      for (const int gradient : {2, 1, 0}) {
        alone.make(gradient);
        alone.refuses("state", "ready twice", [&](Reducer&) { alone.say(gradient); });
        alone.refuses("state", "unused after it was ready", [=](Reducer& one) { one.mark_unused(gradient); });
      }
      refuse_strangers(alone);
      (void)alone->finish();
    }
    alone.refuses("state", "a pass after the one that reduced", [](Reducer& one) { one.begin(); });
    alone.refuses("state", "another pass that adds", [](Reducer& one) { one.begin({.synchronise = false}); });
    refuse_outside(alone);
    alone.expect_results();
    for (const int bucket : {0, 2})
      EXPECT_EQ(alone->results(bucket).count, bucket == 0 ? 5 : 4) << "BUCKET-217: results of bucket " << bucket;
    alone->clear();
  }
  alone.refuses("state", "ranks that were not to join", [](Reducer& one) { (void)one.join_step(); });
}

void unused_out_of_turn(Context& context) {
  const std::string kind = context.parameters().text("unused");
  const std::map<std::string, Unused> kinds{{"none", Unused::none},
                                            {"zeros", Unused::zeros},
                                            {"find_unused", Unused::find_unused},
                                            {"static_graph", Unused::static_graph}};
  Alone alone(context, {.unused = kinds.at(kind)});
  const bool is_said = kind == "zeros" || kind == "find_unused";
  alone.refuses(is_said ? kNotRefused : "invalid", "unused when a pass begins",
                [](Reducer& one) { one.begin({.synchronise = true, .unused = {2}}); });
  if (!is_said) alone->begin();
  alone.refuses(is_said ? kNotRefused : "invalid", "unused in a pass", [](Reducer& one) { one.mark_unused(0); });
  if (is_said) {
    alone.refuses(kNotRefused, "unused, said twice", [](Reducer& one) { one.mark_unused(0); });
    alone.refuses("state", "ready after it was unused", [](Reducer& one) { one.ready(0); });
    alone.refuses("state", "ready after it was unused from the start", [](Reducer& one) { one.ready(2); });
  }
  alone.make(1);
  if (!is_said) {
    alone.make(0);
    if (kind == "none") alone.make(2);
  }
  const bucketing::Outcome outcome = alone->finish();
  const bool finds = kind == "find_unused" || kind == "static_graph";
  const std::vector<bool> produced{!is_said || !finds, true, kind == "none" || kind == "zeros"};
  EXPECT_EQ(outcome.produced, produced) << "BUCKET-217: gradients that there are";
  alone->clear();
  if (kind != "static_graph") return;
  alone->begin();
  alone.refuses("state", "ready, which it was not in the first pass", [](Reducer& one) { one.ready(2); });
  for (const int gradient : {0, 1}) alone.make(gradient);
  EXPECT_EQ(alone->finish().produced, produced) << "BUCKET-217: gradients of the second step";
}

void without_memory(Context& context) {
  const bool lazy = context.parameters().text("memory") == "lazy";
  Alone alone(context, {.memory = GradientMemory::copies, .lazy = lazy});
  const char* const how = lazy ? "state" : kNotRefused;
  alone.refuses(how, "a view", [](Reducer& one) { (void)one.view(0); });
  alone.refuses(how, "results", [](Reducer& one) { (void)one.results(2); });
  alone->begin();
  alone.refuses("invalid", "a gradient that lies nowhere", [](Reducer& one) { one.ready(0); });
  std::vector<float> values{1, 2, 3, 4, 5};
  alone.refuses("invalid", "another device",
                [&](Reducer& one) { one.ready(0, {values.data(), 5, DType::f32, {comm::Device::Kind::cuda, 0}}); });
  alone.refuses(kNotRefused, "a gradient", [&](Reducer& one) { one.ready(0, Buffer::of(values)); });
  alone.refuses(kNotRefused, "a sparse one", [&](Reducer&) { alone.say(1); });
}

}  // namespace

void add_reducer_refusal_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds = {1, 3}) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("bucketing.reducer.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .body = body});
  };
  add("made_of", "BUCKET-216@7b9c", {{"of", {"options", "gradients", "plans"}}}, made_of);
  add("made_of_in_numbers", "BUCKET-224@55b2", {{"of", {"options", "gradients", "plans"}}}, made_of_in_numbers);
  add("rows_in_numbers", "BUCKET-224@55b2", {}, rows_in_numbers);
  add("late_in_numbers", "BUCKET-224@55b2", {{"missing", {"1", "8", "9", "11"}}}, late_in_numbers);
  suite.add({.id = "bucketing.reducer.spare_parts",
             .verifies = {"BUCKET-058@cdec", "BUCKET-107@dbe9"},
             .axes = {suite::worlds({1, 3})},
             .body = spare_parts});
  add("hooks_made_of", "BUCKET-216@7b9c", {{"hook", {"bytes", "powersgd"}}}, hooks_made_of);
  add("hook_of_strangers", "BUCKET-217@532e", {}, hook_of_strangers);
  add("shapes_fit", "BUCKET-216@7b9c", {}, shapes_fit);
  add("shapes_have_room", "BUCKET-216@7b9c", {}, shapes_have_room);
  add("largest_of_type", "BUCKET-102@7bfa", {{"dtype", {"f16", "bf16", "f32", "f64", "i32"}}}, largest_of_type);
  add("out_of_turn", "BUCKET-217@532e", {}, out_of_turn);
  add("unused_out_of_turn", "BUCKET-217@532e", {{"unused", {"none", "zeros", "find_unused", "static_graph"}}},
      unused_out_of_turn);
  add("without_memory", "BUCKET-217@532e", {{"memory", {"kept", "lazy"}}}, without_memory);
}

}  // namespace plumbline::conformance

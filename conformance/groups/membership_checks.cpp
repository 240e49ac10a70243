// Who is in a mode's group, in which order, and that groups do not meet.
#include <algorithm>

#include <gtest/gtest.h>

#include "conformance/collectives/trials.hpp"
#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/worlds.hpp"
#include "reference/comm/errors.hpp"
#include "reference/groups/colossalai.hpp"
#include "reference/groups/conventions.hpp"
#include "reference/groups/megatron.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using comm::Operation;
using groups::Creation;
using groups::ParallelContext;
using suite::Context;
using suite::Parameters;

namespace {

bool sizes_are_of_the_world(const Parameters& parameters) {
  return AxisSizes::parse(parameters.text("sizes")).world() == parameters.world();
}

const std::vector<std::string> kSizes{"1x1x1", "2x1x1", "1x2x1", "1x1x2", "3x1x1", "1x3x1", "4x1x1",
                                      "3x2x1", "2x3x1", "1x2x3", "2x1x3", "4x2x1", "2x1x4", "2x2x2"};

void modes_members(Context& context) {
  const auto sizes = AxisSizes::parse(context.parameters().text("sizes"));
  const std::string& convention = context.parameters().text("convention");
  const Slowest slowest = convention == "colossalai" ? Slowest::data : Slowest::pipeline;
  const ParallelContext modes = context_over(
      context,
      groups::convention_plan(convention, {.pipeline = sizes.pipeline, .data = sizes.data, .tensor = sizes.tensor}));
  for (const char* mode : {"data", "pipeline", "tensor", "model"}) {
    const bool made = convention != "colossalai" || std::string_view(mode) != "pipeline" || sizes.pipeline > 1;
    ASSERT_EQ(modes.has(mode), made) << mode;
    if (made)
      expect_members(modes.communicator(mode), context.rank(), members_of(sizes, slowest, mode, context.rank()), mode);
  }
}

// ---- plans made by hand ----

std::vector<int> range(int from, int to) {
  std::vector<int> list;
  for (int rank = from; rank < to; ++rank) list.push_back(rank);
  return list;
}

std::vector<Creation> creations_named(const std::string& name, int n) {
  if (name == "strided") {
    std::vector<int> even;
    for (int rank = 0; rank < n; rank += 2) even.push_back(rank);
    return {{.mode = "STRIDED", .ranks = even}, {.mode = "STRIDED", .ranks = list_named("odd", n)}};
  }
  if (name == "overlapping")
    return {{.mode = "LOW", .ranks = range(0, n / 2 + 1)}, {.mode = "HIGH", .ranks = range(n / 2, n)}};
  if (name == "alone") {
    std::vector<Creation> creations;
    for (int rank = 0; rank < n; ++rank) creations.push_back({.mode = "ALONE", .ranks = {rank}});
    return creations;
  }
  // Some thirty kinds of groups, many of which have the same ranks, and one whose list does not ascend.
  if (name == "megatron")
    return groups::megatron_plan(n, {.tensor_model_parallel_size = n % 2 == 0 ? 2 : 1,
                                     .pipeline_model_parallel_size = n % 4 == 0 ? 2 : 1})
        .creations;
  return {{.mode = "ONE", .ranks = list_named(name, n)}};
}

void plans_members(Context& context) {
  const auto creations = creations_named(context.parameters().text("plan"), context.size());
  const ParallelContext modes = context_over(context, plan_of(context, creations));
  auto live = modes.groups().begin();
  for (const Creation& creation : creations) {
    if (!contains(creation.ranks, context.rank())) continue;
    ASSERT_NE(live, modes.groups().end()) << creation.mode << " was not made";
    EXPECT_EQ(live->creation, creation);
    expect_members(*live++->communicator, context.rank(), creation.ranks, creation.mode);
  }
  EXPECT_EQ(live, modes.groups().end());
  for (const std::string& mode : modes.modes())
    EXPECT_EQ(modes.has(mode), std::ranges::any_of(creations,
                                                   [&](const Creation& creation) {
                                                     return creation.mode == mode &&
                                                            contains(creation.ranks, context.rank());
                                                   }))
        << mode;
}

void plans_order(Context& context) {
  const std::vector<int> list = list_named(context.parameters().text("list"), context.size());
  const ParallelContext modes = context_over(context, plan_of(context, {{.mode = "ONE", .ranks = list}}));
  if (!contains(list, context.rank())) return;
  EXPECT_EQ(modes.ranks("ONE"), list);
  EXPECT_EQ(modes.local_rank("ONE"), std::ranges::find(list, context.rank()) - list.begin());
  const GuardedInput own(std::vector<std::int64_t>{context.rank()});
  GuardedOutput gathered(std::vector<std::int64_t>(list.begin(), list.end()));
  modes.communicator("ONE").all_gather(own.view(), gathered.view());
  report(gathered.wrong_result());
}

// ---- groups that share ranks ----

std::vector<Creation> pair_named(const std::string& name, int n) {
  if (name == "same_list") return {{.mode = "FIRST", .ranks = range(0, n)}, {.mode = "SECOND", .ranks = range(0, n)}};
  return {{.mode = "FIRST", .ranks = range(0, n - 1)}, {.mode = "SECOND", .ranks = range(1, n)}};
}

// Two reductions at once, started in another order by each second rank.
void concurrent(Context& context) {
  const ParallelContext modes =
      context_over(context, plan_of(context, pair_named(context.parameters().text("pair"), context.size())));
  std::vector<std::pair<const char*, unsigned>> order{{"FIRST", 0}, {"SECOND", 1}};
  if (context.rank() % 2 == 1) std::ranges::reverse(order);
  for (std::uint64_t round = 0; round < 10; ++round) {
    std::vector<std::pair<Communicator*, Exercise>> exercises;
    for (const auto& [mode, kind] : order)
      if (modes.has(mode))
        exercises.emplace_back(
            &modes.communicator(mode),
            Exercise(modes.communicator(mode), {.elements = 40, .seed = context.seed() + 2 * round + kind}));
    std::vector<comm::Work> works;
    for (const auto& [group, exercise] : exercises) works.push_back(exercise.start(*group));
    for (comm::Work& work : works) work.wait();
    for (const auto& [group, exercise] : exercises) report(exercise.problem());
  }
}

// ---- every geometry ----

struct Geometry {
  const char* name;
  AxisSizes sizes;
  TensorLayout layout;
};
const std::vector<Geometry>& geometries() {
  static const std::vector<Geometry> list{
      {"p4", {.pipeline = 4}, {.mode = "none"}},
      {"2d", {.tensor = 4}, {.mode = "2d", .side = 2}},
      {"2.5d_flat", {.tensor = 4}, {.mode = "2.5d", .side = 2, .depth = 1}},
      {"p3_1d", {.pipeline = 3, .tensor = 2}, {.mode = "1d", .side = 2}},
      {"p2_sequence", {.pipeline = 2, .tensor = 3}, {.mode = "sequence", .side = 3}},
      {"p2_2d", {.pipeline = 2, .tensor = 4}, {.mode = "2d", .side = 2}},
      {"2d_copies", {.data = 2, .tensor = 4}, {.mode = "2d", .side = 2}},
      {"2.5d", {.tensor = 8}, {.mode = "2.5d", .side = 2, .depth = 2}},
      {"3d", {.tensor = 8}, {.mode = "3d", .side = 2}},
  };
  return list;
}
const Geometry& geometry_named(const std::string& name) {
  return *std::ranges::find_if(geometries(), [&](const Geometry& one) { return name == one.name; });
}
suite::Axis geometries_axis() {
  suite::Axis axis{.name = "geometry", .values = {}};
  for (const Geometry& one : geometries()) axis.values.emplace_back(one.name);
  return axis;
}

void every_geometry(Context& context) {
  const auto& [name, sizes, layout] = geometry_named(context.parameters().text("geometry"));
  const groups::ParallelConfiguration configuration{
      .pipeline = sizes.pipeline,
      .tensor = sizes.tensor,
      .mode = groups::parse_tensor_mode(layout.mode),
      .depth = layout.mode == "2.5d" ? std::optional(layout.depth) : std::nullopt};
  const groups::Plan plan = groups::colossalai_plan(context.size(), configuration);
  const ParallelContext modes = context_over(context, plan, {.timeout = std::chrono::seconds(5), .log = {}});
  const int rank = context.rank();
  for (const auto& [mode, axis] : {std::pair("DATA", "data"), std::pair("MODEL", "model"),
                                   std::pair("PIPELINE", "pipeline"), std::pair("TENSOR", "tensor")})
    if (sizes.pipeline > 1 || std::string_view(mode) != "PIPELINE")
      expect_members(modes.communicator(mode), rank, members_of(sizes, Slowest::data, axis, rank), mode);
  for (const std::string& mode : modes_of(layout))
    expect_members(modes.communicator(mode), rank, members_of(layout, context.size(), mode, rank), mode);
}

// ---- modules that stages share ----

void shared_modules(Context& context) {
  const auto sizes = AxisSizes::parse(context.parameters().text("sizes"));
  std::vector<int> stages{0, sizes.pipeline - 1};
  if (context.parameters().text("stages") == "last_and_first") std::ranges::reverse(stages);
  const ParallelContext modes =
      context_over(context, groups::shared_module_plan(context.size(),
                                                       {.pipeline = sizes.pipeline,
                                                        .tensor = sizes.tensor,
                                                        .mode = groups::TensorMode::one_dimensional,
                                                        .depth = {}},
                                                       stages));
  const Place own = place_of(sizes, Slowest::data, context.rank());
  ASSERT_EQ(modes.has("SHARED_MODULE"), contains(stages, own.pipeline));
  if (!contains(stages, own.pipeline)) return;
  std::vector<int> members;
  for (const int stage : stages)
    members.push_back(rank_at(sizes, Slowest::data, {.pipeline = stage, .data = own.data, .tensor = own.tensor}));
  EXPECT_EQ(modes.ranks("SHARED_MODULE"), members);
  expect_members(modes.communicator("SHARED_MODULE"), context.rank(), members, "SHARED_MODULE");
  expect_broadcast([&](comm::Buffer buffer) { modes.broadcast_initial("SHARED_MODULE", buffer); }, context.rank(),
                   members.front());
}

}  // namespace

void add_membership_checks(suite::Suite& suite) {
  suite.add({.id = "groups.modes.members",
             .verifies = {"GROUP-001@a223"},
             .axes = {{"convention", {"colossalai", "megatron", "deepspeed"}},
                      {"sizes", kSizes},
                      suite::worlds({1, 2, 3, 4, 6, 8})},
             .applies = sizes_are_of_the_world,
             .deadlock_prone = true,
             .body = modes_members});
  suite.add({.id = "groups.plans.members",
             .verifies = {"GROUP-002@0da2"},
             .axes = {{"plan", {"descending", "without_first", "strided", "overlapping", "alone", "megatron"}},
                      suite::worlds({2, 3, 4, 6, 8})},
             .deadlock_prone = true,
             .body = plans_members});
  suite.add({.id = "groups.plans.order",
             .verifies = {"GROUP-003@bbe9"},
             .axes = {{"list", {"whole", "descending", "interleaved", "some_of_them", "unequal_strides"}},
                      suite::worlds({2, 3, 4, 6, 8})},
             .deadlock_prone = true,
             .body = plans_order});
  suite.add({.id = "groups.plans.concurrent",
             .verifies = {"GROUP-004@4937"},
             .axes = {{"pair", {"overlapping", "same_list"}}, suite::worlds({2, 3, 4, 6, 8})},
             .needs = {comm::Capability::nonblocking},
             .deadlock_prone = true,
             .body = concurrent});
  suite.add({.id = "groups.modes.every_geometry",
             .verifies = {"GROUP-005@18f7"},
             .axes = {geometries_axis(), suite::worlds({4, 6, 8})},
             .applies =
                 [](const Parameters& parameters) {
                   return geometry_named(parameters.text("geometry")).sizes.world() == parameters.world();
                 },
             .limit = std::chrono::seconds(10),
             .deadlock_prone = true,
             .body = every_geometry});
  suite.add({.id = "groups.modes.shared_modules",
             .verifies = {"GROUP-035@5d9a"},
             .axes = {{"stages", {"first_and_last", "last_and_first"}},
                      {"sizes", {"2x1x1", "3x1x1", "2x3x1", "3x1x2", "4x1x1", "2x2x2", "4x2x1"}},
                      suite::worlds({2, 3, 4, 6, 8})},
             .applies = sizes_are_of_the_world,
             .deadlock_prone = true,
             .body = shared_modules});
}

}  // namespace plumbline::conformance

// What an adapter answers about the groups of experts.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "conformance/groups/groups_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/support/property.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;

namespace {

constexpr const char* kExpertGroups = "groups.expert_groups";
using RankGroups = std::vector<std::vector<int>>;

struct ExpertWorld {
  int tensor = 1, pipeline = 1, expert = 1, same = 1;  // replicas with the same experts
  bool data_first = false;
  [[nodiscard]] int stage() const { return tensor * expert * same; }
  [[nodiscard]] int world() const { return pipeline * stage(); }
  [[nodiscard]] json question(const std::string& convention) const {
    json question{{"convention", convention},
                  {"world_size", world()},
                  {"tensor", tensor},
                  {"pipeline", pipeline},
                  {"expert", expert}};
    if (convention != "megatron") question["use_data_before_expert_parallel"] = data_first;
    return question;
  }
};

// The ranks of each group, by what its members have in common: stage, place among tensor-parallel ranks, and the block
// of replicas or the position in it.
RankGroups groups_by(const ExpertWorld& world, bool expert_parallel) {
  std::map<std::vector<int>, std::vector<int>> groups;
  for (int rank = 0; rank < world.world(); ++rank) {
    const int in_stage = rank % world.stage(), replica = in_stage / world.tensor;
    const int length = world.data_first ? world.same : world.expert;
    const bool by_block = expert_parallel != world.data_first;
    groups[{rank / world.stage(), in_stage % world.tensor, by_block ? replica / length : replica % length}].push_back(
        rank);
  }
  RankGroups lists;
  for (const auto& [key, ranks] : groups) lists.push_back(ranks);
  std::ranges::sort(lists);
  return lists;
}

RankGroups sorted(RankGroups groups) {
  for (auto& group : groups) std::ranges::sort(group);
  std::ranges::sort(groups);
  return groups;
}

std::string problem_of_experts(suite::Adapter& adapter, const json& question, const ExpertWorld& world) {
  return problem_of(adapter, kExpertGroups, question, [&](const json& result) -> std::string {
    for (const char* name : {"expert_parallel", "expert_data_parallel"}) {
      const RankGroups expected = groups_by(world, name == std::string("expert_parallel"));
      const RankGroups got = sorted(result.at(name).get<RankGroups>());
      if (got != expected) return fmt::format("{}: {} instead of {}", name, json(got).dump(), json(expected).dump());
    }
    return {};
  });
}

void experts(Context& context, const std::string& convention) {
  const std::string& grid = context.parameters().text("grid");
  const bool data_first = context.parameters().text("order") == "data_first";
  const Property<ExpertWorld> property{
      .draw =
          [&](Random& random) {
            return ExpertWorld{.tensor = grid == "tensor" || grid == "all" ? random.between(2, 4) : 1,
                               .pipeline = grid == "pipeline" || grid == "all" ? random.between(2, 3) : 1,
                               .expert = random.between(1, 5),
                               .same = random.between(1, 4),
                               .data_first = data_first};
          },
      .problem =
          [&](const ExpertWorld& world) {
            return problem_of_experts(context.adapter(), world.question(convention), world);
          },
      .smaller =
          [](const ExpertWorld& world) {
            std::vector<ExpertWorld> list;
            for (int ExpertWorld::* size :
                 {&ExpertWorld::tensor, &ExpertWorld::pipeline, &ExpertWorld::expert, &ExpertWorld::same})
              if (world.*size > 1) {
                list.push_back(world);
                --(list.back().*size);
              }
            return list;
          },
      .words = [&](const ExpertWorld& world) { return world.question(convention).dump(); }};
  report_words(search(property, context.seed(), 40));
}

void sizes_refused(Context& context, const std::string& convention) {
  const std::string& what = context.parameters().text("what");
  json args = ExpertWorld{.tensor = 2, .pipeline = 2, .expert = 3, .same = 2}.question(convention);
  if (what == "more_experts") args["expert"] = 12;
  if (what == "experts_left_over") args["expert"] = 4;
  if (what == "ranks_left_over") args["world_size"] = 25;
  if (what == "tensor_left_over") args["tensor"] = 5;
  report_words(problem_of_refusal(context.adapter(), kExpertGroups, args));
}

}  // namespace

void add_expert_checks(suite::Suite& suite) {
  using Body = void (*)(Context&, const std::string& convention);
  const auto add = [&](const std::string& name, const char* requirement, const std::vector<suite::Axis>& axes,
                       Body body, const std::vector<std::string>& conventions) {
    for (const std::string& convention : conventions)
      suite.add({.id = fmt::format("groups.experts.{}{}", convention == "plumbline" ? "" : convention + "_", name),
                 .verifies = {requirement},
                 .door = suite::Door::adapter,
                 .axes = axes,
                 .operations = {kExpertGroups},
                 .convention = convention,
                 .body = [body, convention](Context& context) { body(context, convention); }});
  };
  const std::vector<std::string> all{"plumbline", "deepspeed", "megatron"};  // Megatron-core has one order
  const suite::Axis grids{"grid", {"alone", "tensor", "pipeline", "all"}};
  add("experts_first", "GROUP-044@f394", {grids, {"order", {"experts_first"}}}, experts, all);
  add("data_first", "GROUP-045@5ad7", {grids, {"order", {"data_first"}}}, experts, {"plumbline", "deepspeed"});
  add("refused", "GROUP-046@ee3a",
      {{"what", {"more_experts", "experts_left_over", "ranks_left_over", "tensor_left_over"}}}, sizes_refused, all);
}

}  // namespace plumbline::conformance

// Groups of parallel modes, of tensor modes and of shared modules, asked of an adapter: it says how it creates
// them, creates them so, and uses each.
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "conformance/groups/groups_checks.hpp"
#include "conformance/groups/worlds.hpp"
#include "conformance/support/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;
using suite::Context;

namespace {

constexpr const char* kCreateModes = "groups.create";
constexpr const char* kConventionsOfModes = "groups.conventions";
constexpr const char* kTensorModes = "groups.parallel_groups";
constexpr const char* kSharedModules = "groups.shared_module";

// The members of the group of a mode that a rank must have; empty: it has none.
using MembersOf = std::function<std::vector<int>(const std::string& mode, int rank)>;

std::string problem_of_rank(const json& row, int rank, const std::string& mode, const std::vector<int>& members) {
  const json& created = row.at("groups");
  if (members.empty())
    return created.contains(mode) ? fmt::format("rank {} has a group of mode {}", rank, mode) : std::string();
  if (!created.contains(mode)) return fmt::format("rank {} has no group of mode {}", rank, mode);
  int sum = 0;
  for (const int member : members) sum += member + 1;
  const json expected{{"ranks", members}, {"gathered", members}, {"initial", members.front()}};
  const std::string where = fmt::format("rank {}, mode {}", rank, mode);
  if (std::string words = first_difference(expected, created.at(mode), where); !words.empty()) return words;
  return first_difference(sum, row.at("sums").at(mode), where + ": sum of its members");
}

// Creates the groups of a plan, pairs of mode and ranks, and asks of each rank the groups of these modes.
std::string problem_of_plan(Adapter& adapter, int world, const json& calls, const std::vector<std::string>& modes,
                            const MembersOf& members_of_mode) {
  json creations = json::array(), sums = json::array();
  for (const json& call : calls) creations.push_back({{"mode", call.at(0)}, {"ranks", call.at(1)}});
  for (int rank = 0; rank < world; ++rank) {
    json& own = sums.emplace_back(json::array());
    for (const json& call : calls)
      if (const auto ranks = call.at(1).get<std::vector<int>>(); contains(ranks, rank)) own.push_back(call.at(0));
  }
  const json args{{"world_size", world}, {"plans", {std::move(creations)}}, {"sums", std::move(sums)}};
  return problem_of(adapter, kCreateModes, args, [&](const json& result) -> std::string {
    if (result.at("ranks").size() != static_cast<std::size_t>(world)) return "another number of ranks";
    for (int rank = 0; rank < world; ++rank) {
      const json& row = result["ranks"].at(static_cast<std::size_t>(rank));
      if (!row.at("error").is_null()) return fmt::format("rank {}: {}", rank, row["error"].dump());
      for (const std::string& mode : modes)
        if (std::string words = problem_of_rank(row, rank, mode, members_of_mode(mode, rank)); !words.empty())
          return words;
    }
    return {};
  });
}

// ---- parallel modes ----

void created_modes(Context& context) {
  const AxisSizes sizes = AxisSizes::parse(context.parameters().text("sizes"));
  const std::string& convention = context.parameters().text("convention");
  const bool is_colossalai = convention == "colossalai";
  const json args{{"sizes", {{"pipeline", sizes.pipeline}, {"data", sizes.data}, {"tensor", sizes.tensor}}},
                  {"conventions", {convention}}};
  std::vector<std::string> modes{"data", "tensor", "model"};
  if (!is_colossalai || sizes.pipeline > 1) modes.emplace_back("pipeline");
  report_words(problem_of(context.adapter(), kConventionsOfModes, args, [&](const json& result) {
    return problem_of_plan(context.adapter(), sizes.world(), result.at("plans").at(0).at("new_group_calls"), modes,
                           [&](const std::string& mode, int rank) {
                             return members_of(sizes, is_colossalai ? Slowest::data : Slowest::pipeline, mode, rank);
                           });
  }));
}

// ---- tensor modes ----

struct TensorGeometry {
  AxisSizes sizes;
  TensorLayout layout;
};
const std::map<std::string, TensorGeometry>& tensor_geometries() {
  static const std::map<std::string, TensorGeometry> all{
      {"2d", {{.tensor = 4}, {.mode = "2d", .side = 2}}},
      {"2.5d_flat", {{.tensor = 4}, {.mode = "2.5d", .side = 2, .depth = 1}}},
      {"p3_1d", {{.pipeline = 3, .tensor = 2}, {.mode = "1d", .side = 2}}},
      {"p2_sequence", {{.pipeline = 2, .tensor = 3}, {.mode = "sequence", .side = 3}}},
      {"p2_2d", {{.pipeline = 2, .tensor = 4}, {.mode = "2d", .side = 2}}},
      {"2d_copies", {{.data = 2, .tensor = 4}, {.mode = "2d", .side = 2}}},
      {"2.5d", {{.tensor = 8}, {.mode = "2.5d", .side = 2, .depth = 2}}},
      {"3d", {{.tensor = 8}, {.mode = "3d", .side = 2}}},
  };
  return all;
}

// Modes with their groups, as pairs.
json calls_of_modes(const json& groups) {
  json calls = json::array();
  for (const auto& [mode, lists] : groups.items())
    for (const json& ranks : lists) calls.push_back({mode, ranks});
  return calls;
}

void created_tensor_modes(Context& context) {
  const TensorGeometry& geometry = tensor_geometries().at(context.parameters().text("geometry"));
  const AxisSizes& sizes = geometry.sizes;
  json tensor{{"size", sizes.tensor}, {"mode", geometry.layout.mode}};
  if (geometry.layout.mode == "2.5d") tensor["depth"] = geometry.layout.depth;
  const json args{{"world_size", sizes.world()}, {"parallel", {{"pipeline", sizes.pipeline}, {"tensor", tensor}}}};
  std::map<std::string, std::string> axes{{"DATA", "data"}, {"MODEL", "model"}, {"TENSOR", "tensor"}};
  if (sizes.pipeline > 1) axes["PIPELINE"] = "pipeline";
  std::vector<std::string> modes = modes_of(geometry.layout);
  for (const auto& [mode, axis] : axes) modes.push_back(mode);
  report_words(problem_of(context.adapter(), kTensorModes, args, [&](const json& result) {
    return problem_of_plan(context.adapter(), sizes.world(), calls_of_modes(result.at("groups")), modes,
                           [&](const std::string& mode, int rank) {
                             return axes.contains(mode) ? members_of(sizes, Slowest::data, axes.at(mode), rank)
                                                        : members_of(geometry.layout, sizes.world(), mode, rank);
                           });
  }));
}

// ---- shared modules ----

void created_shared_modules(Context& context) {
  const AxisSizes sizes = AxisSizes::parse(context.parameters().text("sizes"));
  std::vector<int> stages{0, sizes.pipeline - 1};
  if (context.parameters().text("stages") == "last_and_first") std::ranges::reverse(stages);
  const json args{{"world_size", sizes.world()},
                  {"parallel", {{"pipeline", sizes.pipeline}, {"tensor", {{"size", sizes.tensor}, {"mode", "1d"}}}}},
                  {"pipeline_ranks", stages}};
  const auto members = [&](const std::string&, int rank) {
    const Place own = place_of(sizes, Slowest::data, rank);
    std::vector<int> ranks;
    for (const int stage : stages)
      if (contains(stages, own.pipeline))
        ranks.push_back(rank_at(sizes, Slowest::data, {.pipeline = stage, .data = own.data, .tensor = own.tensor}));
    return ranks;
  };
  report_words(problem_of(context.adapter(), kSharedModules, args, [&](const json& result) {
    const json calls = calls_of_modes({{"SHARED_MODULE", result.at("new_group_calls")}});
    return problem_of_plan(context.adapter(), sizes.world(), calls, {"SHARED_MODULE"}, members);
  }));
}

}  // namespace

void add_created_mode_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, std::vector<std::string> operations,
                       std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::chrono::seconds limit = std::chrono::seconds(20)) {
    operations.emplace_back(kCreateModes);
    suite.add({.id = std::string("groups.created.") + name,
               .verifies = {requirement},
               .door = suite::Door::adapter,
               .axes = std::move(axes),
               .operations = std::move(operations),
               .options = options_of({{kCreateModes, "fields", {"sums"}}}),
               .limit = limit,
               .body = body});
  };
  add("modes", "GROUP-001@a223", {kConventionsOfModes},
      {{"convention", {"colossalai", "megatron", "deepspeed"}},
       {"sizes", {"1x1x1", "1x3x1", "3x2x1", "2x3x1", "1x2x3", "2x1x3", "2x2x2"}}},
      created_modes);
  suite::Axis geometries{"geometry", {}};
  for (const auto& [name, geometry] : tensor_geometries()) geometries.values.push_back(name);
  add("tensor_modes", "GROUP-005@18f7", {kTensorModes}, {geometries}, created_tensor_modes, std::chrono::seconds(10));
  add("shared_modules", "GROUP-035@5d9a", {kSharedModules},
      {{"stages", {"first_and_last", "last_and_first"}}, {"sizes", {"2x1x1", "2x3x1", "3x1x2", "4x2x1"}}},
      created_shared_modules);
}

}  // namespace plumbline::conformance

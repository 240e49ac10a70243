// scaler.fp16_optimizer and clip_grad_norm over ranks: a world of ranks in this process, each with its optimizer or
// gradients.
#include <algorithm>
#include <cmath>
#include <memory>

#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/comm/local.hpp"
#include "reference/scaler/detail/operation_arguments.hpp"
#include "reference/scaler/fp16_optimizer.hpp"

namespace plumbline::adapter {

using nlohmann::json;

namespace {

using Lists = std::vector<std::vector<double>>;

constexpr int kMostRanks = 16;

struct Grid {
  int tensor = 1, pipeline = 1, data = 1;
  [[nodiscard]] int world() const { return tensor * pipeline * data; }
};

// `data` may be left out where it follows from the others.
Grid grid_in(const Arguments& arguments, bool has_data) {
  const auto size = [&](const char* name) { return static_cast<int>(arguments.integer_in(name, 1, kMostRanks)); };
  Grid grid{.tensor = size("tensor"), .pipeline = size("pipeline")};
  const int world = size("world_size");
  const bool divides = grid.world() <= world && world % grid.world() == 0;
  grid.data = has_data || arguments.has("data") ? size("data") : divides ? world / grid.world() : 1;
  if (grid.world() != world)
    arguments.refuse(fmt::format("{} tensor x {} pipeline x {} data ranks are not the {} of world_size", grid.tensor,
                                 grid.pipeline, grid.data, world));
  return grid;
}

void expect_of_each(const Arguments& arguments, const Grid& grid, std::size_t count, const std::string& what) {
  if (count != static_cast<std::size_t>(grid.world()))
    arguments.refuse(fmt::format("{} has {} entries for {} ranks", what, count, grid.world()));
}

struct Run {
  Grid grid{};
  scaler::HysteresisRule rule{};
  double clip = 0;
  scaler::SgdOptions sgd{};
  std::vector<Lists> first;               // parameters of each rank
  std::vector<std::vector<Lists>> steps;  // gradients of each step and rank
};

Run run_in(const Arguments& arguments) {
  Run run{.grid = grid_in(arguments, true),
          .rule = hysteresis_rule(arguments.get<Arguments>("scaler"), HasMaximum::yes)};
  run.clip = arguments.get<double>("clip_grad", 0);
  run.sgd = {.lr = arguments.get<double>("lr", 0.25), .momentum = arguments.get<double>("momentum", 0.5)};
  run.first = arguments.get<std::vector<Lists>>("params0");
  expect_of_each(arguments, run.grid, run.first.size(), "params0");
  for (const auto& step : arguments.get<std::vector<std::vector<Arguments>>>("steps")) {
    expect_of_each(arguments, run.grid, step.size(), fmt::format("steps[{}]", run.steps.size()));
    auto& gradients = run.steps.emplace_back();
    for (const Arguments& rank : step) gradients.push_back(rank.get<Lists>("grads_scaled"));
  }
  (void)arguments.find<json>("bad");
  (void)arguments.find<json>("groups");
  return run;
}

// A rank's groups, made in one order by all.
struct Groups {
  std::vector<std::unique_ptr<comm::Communicator>> made;
  scaler::ScalerGroups view;

  Groups(comm::Communicator& world, const Grid& grid) {
    const scaler::ModelGroups lists = scaler::model_groups(grid.tensor, grid.pipeline, grid.data);
    const auto mine = [&](const scaler::RankLists& all) -> comm::Communicator* {
      for (const std::vector<int>& ranks : all)
        if (std::ranges::find(ranks, world.rank()) != ranks.end())
          return made.emplace_back(world.create_group(ranks)).get();
      return nullptr;
    };
    view.tensor = mine(lists.tensor);
    view.pipeline = mine(lists.pipeline);
    view.model = mine(lists.model);
    view.data = mine(lists.data);
  }
};

// Of a rank's parameters the first is cut over the tensor group, and the group has equal copies of the others.
bool is_cut(std::size_t parameter) { return parameter == 0; }

std::vector<TypedValues> halves_of(const Lists& lists) {
  std::vector<TypedValues> all;
  for (const auto& list : lists) all.emplace_back(comm::DType::f16, list);
  return all;
}

json doubles_of(const scaler::Fp16Optimizer& optimizer, std::size_t parameters, bool of_gradients) {
  json lists = json::array();
  for (std::size_t i = 0; i < parameters; ++i) {
    const auto values = of_gradients ? optimizer.master_gradient(i) : optimizer.master(i);
    lists.push_back(std::vector<double>(values.begin(), values.end()));
  }
  return lists;
}

// All steps of one rank.
json rows_of_rank(comm::Communicator& world, const Run& run) {
  const Groups groups(world, run.grid);
  const auto rank = static_cast<std::size_t>(world.rank());
  std::vector<TypedValues> parameters = halves_of(run.first[rank]);
  std::vector<scaler::ModelParameter> model;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    model.push_back({.name = fmt::format("p{}", i), .values = parameters[i].buffer(), .replicated = !is_cut(i)});
  scaler::Fp16Optimizer optimizer(model, scaler::sgd(run.sgd),
                                  {.scale = scaler::HysteresisScale{.rule = run.rule}, .clip_norm = run.clip},
                                  groups.view);
  json rows = json::array();
  for (const auto& step : run.steps) {
    std::vector<TypedValues> gradients = halves_of(step[rank]);
    const scaler::StepOutcome outcome = optimizer.step(buffers_of(gradients));
    const auto& scale = std::get<scaler::HysteresisScale>(optimizer.loss_scale());
    rows.push_back({{"scale_before", outcome.scale},
                    {"grads_scaled", lists_of(gradients)},
                    {"stepped", outcome.stepped},
                    {"grad_norm", outcome.norm ? json(*outcome.norm) : json()},
                    {"found_inf", outcome.found_inf ? 1.0 : 0.0},
                    {"scale", scale.scale},
                    {"growth_tracker", scale.growth_tracker},
                    {"hysteresis_tracker", scale.hysteresis_tracker},
                    {"params", lists_of(parameters)},
                    {"main_params", doubles_of(optimizer, parameters.size(), false)},
                    {"main_grads", doubles_of(optimizer, parameters.size(), true)}});
  }
  return rows;
}

json fp16_optimizer(const Arguments& arguments) {
  const Run run = run_in(arguments);
  arguments.expect_no_others();
  std::vector<json> of_rank(run.first.size());
  comm::run_ranks(run.grid.world(), [&](comm::Communicator& world) {
    of_rank[static_cast<std::size_t>(world.rank())] = rows_of_rank(world, run);
  });
  json steps = json::array();
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    json& row = steps.emplace_back(json::array());
    for (const json& rank : of_rank) row.push_back(rank[step]);
  }
  return {{"steps", std::move(steps)}};
}

// One rank's part of clipping by the norm of its model group.
json clipped_rank(comm::Communicator& world, const Grid& grid, const Lists& lists, double most, double p) {
  const Groups groups(world, grid);
  std::vector<TypedValues> gradients;
  for (const auto& list : lists) gradients.emplace_back(comm::DType::f32, list);
  scaler::GroupGradients views;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::span<float> values(static_cast<float*>(gradients[i].buffer().data), gradients[i].size());
    views.all.push_back(values);
    if (scaler::is_counted({.replicated = !is_cut(i)}, groups.view.tensor->rank())) views.counted.emplace_back(values);
  }
  const double norm = scaler::clip_over_group(groups.view.model, views, most, p);
  return {{"norm", norm}, {"clipped", lists_of(gradients)}};
}

}  // namespace

json clip_over_ranks(const Arguments& arguments, bool as_colossalai) {
  const Grid grid = grid_in(arguments, false);
  const auto most = arguments.get<double>("max_norm"), p = arguments.get<double>("norm_type", 2);
  if (!(most >= 0)) arguments.refuse(fmt::format("max_norm is {}; it cannot be below 0", most));
  if (!(p > 0)) arguments.refuse(fmt::format("norm_type is {}; it must be above 0, or inf", p));
  if (as_colossalai && p != 2 && !std::isinf(p))
    arguments.refuse(fmt::format("norm_type is {}; ColossalAI combines norms of 2 and inf alone over ranks", p));
  std::vector<Lists> gradients;
  for (const Arguments& rank : arguments.get<std::vector<Arguments>>("ranks"))
    gradients.push_back(rank.get<Lists>("grads"));
  expect_of_each(arguments, grid, gradients.size(), "ranks");
  arguments.expect_no_others();
  std::vector<json> ranks(gradients.size());
  comm::run_ranks(grid.world(), [&](comm::Communicator& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    ranks[rank] = clipped_rank(world, grid, gradients[rank], most, p);
  });
  return {{"ranks", std::move(ranks)}};
}

void add_fp16_operations(AdapterService& service) {
  service.add(
      {"scaler.fp16_optimizer",
       "steps an optimizer with fp32 master weights and a loss scale over ranks",
       {"plumbline", "colossalai"},
       {{"world_size", "integer", "number of ranks, 1 to 16"},
        {"tensor", "integer", "tensor-parallel ranks"},
        {"pipeline", "integer", "pipeline stages"},
        {"data", "integer", "data-parallel replicas"},
        with_fields(
            {"scaler", "object", "arguments of the loss scale"},
            {{"initial_scale", "number", "initial scale; null: the default", kOptional},
             {"min_scale", "number", "least scale; null: the default", kOptional},
             {"max_scale", "number", "largest scale; null: none", kOptional},
             {"growth_factor", "number", "factor of a growth, above 1", "2.0"},
             {"backoff_factor", "number", "factor of a backoff, below 1", "0.5"},
             {"growth_interval", "integer [steps]", "finite steps before a growth; null: the default", kOptional},
             {"hysteresis", "integer [steps]", "overflows before a backoff; null: the default", kOptional}}),
        {"clip_grad", "number", "the largest norm; 0: no clipping", "0.0"},
        {"params0", "list of list of list of number [world_size][2][elements]",
         "initial parameters of each rank: one sharded over the tensor group, one replicated"},
        with_fields({"steps", "list of list of object [steps][world_size]", "what each rank has in each step"},
                    {{"grads_scaled", "list of list of number [2][elements]", "gradients, multiplied by the scale"}}),
        {"lr", "number", "learning rate", "0.25"},
        {"momentum", "number", "of the optimizer, which is SGD", "0.5"},
        {"bad", "any", "ignored", kOptional},
        {"groups", "any", "ignored", kOptional}},
       {{"steps",
         "list of list of object [steps][world_size]",
         "each rank's outcome of each step",
         {{"scale_before", "number", "scale that the gradients had"},
          {"grads_scaled", "list of list of number", "gradients as given"},
          {"stepped", "boolean", "the optimizer stepped"},
          {"found_inf", "number", "1 where a gradient of the model was non-finite, else 0"},
          {"grad_norm", "any", "norm of the unscaled gradients; null where there is none"},
          {"scale", "number", "scale afterwards"},
          {"growth_tracker", "integer", "finite steps since the last change"},
          {"hysteresis_tracker", "integer", "overflows left before a backoff"},
          {"params", "list of list of number", "fp16 parameters"},
          {"main_params", "list of list of number", "fp32 master weights"},
          {"main_grads", "list of list of number", "fp32 gradients"}}}},
       R"({"world_size": 1, "tensor": 1, "pipeline": 1, "data": 1, "scaler": {"initial_scale": 4}, "params0": [[[1], [2]]],
                   "steps": [[{"grads_scaled": [[4], [8]]}]]})",
       {{"invalid_argument",
         "tensor x pipeline x data is not world_size, a list has another length, or the loss scale is out of "
         "bounds"}}},
      fp16_optimizer);
}

}  // namespace plumbline::adapter

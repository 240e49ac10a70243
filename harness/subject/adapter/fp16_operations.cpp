// scaler.fp16_optimizer: a world of ranks in this process, each with its optimizer.
#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "harness/subject/adapter/operations.hpp"
#include "harness/subject/adapter/typed_values.hpp"
#include "reference/comm/local.hpp"
#include "reference/scaler/fp16_optimizer.hpp"

namespace plumbline::subject {

using nlohmann::json;

namespace {

enum class By { plumbline, colossalai };
using Lists = std::vector<std::vector<double>>;

struct Run {
  int tensor = 1, pipeline = 1, data = 1;
  scaler::HysteresisRule rule{};
  double clip = 0;
  scaler::SgdOptions sgd{};
  std::vector<Lists> first;               // parameters of each rank
  std::vector<std::vector<Lists>> steps;  // gradients of each step and rank
  [[nodiscard]] int world() const { return tensor * pipeline * data; }
};

Run run_in(const Arguments& arguments) {
  constexpr int most = 16;
  const auto size = [&](const char* name) { return static_cast<int>(arguments.integer_in(name, 1, most)); };
  Run run{.tensor = size("tensor"), .pipeline = size("pipeline"), .data = size("data")};
  const auto world = static_cast<std::size_t>(size("world_size"));
  if (static_cast<std::size_t>(run.world()) != world)
    arguments.refuse(fmt::format("{} tensor x {} pipeline x {} data ranks are not the {} of world_size", run.tensor,
                                 run.pipeline, run.data, world));
  const auto init = arguments.get<Arguments>("scaler");
  run.rule.initial_scale = init.get<double>("initial_scale", run.rule.initial_scale);
  run.rule.min_scale = init.get<double>("min_scale", run.rule.min_scale);
  run.rule.growth_factor = init.get<double>("growth_factor", run.rule.growth_factor);
  run.rule.backoff_factor = init.get<double>("backoff_factor", run.rule.backoff_factor);
  run.rule.growth_interval = init.get<std::int64_t>("growth_interval", run.rule.growth_interval);
  run.rule.hysteresis = init.get<std::int64_t>("hysteresis", run.rule.hysteresis);
  run.rule.max_scale = init.find<double>("max_scale");
  run.clip = arguments.get<double>("clip_grad", 0);
  run.sgd = {.lr = arguments.get<double>("lr", 0.25), .momentum = arguments.get<double>("momentum", 0.5)};
  run.first = arguments.get<std::vector<Lists>>("params0");
  const auto expect_of_each = [&](std::size_t count, const std::string& what) {
    if (count != world) arguments.refuse(fmt::format("{} has {} entries for {} ranks", what, count, world));
  };
  expect_of_each(run.first.size(), "params0");
  for (const auto& step : arguments.get<std::vector<std::vector<Arguments>>>("steps")) {
    expect_of_each(step.size(), fmt::format("steps[{}]", run.steps.size()));
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

  Groups(comm::Communicator& world, const Run& run) {
    const scaler::ModelGroups lists = scaler::model_groups(run.tensor, run.pipeline, run.data);
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
  const Groups groups(world, run);
  const auto rank = static_cast<std::size_t>(world.rank());
  std::vector<TypedValues> parameters = halves_of(run.first[rank]);
  std::vector<scaler::ModelParameter> model;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    model.push_back({.name = fmt::format("p{}", i),
                     .values = parameters[i].buffer(),
                     .replicated = i > 0});  // only the first is cut
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
  (void)arguments.convention<By>({{"plumbline", By::plumbline}, {"colossalai", By::colossalai}});
  const Run run = run_in(arguments);
  arguments.expect_no_others();
  std::vector<json> of_rank(run.first.size());
  comm::run_ranks(run.world(), [&](comm::Communicator& world) {
    of_rank[static_cast<std::size_t>(world.rank())] = rows_of_rank(world, run);
  });
  json steps = json::array();
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    json& row = steps.emplace_back(json::array());
    for (const json& rank : of_rank) row.push_back(rank[step]);
  }
  return {{"steps", std::move(steps)}};
}

}  // namespace

void add_fp16_operations(AdapterService& service) { service.add("scaler.fp16_optimizer", fp16_optimizer); }

}  // namespace plumbline::subject

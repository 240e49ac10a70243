// scaler.fp16_optimizer and clip_grad_norm over ranks: a world of ranks in this process, each with its optimizer or
// gradients.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

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
using Gradients = std::vector<std::optional<std::vector<double>>>;  // of each parameter; nothing: there is none

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
  scaler::Fp16Options options{};
  scaler::SgdOptions sgd{};
  comm::DType dtype = comm::DType::f16;
  bool sums_replicas = false;                   // of gradients, before they are looked at
  bool is_sharded_over_data = false;            // replicas hold other parts of the model, and not the same
  std::optional<std::int64_t> resume_at{};      // before that step all is saved, and loaded into another optimizer
  std::vector<Lists> first;                     // parameters of each rank
  std::vector<std::vector<std::string>> kinds;  // of each rank's parameters, where they are said
  std::vector<std::vector<Gradients>> steps;    // of each step and rank
};

scaler::Fp16Options options_in(const Arguments& arguments, const scaler::HysteresisRule& rule) {
  using scaler::Deciding;
  scaler::Fp16Options options{.scale = scaler::HysteresisScale{.rule = rule}};
  if (arguments.has("deciding"))
    options.deciding = arguments.choice<Deciding>("deciding", {{"local", Deciding::local},
                                                               {"tensor", Deciding::tensor},
                                                               {"tensor_then_pipeline", Deciding::tensor_then_pipeline},
                                                               {"model_and_data", Deciding::model_and_data}});
  options.clip_norm = arguments.get<double>("clip_grad", 0);
  options.norm_type = arguments.get<double>("norm_type", 2);
  options.count_zeros = arguments.get<bool>("count_zeros", false);
  return options;
}

// Each rank's first parameter is cut over the tensor group, which has equal copies of the others; or as it is said.
std::vector<std::vector<std::string>> kinds_in(const Arguments& arguments, const Run& run) {
  std::vector<std::vector<std::string>> kinds;
  for (const Lists& parameters : run.first) {
    kinds.emplace_back(parameters.size(), "replicated");
    if (!parameters.empty()) kinds.back().front() = "sharded";
  }
  const auto given = arguments.find<std::vector<std::vector<std::string>>>("kinds");
  if (!given) return kinds;
  expect_of_each(arguments, run.grid, given->size(), "kinds");
  for (std::size_t rank = 0; rank < kinds.size(); ++rank) {
    if ((*given)[rank].size() != kinds[rank].size())
      arguments.refuse(
          fmt::format("kinds[{}] has {} entries for {} parameters", rank, (*given)[rank].size(), kinds[rank].size()));
    for (const std::string& kind : (*given)[rank])
      if (kind != "sharded" && kind != "replicated" && kind != "tied")
        arguments.refuse(fmt::format("kinds has '{}'; a parameter is sharded, replicated or tied", kind));
  }
  return *given;
}

Run run_in(const Arguments& arguments) {
  Run run{.grid = grid_in(arguments, true),
          .options = options_in(arguments, hysteresis_rule(arguments.get<Arguments>("scaler"), HasMaximum::yes))};
  run.sgd = {.lr = learning_rate(arguments, 0.25), .momentum = arguments.get<double>("momentum", 0.5)};
  run.first = arguments.get<std::vector<Lists>>("params0");
  expect_of_each(arguments, run.grid, run.first.size(), "params0");
  for (const auto& step : arguments.get<std::vector<std::vector<Arguments>>>("steps")) {
    expect_of_each(arguments, run.grid, step.size(), fmt::format("steps[{}]", run.steps.size()));
    auto& gradients = run.steps.emplace_back();
    for (const Arguments& rank : step) gradients.push_back(rank.get<Gradients>("grads_scaled"));
  }
  run.kinds = kinds_in(arguments, run);
  if (arguments.has("dtype")) run.dtype = floating_dtype(arguments, comm::DType::f16);
  run.sums_replicas = arguments.get<bool>("sum_replicas", false);
  run.is_sharded_over_data = arguments.get<bool>("shard_over_data", false);
  run.resume_at = arguments.find<std::int64_t>("resume_at");
  (void)arguments.find<json>("bad");
  (void)arguments.find<json>("groups");
  return run;
}

// A rank's groups, made in one order by all.
struct Groups {
  std::vector<std::unique_ptr<comm::Communicator>> made;
  scaler::ScalerGroups view;

  Groups(comm::Communicator& world, const Grid& grid, bool is_sharded_over_data = false) {
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
    if (is_sharded_over_data) view.model = made.emplace_back(world.duplicate()).get();
  }
};

// Of a rank's parameters the first is cut over the tensor group, and the group has equal copies of the others.
bool is_cut(std::size_t parameter) { return parameter == 0; }

std::vector<TypedValues> typed(comm::DType dtype, const Lists& lists) {
  std::vector<TypedValues> all;
  for (const auto& list : lists) all.emplace_back(dtype, list);
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

// One rank: its parameters, and the optimizer of them.
class RankOptimizer {
 public:
  RankOptimizer(comm::Communicator& world, const Run& run)
      : run_(run),
        me_(static_cast<std::size_t>(world.rank())),
        groups_(world, run.grid, run.is_sharded_over_data),
        parameters_(typed(run.dtype, run.first[me_])) {
    make();
  }

  [[nodiscard]] json step(std::size_t at) {
    if (run_.resume_at == static_cast<std::int64_t>(at)) {
      const scaler::Fp16State state = optimizer_->state();
      make();
      optimizer_->load(state);
    }
    const Gradients& given = run_.steps[at][me_];
    std::vector<TypedValues> gradients;
    std::vector<comm::Buffer> buffers;
    json scaled = json::array();
    for (const auto& gradient : given) {
      gradients.emplace_back(run_.dtype, gradient.value_or(std::vector<double>()));
      scaled.push_back(gradient ? lists_of({gradients.back()}).front() : json());
    }
    std::byte nowhere{};  // of an empty list, which is a gradient nevertheless: a null pointer says that there is none
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      buffers.push_back(given[i] ? gradients[i].buffer() : comm::Buffer{nullptr, 0, run_.dtype});
      if (given[i] && given[i]->empty()) buffers.back().data = &nowhere;
    }
    const scaler::StepOutcome outcome = optimizer_->step(buffers);
    const auto& scale = std::get<scaler::HysteresisScale>(optimizer_->loss_scale());
    json row{{"scale_before", outcome.scale},
             {"grads_scaled", std::move(scaled)},
             {"stepped", outcome.stepped},
             {"grad_norm", outcome.norm ? json(*outcome.norm) : json()},
             {"found_inf", outcome.found_inf ? 1.0 : 0.0},
             {"scale", scale.scale},
             {"growth_tracker", scale.growth_tracker},
             {"hysteresis_tracker", scale.hysteresis_tracker},
             {"params", lists_of(parameters_)},
             {"main_params", doubles_of(*optimizer_, parameters_.size(), false)},
             {"main_grads", doubles_of(*optimizer_, parameters_.size(), true)}};
    if (run_.options.count_zeros) row["zeros"] = outcome.zeros ? json(*outcome.zeros) : json();
    return row;
  }

 private:
  void make() {
    const int stage_size = run_.grid.tensor;
    const bool is_first_stage = static_cast<int>(me_) / stage_size % run_.grid.pipeline == 0;
    std::vector<scaler::ModelParameter> model;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const std::string& kind = run_.kinds[me_][i];
      model.push_back({.name = fmt::format("p{}", i),
                       .values = parameters_[i].buffer(),
                       .replicated = kind != "sharded",
                       .tied_copy = kind == "tied" && !is_first_stage});
    }
    scaler::Fp16Options options = run_.options;
    if (run_.sums_replicas)
      options.reduce = [data = groups_.view.data](std::span<const comm::Buffer> gradients) {
        for (const comm::Buffer& gradient : gradients)
          if (data != nullptr && gradient.data != nullptr) data->all_reduce(gradient, gradient, comm::ReduceOp::sum);
      };
    optimizer_ = std::make_unique<scaler::Fp16Optimizer>(model, scaler::sgd(run_.sgd), options, groups_.view);
  }

  const Run& run_;
  std::size_t me_;
  Groups groups_;
  std::vector<TypedValues> parameters_;
  std::unique_ptr<scaler::Fp16Optimizer> optimizer_;
};

json fp16_optimizer(const Arguments& arguments) {
  const Run run = run_in(arguments);
  arguments.expect_no_others();
  std::vector<json> of_rank(run.first.size());
  comm::run_ranks(run.grid.world(), [&](comm::Communicator& world) {
    RankOptimizer rank(world, run);
    json& rows = of_rank[static_cast<std::size_t>(world.rank())] = json::array();
    for (std::size_t step = 0; step < run.steps.size(); ++step) rows.push_back(rank.step(step));
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
        where_named({"norm_type", "number", "order of the norm, above 0 or \"inf\"", "2.0"}),
        where_named({"count_zeros", "boolean", "zero elements of the model's gradients are counted", "false"}),
        {"deciding",
         "text",
         "whose overflows make a rank skip: its own, or those of groups; null: those of the model group",
         kOptional,
         {"local", "tensor", "tensor_then_pipeline", "model_and_data"},
         {},
         {"local", "tensor", "tensor_then_pipeline", "model_and_data"}},
        {"dtype",
         "text",
         "element type of parameters and gradients; null: float16",
         kOptional,
         {"bfloat16", "float32"},
         {},
         {"bfloat16", "float32"}},
        {"params0", "list of list of list of number [world_size][parameters][elements]",
         "initial parameters of each rank"},
        where_named(
            {"kinds", "list of list of text [world_size][parameters]",
             "of each parameter: sharded over the tensor group, replicated in it, or replicated and tied to one of the "
             "first "
             "stage; null: the first one is sharded, others are replicated",
             kOptional}),
        with_fields({"steps", "list of list of object [steps][world_size]", "what each rank has in each step"},
                    {{"grads_scaled", "list of any [parameters]",
                      "gradients, multiplied by the scale: a list of numbers; null: no gradient"}}),
        where_named({"sum_replicas", "boolean",
                     "gradients are summed over data-parallel replicas, in their own type, before they are looked at",
                     "false"}),
        where_named({"shard_over_data", "boolean", "data-parallel ranks hold parts of the model in place of replicas",
                     "false"}),
        where_named({"resume_at", "integer",
                     "step before which the state is saved, and loaded into a new optimizer; null: none", kOptional}),
        {"lr", "number", "learning rate", "0.25"},
        {"momentum", "number", "of the optimizer, which is SGD", "0.5"},
        {"bad", "any", "ignored", kOptional},
        {"groups", "any", "ignored", kOptional}},
       {{"steps",
         "list of list of object [steps][world_size]",
         "each rank's outcome of each step",
         {{"scale_before", "number", "scale that the gradients had"},
          {"grads_scaled", "list of any", "gradients as given"},
          {"stepped", "boolean", "the optimizer stepped"},
          {"found_inf", "number", "1 where the step is skipped, else 0"},
          {"grad_norm", "any", "norm of the unscaled gradients; null where there is none"},
          {"zeros", "integer or null",
           "of count_zeros: zero elements of the model's gradients; null where it is skipped"},
          {"scale", "number", "scale afterwards"},
          {"growth_tracker", "integer", "finite steps since the last change"},
          {"hysteresis_tracker", "integer", "overflows left before a backoff"},
          {"params", "list of list of number", "parameters"},
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

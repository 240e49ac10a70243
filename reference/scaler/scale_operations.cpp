// scaler.trace, found_inf, clip_grad_norm.
#include <map>
#include <optional>

#include <fmt/format.h>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/scaler/detail/gradient_norm.hpp"
#include "reference/scaler/detail/operation_arguments.hpp"
#include "reference/scaler/found_inf.hpp"
#include "reference/scaler/grad_scaler.hpp"
#include "reference/scaler/loss_scale.hpp"

namespace plumbline::adapter {

using nlohmann::json;
using scaler::GradScaler;

namespace {

// Of all parameters of a trace: each row repeats them.
constexpr std::int64_t kMostElements = 1 << 20;

// ---- PyTorch ----

// A parameter list with plain gradient descent, as the recorded runs have it.
struct PlainOptimizer {
  std::vector<TypedValues> parameters;
  std::vector<std::optional<TypedValues>> gradients;

  [[nodiscard]] std::vector<comm::Buffer> buffers() {
    std::vector<comm::Buffer> list;
    for (auto& gradient : gradients)
      if (gradient) list.push_back(gradient->buffer());
    return list;
  }
  // p + (-lr) * g: in f32 for what is narrower, rounded once when it is stored.
  void step(double lr) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
      for (std::size_t k = 0; gradients[i] && k < parameters[i].size(); ++k) {
        TypedValues& parameter = parameters[i];
        if (parameter.dtype() == comm::DType::f64) {
          parameter.set(k, parameter.at(k) + -lr * gradients[i]->at(k));
        } else {
          const float product = static_cast<float>(-lr) * static_cast<float>(gradients[i]->at(k));
          parameter.set(k, static_cast<double>(static_cast<float>(parameter.at(k)) + product));
        }
      }
  }
};

scaler::TorchRule torch_rule(const Arguments& init) {
  const scaler::TorchRule usual;
  return {.init_scale = init.get<double>("init_scale", usual.init_scale),
          .growth_factor = init.get<double>("growth_factor", usual.growth_factor),
          .backoff_factor = init.get<double>("backoff_factor", usual.backoff_factor),
          .growth_interval = init.get<std::int64_t>("growth_interval", usual.growth_interval)};
}

// A scaler and its optimizers, driven by a list of operations. What the scaler refuses is told in the row, and the list
// continues; what is not an operation at all is rejected as a whole.
class TorchTrace {
 public:
  TorchTrace(const Arguments& arguments, bool as_torch)
      : as_torch_(as_torch),
        dtype_(floating_dtype(arguments, comm::DType::f32)),
        lr_(learning_rate(arguments, 0.5)),
        scaler_(made(arguments.find<Arguments>("init"))) {
    const auto sizes = arguments.get<std::vector<std::vector<std::int64_t>>>("sizes");
    std::int64_t elements = 0;
    for (const auto& list : sizes)
      for (const std::int64_t size : list)
        if (size < 0 || size > kMostElements || (elements += size) > kMostElements)
          arguments.refuse(
              fmt::format("sizes has {}; a size is from 0 on, all together are {} at most", size, kMostElements));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      PlainOptimizer& optimizer = optimizers_.emplace_back();
      for (const std::int64_t size : sizes[i]) optimizer.parameters.push_back(first_values(i, size));
      optimizer.gradients.resize(sizes[i].size());
    }
  }

  // Loads a state; the error by which it is rejected, or null.
  json load(const Arguments& state) {
    json row = json::object();
    attempt(row, [&] {
      scaler_.load({.scale = state.get<double>("scale"),
                    .growth_factor = state.get<double>("growth_factor"),
                    .backoff_factor = state.get<double>("backoff_factor"),
                    .growth_interval = state.get<std::int64_t>("growth_interval"),
                    .growth_tracker = state.get<std::int64_t>("growth_tracker")});
    });
    return row.contains("error") ? row["error"] : json();
  }

  json row(const Value& op) {
    json row = json::object();
    const auto name = op.at(0).as<std::string>();
    const bool names_optimizer = name == "grads" || name == "unscale" || name == "clip" || name == "step";
    if (names_optimizer)
      run(op, name, optimizer_of(op), row);
    else
      run(op, name, row);
    row["scale"] = scaler_.scale();
    row["growth_tracker"] = scaler_.is_enabled() ? json(scaler_.growth_tracker()) : json();
    row["scale_created"] = scaler_.has_scale();
    if (names_optimizer) describe(optimizer_of(op), row);
    return row;
  }

 private:
  [[nodiscard]] TypedValues first_values(std::size_t optimizer, std::int64_t size) const {
    std::vector<double> values(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(i + 1) / 8 + static_cast<double>(optimizer);
    return {dtype_, values};
  }
  [[nodiscard]] GradScaler made(const std::optional<Arguments>& init) const {
    return GradScaler({.rule = init ? torch_rule(*init) : scaler::TorchRule(),
                       .enabled = !init || init->get<bool>("enabled", true),
                       .as_torch = as_torch_});
  }
  [[nodiscard]] std::size_t optimizer_of(const Value& op) const {
    const auto index = op.at(1).as<std::size_t>();
    if (index >= optimizers_.size())
      op.refuse(fmt::format("names optimizer {}; there are {}", index, optimizers_.size()));
    return index;
  }
  // What the scaler refuses.
  template <class Part>
  static void attempt(json& row, const Part& part) {
    const auto note = [&row](const Error& error) {
      row["error"] = {{"kind", error.kind()}, {"message", error.what()}};
    };
    try {
      part();
    } catch (const InvalidArgument& error) {
      note(error);
    } catch (const StateError& error) {
      note(error);
    }
  }
  void describe(std::size_t index, json& row) const {
    const PlainOptimizer& optimizer = optimizers_[index];
    json gradients = json::array();
    for (const auto& gradient : optimizer.gradients) gradients.push_back(gradient ? json(gradient->values()) : json());
    row["grads"] = std::move(gradients);
    row["params"] = lists_of(optimizer.parameters);
    if (!scaler_.is_enabled()) return;
    row["stage"] = name_of(scaler_.stage(static_cast<int>(index)));
    const auto found = scaler_.found_inf(static_cast<int>(index));
    row["found_inf"] = found ? json(*found) : json();
  }

  void run(const Value& op, const std::string& name, std::size_t index, json& row) {
    PlainOptimizer& optimizer = optimizers_[index];
    if (name == "grads") take_gradients(op, optimizer);
    if (name == "unscale") attempt(row, [&] { scaler_.unscale(static_cast<int>(index), optimizer.buffers()); });
    if (name == "clip") clip(op, optimizer, row);
    if (name == "step") step(op, index, row);
  }
  void run(const Value& op, const std::string& name, json& row) {
    if (name == "scale") return scale(op, row);
    if (name == "update") return update(op, row);
    if (name == "save") return save(row);
    if (name == "load") return load(op, row);
    if (name == "load_empty") return attempt(row, [&] { take_state(json::object()); });
    if (name == "set") return set(op, row);
    op.refuse("is no operation; there are scale, grads, unscale, clip, step, update, save, load, load_empty, set");
  }

  void scale(const Value& op, json& row) {
    json out = json::array();
    for (const double value : op.at(1).as<std::vector<double>>())
      out.push_back(scaler_.scaled(static_cast<float>(value)));
    row["out"] = std::move(out);
  }
  void take_gradients(const Value& op, PlainOptimizer& optimizer) const {
    const auto lists = op.at(2).as<std::vector<std::optional<std::vector<double>>>>();
    if (lists.size() != optimizer.parameters.size())
      op.refuse(fmt::format("has {} gradients for {} parameters", lists.size(), optimizer.parameters.size()));
    for (std::size_t i = 0; i < lists.size(); ++i) {
      if (lists[i] && lists[i]->size() != optimizer.parameters[i].size())
        op.refuse(
            fmt::format("has {} elements for parameter {} of {}", lists[i]->size(), i, optimizer.parameters[i].size()));
      optimizer.gradients[i] = lists[i] ? std::optional(TypedValues(dtype_, *lists[i])) : std::nullopt;
    }
  }
  static void clip(const Value& op, PlainOptimizer& optimizer, json& row) {
    row["norm"] = scaler::clip_grad_norm(optimizer.buffers(),
                                         {.max_norm = op.at(2).as<double>(), .norm_type = op.at(3).as<double>()});
  }
  void step(const Value& op, std::size_t index, json& row) {
    const bool has_closure = op.size() > 2;
    if (has_closure && op.at(2).as<std::string>() != "closure")
      op.refuse("may have 'closure' after the optimizer, nothing else");
    PlainOptimizer& optimizer = optimizers_[index];
    attempt(row, [&] {
      if (has_closure && scaler_.is_enabled())
        throw StateError("step: an optimizer that computes its gradients by itself would see scaled ones");
      row["stepped"] = scaler_.step(static_cast<int>(index), optimizer.buffers(), [&] { optimizer.step(lr_); });
    });
  }
  void update(const Value& op, json& row) {
    if (op.size() == 1) return attempt(row, [&] { scaler_.update(); });
    if (op.size() == 2) {
      const double given = op.at(1).as<double>();
      // An integer has no device, which PyTorch asks a new scale for.
      const bool is_refused = as_torch_ && scaler_.is_enabled() && op.at(1).as<json>().is_number_integer();
      return attempt(row, [&] {
        if (is_refused)
          throw InvalidArgument(fmt::format("update: the new scale is the integer {}; it must be a float", given));
        scaler_.update(given);
      });
    }
    if (op.at(1).as<std::string>() != "tensor") op.refuse("may have 'tensor' after update, or a number");
    (void)op.at(2).as<double>();
    attempt(row, [&] {
      if (scaler_.is_enabled())
        throw InvalidArgument("update: the new scale is a list of one element; it must be a single number");
    });
  }
  void save(json& row) {
    saved_ = json::object();
    if (scaler_.is_enabled()) {
      const scaler::GradScalerState state = scaler_.state();
      saved_ = {{"scale", state.scale},
                {"growth_factor", state.growth_factor},
                {"backoff_factor", state.backoff_factor},
                {"growth_interval", state.growth_interval},
                {"_growth_tracker", state.growth_tracker}};
    }
    row["state"] = saved_;
  }
  void load(const Value& op, json& row) {
    if (saved_.is_null()) op.refuse("comes before any save");
    const auto init = op.at(1).as<Arguments>();
    attempt(row, [&] {
      scaler_ = made(init);
      take_state(saved_);
    });
  }
  void take_state(const json& state) {
    if (!scaler_.is_enabled()) return;
    if (state.empty()) throw InvalidArgument("load: the state is empty, as that of a disabled scaler is");
    scaler_.load({.scale = state.at("scale"),
                  .growth_factor = state.at("growth_factor"),
                  .backoff_factor = state.at("backoff_factor"),
                  .growth_interval = state.at("growth_interval"),
                  .growth_tracker = state.at("_growth_tracker")});
  }
  void set(const Value& op, json& row) {
    const auto field = op.at(1).as<std::string>();
    const bool is_interval = field == "growth_interval";
    if (!is_interval && field != "growth_factor" && field != "backoff_factor")
      op.refuse("may set growth_factor, backoff_factor or growth_interval");
    const std::int64_t interval = is_interval ? op.at(2).as<std::int64_t>() : 0;
    const double factor = is_interval ? 0 : op.at(2).as<double>();
    attempt(row, [&] {
      if (is_interval)
        scaler_.set_growth_interval(interval);
      else if (field == "growth_factor")
        scaler_.set_growth_factor(factor);
      else
        scaler_.set_backoff_factor(factor);
    });
  }

  bool as_torch_;
  comm::DType dtype_;
  double lr_;
  GradScaler scaler_;
  std::vector<PlainOptimizer> optimizers_;
  json saved_;
};

json torch_trace(const Arguments& arguments, bool as_torch) {
  TorchTrace trace(arguments, as_torch);
  json loads = json::array(), results = json::array();
  for (const Arguments& state : arguments.get<std::vector<Arguments>>("states", {})) loads.push_back(trace.load(state));
  for (const Value& op : arguments.get<std::vector<Value>>("ops")) results.push_back(trace.row(op));
  if (loads.empty()) return {{"results", std::move(results)}};
  return {{"loads", std::move(loads)}, {"results", std::move(results)}};
}

// ---- Megatron-LM and ColossalAI ----

json constant_trace(double initial_scale, std::size_t updates) {
  const scaler::ConstantScale scale{initial_scale};
  check(scale);
  const auto narrow = static_cast<double>(static_cast<float>(scale.scale));
  const json row{{"scale", narrow}, {"inv_scale", scaler::inverse_of(narrow)}};
  return {{"trace", json::array_t(updates + 1, row)}, {"state_dict", {{"scale", narrow}}}};
}

json hysteresis_trace(const Arguments& arguments, HasMaximum has_maximum) {
  const auto found = arguments.get<std::vector<bool>>("found_inf");
  const auto init = arguments.get<Arguments>("init");
  const auto names = arguments.get<std::map<std::string, json>>("init");
  const bool is_constant = arguments.get<bool>("constant", names.size() == 1 && names.contains("initial_scale"));
  if (is_constant)
    return constant_trace(init.get<double>("initial_scale", scaler::HysteresisRule().initial_scale), found.size());
  const scaler::HysteresisRule rule = hysteresis_rule(init, has_maximum);
  check(rule);
  scaler::HysteresisScale scale{.rule = rule};
  json trace = json::array();
  const auto note = [&] {
    trace.push_back({{"scale", scale.scale},
                     {"inv_scale", scaler::inverse_of(static_cast<double>(scale.scale))},
                     {"growth_tracker", scale.growth_tracker},
                     {"hysteresis_tracker", scale.hysteresis_tracker}});
  };
  note();
  for (const bool one : found) update(scale, one), note();
  json state{{"scale", scale.scale},
             {"growth_tracker", scale.growth_tracker},
             {"hysteresis_tracker", scale.hysteresis_tracker}};
  if (has_maximum == HasMaximum::yes) state["max_scale"] = rule.max_scale ? json(*rule.max_scale) : json();
  return {{"trace", std::move(trace)}, {"state_dict", std::move(state)}};
}

// ---- DeepSpeed ----

// What DeepSpeed's own exception says: the recorded rows hold it, so that an answer is compared with it.
json minimum_reached(const Error& error) {
  return {{"kind", error.kind()},
          {"type", "Exception"},
          {"message", "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."}};
}

json deepspeed_row(const scaler::DeepSpeedScale& scale, bool has_hysteresis) {
  json row{{"scale", scale.scale}, {"cur_iter", scale.cur_iter}, {"last_overflow_iter", scale.last_overflow_iter}};
  if (has_hysteresis) row["cur_hysteresis"] = scale.cur_hysteresis;
  return row;
}

json dynamic_loss_scaler(const Arguments& init, const std::vector<bool>& overflow) {
  scaler::DeepSpeedRule rule;
  rule.init_scale = init.get<double>("init_scale", rule.init_scale);
  rule.scale_factor = init.get<double>("scale_factor", rule.scale_factor);
  rule.scale_window = init.get<std::int64_t>("scale_window", rule.scale_window);
  rule.min_scale = init.get<double>("min_scale", rule.min_scale);
  rule.delayed_shift = init.get<std::int64_t>("delayed_shift", rule.delayed_shift);
  rule.consecutive_hysteresis = init.get<bool>("consecutive_hysteresis", rule.consecutive_hysteresis);
  rule.raise_error_at_min_scale = init.get<bool>("raise_error_at_min_scale", rule.raise_error_at_min_scale);
  check(rule);
  scaler::DeepSpeedScale scale{.rule = rule};
  json trace = json::array({deepspeed_row(scale, true)});
  for (const bool one : overflow) {
    try {
      update(scale, one);
    } catch (const scaler::ScaleAtMinimum& error) {
      trace.push_back(deepspeed_row(scale, true));
      trace.back()["error"] = minimum_reached(error);
      break;
    }
    trace.push_back(deepspeed_row(scale, true));
  }
  return {{"trace", std::move(trace)}};
}

// The optimizer unscales with the scale that it has just updated: in a step that grows, gradients come out too small.
json fused_step(const Arguments& init, const std::vector<bool>& overflow) {
  enum class Profile { fused, unfused };
  const auto profile =
      init.choice<Profile>("profile", {{"FUSED", Profile::fused}, {"UNFUSED", Profile::unfused}}, Profile::fused);
  scaler::DeepSpeedRule rule{.init_scale = profile == Profile::fused ? 4294967296.0 : 65536.0,
                             .min_scale = profile == Profile::fused ? 1 : 0.25,
                             .raise_error_at_min_scale = false};
  const auto is_static = init.find<double>("static");
  if (const auto given = init.find<Arguments>("args")) {
    rule.init_scale = given->get<double>("init_scale", rule.init_scale);
    rule.scale_window = given->get<std::int64_t>("scale_window", rule.scale_window);
    rule.min_scale = given->get<double>("min_scale", rule.min_scale);
    (void)given->find<json>("delayed_shift");  // of the other scaler; this one has no hysteresis
    (void)given->find<json>("consecutive_hysteresis");
    (void)given->find<json>("raise_error_at_min_scale");
  }
  if (is_static) check(scaler::ConstantScale{*is_static}), rule.init_scale = *is_static;
  check(rule);
  scaler::DeepSpeedScale scale{.rule = rule};
  json trace = json::array();
  const auto note = [&] {
    trace.push_back(deepspeed_row(scale, false));
    if (is_static) trace.back()["last_overflow_iter"] = nullptr;
  };
  note();
  for (const bool one : overflow) {
    const double before = scale.scale;
    if (is_static)
      ++scale.cur_iter;
    else
      update(scale, one);
    note();
    if (!one) trace.back()["gradient_one_unscaled"] = before / scale.scale;
  }
  return {{"trace", std::move(trace)}};
}

json deepspeed_trace(const Arguments& arguments) {
  enum class Kind { dynamic, fused };
  const auto kind = arguments.choice<Kind>(
      "scaler", {{"DynamicLossScaler", Kind::dynamic}, {"FP16_Optimizer._update_scale", Kind::fused}}, Kind::dynamic);
  const auto init = arguments.get<Arguments>("init");
  const auto overflow = arguments.get<std::vector<bool>>("overflow");
  return kind == Kind::dynamic ? dynamic_loss_scaler(init, overflow) : fused_step(init, overflow);
}

json trace(const Arguments& arguments) {
  switch (arguments.convention()) {
    case Convention::plumbline:
      return torch_trace(arguments, false);
    case Convention::torch:
      return torch_trace(arguments, true);
    case Convention::megatron:
      return hysteresis_trace(arguments, HasMaximum::no);
    case Convention::colossalai:
      return hysteresis_trace(arguments, HasMaximum::yes);
    default:
      return deepspeed_trace(arguments);
  }
}

// ---- who skips ----

json ranks_of(const std::vector<bool>& flags) {
  json ranks = json::array();
  for (std::size_t rank = 0; rank < flags.size(); ++rank)
    if (flags[rank]) ranks.push_back(rank);
  return ranks;
}

struct Sizes {
  int world, tensor, pipeline, data;
};

Sizes sizes_in(const Arguments& arguments) {
  constexpr int most = 1 << 16;
  const auto size = [&](const char* name) { return static_cast<int>(arguments.integer_in(name, 1, most)); };
  const Sizes sizes{size("world_size"), size("tensor"), size("pipeline"), size("data")};
  if (static_cast<std::int64_t>(sizes.tensor) * sizes.pipeline * sizes.data != sizes.world)
    arguments.refuse(fmt::format("{} tensor x {} pipeline x {} data ranks are not the {} of world_size", sizes.tensor,
                                 sizes.pipeline, sizes.data, sizes.world));
  return sizes;
}

json found_inf(const Arguments& arguments) {
  using scaler::Deciding;
  const Sizes sizes = sizes_in(arguments);
  std::vector<bool> found(static_cast<std::size_t>(sizes.world));
  for (const int rank : arguments.get<std::vector<int>>("local_found_inf")) {
    if (rank < 0 || rank >= sizes.world)
      throw OutOfRange(
          fmt::format("scaler.found_inf: local_found_inf has rank {}; there are {} ranks", rank, sizes.world));
    found[static_cast<std::size_t>(rank)] = true;
  }
  const scaler::ModelGroups groups = scaler::model_groups(sizes.tensor, sizes.pipeline, sizes.data);
  const auto skips = [&](Deciding deciding) { return ranks_of(skipping(deciding, groups, found)); };
  const auto reduced = scaler::after_reduction(groups.data, found);
  return {{"skips_local_only", skips(Deciding::local)},
          {"skips_tensor_only", skips(Deciding::tensor)},
          {"skips_tensor_then_pipeline", skips(Deciding::tensor_then_pipeline)},
          {"skips_model", skips(Deciding::model)},
          {"skips_model_if_data_parallel_gradients_were_reduced_first",
           ranks_of(skipping(Deciding::model, groups, reduced))},
          {"skips_model_and_data", skips(Deciding::model_and_data)}};
}

// ---- clipping ----

json clip_grad_norm(const Arguments& arguments) {
  const Convention by = arguments.convention();
  if (by == Convention::colossalai || (by == Convention::plumbline && arguments.has("ranks")))
    return clip_over_ranks(arguments, by == Convention::colossalai);
  const comm::DType dtype = floating_dtype(arguments, comm::DType::f32);
  std::vector<TypedValues> gradients;
  for (const auto& values : arguments.get<std::vector<std::vector<double>>>("grads"))
    gradients.emplace_back(dtype, values);
  const scaler::Clipping clipping{.max_norm = arguments.get<double>("max_norm"),
                                  .norm_type = arguments.get<double>("norm_type", 2),
                                  .error_if_nonfinite = arguments.get<bool>("error_if_nonfinite", false)};
  if (by == Convention::plumbline && !(clipping.max_norm >= 0))
    arguments.refuse(fmt::format("max_norm is {}; it cannot be below 0", clipping.max_norm));
  const double norm = scaler::clip_grad_norm(buffers_of(gradients), clipping);
  return {{"total_norm", norm}, {"clipped", lists_of(gradients)}};
}

}  // namespace

double learning_rate(const Arguments& arguments, double otherwise) {
  const auto rate = arguments.get<double>("lr", otherwise);
  if (rate < 0) arguments.refuse(fmt::format("lr is {}; it must be 0 or more", rate));
  return rate;
}

scaler::HysteresisRule hysteresis_rule(const Arguments& init, HasMaximum has_maximum) {
  const scaler::HysteresisRule usual;
  scaler::HysteresisRule rule{.initial_scale = init.get<double>("initial_scale", usual.initial_scale),
                              .min_scale = init.get<double>("min_scale", usual.min_scale),
                              .growth_factor = init.get<double>("growth_factor", usual.growth_factor),
                              .backoff_factor = init.get<double>("backoff_factor", usual.backoff_factor),
                              .growth_interval = init.get<std::int64_t>("growth_interval", usual.growth_interval),
                              .hysteresis = init.get<std::int64_t>("hysteresis", usual.hysteresis)};
  if (has_maximum == HasMaximum::yes) rule.max_scale = init.find<double>("max_scale");
  return rule;
}

void add_scaler_operations(AdapterService& service) {
  const Words torch{"plumbline", "torch"}, colossalai{"plumbline", "colossalai"},
      over_ranks = colossalai, by_flags{"megatron", "colossalai"}, by_overflow{"deepspeed"};
  const Words dtypes{"float16", "bfloat16", "float32", "float64"};
  const ArgumentRow norm_type{"norm_type", "number", R"(order of the norm, above 0 or "inf")", "2.0"},
      max_norm{"max_norm", "number", "the largest norm that is not clipped"};
  const ArgumentRow world{"world_size", "integer", "number of ranks"},
      tensor{"tensor", "integer", "tensor-parallel ranks"}, pipeline{"pipeline", "integer", "pipeline stages"},
      data{"data", "integer", "data-parallel replicas"};
  const auto of = [](ArgumentRow row, const Words& conventions, const char* otherwise = nullptr) {
    row.conventions = conventions;
    if (otherwise != nullptr) row.otherwise = otherwise;
    return row;
  };
  const RefusalRow bad_world{"invalid_argument", "tensor x pipeline x data is not world_size"};
  std::vector<ArgumentRow> init{
      of({"init_scale", "number", "initial scale; null: the system's default", kOptional},
         {"plumbline", "torch", "deepspeed"}),
      of({"initial_scale", "number", "initial scale; null: the system's default", kOptional}, by_flags),
      of({"growth_factor", "number", "factor of a growth, above 1", "2.0"},
         {"plumbline", "torch", "megatron", "colossalai"}),
      of({"backoff_factor", "number", "factor of a backoff, below 1", "0.5"},
         {"plumbline", "torch", "megatron", "colossalai"}),
      of({"growth_interval", "integer [steps]", "finite steps before a growth; null: the system's default", kOptional},
         {"plumbline", "torch", "megatron", "colossalai"}),
      of({"enabled", "boolean", "false: the scaler does nothing", "true"}, torch),
      of({"min_scale", "number", "least scale; null: the system's default", kOptional},
         {"megatron", "colossalai", "deepspeed"}),
      of({"max_scale", "number", "largest scale; null: none", kOptional}, {"colossalai"}),
      of({"hysteresis", "integer [steps]", "overflows before a backoff; null: the system's default", kOptional},
         by_flags),
      of({"scale_factor", "number", "factor of growth and backoff", "2.0"}, by_overflow),
      of({"scale_window", "integer [steps]", "finite steps before a growth; null: the system's default", kOptional},
         by_overflow),
      of({"delayed_shift", "integer [steps]", "overflows before a backoff", "1"}, by_overflow),
      of({"consecutive_hysteresis", "boolean", "every finite step restores delayed_shift", "false"}, by_overflow),
      of({"raise_error_at_min_scale", "boolean", "an overflow at the least scale is an error", "true"}, by_overflow),
      of({"profile", "text", "of FP16_Optimizer._update_scale: FUSED or UNFUSED", R"("FUSED")"}, by_overflow),
      of({"static", "number", "of FP16_Optimizer._update_scale: a constant scale", kOptional}, by_overflow),
      of({"args", "object", "of FP16_Optimizer._update_scale: the dynamic scaler's arguments, as above", kOptional},
         by_overflow),
      of({"args.*", "any", "argument of that name; those of hysteresis are ignored", kOptional}, by_overflow)};
  service.add(
      {"scaler.trace",
       "traces a loss scale step by step; each convention is asked in the form of its own system",
       {"plumbline", "torch", "megatron", "colossalai", "deepspeed"},
       {with_fields(
            {"init", "object", "arguments of the scaler's constructor; required but in conventions plumbline and torch",
             kOptional},
            init),
        {"dtype", "text", "element type of gradients and parameters", R"("float32")", dtypes, torch},
        {"sizes",
         "list of list of integer [optimizers][parameters]",
         "elements of each optimizer's parameters; required",
         kOptional,
         {},
         torch},
        {"lr", "number", "learning rate of the optimizers, which are plain SGD", "0.5", {}, torch},
        {"ops",
         "list of list of any",
         R"(calls, required: ["scale", values], ["grads", optimizer, lists], ["unscale", optimizer], ["clip", optimizer, max_norm, p], )"
         R"(["step", optimizer], ["update"], ["update", scale], ["save"], ["load", init], ["load_empty"], ["set", name, value])",
         kOptional,
         {},
         torch},
        {"ops.*", "any", "of the init of load: as the field of init", kOptional, {}, torch},
        where_named(with_fields(
            {"states",
             "list of object",
             "states that the scaler loads one after the other, before ops",
             "[]",
             {},
             torch},
            {{"scale", "number", "the scale", kRequired, {}, torch},
             {"growth_factor", "number", "factor of a growth", kRequired, {}, torch},
             {"backoff_factor", "number", "factor of a backoff", kRequired, {}, torch},
             {"growth_interval", "long integer [steps]", "finite steps before a growth", kRequired, {}, torch},
             {"growth_tracker", "long integer [steps]", "finite steps since the last change", kRequired, {}, torch}})),
        {"found_inf",
         "list of boolean [steps]",
         "whether each step's gradients are non-finite; required",
         kOptional,
         {},
         by_flags},
        {"constant",
         "boolean",
         "the scale never changes; null: exactly where init has initial_scale alone",
         kOptional,
         {},
         by_flags},
        {"scaler",
         "text",
         "DeepSpeed's class or method",
         R"("DynamicLossScaler")",
         {"DynamicLossScaler", "FP16_Optimizer._update_scale"},
         {"deepspeed"}},
        {"overflow", "list of boolean [steps]", "whether each step overflows; required", kOptional, {}, {"deepspeed"}}},
       {{"loads", "list of any [states]", "of states: kind and message of the error that rejects each, or null"},
        {"results",
         "list of object [ops]",
         "of ops: outcome of each call and the state after it",
         {{"scale", "any", "the scale, or null while there is none"},
          {"growth_tracker", "integer or null", "finite steps since the last change, or null"},
          {"scale_created", "boolean", "the scale exists"},
          {"out", "list of any", "of scale: the scaled values"},
          {"norm", "number", "of clip: the norm"},
          {"stepped", "boolean", "of step: the optimizer stepped"},
          {"state", "any", "of save: the saved state"},
          {"grads", "list of any", "gradients of the optimizer named"},
          {"params", "list of list of number", "its parameters"},
          {"stage", "text", "what it has done since the last update"},
          {"found_inf", "any", "whether its gradients were non-finite, or null"},
          {"error", "object", "kind and message of a rejected call; the list continues"}}},
        {"trace",
         "list of object [steps + 1]",
         "of flags: the state before the first step and after each",
         {{"scale", "number", "the scale"},
          {"inv_scale", "number", "its inverse"},
          {"growth_tracker", "integer", "finite steps since the last change"},
          {"hysteresis_tracker", "integer", "overflows left before a backoff"},
          {"cur_iter", "integer", "of deepspeed: steps so far"},
          {"last_overflow_iter", "integer or null", "of deepspeed: step of the last overflow, or null"},
          {"cur_hysteresis", "integer", "of deepspeed: overflows left before a backoff"},
          {"gradient_one_unscaled", "number", "of FP16_Optimizer._update_scale: a gradient of 1 after unscaling"},
          {"error", "object", "of deepspeed: kind, type and message of the error that ends the trace"}}},
        {"state_dict", "object", "of found_inf: the state at the end"}},
       R"({"convention": "megatron", "init": {"initial_scale": 16, "min_scale": 1, "growth_interval": 2, "hysteresis": 1}, "found_inf": [true, false, false]})",
       {{"invalid_argument",
         "a factor, an interval or a scale is out of bounds, a call has another name or form, or sizes exceed 2^20 "
         "elements"},
        {"out_of_range", "a call names an optimizer or a gradient that does not exist"}}},
      trace);
  service.add(
      {"scaler.found_inf",
       "which ranks skip a step when some find non-finite gradients, by policy",
       colossalai,
       {world, tensor, pipeline, data, {"local_found_inf", "list of integer", "ranks with non-finite gradients"}},
       {{"skips_local_only", "list of integer", "ranks that skip when each decides alone"},
        {"skips_tensor_only", "list of integer", "when tensor groups decide"},
        {"skips_tensor_then_pipeline", "list of integer", "when tensor groups decide, then pipeline groups"},
        {"skips_model", "list of integer", "when model groups decide"},
        {"skips_model_if_data_parallel_gradients_were_reduced_first", "list of integer",
         "when model groups decide after gradients were reduced over replicas"},
        {"skips_model_and_data", "list of integer", "when model groups decide, then replicas"}},
       R"({"world_size": 4, "tensor": 2, "pipeline": 1, "data": 2, "local_found_inf": [1]})",
       {bad_world, {"out_of_range", "local_found_inf names a rank that does not exist"}}},
      found_inf);
  service.add(
      {"scaler.clip_grad_norm",
       "clips gradients by their norm, of one process or over the ranks of model groups",
       {"plumbline", "torch", "colossalai"},
       {of({"grads", "list of list of number", "gradients of one process; required without ranks"}, torch, kOptional),
        {"dtype", "text", "element type of grads", R"("float32")", dtypes, torch},
        max_norm,
        norm_type,
        {"error_if_nonfinite", "boolean", "reject a norm that is non-finite", "false", {}, torch},
        with_fields({"ranks",
                     "list of object [world_size]",
                     "gradients of each rank, in place of grads",
                     kOptional,
                     {},
                     over_ranks},
                    {{"grads", "list of list of number",
                      "the gradient that is sharded over the tensor group, then replicated ones"}}),
        of(world, over_ranks, kOptional),
        of(tensor, over_ranks, kOptional),
        of(pipeline, over_ranks, kOptional),
        of({"data", "integer", "data-parallel replicas; null: what is left of world_size"}, over_ranks, kOptional)},
       {{"total_norm", "number", "of grads: the norm"},
        {"clipped", "list of list of number", "of grads: the clipped gradients"},
        {"ranks",
         "list of object [world_size]",
         "of ranks: each rank's outcome",
         {{"norm", "number", "the norm"}, {"clipped", "list of list of number", "the clipped gradients"}}}},
       R"({"grads": [[3], [4]], "max_norm": 1})",
       {bad_world,
        {"invalid_argument",
         "max_norm is negative, norm_type is not above 0, or in convention colossalai neither 2 nor infinity "
         "over ranks"},
        {"failed", "the norm is non-finite and error_if_nonfinite is true"}},
       {{"ranks", "ranks"}, {"gradients", ""}}},
      clip_grad_norm);
}

}  // namespace plumbline::adapter

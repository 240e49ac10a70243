// Optimizers with 16-bit parameters over ranks, asked of an adapter step by step: who skips, what a step changes, by
// what gradients are clipped. What must come is computed here for all ranks at once.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/element.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

constexpr const char* kSteppedOverRanks = "scaler.fp16_optimizer";
constexpr double kFirstScale = 64;
constexpr int kGrowsEvery = 3;

// tensor x pipeline x data ranks, tensor fastest.
struct Layout {
  int tensor = 1, pipeline = 1, data = 1;
  [[nodiscard]] int world() const { return tensor * pipeline * data; }
  [[nodiscard]] int column(int rank) const { return rank % tensor; }
  [[nodiscard]] int stage(int rank) const { return rank / tensor % pipeline; }
  [[nodiscard]] int replica(int rank) const { return rank / (tensor * pipeline); }
};
Layout layout_of(const std::string& grid) { return {grid[0] - '0', grid[2] - '0', grid[4] - '0'}; }

// What a rank holds: its part of a matrix, what every tensor rank has, what first and last stage have both.
enum class Held { cut, replicated, tied };
const char* kind_of(Held held) {
  return held == Held::cut ? "sharded" : held == Held::replicated ? "replicated" : "tied";
}

// A number in a list, or none, as in a list of gradients.
using HeldValues = std::optional<std::vector<double>>;

// Numbers that f16 has exactly, different for every owner, step and element; some are 0.
std::vector<double> held_numbers(const Layout& layout, int rank, Held held, int step) {
  const int column = held == Held::cut ? layout.column(rank) : 0;
  const int stage = held == Held::tied ? 0 : layout.stage(rank);
  const int length = held == Held::cut ? 4 + stage : held == Held::replicated ? 3 : 2;
  std::vector<double> list;
  for (int i = 0; i < length; ++i) {
    const int mixed = 7 * column + 11 * stage + 5 * step + 3 * i + 13 * static_cast<int>(held);
    list.push_back((mixed % 17 - 8) / 8.0);
  }
  return list;
}

// A loss scale that halves at an overflow and doubles after three clean steps.
struct ScaleOracle {
  double scale = kFirstScale;
  int clean = 0;
  void update(bool is_found) {
    if (is_found) scale = std::max(1.0, scale / 2), clean = 0;
    if (!is_found && ++clean == kGrowsEvery) scale *= 2, clean = 0;
  }
};

// A run that is asked for, and what it must come to.
struct AskedOptimizer {
  Layout layout{};
  int steps = 4;
  json options = json::object();  // of the question, beside those below
  std::string dtype = "float16", deciding = "model";
  bool last_stage_is_empty = false, sums_replicas = false, is_sharded_over_data = false;
  double clip = 0, p = 2, rate = 0.25, momentum = 0.5;
  /// A gradient in place of the usual: before it is scaled; a non-finite one is sent as it is.
  std::function<HeldValues(int step, int rank, std::size_t parameter, std::vector<double> usual)> gradient =
      [](int, int, std::size_t, std::vector<double> usual) { return usual; };

  [[nodiscard]] std::vector<Held> held_by(int rank) const {
    const bool is_last = layout.stage(rank) + 1 == layout.pipeline;
    if (last_stage_is_empty && is_last) return {};
    if (is_sharded_over_data) return {Held::cut};
    if (layout.stage(rank) > 0 && !is_last) return {Held::cut, Held::replicated};
    return {Held::cut, Held::replicated, Held::tied};
  }
  // Replicas that hold other parts have other numbers.
  [[nodiscard]] std::vector<double> usual(int rank, std::size_t parameter, int step) const {
    const Held held = held_by(rank)[parameter];
    if (!is_sharded_over_data) return held_numbers(layout, rank, held, step);
    std::vector<double> list = held_numbers(layout, 0, held, step + 3 * rank);
    list.resize(rank % 3 == 2 ? 0 : list.size());  // a part without elements among them
    return list;
  }
  [[nodiscard]] HeldValues gradient_of(int step, int rank, std::size_t parameter) const {
    return gradient(step, rank, parameter, usual(rank, parameter, step));
  }
  [[nodiscard]] bool is_counted(int rank, Held held) const {
    if (!is_sharded_over_data && layout.replica(rank) > 0) return false;
    if (held == Held::cut) return true;
    return layout.column(rank) == 0 && (held == Held::replicated || layout.stage(rank) == 0);
  }
  // Whether it matters that a parameter is one of another stage, too, which the question's default does not say.
  [[nodiscard]] bool needs_kinds() const {
    if (clip <= 0 && !options.contains("count_zeros")) return false;
    for (int rank = 0; rank < layout.world(); ++rank)
      if (layout.stage(rank) > 0 && std::ranges::count(held_by(rank), Held::tied) > 0) return true;
    return false;
  }
  // Whether what rank `other` found makes `rank` skip.
  [[nodiscard]] bool hears_of(int rank, int other) const {
    if (deciding == "local") return rank == other;
    if (is_sharded_over_data || deciding == "model_and_data") return true;
    const bool is_model = layout.replica(rank) == layout.replica(other);
    return deciding == "tensor" ? is_model && layout.stage(rank) == layout.stage(other) : is_model;
  }
};

bool is_finite(double value) { return std::isfinite(value); }

// f16 has nothing from 65520 on; values here are few, and others are exact in every type.
bool overflows_type(const std::string& dtype, double value) {
  return !is_finite(value) || (dtype == "float16" && std::abs(value) >= 65520);
}

// All ranks after each step.
struct OptimizerState {
  struct Row {
    bool stepped = false;
    double scale_before = 0, scale = 0;
    std::optional<double> norm, zeros;
    std::vector<std::vector<float>> masters;
  };
  std::vector<Row> rows;
};

class OptimizerOracle {
 public:
  explicit OptimizerOracle(const AskedOptimizer& asked) : asked_(asked) {
    for (int rank = 0; rank < asked.layout.world(); ++rank) {
      auto& mine = masters_.emplace_back();
      buffers_.emplace_back();
      for (std::size_t i = 0; i < asked.held_by(rank).size(); ++i) {
        const std::vector<double> first = asked.usual(rank, i, 100);
        mine.emplace_back(first.begin(), first.end());
        buffers_.back().emplace_back(first.size());
      }
    }
    scales_.resize(masters_.size());
  }
  [[nodiscard]] double scale(int rank) const { return scales_[static_cast<std::size_t>(rank)].scale; }

  [[nodiscard]] OptimizerState step(int step) {
    const int world = asked_.layout.world();
    std::vector<bool> found;
    for (int rank = 0; rank < world; ++rank) found.push_back(finds(step, rank));
    const auto skips = [&](int rank) {
      for (int other = 0; other < world; ++other)
        if (found[static_cast<std::size_t>(other)] && asked_.hears_of(rank, other)) return true;
      return false;
    };
    const double norm = norm_of(step), zeros = zeros_of(step);
    OptimizerState state;
    for (int rank = 0; rank < world; ++rank) {
      ScaleOracle& scale = scales_[static_cast<std::size_t>(rank)];
      OptimizerState::Row row{
          .stepped = !skips(rank), .scale_before = scale.scale, .norm = {}, .zeros = {}, .masters = {}};
      scale.update(!row.stepped);
      row.scale = scale.scale;
      if (row.stepped) {
        if (asked_.clip > 0) row.norm = norm;
        row.zeros = zeros;
        descend(step, rank, asked_.clip > 0 ? std::min(1.0, asked_.clip / (norm + 1e-6)) : 1.0);
      }
      row.masters = masters_[static_cast<std::size_t>(rank)];
      state.rows.push_back(std::move(row));
    }
    return state;
  }

 private:
  // Of what the rank looks at: its gradients, or those of its replicas, summed.
  [[nodiscard]] std::vector<int> replicas_of(int rank) const {
    if (!asked_.sums_replicas) return {rank};
    std::vector<int> all;
    const int model = asked_.layout.tensor * asked_.layout.pipeline;
    for (int other = rank % model; other < asked_.layout.world(); other += model) all.push_back(other);
    return all;
  }
  [[nodiscard]] HeldValues looked_at(int step, int rank, std::size_t parameter) const {
    HeldValues sum;
    for (const int other : replicas_of(rank)) {
      const HeldValues values = asked_.gradient_of(step, other, parameter);
      if (!values) return std::nullopt;
      if (!sum) sum.emplace(values->size());
      for (std::size_t i = 0; i < values->size(); ++i) (*sum)[i] += (*values)[i];
    }
    return sum;
  }
  [[nodiscard]] bool finds(int step, int rank) const {
    for (std::size_t i = 0; i < asked_.held_by(rank).size(); ++i)
      if (const HeldValues values = looked_at(step, rank, i))
        for (const double value : *values)
          if (overflows_type(asked_.dtype, value * scale(rank))) return true;
    return false;
  }
  template <class Add>
  void each_counted(int step, const Add& add) const {
    for (int rank = 0; rank < asked_.layout.world(); ++rank)
      for (std::size_t i = 0; i < asked_.held_by(rank).size(); ++i)
        if (asked_.is_counted(rank, asked_.held_by(rank)[i]))
          if (const HeldValues values = looked_at(step, rank, i))
            for (const double value : *values) add(value);
  }
  [[nodiscard]] double norm_of(int step) const {
    double sum = 0;
    const bool is_largest = std::isinf(asked_.p);
    each_counted(step, [&](double value) {
      sum = is_largest ? std::max(sum, std::abs(value)) : sum + std::pow(std::abs(value), asked_.p);
    });
    return is_largest ? sum : std::pow(sum, 1 / asked_.p);
  }
  [[nodiscard]] double zeros_of(int step) const {
    double zeros = 0;
    each_counted(step, [&](double value) { zeros += value == 0 ? 1 : 0; });
    return zeros;
  }
  // torch.optim.SGD in f32.
  void descend(int step, int rank, double by) {
    for (std::size_t i = 0; i < asked_.held_by(rank).size(); ++i) {
      const HeldValues values = looked_at(step, rank, i);
      if (!values) continue;
      for (std::size_t k = 0; k < values->size(); ++k) {
        float& buffer = buffers_[static_cast<std::size_t>(rank)][i][k];
        const float kept = buffer * static_cast<float>(asked_.momentum);
        buffer = kept + static_cast<float>((*values)[k] * by);
        const float change = -static_cast<float>(asked_.rate) * buffer;
        masters_[static_cast<std::size_t>(rank)][i][k] += change;
      }
    }
  }

  const AskedOptimizer& asked_;
  std::vector<ScaleOracle> scales_;
  std::vector<std::vector<std::vector<float>>> masters_, buffers_;
};

json number_or_word(double value) {
  if (std::isnan(value)) return "nan";
  return std::isinf(value) ? json(value > 0 ? "inf" : "-inf") : json(value);
}

json gradients_asked(const AskedOptimizer& asked, const OptimizerOracle& oracle, int step, int rank) {
  json lists = json::array();
  for (std::size_t i = 0; i < asked.held_by(rank).size(); ++i) {
    json& list = lists.emplace_back();
    if (const HeldValues values = asked.gradient_of(step, rank, i)) {
      list = json::array();
      for (const double value : *values) list.push_back(number_or_word(value * oracle.scale(rank)));
    }
  }
  return lists;
}

json kinds_of(const AskedOptimizer& asked) {
  json all = json::array();
  for (int rank = 0; rank < asked.layout.world(); ++rank) {
    json& kinds = all.emplace_back(json::array());
    for (const Held held : asked.held_by(rank)) kinds.push_back(kind_of(held));
  }
  return all;
}

// The question, and what it must come to.
std::pair<json, std::vector<OptimizerState>> asked_and_right(const AskedOptimizer& asked) {
  json args = asked.options;
  args.update({{"world_size", asked.layout.world()},
               {"tensor", asked.layout.tensor},
               {"pipeline", asked.layout.pipeline},
               {"data", asked.layout.data},
               {"lr", asked.rate},
               {"momentum", asked.momentum},
               {"clip_grad", asked.clip},
               {"params0", json::array()},
               {"steps", json::array()}});
  if (!args.contains("scaler"))
    args["scaler"] = {
        {"initial_scale", kFirstScale}, {"min_scale", 1}, {"growth_interval", kGrowsEvery}, {"hysteresis", 1}};
  if (asked.p != 2) args["norm_type"] = number_or_word(asked.p);
  if (asked.dtype != "float16") args["dtype"] = asked.dtype;
  if (asked.deciding != "model") args["deciding"] = asked.deciding;
  if (asked.sums_replicas) args["sum_replicas"] = true;
  if (asked.is_sharded_over_data) args["shard_over_data"] = true;
  for (int rank = 0; rank < asked.layout.world(); ++rank) {
    json& first = args["params0"].emplace_back(json::array());
    for (std::size_t i = 0; i < asked.held_by(rank).size(); ++i) first.push_back(asked.usual(rank, i, 100));
  }
  if (asked.needs_kinds()) args["kinds"] = kinds_of(asked);
  OptimizerOracle oracle(asked);
  std::vector<OptimizerState> right;
  for (int step = 0; step < asked.steps; ++step) {
    json& row = args["steps"].emplace_back(json::array());
    for (int rank = 0; rank < asked.layout.world(); ++rank)
      row.push_back({{"grads_scaled", gradients_asked(asked, oracle, step, rank)}});
    right.push_back(oracle.step(step));
  }
  return {args, right};
}

// Masters to f32's rounding of what is clipped, otherwise bit for bit; parameters are their masters, rounded.
std::string problem_of_values(const AskedOptimizer& asked, const OptimizerState::Row& right, const json& row) {
  static const std::map<std::string, comm::DType> types{
      {"float16", comm::DType::f16}, {"bfloat16", comm::DType::bf16}, {"float32", comm::DType::f32}};
  const comm::DType dtype = types.at(asked.dtype);
  const auto masters = row.at("main_params").get<std::vector<std::vector<double>>>();
  const auto parameters = row.at("params").get<std::vector<std::vector<double>>>();
  if (masters.size() != right.masters.size() || parameters.size() != masters.size())
    return fmt::format("{} master weights, there must be {}", masters.size(), right.masters.size());
  for (std::size_t i = 0; i < masters.size(); ++i)
    for (std::size_t k = 0; k < right.masters[i].size(); ++k) {
      const double expected = static_cast<double>(right.masters[i][k]), got = masters.at(i).at(k);
      const double most = asked.clip > 0 ? 1e-6 * std::max(1.0, std::abs(expected)) : 0;
      if (!(std::abs(got - expected) <= most))
        return fmt::format("master weight {} of parameter {} is {}, it must be {}", k, i, got, expected);
      const auto half = static_cast<double>(number_of(dtype, nearest_bits(dtype, got)));
      if (parameters.at(i).at(k) != half)
        return fmt::format("element {} of parameter {} is {}, its master weight {}", k, i, parameters[i][k], got);
    }
  return {};
}

std::string problem_of_optimizer_row(const AskedOptimizer& asked, const OptimizerState::Row& right, const json& row) {
  if (row.at("stepped") != right.stepped)
    return right.stepped ? "it is skipped" : "it is made, although it must be skipped";
  if (row.at("found_inf") != (right.stepped ? 0 : 1)) return "found_inf is " + row["found_inf"].dump();
  if (row.at("scale_before") != right.scale_before || row.at("scale") != right.scale)
    return fmt::format("its scale is {} and then {}, it must be {} and {}", row["scale_before"].dump(),
                       row.at("scale").dump(), right.scale_before, right.scale);
  if (right.norm) {
    const auto got = row.at("grad_norm").get<double>();
    if (!(std::abs(got - *right.norm) <= 1e-6 * *right.norm))
      return fmt::format("the norm is {}, it must be {}", got, *right.norm);
  }
  if (right.zeros && asked.options.contains("count_zeros") && row.at("zeros") != *right.zeros)
    return fmt::format("{} zeros, there are {}", row["zeros"].dump(), *right.zeros);
  for (const char* tracker : {"growth_tracker", "hysteresis_tracker"})
    if (!row.at(tracker).is_number_integer() || std::abs(row[tracker].get<double>()) > 1000)
      return fmt::format("{} is {}", tracker, row[tracker].dump());
  return problem_of_values(asked, right, row);
}

std::string problem_of_optimizer(suite::Adapter& adapter, const AskedOptimizer& asked) {
  const auto [args, right] = asked_and_right(asked);
  return problem_of(adapter, kSteppedOverRanks, args, [&, &right = right](const json& result) -> std::string {
    if (result.at("steps").size() != right.size()) return "another number of steps";
    for (std::size_t step = 0; step < right.size(); ++step) {
      const json& rows = result.at("steps").at(step);
      if (rows.size() != right[step].rows.size()) return "another number of ranks";
      for (std::size_t rank = 0; rank < rows.size(); ++rank)
        if (std::string words = problem_of_optimizer_row(asked, right[step].rows[rank], rows.at(rank)); !words.empty())
          return fmt::format("step {}, rank {}: {}", step, rank, words);
    }
    return {};
  });
}

void report_optimizer(Context& context, const AskedOptimizer& asked) {
  report_words(problem_of_optimizer(context.adapter(), asked));
}

AskedOptimizer asked_in(const Context& context) { return {.layout = layout_of(context.parameters().text("grid"))}; }

// Puts `value` in the last element of a parameter.
HeldValues with_last(std::vector<double> values, double value) {
  if (!values.empty()) values.back() = value;
  return values;
}

// ---- who skips ----

std::vector<int> ranks_that_find(const std::string& found, int world, int step) {
  if (found == "nobody") return {};
  if (found == "two") return {step % world, (step + 1) % world};
  std::vector<int> all;
  for (int rank = 0; rank < world; ++rank)
    if (found == "everybody" || rank == step % world) all.push_back(rank);
  return all;
}

// In each step but the last others find something.
void asked_who_skips(Context& context, const std::string& deciding) {
  AskedOptimizer asked = asked_in(context);
  const std::string& found = context.parameters().text("found");
  const int world = asked.layout.world();
  asked.deciding = deciding;
  asked.steps = world + 2;
  asked.gradient = [=, last = asked.steps - 1](int step, int rank, std::size_t parameter, std::vector<double> usual) {
    const std::vector<int> bad = ranks_that_find(found, world, step);
    const bool is_bad = step < last && parameter == 0 && std::ranges::count(bad, rank) > 0;
    return is_bad ? with_last(std::move(usual), HUGE_VAL) : HeldValues(std::move(usual));
  };
  report_optimizer(context, asked);
}
void asked_model_group_skips(Context& context) { asked_who_skips(context, "model"); }
void asked_two_reductions(Context& context) { asked_who_skips(context, "tensor_then_pipeline"); }
void asked_replicas_skip_together(Context& context) { asked_who_skips(context, "model_and_data"); }
void asked_smaller_groups(Context& context) { asked_who_skips(context, context.parameters().text("deciding")); }

// A step that found something, or did not, and clean ones after it.
void asked_flags_begin_anew(Context& context) {
  AskedOptimizer asked = asked_in(context);
  const bool is_found = context.parameters().text("found") == "one";
  asked.gradient = [=](int step, int rank, std::size_t parameter, std::vector<double> usual) {
    const bool is_bad = is_found && step == 0 && rank == 0 && parameter == 0;
    return is_bad ? with_last(std::move(usual), HUGE_VAL) : HeldValues(std::move(usual));
  };
  report_optimizer(context, asked);
}

void asked_empty_ranks(Context& context) {
  AskedOptimizer asked = asked_in(context);
  asked.last_stage_is_empty = context.parameters().text("empty") == "last_stage";
  asked.clip = 1e6;
  asked.p = context.parameters().text("p") == "inf" ? HUGE_VAL : 2;
  asked.options["count_zeros"] = true;
  asked.gradient = [](int step, int rank, std::size_t parameter, std::vector<double> usual) {
    const bool is_bad = step == 1 && rank == 0 && parameter == 0;
    return is_bad ? with_last(std::move(usual), HUGE_VAL) : HeldValues(std::move(usual));
  };
  report_optimizer(context, asked);
}

// Of the last rank, one parameter after the other.
void asked_found_in_every_place(Context& context) {
  AskedOptimizer asked = asked_in(context);
  asked.dtype = context.parameters().text("dtype");
  const std::string& value = context.parameters().text("value");
  const double bad = value == "nan" ? std::numeric_limits<double>::quiet_NaN() : value == "-inf" ? -HUGE_VAL : HUGE_VAL;
  const std::size_t count = asked.held_by(asked.layout.world() - 1).size();
  asked.steps = static_cast<int>(count) + 1;
  asked.gradient = [=, last = asked.layout.world() - 1](int step, int rank, std::size_t parameter,
                                                        std::vector<double> usual) {
    const bool is_bad = value != "nothing" && rank == last && static_cast<std::size_t>(step) == parameter;
    return is_bad ? with_last(std::move(usual), bad) : HeldValues(std::move(usual));
  };
  report_optimizer(context, asked);
}

// Each replica's gradients are finite; their sum is not, at the scale of the first step.
void asked_sum_overflows(Context& context) {
  AskedOptimizer asked = asked_in(context);
  asked.sums_replicas = true;
  asked.steps = 2;
  const bool is_large = context.parameters().text("values") == "large";
  asked.gradient = [=](int, int, std::size_t parameter, std::vector<double> usual) {
    for (double& value : usual) value /= 4;  // sums of a few are exact
    return parameter == 0 && is_large ? with_last(std::move(usual), 40000 / kFirstScale) : HeldValues(std::move(usual));
  };
  report_optimizer(context, asked);
}

// Ranks that hold parts of the model, the last of three none, act as one.
void asked_shards_are_one(Context& context) {
  AskedOptimizer asked = asked_in(context);
  asked.is_sharded_over_data = true;
  asked.clip = 0.5;
  asked.p = context.parameters().text("p") == "inf" ? HUGE_VAL : 2;
  asked.options["count_zeros"] = true;
  const bool is_found = context.parameters().text("found") == "one";
  asked.gradient = [=](int step, int rank, std::size_t, std::vector<double> usual) {
    const bool is_bad = is_found && step == 1 && rank == 1;
    return is_bad ? with_last(std::move(usual), HUGE_VAL) : HeldValues(std::move(usual));
  };
  report_optimizer(context, asked);
}

// ---- what a step does ----

// Two steps overflow in one run. What comes after them is what comes in one that lacks them.
void asked_skipped_steps(Context& context) {
  AskedOptimizer asked = asked_in(context);
  const bool has_bad = context.parameters().text("overflows") == "two";
  asked.steps = 6;
  asked.clip = 1;
  asked.gradient = [=](int step, int, std::size_t parameter, std::vector<double> usual) {
    const bool is_bad = has_bad && parameter == 0 && (step == 1 || step == 4);
    return is_bad ? with_last(std::move(usual), std::numeric_limits<double>::quiet_NaN())
                  : HeldValues(std::move(usual));
  };
  report_optimizer(context, asked);
}

void asked_masters(Context& context) {
  AskedOptimizer asked = asked_in(context);
  asked.dtype = context.parameters().text("dtype");
  asked.momentum = std::stod(context.parameters().text("momentum"));
  asked.rate = 0x1p-10;  // a product by it is exact: one that is fused with its sum rounds as one that is not
  asked.steps = 5;
  asked.gradient = [](int, int, std::size_t, std::vector<double> usual) {
    for (std::size_t i = 0; i < usual.size(); ++i) usual[i] = std::ldexp(usual[i], -3 * static_cast<int>(i));
    return HeldValues(std::move(usual));  // small ones are rounded when they are added
  };
  report_optimizer(context, asked);
}

void asked_norm(Context& context) {
  AskedOptimizer asked = asked_in(context);
  const std::string& p = context.parameters().text("p");
  asked.p = p == "inf" ? HUGE_VAL : std::stod(p);
  asked.clip = 1e6;
  report_optimizer(context, asked);
}

void asked_clipping(Context& context) {
  AskedOptimizer asked = asked_in(context);
  asked.clip = std::stod(context.parameters().text("max_norm"));
  report_optimizer(context, asked);
}

void asked_zeros(Context& context) {
  AskedOptimizer asked = asked_in(context);
  asked.options["count_zeros"] = true;
  asked.steps = 13;
  report_optimizer(context, asked);
}

void asked_resumes(Context& context) {
  AskedOptimizer asked = asked_in(context);
  asked.steps = 7;
  if (context.parameters().text("resumed") == "yes") asked.options["resume_at"] = 4;  // in the middle of an interval
  report_optimizer(context, asked);
}

// The first parameter has no gradient in the second of four steps.
void asked_without_gradients(Context& context) {
  AskedOptimizer asked = asked_in(context);
  const bool lacks = context.parameters().text("lacking") == "one";
  asked.clip = 1e6;
  asked.gradient = [=](int step, int, std::size_t parameter, std::vector<double> usual) {
    return lacks && step == 1 && parameter == 0 ? HeldValues() : HeldValues(std::move(usual));
  };
  report_optimizer(context, asked);
}

// ---- what is refused ----

const std::map<std::string, json>& bad_optimizer_options() {
  static const std::map<std::string, json> all{{"order_0", {{"norm_type", 0}, {"clip_grad", 1}}},
                                               {"order_below_0", {{"norm_type", -1}, {"clip_grad", 1}}},
                                               {"order_of_minus_inf", {{"norm_type", "-inf"}, {"clip_grad", 1}}},
                                               {"order_nan", {{"norm_type", "nan"}, {"clip_grad", 1}}},
                                               {"clip_below_0", {{"clip_grad", -0.25}}},
                                               {"clip_nan", {{"clip_grad", "nan"}}},
                                               {"scale_0", {{"scaler", {{"initial_scale", 0}}}}},
                                               {"scale_below_0", {{"scaler", {{"initial_scale", -4}}}}},
                                               {"scale_nan", {{"scaler", {{"initial_scale", "nan"}}}}},
                                               {"scale_inf", {{"scaler", {{"initial_scale", "inf"}}}}},
                                               {"f64", {{"dtype", "float64"}}},
                                               {"integers", {{"dtype", "int32"}}},
                                               {"no_gradients", json::object()},
                                               {"few_gradients", json::object()},
                                               {"many_gradients", json::object()},
                                               {"short_gradient", json::object()},
                                               {"empty_gradient", json::object()},
                                               {"long_gradient", json::object()}};
  return all;
}

// The wrong gradients are the last rank's, in the second step.
void asked_refuses(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  AskedOptimizer asked{.layout = {.tensor = 1, .pipeline = 1, .data = 1}};
  report_optimizer(context, asked);
  auto [args, right] = asked_and_right(asked);
  args.update(bad_optimizer_options().at(fault));
  json& gradients = args["steps"][1].back()["grads_scaled"];
  if (fault == "no_gradients") gradients = json::array();
  if (fault == "few_gradients") gradients.erase(gradients.size() - 1);
  if (fault == "many_gradients") gradients.push_back({1.0});
  if (fault == "short_gradient") gradients.back().erase(gradients.back().size() - 1);
  if (fault == "empty_gradient") gradients.back() = json::array();
  if (fault == "long_gradient") gradients.back().push_back(1.0);
  // A type is a value of an option: who has it not may say so.
  if (args.contains("dtype") && answer_to(context.adapter(), kSteppedOverRanks, args).kind == "unsupported") return;
  report_words(problem_of_refusal_beside_answers(context.adapter(), kSteppedOverRanks, args));
}

// ---- a group that clips ----

constexpr const char* kClipsOverRanks = "scaler.clip_grad_norm";

void asked_clipped_over_the_group(Context& context) {
  const int ranks = static_cast<int>(context.parameters().number("ranks"));
  const double most = std::stod(context.parameters().text("max_norm"));
  const std::string& order = context.parameters().text("p");
  const double p = order == "inf" ? HUGE_VAL : std::stod(order);
  json args{
      {"world_size", ranks}, {"tensor", ranks}, {"pipeline", 1}, {"max_norm", most}, {"norm_type", number_or_word(p)}};
  double norm = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    args["ranks"].push_back({{"grads", {{rank + 3.0}}}});
    norm = std::isinf(p) ? rank + 3 : norm + std::pow(rank + 3, p);
  }
  if (!std::isinf(p)) norm = std::pow(norm, 1 / p);
  const double by = std::min(1.0, most / (norm + 1e-6));
  report_words(problem_of(context.adapter(), kClipsOverRanks, args, [&](const json& result) -> std::string {
    if (result.at("ranks").size() != static_cast<std::size_t>(ranks)) return "another number of ranks";
    for (int rank = 0; rank < ranks; ++rank) {
      const json& row = result.at("ranks").at(static_cast<std::size_t>(rank));
      const double got = row.at("norm").get<double>(), clipped = row.at("clipped").at(0).at(0).get<double>();
      if (!(std::abs(got - norm) <= 1e-6 * norm))
        return fmt::format("rank {}: the norm is {}, not {}", rank, got, norm);
      if (!(std::abs(clipped - (rank + 3) * by) <= 1e-5))
        return fmt::format("rank {}: the gradient is {}, it must be {}", rank, clipped, (rank + 3) * by);
    }
    return {};
  }));
}

// ---- PyTorch's scaler: a scale that is given ----

constexpr const char* kScalerCalls = "scaler.trace";

json question_of_scaler(json calls) {
  return {{"init", {{"init_scale", 8}, {"growth_interval", 5}}}, {"sizes", {{1}}}, {"ops", std::move(calls)}};
}

// After a clean step; a scale is given that is no scale, or before there is one. The scaler is as it was.
void asked_given_scale(Context& context) {
  const std::string& given = context.parameters().text("given");
  const bool is_right = given == "right", is_early = given == "before_a_loss";
  const json value = is_right                                              ? json(0.25)
                     : is_early || given == "0"                            ? json(is_early ? 2.0 : 0.0)
                     : given == "inf" || given == "nan" || given == "-inf" ? json(given)
                                                                           : json(std::stod(given));
  json calls = json::array();
  if (!is_early)
    for (const json& call : {json{"scale", {1.0}}, json{"grads", 0, {{8.0}}}, json{"step", 0}, json{"update"}})
      calls.push_back(call);
  const std::size_t at = calls.size();
  for (const json& call : {json{"update", value}, json{"scale", {1.0}}}) calls.push_back(call);
  report_words(
      problem_of(context.adapter(), kScalerCalls, question_of_scaler(calls), [&](const json& result) -> std::string {
        const json &rows = result.at("results"), &row = rows.at(at), &after = rows.at(at + 1);
        if (rows.size() != calls.size()) return "another number of calls";
        if (row.contains("error") == is_right) return "the scale is " + std::string(is_right ? "rejected" : "accepted");
        const double scale = is_right ? 0.25 : 8;
        if (after.at("scale") != scale || after.at("out").at(0) != scale)
          return fmt::format("the scale is {} afterwards, it must be {}", after["scale"].dump(), scale);
        const bool keeps_count = is_early || (after.at("growth_tracker") == (is_right ? 0 : 1)) || is_right;
        return keeps_count ? "" : "the count is " + after["growth_tracker"].dump();
      }));
}

// ---- the suite ----

std::vector<std::string> optimizer_faults(const std::vector<std::string>& prefixes) {
  std::vector<std::string> names;
  for (const auto& [name, options] : bad_optimizer_options())
    for (const std::string& prefix : prefixes)
      if (name.starts_with(prefix) || name.ends_with(prefix)) names.push_back(name);
  return names;
}

}  // namespace

void add_optimizer_answer_checks(suite::Suite& suite) {
  const std::vector<std::string> grids{"1x1x1", "2x1x1", "1x3x1", "1x1x2", "2x2x1", "2x1x2", "2x3x1"};
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<std::string> list = {}, std::vector<AskedOption> options = {}) {
    axes.push_back({"grid", list.empty() ? grids : std::move(list)});
    suite.add({.id = std::string("scaler.asked.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {kSteppedOverRanks},
               .options = options_of(std::move(options)),
               .body = body});
  };
  const auto decides = [](const char* how) { return std::vector<AskedOption>{{kSteppedOverRanks, "deciding", {how}}}; };
  const auto fields = [](std::vector<std::string> names) {
    return AskedOption{kSteppedOverRanks, "fields", std::move(names)};
  };
  const std::vector<std::string> kinds{"kinds"};
  const AskedOption of_stages{
      kSteppedOverRanks, "fields", {}, "grid", {{"1x3x1", kinds}, {"2x2x1", kinds}, {"2x3x1", kinds}}};
  const std::vector<std::string> order{"norm_type"};
  const AskedOption of_order{kSteppedOverRanks, "fields", {}, "p", {{"1", order}, {"3", order}, {"inf", order}}};
  const suite::Axis found{"found", {"nobody", "one", "two", "everybody"}}, some{"found", {"nobody", "one"}};
  add("model_group_skips", "SCALER-060@db49", {found}, asked_model_group_skips);
  add("two_reductions_decide_alike", "SCALER-061@908f", {found}, asked_two_reductions, {},
      decides("tensor_then_pipeline"));
  add("replicas_skip_together", "SCALER-062@16b2", {found}, asked_replicas_skip_together, {},
      decides("model_and_data"));
  add("smaller_groups_decide", "SCALER-042@75a0", {{"deciding", {"local", "tensor"}}, found}, asked_smaller_groups,
      {"1x1x1", "2x1x1", "2x3x1"}, {{kSteppedOverRanks, "deciding", {}, "deciding"}});
  add("flags_begin_anew", "SCALER-063@1a1b", {some}, asked_flags_begin_anew, {"1x1x1", "2x1x1", "1x3x1"});
  add("empty_ranks_take_part", "SCALER-064@5807", {{"empty", {"nobody", "last_stage"}}, {"p", {"2", "inf"}}},
      asked_empty_ranks, {"1x2x1", "2x2x1", "1x3x1"},
      {fields({"count_zeros"}), of_order, {kSteppedOverRanks, "fields", {}, "empty", {{"nobody", {"kinds"}}}}});
  const suite::Axis dtypes{"dtype", {"float16", "bfloat16", "float32"}};
  const AskedOption of_dtype{
      kSteppedOverRanks, "dtype", {}, "dtype", {{"bfloat16", {"bfloat16"}}, {"float32", {"float32"}}, {"float16", {}}}};
  add("found_in_every_place", "SCALER-066@0e2e", {{"value", {"nothing", "inf", "-inf", "nan"}}, dtypes},
      asked_found_in_every_place, {"1x1x1", "2x1x1", "1x3x1"}, {of_dtype});
  add("sum_over_replicas_overflows", "SCALER-067@80e2", {{"values", {"usual", "large"}}}, asked_sum_overflows,
      {"1x1x1", "1x1x2", "2x1x2"}, {fields({"sum_replicas"})});
  add("shards_are_one", "SCALER-112@6e2a", {some, {"p", {"2", "inf"}}}, asked_shards_are_one,
      {"1x1x2", "1x1x3", "1x1x5"}, {fields({"count_zeros", "shard_over_data"}), of_order});
  add("skipped_steps_leave_no_trace", "SCALER-068@ddb0", {{"overflows", {"none", "two"}}}, asked_skipped_steps, {},
      {of_stages});
  add("masters_are_stepped_in_f32", "SCALER-069@2589", {dtypes, {"momentum", {"0", "0.5", "1"}}}, asked_masters,
      {"1x1x1", "1x3x1"}, {of_dtype});
  add("norm_is_the_models", "SCALER-070@cf1f", {{"p", {"1", "2", "3", "inf"}}}, asked_norm, {}, {of_order, of_stages});
  add("clipped_as_they_are_now", "SCALER-071@6e94", {{"max_norm", {"0.5", "1e6"}}}, asked_clipping, {}, {of_stages});
  add("zeros_are_counted_once", "SCALER-072@577f", {}, asked_zeros, {}, {fields({"count_zeros"}), of_stages});
  add("resumes_bit_for_bit", "SCALER-073@0e06", {{"resumed", {"no", "yes"}}}, asked_resumes,
      {"1x1x1", "2x1x1", "1x3x1"}, {{kSteppedOverRanks, "fields", {}, "resumed", {{"yes", {"resume_at"}}}}});
  add("parameters_without_gradients", "SCALER-130@148a", {{"lacking", {"nothing", "one"}}}, asked_without_gradients, {},
      {of_stages});
  std::map<std::string, std::vector<std::string>> of_faults;
  for (const std::string& fault : optimizer_faults({"order"})) of_faults[fault] = order;
  const auto refuses = [&](const char* name, const char* requirement, const std::vector<std::string>& prefixes) {
    suite.add({.id = std::string("scaler.asked.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = {{"fault", optimizer_faults(prefixes)}},
               .operations = {kSteppedOverRanks},
               .options = options_of({{kSteppedOverRanks, "fields", {}, "fault", of_faults}}),
               .body = asked_refuses});
  };
  refuses("parameters_are_refused", "SCALER-116@afcf", {"f64", "integers"});
  refuses("gradients_are_refused", "SCALER-120@2c47", {"gradients", "gradient"});
  refuses("clipping_is_refused", "SCALER-121@498b", {"order", "clip"});
  refuses("scale_is_refused", "SCALER-122@56e1", {"scale"});
  suite.add({.id = "scaler.asked.clipped_over_the_group",
             .verifies = {"SCALER-129@e21f"},
             .door = Door::adapter,
             .axes = {{"max_norm", {"0", "0.5", "1e6"}}, {"p", {"1", "2", "inf"}}, {"ranks", {"1", "3", "4"}}},
             .operations = {kClipsOverRanks},
             .options = options_of({{kClipsOverRanks, "form", {"ranks"}}, {kClipsOverRanks, "dtype", {"float32"}}}),
             .body = asked_clipped_over_the_group});
  suite.add({.id = "scaler.asked.given_scale_is_refused",
             .verifies = {"SCALER-126@bf05"},
             .door = Door::adapter,
             .axes = {{"given", {"right", "0", "-1", "inf", "-inf", "nan", "1e39", "1e-60", "before_a_loss"}}},
             .operations = {kScalerCalls},
             .options = options_of({{kScalerCalls, "dtype", {"float32"}}}),
             .body = asked_given_scale});
}

}  // namespace plumbline::conformance

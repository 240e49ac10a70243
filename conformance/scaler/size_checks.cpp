// Loss scales over 10,000 steps, decisions of 4,096 ranks, norms of 100,000 elements: each derived a second time in one
// walk.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "conformance/scaler/norms.hpp"
#include "conformance/scaler/overflows.hpp"
#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/rank_grid.hpp"
#include "conformance/support/sizes.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;

namespace {

// ---- scales ----

// Powers of two between 2^4 and 2^24, so that all is exact: at the ends a step overflows, or does not, whatever was
// drawn.
bool overflows_at(int step, double scale) {
  return scale >= 0x1p24 || (scale > 16 && (step * 7919 % 13 == 0 || step % 101 > 97));
}

// The scales of a rule, one a step: what a step found, and the row after it.
class SizedScale {
 public:
  virtual ~SizedScale() = default;
  virtual void step(bool found) = 0;
  [[nodiscard]] virtual json row() const = 0;
  double scale = 0x1p16;
};

// Megatron-LM's and ColossalAI's: three chances, which a growth gives back.
class ScaleWithChances final : public SizedScale {
 public:
  static json init() {
    return {{"initial_scale", 0x1p16}, {"min_scale", 1.0},     {"growth_factor", 2.0},
            {"backoff_factor", 0.5},   {"growth_interval", 5}, {"hysteresis", 3}};
  }
  void step(bool found) override {
    clean_ = found ? 0 : clean_ + 1;
    if (found && --chances_ <= 0) scale /= 2;
    if (clean_ < 5) return;
    clean_ = 0;
    chances_ = 3;
    scale *= 2;
  }
  [[nodiscard]] json row() const override {
    return {{"scale", scale}, {"inv_scale", 1 / scale}, {"growth_tracker", clean_}, {"hysteresis_tracker", chances_}};
  }

 private:
  int clean_ = 0, chances_ = 3;
};

// DeepSpeed's: the window counts from the second clean step, and the last chance halves the scale.
class ScaleWithWindow final : public SizedScale {
 public:
  static json init() {
    return {{"init_scale", 0x1p16},
            {"scale_window", 4},
            {"min_scale", 1.0},
            {"delayed_shift", 2},
            {"consecutive_hysteresis", false},
            {"raise_error_at_min_scale", true}};
  }
  void step(bool found) override {
    const int stable = step_ - last_overflow_ - 1;
    if (found) {
      chances_ == 1 ? (void)(scale /= 2) : (void)--chances_;
      last_overflow_ = step_;
    } else if (stable > 0 && stable % 4 == 0) {
      chances_ = 2;
      scale *= 2;
    }
    ++step_;
  }
  [[nodiscard]] json row() const override {
    return {
        {"scale", scale}, {"cur_iter", step_}, {"last_overflow_iter", last_overflow_}, {"cur_hysteresis", chances_}};
  }

 private:
  int step_ = 0, last_overflow_ = -1, chances_ = 2;
};

template <class Scale>
JudgeSize long_trace(const std::string& convention) {
  return [convention](Adapter& adapter, int steps) {
    Scale rule;
    std::vector<bool> found;
    json trace = json::array({rule.row()});
    for (int step = 0; step < steps; ++step) {
      found.push_back(overflows_at(step, rule.scale));
      rule.step(found.back());
      trace.push_back(rule.row());
    }
    json args{{"convention", convention}, {"init", Scale::init()}};
    args[convention == "deepspeed" ? "overflow" : "found_inf"] = found;
    if (convention == "deepspeed") args["scaler"] = "DynamicLossScaler";
    return problem_of(adapter, kTrace, args,
                      [&](const json& result) { return first_difference(trace, result.at("trace"), "trace"); });
  };
}

// PyTorch's: three operations a step, and one at the start.
JudgeSize long_torch_trace(const std::string& convention) {
  return [convention](Adapter& adapter, int steps) {
    constexpr int interval = 3;
    double scale = 0x1p16;
    int clean = 0;
    json ops = json::array({json::array({"scale", {1.0}})}),
         expected = json::array({{{"scale", scale}, {"growth_tracker", 0}}});
    for (int step = 0; step < steps; ++step) {
      const bool found = overflows_at(step, scale);
      ops.push_back(json::array({"grads", 0, json::array({json::array({4.0, found ? json("inf") : json(8.0)})})}));
      expected.push_back({{"scale", scale}, {"growth_tracker", clean}});
      ops.push_back(json::array({"step", 0}));
      expected.push_back({{"scale", scale}, {"stepped", !found}});
      ops.push_back(json::array({"update"}));
      clean = found ? 0 : clean + 1;
      if (found) scale /= 2;
      if (clean == interval) {
        scale *= 2;
        clean = 0;
      }
      expected.push_back({{"scale", scale}, {"growth_tracker", clean}});
    }
    const json args{{"convention", convention},
                    {"init", {{"init_scale", 0x1p16}, {"growth_interval", interval}}},
                    {"dtype", "float32"},
                    {"sizes", json::array({json::array({2})})},
                    {"lr", 0.5},
                    {"ops", ops}};
    return problem_of(adapter, kTrace, args,
                      [&](const json& result) { return first_difference(expected, result.at("results"), "results"); });
  };
}

// ---- who skips ----

// Three ranks of one tensor group and of another replica.
JudgeSize many_decisions(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    const std::vector<int> sizes = three_sizes(ranks);  // data, pipeline, tensor
    const RankGrid grid(sizes);
    const std::vector<int> found{0, 1, ranks - 2};
    const auto sharing = [&](std::initializer_list<std::size_t> axes) {
      std::vector<int> members;
      for (int rank = 0; rank < ranks; ++rank)
        if (std::ranges::any_of(found, [&](int other) {
              return std::ranges::all_of(axes,
                                         [&](std::size_t axis) { return grid.at(rank, axis) == grid.at(other, axis); });
            }))
          members.push_back(rank);
      return members;
    };
    json expected{{"skips_local_only", found},
                  {"skips_tensor_only", sharing({0, 1})},
                  {"skips_tensor_then_pipeline", sharing({0})},
                  {"skips_model", sharing({0})},
                  {"skips_model_if_data_parallel_gradients_were_reduced_first", all_ranks(ranks)}};
    if (convention == "plumbline") expected["skips_model_and_data"] = all_ranks(ranks);
    const json args{{"convention", convention}, {"world_size", ranks}, {"tensor", sizes[2]},
                    {"pipeline", sizes[1]},     {"data", sizes[0]},    {"local_found_inf", found}};
    return problem_of(adapter, "scaler.found_inf", args,
                      [&](const json& result) { return first_difference(expected, result); });
  };
}

// ---- optimizers ----

// A model group of four by four, as many ranks as there may be, takes steps of an eighth forth and back; a step that
// one of its ranks finds an infinity in is skipped by all.
JudgeSize many_optimizers(const std::string& convention) {
  return [convention](Adapter& adapter, int steps) {
    constexpr int ranks = 16;
    ScaleWithChances rule;
    rule.scale = 64;
    double value = 1;
    json args{{"convention", convention}, {"world_size", ranks}, {"tensor", 4},    {"pipeline", 4}, {"data", 1},
              {"clip_grad", 0.0},         {"lr", 0.5},           {"momentum", 0.0}};
    args["scaler"] = ScaleWithChances::init();
    args["scaler"]["initial_scale"] = 64.0;
    args["scaler"]["max_scale"] = 256.0;
    for (int rank = 0; rank < ranks; ++rank) args["params0"].push_back({{1.0, 1.0}, {1.0}});
    json expected = json::array();
    for (int step = 0; step < steps; ++step) {
      const bool found = rule.scale >= 128 || (rule.scale > 8 && step % 7 == 3);
      const double before = rule.scale, gradient = step % 2 == 0 ? 0.25 : -0.25;
      json asked = json::array(), rows = json::array();
      rule.step(found);
      if (!found) value -= 0.5 * gradient;
      for (int rank = 0; rank < ranks; ++rank) {
        const json second = found && rank == ranks - 2 ? json("inf") : json(gradient * before);
        asked.push_back({{"grads_scaled", {{gradient * before, second}, {gradient * before}}}});
        json row = rule.row();
        row.erase("inv_scale");
        row.update({{"scale_before", before}, {"stepped", !found}, {"found_inf", found ? 1.0 : 0.0}});
        row["params"] = row["main_params"] = {{value, value}, {value}};
        rows.push_back(std::move(row));
      }
      args["steps"].push_back(std::move(asked));
      expected.push_back(std::move(rows));
    }
    return problem_of(adapter, "scaler.fp16_optimizer", args,
                      [&](const json& result) { return first_difference(expected, result.at("steps"), "steps"); });
  };
}

// ---- norms ----

// Sums of many elements round more often, and clipped elements are small.
bool is_near_long_norm(double got, double expected) { return is_near_norm(got, expected, 1e-5, 1e-9); }

// Half of the elements 3, half 4, with alternate signs, in lists of 1,000: orders 1, 2 and infinity in closed form.
JudgeSize long_norms(const std::string& convention) {
  return [convention](Adapter& adapter, int elements) {
    json grads = json::array();
    for (int i = 0; i < elements; ++i) {
      if (i % 1000 == 0) grads.push_back(json::array());
      grads.back().push_back((i % 2 == 0 ? 3.0 : 4.0) * (i % 4 < 2 ? 1 : -1));
    }
    const double count = elements;
    for (const auto& [order, norm] : {std::pair(json(1.0), 3.5 * count), std::pair(json(2.0), std::sqrt(12.5 * count)),
                                      std::pair(json("inf"), 4.0)}) {
      const double max_norm = 2, by = max_norm / (norm + 1e-6);
      const json args{{"convention", convention}, {"grads", grads},     {"dtype", "float32"},
                      {"max_norm", max_norm},     {"norm_type", order}, {"error_if_nonfinite", false}};
      const std::string words =
          problem_of(adapter, "scaler.clip_grad_norm", args, [&](const json& result) -> std::string {
            if (const double got = result.at("total_norm"); !is_near_long_norm(got, norm))
              return fmt::format("the norm is {}, it should be {}", got, norm);
            const json& clipped = result.at("clipped");
            if (clipped.size() != grads.size()) return fmt::format("{} lists are clipped", clipped.size());
            for (std::size_t list = 0; list < grads.size(); ++list)
              for (std::size_t i = 0; i < grads[list].size(); ++i)
                if (!is_near_long_norm(clipped[list].at(i), grads[list][i].get<double>() * by))
                  return fmt::format("element {} of list {} is {}", i, list, clipped[list][i].dump());
            return {};
          });
      if (!words.empty()) return fmt::format("order {}: {}", order.dump(), words);
    }
    return std::string();
  };
}

// Parts of a thousand elements each, in lists of ten.
JudgeSize long_total_norms(const std::string& convention) {
  return [convention](Adapter& adapter, int elements) {
    json parts = json::array();
    for (int i = 0; i < elements; ++i) {
      if (i % 1000 == 0) parts.push_back(json::array());
      if (i % 10 == 0) parts.back().push_back(json::array());
      parts.back().back().push_back((i % 2 == 0 ? 3.0 : 4.0) * (i % 4 < 2 ? 1 : -1));
    }
    const double count = elements;
    for (const auto& [order, norm] : {std::pair(json(1.0), 3.5 * count), std::pair(json(2.0), std::sqrt(12.5 * count)),
                                      std::pair(json("inf"), 4.0)}) {
      const json args{{"convention", convention}, {"parts", parts}, {"dtype", "float32"}, {"norm_type", order}};
      const std::string words = problem_of(adapter, "scaler.total_norm", args, [&](const json& result) -> std::string {
        const double got = result.at("total_norm");
        return is_near_long_norm(got, norm) ? "" : fmt::format("the norm is {}, it should be {}", got, norm);
      });
      if (!words.empty()) return fmt::format("order {}: {}", order.dump(), words);
    }
    return std::string();
  };
}

// Sixteen ranks, each with a list of 3 and -3 that is cut, and one 4 that all of its tensor group have.
JudgeSize norms_of_ranks(const std::string& convention) {
  return [convention](Adapter& adapter, int elements) {
    constexpr int ranks = 16, tensor = 4, stages = 4;
    json args{{"convention", convention}, {"world_size", ranks}, {"tensor", tensor},
              {"pipeline", stages},       {"max_norm", 1.0},     {"norm_type", 2.0}};
    json cut = json::array();
    for (int i = 0; i < elements; ++i) cut.push_back(i % 2 == 0 ? 3.0 : -3.0);
    for (int rank = 0; rank < ranks; ++rank) args["ranks"].push_back({{"grads", {cut, {4.0}}}});
    const double norm = std::sqrt(9.0 * elements * ranks + 16.0 * stages), by = 1 / (norm + 1e-6);
    return problem_of(adapter, "scaler.clip_grad_norm", args, [&](const json& result) -> std::string {
      if (result.at("ranks").size() != ranks) return fmt::format("{} ranks answer", result["ranks"].size());
      for (const json& rank : result["ranks"]) {
        const json& clipped = rank.at("clipped");
        if (!is_near_long_norm(rank.at("norm"), norm))
          return fmt::format("the norm is {}, not {}", rank["norm"].dump(), norm);
        if (clipped.at(0).size() != cut.size()) return fmt::format("{} elements are clipped", clipped[0].size());
        for (std::size_t i = 0; i < cut.size(); ++i)
          if (!is_near_long_norm(clipped[0][i], cut[i].get<double>() * by))
            return fmt::format("element {} is {}", i, clipped[0][i].dump());
        if (!is_near_long_norm(clipped.at(1).at(0), 4 * by)) return fmt::format("the last is {}", clipped[1].dump());
      }
      return {};
    });
  };
}

// One rank of the last model group overflows.
JudgeSize one_overflow(const std::string& convention) {
  return [convention](Adapter& adapter, int world) {
    const int tensor = 2, data = 2, pipeline = world / 4;
    json args{{"convention", convention}, {"tensor", tensor},      {"pipeline", pipeline}, {"data", data},
              {"over", "model"},          {"ranks", json::array()}};
    const int odd = world - 2;
    for (int rank = 0; rank < world; ++rank)
      args["ranks"].push_back({{"grads", {{rank == odd ? json("nan") : json(1.0)}}}});
    return problem_of(adapter, "scaler.overflow", args, [&](const json& result) {
      json expected = json::array();
      for (int rank = world / 2; rank < world; ++rank) expected.push_back(rank);
      return first_difference({{"local", {odd}}, {"overflow", expected}}, result);
    });
  };
}

}  // namespace

void add_scaler_size_checks(suite::Suite& suite) {
  const auto add = [&](SizedCheck one) { add_sized_check(suite, "scaler", std::move(one)); };
  const std::vector<int> steps{20, 300, 4567, 30'000};
  add(asking({{"dtype", {"float32"}}},
             {kTrace, "SCALER-002@96f1", {20, 300, 4567, 10'000}, long_torch_trace("plumbline")}));
  add(asking({{"dtype", {"float32"}}},
             {kTrace, "SCALER-014@74da", {20, 300, 4567, 10'000}, long_torch_trace("torch"), "torch"}));
  add({kTrace, "SCALER-025@caa7", steps, long_trace<ScaleWithChances>("megatron"), "megatron"});
  add({kTrace, "SCALER-026@c772", steps, long_trace<ScaleWithChances>("colossalai"), "colossalai"});
  add(asking({{"scaler", {"DynamicLossScaler"}}},
             {kTrace, "SCALER-034@b91c", steps, long_trace<ScaleWithWindow>("deepspeed"), "deepspeed"}));
  add({"scaler.found_inf", "SCALER-040@afc9", {12, 60, 1001, 65'536}, many_decisions("plumbline")});
  add({"scaler.found_inf", "SCALER-045@5f96", {12, 60, 1001, 65'536}, many_decisions("colossalai"), "colossalai"});
  add({"scaler.fp16_optimizer", "SCALER-082@2cda", {10, 100, 600}, many_optimizers("plumbline")});
  add({"scaler.fp16_optimizer", "SCALER-076@f02d", {10, 100, 600}, many_optimizers("colossalai"), "colossalai"});
  add(asking({{"dtype", {"float32"}}, {"form", {"gradients"}}},
             {"scaler.clip_grad_norm", "SCALER-051@c227", {12, 500, 7000, 100'000}, long_norms("plumbline")}));
  add(asking({{"dtype", {"float32"}}, {"form", {"gradients"}}},
             {"scaler.clip_grad_norm", "SCALER-053@836a", {12, 500, 7000, 100'000}, long_norms("torch"), "torch"}));
  add(asking({{"dtype", {"float32"}}},
             {"scaler.overflow", "SCALER-134@261d", {12, 60, 1000, 65'536}, one_overflow("plumbline")}));
  add(asking({{"dtype", {"float32"}}},
             {"scaler.overflow", "SCALER-134@261d", {12, 60, 1000, 4096}, one_overflow("deepspeed"), "deepspeed"}));
  for (const char* convention : {"plumbline", "torch"})
    add(asking(
        {{"dtype", {"float32"}}},
        {"scaler.total_norm", "SCALER-131@9157", {12, 500, 7000, 100'000}, long_total_norms(convention), convention}));
  add(asking({{"dtype", {"float32"}}, {"form", {"ranks"}}}, {"scaler.clip_grad_norm",
                                                             "SCALER-081@6e9e",
                                                             {10, 300, 5000},
                                                             norms_of_ranks("plumbline"),
                                                             "plumbline",
                                                             "ranks"}));
  add(asking({{"form", {"ranks"}}}, {"scaler.clip_grad_norm",
                                     "SCALER-080@adca",
                                     {10, 300, 5000},
                                     norms_of_ranks("colossalai"),
                                     "colossalai",
                                     "ranks"}));
}

}  // namespace plumbline::conformance

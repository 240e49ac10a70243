// Who skips a step under which policy, and norms over lists of gradients, as adapters answer.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "conformance/scaler/norms.hpp"
#include "conformance/scaler/scaler_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/control.hpp"
#include "conformance/support/property.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

const char* const kFoundInf = "scaler.found_inf";
const char* const kClip = "scaler.clip_grad_norm";

using Ranks = std::set<int>;

// A grid and who found something.
struct Grid {
  int tensor = 1, pipeline = 1, data = 1;
  Ranks found;
  [[nodiscard]] int world() const { return tensor * pipeline * data; }
  [[nodiscard]] int column(int rank) const { return rank % tensor; }
  [[nodiscard]] int stage(int rank) const { return rank / tensor % pipeline; }
  [[nodiscard]] int replica(int rank) const { return rank / (tensor * pipeline); }
  [[nodiscard]] json args() const {
    return {{"world_size", world()},
            {"tensor", tensor},
            {"pipeline", pipeline},
            {"data", data},
            {"local_found_inf", found}};
  }
};

using Judge = std::string (*)(const Grid& grid, const json& result);

Ranks ranks_of(const json& result, const char* policy) { return result.at(policy).get<Ranks>(); }

// The ranks that share all that `alike` compares with one that found something.
template <class Alike>
Ranks meeting(const Grid& grid, const Alike& alike) {
  Ranks ranks;
  for (int rank = 0; rank < grid.world(); ++rank)
    for (const int other : grid.found)
      if (alike(rank, other)) ranks.insert(rank);
  return ranks;
}

std::string expect_ranks(const json& result, const char* policy, const Ranks& expected) {
  return ranks_of(result, policy) == expected
             ? ""
             : fmt::format("{}: {}, it should be {}", policy, result.at(policy).dump(), json(expected).dump());
}

std::string model_group_skips(const Grid& grid, const json& result) {
  return expect_ranks(result, "skips_model",
                      meeting(grid, [&](int a, int b) { return grid.replica(a) == grid.replica(b); }));
}

std::string two_reductions_are_one(const Grid& grid, const json& result) {
  return expect_ranks(result, "skips_tensor_then_pipeline",
                      meeting(grid, [&](int a, int b) { return grid.replica(a) == grid.replica(b); }));
}

std::string smaller_groups_skip_less(const Grid& grid, const json& result) {
  if (std::string words = expect_ranks(result, "skips_local_only", grid.found); !words.empty()) return words;
  return expect_ranks(result, "skips_tensor_only", meeting(grid, [&](int a, int b) {
                        return grid.replica(a) == grid.replica(b) && grid.stage(a) == grid.stage(b);
                      }));
}

// After the reduction every replica of whoever found something has it.
std::string reduced_gradients_reach_all(const Grid& grid, const json& result) {
  return expect_ranks(result, "skips_model_if_data_parallel_gradients_were_reduced_first",
                      meeting(grid, [](int, int) { return true; }));
}

// Replicas step together whatever they found: all or none.
std::string replicas_agree(const Grid& grid, const json& result) {
  return expect_ranks(result, "skips_model_and_data", meeting(grid, [](int, int) { return true; }));
}

Grid draw_grid(Random& random, const std::string& grid) {
  Grid one{.tensor = random.between(1, 4), .pipeline = random.between(1, 4), .data = random.between(1, 4), .found = {}};
  if (grid == "tensor") one.pipeline = one.data = 1;
  if (grid == "pipeline") one.tensor = one.data = 1;
  if (grid == "data") one.tensor = one.pipeline = 1;
  if (grid == "model") one.data = 1;
  if (grid == "alone") one.tensor = one.pipeline = one.data = 1;
  const int count = random.between(0, 2);
  for (int i = 0; i < count; ++i) one.found.insert(random.between(0, one.world() - 1));
  return one;
}

std::vector<Grid> smaller_grids(const Grid& grid) {
  std::vector<Grid> list;
  for (int Grid::* size : {&Grid::tensor, &Grid::pipeline, &Grid::data})
    if (grid.*size > 1) {
      Grid one = grid;
      --(one.*size);
      std::erase_if(one.found, [&](int rank) { return rank >= one.world(); });
      list.push_back(one);
    }
  for (const int rank : grid.found) list.push_back(grid), list.back().found.erase(rank);
  return list;
}

template <Judge judge>
void grids(Context& context) {
  constexpr int trials = 80;
  const std::string kind = context.parameters().text("grid");
  const Property<Grid> property{.draw = [&](Random& random) { return draw_grid(random, kind); },
                                .problem =
                                    [&](const Grid& grid) {
                                      return problem_of(context.adapter(), kFoundInf, grid.args(),
                                                        [&](const json& result) { return judge(grid, result); });
                                    },
                                .smaller = smaller_grids,
                                .words = [](const Grid& grid) { return grid.args().dump(); }};
  report_words(search(property, context.seed(), trials));
}

void grid_is_refused(Context& context) {
  const std::string what = context.parameters().text("what");
  json args = Grid{.tensor = 2, .pipeline = 2, .data = 2, .found = {3}}.args();
  if (what == "other_product") args["world_size"] = 9;
  if (what == "size_zero") args["tensor"] = 0;
  if (what == "rank_outside") args["local_found_inf"] = {8};
  if (what == "rank_below") args["local_found_inf"] = {-1};
  if (what == "unknown_field") args["expert"] = 1;
  if (what == "nothing")
    report_words(problem_of_control(context.adapter(), kFoundInf, args));
  else
    report_words(problem_of_refusal(context.adapter(), kFoundInf, args));
}

// ---- norms ----

struct Gradients {
  std::vector<std::vector<double>> lists;
  double max_norm = 1;
};

double order_named(const std::string& name) { return std::stod(name); }  // "inf" and "-inf" too

json order_told(const std::string& name) {
  return std::isinf(order_named(name)) ? json(name) : json(order_named(name));
}

bool has_number(const std::vector<double>& list) {
  return std::ranges::any_of(list, [](double value) { return value != 0; });
}

double smallest_magnitude(const Gradients& gradients) {
  double least = HUGE_VAL;
  for (const auto& list : gradients.lists)
    for (const double value : list) least = std::min(least, std::abs(value));
  return gradients.lists.empty() ? 0 : least;
}

// The norm of all elements in one row: for p other than 0 that of the norms of the lists, too.
double norm_of(const Gradients& gradients, double p) {
  if (gradients.lists.empty()) return 0;
  if (p == 0) return static_cast<double>(std::ranges::count_if(gradients.lists, has_number));
  if (p == -HUGE_VAL) return smallest_magnitude(gradients);
  return norm_in_one_row(gradients.lists, p);
}

Gradients draw_gradients(Random& random, const std::string& lists) {
  Gradients one;
  const int count = lists == "one" ? 1 : lists == "none" ? 0 : random.between(2, 6);
  for (int i = 0; i < count; ++i) {
    auto& list = one.lists.emplace_back(static_cast<std::size_t>(random.between(1, 8)));
    const int most = random.between(0, 3) > 0 ? 64 : random.between(0, 1);  // few numbers but 0, or none
    for (double& value : list) value = random.between(-most, most) / 16.0;
  }
  one.max_norm = random.one_of(std::vector<double>{0.25, 1, 1e6});
  return one;
}

json args_of(const Gradients& gradients, const std::string& order) {
  return {{"grads", gradients.lists}, {"max_norm", gradients.max_norm}, {"norm_type", order_told(order)}};
}

using JudgeNorm = std::string (*)(const Gradients&, double p, const json& result);

std::string norm_is_of_all(const Gradients& gradients, double p, const json& result) {
  const double expected = norm_of(gradients, p), got = result.at("total_norm").get<double>();
  return is_near_norm(got, expected) ? "" : fmt::format("the norm is {}, it should be {}", got, expected);
}

std::string all_shrink_alike(const Gradients& gradients, double p, const json& result) {
  const double by = std::min(1.0, gradients.max_norm / (norm_of(gradients, p) + 1e-6));
  if (result.at("clipped").size() != gradients.lists.size()) return "other lists are clipped";
  for (std::size_t i = 0; i < gradients.lists.size(); ++i)
    for (std::size_t k = 0; k < gradients.lists[i].size(); ++k) {
      const double expected = gradients.lists[i][k] * by;
      const double got = result.at("clipped").at(i).at(k).get<double>();
      // What need not shrink keeps its bits.
      if (by == 1 ? got != gradients.lists[i][k] : !is_near_norm(got, expected))
        return fmt::format("element {} of gradient {}: {} becomes {}, it should be {}", k, i, gradients.lists[i][k],
                           got, expected);
    }
  return {};
}

template <JudgeNorm judge>
void norms(Context& context) {
  constexpr int trials = 40;
  const std::string order = context.parameters().text("p");
  const Property<Gradients> property{
      .draw = [&](Random& random) { return draw_gradients(random, context.parameters().text("lists")); },
      .problem =
          [&](const Gradients& gradients) {
            return problem_of(context.adapter(), kClip, args_of(gradients, order),
                              [&](const json& result) { return judge(gradients, order_named(order), result); });
          },
      .smaller =
          [](const Gradients& gradients) {
            std::vector<Gradients> list;
            for (std::size_t i = 0; i < gradients.lists.size(); ++i) {
              list.push_back(gradients);
              list.back().lists.erase(list.back().lists.begin() + static_cast<std::ptrdiff_t>(i));
            }
            return list;
          },
      .words = [&](const Gradients& gradients) { return args_of(gradients, order).dump(); }};
  report_words(search(property, context.seed(), trials));
}

void empty_gradient_has_no_extreme(Context& context) {
  const std::string order = context.parameters().text("p");
  const json args{{"grads", {{3.0, -4.0}, json::array()}}, {"max_norm", 1e6}, {"norm_type", order_told(order)}};
  if (order != "2") return report_words(problem_of_refusal_beside_answers(context.adapter(), kClip, args));
  report_words(problem_of(context.adapter(), kClip, args, [&](const json& result) -> std::string {
    const double norm = result.at("total_norm").get<double>();
    return is_near_norm(norm, 5) ? "" : fmt::format("the norm is {}, it should be 5", norm);
  }));
}

void non_finite_is_told(Context& context) {
  const std::string value = context.parameters().text("value");
  const bool raises = context.parameters().text("raise") == "yes";
  json args{{"grads", {{1.0, value == "2" ? json(2.0) : json(value)}, {0.5}}},
            {"max_norm", 1.0},
            {"norm_type", 2.0},
            {"error_if_nonfinite", raises}};
  report_words(problem_of_control(context.adapter(), kClip, args));
  const Answer answer = answer_to(context.adapter(), kClip, args);
  if (value != "2" && raises) {
    if (!answer.is_refused() || answer.kind == "unsupported")
      report_words("a norm that is not finite is clipped by: " + answer.result.dump());
    return;
  }
  if (answer.is_refused()) return report_words("refused: " + answer.message);
  report_words(problem_of(context.adapter(), kClip, args, [&](const json& result) -> std::string {
    const json& norm = result.at("total_norm");
    if (value == "2") {
      const bool is_right = norm.is_number() && is_near_norm(norm.get<double>(), std::sqrt(5.25));
      return is_right ? "" : fmt::format("the norm is {}, not {}", norm.dump(), std::sqrt(5.25));
    }
    if (norm != (value == "nan" ? "nan" : "inf")) return "the norm is " + norm.dump();
    // NaN spoils all; an infinity leaves zeros, and NaN of itself.
    const json expected = value == "nan" ? json{{"nan", "nan"}, {"nan"}} : json{{0.0, "nan"}, {0.0}};
    return result.at("clipped") == expected ? "" : "clipped to " + result.at("clipped").dump();
  }));
}

// ---- norms over ranks ----

// Gradients of each rank of a tensor x pipeline x data world: the first is cut over the tensor group, which has the
// others alike, and replicas have what their like has.
struct RankGradients {
  Grid grid;
  std::vector<Gradients> ranks;
  double max_norm = 1;
};

RankGradients draw_ranks(Random& random, const std::string& grid) {
  RankGradients one{.grid = draw_grid(random, grid), .ranks = {}};
  while (one.grid.world() > 16) one.grid = draw_grid(random, grid);
  one.max_norm = random.one_of(std::vector<double>{0.25, 1, 1e6});
  const bool has_none = random.between(0, 9) == 0;
  for (int rank = 0; rank < one.grid.world(); ++rank) {
    Gradients drawn = has_none ? Gradients() : draw_gradients(random, "several");
    const int first_of_stage = rank - one.grid.column(rank);
    const int of_replica_0 = rank % (one.grid.tensor * one.grid.pipeline);
    if (one.grid.replica(rank) > 0)
      drawn = one.ranks[static_cast<std::size_t>(of_replica_0)];
    else if (one.grid.column(rank) > 0 && !drawn.lists.empty())
      drawn.lists = {drawn.lists.front()};
    const auto& alike = one.ranks.size() > static_cast<std::size_t>(first_of_stage)
                            ? one.ranks[static_cast<std::size_t>(first_of_stage)].lists
                            : drawn.lists;
    if (one.grid.replica(rank) == 0 && one.grid.column(rank) > 0 && !drawn.lists.empty())
      drawn.lists.insert(drawn.lists.end(), alike.begin() + 1, alike.end());
    one.ranks.push_back(std::move(drawn));
  }
  return one;
}

json args_of(const RankGradients& one, const std::string& order) {
  json ranks = json::array();
  for (const Gradients& rank : one.ranks) ranks.push_back({{"grads", rank.lists}});
  json args = one.grid.args();
  args.erase("local_found_inf");
  args.update({{"ranks", ranks}, {"max_norm", one.max_norm}, {"norm_type", order_told(order)}});
  return args;
}

// Each element of the model once: of replica 0 every rank's first list, and the others of the first column.
std::string norm_is_the_models(const RankGradients& one, double p, const json& result) {
  Gradients model;
  for (int rank = 0; rank < one.grid.tensor * one.grid.pipeline; ++rank) {
    const auto& lists = one.ranks[static_cast<std::size_t>(rank)].lists;
    const bool has_all = one.grid.column(rank) == 0;
    if (!lists.empty()) model.lists.insert(model.lists.end(), lists.begin(), has_all ? lists.end() : lists.begin() + 1);
  }
  const double expected = norm_of(model, p), by = std::min(1.0, one.max_norm / (expected + 1e-6));
  if (result.at("ranks").size() != one.ranks.size())
    return fmt::format("{} ranks answer for {}", result.at("ranks").size(), one.ranks.size());
  for (std::size_t rank = 0; rank < one.ranks.size(); ++rank) {
    const json& got = result.at("ranks").at(rank);
    if (!is_near_norm(got.at("norm").get<double>(), expected))
      return fmt::format("rank {}: the norm is {}, it should be {}", rank, got.at("norm").dump(), expected);
    const auto clipped = got.at("clipped").get<std::vector<std::vector<double>>>();
    for (std::size_t i = 0; i < one.ranks[rank].lists.size(); ++i)
      for (std::size_t k = 0; k < one.ranks[rank].lists[i].size(); ++k) {
        const double before = one.ranks[rank].lists[i][k];
        if (!is_near_norm(clipped.at(i).at(k), before * by))
          return fmt::format("rank {}, element {} of gradient {}: {} becomes {}, it should be {}", rank, k, i, before,
                             clipped[i][k], before * by);
      }
  }
  return {};
}

void norms_over_ranks(Context& context) {
  constexpr int trials = 12;
  const std::string order = context.parameters().text("p"), grid = context.parameters().text("grid");
  const Property<RankGradients> property{
      .draw = [&](Random& random) { return draw_ranks(random, grid); },
      .problem =
          [&](const RankGradients& one) {
            return problem_of(context.adapter(), kClip, args_of(one, order),
                              [&](const json& result) { return norm_is_the_models(one, order_named(order), result); });
          },
      .smaller = [](const RankGradients&) { return std::vector<RankGradients>(); },
      .words = [&](const RankGradients& one) { return args_of(one, order).dump(); }};
  report_words(search(property, context.seed(), trials));
}

}  // namespace

void add_skipping_checks(suite::Suite& suite) {
  const auto add = [&](const std::string& name, const char* requirement, std::vector<suite::Axis> axes,
                       const char* operation, void (*body)(Context&), std::vector<AskedOption> options = {}) {
    suite.add({.id = "scaler." + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {operation},
               .options = options_of(std::move(options)),
               .body = body});
  };
  const suite::Axis all{"grid", {"any", "tensor", "pipeline", "data", "model", "alone"}};
  add("skipping.model_group_skips", "SCALER-040@afc9", {all}, kFoundInf, grids<model_group_skips>);
  add("skipping.two_reductions_are_one", "SCALER-041@0139", {all}, kFoundInf, grids<two_reductions_are_one>);
  add("skipping.smaller_groups_skip_less", "SCALER-042@75a0", {all}, kFoundInf, grids<smaller_groups_skip_less>);
  add("skipping.reduced_gradients_reach_all", "SCALER-043@45ff", {all}, kFoundInf, grids<reduced_gradients_reach_all>);
  add("skipping.replicas_agree", "SCALER-044@0b68", {all}, kFoundInf, grids<replicas_agree>);
  add("skipping.grid_is_refused", "SCALER-046@aa93",
      {{"what", {"nothing", "other_product", "size_zero", "rank_outside", "rank_below", "unknown_field"}}}, kFoundInf,
      grid_is_refused);
  const suite::Axis orders{"p", {"1", "2", "3", "0.5", "-1", "inf"}}, ends{"p", {"0", "-inf"}};
  const AskedOption of_one_type{kClip, "dtype", {"float32"}};
  const std::vector<AskedOption> of_one_process{of_one_type, {kClip, "form", {"gradients"}}};
  const suite::Axis lists{"lists", {"none", "one", "several"}};
  add("clipping.norm_is_of_all", "SCALER-050@8d93", {orders, lists}, kClip, norms<norm_is_of_all>, of_one_process);
  add("clipping.norm_at_its_ends", "SCALER-124@2a34", {ends, lists}, kClip, norms<norm_is_of_all>, of_one_process);
  add("clipping.empty_gradient_has_no_extreme", "SCALER-125@dc98", {{"p", {"2", "inf", "-inf"}}}, kClip,
      empty_gradient_has_no_extreme, of_one_process);
  add("clipping.all_shrink_alike", "SCALER-051@c227", {orders, lists}, kClip, norms<all_shrink_alike>, of_one_process);
  add("clipping.non_finite_is_told", "SCALER-052@35ab",
      {{"value", {"2", "inf", "-inf", "nan"}}, {"raise", {"no", "yes"}}}, kClip, non_finite_is_told, of_one_process);
  add("clipping.norm_over_ranks", "SCALER-081@6e9e",
      {{"p", {"1", "2", "3", "inf"}}, {"grid", {"alone", "tensor", "pipeline", "model", "any"}}}, kClip,
      norms_over_ranks, {of_one_type, {kClip, "form", {"ranks"}}});
}

}  // namespace plumbline::conformance

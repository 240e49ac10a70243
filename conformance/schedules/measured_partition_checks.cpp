// Partitions of measured layers: none that fits is faster, memory is what the schedule keeps, and costs are its own.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"
#include "reference/schedules/generate.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;
using suite::Context;
using suite::Door;

namespace {

const char* const kMeasured = "schedules.partition_measured";
const char* const kCosts = "schedules.partition_costs";

using Numbers = std::vector<int>;

struct Layer {
  int forward = 0, backward = 0, parameters = 0, activations = 0, output = 0;
};

struct LayeredModel {
  std::vector<Layer> layers;
  int stages = 1, micro_batches = 1;
  double bandwidth = 0;  // 0: none is given
};

json question_of_model(const LayeredModel& model) {
  json layers = json::array();
  for (const Layer& layer : model.layers)
    layers.push_back({{"forward", layer.forward},
                      {"backward", layer.backward},
                      {"parameters", layer.parameters},
                      {"parameter_bytes", layer.parameters},
                      {"activation_bytes", layer.activations},
                      {"output_bytes", layer.output}});
  json question{{"layers", std::move(layers)}, {"pp", model.stages}, {"microbatches", model.micro_batches}};
  if (model.bandwidth > 0) question["bandwidth"] = model.bandwidth;
  return question;
}

std::string text_of_model(const LayeredModel& model) { return question_of_model(model).dump(); }

std::vector<LayeredModel> smaller_models(const LayeredModel& model) {
  std::vector<LayeredModel> list;
  const auto add = [&](const auto& change) {
    LayeredModel other = model;
    change(other);
    list.push_back(std::move(other));
  };
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (static_cast<int>(model.layers.size()) > model.stages)
      add([&](LayeredModel& other) { other.layers.erase(other.layers.begin() + static_cast<std::ptrdiff_t>(i)); });
    for (int Layer::* field :
         {&Layer::forward, &Layer::backward, &Layer::parameters, &Layer::activations, &Layer::output})
      if (model.layers[i].*field > 0) add([&](LayeredModel& other) { --(other.layers[i].*field); });
  }
  if (model.stages > 1) add([](LayeredModel& other) { --other.stages; });
  if (model.micro_batches > 1) add([](LayeredModel& other) { --other.micro_batches; });
  return list;
}

// A stage and what it needs, from its definition.
struct Need {
  int forward = 0, backward = 0, bytes = 0;
  double message = 0;
};
std::vector<Need> needs_of_stages(const LayeredModel& model, const Numbers& boundaries) {
  std::vector<Need> needs(static_cast<std::size_t>(model.stages));
  for (int stage = 0; stage < model.stages; ++stage) {
    Need& need = needs[static_cast<std::size_t>(stage)];
    const int kept = std::min(model.stages - stage, model.micro_batches);
    const int end = boundaries[static_cast<std::size_t>(stage) + 1];
    for (int i = boundaries[static_cast<std::size_t>(stage)]; i < end; ++i) {
      const Layer& layer = model.layers[static_cast<std::size_t>(i)];
      need.forward += layer.forward;
      need.backward += layer.backward;
      need.bytes += layer.parameters + kept * layer.activations;
    }
    if (stage + 1 < model.stages && model.bandwidth > 0)
      need.message = double(model.layers[static_cast<std::size_t>(end - 1)].output) / model.bandwidth;
  }
  return needs;
}

double period_of(const std::vector<Need>& needs) {
  double period = 0;
  for (const Need& need : needs) period = std::max({period, double(need.forward + need.backward), need.message});
  return period;
}

int fullest_of(const std::vector<Need>& needs) { return std::ranges::max(needs, {}, &Need::bytes).bytes; }

// Every way to cut the layers into stages of one at least: a bit says whether there is a cut after a layer.
std::vector<Numbers> all_partitions(int layers, int stages) {
  std::vector<Numbers> all;
  for (unsigned cuts = 0; cuts < 1U << (layers - 1); ++cuts) {
    if (std::popcount(cuts) != stages - 1) continue;
    Numbers boundaries{0};
    for (int i = 1; i < layers; ++i)
      if ((cuts >> (i - 1) & 1U) != 0) boundaries.push_back(i);
    boundaries.push_back(layers);
    all.push_back(std::move(boundaries));
  }
  return all;
}

std::string problem_of_coverage(const Numbers& found, const LayeredModel& model) {
  if (static_cast<int>(found.size()) != model.stages + 1 || found.front() != 0 ||
      found.back() != static_cast<int>(model.layers.size()) ||
      std::ranges::adjacent_find(found, std::ranges::greater_equal()) != found.end())
    return fmt::format("[{}] does not give {} stages a layer each", fmt::join(found, ","), model.stages);
  return {};
}

// What is best, and how much memory it takes to have any.
constexpr int kNoLimit = std::numeric_limits<int>::max();
double best_period(const LayeredModel& model, int memory) {
  double best = std::numeric_limits<double>::infinity();
  for (const Numbers& boundaries : all_partitions(static_cast<int>(model.layers.size()), model.stages))
    if (const auto needs = needs_of_stages(model, boundaries); fullest_of(needs) <= memory)
      best = std::min(best, period_of(needs));
  return best;
}
int least_memory(const LayeredModel& model) {
  int least = kNoLimit;
  for (const Numbers& boundaries : all_partitions(static_cast<int>(model.layers.size()), model.stages))
    least = std::min(least, fullest_of(needs_of_stages(model, boundaries)));
  return least;
}

std::string problem_of_answer(const LayeredModel& model, int memory, const json& result) {
  const auto found = result.at("boundaries").get<Numbers>();
  if (std::string words = problem_of_coverage(found, model); !words.empty()) return words;
  const std::vector<Need> needs = needs_of_stages(model, found);
  if (fullest_of(needs) > memory)
    return fmt::format("[{}] has {} bytes on a rank of {}", fmt::join(found, ","), fullest_of(needs), memory);
  if (const double best = best_period(model, memory); period_of(needs) != best)
    return fmt::format("[{}] takes {} a micro-batch, it could be {}", fmt::join(found, ","), period_of(needs), best);
  for (std::size_t stage = 0; stage < needs.size(); ++stage)
    if (result.at("stages").at(stage).at("bytes") != needs[stage].bytes)
      return fmt::format("stage {} of [{}] is said to have {} bytes, not {}", stage, fmt::join(found, ","),
                         result["stages"][stage]["bytes"].dump(), needs[stage].bytes);
  return result.at("period") == period_of(needs) ? ""
                                                 : fmt::format("period {} of [{}], not {}", result["period"].dump(),
                                                               fmt::join(found, ","), period_of(needs));
}

std::string problem_at(Adapter& adapter, const LayeredModel& model, int memory) {
  json question = question_of_model(model);
  if (memory != kNoLimit) question["memory"] = memory;
  return problem_of(adapter, kMeasured, question,
                    [&](const json& result) { return problem_of_answer(model, memory, result); });
}

LayeredModel drawn(Random& random) {
  LayeredModel model{.layers = {}, .stages = random.between(1, 4), .micro_batches = random.between(1, 6)};
  for (int left = random.between(model.stages, model.stages + 4); left > 0; --left) model.layers.emplace_back();
  return model;
}

void search_models(Context& context, const std::function<void(Random&, LayeredModel&)>& fill,
                   const std::function<std::string(const LayeredModel&)>& problem) {
  const Property<LayeredModel> property{.draw =
                                            [&](Random& random) {
                                              LayeredModel model = drawn(random);
                                              fill(random, model);
                                              return model;
                                            },
                                        .problem = problem,
                                        .smaller = smaller_models,
                                        .words = [](const LayeredModel& model) { return text_of_model(model); }};
  constexpr int trials = 150;
  report_words(search(property, context.seed(), trials));
}

// ---- the shortest period ----

void shortest_period(Context& context) {
  const bool proportional = context.parameters().text("times") == "proportional";
  search_models(
      context,
      [&](Random& random, LayeredModel& model) {
        for (Layer& layer : model.layers) {
          layer.forward = random.between(0, 5);
          layer.backward = proportional ? 2 * layer.forward : random.between(0, 9);
        }
      },
      [&](const LayeredModel& model) { return problem_at(context.adapter(), model, kNoLimit); });
}

// A message moves beside the computations, and the next one only after it.
void messages_count(Context& context) {
  const bool slow = context.parameters().text("links") == "slow";
  search_models(
      context,
      [&](Random& random, LayeredModel& model) {
        model.bandwidth = !slow ? 0 : random.between(0, 1) == 0 ? 2 : 0.5;
        for (Layer& layer : model.layers)
          layer = {.forward = random.between(0, 3), .backward = random.between(0, 5), .output = random.between(0, 24)};
      },
      [&](const LayeredModel& model) { return problem_at(context.adapter(), model, kNoLimit); });
}

// ---- memory ----

// At the least limit there is a partition, a byte below none, and with more room the best of those that fit.
void memory_is_kept(Context& context) {
  const std::string& bytes = context.parameters().text("bytes");
  const auto micro_batches = static_cast<int>(context.parameters().number("micro_batches"));
  search_models(
      context,
      [&](Random& random, LayeredModel& model) {
        model.micro_batches = micro_batches;
        for (Layer& layer : model.layers) {
          layer = {.forward = random.between(0, 4), .backward = random.between(0, 6)};
          if (bytes != "none") layer.parameters = random.between(0, 9);
          if (bytes == "activations") layer.activations = random.between(0, 5);
        }
      },
      [&](const LayeredModel& model) -> std::string {
        const int least = least_memory(model);
        for (const int memory : {least, least + 3, least + 9})
          if (std::string words = problem_at(context.adapter(), model, memory); !words.empty())
            return fmt::format("memory {}: {}", memory, words);
        json question = question_of_model(model);
        question["memory"] = least - 1;
        if (least == 0) return {};
        const Answer answer = answer_to(context.adapter(), kMeasured, question);
        return refuses_bad_value(answer, question)
                   ? ""
                   : fmt::format("memory {}: {} where {} is needed", least - 1, answer.result.dump(), least);
      });
}

// ---- what the choice costs ----

// GPipe: the forwards are a line of stages that all micro-batches pass, and then the backwards are.
std::string problem_of_costs(const LayeredModel& model, const json& candidate) {
  const auto found = candidate.at("boundaries").get<Numbers>();
  const std::string words = fmt::format("{} [{}]: ", candidate.at("name").get<std::string>(), fmt::join(found, ","));
  if (static_cast<int>(found.size()) != model.stages + 1 || !std::ranges::is_sorted(found))
    return words + "no partition";
  int total = 0, forward = 0, backward = 0, slowest = 0;
  for (const Need& need : needs_of_stages(model, found)) {
    total += need.forward + need.backward;
    forward = std::max(forward, need.forward);
    backward = std::max(backward, need.backward);
    slowest = std::max(slowest, need.forward + need.backward);
  }
  const int makespan = total + (model.micro_batches - 1) * (forward + backward);
  const json expected{
      {"makespan", makespan}, {"barrier_bubble", makespan - model.micro_batches * slowest}, {"slowest_stage", slowest}};
  const std::string difference = first_difference(expected, candidate);
  return difference.empty() ? "" : words + difference;
}

std::string problem_of_candidates(const LayeredModel& model, const json& candidates) {
  std::map<std::string, json> by_name;
  for (const json& candidate : candidates) {
    if (std::string words = problem_of_costs(model, candidate); !words.empty()) return words;
    by_name[candidate.at("name")] = candidate;
  }
  const auto uniform = by_name.at("uniform").at("boundaries").get<Numbers>();
  for (std::size_t stage = 1; stage < uniform.size(); ++stage)
    if (const auto rest = uniform[stage] - uniform[stage - 1] - static_cast<int>(model.layers.size()) / model.stages;
        rest != 0 && rest != 1)
      return fmt::format("[{}] is not uniform", fmt::join(uniform, ","));
  LayeredModel weighed = model;  // parameters alone, as if they were times
  for (Layer& layer : weighed.layers) layer = {.forward = layer.parameters};
  const auto balanced = by_name.at("parameters").at("boundaries").get<Numbers>();
  if (period_of(needs_of_stages(weighed, balanced)) != best_period(weighed, kNoLimit))
    return fmt::format("[{}] does not balance the parameters", fmt::join(balanced, ","));
  return by_name.at("optimal").at("slowest_stage") == best_period(model, kNoLimit) ? "" : "optimal is not the best";
}

void costs_of_candidates(Context& context) {
  const bool equal = context.parameters().text("layers") == "equal";
  const auto micro_batches = static_cast<int>(context.parameters().number("micro_batches"));
  search_models(
      context,
      [&](Random& random, LayeredModel& model) {
        model.micro_batches = micro_batches;
        while (equal && static_cast<int>(model.layers.size()) % model.stages != 0) model.layers.pop_back();
        for (Layer& layer : model.layers)
          layer = equal ? Layer{.forward = 2, .backward = 3, .parameters = 1}
                        : Layer{.forward = random.between(0, 4),
                                .backward = random.between(0, 8),
                                .parameters = random.between(0, 9)};
      },
      [&](const LayeredModel& model) {
        json question = question_of_model(model);
        question["schedule"] = "gpipe";
        return problem_of(context.adapter(), kCosts, question,
                          [&](const json& result) { return problem_of_candidates(model, result.at("candidates")); });
      });
}

// ---- what it costs in any schedule ----

struct Costed {
  LayeredModel model;  // its stages are those of all ranks
  PlanShape shape;
  int memory = kNoLimit, latency = 0;
};

int weight_gradient_of(const Layer& layer) { return layer.backward / 2; }

json question_of_costs(const Costed& asked) {
  json question = question_of_model(asked.model);
  for (std::size_t i = 0; i < asked.model.layers.size(); ++i)
    question["layers"][i]["weight_gradient"] = weight_gradient_of(asked.model.layers[i]);
  question["schedule"] = asked.shape.schedule;
  question["pp"] = asked.shape.ranks;
  question["stages_per_rank"] = asked.shape.chunks;
  question["latency"] = asked.latency;
  if (asked.memory != kNoLimit) question["memory"] = asked.memory;
  return question;
}

// The schedule's own run with the times of these stages.
Run run_of_costs(const Costed& asked, const schedules::Schedule& plan, const Numbers& boundaries) {
  const LayeredModel& model = asked.model;
  const auto sum_of = [&](int stage, const auto& seconds) {
    double sum = 0;
    for (int i = boundaries[static_cast<std::size_t>(stage)]; i < boundaries[static_cast<std::size_t>(stage) + 1]; ++i)
      sum += seconds(model.layers[static_cast<std::size_t>(i)]);
    return sum;
  };
  Times times{.latency = static_cast<double>(asked.latency)};
  times.of_action = [&](const schedules::Action& action) {
    return sum_of(action.stage, [&](const Layer& layer) {
      const int weight = weight_gradient_of(layer);
      return action.kind == schedules::ActionKind::forward          ? layer.forward
             : action.kind == schedules::ActionKind::backward       ? layer.backward
             : action.kind == schedules::ActionKind::input_gradient ? layer.backward - weight
                                                                    : weight;
    });
  };
  times.seconds_a_message = 1;
  for (int stage = 0; stage + 1 < plan.stages; ++stage) {
    const int last = boundaries[static_cast<std::size_t>(stage) + 1] - 1;
    times.of_boundary.push_back(
        model.bandwidth == 0 ? 0 : double(model.layers[static_cast<std::size_t>(last)].output) / model.bandwidth);
  }
  return run_of(plan, times);
}

// The fullest rank: the parameters of its stages, and the activations that it keeps at once.
double peak_bytes(const Costed& asked, const schedules::Schedule& plan, const Numbers& boundaries) {
  const auto bytes_of = [&](int stage, int Layer::* field) {
    double sum = 0;
    for (int i = boundaries[static_cast<std::size_t>(stage)]; i < boundaries[static_cast<std::size_t>(stage) + 1]; ++i)
      sum += asked.model.layers[static_cast<std::size_t>(i)].*field;
    return sum;
  };
  double fullest = 0;
  for (std::size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    double parameters = 0, live = 0, most = 0;
    for (int stage = 0; stage < plan.stages; ++stage)
      if (plan.stage_to_rank[static_cast<std::size_t>(stage)] == static_cast<int>(rank))
        parameters += bytes_of(stage, &Layer::parameters);
    for (const schedules::Action& action : plan.ranks[rank]) {
      const double own = bytes_of(action.stage, &Layer::activations);
      if (action.kind == schedules::ActionKind::forward) most = std::max(most, live += own);
      const bool ends = action.kind == schedules::ActionKind::backward ||
                        action.kind == schedules::ActionKind::weight_gradient || asked.shape.schedule == "forward-only";
      if (ends) live -= own;
    }
    fullest = std::max(fullest, parameters + most);
  }
  return fullest;
}

// What a stage has to have room for: what its rank keeps in the schedule.
int bytes_of_stage(const Costed& asked, const std::vector<int>& kept, const Numbers& boundaries, std::size_t stage) {
  int bytes = 0;
  for (int i = boundaries[stage]; i < boundaries[stage + 1]; ++i) {
    const Layer& layer = asked.model.layers[static_cast<std::size_t>(i)];
    bytes += layer.parameters + kept[stage] * layer.activations;
  }
  return bytes;
}
std::vector<Numbers> partitions_that_fit(const Costed& asked, const std::vector<int>& kept) {
  std::vector<Numbers> fitting;
  for (Numbers& boundaries : all_partitions(static_cast<int>(asked.model.layers.size()), asked.model.stages)) {
    bool fits = true;
    for (std::size_t stage = 0; stage + 1 < boundaries.size(); ++stage)
      fits = fits && (asked.memory == kNoLimit || bytes_of_stage(asked, kept, boundaries, stage) <= asked.memory);
    if (fits) fitting.push_back(std::move(boundaries));
  }
  return fitting;
}

std::string problem_of_figures(const Costed& asked, const schedules::Schedule& plan, const json& candidate) {
  const auto boundaries = candidate.at("boundaries").get<Numbers>();
  const std::string words =
      fmt::format("{} [{}]: ", candidate.at("name").get<std::string>(), fmt::join(boundaries, ","));
  if (std::string cover = problem_of_coverage(boundaries, asked.model); !cover.empty()) return words + cover;
  const Run run = run_of_costs(asked, plan, boundaries);
  double work = 0;
  for (const double of_rank : run.work) work += of_rank;
  double slowest = 0;
  for (const Need& need : needs_of_stages(asked.model, boundaries))
    slowest = std::max(slowest, static_cast<double>(need.forward + need.backward));
  const double all = run.makespan * static_cast<double>(run.work.size());
  const double idle = all > 0 ? 1 - work / all : 0;
  if (const double found = candidate.at("idle_part"); std::abs(found - idle) > 1e-12)
    return fmt::format("{}a part of {} is idle, not {}", words, idle, found);
  const json expected{{"slowest_stage", slowest},
                      {"makespan", run.makespan},
                      {"barrier_bubble", run.makespan - *std::ranges::max_element(run.work)},
                      {"peak_bytes", peak_bytes(asked, plan, boundaries)}};
  const std::string difference = first_difference(expected, candidate);
  return difference.empty() ? "" : words + difference;
}

std::string problem_of_costs_in(Adapter& adapter, const Costed& asked) {
  const schedules::Schedule plan = schedules::without_idle(schedules::generate(
      schedules::schedule_kind_of(asked.shape.schedule),
      {.ranks = asked.shape.ranks, .micro_batches = asked.shape.micro_batches, .stages_per_rank = asked.shape.chunks}));
  std::vector<int> kept = peaks_of(plan);
  if (asked.shape.schedule == "forward-only") kept.assign(kept.size(), 1);
  const std::vector<Numbers> fitting = partitions_that_fit(asked, kept);
  const json question = question_of_costs(asked);
  if (fitting.empty()) return problem_of_refusal_beside_answers(adapter, kCosts, question);
  const std::string problem = problem_of(adapter, kCosts, question, [&](const json& result) -> std::string {
    for (const json& candidate : result.at("candidates"))
      if (std::string words = problem_of_figures(asked, plan, candidate); !words.empty()) return words;
    if (result.at("candidates").empty()) return "no candidates";
    const json& last = result["candidates"].back();
    const auto best = last.at("boundaries").get<Numbers>();
    double period = std::numeric_limits<double>::infinity();
    for (const Numbers& boundaries : fitting)
      period = std::min(period, period_of(needs_of_stages(asked.model, boundaries)));
    if (std::ranges::count(fitting, best) == 0) return fmt::format("[{}] does not fit", fmt::join(best, ","));
    if (last.at("name") != "optimal" || period_of(needs_of_stages(asked.model, best)) != period)
      return fmt::format("[{}] is not the best that fits", fmt::join(best, ","));
    return {};
  });
  return problem.empty() ? "" : question.dump() + ": " + problem;
}

void costs_of_schedules(Context& context) {
  const std::string& schedule = context.parameters().text("schedule");
  const bool limited = context.parameters().text("memory") == "limited";
  Random random(context.seed());
  for (int trial = 0; trial < 60; ++trial) {
    const int chunks = schedule == "zbv" || schedule == "interleaved" ? 2 : 1, ranks = random.between(1, 3);
    Costed asked{.model = {.layers = {}, .stages = ranks * chunks, .micro_batches = ranks * random.between(1, 3)},
                 .shape = {.schedule = schedule, .ranks = ranks, .chunks = chunks}};
    asked.shape.micro_batches = asked.model.micro_batches;
    asked.model.bandwidth = random.between(0, 1) * 4;
    asked.latency = random.between(0, 2);
    for (int left = random.between(asked.model.stages, asked.model.stages + 3); left > 0; --left)
      asked.model.layers.push_back({.forward = random.between(0, 5),
                                    .backward = random.between(0, 9),
                                    .parameters = random.between(0, 9),
                                    .activations = random.between(0, 5),
                                    .output = random.between(0, 40)});
    if (limited) asked.memory = random.between(0, 40);
    if (const std::string problem = problem_of_costs_in(context.adapter(), asked); !problem.empty())
      return report_words(problem);
  }
}

// ---- refusals ----

void refuses_bad_models(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  const Layer layer{.forward = 1, .backward = 1, .parameters = 1, .activations = 1, .output = 1};
  json question = question_of_model({.layers = {layer, layer}, .stages = 2, .micro_batches = 2});
  if (fault == "negative_time") question["layers"][1]["backward"] = -1;
  if (fault == "not_a_number") question["layers"][1]["forward"] = "nan";
  if (fault == "negative_bytes") question["layers"][1]["activation_bytes"] = -1;
  if (fault == "more_stages_than_layers") question["pp"] = 3;
  if (fault == "no_stages") question["pp"] = 0;
  if (fault == "no_micro_batches") question["microbatches"] = 0;
  if (fault == "no_bandwidth") question["bandwidth"] = 0;
  if (fault == "negative_bandwidth") question["bandwidth"] = -1;
  if (fault == "bandwidth_not_a_number") question["bandwidth"] = "nan";
  if (fault == "negative_memory") question["memory"] = -1;
  if (fault == "endless_time") question["layers"][0]["backward"] = "inf";
  if (fault == "weight_gradient") question["layers"][1]["weight_gradient"] = 2;
  if (fault == "negative_weight_gradient") question["layers"][1]["weight_gradient"] = -1;
  if (fault == "negative_output") question["layers"][0]["output_bytes"] = -1;
  // Of one stage, no message could make it worse.
  if (context.parameters().text("stages") == "one" && question["pp"] == 2) question["pp"] = 1;
  report_words(problem_of_refusal(context.adapter(), kMeasured, question));
}

}  // namespace

void add_measured_partition_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, const char* requirement, const char* operation, std::vector<suite::Axis> axes,
                       void (*body)(Context&)) {
    suite.add({.id = std::string("schedules.partition.") + name,
               .verifies = {requirement},
               .door = Door::adapter,
               .axes = std::move(axes),
               .operations = {operation},
               .options = operation != std::string_view(kCosts) ? OptionsOfCase()
                          : name == std::string_view("costs_of_candidates")
                              ? options_of({{kCosts, "schedule", {"gpipe"}}})
                              : options_of({{kCosts, "schedule", {}, "schedule"}}),
               .body = body});
  };
  add("shortest_period", "SCHED-107@1218", kMeasured, {{"times", {"proportional", "random"}}}, shortest_period);
  add("memory_is_kept", "SCHED-108@b2cf", kMeasured,
      {{"bytes", {"none", "parameters", "activations"}}, {"micro_batches", {"1", "8"}}}, memory_is_kept);
  add("messages_count", "SCHED-109@71a0", kMeasured, {{"links", {"free", "slow"}}}, messages_count);
  add("costs_of_candidates", "SCHED-110@671c", kCosts, {{"layers", {"equal", "random"}}, {"micro_batches", {"1", "4"}}},
      costs_of_candidates);
  add("costs_of_schedules", "SCHED-110@671c", kCosts,
      {{"schedule", {"gpipe", "1f1b", "zb-h1", "zbv", "interleaved", "forward-only"}}, {"memory", {"unlimited"}}},
      costs_of_schedules);
  add("costs_within_memory", "SCHED-108@b2cf", kCosts,
      {{"schedule", {"gpipe", "1f1b", "zb-h1", "forward-only"}}, {"memory", {"limited"}}}, costs_of_schedules);
  add("bad_layers", "SCHED-111@a891", kMeasured,
      {{"fault",
        {"negative_time", "not_a_number", "endless_time", "weight_gradient", "negative_weight_gradient",
         "negative_bytes", "negative_output", "negative_memory", "more_stages_than_layers", "no_stages",
         "no_micro_batches", "no_bandwidth", "negative_bandwidth", "bandwidth_not_a_number"}},
       {"stages", {"one", "two"}}},
      refuses_bad_models);
}

}  // namespace plumbline::conformance

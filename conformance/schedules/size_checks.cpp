// Plans of real pipelines: up to 64 ranks, 512 micro-batches, 8 chunks. Each is judged by walking over it once.
#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/sizes.hpp"
#include "reference/comm/errors.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;
using suite::Adapter;

namespace {

const char* const kGenerate = "schedules.generate";

std::size_t index(int number) { return static_cast<std::size_t>(number); }

// ---- one walk over a plan ----

// The computations of a schedule, each as soon as its rank is free and what it needs is done. Whoever waits is looked
// at again when a neighbouring stage has done something: linear in the actions.
class Course {
 public:
  Course(const Schedule& schedule, double forward, double backward)
      : schedule_(schedule), forward_(forward), backward_(backward), next_(schedule.ranks.size()), free_(next_.size()) {
    for (auto& done : done_) done.resize(index(schedule.stages) * index(schedule.micro_batches), kNotYet);
    for (const auto& actions : schedule.ranks) starts.emplace_back(actions.size());
    for (int rank = 0; rank < static_cast<int>(next_.size()); ++rank) awake_.push_back(rank);
    while (!awake_.empty() && problem.empty()) {
      const int rank = awake_.back();
      awake_.pop_back();
      while (problem.empty() && take(index(rank))) {
      }
    }
    for (std::size_t rank = 0; rank < next_.size() && problem.empty(); ++rank)
      if (next_[rank] < schedule.ranks[rank].size())
        problem = fmt::format("rank {} waits for ever at {}", rank, to_string(schedule.ranks[rank][next_[rank]]));
  }

  std::string problem;
  std::vector<std::vector<double>> starts;
  double makespan = 0;

  // Each computation that there is to be, once.
  [[nodiscard]] std::string problem_of_rest(bool trains) const {
    for (std::size_t place = 0; place < done_[0].size(); ++place)
      if (done_[0][place] == kNotYet || (done_[1][place] == kNotYet) == trains ||
          (done_[2][place] == kNotYet) == trains)
        return fmt::format("stage {}, micro-batch {} is not done", place / index(schedule_.micro_batches),
                           place % index(schedule_.micro_batches));
    return {};
  }

 private:
  static constexpr double kNotYet = -1;
  enum Done { kForward, kInput, kWeights };

  double& done(Done what, int stage, int micro_batch) {
    return done_[what][index(stage) * index(schedule_.micro_batches) + index(micro_batch)];
  }
  [[nodiscard]] double seconds_of(const Action& action) const {
    if (action.kind == ActionKind::forward) return forward_;
    return action.kind == ActionKind::backward ? backward_ : backward_ / 2;
  }
  // When it may begin; nothing as long as something is missing.
  std::optional<double> start_of(const Action& action) {
    const auto& [kind, joined, stage, micro_batch] = action;
    double start = 0;
    const auto needs = [&](Done what, int of_stage) {
      const double end = done(what, of_stage, micro_batch);
      start = start < 0 || end < 0 ? kNotYet : std::max(start, end);
    };
    if (kind == ActionKind::forward && stage > 0) needs(kForward, stage - 1);
    if (kind == ActionKind::weight_gradient) needs(kInput, stage);
    if (kind == ActionKind::backward || kind == ActionKind::input_gradient) {
      needs(kForward, stage);
      if (stage + 1 < schedule_.stages) needs(kInput, stage + 1);
    }
    return start < 0 ? std::nullopt : std::optional(start);
  }

  bool take(std::size_t rank) {
    const auto& actions = schedule_.ranks[rank];
    if (next_[rank] == actions.size()) return false;
    std::size_t end = next_[rank];
    while (end + 1 < actions.size() && actions[end].joined) ++end;
    double start = free_[rank], seconds = 0;
    for (std::size_t i = next_[rank]; i <= end; ++i) {
      const Action& action = actions[i];
      if (!is_compute(action.kind) || action.stage >= schedule_.stages ||
          action.micro_batch >= schedule_.micro_batches ||
          schedule_.stage_to_rank[index(action.stage)] != static_cast<int>(rank)) {
        problem = fmt::format("rank {} has no {} to do", rank, to_string(action));
        return false;
      }
      const auto ready = start_of(action);
      if (!ready) return false;
      start = std::max(start, *ready);
      seconds += seconds_of(action);
    }
    for (; next_[rank] <= end; ++next_[rank]) {
      starts[rank][next_[rank]] = start;
      finish(actions[next_[rank]], start + seconds);
    }
    free_[rank] = start + seconds;
    makespan = std::max(makespan, free_[rank]);
    return true;
  }
  void finish(const Action& action, double end) {
    const auto mark = [&](Done what) {
      double& place = done(what, action.stage, action.micro_batch);
      if (place != kNotYet) problem = to_string(action) + " is done twice";
      place = end;
    };
    if (action.kind == ActionKind::forward) mark(kForward);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::input_gradient) mark(kInput);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient) mark(kWeights);
    for (const int stage : {action.stage - 1, action.stage + 1})
      if (stage >= 0 && stage < schedule_.stages) awake_.push_back(schedule_.stage_to_rank[index(stage)]);
  }

  const Schedule& schedule_;
  double forward_, backward_;
  std::vector<double> done_[3];
  std::vector<std::size_t> next_;
  std::vector<double> free_;
  std::vector<int> awake_;
};

// ---- plans that are generated ----

// 1F1B by its definition: as many forwards ahead as ranks follow, then a forward and a backward alternately.
Schedule one_forward_one_backward(int ranks, int micro_batches) {
  Schedule schedule{.stages = ranks, .micro_batches = micro_batches, .stage_to_rank = {}, .ranks = {}};
  for (int rank = 0; rank < ranks; ++rank) {
    schedule.stage_to_rank.push_back(rank);
    auto& actions = schedule.ranks.emplace_back();
    const auto add = [&](ActionKind kind, int micro_batch) {
      actions.push_back({.kind = kind, .joined = false, .stage = rank, .micro_batch = micro_batch});
    };
    int forward = 0;
    while (forward < std::min(ranks - 1 - rank, micro_batches)) add(ActionKind::forward, forward++);
    for (int backward = 0; backward < micro_batches; ++backward) {
      if (forward < micro_batches) add(ActionKind::forward, forward++);
      add(ActionKind::backward, backward);
    }
  }
  return schedule;
}
Schedule two_chunks(int ranks, int micro_batches) {
  Schedule schedule = schedules::generate(schedules::ScheduleKind::interleaved,
                                          {.ranks = ranks, .micro_batches = micro_batches, .stages_per_rank = 2});
  for (auto& actions : schedule.ranks)
    std::erase_if(actions, [](const Action& action) { return action.kind == ActionKind::idle; });
  return schedule;
}

PlanShape plan_shape(const std::string& schedule, int micro_batches, int chunks) {
  return {
      .schedule = schedule, .ranks = ranks_of_size(micro_batches), .micro_batches = micro_batches, .chunks = chunks};
}

std::string problem_of_generated(Adapter& adapter, const PlanShape& shape, const std::string& convention,
                                 const JudgePlan& judge) {
  json args = question_of(shape);
  args["convention"] = convention;
  const std::string problem =
      problem_of(adapter, kGenerate, args, [&](const json& result) { return problem_of_answer(result, shape, judge); });
  return problem.empty() ? "" : text_of(shape) + ": " + problem;
}

// All of the work once, in an order that can be run.
std::string problem_of_course(const PlanShape& shape, const Schedule& schedule) {
  const Course course(schedule, 1, 2);
  return course.problem.empty() ? course.problem_of_rest(shape.schedule != "forward-only") : course.problem;
}

struct SizedPlan {
  const char* schedule = "";
  int chunks = 1;
};

Choice generated_plans(const std::string& convention, const std::vector<SizedPlan>& plans, const JudgePlan& judge) {
  Choice choice{.argument = "schedule"};
  for (const auto& [schedule, chunks] : plans)
    choice.values.emplace_back(schedule, [=, name = std::string(schedule)](Adapter& adapter, int micro_batches) {
      return problem_of_generated(adapter, plan_shape(name, micro_batches, chunks), convention, judge);
    });
  return choice;
}

// ---- orders of PyTorch 2.13 ----

using Row = std::vector<Action>;

Row all_at_once(const std::vector<int>& stages, int micro_batches, bool last_first) {
  Row row;
  for (const int stage : stages)
    for (int i = 0; i < micro_batches; ++i)
      row.push_back({.kind = ActionKind::forward, .joined = false, .stage = stage, .micro_batch = i});
  for (auto stage = stages.rbegin(); stage != stages.rend(); ++stage)
    for (int i = 0; i < micro_batches; ++i)
      row.push_back({.kind = ActionKind::backward,
                     .joined = false,
                     .stage = *stage,
                     .micro_batch = last_first ? micro_batches - 1 - i : i});
  return row;
}

// Forwards go through a rank's stages round by round, and backwards through them from the last; the first backward
// comes after as many forwards as the other stages of a round have and twice the ranks that follow.
Row interleaved(const PlanShape& shape, int rank) {
  const int rounds = std::max(1, shape.micro_batches / shape.ranks), of_round = shape.micro_batches / rounds;
  const int all = shape.micro_batches * shape.chunks;
  const int before = std::min(all, (shape.chunks - 1) * of_round + 2 * (shape.ranks - 1 - rank));
  std::vector<int> forwards(index(shape.chunks)), backwards(index(shape.chunks));
  Row row;
  const auto add = [&](ActionKind kind, int chunk, std::vector<int>& next) {
    row.push_back(
        {.kind = kind, .joined = false, .stage = chunk * shape.ranks + rank, .micro_batch = next[index(chunk)]++});
  };
  for (int step = 0; step < all + before; ++step) {
    if (step < all) add(ActionKind::forward, step / of_round % shape.chunks, forwards);
    if (step >= before)
      add(ActionKind::backward, shape.chunks - 1 - (step - before) / of_round % shape.chunks, backwards);
  }
  return row;
}

// Of those that a rule of a few lines describes.
std::optional<Row> row_of_torch(const PlanShape& shape, int rank) {
  if (shape.schedule == "Schedule1F1B")
    return one_forward_one_backward(shape.ranks, shape.micro_batches).ranks[index(rank)];
  if (shape.schedule == "ScheduleInterleaved1F1B") return interleaved(shape, rank);
  const bool looped = shape.schedule == "ScheduleLoopedBFS";
  if (!looped && shape.schedule != "ScheduleGPipe") return std::nullopt;
  std::vector<int> stages;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) stages.push_back(chunk * shape.ranks + rank);
  return all_at_once(stages, shape.micro_batches, looped);
}

std::string problem_of_torch_order(const PlanShape& shape, const Schedule& schedule) {
  if (const std::string problem = problem_of_course(shape, schedule); !problem.empty()) return problem;
  const auto is_same = [](const Action& one, const Action& other) {
    return one.kind == other.kind && one.stage == other.stage && one.micro_batch == other.micro_batch;
  };
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto wanted = row_of_torch(shape, rank);
    if (!wanted) return {};
    const auto& row = schedule.ranks[index(rank)];
    const auto [here, there] = std::ranges::mismatch(row, *wanted, is_same);
    if (here != row.end() && there != wanted->end())
      return fmt::format("rank {}, computation {}: {}, where torch has {}", rank, here - row.begin(), to_string(*here),
                         to_string(*there));
  }
  return {};
}

// As many activations as the closed form says, rank by rank.
std::string problem_of_kept_activations(const PlanShape& shape, const Schedule& schedule) {
  const std::vector<int> peaks = peaks_of(schedule);
  const int p = shape.ranks, m = shape.micro_batches, v = shape.chunks;
  for (int rank = 0; rank < p; ++rank) {
    const int most = v == 1 ? std::min(p - rank, m) : std::min(v * m, (v - 1) * p + 2 * (p - rank - 1) + 1);
    if (peaks[index(rank)] != most)
      return fmt::format("rank {} keeps {} activations, {} are needed", rank, peaks[index(rank)], most);
  }
  return {};
}

// ---- messages ----

// Computations as they were, and each message that neighbouring stages on two ranks need once, on the ranks of its
// stages.
class Messages {
 public:
  explicit Messages(const Schedule& given)
      : given_(given), left_(4 * index(given.stages) * index(given.micro_batches)) {
    for (const auto& actions : given.ranks)
      for (const Action& action : actions) {
        const bool back = action.kind == ActionKind::backward || action.kind == ActionKind::input_gradient;
        const int to = action.stage + (back ? -1 : 1);
        if ((!back && action.kind != ActionKind::forward) || to < 0 || to >= given.stages ||
            rank_of(to) == rank_of(action.stage))
          continue;
        ++due(back ? ActionKind::send_backward : ActionKind::send_forward, action.stage, action.micro_batch);
        ++due(back ? ActionKind::recv_backward : ActionKind::recv_forward, to, action.micro_batch);
      }
  }

  // Of rows with messages, and perhaps with what sharded parameters need.
  std::string problem(const json& rows) {
    if (rows.size() != given_.ranks.size()) return fmt::format("{} rows", rows.size());
    for (std::size_t rank = 0; rank < given_.ranks.size(); ++rank) {
      std::vector<Action> computed;
      for (const Action& action : schedules::parse_row(rows[rank].get<std::string>())) {
        if (is_compute(action.kind)) computed.push_back(action);
        if (!is_message(action.kind)) continue;
        if (action.stage >= given_.stages || action.micro_batch >= given_.micro_batches ||
            rank_of(action.stage) != static_cast<int>(rank) || --due(action.kind, action.stage, action.micro_batch) < 0)
          return fmt::format("rank {}: {} is not due, or not again", rank, to_string(action));
      }
      const auto& wanted = given_.ranks[rank];
      if (!std::ranges::equal(computed, wanted, [](const Action& one, const Action& other) {
            return one.kind == other.kind && one.stage == other.stage && one.micro_batch == other.micro_batch;
          }))
        return fmt::format("rank {} computes something else", rank);
    }
    return std::ranges::all_of(left_, [](int count) { return count == 0; }) ? "" : "a message is left out";
  }

 private:
  [[nodiscard]] int rank_of(int stage) const { return given_.stage_to_rank[index(stage)]; }
  int& due(ActionKind kind, int stage, int micro_batch) {
    const int way = static_cast<int>(kind) - static_cast<int>(ActionKind::send_forward);
    return left_.at((index(way) * index(given_.stages) + index(stage)) * index(given_.micro_batches) +
                    index(micro_batch));
  }
  const Schedule& given_;
  std::vector<int> left_;
};

std::string problem_of_rows(const std::function<std::string()>& judge) {
  try {
    return judge();
  } catch (const InvalidArgument& error) {  // a row that is none
    return error.what();
  }
}

JudgeSize lowered_plans(const std::string& convention) {
  return [convention](Adapter& adapter, int micro_batches) {
    for (const Schedule& plan : {one_forward_one_backward(ranks_of_size(micro_batches), micro_batches),
                                 two_chunks(ranks_of_size(micro_batches), micro_batches)}) {
      const json args{{"convention", convention},
                      {"compute_only", rows_of(plan)},
                      {"stage_to_rank", plan.stage_to_rank},
                      {"num_stages", plan.stages}};
      const std::string words = problem_of(adapter, "schedules.lower", args, [&](const json& result) {
        return problem_of_rows([&] {
          std::string found = Messages(plan).problem(result.at("send_recv"));
          if (found.empty()) found = Messages(plan).problem(result.at("with_comms"));
          if (!found.empty() || convention != "plumbline" || plan.stages != static_cast<int>(plan.ranks.size()))
            return found;
          return problem_of_waiting(schedule_of(result.at("send_recv"), json(plan.stage_to_rank), micro_batches),
                                    false);
        });
      });
      if (!words.empty()) return words;
    }
    return std::string();
  };
}

JudgeSize loaded_plans(const std::string& convention) {
  return [convention](Adapter& adapter, int micro_batches) {
    const Schedule plan = one_forward_one_backward(ranks_of_size(micro_batches), micro_batches);
    const json args{{"convention", convention}, {"pp", plan.ranks.size()},  {"microbatches", micro_batches},
                    {"stages_per_rank", 1},     {"format", "compute_only"}, {"csv", rows_of(plan)}};
    return problem_of(adapter, "schedules.load_csv", args, [&](const json& result) {
      const std::string places =
          first_difference({{"accepted", true}, {"result", {{"stage_to_rank", plan.stage_to_rank}}}}, result, "answer");
      if (!places.empty()) return places;
      return problem_of_rows([&] { return Messages(plan).problem(result.at("result").at("with_comms")); });
    });
  };
}

// ---- what is said of plans ----

std::string accepted_plans(Adapter& adapter, int micro_batches) {
  const int ranks = ranks_of_size(micro_batches);
  const Schedule plain = one_forward_one_backward(ranks, micro_batches), interleaved = two_chunks(ranks, micro_batches);
  for (const auto& [plan, computations] :
       {std::pair(plain, plain), std::pair(schedules::lower(plain), plain), std::pair(interleaved, interleaved)}) {
    const json expected{{"valid", true},
                        {"problems", json::array()},
                        {"deadlock_free", {{"buffered", true}, {"rendezvous", true}}},
                        {"peak_activations", peaks_of(computations)}};
    const std::string words = problem_of(adapter, "schedules.check", question_of_plan(plan),
                                         [&](const json& result) { return first_difference(expected, result); });
    if (!words.empty()) return words;
  }
  return {};
}

std::string problem_of_naming(Adapter& adapter, const Schedule& plan, const std::string& kind, int rank) {
  return problem_of(adapter, "schedules.check", question_of_plan(plan), [&](const json& result) -> std::string {
    if (result.at("valid") != false) return fmt::format("valid, with '{}' on rank {}", kind, rank);
    for (const json& problem : result.at("problems"))
      if (problem.at("kind") == kind && problem.at("rank") == rank && problem.at("severity") == "error") return {};
    return fmt::format("no '{}' on rank {} among {}", kind, rank, result.at("problems").dump().substr(0, 300));
  });
}

// One action, near the end of a rank near the end.
std::string lost_action(Adapter& adapter, int micro_batches) {
  Schedule plan = one_forward_one_backward(ranks_of_size(micro_batches), micro_batches);
  const std::size_t rank = plan.ranks.size() - 2;
  plan.ranks[rank].erase(plan.ranks[rank].end() - 2);
  return problem_of_naming(adapter, plan, "missing", static_cast<int>(rank));
}
std::string early_action(Adapter& adapter, int micro_batches) {
  Schedule plan = one_forward_one_backward(ranks_of_size(micro_batches), micro_batches);
  const std::size_t rank = plan.ranks.size() - 1;
  std::swap(plan.ranks[rank].back(), *(plan.ranks[rank].end() - 2));  // its last backward before the forward
  return problem_of_naming(adapter, plan, "dependency", static_cast<int>(rank));
}

std::string simulated_plans(Adapter& adapter, int micro_batches) {
  const int ranks = ranks_of_size(micro_batches);
  for (const Schedule& plan : {one_forward_one_backward(ranks, micro_batches), two_chunks(ranks, micro_batches)}) {
    const Course course(plan, 2, 3);
    if (!course.problem.empty()) return "the question is none: " + course.problem;
    const json args{{"ranks", rows_of(plan)},
                    {"stage_to_rank", plan.stage_to_rank},
                    {"num_stages", plan.stages},
                    {"durations", {{"F", 2}, {"B", 3}, {"I", 1.5}, {"W", 1.5}}},
                    {"latency", 0}};
    const int chunks = plan.stages / ranks;
    const json expected{{"makespan", course.makespan},
                        {"barrier_bubble", course.makespan - 5.0 * micro_batches * chunks},
                        {"start_times", course.starts},
                        {"peak_activations", peaks_of(plan)}};
    const std::string words = problem_of(adapter, "schedules.simulate", args,
                                         [&](const json& result) { return first_difference(expected, result); });
    if (!words.empty()) return words;
  }
  return {};
}

// ---- partitions ----

std::vector<int> even_boundaries(int items, int parts) {
  std::vector<int> boundaries{0};
  for (int part = 0; part < parts; ++part)
    boundaries.push_back(boundaries.back() + items / parts + (part < items % parts ? 1 : 0));
  return boundaries;
}

// Part c x ranks + r is chunk c of rank r.
json parts_by_rank(const std::vector<int>& boundaries, int ranks) {
  json parts(index(ranks), json::array());
  for (std::size_t part = 0; part + 1 < boundaries.size(); ++part)
    parts[part % index(ranks)].push_back({boundaries[part], boundaries[part + 1]});
  return parts;
}

int parts_for(int items) { return items < 100 ? 3 : items < 5000 ? 48 : 512; }

std::string even_partitions(Adapter& adapter, int items) {
  const int parts = parts_for(items);
  return problem_of(
      adapter, "schedules.partition_uniform", {{"num_items", items}, {"num_parts", parts}},
      [&](const json& result) { return first_difference({{"boundaries", even_boundaries(items, parts)}}, result); });
}
std::string even_partitions_of_deepspeed(Adapter& adapter, int items) {
  const json args{{"convention", "deepspeed"}, {"num_items", items}, {"num_parts", parts_for(items)}};
  return problem_of(adapter, "schedules.partition_uniform", args, [&](const json& result) {
    return first_difference({{"boundaries", even_boundaries(items, parts_for(items))}}, result);
  });
}
// All of the remainder in the last part.
std::string even_partitions_of_deepspeed06(Adapter& adapter, int items) {
  const int parts = parts_for(items);
  std::vector<int> boundaries;
  for (int part = 0; part < parts; ++part) boundaries.push_back(part * (items / parts));
  boundaries.push_back(items);
  const json args{{"convention", "deepspeed-0.6"}, {"num_items", items}, {"num_parts", parts}};
  return problem_of(adapter, "schedules.partition_uniform", args,
                    [&](const json& result) { return first_difference({{"boundaries", boundaries}}, result); });
}
// Each chunk's share for itself, the remainder in its last parts.
std::string even_partitions_of_colossalai(Adapter& adapter, int items) {
  constexpr int chunks = 2;
  const int ranks = parts_for(items), share = items / chunks;
  json parts(index(ranks), json::array());
  for (int chunk = 0, begin = 0; chunk < chunks; ++chunk)
    for (int rank = 0; rank < ranks; ++rank) {
      const int end = begin + share / ranks + (rank >= ranks - share % ranks ? 1 : 0);
      parts[index(rank)].push_back({begin, end});
      begin = end;
    }
  const json args{{"convention", "colossalai"}, {"num_items", share * chunks}, {"pp", ranks}, {"chunks", chunks}};
  return problem_of(adapter, "schedules.partition_uniform", args, [&](const json& result) {
    return first_difference({{"parts", parts}, {"warned", false}}, result);
  });
}

// Layers that can be cut into parts of one weight each, which is then the only best partition by any rule.
struct Blocks {
  std::vector<int> weights, boundaries{0};
};
Blocks blocks_of(int items, int parts) {
  constexpr int weight = 600;
  Blocks blocks;
  for (int part = 0; part < parts; ++part) {
    const int begin = blocks.boundaries.back(), end = begin + items / parts + (part < items % parts ? 1 : 0);
    int left = weight;
    for (int item = begin; item + 1 < end; ++item) {
      const int rest = end - item, most = std::max(1, std::min(2 * left / rest, left - rest + 1));
      blocks.weights.push_back(1 + (item * 7 + part) % most);
      left -= blocks.weights.back();
    }
    blocks.weights.push_back(left);
    blocks.boundaries.push_back(end);
  }
  return blocks;
}

int blocks_for(int items) { return items < 100 ? 3 : items < 600 ? 16 : 64; }

JudgeSize balanced_blocks(const std::string& operation, const std::string& convention, const char* weights,
                          const char* parts) {
  return [=](Adapter& adapter, int items) {
    const Blocks blocks = blocks_of(items, blocks_for(items));
    const json args{{"convention", convention}, {weights, blocks.weights}, {parts, blocks_for(items)}};
    return problem_of(adapter, operation, args, [&](const json& result) {
      return first_difference({{"boundaries", blocks.boundaries}}, result);
    });
  };
}
std::string balanced_blocks_of_colossalai(Adapter& adapter, int items) {
  const int parts = 2 * blocks_for(items);
  const Blocks blocks = blocks_of(items, parts);
  const json args{{"convention", "colossalai"}, {"weights", blocks.weights}, {"pp", parts / 2}, {"chunks", 2}};
  return problem_of(adapter, "schedules.partition_balanced", args, [&](const json& result) {
    return first_difference({{"parts", parts_by_rank(blocks.boundaries, parts / 2)}, {"warned", false}}, result);
  });
}

json described_layers(const std::vector<int>& parameters) {
  json layers = json::array();
  for (const int count : parameters) layers.push_back({{"type", "Linear"}, {"parameters", count}});
  return layers;
}

// By the layers' numbers of parameters, and where the convention is asked so, evenly.
Choice by_method(const std::string& convention, const char* weighed, const char* even = nullptr) {
  const bool colossalai = convention == "colossalai";
  const auto asked = [=](const char* method, bool evenly) {
    return [=](Adapter& adapter, int items) {
      const int parts = blocks_for(items);
      const Blocks blocks = blocks_of(items, parts);
      json args{{"convention", convention}, {"layers", described_layers(blocks.weights)}, {"method", method}};
      args.update(colossalai ? json{{"pp", parts}, {"chunks", 1}} : json{{"num_parts", parts}});
      const auto boundaries = evenly ? even_boundaries(items, parts) : blocks.boundaries;
      const json expected =
          colossalai ? json{{"parts", parts_by_rank(boundaries, parts)}} : json{{"boundaries", boundaries}};
      return problem_of(adapter, "schedules.partition_method", args,
                        [&](const json& result) { return first_difference(expected, result, method); });
    };
  };
  Choice choice{"method", {{weighed, asked(weighed, false)}}};
  if (even != nullptr) choice.values.emplace_back(even, asked(even, true));
  return choice;
}

// A transformer layer in the first stage, two in each of the others, none in the last.
std::string laid_out(Adapter& adapter, int stages) {
  const int ranks = stages / 4;
  std::vector<std::string> words(index(stages), "tt");
  words.front() = "Et";
  words.back() = "L";
  std::vector<int> boundaries{0, 1};
  while (static_cast<int>(boundaries.size()) < stages) boundaries.push_back(boundaries.back() + 2);
  boundaries.push_back(boundaries.back());
  const json args{{"convention", "megatron"},
                  {"layout", fmt::format("Et|(tt|)*{}L", stages - 2)},
                  {"pp", ranks},
                  {"num_layers", boundaries.back()},
                  {"mtp_num_layers", nullptr}};
  return problem_of(adapter, "schedules.pipeline_layout", args, [&](const json& result) {
    return first_difference({{"stages", words}, {"parts", parts_by_rank(boundaries, ranks)}}, result);
  });
}

// Embedding and loss count as a layer each.
JudgeSize counted_ends(const std::string& convention) {
  return [convention](Adapter& adapter, int parts) {
    const int layers = 3 * parts - 2, ranks = parts / 2;
    std::vector<int> boundaries = even_boundaries(layers + 2, parts);
    for (std::size_t i = 1; i + 1 < boundaries.size(); ++i) --boundaries[i];
    boundaries.back() = layers;
    json args{{"convention", convention}, {"num_layers", layers}, {"embedding", true}, {"loss", true}};
    args.update({{"pp", ranks}, {"chunks", 2}});
    return problem_of(adapter, "schedules.partition_counted", args, [&](const json& result) {
      return first_difference({{"parts", parts_by_rank(boundaries, ranks)}}, result);
    });
  };
}

std::string measured_blocks(Adapter& adapter, int items) {
  const int parts = blocks_for(items), micro_batches = parts / 2 + 1;
  const Blocks blocks = blocks_of(items, parts);
  json layers = json::array(), stages = json::array();
  for (const int weight : blocks.weights)
    layers.push_back({{"forward", weight}, {"backward", 2 * weight}, {"parameter_bytes", 10}, {"activation_bytes", 3}});
  for (int part = 0; part < parts; ++part) {
    const int size = blocks.boundaries[index(part) + 1] - blocks.boundaries[index(part)];
    stages.push_back({{"seconds", 1800.0}, {"bytes", size * (10 + 3 * std::min(parts - part, micro_batches))}});
  }
  return problem_of(adapter, "schedules.partition_measured",
                    {{"layers", layers}, {"pp", parts}, {"microbatches", micro_batches}}, [&](const json& result) {
                      return first_difference(
                          {{"boundaries", blocks.boundaries}, {"stages", stages}, {"period", 1800.0}}, result);
                    });
}

// Equal layers, so that all candidates are one.
std::string costs_of_equal_layers(Adapter& adapter, int micro_batches) {
  const int ranks = ranks_of_size(micro_batches), layers = 4 * ranks;
  const json layer{{"forward", 1}, {"backward", 2}, {"parameters", 5}};
  const json args{{"layers", std::vector<json>(index(layers), layer)},
                  {"schedule", "1f1b"},
                  {"pp", ranks},
                  {"microbatches", micro_batches}};
  return problem_of(adapter, "schedules.partition_costs", args, [&](const json& result) {
    const json figures{{"boundaries", even_boundaries(layers, ranks)},
                       {"slowest_stage", 12.0},
                       {"makespan", 12.0 * (micro_batches + ranks - 1)},
                       {"barrier_bubble", 12.0 * (ranks - 1)}};
    json expected = json::array();
    for (const char* name : {"uniform", "parameters", "optimal"}) {
      expected.push_back(figures);
      expected.back()["name"] = name;
    }
    return first_difference(expected, result.at("candidates"), "candidates");
  });
}

std::string counted_layers(Adapter& adapter, int count) {
  json layers = json::array(), counts = json::array();
  for (int i = 0; i < count; ++i) {
    const std::int64_t in = 1 + i % 97, out = 1 + i % 89;
    const bool bias = i % 3 != 0;
    layers.push_back({{"type", "Linear"}, {"in_features", in}, {"out_features", out}, {"bias", bias}});
    counts.push_back(in * out + (bias ? out : 0));
  }
  return problem_of(adapter, "schedules.count_layer_params", {{"layers", layers}},
                    [&](const json& result) { return first_difference(counts, result.at("counts"), "counts"); });
}

Choice placed_stages(const std::string& convention) {
  const auto placed = [convention](bool turns) {
    return [=](Adapter& adapter, int stages) {
      const int ranks = stages / 4;
      std::vector<int> places;
      for (int stage = 0; stage < stages; ++stage)
        places.push_back(turns && stage / ranks % 2 == 1 ? ranks - 1 - stage % ranks : stage % ranks);
      const json args{
          {"convention", convention}, {"pp", ranks}, {"num_stages", stages}, {"style", turns ? "v" : "loop"}};
      return problem_of(adapter, "schedules.stage_to_rank", args,
                        [&](const json& result) { return first_difference(places, result.at("result"), "places"); });
    };
  };
  return {"style", {{"loop", placed(false)}, {"v", placed(true)}}};
}

}  // namespace

void add_plan_size_checks(suite::Suite& suite) {
  const auto add = [&](SizedCheck one) { add_sized_check(suite, "schedules", std::move(one)); };
  const std::vector<int>& plans = sizes_of_plans();
  // At the largest size, a few; all of them together take too long there.
  const std::vector<int> shorter(plans.begin(), plans.end() - 1);
  const std::vector<SizedPlan> ours{{"1f1b"}, {"gpipe"}, {"interleaved", 8}, {"zbv", 2}},
      others{{"looped-bfs", 2}, {"zb-h1"},    {"zb-h2"},        {"interleaved-zero-bubble", 2},
             {"v-half", 2},     {"v-min", 2}, {"dualpipev", 2}, {"forward-only", 2}},
      of_torch{{"ScheduleGPipe"}, {"Schedule1F1B"}},
      others_of_torch{{"ScheduleInterleaved1F1B", 2},
                      {"ScheduleLoopedBFS", 2},
                      {"ScheduleInterleavedZeroBubble", 2},
                      {"ScheduleZBVZeroBubble", 2},
                      {"ScheduleDualPipeV", 2}};
  const auto add_generated = [&](const char* requirement, const std::vector<int>& sizes,
                                 const std::vector<SizedPlan>& asked, const char* convention, const char* part,
                                 const JudgePlan& judge) {
    add({kGenerate, requirement, sizes, {}, convention, part, {}, {}, generated_plans(convention, asked, judge)});
  };
  add_generated("SCHED-015@2d9b", plans, ours, "plumbline", "", problem_of_course);
  add_generated("SCHED-015@2d9b", shorter, others, "plumbline", "others", problem_of_course);
  add_generated("SCHED-024@167a", plans, of_torch, "torch", "", problem_of_torch_order);
  add_generated("SCHED-024@167a", shorter, others_of_torch, "torch", "others", problem_of_torch_order);
  add_generated("SCHED-023@f54d", plans, {{"1f1b"}, {"interleaved", 3}}, "plumbline", "kept",
                problem_of_kept_activations);
  add({"schedules.lower", "SCHED-033@f660", plans, lowered_plans("plumbline")});
  add({"schedules.lower", "SCHED-025@87a7", plans, lowered_plans("torch"), "torch"});
  add({"schedules.load_csv", "SCHED-116@8766", plans, loaded_plans("plumbline")});
  add({"schedules.load_csv", "SCHED-066@a2a7", plans, loaded_plans("torch"), "torch"});
  add({"schedules.check", "SCHED-045@10ef", plans, accepted_plans});
  add({"schedules.check", "SCHED-040@3567", plans, lost_action, "plumbline", "lost"});
  add({"schedules.check", "SCHED-041@d2a7", plans, early_action, "plumbline", "early"});
  add({"schedules.simulate", "SCHED-046@3b00", plans, simulated_plans});
  add(asking({{"schedule", {"1f1b"}}}, {"schedules.partition_costs", "SCHED-110@671c", plans, costs_of_equal_layers}));
  const std::vector<int> items{30, 487, 4096, 100'003}, weighed{30, 487, 2050, 10'007}, stages{8, 60, 512, 4096};
  const char* const uniform = "schedules.partition_uniform";
  add(asking({{"form", {"num_parts"}}}, {uniform, "SCHED-002@6712", items, even_partitions}));
  add(asking({{"form", {"num_parts"}}}, {uniform, "SCHED-010@0554", items, even_partitions_of_deepspeed, "deepspeed"}));
  add(asking({{"form", {"num_parts"}}},
             {uniform, "SCHED-011@6a00", items, even_partitions_of_deepspeed06, "deepspeed-0.6"}));
  add(asking({{"form", {"pp"}}}, {uniform, "SCHED-008@20fd", items, even_partitions_of_colossalai, "colossalai"}));
  const char* const balanced = "schedules.partition_balanced";
  add(asking({{"form", {"num_parts"}}},
             {balanced, "SCHED-006@a8f3", weighed, balanced_blocks(balanced, "plumbline", "weights", "num_parts")}));
  add(asking({{"form", {"num_parts"}}}, {balanced,
                                         "SCHED-010@0554",
                                         {30, 170, 512},
                                         balanced_blocks(balanced, "deepspeed", "weights", "num_parts"),
                                         "deepspeed"}));
  add(asking({{"form", {"num_parts"}}},
             {balanced, "SCHED-011@6a00", weighed, balanced_blocks(balanced, "deepspeed-0.6", "weights", "num_parts"),
              "deepspeed-0.6"}));
  add(asking({{"form", {"pp"}}}, {balanced, "SCHED-008@20fd", weighed, balanced_blocks_of_colossalai, "colossalai"}));
  const char* const optimal = "schedules.partition_optimal";
  add({optimal, "SCHED-006@a8f3", weighed, balanced_blocks(optimal, "plumbline", "weights", "parts")});
  const char* const method = "schedules.partition_method";
  const auto add_method = [&](const char* requirement, const std::vector<int>& sizes, const char* convention,
                              Choice choice) {
    add({method, requirement, sizes, {}, convention, "", {}, {}, std::move(choice)});
  };
  add_method("SCHED-100@72ca", {30, 170, 512}, "deepspeed", by_method("deepspeed", "parameters", "uniform"));
  add_method("SCHED-102@7e3a", weighed, "colossalai", by_method("colossalai", "parameter"));
  add_method("SCHED-102@7e3a", weighed, "deepspeed-0.6", by_method("deepspeed-0.6", "parameters"));
  add({"schedules.pipeline_layout", "SCHED-103@262f", stages, laid_out, "megatron"});
  add({"schedules.partition_counted", "SCHED-106@43af", stages, counted_ends("plumbline")});
  add({"schedules.partition_counted", "SCHED-105@369d", stages, counted_ends("megatron"), "megatron"});
  add({"schedules.partition_measured", "SCHED-107@1218", {30, 487, 10'007}, measured_blocks});
  add({"schedules.count_layer_params", "SCHED-012@2fcb", {8, 100, 1001, 10'000}, counted_layers});
  add({"schedules.stage_to_rank", "SCHED-113@42b0", stages, {}, "plumbline", "", {}, {}, placed_stages("plumbline")});
  add({"schedules.stage_to_rank", "SCHED-028@7b41", stages, {}, "torch", "", {}, {}, placed_stages("torch")});
}

}  // namespace plumbline::conformance

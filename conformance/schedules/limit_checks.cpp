// What the planner's functions reject, and what at their limits they still answer.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/refusal.hpp"
#include "conformance/support/words.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/schedules/partition.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::conformance {

using schedules::Action;
using schedules::Boundaries;
using schedules::LayerCost;
using schedules::LayerDescription;
using schedules::Schedule;
using schedules::ScheduleKind;
using schedules::StageLimits;
using suite::Context;

namespace {

constexpr int kMostInt = std::numeric_limits<int>::max();

// A question, and whether it is beyond what is documented.
struct Question {
  std::function<void()> ask;
  bool beyond = true;
};

Schedule one_rank(int stages, int micro_batches, const std::string& row = "") {
  return {.stages = stages,
          .micro_batches = micro_batches,
          .stage_to_rank = std::vector<int>(static_cast<std::size_t>(stages), 0),
          .ranks = {schedules::parse_row(row)}};
}

std::vector<Question> questions_of_plans() {
  const auto generated = [](ScheduleKind kind, int ranks, int micro_batches, int chunks, bool beyond) -> Question {
    return {[=] {
              (void)schedules::generate(kind,
                                        {.ranks = ranks, .micro_batches = micro_batches, .stages_per_rank = chunks});
            },
            beyond};
  };
  const auto automatic = [](int ranks, int micro_batches, int chunks) -> Question {
    return {[=] {
      (void)schedules::automatic({.ranks = ranks, .micro_batches = micro_batches, .stages_per_rank = chunks});
    }};
  };
  return {generated(ScheduleKind::one_f_one_b, 2, (1 << 25) + 1, 1, true),
          generated(ScheduleKind::one_f_one_b, 1, kMostInt, 1, true),
          generated(ScheduleKind::gpipe, (1 << 22) + 1, 1, 1, true),
          generated(ScheduleKind::gpipe, 1 << 12, 1, 1, false),
          generated(ScheduleKind::looped_breadth_first, 3, 1, 1 << 21, true),
          generated(ScheduleKind::forward_only, kMostInt, kMostInt, kMostInt, true),
          automatic(1, (1 << 17) + 1, 1),
          automatic(64, 1025, 2),
          {[] { (void)schedules::automatic({.ranks = 2, .micro_batches = 2, .stages_per_rank = 3}); }}};
}

std::vector<Question> questions_of_judges() {
  const Schedule many_stages{
      .stages = schedules::kMostStages + 1, .micro_batches = 1, .stage_to_rank = {}, .ranks = {{}}};
  const Schedule many_pairs = one_rank(2, (1 << 26) + 1);
  std::vector<Question> all;
  for (const Schedule& schedule : {many_stages, many_pairs, one_rank(kMostInt / (1 << 20), kMostInt)}) {
    all.push_back({[=] { (void)schedules::check(schedule); }});
    all.push_back({[=] { (void)schedules::simulate(schedule); }});
    all.push_back({[=] { (void)schedules::timeline_of(schedule, std::vector<std::vector<schedules::Period>>(1)); }});
    all.push_back({[=] { (void)schedules::attribute_idle_time(schedule, {}, {}); }});
    all.push_back({[=] { (void)schedules::attribute_measured_idle_time(schedule, {}, {}); }});
  }
  return all;
}

// A few numbers in a row may name few micro-batches of many.
std::vector<Question> questions_of_lowering() {
  using Lowering = std::function<void(const Schedule&)>;
  const std::vector<Lowering> lowerings{[](const Schedule& one) { (void)schedules::lower(one); },
                                        [](const Schedule& one) { (void)schedules::add_send_recv(one); },
                                        [](const Schedule& one) { (void)schedules::add_reduce_gradients(one); },
                                        [](const Schedule& one) { (void)schedules::defer_receives(one); }};
  std::vector<Question> all;
  for (const Lowering& lowering : lowerings) {
    all.push_back({[=] { lowering(one_rank(1, 1000, "0F999,0B999")); }, false});
    all.push_back({[=] { lowering(one_rank(1, 1 << 22, "0F4194303,0B4194303")); }, false});
    all.push_back({[=] { lowering(one_rank(1, (1 << 22) + 1, "0F4194304,0B4194304")); }});
    all.push_back({[=] { lowering(one_rank(3, 1 << 21, "0F0,0B0")); }});
  }
  return all;
}

std::vector<Question> questions_of_expressions() {
  const auto found = [](const std::string& expression, std::size_t letters, bool beyond) -> Question {
    const LayerDescription layer{.type = std::string(letters, 'a'), .parameters = 1};
    return {[=] {
              const std::vector<bool> types = schedules::types_with(std::vector{layer}, expression);
              EXPECT_EQ(types, std::vector{true}) << "SCHED-124: " << expression.substr(0, 40);
            },
            beyond};
  };
  return {found(std::string(256, 'a'), 256, false),
          found(std::string(257, 'a'), 257, true),
          found("a{1000}", 1000, false),
          found("a{1001}", 1001, true),
          found("(a{10}){100}", 1000, false),
          found("(a{10}){101}", 1010, true),
          found("a{2,1000}", 1000, false),
          found("a{2,1001}", 1000, true),
          found("a{99999999999}", 9, true),
          found("a{1}b{0}a{2}", 3, false),
          found("(a{500}){2}a{1}", 1001, false),
          found("(a{501}){2}", 1002, true),
          found("((a{11}){10}){10}", 1100, true),
          found("a{01}", 1, false)};
}

std::vector<Question> questions_of_layouts() {
  const auto read = [](const std::string& text, bool beyond) -> Question {
    return {[=] { (void)schedules::parse_pipeline_layout(text); }, beyond};
  };
  return {read("t*1048576", false),     read("t*1048577", true),
          read("(tt)*524288", false),   read("(tt)*524289", true),
          read("E(tt)*524288", true),   read("Et*1048574L", false),
          read("Et*1048575L", true),    read("t*18446744073709551617", true),
          read("(t)*99999999999", true)};
}

std::vector<LayerCost> layers_of_bytes(std::int64_t parameters, std::int64_t activations) {
  return {{.parameter_bytes = parameters, .activation_bytes = activations}, {}};
}
std::vector<Question> questions_of_measured_layers() {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  const auto asked = [](const std::vector<LayerCost>& layers, int kept, bool beyond) -> Question {
    return {[=] { (void)schedules::partition_measured(layers, {.kept = {kept, 1}}); }, beyond};
  };
  std::vector<Question> all{asked(layers_of_bytes(kMost - 1, 0), 1, false),
                            asked(layers_of_bytes(kMost, 0), 1, true),
                            asked(layers_of_bytes(kMost + 1, 0), 1, true),
                            asked(layers_of_bytes(0, kMost / 4 - 1), 4, false),
                            asked(layers_of_bytes(0, kMost / 4), 4, true),
                            asked(layers_of_bytes(kMost / 2, kMost / 8), 4, true),
                            asked(std::vector<LayerCost>(70'000), 1, true),
                            asked(std::vector<LayerCost>(20'000), 1, false),
                            asked({{.forward = 1e308, .backward = 1e308}, {}}, 1, true)};
  for (std::int64_t LayerCost::* field :
       {&LayerCost::parameters, &LayerCost::parameter_bytes, &LayerCost::activation_bytes, &LayerCost::output_bytes})
    for (const std::int64_t number : {std::int64_t{-1}, kMost + 1}) {
      LayerCost layer;
      layer.*field = number;
      all.push_back(asked({{}, layer}, 0, true));
    }
  return all;
}

std::vector<Question> questions_of_weights() {
  return {{[] { (void)schedules::deepspeed_balanced(std::vector<double>(70'000, 1), 2); }},
          {[] { (void)schedules::deepspeed_balanced(std::vector<double>(100'000, 1), 50'000); }},
          {[] { (void)schedules::deepspeed_balanced(std::vector<double>(500, 1), 3); }, false},
          {[] { (void)schedules::megatron_counted(0, 1 << 16, 1 << 16, {}); }},
          {[] { (void)schedules::partition_counted(kMostInt, 1, {.embedding = true}); }},
          {[] { (void)schedules::partition_counted(kMostInt, 1, {.loss = true}); }},
          {[] { (void)schedules::partition_counted(kMostInt - 2, 1, {.embedding = true, .loss = true}); }, false},
          {[] { (void)schedules::partition_counted(kMostInt, 1, {}); }, false}};
}

// A message of descriptions has 256 words.
std::vector<Question> questions_of_descriptions() {
  const auto told = [](std::size_t dimensions, bool beyond) -> Question {
    return {[=] {
              schedules::DescriptionExchange boundary(schedules::Metadata::each);
              (void)boundary.tell(0, {{comm::DType::f32, std::vector<std::int64_t>(dimensions, 1)}});
            },
            beyond};
  };
  return {told(249, false), told(250, true)};
}

void documented_limits(Context& context) {
  static const std::map<std::string, std::vector<Question> (*)()> questions{
      {"plans", questions_of_plans},       {"judges", questions_of_judges},
      {"lowering", questions_of_lowering}, {"expressions", questions_of_expressions},
      {"layouts", questions_of_layouts},   {"measured", questions_of_measured_layers},
      {"weights", questions_of_weights},   {"descriptions", questions_of_descriptions}};
  int number = 0;
  for (const Question& one : questions.at(context.parameters().text("of"))()) {
    const std::string said = refusal<InvalidArgument>(one.ask);
    EXPECT_EQ(said == kNotRefused, !one.beyond) << "SCHED-124: question " << number << ": " << said;
    EXPECT_EQ(said.find("another error"), std::string::npos) << "SCHED-124: question " << number << ": " << said;
    ++number;
  }
}

// ---- partitions ----

// All lists of up to four numbers.
void partitions_of_all_lists(Context&) {
  const std::vector<double> weights{1, 2, 4};
  for (int code = 0; code < 6 * 6 * 6 * 6; ++code) {
    Boundaries list;
    for (int left = code, i = 0; i < 4; ++i, left /= 6)
      if (left % 6 < 5) list.push_back(left % 6 - 1);
    for (int parts = 0; parts <= 3; ++parts)
      for (int items = 0; items <= 3; ++items) {
        bool rises = list.size() == static_cast<std::size_t>(parts) + 1 && parts > 0;
        for (std::size_t i = 0; rises && i < list.size(); ++i) rises = i == 0 ? list[0] == 0 : list[i - 1] <= list[i];
        EXPECT_EQ(schedules::is_partition(list, items, parts), rises && list.back() == items)
            << "SCHED-001: " << testing::PrintToString(list) << " of " << items << " in " << parts;
      }
    if (list.empty()) continue;
    const auto parts = static_cast<int>(list.size()) - 1;
    double heaviest = 0;
    const bool is_one = schedules::is_partition(list, 3, parts);
    for (std::size_t part = 0; is_one && part + 1 < list.size(); ++part) {
      double sum = 0;
      for (int i = list[part]; i < list[part + 1]; ++i) sum += weights[static_cast<std::size_t>(i)];
      heaviest = std::max(heaviest, sum);
    }
    const auto weighed = [&] { EXPECT_EQ(schedules::heaviest_part(weights, list), heaviest) << "SCHED-006"; };
    EXPECT_EQ(refusal<InvalidArgument>(weighed) == kNotRefused, is_one)
        << "SCHED-004: " << testing::PrintToString(list);
  }
}

void partitions_refused(Context&) {
  using schedules::by_rank, schedules::heaviest_part;
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& [boundaries, stages] : {std::pair(Boundaries{0, 1, 2, 3}, 2),
                                           {Boundaries{0, 1}, 0},
                                           {Boundaries{0, 1}, -1},
                                           {Boundaries{0}, 1},
                                           {Boundaries{0, 1, 2}, 4}})
    expect_rejected<InvalidArgument>("SCHED-004", [&] { (void)by_rank(boundaries, stages); });
  const auto dealt = by_rank({0, 1, 1, 3, 4}, 2);
  EXPECT_EQ(dealt, (std::vector<std::vector<schedules::Interval>>{{{0, 1}, {1, 3}}, {{1, 1}, {3, 4}}})) << "SCHED-005";
  for (const double weight : {-1.0, inf, -inf, std::nan("")}) {
    expect_rejected<InvalidArgument>("SCHED-013", [&] { (void)heaviest_part(std::vector{1.0, weight}, {0, 1, 2}); });
    expect_rejected<InvalidArgument>("SCHED-013",
                                     [&] { (void)schedules::partition_optimal(std::vector{1.0, weight}, 2); });
  }
  const std::vector<LayerCost> layers(2);
  const StageLimits limits{.kept = {1, 1}};
  for (const Boundaries& boundaries : {Boundaries{0, 2}, {0, 1, 1}, {0, 1, 3}, {1, 1, 2}, {0, 2, 1, 2}}) {
    expect_rejected<InvalidArgument>("SCHED-004", [&] { (void)schedules::stage_costs(layers, boundaries, limits); });
    if (boundaries.size() != 2)
      expect_rejected<InvalidArgument>("SCHED-004", [&] { (void)schedules::options_of(layers, boundaries); });
    expect_rejected<InvalidArgument>("SCHED-004", [&] {
      (void)schedules::figures_of(schedules::generate(ScheduleKind::gpipe, {2, 1, 1}), layers, "mine", boundaries);
    });
  }
  EXPECT_EQ(schedules::stage_costs(layers, {0, 2, 2}, limits).size(), 2U) << "SCHED-004: a stage may be empty there";
}

void measured_limits_refused(Context&) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto rejects = [](StageLimits limits, const LayerCost& layer = {}, std::size_t count = 2) {
    const std::vector<LayerCost> layers(count, layer);
    expect_rejected<InvalidArgument>("SCHED-111", [&] { (void)schedules::partition_measured(layers, limits); });
  };
  rejects({.kept = {}});
  rejects({.kept = {1, -1}});
  rejects({.kept = {-1, 1}});
  rejects({.kept = {1, 1, 1}});
  for (const int stages : {1, 2}) {
    const std::vector<int> kept(static_cast<std::size_t>(stages), 1);
    rejects({.kept = kept, .memory = -1});
    for (const double bandwidth : {0.0, -1.0, std::nan("")}) rejects({.kept = kept, .bandwidth = bandwidth});
    for (const double seconds : {-1.0, inf, std::nan("")}) {
      rejects({.kept = kept}, {.forward = seconds});
      rejects({.kept = kept}, {.backward = seconds});
      rejects({.kept = kept}, {.backward = 1, .weight_gradient = seconds});
    }
    rejects({.kept = kept}, {.backward = 1, .weight_gradient = 1.5});
  }
  const std::vector<LayerCost> layers(2, LayerCost{.backward = 1, .weight_gradient = 1});
  EXPECT_EQ(schedules::partition_measured(layers, {.kept = {0, 0}, .memory = 0}), (Boundaries{0, 1, 2})) << "SCHED-107";
  for (const auto& [stages, micro_batches] : {std::pair(0, 1), {1, 0}, {-1, 1}, {1, -1}})
    expect_rejected<InvalidArgument>("SCHED-111", [&] { (void)schedules::kept_by_1f1b(stages, micro_batches); });
  EXPECT_EQ(schedules::kept_by_1f1b(3, 2), (std::vector<int>{2, 2, 1})) << "SCHED-108";
  const auto kept_by = [](ScheduleKind kind, int chunks) {
    return schedules::kept_by(schedules::generate(kind, {.ranks = 3, .micro_batches = 6, .stages_per_rank = chunks}),
                              kind == ScheduleKind::forward_only);
  };
  EXPECT_EQ(kept_by(ScheduleKind::one_f_one_b, 1), (std::vector<int>{3, 2, 1})) << "SCHED-108";
  EXPECT_EQ(kept_by(ScheduleKind::gpipe, 1), (std::vector<int>{6, 6, 6})) << "SCHED-108";
  EXPECT_EQ(kept_by(ScheduleKind::forward_only, 1), (std::vector<int>{1, 1, 1})) << "SCHED-108";
  expect_rejected<InvalidArgument>("SCHED-108", [&] { (void)kept_by(ScheduleKind::zbv, 2); });
}

// Of the partition with the least memory, the fullest stage is named, and what it lacks.
void missing_memory(Context&) {
  const std::vector<LayerCost> layers{{.parameter_bytes = 4, .activation_bytes = 3},
                                      {.parameter_bytes = 8, .activation_bytes = 1},
                                      {.parameter_bytes = 30, .activation_bytes = 2},
                                      {.parameter_bytes = 2, .activation_bytes = 9}};
  // Of stages 0 and 1: 4 + 8 + 2 x (3 + 1) = 20 and 30 + 2 + 2 + 9 = 43; with a layer more in the first one 54 and 11,
  // with one fewer 10 and 52.
  for (const std::int64_t memory : {std::int64_t{0}, std::int64_t{20}, std::int64_t{42}}) try {
      (void)schedules::partition_measured(layers, {.kept = {2, 1}, .memory = memory});
      ADD_FAILURE() << "SCHED-108: memory " << memory << " is enough";
    } catch (const schedules::NoPartitionFits& error) {
      EXPECT_EQ(error.stage(), 1) << "SCHED-108";
      EXPECT_EQ(error.missing(), 43 - memory) << "SCHED-108";
      const std::vector<std::string> words{"43", "32", "11", "1", "2", "3", std::to_string(43 - memory)};
      EXPECT_EQ(missing_words(error.what(), words), "") << "SCHED-108: " << error.what();
    }
  EXPECT_EQ(schedules::partition_measured(layers, {.kept = {2, 1}, .memory = 43}), (Boundaries{0, 2, 4}))
      << "SCHED-108";
}

// ---- schedules that are none ----

void schedules_refused(Context& context) {
  const std::string& by = context.parameters().text("by");
  const Schedule right{.stages = 2,
                       .micro_batches = 1,
                       .stage_to_rank = {0, 1},
                       .ranks = {schedules::parse_row("0F0,0B0"), schedules::parse_row("1F0,1B0")}};
  const auto asked = [&](const Schedule& schedule) {
    if (by == "check") (void)schedules::check(schedule);
    if (by == "simulate") (void)schedules::simulate(schedule);
    if (by == "lower") (void)schedules::lower(schedule);
    if (by == "add_send_recv") (void)schedules::add_send_recv(schedule);
    if (by == "add_reduce_gradients") (void)schedules::add_reduce_gradients(schedule);
    if (by == "defer_receives") (void)schedules::defer_receives(schedule);
  };
  const char* const requirement = by == "check" ? "SCHED-084" : by == "simulate" ? "SCHED-087" : "SCHED-090";
  EXPECT_EQ(refusal<InvalidArgument>([&] { asked(right); }), kNotRefused) << requirement;
  const auto rejects = [&](const auto& change) {
    Schedule wrong = right;
    change(wrong);
    expect_rejected<InvalidArgument>(requirement, [&] { asked(wrong); });
  };
  rejects([](Schedule& one) { one.stages = 0; });
  rejects([](Schedule& one) { one.stages = 0, one.stage_to_rank = {}; });
  rejects([](Schedule& one) { one.stages = 1; });
  rejects([](Schedule& one) { one.stages = 3; });
  rejects([](Schedule& one) { one.micro_batches = 0; });
  rejects([](Schedule& one) { one.micro_batches = -1; });
  rejects([](Schedule& one) { one.stage_to_rank = {0}; });
  rejects([](Schedule& one) { one.stage_to_rank = {0, 1, 1}; });
  rejects([](Schedule& one) { one.stage_to_rank = {0, 2}; });
  rejects([](Schedule& one) { one.stage_to_rank = {-1, 1}; });
}

// The rank and the position of what is rejected, and the numbers that were possible.
void errors_in_numbers(Context&) {
  const auto said = [](std::size_t rank, const std::string& row, const auto& asked) {
    Schedule plan{.stages = 3, .micro_batches = 5, .stage_to_rank = {0, 1, 1}, .ranks = {{}, {}}};
    plan.ranks[rank] = schedules::parse_row(row);
    return refusal<InvalidArgument>([&] { (void)asked(plan); });
  };
  const auto lower = [](const Schedule& plan) { return schedules::lower(plan); };
  const auto add_messages = [](const Schedule& plan) { return schedules::add_send_recv(plan); };
  const auto expect = [&](std::size_t rank, const std::string& row, const std::vector<std::int64_t>& numbers) {
    for (const std::string& words : {said(rank, row, lower), said(rank, row, add_messages)})
      EXPECT_EQ(missing_numbers(words, numbers), "") << "SCHED-138: " << row;
  };
  expect(1, "1F0,2F0,7F0", {1, 2, 0, 2});
  expect(0, "0F0,3F1", {0, 1, 0, 2});
  expect(1, "1F0,1F4,2F5", {1, 2, 0, 4});
  expect(0, "0F0,0F1,0F2,2F0", {0, 3, 1});
  expect(1, "1F0,0F0", {1, 1, 0});
  expect(1, "1F0,1SEND_F0", {1, 1});
}

// A message beyond the first or the last stage has no other side: it takes no time, and nobody waits for it.
void messages_beyond(Context&) {
  const auto makespan = [](const std::string& first, const std::string& last, bool rendezvous) {
    const Schedule plan{.stages = 2,
                        .micro_batches = 1,
                        .stage_to_rank = {0, 1},
                        .ranks = {schedules::parse_row(first), schedules::parse_row(last)}};
    schedules::SimulationOptions options;
    options.message_bytes = {8};
    options.links = {.latency = 2, .bandwidth = 1};
    options.rendezvous = rendezvous;
    return schedules::simulate(plan, options).makespan;
  };
  const std::string first = "0F0,0SEND_F0,0RECV_B0,0B0", last = "1RECV_F0,1F0,1B0,1SEND_B0";
  for (const bool rendezvous : {false, true}) {
    const double usual = makespan(first, last, rendezvous);
    EXPECT_EQ(makespan("0RECV_F0," + first, last, rendezvous), usual) << "SCHED-132: from before the first stage";
    EXPECT_EQ(makespan(first + ",0SEND_B0", last, rendezvous), usual) << "SCHED-132: to before the first stage";
    EXPECT_EQ(makespan(first, "1RECV_F0,1F0,1SEND_F0,1B0,1SEND_B0", rendezvous), usual)
        << "SCHED-132: to after the last stage";
    EXPECT_EQ(makespan(first, "1RECV_F0,1F0,1RECV_B0,1B0,1SEND_B0", rendezvous), usual)
        << "SCHED-132: from after the last stage";
  }
}

// Costs that fit neither the stages nor each other.
void costs_refused(Context&) {
  using schedules::SimulationOptions;
  const double inf = std::numeric_limits<double>::infinity();
  const Schedule plan{.stages = 3,
                      .micro_batches = 1,
                      .stage_to_rank = {0, 1, 1},
                      .ranks = {schedules::parse_row("0F0,0B0"), schedules::parse_row("1F0,2F0,2B0,1B0")}};
  const auto asked = [&](const auto& change) {
    SimulationOptions options;
    change(options);
    return refusal<InvalidArgument>([&] { (void)schedules::simulate(plan, options); });
  };
  const auto rejects = [&](const auto& change) {
    const std::string said = asked(change);
    EXPECT_TRUE(said != kNotRefused && said.find("another error") == std::string::npos) << "SCHED-087: " << said;
  };
  const auto answers = [&](const auto& change) { EXPECT_EQ(asked(change), kNotRefused) << "SCHED-087"; };
  for (const std::size_t length : {0U, 2U, 4U}) rejects([&](SimulationOptions& o) { o.stages.resize(length); });
  for (const std::size_t length : {1U, 3U}) answers([&](SimulationOptions& o) { o.stages.resize(length); });
  for (const std::size_t length : {0U, 3U, 4U}) rejects([&](SimulationOptions& o) { o.message_bytes.resize(length); });
  for (const std::size_t length : {1U, 2U}) answers([&](SimulationOptions& o) { o.message_bytes.resize(length); });
  for (const std::size_t length : {0U, 2U, 4U})
    rejects([&](SimulationOptions& o) { o.activation_bytes.resize(length); });
  for (const std::size_t length : {1U, 3U}) answers([&](SimulationOptions& o) { o.activation_bytes.resize(length); });
  for (const std::size_t length : {1U, 3U}) rejects([&](SimulationOptions& o) { o.rank_slowdown.assign(length, 1); });
  for (const std::size_t length : {0U, 2U}) answers([&](SimulationOptions& o) { o.rank_slowdown.assign(length, 1); });
  for (const double number : {-1.0, inf, std::nan("")}) {
    rejects([&](SimulationOptions& o) { o.stages[0].forward = number; });
    rejects([&](SimulationOptions& o) { o.stages[0].input_gradient = number; });
    rejects([&](SimulationOptions& o) { o.stages[0].weight_gradient = number; });
    rejects([&](SimulationOptions& o) { o.stages[0].backward = number; });
    rejects([&](SimulationOptions& o) { o.overlap = number; });
    rejects([&](SimulationOptions& o) { o.links.latency = number; });
    rejects([&](SimulationOptions& o) { o.message_bytes = {0, number}; });
    rejects([&](SimulationOptions& o) { o.activation_bytes = {0, 0, number}; });
    rejects([&](SimulationOptions& o) { o.rank_slowdown = {1, number}; });
    rejects([&](SimulationOptions& o) { o.jitter = number; });
  }
  for (const double number : {-1.0, 0.0, std::nan("")})
    rejects([&](SimulationOptions& o) { o.links.bandwidth = number; });
  answers([&](SimulationOptions& o) { o.links.bandwidth = inf; });
  answers([](SimulationOptions& o) {
    o.stages[0] = {.forward = 0, .input_gradient = 0, .weight_gradient = 0};
    o.overlap = o.links.latency = o.jitter = 0;
    o.message_bytes = o.activation_bytes = {0};
    o.rank_slowdown = {0, 0};
  });
  rejects([](SimulationOptions& o) { o.stages[0].forward = 1e308; });  // the sum of three
}

}  // namespace

void add_size_limit_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, std::vector<std::string> requirements, std::vector<suite::Axis> axes,
                       void (*body)(Context&)) {
    axes.push_back(suite::worlds({1}));
    suite.add({.id = std::string("schedules.limits.") + name,
               .verifies = std::move(requirements),
               .axes = std::move(axes),
               .body = body});
  };
  add("documented", {"SCHED-124@50a4"},
      {{"of", {"plans", "judges", "lowering", "expressions", "layouts", "measured", "weights", "descriptions"}}},
      documented_limits);
  add("all_lists", {"SCHED-001@948e", "SCHED-004@f67c", "SCHED-006@a8f3"}, {}, partitions_of_all_lists);
  add("partitions_refused", {"SCHED-004@f67c", "SCHED-005@02a9", "SCHED-013@4f7d"}, {}, partitions_refused);
  add("measured_refused", {"SCHED-107@1218", "SCHED-108@b2cf", "SCHED-111@a891"}, {}, measured_limits_refused);
  add("missing_memory", {"SCHED-108@b2cf"}, {}, missing_memory);
  add("check_refuses", {"SCHED-084@f7f3"}, {{"by", {"check"}}}, schedules_refused);
  add("simulate_refuses", {"SCHED-087@ce02"}, {{"by", {"simulate"}}}, schedules_refused);
  add("lowering_refuses", {"SCHED-090@03dc"},
      {{"by", {"lower", "add_send_recv", "add_reduce_gradients", "defer_receives"}}}, schedules_refused);
  add("errors_in_numbers", {"SCHED-138@1dcf"}, {}, errors_in_numbers);
  add("messages_beyond", {"SCHED-132@2c9d"}, {}, messages_beyond);
  add("costs_refused", {"SCHED-087@ce02"}, {}, costs_refused);
}

}  // namespace plumbline::conformance

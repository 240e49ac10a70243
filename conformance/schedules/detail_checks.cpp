// What the planner's functions give that no operation asks for: texts of problems and errors, names, descriptions of
// tensors, and the calls and times of an executor.
#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/schedules/plans.hpp"
#include "conformance/schedules/random_plans.hpp"
#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/refusal.hpp"
#include "conformance/support/words.hpp"
#include "reference/schedules/checker.hpp"
#include "reference/schedules/executor.hpp"
#include "reference/schedules/generate.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::conformance {

using comm::DType;
using schedules::Action;
using schedules::ActionKind;
using schedules::CheckReport;
using schedules::DescriptionExchange;
using schedules::Matching;
using schedules::Metadata;
using schedules::Period;
using schedules::Problem;
using schedules::ProblemKind;
using schedules::ProblemSeverity;
using schedules::Schedule;
using schedules::StageCallbacks;
using schedules::TensorDescriptions;
using suite::Context;

namespace {

Schedule plan_of(const std::vector<std::string>& rows, std::vector<int> places, int micro_batches) {
  Schedule plan{.stages = static_cast<int>(places.size()),
                .micro_batches = micro_batches,
                .stage_to_rank = std::move(places),
                .ranks = {}};
  for (const std::string& row : rows) plan.ranks.push_back(schedules::parse_row(row));
  return plan;
}

// ---- the text of a problem ----

std::string text_of(ProblemKind kind, ProblemSeverity severity, int position) {
  return to_string(Problem{.kind = kind,
                           .severity = severity,
                           .place = {.rank = 7, .position = position, .action = schedules::parse_row("3B5").at(0)},
                           .message = "something is wrong",
                           .cycle = {}});
}

void texts_of_problems(Context&) {
  const std::vector<std::pair<ProblemKind, std::string>> kinds{{ProblemKind::range, "range"},
                                                               {ProblemKind::wrong_rank, "wrong_rank"},
                                                               {ProblemKind::doubled, "doubled"},
                                                               {ProblemKind::missing, "missing"},
                                                               {ProblemKind::dependency, "dependency"},
                                                               {ProblemKind::after_reduction, "after_reduction"},
                                                               {ProblemKind::resharded, "resharded"},
                                                               {ProblemKind::no_neighbour, "no_neighbour"},
                                                               {ProblemKind::missing_send, "missing_send"},
                                                               {ProblemKind::missing_receive, "missing_receive"},
                                                               {ProblemKind::missing_wait, "missing_wait"},
                                                               {ProblemKind::activations, "activations"},
                                                               {ProblemKind::cycle, "cycle"},
                                                               {ProblemKind::deadlock, "deadlock"},
                                                               {ProblemKind::fifo_order, "fifo_order"}};
  for (const auto& [kind, name] : kinds)
    for (const auto& [severity, word] :
         {std::pair(ProblemSeverity::error, "error"), {ProblemSeverity::warning, "warning"}})
      for (const int position : {0, 42, schedules::kNoPosition}) {
        const std::string text = text_of(kind, severity, position);
        EXPECT_EQ(missing_words(text, {word, name, "7", "3B5", "something is wrong"}), "") << "SCHED-130: " << text;
        EXPECT_EQ(text.find('\n'), std::string::npos) << "SCHED-130: " << text;
        EXPECT_EQ(has_word(text, "42"), position == 42) << "SCHED-130: " << text;
        EXPECT_EQ(has_word(text, "0"), position == 0) << "SCHED-130: " << text;
        EXPECT_EQ(text.find("position") == std::string::npos, position == schedules::kNoPosition)
            << "SCHED-130: " << text;
      }
}

// ---- cycles ----

bool ends_first(const Schedule& plan, const schedules::Place& waits, const schedules::Place& next) {
  // What it waits for is on the next one's rank, at its position or after it.
  const Action& action = waits.action;
  const auto& row = plan.ranks[static_cast<std::size_t>(next.rank)];
  for (auto i = static_cast<std::size_t>(next.position); i < row.size(); ++i) {
    const Action& other = row[i];
    if (other.micro_batch != action.micro_batch) continue;
    if (schedules::is_message(action.kind)) {
      if (other.kind == schedules::partner_of(action.kind) && other.stage == schedules::peer_stage(action)) return true;
      continue;
    }
    const bool up = action.kind == ActionKind::forward;
    if (other.stage == action.stage + (up ? -1 : 1) && (other.kind == ActionKind::forward) == up &&
        other.kind != ActionKind::weight_gradient)
      return true;
  }
  return false;
}

void expect_cycle(const Schedule& plan, const Problem& problem) {
  const auto& cycle = problem.cycle;
  ASSERT_GE(cycle.size(), 2U) << "SCHED-130: " << to_string(problem);
  EXPECT_EQ(problem.place, cycle.front()) << "SCHED-130: " << to_string(problem);
  std::set<int> ranks;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const schedules::Place &one = cycle[i], &next = cycle[(i + 1) % cycle.size()];
    EXPECT_TRUE(ranks.insert(one.rank).second) << "SCHED-130: rank " << one.rank << " twice";
    EXPECT_EQ(plan.ranks.at(static_cast<std::size_t>(one.rank)).at(static_cast<std::size_t>(one.position)), one.action)
        << "SCHED-130: " << to_string(problem);
    EXPECT_TRUE(ends_first(plan, one, next)) << "SCHED-130: " << to_string(problem);
    Action plain = one.action;
    plain.joined = false;
    EXPECT_EQ(
        missing_words(to_string(problem), {to_string(plain), std::to_string(one.rank), std::to_string(one.position)}),
        "")
        << "SCHED-130: " << to_string(problem);
  }
}

// Right plans whose neighbours changed places, until some ranks wait for each other.
void cycles(Context& context) {
  const bool messages = context.parameters().text("rows") == "messages";
  Random random(context.seed());
  int found = 0;
  for (int trial = 0; trial < 400; ++trial) {
    Schedule plan = random_plan(random, messages);
    for (int left = random.between(1, 6); left > 0; --left) {
      auto& row = plan.ranks[static_cast<std::size_t>(random.between(0, static_cast<int>(plan.ranks.size()) - 1))];
      if (row.size() < 2) continue;
      const int at = random.between(0, static_cast<int>(row.size()) - 2);
      const int to = random.between(at + 1, std::min(at + 4, static_cast<int>(row.size()) - 1));
      std::rotate(row.begin() + at, row.begin() + to, row.begin() + to + 1);
    }
    for (auto& row : plan.ranks)
      for (std::size_t i = 0; messages && i + 1 < row.size(); ++i)
        row[i].joined =
            schedules::is_message(row[i].kind) && schedules::is_message(row[i + 1].kind) && random.between(0, 2) == 0;
    const CheckReport report = schedules::check(plan);
    std::size_t errors = 0, warnings = 0;
    for (const Problem& problem : report.problems) {
      ++(problem.severity == ProblemSeverity::error ? errors : warnings);
      if (problem.kind != ProblemKind::cycle && problem.kind != ProblemKind::deadlock) continue;
      ++found;
      expect_cycle(plan, problem);
    }
    EXPECT_EQ(report.errors + report.warnings, errors + warnings + report.omitted) << "SCHED-080";
    EXPECT_EQ(report.valid(), report.errors == 0) << "SCHED-080";
    // What is wrong leaves unproved what is computed alone; what waits in a cycle never ends.
    const bool buffered = report.deadlock_free_buffered, rendezvous = report.deadlock_free_rendezvous;
    EXPECT_FALSE(!messages && !report.valid() && (buffered || rendezvous)) << "SCHED-043";
    EXPECT_FALSE(rendezvous && !buffered) << "SCHED-043";
  }
  EXPECT_GT(found, 20) << "SCHED-130: plans with cycles";
}

// A rank beside a cycle, which waits for one of it, is none of it.
void cycle_with_followers(Context&) {
  const Schedule plan = plan_of({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1", "2F0,2F1,2B1,2B0"}, {0, 1, 2}, 2);
  const CheckReport report = schedules::check(plan);
  ASSERT_EQ(report.problems.size(), 1U) << "SCHED-041";
  const Problem& problem = report.problems.front();
  EXPECT_EQ(problem.kind, ProblemKind::cycle) << "SCHED-041";
  expect_cycle(plan, problem);
  for (const schedules::Place& place : problem.cycle) EXPECT_NE(place.rank, 0) << "SCHED-130: " << to_string(problem);
}

// ---- what is counted ----

void most_of_a_kind(Context&) {
  const Schedule plan = plan_of({"0F0,0B0,0B0,0B0,0F0"}, {0}, 30);
  for (const std::size_t most : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{5}, std::size_t{1000}}) {
    const CheckReport report = schedules::check(plan, {.most_of_a_kind = most});
    std::map<ProblemKind, std::size_t> counts;
    for (const Problem& problem : report.problems) ++counts[problem.kind];
    EXPECT_EQ(counts[ProblemKind::missing], std::min<std::size_t>(most, 58)) << "SCHED-080";
    EXPECT_EQ(counts[ProblemKind::doubled], std::min<std::size_t>(most, 3)) << "SCHED-080";
    EXPECT_EQ(report.errors, 61U) << "SCHED-080";
    EXPECT_EQ(report.warnings, 0U) << "SCHED-080";
    EXPECT_EQ(report.omitted, 61 - report.problems.size()) << "SCHED-080";
  }
}

void activation_limits(Context&) {
  const Schedule plan = plan_of({"0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3", "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3"}, {0, 1}, 4);
  for (const auto& [first, second] : {std::pair(3, 1), {2, 1}, {3, 0}, {0, 0}, {9, 9}}) {
    const CheckReport report = schedules::check(plan, {.activation_limits = {first, second}});
    EXPECT_EQ(report.valid(), first >= 3 && second >= 1) << "SCHED-040";
    EXPECT_EQ(report.peak_activations, (std::vector<int>{3, 1})) << "SCHED-045";
    for (const Problem& problem : report.problems) {
      EXPECT_EQ(problem.kind, ProblemKind::activations) << to_string(problem);
      EXPECT_EQ(problem.place.position, problem.place.rank == 0 ? 2 : 0) << "SCHED-080: " << to_string(problem);
    }
    EXPECT_EQ(report.problems.size(), (first < 3 ? 1U : 0U) + (second < 1 ? 1U : 0U)) << "SCHED-080";
  }
  for (const std::vector<int>& limits : {std::vector<int>{3}, {3, 1, 1}})
    expect_rejected<InvalidArgument>("SCHED-084", [&] { (void)schedules::check(plan, {.activation_limits = limits}); });
}

// Of several messages of one name the first meets the first.
void doubled_messages(Context&) {
  const std::string first = "0F0,0SEND_F0,", last = ",0RECV_B0,0B0", second = "1RECV_F0,1F0,1B0,", end = "1SEND_B0";
  for (int sends = 0; sends <= 3; ++sends)
    for (int receives = 0; receives <= 3; ++receives) {
      std::string more_sent = first, more_received = second;
      for (int i = 0; i < sends; ++i) more_sent += "0SEND_F0,";
      for (int i = 0; i < receives; ++i) more_received += "1RECV_F0,";
      more_sent.pop_back();
      const CheckReport report = schedules::check(plan_of({more_sent + last, more_received + end}, {0, 1}, 1));
      EXPECT_EQ(report.deadlock_free_rendezvous, sends == receives) << "SCHED-043: " << sends << ", " << receives;
      EXPECT_EQ(report.deadlock_free_buffered, sends >= receives) << "SCHED-043: " << sends << ", " << receives;
      EXPECT_EQ(std::ranges::count(report.problems, ProblemKind::doubled, &Problem::kind), sends + receives)
          << "SCHED-040";
    }
}

// Stages of one rank hand over without messages; those that are there nevertheless must meet.
void messages_on_one_rank(Context&) {
  const auto report_of = [](const char* row) { return schedules::check(plan_of({row}, {0, 0}, 1)); };
  EXPECT_TRUE(report_of("0F0,(0SEND_F0;1RECV_F0)P2P,1F0,1B0,0B0").valid()) << "SCHED-042";
  EXPECT_TRUE(report_of("0F0,1F0,1B0,0B0").valid()) << "SCHED-042";
  for (const auto& [row, kind, action] :
       {std::tuple("0F0,0SEND_F0,1F0,1B0,0B0", ProblemKind::missing_receive, "1RECV_F0"),
        {"0F0,1RECV_F0,1F0,1B0,0B0", ProblemKind::missing_send, "0SEND_F0"},
        {"0F0,1F0,1B0,1SEND_B0,0B0", ProblemKind::missing_receive, "0RECV_B0"},
        {"0F0,1F0,1B0,0RECV_B0,0B0", ProblemKind::missing_send, "1SEND_B0"}}) {
    const CheckReport report = report_of(row);
    const auto found = std::ranges::find(report.problems, kind, &Problem::kind);
    ASSERT_NE(found, report.problems.end()) << "SCHED-042: " << row;
    EXPECT_EQ(to_string(found->place.action), action) << "SCHED-042: " << row;
  }
}

// What is found of computations is what is found of them with their messages.
void computations_with_their_messages(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 150; ++trial) {
    const Schedule plan = random_plan(random, false);
    for (const Matching matching : {Matching::name, Matching::fifo}) {
      const CheckReport alone = schedules::check(plan, {.matching = matching}),
                        moved = schedules::check(schedules::lower(plan), {.matching = matching});
      EXPECT_EQ(alone.errors, moved.errors) << "SCHED-044";
      EXPECT_EQ(alone.warnings, moved.warnings) << "SCHED-044";
      EXPECT_EQ(alone.problems.size(), moved.problems.size()) << "SCHED-044";
      EXPECT_EQ(alone.valid(), matching == Matching::name || alone.problems.empty()) << "SCHED-044";
      EXPECT_TRUE(alone.deadlock_free_buffered && alone.deadlock_free_rendezvous) << "SCHED-043";
      EXPECT_EQ(alone.peak_activations, peaks_of(plan)) << "SCHED-045";
      for (const Problem& problem : alone.problems) EXPECT_EQ(problem.kind, ProblemKind::fifo_order) << "SCHED-044";
    }
  }
}

// ---- the text of schedules ----

void cells(Context&) {
  for (const char* cell : {"0F0",
                           "4194303F0",
                           "0F2147483646",
                           "12B34",
                           "0I0",
                           "0W0",
                           "0SEND_F0",
                           "0RECV_F0",
                           "0SEND_B0",
                           "0RECV_B0",
                           "0SEND_META0",
                           "0RECV_META0",
                           "0WAIT_SEND_F0",
                           "0WAIT_SEND_B0",
                           "0UNSHARD",
                           "0RESHARD",
                           "0REDUCE_GRAD",
                           "(0F0;1B0)OVERLAP_F_B",
                           "(0F0;1B0;2W0)OVERLAP_F_B",
                           "(0SEND_F0;1RECV_F0)P2P",
                           ""}) {
    const std::string row = fmt::format("1F1,{},1B1", cell);
    EXPECT_EQ(schedules::to_csv(schedules::parse_row(row)), row) << "SCHED-134";
    const std::string spaced = fmt::format(" 1F1\t, {} ,1B1\r", cell);
    EXPECT_EQ(schedules::to_csv(schedules::parse_row(spaced)), row) << "SCHED-134: with blanks";
  }
  for (const char* cell : {"0X0",
                           "F0",
                           "0F",
                           "0F-1",
                           "-1F0",
                           "4194304F0",
                           "0F2147483647",
                           "0F99999999999",
                           "99999999999F0",
                           "0UNSHARD0",
                           "0REDUCE_GRAD1",
                           "0SEND_F",
                           "0WAIT_SEND_F",
                           "0f0",
                           "0F0 0B0",
                           "0F0;0B0",
                           "0F0x",
                           "0",
                           "(0F0;0B0)",
                           "(0F0;0B0",
                           "(0F0;0B0)X",
                           "(0F0)OVERLAP_F_B",
                           "(0SEND_F0)P2P",
                           "(0F0;0SEND_F0)OVERLAP_F_B",
                           "(0F0;0B0)P2P",
                           "()P2P",
                           "(0SEND_F0;0RECV_B0)",
                           "(0SEND_F0;0RECV_B0)A",
                           "(0SEND_F0;0RECV_B0)X",
                           "(0F0;)OVERLAP_F_B",
                           "(0UNSHARD;0RESHARD)P2P",
                           "(;)P2P",
                           "()",
                           "+1F0",
                           "0F+1"})
    for (const int line : {1, 7})
      expect_rejected<InvalidArgument>("SCHED-134",
                                       [&] { (void)schedules::parse_row(fmt::format("1F1,,{},1B1", cell), line); },
                                       {"line", std::to_string(line), "column", "3"});
  const std::string said = refusal<InvalidArgument>([] { (void)schedules::parse_row("0F0,0\033[2JF1\n"); });
  EXPECT_TRUE(std::ranges::none_of(said, [](unsigned char letter) { return std::iscntrl(letter) != 0; }))
      << "SCHED-134: what a screen obeys is in the words";
  EXPECT_NE(said.find("[2JF1"), std::string::npos) << "SCHED-134: the cell is in the words: " << said;
  EXPECT_TRUE(schedules::parse_row("").empty()) << "SCHED-134";
  EXPECT_TRUE(schedules::parse_row(" \t").empty()) << "SCHED-134";
  EXPECT_EQ(schedules::parse_row(",").size(), 2U) << "SCHED-134";
}

void written_and_read(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 100; ++trial) {
    Schedule plan = random_plan(random, trial % 2 == 1);
    for (auto& row : plan.ranks)
      if (!row.empty() && random.between(0, 1) == 0) row.insert(row.begin(), Action{});
    const std::string text = schedules::to_csv(plan);
    EXPECT_EQ(schedules::parse_csv(text), plan) << "SCHED-134: " << text;
    EXPECT_EQ(std::ranges::count(text, '\n'), std::ssize(plan.ranks)) << "SCHED-134: " << text;
    if (!plan.ranks.back().empty()) {
      EXPECT_EQ(schedules::parse_csv(std::string_view(text).substr(0, text.size() - 1)), plan) << "SCHED-134: " << text;
    }
  }
  for (const char* text : {"", "\n", ",\n,", "0F0\n0B0", "0F0,2F0", "1F0", "0F0,4194303F0", "0SEND_F0", "0F0,1SEND_B0",
                           "0F0\n1F0,0X0", "0F0,0B0\n1F0,1B0,0F1", "0F0\n1F0\n1B0", "0F0\n1F0,1B0\n2F0\n1F1,3F0"})
    expect_rejected<InvalidArgument>("SCHED-134", [&] { (void)schedules::parse_csv(text); });
  const Schedule one = schedules::parse_csv("0F0,0REDUCE_GRAD\n");
  EXPECT_EQ(one.micro_batches, 1) << "SCHED-134";
  EXPECT_EQ(schedules::parse_csv("0F0\n\n1F0").stage_to_rank, (std::vector<int>{0, 2})) << "SCHED-134";
}

// ---- names ----

void names(Context&) {
  using schedules::ScheduleKind;
  struct Named {
    ScheduleKind kind;
    std::string own, specified, torch;
  };
  const std::vector<Named> all{
      {ScheduleKind::gpipe, "gpipe", "gpipe", "GPipe"},
      {ScheduleKind::one_f_one_b, "1f1b", "1f1b", "1F1B"},
      {ScheduleKind::interleaved, "interleaved", "interleaved-1f1b", "Interleaved1F1B"},
      {ScheduleKind::looped_breadth_first, "looped-bfs", "looped-bfs", "LoopedBFS"},
      {ScheduleKind::zb_h1, "zb-h1", "zb-h1", ""},
      {ScheduleKind::zb_h2, "zb-h2", "zb-h2", ""},
      {ScheduleKind::interleaved_zero_bubble, "interleaved-zero-bubble", "interleaved-zb", "InterleavedZeroBubble"},
      {ScheduleKind::zbv, "zbv", "zbv", "ZBVZeroBubble"},
      {ScheduleKind::v_half, "v-half", "v-half", ""},
      {ScheduleKind::v_min, "v-min", "v-min", ""},
      {ScheduleKind::dualpipev, "dualpipev", "dualpipev", "DualPipeV"},
      {ScheduleKind::forward_only, "forward-only", "", ""},
      {ScheduleKind::automatic, "auto", "", ""}};
  std::map<std::string, ScheduleKind> names;
  std::vector<std::string> specified, classes;
  for (const auto& [kind, own, in_specifications, torch] : all) {
    EXPECT_EQ(schedules::name_of(kind), own) << "SCHED-131";
    EXPECT_EQ(schedules::name_in_specifications(kind), in_specifications) << "SCHED-131";
    names[own] = kind;
    if (!in_specifications.empty()) specified.push_back(in_specifications), names[in_specifications] = kind;
    if (torch.empty()) continue;
    classes.push_back("Schedule" + torch);
    names[torch] = names["Schedule" + torch] = kind;
  }
  EXPECT_EQ(schedules::names_in_specifications(), specified) << "SCHED-131";
  EXPECT_EQ(schedules::torch_class_names(), classes) << "SCHED-131";
  EXPECT_EQ(schedules::schedule_kinds().size(), all.size()) << "SCHED-131";
  std::map<std::string, ScheduleKind> in_lower_case;
  for (const auto& [name, kind] : names) {
    std::string upper = name, lower = name;
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    in_lower_case[lower] = kind;
    for (const std::string& asked : {name, upper, lower}) {
      EXPECT_EQ(schedules::find_schedule_kind(asked), kind) << "SCHED-131: " << asked;
      EXPECT_EQ(schedules::schedule_kind_of(asked), kind) << "SCHED-131: " << asked;
      const std::string_view own = schedules::name_in_specifications(kind);
      EXPECT_EQ(schedules::as_in_specifications(asked), own.empty() ? asked : own) << "SCHED-131: " << asked;
    }
  }
  const auto listed = schedules::schedule_kind_names();
  EXPECT_EQ((std::map(listed.begin(), listed.end())), in_lower_case) << "SCHED-131";
  EXPECT_EQ(listed.size(), in_lower_case.size()) << "SCHED-131: a name twice";
  for (const char* other : {"", "schedule", "2f2b", "1f1b ", "schedulezb-h1", "gpip"}) {
    EXPECT_EQ(schedules::find_schedule_kind(other), std::nullopt) << "SCHED-131: " << other;
    EXPECT_EQ(schedules::as_in_specifications(other), other) << "SCHED-131";
    std::vector<std::string> own;
    for (const Named& one : all) own.push_back(one.own);
    expect_rejected<NotFound>("SCHED-131", [&] { (void)schedules::schedule_kind_of(other); }, own);
  }
  expect_rejected<InvalidArgument>("SCHED-131", [] { (void)schedules::name_of(static_cast<ScheduleKind>(99)); });
  for (const auto& one : all)
    if (one.torch.empty())
      expect_rejected<Unsupported>("SCHED-026", [&] { (void)schedules::generate_as_torch(one.kind, {2, 4, 1}); });
}

// ---- interleaved in groups of other sizes ----

// A rank's forwards go through its chunks group by group, its backwards through them in reverse, and it runs `ahead`
// forwards ahead.
std::vector<Action> row_in_groups(const schedules::Shape& shape, int rank, int group, int ahead) {
  std::vector<std::pair<int, int>> order;  // chunk and micro-batch
  for (int begin = 0; begin < shape.micro_batches; begin += group)
    for (int chunk = 0; chunk < shape.stages_per_rank; ++chunk)
      for (int i = begin; i < std::min(begin + group, shape.micro_batches); ++i) order.emplace_back(chunk, i);
  std::vector<Action> row;
  const auto all = static_cast<int>(order.size()), first = std::min(ahead, all);
  for (int step = 0; step < all + first; ++step) {
    if (step < all) {
      const auto [chunk, i] = order[static_cast<std::size_t>(step)];
      row.push_back({.kind = ActionKind::forward, .stage = chunk * shape.ranks + rank, .micro_batch = i});
    }
    if (step >= first) {
      const auto [chunk, i] = order[static_cast<std::size_t>(step - first)];
      const int stage = (shape.stages_per_rank - 1 - chunk) * shape.ranks + rank;
      row.push_back({.kind = ActionKind::backward, .stage = stage, .micro_batch = i});
    }
  }
  return row;
}

void expect_groups(const Schedule& found, const schedules::Shape& shape, int group, bool forwards_first) {
  EXPECT_EQ(found.stage_to_rank, schedules::stage_to_rank(shape.ranks, found.stages, schedules::Placement::loop))
      << "SCHED-016";
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const int ahead = forwards_first ? shape.micro_batches * shape.stages_per_rank
                                     : (shape.stages_per_rank - 1) * group + 2 * (shape.ranks - 1 - rank);
    EXPECT_EQ(schedules::to_csv(found.ranks.at(static_cast<std::size_t>(rank))),
              schedules::to_csv(row_in_groups(shape, rank, group, ahead)))
        << "SCHED-085: groups of " << group;
  }
}

void interleaved_groups(Context&) {
  for (int ranks = 0; ranks <= 4; ++ranks)
    for (int micro_batches = 0; micro_batches <= 9; ++micro_batches)
      for (int chunks = 0; chunks <= 3; ++chunks) {
        const schedules::Shape shape{.ranks = ranks, .micro_batches = micro_batches, .stages_per_rank = chunks};
        const bool is_shape = ranks > 0 && micro_batches > 0 && chunks > 0;
        const auto like_colossalai = [&] {
          expect_groups(schedules::interleaved_as_colossalai(shape), shape, ranks, micro_batches == ranks);
        };
        EXPECT_EQ(refusal<InvalidArgument>(like_colossalai) == kNotRefused, is_shape && micro_batches % ranks == 0)
            << "SCHED-018";
        for (int group = 0; group <= 10; ++group) {
          const bool is_group = is_shape && group >= ranks && group <= micro_batches &&
                                (micro_batches % group == 0 || micro_batches % group >= ranks);
          const auto in_groups = [&] {
            expect_groups(schedules::interleaved_in_groups(shape, group), shape, group, false);
          };
          EXPECT_EQ(refusal<InvalidArgument>(in_groups) == kNotRefused, is_group) << "SCHED-018: " << group;
        }
      }
}

// ---- descriptions of tensors ----

const TensorDescriptions kTensors{{.dtype = DType::f16, .shape = {2, 3}},
                                  {.dtype = DType::i64, .shape = {}},
                                  {.dtype = DType::u8, .shape = {4, 0}, .strides = {1, 7}},
                                  {.dtype = DType::bf16, .shape = {7}, .requires_gradient = false},
                                  {.dtype = DType::u8, .shape = {2, 2, 2}, .strides = {4, 1, 2}, .program_type = 11}};

void descriptions_return(Context&) {
  std::vector<TensorDescriptions> lists{{}, kTensors, {kTensors[4]}, {kTensors[1], kTensors[1]}};
  for (const DType dtype : comm::kAllDTypes) lists.push_back({{.dtype = dtype, .shape = {1}}});
  for (const TensorDescriptions& list : lists) {
    std::vector<std::int64_t> words = schedules::encode(list);
    EXPECT_EQ(schedules::decode(words), list) << "SCHED-128: " << to_string(list);
    words.resize(words.size() + 5);
    EXPECT_EQ(schedules::decode(words), list) << "SCHED-128: with zeros, " << to_string(list);
  }
  const std::vector<std::int64_t> words{16, 2, 2, 2, 3, 6, 11, 1, 1, 1, 2, 1, 4, 2, 0, 0, 0};
  const TensorDescriptions list{{.dtype = DType::u8, .shape = {2, 3}, .strides = {1, 2}, .program_type = 11},
                                {.shape = {4}, .requires_gradient = false}};
  EXPECT_EQ(schedules::decode(words), list) << "SCHED-128";
  EXPECT_EQ(schedules::encode(list), words) << "SCHED-128";
  EXPECT_EQ(to_string(kTensors), "f16[2,3] i64[] u8[4,0] bf16[7] type11[2,2,2]") << "SCHED-056: both descriptions";
  EXPECT_NE(to_string(TensorDescriptions{}), "") << "SCHED-056: a list without tensors, too";
  EXPECT_EQ(to_string(schedules::gradients_of(kTensors)), "f16[2,3] type11[2,2,2]") << "SCHED-128";
  EXPECT_TRUE(schedules::gradients_of(schedules::gradients_of(kTensors)).empty()) << "SCHED-128";
  EXPECT_EQ(schedules::elements_of(kTensors[0]), 6) << "SCHED-054";
  EXPECT_EQ(schedules::elements_of(kTensors[1]), 1) << "SCHED-054";
  EXPECT_EQ(schedules::elements_of(kTensors[2]), 0) << "SCHED-054";
  constexpr std::int64_t kBig = std::int64_t{1} << 32, kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(schedules::elements_of({.shape = {kBig, kBig, 0}}), 0) << "SCHED-128";
  EXPECT_EQ(schedules::elements_of({.shape = {kMost, 1, 1}}), kMost) << "SCHED-128";
  EXPECT_EQ(schedules::elements_of({.shape = {kMost / 7, 7}}), kMost) << "SCHED-128: 2^63 - 1 is a multiple of 7";
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{2, -1}, {-1}, {0, -1}, {kBig, kBig}, {kMost, 2}, {kBig / 2, kBig}}) {
    expect_rejected<InvalidArgument>("SCHED-128", [&] { (void)schedules::elements_of({.shape = shape}); });
    expect_rejected<InvalidArgument>("SCHED-128", [&] { (void)schedules::encode({{.shape = shape}}); });
  }
}

void descriptions_refused(Context&) {
  const std::vector<std::vector<std::int64_t>> wrong{
      {},
      {1},
      {9, 0},
      {2, 0},
      {-1, 0},
      {0, 0},
      {1, 2},
      {1, -1},
      {3, 1, 7, 0},
      {3, 1, -1, 0},
      {4, 1, 1, -5, 0},
      {3, 1, 1, 5},
      {4, 1, 1, 5, 7},
      {4, 1, 1, 5, -1},
      {5, 1, 1, 5, 2, 0},
      {7, 1, 1, 5, 2, -1, 1, 0},
      {7, 1, 1, 5, 2, std::int64_t{1} << 31, 1, 0},
      {7, 1, 1, 5, 2, 0, 2, 0},
      {7, 1, 1, 5, 2, 0, -1, 0},
      {7, 1, 1, 5, 2, 0, 1, 2},
      {7, 1, 1, 5, 2, 0, 1, 1},
      {8, 1, 1, 5, 2, 0, 1, 1, -3},
      {8, 1, 0, 2, 0, 1, 0, 2, 0},
      {7, 1, 0, 2, 0, 1, 0, 2},
      {2, 0, 5},
      {8, 1, 2, std::int64_t{1} << 40, std::int64_t{1} << 40, 2, 0, 1, 0}};
  for (const auto& words : wrong)
    expect_rejected<InvalidArgument>("SCHED-128", [&] { (void)schedules::decode(words); });
  const std::vector<std::int64_t> largest{7, 1, 1, 5, 2, std::numeric_limits<int>::max(), 1, 0};
  EXPECT_EQ(schedules::decode(largest).at(0).program_type, std::numeric_limits<int>::max()) << "SCHED-128";
}

// What the other side hears.
void carry(const comm::Buffer& told, const comm::Buffer& room) {
  ASSERT_EQ(told.bytes(), room.bytes()) << "SCHED-128";
  std::copy_n(static_cast<const std::byte*>(told.data), told.bytes(), static_cast<std::byte*>(room.data));
}

void descriptions_exchanged(Context&) {
  const TensorDescriptions other{{.dtype = DType::f16, .shape = {2, 3, 1}}};
  for (const Metadata metadata : {Metadata::once, Metadata::each}) {
    DescriptionExchange sender(metadata), receiver(metadata);
    expect_rejected<StateError>("SCHED-128", [&] { (void)receiver.expected(2); });
    carry(sender.tell(2, kTensors), receiver.room(2));
    for (int again = 0; again < 2; ++again) EXPECT_EQ(receiver.expected(2), kTensors) << "SCHED-128";
    sender.keep_to(2, kTensors);
    expect_rejected<StateError>("SCHED-128", [&] { (void)sender.tell(2, other); });
    expect_rejected<StateError>("SCHED-128", [&] { (void)receiver.room(2); });
    if (metadata == Metadata::once) {
      sender.forget(2);
      receiver.forget(2);
      EXPECT_EQ(receiver.expected(3), kTensors) << "SCHED-128: once for all";
      expect_rejected<StateError>("SCHED-128", [&] { (void)sender.tell(3, other); });
      expect_rejected<schedules::DescriptionMismatch>("SCHED-056", [&] { sender.keep_to(3, other); },
                                                      {to_string(other), to_string(kTensors), "3"});
      continue;
    }
    expect_rejected<StateError>("SCHED-128", [&] { (void)receiver.expected(3); });
    carry(sender.tell(3, other), receiver.room(3));
    EXPECT_EQ(receiver.expected(3), other) << "SCHED-055";
    EXPECT_EQ(receiver.expected(2), kTensors) << "SCHED-055: several are under way";
    receiver.forget(3);
    expect_rejected<StateError>("SCHED-128", [&] { (void)receiver.expected(3); });
    EXPECT_EQ(receiver.expected(2), kTensors) << "SCHED-055";
    sender.forget(3);
    carry(sender.tell(3, kTensors), receiver.room(3));
    EXPECT_EQ(receiver.expected(3), kTensors) << "SCHED-055";
  }
  DescriptionExchange promised(Metadata::none, kTensors);
  EXPECT_EQ(promised.expected(5), kTensors) << "SCHED-128";
  promised.keep_to(5, kTensors);
  expect_rejected<schedules::DescriptionMismatch>("SCHED-056", [&] { promised.keep_to(5, other); },
                                                  {to_string(other), to_string(kTensors), "5"});
  expect_rejected<StateError>("SCHED-128", [&] { (void)promised.tell(0, kTensors); });
  expect_rejected<StateError>("SCHED-128", [&] { (void)promised.room(0); });
}

// ---- an executor's calls and errors ----

StageCallbacks that_do_nothing() {
  StageCallbacks callbacks;
  callbacks.forward = callbacks.backward = callbacks.input_gradient = callbacks.weight_gradient = [](int, int) {};
  callbacks.tensors = [](const Action&) { return std::vector<comm::Buffer>{}; };
  return callbacks;
}

// Both sides of a message have one tag, and no two messages have the same.
void tags(Context&) {
  for (int stages = 1; stages <= 5; ++stages)
    for (int micro_batches = 1; micro_batches <= 4; ++micro_batches) {
      std::map<int, std::string> messages;
      const auto note = [&](ActionKind send, ActionKind receive, int from, int to, int micro_batch) {
        const Action sent{.kind = send, .stage = from, .micro_batch = micro_batch},
            received{.kind = receive, .stage = to, .micro_batch = micro_batch};
        const int tag = schedules::tag_of(sent, stages);
        EXPECT_EQ(schedules::tag_of(received, stages), tag) << "SCHED-050: " << to_string(received);
        EXPECT_TRUE(messages.emplace(tag, to_string(sent)).second)
            << "SCHED-050: " << to_string(sent) << " has the tag of " << messages[tag];
      };
      for (int stage = 0; stage + 1 < stages; ++stage)
        for (int i = 0; i < micro_batches; ++i) {
          note(ActionKind::send_forward, ActionKind::recv_forward, stage, stage + 1, i);
          note(ActionKind::send_backward, ActionKind::recv_backward, stage + 1, stage, i);
          note(ActionKind::send_metadata, ActionKind::recv_metadata, stage, stage + 1, i);
        }
    }
}

// Each call, and the time around it.
void calls_in_order(Context& context) {
  const bool around = context.parameters().text("around") == "yes";
  const std::vector<std::string> rows{
      "0UNSHARD,0F0,(0SEND_F0;0RECV_B0)P2P,0RESHARD,0UNSHARD,0I0,0F1,0SEND_F1,0RECV_B1,0W0,0B1,0REDUCE_GRAD,0RESHARD",
      "1UNSHARD,(1RECV_F0;1RECV_F1)P2P,1F0,1B0,1SEND_B0,1F1,1I1,1SEND_B1,1W1,1REDUCE_GRAD,1RESHARD"};
  Schedule plan = plan_of(rows, {0, 1}, 2);
  for (auto& each : plan.ranks) each.back().joined = true;  // to nothing
  const auto& row = plan.ranks[static_cast<std::size_t>(context.rank())];
  using Clock = std::chrono::steady_clock;
  std::vector<std::string> calls, expected, timed;
  std::vector<std::pair<Clock::time_point, Clock::time_point>> spans;
  const auto call = [&](ActionKind kind, int stage, int micro_batch) {
    const Clock::time_point begin = Clock::now();
    calls.push_back(to_string(Action{.kind = kind, .stage = stage, .micro_batch = micro_batch}));
    while (Clock::now() < begin + std::chrono::microseconds(300)) {
    }
    spans.emplace_back(begin, Clock::now());
  };
  const auto computing = [&](ActionKind kind) {
    return [&, kind](int stage, int micro_batch) { call(kind, stage, micro_batch); };
  };
  const auto of_stage = [&](ActionKind kind) {
    return [&, kind](int stage) { call(kind, stage, schedules::kNoMicroBatch); };
  };
  StageCallbacks callbacks = that_do_nothing();
  callbacks.forward = computing(ActionKind::forward);
  callbacks.backward = computing(ActionKind::backward);
  callbacks.input_gradient = computing(ActionKind::input_gradient);
  callbacks.weight_gradient = computing(ActionKind::weight_gradient);
  callbacks.unshard = of_stage(ActionKind::unshard);
  callbacks.reshard = of_stage(ActionKind::reshard);
  callbacks.reduce_gradients = of_stage(ActionKind::reduce_gradients);
  schedules::ExecutorOptions options;
  if (around)
    options.around = [&](const Action& action, const std::function<void()>& compute) {
      timed.push_back(to_string(action));
      compute();
    };
  const std::vector<Period> periods = schedules::run_rank(context.world(), plan, callbacks, options);
  for (const Action& action : row)
    if (!schedules::is_message(action.kind)) expected.push_back(to_string(action));
  EXPECT_EQ(calls, expected) << "SCHED-133";
  EXPECT_EQ(timed, around ? expected : std::vector<std::string>()) << "SCHED-133: around each of them";
  ASSERT_EQ(periods.size(), row.size()) << "SCHED-133";
  std::size_t span = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    EXPECT_GE(periods[i].start, i == 0 ? 0 : periods[i - 1].start) << "SCHED-133: " << to_string(row[i]);
    EXPECT_GE(periods[i].end, periods[i].start) << "SCHED-133: " << to_string(row[i]);
    if (schedules::is_message(row[i].kind)) {
      EXPECT_TRUE(schedules::is_send(row[i].kind) || periods[i].end == periods[i].start) << "SCHED-133";
      EXPECT_GT(periods[i].start, 0) << "SCHED-133: " << to_string(row[i]);
      continue;
    }
    const auto [begin, end] = spans.at(span++);
    EXPECT_GE(periods[i].end - periods[i].start, std::chrono::duration<double>(end - begin).count())
        << "SCHED-133: " << to_string(row[i]);
    // Between two callbacks, where there is a period in between, lies the begin of it.
    const double least = i == 0 ? 0 : periods[i - 1].start + (schedules::is_message(row[i - 1].kind) ? 0 : 300e-6);
    EXPECT_GE(periods[i].start, least) << "SCHED-133: " << to_string(row[i]);
  }
}

// What the next rank has answered to has been sent: its memory is given back before later computations.
void gives_back_when_sent(Context& context) {
  const Schedule plan = plan_of({"0F0,0SEND_F0,0RECV_B0,0B0,0F1,0F2,0F3", "1RECV_F0,1F0,1B0,1SEND_B0"}, {0, 1}, 4);
  std::vector<std::string> calls;
  std::map<std::string, std::int64_t> memory;
  const auto name_of = [](const Action& message) {
    return to_string(Action{.kind = message.kind, .stage = message.stage, .micro_batch = message.micro_batch});
  };
  StageCallbacks callbacks = that_do_nothing();
  callbacks.forward = [&](int, int micro_batch) { calls.push_back(fmt::format("forward {}", micro_batch)); };
  callbacks.tensors = [&](const Action& message) {
    return std::vector{comm::Buffer{&memory[name_of(message)], 1, DType::i64}};
  };
  callbacks.release = [&](const Action& message) { calls.push_back(name_of(message)); };
  (void)schedules::run_rank(context.world(), plan, callbacks);
  if (context.rank() == 0) {
    const auto sent = std::ranges::find(calls, "0SEND_F0"), last = std::ranges::find(calls, "forward 3");
    EXPECT_LT(sent - calls.begin(), last - calls.begin()) << "SCHED-059: " << testing::PrintToString(calls);
  }
  context.world().barrier();
}

// No piece has more bytes than a call may, but an element at least; together they are the tensors, in order.
void pieces(Context&) {
  std::vector<double> wide(27);
  std::vector<std::uint8_t> narrow(130), none;
  const std::vector<comm::Buffer> tensors{
      comm::Buffer::of(wide), {none.data(), 0, DType::u8}, {narrow.data(), 130, DType::u8}};
  for (const std::int64_t most : {1, 8, 63, 64, 65, 216, 1000}) {
    std::vector<std::pair<const void*, std::int64_t>> expected, found;
    for (const comm::Buffer& tensor : tensors) {
      const auto size = static_cast<std::int64_t>(comm::size_of(tensor.dtype));
      const std::int64_t each = std::max<std::int64_t>(1, most / size);
      if (tensor.count == 0) expected.emplace_back(tensor.data, 0);
      for (std::int64_t at = 0; at < tensor.count; at += each)
        expected.emplace_back(static_cast<const std::byte*>(tensor.data) + at * size,
                              std::min(each, tensor.count - at));
    }
    for (const comm::Buffer& piece : schedules::pieces_of(tensors, most)) found.emplace_back(piece.data, piece.count);
    EXPECT_EQ(found, expected) << "SCHED-057: pieces of " << most << " bytes";
  }
  EXPECT_EQ(schedules::pieces_of(tensors, std::nullopt).size(), 3U) << "SCHED-057: whole tensors";
}

void executor_refuses(Context& context) {
  const std::string& fault = context.parameters().text("fault");
  const auto world = context.world().duplicate();
  const auto alone = context.world().create_group(std::array{context.rank()});
  Schedule plan = plan_of({"0F0,0SEND_F0,0RECV_B0,0I0,0W0", "1RECV_F0,1F0,1B0,1SEND_B0"}, {0, 1}, 1);
  StageCallbacks callbacks = that_do_nothing();
  schedules::ExecutorOptions options;
  if (fault == "group") options.gradients = alone.get();
  if (fault == "pieces") options.most_bytes_a_call = 0;
  if (fault == "ranks") plan.ranks.emplace_back();
  if (fault == "tags") plan.stages = plan.micro_batches = 1 << 20;
  if (fault == "places") plan.stage_to_rank = {0, 1, 1};
  if (fault == "place") plan.stage_to_rank = {0, 2};
  if (fault == "stages") plan.stages = 3;
  if (fault == "micro_batches") plan.micro_batches = 0;
  if (fault == "forward") callbacks.forward = {};
  if (fault == "memory") callbacks.tensors = {};
  if (fault == "backward") (context.rank() == 1 ? callbacks.backward : callbacks.input_gradient) = {};
  if (fault == "weight_gradient") {
    callbacks.weight_gradient = {};
    plan.ranks[1] = plan.ranks[0];  // only looked at
    plan.stage_to_rank = {context.rank(), 1 - context.rank()};
  }
  bool computed = false;
  if (callbacks.forward) callbacks.forward = [&](int, int) { computed = true; };
  const auto run = [&] { (void)schedules::run_rank(*world, plan, callbacks, options); };
  if (fault == "nothing") {
    run();
    EXPECT_TRUE(computed) << "SCHED-125";
    return;
  }
  expect_rejected<InvalidArgument>("SCHED-125", run);
  EXPECT_FALSE(computed) << "SCHED-125";
}

// Of a communicator of as many ranks, but with the ranks in another order.
void executor_refuses_other_order(Context& context) {
  const auto world = context.world().duplicate();
  const auto turned = context.world().create_group(std::array{1, 0});
  const Schedule plan = plan_of({"0F0,0SEND_F0", "1RECV_F0,1F0"}, {0, 1}, 1);
  if (turned->rank() == context.rank()) return;  // a group keeps the order of its parent's ranks
  expect_rejected<InvalidArgument>(
      "SCHED-125", [&] { (void)schedules::run_rank(*world, plan, that_do_nothing(), {.gradients = turned.get()}); });
}

void input_is_missing(Context& context) {
  const auto world = context.world().duplicate();
  const bool back = context.parameters().text("of") == "backward";
  const Schedule plan = back ? plan_of({"0F0,0B0", "1B0"}, {0, 1}, 1) : plan_of({"0B0", "1F0"}, {0, 1}, 1);
  const auto run = [&] { (void)schedules::run_rank(*world, plan, that_do_nothing()); };
  if (back == (context.rank() == 0))
    expect_rejected<StateError>(
        "SCHED-125", run,
        back ? std::vector<std::string>{"0B0", "0RECV_B0"} : std::vector<std::string>{"1F0", "1RECV_F0"});
  else if (back)
    run();
  else
    expect_rejected<StateError>("SCHED-125", run, {"0B0"});
}

void waits_in_vain(Context& context) {
  const bool sends = context.parameters().text("for") == "a_receive";
  const auto world = context.world().duplicate();
  const Schedule plan = sends ? plan_of({"0F0,0SEND_F0", ""}, {0, 1}, 1) : plan_of({"0F0", "1RECV_F0,1F0"}, {0, 1}, 1);
  std::vector<std::byte> memory(1 << 22);  // more than is sent before it is received
  StageCallbacks callbacks = that_do_nothing();
  callbacks.tensors = [&](const Action&) {
    return std::vector{comm::Buffer{memory.data(), std::ssize(memory), DType::u8}};
  };
  const auto run = [&] {
    (void)schedules::run_rank(*world, plan, callbacks, {.timeout = std::chrono::milliseconds(60)});
  };
  if (context.rank() == (sends ? 0 : 1)) {
    const std::vector<std::string> names =
        sends ? std::vector<std::string>{"rank", "0", "position", "1", "0SEND_F0"}
              : std::vector<std::string>{"rank", "1", "position", "1F0", "1RECV_F0", "0"};
    const std::string said = refusal<comm::TimeoutError>(run);
    EXPECT_EQ(missing_words(said, names), "") << "SCHED-126: " << said;
    // This rank, the position, and the other rank.
    EXPECT_EQ(missing_numbers(said, sends ? std::vector<std::int64_t>{0, 1, 1} : std::vector<std::int64_t>{1, 1, 0}),
              "")
        << "SCHED-126";
    EXPECT_NE(said.find(sends ? "0SEND_F0 to rank 1" : "1RECV_F0 from rank 0"), std::string::npos)
        << "SCHED-126: " << said;
  } else {
    run();
  }
  context.world().barrier();  // memory lives until both are done
}

// ---- who waits for ever ----

std::string said_of(const std::string& by, const Schedule& plan) {
  return refusal<InvalidArgument>([&] {
    if (by == "simulate") (void)schedules::simulate(plan);
    if (by == "lower") (void)schedules::lower(plan);
    if (by == "lower_with_shapes") (void)schedules::lower(plan, Metadata::each);
    if (by == "add_send_recv") (void)schedules::add_send_recv(plan);
  });
}

void names_who_waits(Context& context) {
  const std::string& by = context.parameters().text("by");
  for (const int ranks : {2, 3, 20}) {
    std::vector<std::string> rows;
    std::vector<int> places;
    for (int rank = 0; rank < ranks; ++rank) {
      rows.push_back(rank + 1 == ranks ? fmt::format("{0}F0,{0}F1,{0}B1,{0}B0", rank)
                                       : fmt::format("{0}F0,{0}B0,{0}F1,{0}B1", rank));
      places.push_back(rank);
    }
    const Schedule plan = plan_of(rows, places, 2);
    const std::string said = said_of(by, plan);
    EXPECT_EQ(missing_words(said, {"rank", "0", "0B0"}), "") << "SCHED-127: " << said;
    if (ranks < 4) {
      EXPECT_EQ(missing_words(said, {std::to_string(ranks - 1), fmt::format("{}F1", ranks - 1)}), "")
          << "SCHED-127: " << said;
    }
    EXPECT_LT(said.size(), 600U) << "SCHED-127: of many ranks, a few";
  }
  // A rank that comes to its end waits for nothing.
  const Schedule beside = plan_of({"0F0", "1F0,1F1"}, {0, 1}, 2);
  const std::string said = said_of(by, beside);
  EXPECT_EQ(missing_words(said, {"rank", "1", "1F1"}), "") << "SCHED-127: " << said;
  EXPECT_EQ(said.find("rank 0"), std::string::npos) << "SCHED-127: " << said;
}

// A case as its first two ranks see it: plans of two ranks run beside a third one, too.
class OfTwoRanks final : public Context {
 public:
  explicit OfTwoRanks(Context& all) : all_(all), two_(all.world().create_group(std::array{0, 1})) {}
  [[nodiscard]] comm::Communicator& world() override { return *two_; }
  [[nodiscard]] suite::Adapter& adapter() override { return all_.adapter(); }
  [[nodiscard]] training::Training& training() override { return all_.training(); }
  [[nodiscard]] const suite::Parameters& parameters() const override { return all_.parameters(); }
  [[nodiscard]] std::uint64_t seed() const override { return all_.seed(); }
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return all_.capabilities(); }
  [[nodiscard]] const std::string& scratch() const override { return all_.scratch(); }
  void progress(const std::string& what) override { all_.progress(what); }

 private:
  Context& all_;
  const std::unique_ptr<comm::Communicator> two_;
};

}  // namespace

void add_detail_checks(suite::Suite& suite) {
  const auto add = [&](const char* name, std::vector<std::string> requirements, std::vector<suite::Axis> axes,
                       void (*body)(Context&), int world = 1) {
    axes.push_back(suite::worlds(world == 2 ? std::vector{2, 3} : std::vector{world}));
    suite.add({.id = std::string("schedules.details.") + name,
               .verifies = std::move(requirements),
               .axes = std::move(axes),
               .body = [body](Context& context) {
                 if (context.size() < 3) return body(context);
                 if (context.rank() > 1) return;
                 OfTwoRanks two(context);
                 body(two);
               }});
  };
  add("texts_of_problems", {"SCHED-130@9ced"}, {}, texts_of_problems);
  add("cycles", {"SCHED-130@9ced", "SCHED-080@8022", "SCHED-043@e59a"}, {{"rows", {"computations", "messages"}}},
      cycles);
  add("cycle_with_followers", {"SCHED-130@9ced", "SCHED-041@d2a7"}, {}, cycle_with_followers);
  add("most_of_a_kind", {"SCHED-080@8022"}, {}, most_of_a_kind);
  add("activation_limits", {"SCHED-040@3567", "SCHED-045@10ef", "SCHED-080@8022", "SCHED-084@f7f3"}, {},
      activation_limits);
  add("doubled_messages", {"SCHED-040@3567", "SCHED-043@e59a"}, {}, doubled_messages);
  add("messages_on_one_rank", {"SCHED-042@0dca"}, {}, messages_on_one_rank);
  add("computations_with_their_messages", {"SCHED-043@e59a", "SCHED-044@2a68", "SCHED-045@10ef"}, {},
      computations_with_their_messages);
  add("cells", {"SCHED-134@1fbf"}, {}, cells);
  add("written_and_read", {"SCHED-134@1fbf"}, {}, written_and_read);
  add("gives_back_when_sent", {"SCHED-059@e374"}, {}, gives_back_when_sent, 2);
  add("names", {"SCHED-131@c282", "SCHED-026@07ff"}, {}, names);
  add("interleaved_groups", {"SCHED-016@f146", "SCHED-018@5238", "SCHED-085@bf41"}, {}, interleaved_groups);
  add("descriptions_return", {"SCHED-128@8e2a", "SCHED-054@8e82", "SCHED-056@e2a5"}, {}, descriptions_return);
  add("descriptions_refused", {"SCHED-128@8e2a"}, {}, descriptions_refused);
  add("descriptions_exchanged", {"SCHED-128@8e2a", "SCHED-055@8a38", "SCHED-056@e2a5"}, {}, descriptions_exchanged);
  add("calls_in_order", {"SCHED-133@c788"}, {{"around", {"yes", "no"}}}, calls_in_order, 2);
  add("tags", {"SCHED-050@793c"}, {}, tags);
  add("pieces", {"SCHED-057@1739"}, {}, pieces);
  add("executor_refuses", {"SCHED-125@5b86"},
      {{"fault",
        {"nothing", "group", "pieces", "ranks", "tags", "places", "place", "stages", "micro_batches", "forward",
         "backward", "weight_gradient", "memory"}}},
      executor_refuses, 2);
  add("executor_refuses_other_order", {"SCHED-125@5b86"}, {}, executor_refuses_other_order, 2);
  add("input_is_missing", {"SCHED-125@5b86"}, {{"of", {"forward", "backward"}}}, input_is_missing, 2);
  add("waits_in_vain", {"SCHED-126@89ca"}, {{"for", {"a_send", "a_receive"}}}, waits_in_vain, 2);
  add("names_who_waits", {"SCHED-127@2a91"}, {{"by", {"simulate", "lower", "lower_with_shapes", "add_send_recv"}}},
      names_who_waits);
}

}  // namespace plumbline::conformance

// In which order a rank runs its forwards, and how many of them come before its first backward.
#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/property.hpp"
#include "conformance/support/recorded.hpp"
#include "conformance/support/sizes.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;
using suite::Context;

namespace {

constexpr const char* kTable = "schedules.table";
constexpr const char* kWarmup = "schedules.warmup";

struct Grouping {
  int ranks = 1, micro_batches = 1, chunks = 1, group = 1;
  bool forward_only = false, overlaps = false;
  [[nodiscard]] json table_question(const std::string& convention) const {
    return {{"convention", convention},
            {"microbatches", micro_batches},
            {"stages_per_rank", chunks},
            {"microbatch_group_size", group}};
  }
  [[nodiscard]] json warmup_question(const std::string& convention) const {
    json question = table_question(convention);
    question["pp"] = ranks;
    question["forward_only"] = forward_only;
    question["overlap_moe_expert_parallel_comm"] = overlaps;
    return question;
  }
};

// Every pair once, sorted by group, chunk and micro-batch.
json forwards_in_order(const Grouping& asked) {
  std::vector<std::tuple<int, int, int>> pairs;
  for (int chunk = 0; chunk < asked.chunks; ++chunk)
    for (int i = 0; i < asked.micro_batches; ++i) pairs.emplace_back(i / asked.group, chunk, i);
  std::ranges::sort(pairs);
  json list = json::array();
  for (const auto& [group, chunk, micro_batch] : pairs) list.push_back({micro_batch, chunk});
  return list;
}

std::int64_t expected_warmup(const Grouping& asked, int rank) {
  const std::int64_t following = asked.ranks - 1 - rank, all = std::int64_t{asked.micro_batches} * asked.chunks;
  if (asked.forward_only) return all;
  if (asked.ranks == 1) return 0;
  if (asked.chunks == 1) return std::min(following, all);
  return std::min(2 * following + std::int64_t{asked.chunks - 1} * asked.group + (asked.overlaps ? 1 : 0), all);
}

std::string problem_of_table(Adapter& adapter, const Grouping& asked, const std::string& convention) {
  return problem_of(adapter, kTable, asked.table_question(convention), [&](const json& result) {
    return first_difference(forwards_in_order(asked), result.at("table"), "table");
  });
}

std::string problem_of_warmup(Adapter& adapter, const Grouping& asked, const std::string& convention) {
  return problem_of(adapter, kWarmup, asked.warmup_question(convention), [&](const json& result) -> std::string {
    const json& ranks = result.at("ranks");
    if (ranks.size() != static_cast<std::size_t>(asked.ranks)) return fmt::format("{} ranks", ranks.size());
    const std::int64_t total = std::int64_t{asked.micro_batches} * asked.chunks;
    for (int rank = 0; rank < asked.ranks; ++rank) {
      const std::int64_t count = expected_warmup(asked, rank);
      const json expected{{"total", total}, {"warmup", count}, {"remaining", total - count}};
      if (std::string words =
              first_difference(expected, ranks[static_cast<std::size_t>(rank)], fmt::format("ranks[{}]", rank));
          !words.empty())
        return words;
    }
    return {};
  });
}

// ---- drawn shapes ----

std::vector<Grouping> smaller_groupings(const Grouping& asked, int fewest_ranks, int fewest_chunks) {
  std::vector<Grouping> list;
  const auto less = [&](int Grouping::* size, int least) {
    if (asked.*size <= least) return;
    list.push_back(asked);
    --(list.back().*size);
  };
  less(&Grouping::ranks, fewest_ranks);
  less(&Grouping::micro_batches, 1);
  less(&Grouping::chunks, fewest_chunks);
  less(&Grouping::group, 1);
  return list;
}

// Also groups that do not divide the micro-batches, and one that is larger than all of them.
Grouping drawn_grouping(Random& random, int fewest_ranks, int most_ranks, int fewest_chunks, int most_chunks) {
  Grouping asked{.ranks = random.between(fewest_ranks, most_ranks),
                 .micro_batches = random.between(1, 24),
                 .chunks = random.between(fewest_chunks, most_chunks)};
  asked.group = random.between(1, asked.micro_batches + 2);
  return asked;
}

void tables(Context& context, const std::string& convention) {
  const bool whole = context.parameters().text("groups") == "full";
  const Property<Grouping> property{
      .draw =
          [&](Random& random) {
            Grouping asked = drawn_grouping(random, 1, 1, 1, 5);
            if (whole) asked.micro_batches = asked.group * random.between(1, 4);
            return asked;
          },
      .problem = [&](const Grouping& asked) { return problem_of_table(context.adapter(), asked, convention); },
      .smaller = [](const Grouping& asked) { return smaller_groupings(asked, 1, 1); },
      .words = [&](const Grouping& asked) { return asked.table_question(convention).dump(); }};
  report_words(search(property, context.seed(), 60));
}

void counts_of_warmup(Context& context, const std::string& convention,
                      const std::function<void(Grouping& asked)>& of_case, int fewest_ranks, int most_ranks) {
  const bool several = context.parameters().text("stages") == "several";
  const int fewest = several ? 2 : 1, most = several ? 5 : 1;
  const Property<Grouping> property{
      .draw =
          [&](Random& random) {
            Grouping asked = drawn_grouping(random, fewest_ranks, most_ranks, fewest, most);
            of_case(asked);
            return asked;
          },
      .problem = [&](const Grouping& asked) { return problem_of_warmup(context.adapter(), asked, convention); },
      .smaller = [&](const Grouping& asked) { return smaller_groupings(asked, fewest_ranks, fewest); },
      .words = [&](const Grouping& asked) { return asked.warmup_question(convention).dump(); }};
  report_words(search(property, context.seed(), 60));
}

void warmups(Context& context, const std::string& convention) {
  counts_of_warmup(context, convention, [](Grouping&) {}, 2, 9);
}

void other_steps(Context& context, const std::string& convention) {
  const std::string& step = context.parameters().text("step");
  const auto of_case = [&](Grouping& asked) {
    asked.forward_only = step == "forward_only";
    asked.overlaps = step == "overlapping";
  };
  if (step == "one_rank")
    counts_of_warmup(context, convention, of_case, 1, 1);
  else
    counts_of_warmup(context, convention, of_case, 2, 9);
}

// ---- what is rejected ----

const std::vector<BadQuestion>& bad_groupings() {
  static const std::vector<BadQuestion> questions = [] {
    const Grouping good{.ranks = 3, .micro_batches = 6, .chunks = 2, .group = 3};
    std::vector<BadQuestion> list;
    const auto add = [&](const char* op, const json& args, const char* field, int value) {
      json bad = args;
      bad[field] = value;
      list.push_back(
          {fmt::format("{}_{}_{}", op == kTable ? "table" : "warmup", field, value < 0 ? "negative" : "zero"), op,
           std::move(bad)});
    };
    for (const int value : {0, -3}) {
      for (const char* field : {"microbatches", "stages_per_rank", "microbatch_group_size"}) {
        add(kTable, good.table_question("plumbline"), field, value);
        add(kWarmup, good.warmup_question("plumbline"), field, value);
      }
      add(kWarmup, good.warmup_question("plumbline"), "pp", value);
    }
    return list;
  }();
  return questions;
}

void groupings_refused(Context& context) { report_words(problem_of_bad_question(context, bad_groupings())); }

// ---- Megatron-core's own answers ----

void of_megatron(Context& context) {
  const std::string& kind = context.parameters().text("kind");
  const bool is_table = kind == "table";
  int asked = 0;
  const json record = recorded("schedules", "megatron");
  for (const json& one : record.at("cases")) {
    if (one.at("kind") != kind) continue;
    json args{{"convention", "megatron"}}, expected;
    for (const auto& [name, value] : one.items())
      if (name == (is_table ? "table" : "ranks"))
        expected[name] = value;
      else if (name != "kind")
        args[name] = value;
    const std::string problem = problem_of(context.adapter(), is_table ? kTable : kWarmup, args,
                                           [&](const json& result) { return first_difference(expected, result); });
    if (!problem.empty()) report_words(args.dump() + ": " + problem);
    ++asked;
  }
  if (asked == 0) report_words(fmt::format("no recorded {} of Megatron-core", kind));
}

// ---- sizes ----

JudgeSize sized_table(const std::string& convention) {
  return [convention](Adapter& adapter, int micro_batches) {
    return problem_of_table(adapter, {.micro_batches = micro_batches, .chunks = 4, .group = micro_batches / 3 + 1},
                            convention);
  };
}
JudgeSize sized_warmup(const std::string& convention) {
  return [convention](Adapter& adapter, int ranks) {
    return problem_of_warmup(adapter, {.ranks = ranks, .micro_batches = 1001, .chunks = 2, .group = 17}, convention);
  };
}

}  // namespace

void add_warmup_checks(suite::Suite& suite) {
  using Body = void (*)(Context&, const std::string& convention);
  const auto add = [&](const std::string& name, const char* requirement, const char* operation,
                       const std::vector<suite::Axis>& axes, Body body) {
    for (const std::string convention : {"plumbline", "megatron"})
      suite.add({.id = fmt::format("schedules.warmup.{}{}", convention == "megatron" ? "megatron_" : "", name),
                 .verifies = {requirement},
                 .door = suite::Door::adapter,
                 .axes = axes,
                 .operations = {operation},
                 .convention = convention,
                 .body = [body, convention](Context& context) { body(context, convention); }});
  };
  const suite::Axis stages{"stages", {"one", "several"}};
  add("tables", "SCHED-142@967a", kTable, {{"groups", {"full", "any"}}}, tables);
  add("counts", "SCHED-143@5afd", kWarmup, {stages}, warmups);
  add("other_steps", "SCHED-144@6540", kWarmup, {stages, {"step", {"forward_only", "one_rank", "overlapping"}}},
      other_steps);
  suite.add({.id = "schedules.warmup.refused",
             .verifies = {"SCHED-145@bb93"},
             .door = suite::Door::adapter,
             .axes = {faults_of(bad_groupings(), {kTable, kWarmup})},
             .operations = {kTable, kWarmup},
             .asks = operation_of_fault(bad_groupings()),
             .body = groupings_refused});
  suite.add({.id = "schedules.warmup.recorded",
             .verifies = {"SCHED-146@89ff"},
             .door = suite::Door::adapter,
             .axes = {{"kind", {"table", "warmup"}}},
             .operations = {kTable, kWarmup},
             .asks = operations_by("kind", {{"table", {kTable}}, {"warmup", {kWarmup}}}),
             .convention = "megatron",
             .body = of_megatron});
  for (const char* convention : {"plumbline", "megatron"}) {
    add_sized_check(suite, "schedules",
                    {kTable, "SCHED-142@967a", {13, 100, 1001, 16'384}, sized_table(convention), convention});
    add_sized_check(suite, "schedules",
                    {kWarmup, "SCHED-143@5afd", {13, 100, 1001, 16'384}, sized_warmup(convention), convention});
  }
}

}  // namespace plumbline::conformance

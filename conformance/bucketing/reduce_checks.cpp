// Gradients of steps that ranks reduce in buckets, asked of an adapter: what each rank has afterwards, and what was
// reduced when.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "conformance/bucketing/asked_reduction.hpp"
#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/support/asking.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

// ---- means and sums ----

void reduced_as_one_device(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const std::string& dtype = context.parameters().text("dtype");
  asked.options["dtype"] = dtype;
  if (dtype == "f16") asked.nearness = 0x1p-9;
  if (dtype == "bf16") asked.nearness = 0x1p-6;
  report_reduction(context, asked);
}

void reduced_after_passes(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.judges_launches = true;
  const bool varies = context.parameters().text("passes") == "varying";
  asked.passes = [varies](int step, int) { return varies ? 1 + (step + 1) % 3 : 2; };
  report_reduction(context, asked);
}

void reduced_whenever_started(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const Answer whole = answer_to(context.adapter(), kReduce, question_of_reduction(asked));
  if (whole.is_refused()) return report_words("refused: " + whole.message);
  if (context.parameters().text("overlap") == "no") asked.options["overlap"] = false;
  report_reduction(context, asked, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t step, int rank) {
      const json& other = whole.result.at("steps").at(step).at(static_cast<std::size_t>(rank)).at("grads");
      return first_difference(other, row.at("grads"), "gradients of another run");
    });
  });
}

// Sums that are exact in any order: a ring begins each bucket's elements with another rank.
void reduced_in_any_buckets(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.options["average"] = false;
  asked.divisor = 1;
  const Answer whole = answer_to(context.adapter(), kReduce, question_of_reduction(asked));
  if (whole.is_refused()) return report_words("refused: " + whole.message);
  for (const char* name : {"each", "some", "one"}) {
    asked.buckets = buckets_named(name);
    report_reduction(context, asked, [&](const json& result) {
      return each_row(result, [&](const json& row, std::size_t step, int rank) {
        const json& other = whole.result.at("steps").at(step).at(static_cast<std::size_t>(rank)).at("grads");
        return first_difference(other, row.at("grads"), "gradients in other buckets");
      });
    });
  }
}

void reduced_by_division(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const std::string& before = context.parameters().text("before");
  if (before == "ranks") asked.options["divide_before"] = asked.ranks;
  if (before == "none") asked.options["divide_before"] = 1;
  if (before == "a_part") asked.options["divide_before"] = asked.ranks / 2;
  report_reduction(context, asked);
}

void reduced_to_a_sum(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const bool is_sum = context.parameters().text("result") == "sum";
  asked.options["average"] = !is_sum;
  asked.divisor = is_sum ? 1 : 0;
  report_reduction(context, asked);
}

void reduced_by_divisor(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.divisor = static_cast<double>(context.parameters().number("divisor"));
  asked.options["divisor"] = context.parameters().number("divisor");
  report_reduction(context, asked);
}

// Sums of two are beyond the type in which gradients are communicated.
void reduced_half_stays_finite(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const bool is_large = context.parameters().text("values") == "large";
  const std::string& wire = context.parameters().text("wire");
  asked.options["wire"] = wire;
  asked.nearness = wire == "f16" ? 0x1p-8 : 0x1p-5;
  if (is_large)
    asked.value = [](int, int, int rank, int, int element) { return 60000.0 - 32 * ((rank + element) % 3); };
  report_reduction(context, asked);
}

// In f16 the small ones would be lost one by one.
void reduced_in_f32(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const bool is_fine = context.parameters().text("values") == "fine";
  asked.options.update({{"dtype", "f16"}, {"wire", "f32"}, {"average", false}});
  asked.divisor = 1;
  asked.nearness = 0;
  asked.value = [=](int, int, int rank, int, int element) {
    if (is_fine)
      return rank == 0 ? 2048.0 : asked.ranks == 2 ? 2.0 : 1.0;  // sums that f16 has: of 2, 1 + 1 and 1 + 1 + 1 + 1
    return static_cast<double>(rank + element);
  };
  report_reduction(context, asked);
}

// ---- what is started when ----

void reduced_in_plan_order(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.judges_launches = true;
  const bool has_own_order = context.parameters().text("order") == "own";
  if (has_own_order)
    asked.order = [](int rank) { return rank % 2 == 0 ? std::vector{0, 2, 1, 3} : std::vector{3, 1, 0, 2}; };
  report_reduction(context, asked);
}

// A bucket starts when as many gradients are ready as its own last one and those of the buckets before it need.
void reduced_during_the_pass(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.judges_launches = true;
  report_reduction(context, asked, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t, int rank) -> std::string {
      const std::vector<int> order = asked.ready_order(rank);
      std::ptrdiff_t needed = 0;
      for (std::size_t bucket = 0; bucket < asked.buckets.size(); ++bucket) {
        for (const int gradient : asked.buckets[bucket])
          needed = std::max(needed, std::ranges::find(order, gradient) - order.begin() + 1);
        const json& ready = row.at("launches").back().at(bucket).at("ready_before");
        if (ready != needed)
          return fmt::format("reduction {} starts after {} gradients, not {}", bucket, ready.dump(), needed);
      }
      return {};
    });
  });
}

// In the order in which rank 0's are ready, each bucket closed when it has 24 bytes.
void reduced_after_rebuilding(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.options["rebuild_bytes"] = 24;
  const bool is_turned = context.parameters().text("order") == "turned";
  asked.order = [is_turned](int rank) {
    return is_turned && rank == 0 ? std::vector{0, 2, 1, 3} : std::vector{3, 1, 0, 2};
  };
  GradientLists right(1);
  std::int64_t bytes = 0;
  for (const int gradient : asked.order(0)) {
    if (bytes >= 24) right.emplace_back(), bytes = 0;
    right.back().push_back(gradient);
    bytes += 4 * asked.numel[static_cast<std::size_t>(gradient)];
  }
  report_reduction(context, asked, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t step, int) -> std::string {
      GradientLists got;
      for (const json& one : row.at("launches").at(0)) got.push_back(members_of(one));
      const GradientLists expected = with_sorted_members(step == 0 ? asked.buckets : right);
      return got == expected ? "" : "the buckets are " + json(got).dump() + ", they must be " + json(expected).dump();
    });
  });
}

void reduced_with_buffers(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const int passes = static_cast<int>(context.parameters().number("passes"));
  asked.passes = [passes](int, int) { return passes; };
  json args = question_of_reduction(asked);
  const auto buffer = [](std::size_t step, int pass, int rank) {
    return std::vector<double>{100.0 * static_cast<double>(step) + 10.0 * pass + rank, 0.5 * rank};
  };
  for (std::size_t step = 0; step < args["steps"].size(); ++step)
    for (int rank = 0; rank < asked.ranks; ++rank)
      for (int pass = 0; pass < passes; ++pass)
        args["steps"][step][static_cast<std::size_t>(rank)]["buffers"].push_back(buffer(step, pass, rank));
  report_words(problem_of_reduction(context.adapter(), args, [&](const json& result) {
    const std::string words = problem_of_reduced(asked, result);
    if (!words.empty()) return words;
    return each_row(result, [&](const json& row, std::size_t step, int rank) -> std::string {
      for (int pass = 0; pass < passes; ++pass) {
        const auto right = buffer(step, pass, pass + 1 == passes ? 0 : rank);
        const auto got = row.at("buffers").at(static_cast<std::size_t>(pass)).get<std::vector<double>>();
        if (got != right)
          return fmt::format("buffers of pass {} are {}, they must be {}", pass, json(got).dump(), json(right).dump());
      }
      return {};
    });
  }));
}

void reduced_with_initial(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const bool differ = context.parameters().text("start") == "apart";
  for (int rank = 0; rank < asked.ranks; ++rank)
    asked.options["initial"].push_back({1.5 + (differ ? rank : 0), -2.0 * (differ ? rank + 1 : 1)});
  report_reduction(context, asked, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t, int) -> std::string {
      const auto got = row.at("initial").get<std::vector<double>>();
      return got == std::vector{1.5, -2.0} ? "" : "the initial values are " + json(got).dump();
    });
  });
}

// ---- gradients that are not there ----

void reduced_without_some(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const std::string& lacking = context.parameters().text("lacking");
  asked.options["unused"] = context.parameters().text("unused");
  const bool is_static = context.parameters().text("unused") == "static_graph";
  const int most = asked.ranks - 1;
  asked.produces = [=](int step, int rank, int gradient) {
    if (lacking == "nothing" || gradient != (is_static ? 1 : step % 2 + 1)) return true;
    return lacking == "on_one" ? rank != most : lacking == "but_on_one" ? rank == most : false;
  };
  report_reduction(context, asked);
}

// Ranks have two steps and one more for each rank before them. What a rank without rows then has is its own affair.
void reduced_with_joins(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const std::string& divisor = context.parameters().text("divisor");
  const bool is_even = context.parameters().text("rows") == "even";
  asked.options["join"] = divisor;
  const auto steps_of = [=](int rank) { return is_even ? 3 : 2 + rank; };
  const int most = steps_of(asked.ranks - 1);
  asked.steps = most;
  asked.passes = [=](int step, int rank) { return step < steps_of(rank) ? 1 : 0; };
  report_words(
      problem_of_reduction(context.adapter(), question_of_reduction(asked), [&](const json& result) -> std::string {
        return each_row(result, [&](const json& row, std::size_t step, int me) -> std::string {
          if (asked.passes(static_cast<int>(step), me) == 0) return {};
          int present = 0;
          for (int rank = 0; rank < asked.ranks; ++rank) present += asked.passes(static_cast<int>(step), rank);
          AskedReduction one = asked;
          one.divisor = divisor == "present_ranks" ? present : 0;
          for (int gradient = 0; gradient < static_cast<int>(asked.numel.size()); ++gradient)
            if (std::string words = problem_of_gradient(one.right(static_cast<int>(step), gradient),
                                                        row.at("grads").at(static_cast<std::size_t>(gradient)), 1e-6);
                !words.empty())
              return fmt::format("gradient {}: {}", gradient, words);
          return {};
        });
      }));
}

// A gradient that no bucket has keeps nobody waiting.
void reduced_but_one(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const bool is_marked = context.parameters().text("marked") == "yes";
  asked.buckets = {{3}, {2, 0}};
  asked.produces = [](int, int, int gradient) { return gradient != 1; };
  report_reduction(context, asked);
  if (!is_marked) return;
  asked.produces = [](int, int, int) { return true; };
  asked.order = [](int) { return std::vector{1, 3, 2, 0}; };  // nothing has been started
  asked.steps = 1;
  report_words(problem_of_reduction(context.adapter(), question_of_reduction(asked), [](const json& result) {
    return each_row(result, [](const json& row, std::size_t, int) -> std::string {
      if (!row.contains("error")) return "a gradient that is in no bucket is accepted";
      return row["error"].at("kind") == "invalid_argument" ? "" : "it is rejected as " + row["error"].dump();
    });
  }));
}

// All ranks lack the same gradient in the second step, that of the first bucket: nothing has been started.
void reduced_too_late(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.steps = 2;
  const bool lacks = context.parameters().text("lacking") == "one";
  if (!lacks) return report_reduction(context, asked);
  asked.produces = [](int step, int, int gradient) { return step == 0 || gradient != 3; };
  report_words(
      problem_of_reduction(context.adapter(), question_of_reduction(asked), [&](const json& result) -> std::string {
        return each_row(result, [](const json& row, std::size_t step, int) -> std::string {
          if (row.contains("error") != (step == 1)) return "it is " + std::string(step == 1 ? "accepted" : "rejected");
          return step == 0 || row["error"].at("kind") == "state" ? "" : "it is rejected as " + row["error"].dump();
        });
      }));
}

// One element of all ranks is wrong, or as large as it may be.
void reduced_if_finite(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const std::string& value = context.parameters().text("value");
  asked.options["largest"] = 1000;
  asked.steps = 1;
  const double number = value == "nan" ? std::nan("") : value == "inf" ? HUGE_VAL : value == "above" ? 1000.5 : -1000;
  asked.value = [=](int, int, int rank, int gradient, int element) {
    return gradient == 1 && element == 2 ? number : rank + element;
  };
  if (value == "largest") return report_reduction(context, asked);
  asked.order = [](int) { return std::vector{1, 3, 2, 0}; };  // nothing has been started
  report_words(
      problem_of_reduction(context.adapter(), question_of_reduction(asked), [&](const json& result) -> std::string {
        return each_row(result, [](const json& row, std::size_t, int) -> std::string {
          if (!row.contains("error")) return "it is accepted";
          return row["error"].at("kind") == "invalid_argument" ? "" : "it is rejected as " + row["error"].dump();
        });
      }));
}

// ---- shards ----

// The equal parts of all ranks, one after the other, are each bucket's gradients, and padding.
void reduced_to_shards(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.options["sharded"] = true;
  if (context.parameters().text("before") == "ranks") asked.options["divide_before"] = asked.ranks;
  report_words(
      problem_of_reduction(context.adapter(), question_of_reduction(asked), [&](const json& result) -> std::string {
        for (int step = 0; step < asked.steps; ++step)
          for (std::size_t bucket = 0; bucket < asked.buckets.size(); ++bucket) {
            std::vector<double> right, got;
            for (const int gradient : asked.buckets[bucket]) {
              const auto values = asked.right(step, gradient);
              right.insert(right.end(), values->begin(), values->end());
            }
            const json& rows = result.at("steps").at(static_cast<std::size_t>(step));
            const std::size_t part = rows.at(0).at("shards").at(bucket).size();
            for (const json& row : rows) {
              const auto mine = row.at("shards").at(bucket).get<std::vector<double>>();
              if (mine.size() != part)
                return fmt::format("a part of bucket {} has {} elements, another one {}", bucket, mine.size(), part);
              got.insert(got.end(), mine.begin(), mine.end());
            }
            if (got.size() < right.size())
              return fmt::format("the parts of bucket {} have {} of {} elements", bucket, got.size(), right.size());
            got.resize(right.size());
            if (std::string words = problem_of_gradient(right, got, asked.nearness); !words.empty())
              return fmt::format("step {}, bucket {}: {}", step, bucket, words);
          }
        return {};
      }));
}

// ---- fewer bytes ----

// Each element within half of the mean of the ranks' scales; a bucket is a channel.
void reduced_in_bytes(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.options["compression"] = {{"kind", "bytes"}};
  asked.buckets = {{3}, {2}, {1}, {0}};
  asked.numel = {60, 33, 1, 40};
  const bool by_rank = context.parameters().text("magnitudes") == "by_rank";
  asked.value = [=](int step, int, int rank, int gradient, int element) {
    return (by_rank ? std::ldexp(1.0, 3 * rank) : 1.0) *
           ((7 * rank + 11 * step + 3 * gradient + 13 * element) % 17 - 6) / 8;
  };
  report_words(
      problem_of_reduction(context.adapter(), question_of_reduction(asked), [&](const json& result) -> std::string {
        return each_row(result, [&](const json& row, std::size_t step, int) -> std::string {
          if (row.at("grads") != result["steps"][step][0].at("grads")) return "ranks have other bits";
          for (int gradient = 0; gradient < 4; ++gradient) {
            double bound = 0;
            for (int rank = 0; rank < asked.ranks; ++rank) {
              double lowest = 0, highest = 0;
              for (int i = 0; i < asked.numel[static_cast<std::size_t>(gradient)]; ++i) {
                const double value = asked.value(static_cast<int>(step), 0, rank, gradient, i);
                lowest = std::min(lowest, value), highest = std::max(highest, value);
              }
              bound += (highest - lowest) / 255 * (0.5 + 1e-4) / asked.ranks;
            }
            const auto right = asked.right(static_cast<int>(step), gradient);
            const auto got = row["grads"].at(static_cast<std::size_t>(gradient)).get<std::vector<double>>();
            if (got.size() != right->size()) return "another number of elements";
            for (std::size_t i = 0; i < got.size(); ++i)
              if (!(std::abs(got[i] - (*right)[i]) <= bound + 1e-6))
                return fmt::format("gradient {}: element {} is {}, the mean is {}", gradient, i, got[i], (*right)[i]);
          }
          return {};
        });
      }));
}

json powersgd(int directions, int start = 0) {
  return {{"kind", "powersgd"}, {"directions", directions}, {"start", start}, {"shapes", {{6, 8}}}};
}

// A matrix of that many directions, of whole numbers, which ranks have with parts that cancel.
AskedReduction matrix_of(const Context& context, int directions) {
  AskedReduction asked = reduction_in_case(context);
  asked.numel = {48};
  asked.buckets = {{0}};
  asked.nearness = 1e-3;
  asked.value = [=, ranks = asked.ranks](int step, int, int rank, int, int element) {
    const int row = element / 8, column = element % 8;
    double value = ((element * 5 + 3) % 7 - 3.0) * (2 * rank - (ranks - 1));
    for (int i = 0; i < directions; ++i)
      value += ((row * row * (i + 1) + i * 3 + step) % 7 - 3.0) * ((column * (i + 2) + i * 5) % 9 - 4.0);
    return value;
  };
  return asked;
}

// The first step overflows on one rank, and the second is as if there had been none.
void reduced_not_finite(Context& context) {
  const std::string& kind = context.parameters().text("kind");
  const std::string& what = context.parameters().text("value");
  AskedReduction asked = matrix_of(context, 1);
  asked.options["compression"] = kind == "bytes" ? json{{"kind", "bytes"}} : powersgd(6);
  asked.steps = 2;
  const auto usual = asked.value;
  const double number = what == "nan" ? std::nan("") : HUGE_VAL;
  asked.value = [=, last = asked.ranks - 1](int step, int pass, int rank, int gradient, int element) {
    const bool is_wrong = what != "nothing" && step == 0 && rank == last && element == 7;
    return is_wrong ? number : usual(step, pass, rank, gradient, element);
  };
  report_words(
      problem_of_reduction(context.adapter(), question_of_reduction(asked), [&](const json& result) -> std::string {
        return each_row(result, [&](const json& row, std::size_t step, int) -> std::string {
          const json& got = row.at("grads").at(0);
          if (step == 0 && what != "nothing") return got.at(7) == "nan" ? "" : "the mean is " + got.at(7).dump();
          return problem_of_gradient(asked.right(static_cast<int>(step), 0), got, kind == "bytes" ? 0.2 : 1e-3);
        });
      }));
}

void reduced_by_products(Context& context) {
  const int directions = static_cast<int>(context.parameters().number("directions"));
  AskedReduction asked = matrix_of(context, directions);
  asked.options["compression"] = powersgd(directions);
  asked.options["compression"]["error_feedback"] = false;
  asked.steps = 2;
  report_reduction(context, asked);
}

// "" where the result is as near as the sentence demands, measured as it says.
std::string problem_of_distance(const std::vector<double>& right, const std::vector<double>& got) {
  if (got.size() != right.size()) return fmt::format("{} elements, there are {}", got.size(), right.size());
  double squares = 0, apart = 0;
  for (std::size_t i = 0; i < right.size(); ++i)
    squares += right[i] * right[i], apart += (got[i] - right[i]) * (got[i] - right[i]);
  if (std::sqrt(apart) <= 1e-3 * std::sqrt(squares)) return {};
  return fmt::format("the distance to the best approximation is {} of its norm", std::sqrt(apart / squares));
}

// One direction of two, of which the second has less than half of the first one's length.
void reduced_with_warm_start(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const bool is_warm = context.parameters().text("start") == "warm";
  asked.numel = {48};
  asked.buckets = {{0}};
  asked.steps = 20;
  asked.options["compression"] = powersgd(is_warm ? 1 : 2);
  asked.options["compression"].update({{"error_feedback", false}, {"warm_start", is_warm}});
  // Two directions at right angles: rows 0 and 1 alone.
  asked.value = [](int, int, int rank, int, int element) {
    if (element == 0) return 8.0 + rank;
    return element == 9 ? 2.0 + rank : 0.0;
  };
  report_words(
      problem_of_reduction(context.adapter(), question_of_reduction(asked), [&](const json& result) -> std::string {
        return each_row(result, [&](const json& row, std::size_t step, int) -> std::string {
          if (step < 19) return problem_of_rejection(row);
          std::vector<double> right = *asked.right(19, 0);
          if (is_warm) right[9] = 0;  // the lesser direction
          return problem_of_distance(right, row.at("grads").at(0).get<std::vector<double>>());
        });
      }));
}

// A matrix of three directions: before the start its mean, afterwards no more than one direction of it.
void reduced_from_the_start(Context& context) {
  const int start = static_cast<int>(context.parameters().number("start"));
  AskedReduction asked = matrix_of(context, 3);
  asked.options["compression"] = powersgd(1, start);
  report_words(
      problem_of_reduction(context.adapter(), question_of_reduction(asked), [&](const json& result) -> std::string {
        return each_row(result, [&](const json& row, std::size_t step, int) -> std::string {
          const auto right = asked.right(static_cast<int>(step), 0);
          const std::string words = problem_of_gradient(right, row.at("grads").at(0), 1e-3);
          if (static_cast<int>(step) < start) return words;
          if (row["grads"].at(0).size() != 48) return "another number of elements";
          return words.empty() ? "one direction holds a matrix of three: it is not compressed" : "";
        });
      }));
}

}  // namespace

void add_reduce_checks(suite::Suite& suite) {
  const suite::Axis buckets{"buckets", {"each", "some", "one"}};
  const ReductionChecks add{suite, "bucketing.reduce."};
  const auto by = [](const char* argument, const char* parameter) {
    return std::vector<AskedOption>{{kReduce, argument, {}, parameter}};
  };
  // An argument of all cases, or of those with that value of a parameter.
  const auto given = [](const char* argument) { return AskedOption{kReduce, "fields", {argument}}; };
  const auto given_by = [](const char* argument, const char* parameter, const std::vector<std::string>& values) {
    AskedOption asked{kReduce, "fields", {}, parameter};
    for (const std::string& value : values) asked.by[value] = {argument};
    return asked;
  };
  const auto compressed = [](std::vector<std::string> kinds) {
    return std::vector<AskedOption>{{kReduce, "compression.kind", std::move(kinds)}};
  };
  add("single_device", "BUCKET-050@e3c3", {{"dtype", {"f16", "bf16", "f32", "f64"}}, buckets}, reduced_as_one_device,
      by("dtype", "dtype"));
  add("accumulation", "BUCKET-051@5f22", {{"passes", {"same", "varying"}}, buckets}, reduced_after_passes);
  add("rebuilt", "BUCKET-052@9590", {{"order", {"same", "turned"}}}, reduced_after_rebuilding,
      {given("rebuild_bytes")});
  add("unused", "BUCKET-053@7320", {{"unused", {"zeros"}}, {"lacking", {"nothing", "on_one", "but_on_one"}}, buckets},
      reduced_without_some, by("unused", "unused"));
  add("absent", "BUCKET-054@a2d4",
      {{"unused", {"find_unused", "static_graph"}},
       {"lacking", {"nothing", "on_one", "but_on_one", "on_all"}},
       buckets},
      reduced_without_some, by("unused", "unused"));
  add("same_bits", "BUCKET-055@545f", {{"overlap", {"yes", "no"}}, buckets}, reduced_whenever_started,
      {given_by("overlap", "overlap", {"no"})});
  add("fused", "BUCKET-056@5e34", {}, reduced_in_any_buckets);
  add("join", "BUCKET-057@f4cd", {{"divisor", {"initial_world", "present_ranks"}}, {"rows", {"even", "uneven"}}},
      reduced_with_joins, by("join", "divisor"));
  add("starts_in_plan_order", "BUCKET-058@cdec", {{"order", {"plans", "own"}}, buckets}, reduced_in_plan_order);
  add("overlaps", "BUCKET-059@f557", {buckets}, reduced_during_the_pass);
  add("buffers", "BUCKET-061@4d6a", {{"passes", {"1", "3"}}}, reduced_with_buffers, {given("steps.buffers")});
  add("division", "BUCKET-062@e64c", {{"before", {"none", "a_part", "ranks", "in_the_collective"}}},
      reduced_by_division, {given_by("divide_before", "before", {"none", "a_part", "ranks"})}, {"2", "6"});
  add("sum", "BUCKET-063@1971", {{"result", {"sum", "mean"}}}, reduced_to_a_sum);
  add("half_stays_finite", "BUCKET-064@ad62", {{"wire", {"f16", "bf16"}}, {"values", {"usual", "large"}}},
      reduced_half_stays_finite, by("wire", "wire"));
  add("late", "BUCKET-068@088a", {{"lacking", {"nothing", "one"}}}, reduced_too_late);
  add("experts", "BUCKET-085@6782", {{"divisor", {"1", "4", "6"}}}, reduced_by_divisor, {given("divisor")});
  add("initial_values", "BUCKET-086@d3ee", {{"start", {"apart", "together"}}}, reduced_with_initial,
      {given("initial")});
  add("finite", "BUCKET-102@7bfa", {{"value", {"largest", "above", "inf", "nan"}}}, reduced_if_finite,
      {given("largest")});
  add("sharded", "BUCKET-104@1404", {{"before", {"ranks", "in_the_collective"}}, buckets}, reduced_to_shards,
      {given("sharded"), given_by("divide_before", "before", {"ranks"})});
  add("wide", "BUCKET-106@c9c9", {{"values", {"usual", "fine"}}}, reduced_in_f32,
      {{kReduce, "dtype", {"f16"}}, {kReduce, "wire", {"f32"}}}, {"2", "3", "5"});
  add("left_alone", "BUCKET-107@dbe9", {{"marked", {"no", "yes"}}}, reduced_but_one);
  add("bytes_are_near", "BUCKET-200@95c9", {{"magnitudes", {"alike", "by_rank"}}}, reduced_in_bytes,
      compressed({"bytes"}));
  add("not_finite", "BUCKET-202@9539", {{"kind", {"bytes", "powersgd"}}, {"value", {"nothing", "inf", "nan"}}},
      reduced_not_finite, by("compression.kind", "kind"));
  add("low_rank", "BUCKET-203@d62e", {{"directions", {"1", "2"}}}, reduced_by_products, compressed({"powersgd"}));
  add("warm_start", "BUCKET-205@bdbd", {{"start", {"warm", "all_directions"}}}, reduced_with_warm_start,
      compressed({"powersgd"}));
  add("start", "BUCKET-206@38ba", {{"start", {"0", "2"}}}, reduced_from_the_start, compressed({"powersgd"}));
}

}  // namespace plumbline::conformance

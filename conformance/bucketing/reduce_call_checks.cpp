// Gradients that ranks reduce in buckets, asked of an adapter: what its exchanges are given, whom it calls back, which
// collectives it begins, where gradients lie, sparse gradients, and what it rejects.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "conformance/bucketing/asked_reduction.hpp"
#include "conformance/bucketing/bucketing_checks.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/words.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Context;
using suite::Door;

namespace {

// Ranks whose gradients are ready in different orders.
std::vector<int> own_order(int rank) { return rank % 2 == 0 ? std::vector{0, 2, 1, 3} : std::vector{3, 1, 0, 2}; }

// The question without what `more` judges alone.
void judge_reduction(Context& context, const json& args, const JudgeReduction& judge) {
  report_words(problem_of_reduction(context.adapter(), args, judge));
}
void judge_rows(Context& context, const AskedReduction& asked, const JudgeRow& judge) {
  judge_reduction(context, question_of_reduction(asked), [&](const json& result) { return each_row(result, judge); });
}

// ---- exchanges and callbacks ----

// One exchange a bucket, whatever their order.
std::string problem_of_exchanged(const AskedReduction& asked, const json& row) {
  GradientLists got, right = with_sorted_members(asked.buckets);
  for (const json& one : row.at("exchanges")) got.push_back(members_of(one));
  std::ranges::sort(got);
  std::ranges::sort(right);
  return got == right ? "" : "exchanges are of gradients " + json(got).dump() + ", buckets of " + json(right).dump();
}

// Each gradient's value is written when it is ready, and not before.
void exchange_reads_written(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  if (context.parameters().text("order") == "own") asked.order = own_order;
  asked.options["exchange"] = "sum";
  asked.divisor = 1;
  report_reduction(context, asked, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t step, int rank) -> std::string {
      if (std::string words = problem_of_exchanged(asked, row); !words.empty()) return words;
      for (const json& one : row["exchanges"])
        for (std::size_t i = 0; i < one.at("gradients").size(); ++i) {
          const int gradient = one["gradients"][i].get<int>();
          const std::vector<double> right = asked.accumulated(static_cast<int>(step), rank, gradient);
          if (const auto got = one.at("values").at(i).get<std::vector<double>>(); got != right)
            return fmt::format("the exchange reads {} of gradient {}, which is {}", json(got).dump(), gradient,
                               json(right).dump());
        }
      return {};
    });
  });
}

// One start and one end a bucket, in the plan's order.
std::string problem_of_exchanges(const AskedReduction& asked, const json& row) {
  GradientLists started, finished;
  for (const json& one : row.at("exchanges")) started.push_back(members_of(one));
  for (const json& one : row.at("finished")) finished.push_back(members_of({{"gradients", one}}));
  const GradientLists right = with_sorted_members(asked.buckets);
  if (started != right) return "exchanges are started of " + json(started).dump() + ", not " + json(right).dump();
  return finished == right ? "" : "exchanges are finished of " + json(finished).dump();
}

void exchange_replaces_reduction(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const std::string& exchange = context.parameters().text("exchange");
  asked.options["exchange"] = exchange;
  AskedReduction right = asked;
  if (exchange == "sum") right.divisor = 1;
  if (exchange == "first_rank")  // the mean of what all have in place of that
    right.value = [&](int step, int pass, int, int gradient, int element) {
      return asked.value(step, pass, 0, gradient, element);
    };
  judge_reduction(context, question_of_reduction(asked), [&](const json& result) {
    const std::string words = problem_of_reduced(right, result);
    if (!words.empty()) return words;
    return each_row(result, [&](const json& row, std::size_t, int) { return problem_of_exchanges(asked, row); });
  });
}

void exchange_communicates_at_its_end(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.order = own_order;
  asked.options["exchange"] = "sum_twice";
  if (context.parameters().text("callbacks") == "yes") asked.options["callbacks"] = true;
  asked.divisor = 1.0 / asked.ranks;
  report_reduction(context, asked);
}

void called_back(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.options["callbacks"] = true;
  const int passes = static_cast<int>(context.parameters().number("passes"));
  asked.passes = [passes](int, int) { return passes; };
  report_reduction(context, asked, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t, int) -> std::string {
      GradientLists called;
      for (const json& one : row.at("callbacks")) {
        called.push_back(members_of(one));
        for (std::size_t i = 0; i < one.at("gradients").size(); ++i)
          if (one.at("values").at(i) != row.at("grads").at(one["gradients"][i].get<std::size_t>()))
            return fmt::format("gradient {} is {} when its bucket is reported", one["gradients"][i].dump(),
                               one["values"][i].dump());
      }
      const GradientLists right = with_sorted_members(asked.buckets);
      return called == right ? "" : "buckets " + json(called).dump() + " are reported, not " + json(right).dump();
    });
  });
}

// ---- memory ----

// Gradients 0 and 1 are ready first: nothing has been started.
void memory_shared(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.options["names"] = {"weight", "bias", "scale", "shift"};
  asked.options["positions"] = {0, 4, 7, 9};
  report_reduction(context, asked);
  const std::string& shared = context.parameters().text("shared");
  if (shared == "none") return;
  asked.options["positions"] = shared == "all"     ? json{20, 20, 7, 9}
                               : shared == "begin" ? json{22, 20, 7, 9}
                                                   : json{20, 23, 7, 9};
  asked.order = [](int rank) { return rank % 2 == 0 ? std::vector{0, 1, 3, 2} : std::vector{1, 0, 3, 2}; };
  asked.steps = 1;
  judge_rows(context, asked, [](const json& row, std::size_t, int) -> std::string {
    if (!row.contains("error")) return "it is accepted";
    if (row["error"].at("kind") != "invalid_argument") return "it is rejected as " + row["error"].dump();
    return missing_words(row["error"].at("message").get<std::string>(), {"weight", "bias"});
  });
}

void reduced_in_place(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.buckets = {{3}, {2}, {1}, {0}};
  asked.options["positions"] = {0, 4, 7, 9};
  const bool lacks = context.parameters().text("lacking") == "one";
  const int last = asked.ranks - 1;
  if (lacks) {
    asked.options["unused"] = "zeros";
    asked.produces = [=](int, int rank, int gradient) { return rank != last || gradient != 2; };
  }
  report_reduction(context, asked, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t, int rank) -> std::string {
      if (lacks && rank == last) return {};  // it has no memory of its own for what it lacks
      return row.at("copied") == json::array({0}) ? "" : row["copied"].dump() + " bytes are copied";
    });
  });
}

// Gradients 2 and 1 share a bucket of 20 bytes, and are the second and third to be ready. A rank that lacks one may say
// so when the pass begins.
void memory_is_lazy(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.options["lazy"] = true;
  const bool lacks = context.parameters().text("lacking") == "one";
  const int last = asked.ranks - 1;
  if (lacks) {
    asked.options["unused"] = "zeros";
    asked.produces = [=](int, int rank, int gradient) { return rank != last || gradient != 1; };
  }
  report_reduction(context, asked, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t, int rank) -> std::string {
      const auto bytes = row.at("memory").at(0).get<std::vector<std::int64_t>>();
      const bool keeps = lacks && rank == last;
      if (bytes.size() != (keeps ? 4U : 5U)) return "another number of entries of memory";
      if (bytes[0] != 0 && !keeps) return fmt::format("{} bytes for a gradient that is reduced where it is", bytes[0]);
      if (bytes[1] < 20) return fmt::format("{} bytes for a bucket of 20", bytes[1]);
      if ((bytes.back() != 0) != keeps) return fmt::format("{} bytes after the pass", bytes.back());
      return {};
    });
  });
}

// ---- sparse gradients ----

// Rows that a rank has of the sparse gradient, which is number 1 and has 4 rows of 3.
using Rows = std::vector<std::int64_t>;
Rows rows_of(const std::string& entries, int step, int rank) {
  if (entries == "none" || (entries == "none_on_one" && rank == 1)) return {};
  if (entries == "repeated") return {(step + rank) % 4, 3, (step + rank) % 4};
  if (entries == "all" || entries == "zeros") return {0, 1, 2, 3};
  if (entries == "three") return {(step + rank) % 4, (step + rank + 1) % 4, (step + rank + 3) % 4};
  return {(step + rank + 2) % 4, (step + rank) % 4};
}

AskedReduction over_sparse_table(const Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.numel = {4, 12, 2, 5};
  asked.buckets = {{3}, {1}, {2, 0}};
  asked.options["sparse"] = {1};
  return asked;
}
// The question, with the rows of a case in place of all elements.
json question_of_sparse(const AskedReduction& asked, const std::string& entries) {
  json args = question_of_reduction(asked);
  for (int step = 0; step < asked.steps; ++step)
    for (int rank = 0; rank < asked.ranks; ++rank)
      for (json& one : args["steps"][static_cast<std::size_t>(step)][static_cast<std::size_t>(rank)]["passes"][0]) {
        if (one["gradient"] != 1) continue;
        const Rows rows = rows_of(entries, step, rank);
        json values = json::array();
        for (std::size_t i = 0; i < 3 * rows.size(); ++i)
          values.push_back(entries == "zeros" ? json(0.0) : one["values"][i]);
        one["rows"] = rows, one["values"] = std::move(values);
      }
  return args;
}
// What a rank has of it, as a dense gradient.
double dense_value(const AskedReduction& asked, const std::string& entries, int step, int rank, int element) {
  const Rows rows = rows_of(entries, step, rank);
  double sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] == element / 3 && entries != "zeros")
      sum += asked.value(step, 0, rank, 1, static_cast<int>(3 * i) + element % 3);
  return sum;
}

std::string problem_of_rows(const json& got, const std::set<std::int64_t>& right_rows, const json& dense) {
  const auto rows = got.at("rows").get<std::vector<std::int64_t>>();
  if (rows != std::vector(right_rows.begin(), right_rows.end()))
    return fmt::format("the rows are {}, they must be {}", json(rows).dump(), json(right_rows).dump());
  std::vector<double> values(12);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t column = 0; column < 3; ++column)
      values.at(static_cast<std::size_t>(rows[i]) * 3 + column) = got.at("values").at(3 * i + column).get<double>();
  return first_difference(dense, values, "the sum");
}

void sparse_sum_is_dense(Context& context) {
  const std::string& entries = context.parameters().text("entries");
  AskedReduction asked = over_sparse_table(context);
  if (context.parameters().text("result") == "sum") asked.options["average"] = false;
  AskedReduction dense = asked;
  dense.options.erase("sparse");
  dense.value = [&](int step, int pass, int rank, int gradient, int element) {
    return gradient == 1 ? dense_value(asked, entries, step, rank, element)
                         : asked.value(step, pass, rank, gradient, element);
  };
  const Answer whole = answer_to(context.adapter(), kReduce, question_of_reduction(dense));
  if (whole.is_refused()) return report_words("refused: " + whole.message);
  judge_reduction(context, question_of_sparse(asked, entries), [&](const json& result) -> std::string {
    return each_row(result, [&](const json& row, std::size_t step, int rank) {
      std::set<std::int64_t> rows;
      for (int other = 0; other < asked.ranks; ++other)
        for (const std::int64_t one : rows_of(entries, static_cast<int>(step), other)) rows.insert(one);
      const json& right = whole.result.at("steps").at(step).at(static_cast<std::size_t>(rank)).at("grads");
      std::string words = problem_of_rows(row.at("grads").at(1), rows, right.at(1));
      for (const std::size_t gradient : {0U, 2U, 3U})
        if (words.empty()) words = first_difference(right.at(gradient), row["grads"].at(gradient), "a dense gradient");
      return words;
    });
  });
}

// Bytes that a rank gives in collectives of a kind, in a pass; what ranks compare of plans in the first step aside.
std::int64_t bytes_in(const json& row, const std::string& operation) {
  std::int64_t bytes = 0;
  for (const json& call : row.at("collectives").at(0))
    if (call.at("operation") == operation) bytes += call.at("bytes").get<std::int64_t>();
  return bytes;
}

void sparse_bytes(Context& context) {
  const std::string& entries = context.parameters().text("entries");
  AskedReduction asked = over_sparse_table(context);
  asked.options["collectives"] = true;
  judge_reduction(context, question_of_sparse(asked, entries), [&](const json& result) -> std::string {
    return each_row(result, [&](const json& row, std::size_t step, int) -> std::string {
      if (step == 0) return problem_of_rejection(row);
      std::size_t most = 0;
      for (int rank = 0; rank < asked.ranks; ++rank) {
        const Rows rows = rows_of(entries, static_cast<int>(step), rank);
        most = std::max(most, std::set(rows.begin(), rows.end()).size());
      }
      const std::int64_t right = 16 + static_cast<std::int64_t>(most) * (8 + 3 * 4);
      const std::int64_t got = bytes_in(row, "all_gather"), dense = bytes_in(row, "all_reduce");
      if (got != right) return fmt::format("{} bytes are gathered, they must be {}", got, right);
      return dense == 4 * (4 + 2 + 5) ? "" : fmt::format("{} bytes are reduced, 44 are of dense gradients", dense);
    });
  });
}

// The sparse gradient is ready first.
void sparse_rejected(Context& context) {
  const std::string& what = context.parameters().text("what");
  AskedReduction asked = over_sparse_table(context);
  asked.steps = 1;
  asked.options["names"] = {"head", "table", "scale", "bias"};
  asked.order = [&](int) { return what == "rows_of_a_dense_one" ? std::vector{0, 1, 3, 2} : std::vector{1, 3, 2, 0}; };
  json args = question_of_sparse(asked, "some");
  for (int rank = 0; rank < asked.ranks; ++rank) {
    json& one = args["steps"][0][static_cast<std::size_t>(rank)]["passes"][0][0];
    if (what == "beyond") one["rows"][1] = 4;
    if (what == "below") one["rows"][0] = -1;
    if (what == "uneven") one["values"].erase(5);
    if (what == "width") one["values"] = std::vector<double>(10, 1);  // rows of 5 are none of 12 elements
    if (what == "other_width" && rank == 1) one["values"] = std::vector<double>(8, 1);
    if (what == "dtype") one["dtype"] = "f64";
    if (what == "a_dense_one") one.erase("rows"), one["values"] = std::vector<double>(12, 1);
    if (what == "rows_of_a_dense_one") one["rows"] = {0, 1};
  }
  judge_reduction(context, args, [&](const json& result) -> std::string {
    return each_row(result, [&](const json& row, std::size_t, int) -> std::string {
      if (row.contains("error") == (what == "nothing")) return what == "nothing" ? "it is rejected" : "it is accepted";
      if (what == "nothing") return problem_of_gradient(asked.right(0, 0), row.at("grads").at(0), asked.nearness);
      const std::string message = row["error"].at("message");
      if (what == "other_width") return missing_words(message, {"0", "1"});
      if (row["error"].at("kind") != "invalid_argument") return "it is rejected as " + row["error"].dump();
      return missing_words(message, {what == "rows_of_a_dense_one" ? "head" : "table"});
    });
  });
}

// ---- collectives ----

void wire_has_buffers(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const int buffers = static_cast<int>(context.parameters().number("buffers"));
  asked.numel = std::vector<std::int64_t>(5, 300);
  asked.buckets = {{4}, {3}, {2}, {1}, {0}};
  asked.options.update({{"wire", "bf16"}, {"wire_buffers", buffers}, {"collectives", true}});
  asked.nearness = 0x1p-5;
  report_reduction(context, asked, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t step, int) -> std::string {
      if (step == 0) return problem_of_rejection(row);
      const json& calls = row.at("collectives").at(0);
      if (calls.size() != asked.buckets.size()) return fmt::format("{} collectives of 5 buckets", calls.size());
      for (std::size_t i = 0; i < calls.size(); ++i)
        if (static_cast<int>(i) - calls[i].at("completed").get<int>() >= buffers)
          return fmt::format("reduction {} begins when {} are complete, with {} buffers", i,
                             calls[i]["completed"].dump(), buffers);
      return {};
    });
  });
}

void starts_after_the_pass(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.options.update({{"overlap", false}, {"collectives", true}});
  report_reduction(context, asked, [&](const json& result) {
    return each_row(result, [&](const json& row, std::size_t step, int) -> std::string {
      for (const json& launch : row.at("launches").at(0))
        if (launch.at("ready_before") != asked.numel.size())
          return fmt::format("a reduction starts after {} gradients", launch["ready_before"].dump());
      if (step == 0) return problem_of_rejection(row);
      const json& calls = row.at("collectives").at(0);
      for (std::size_t i = 0; i < calls.size(); ++i)
        if (calls[i].at("completed") != i)
          return fmt::format("reduction {} begins when {} are complete", i, calls[i]["completed"].dump());
      return {};
    });
  });
}

void bytes_travel_as_such(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.numel = {60, 33, 1, 40};
  const auto channel = context.parameters().number("channel");
  asked.options["compression"] = {{"kind", "bytes"}, {"channel", channel}};
  asked.options["collectives"] = true;
  std::int64_t right = 0;
  for (const std::vector<int>& bucket : asked.buckets) {
    std::int64_t elements = 0;
    for (const int gradient : bucket) elements += asked.numel[static_cast<std::size_t>(gradient)];
    right += elements + 8 * (channel == 0 ? 1 : (elements + channel - 1) / channel);
  }
  judge_rows(context, asked, [&](const json& row, std::size_t step, int) -> std::string {
    if (step == 0) return problem_of_rejection(row);
    std::int64_t all = 0;
    for (const json& call : row.at("collectives").at(0)) all += call.at("bytes").get<std::int64_t>();
    if (const std::int64_t got = bytes_in(row, "all_gather"); got != right || all != right)
      return fmt::format("{} bytes are gathered, and {} given in all; they must be {}", got, all, right);
    return {};
  });
}

void compresses_what_shrinks(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const double rate = static_cast<double>(context.parameters().number("rate"));
  const std::vector<std::pair<int, int>> shapes{{8, 8}, {8, 9}, {50, 1}, {3, 3}, {20, 10}, {1, 1}};
  asked.numel.clear();
  asked.buckets = {{5, 4, 3, 2, 1, 0}};
  json list = json::array();
  std::vector<bool> are_worth;
  int plain = 0, narrow = 0, wide = 0;
  for (const auto& [rows, columns] : shapes) {
    asked.numel.push_back(rows * columns);
    list.push_back({rows, columns});
    const int directions = std::min({2, rows, columns});
    const bool is_worth = rate * directions * (rows + columns) < rows * columns;
    are_worth.push_back(is_worth);
    plain += is_worth ? 0 : rows * columns;
    narrow += is_worth ? rows * directions : 0;
    wide += is_worth ? columns * directions : 0;
  }
  asked.options["compression"] = {{"kind", "powersgd"}, {"directions", 2}, {"least_rate", rate}, {"shapes", list}};
  asked.options["collectives"] = true;
  const std::vector<int> right = wide == 0 ? std::vector{4 * plain} : std::vector{4 * (plain + narrow), 4 * wide};
  judge_rows(context, asked, [&](const json& row, std::size_t step, int) -> std::string {
    for (std::size_t i = 0; i < are_worth.size(); ++i)  // what is sent uncompressed is the mean
      if (const auto mean = asked.right(static_cast<int>(step), static_cast<int>(i)); !are_worth[i])
        if (std::string words = problem_of_gradient(mean, row.at("grads").at(i), asked.nearness); !words.empty())
          return fmt::format("gradient {}: {}", i, words);
    if (step == 0) return problem_of_rejection(row);
    std::vector<int> got;
    for (const json& call : row.at("collectives").at(0)) got.push_back(call.at("bytes").get<int>());
    return got == right ? "" : "the collectives have bytes " + json(got).dump() + ", not " + json(right).dump();
  });
}

// ---- instances ----

AskedReduction over_instances(const Context& context) {
  AskedReduction asked = reduction_in_case(context);
  asked.options.update({{"sharded", true}, {"ranks_per_instance", asked.ranks == 4 ? 2 : 3}});
  return asked;
}

void instances_agree(Context& context) {
  AskedReduction asked = over_instances(context);
  const std::string& division = context.parameters().text("division");
  if (division == "before") asked.options["divide_before"] = asked.ranks;
  if (division == "after") asked.options["divide_before"] = 1;
  if (division == "sum") asked.options["average"] = false, asked.divisor = 1;
  for (int rank = 0; rank < asked.ranks; ++rank) asked.options["initial"].push_back({1.5 + rank, -2.0 * (rank + 1)});
  const auto size = asked.options["ranks_per_instance"].get<std::size_t>();
  judge_reduction(context, question_of_reduction(asked), [&](const json& result) -> std::string {
    return each_row(result, [&](const json& row, std::size_t step, int rank) -> std::string {
      if (row.at("initial") != json{1.5, -2.0}) return "the initial values are " + row["initial"].dump();
      const json& rows = result["steps"][step];
      const auto position = static_cast<std::size_t>(rank) % size;
      if (row.at("shards") != rows.at(position).at("shards")) return "another instance has other results";
      if (position != 0) return {};
      for (std::size_t bucket = 0; bucket < asked.buckets.size(); ++bucket) {
        std::vector<double> right, got;
        for (const int gradient : asked.buckets[bucket]) {
          const auto values = asked.right(static_cast<int>(step), gradient);
          right.insert(right.end(), values->begin(), values->end());
        }
        for (std::size_t i = 0; i < size; ++i)
          for (const json& value : rows.at(static_cast<std::size_t>(rank) + i).at("shards").at(bucket))
            got.push_back(value.get<double>());
        if (got.size() < right.size()) return fmt::format("bucket {} has {} elements", bucket, got.size());
        got.resize(right.size());  // without padding
        if (std::string words = problem_of_gradient(right, got, asked.nearness); !words.empty())
          return fmt::format("bucket {}: {}", bucket, words);
      }
      return {};
    });
  });
}

void instances_reduce_their_parts(Context& context) {
  AskedReduction asked = over_instances(context);
  asked.options["collectives"] = true;
  const int size = asked.options["ranks_per_instance"].get<int>();
  judge_rows(context, asked, [&](const json& row, std::size_t step, int) -> std::string {
    if (step == 0) return problem_of_rejection(row);
    std::multiset<std::int64_t> parts, reduced;
    for (const json& part : row.at("shards")) parts.insert(4 * static_cast<std::int64_t>(part.size()));
    std::size_t scattered = 0;
    for (const json& call : row.at("collectives").at(0)) {
      const bool scatters = call.at("operation") == "reduce_scatter";
      if (!scatters && call["operation"] != "all_reduce") return "there is a collective " + call.dump();
      if (call.at("ranks") != (scatters ? size : asked.ranks / size)) return "of other ranks: " + call.dump();
      if (scatters)
        ++scattered;
      else
        reduced.insert(call.at("bytes").get<std::int64_t>());
    }
    if (scattered != asked.buckets.size()) return fmt::format("{} reduce-scatters of 3 buckets", scattered);
    return reduced == parts ? "" : "all-reduces have bytes " + json(reduced).dump() + ", parts " + json(parts).dump();
  });
}

// ---- compression by products ----

using Column = std::vector<double>;
double product(const Column& a, const Column& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

// Orthonormal columns that span those of a row-major matrix of 6 x 8, at most `most` of them: the longest first.
std::vector<Column> directions_of(const Column& matrix, int most) {
  std::vector<Column> columns(8, Column(6)), found;
  for (std::size_t i = 0; i < matrix.size(); ++i) columns[i % 8][i / 8] = matrix[i];
  while (static_cast<int>(found.size()) < most) {
    for (Column& column : columns)
      for (const Column& one : found) {
        const double part = product(column, one);
        for (std::size_t i = 0; i < 6; ++i) column[i] -= part * one[i];
      }
    Column next = *std::ranges::max_element(columns, {}, [](const Column& one) { return product(one, one); });
    const double length = std::sqrt(product(next, next));
    if (length < 1e-9) break;
    for (double& value : next) value /= length;
    found.push_back(std::move(next));
  }
  return found;
}

Column projected(const Column& matrix, const std::vector<Column>& directions) {
  Column all(matrix.size());
  for (const Column& one : directions)
    for (std::size_t column = 0; column < 8; ++column) {
      double part = 0;
      for (std::size_t row = 0; row < 6; ++row) part += one[row] * matrix[row * 8 + column];
      for (std::size_t row = 0; row < 6; ++row) all[row * 8 + column] += part * one[row];
    }
  return all;
}

// The mean residual of all ranks is what the results lack.
void products_are_projections(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const bool feeds_back = context.parameters().text("feedback") == "on";
  const int directions = static_cast<int>(context.parameters().number("directions"));
  asked.numel = {48};
  asked.buckets = {{0}};
  asked.steps = 4;
  asked.options["compression"] = {
      {"kind", "powersgd"}, {"directions", directions}, {"error_feedback", feeds_back}, {"shapes", {{6, 8}}}};
  Column residual(48);
  judge_reduction(context, question_of_reduction(asked), [&](const json& result) -> std::string {
    for (int step = 0; step < 4; ++step) {
      Column matrix = *asked.right(step, 0);
      for (std::size_t i = 0; i < 48; ++i) matrix[i] += feeds_back ? residual[i] : 0;
      const json& rows = result["steps"][static_cast<std::size_t>(step)];
      const auto got = rows.at(0).at("grads").at(0).get<Column>();
      if (got.size() != 48) return "another number of elements";
      for (const json& row : rows)
        if (row.at("grads") != rows[0]["grads"]) return "ranks have other bits";
      const Column right = projected(matrix, directions_of(got, directions));
      Column last = projected(got, directions_of(got, directions - 1));
      std::ranges::transform(got, last, last.begin(), std::minus());
      if (!(product(last, last) > 1e-8 * product(got, got)))
        return fmt::format("step {}: the result has fewer than {} directions", step, directions);
      for (std::size_t i = 0; i < 48; ++i) {
        if (!(std::abs(got[i] - right[i]) <= 1e-3 * std::sqrt(product(matrix, matrix))))
          return fmt::format("step {}: element {} is {}, that of the projection {}", step, i, got[i], right[i]);
        residual[i] = matrix[i] - got[i];
      }
    }
    return {};
  });
}

// ---- what is rejected ----

const std::vector<std::string>& parameter_names() {
  static const std::vector<std::string> names{"weight", "bias", "scale", "shift"};
  return names;
}

// The last rank's plan is another one.
void plans_differ(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const std::string& differs = context.parameters().text("differs");
  asked.options["names"] = parameter_names();
  for (int rank = 0; rank < asked.ranks; ++rank) {
    json plan{{"numel", asked.numel}, {"buckets", asked.buckets}};
    const bool is_other = rank == asked.ranks - 1;
    if (is_other && differs == "numel") plan["numel"][1] = 7;
    if (is_other && differs == "buckets") plan["buckets"] = {{3, 2}, {1}, {0}};
    if (is_other && differs == "order") plan["buckets"] = {{2, 1}, {3}, {0}};
    asked.options["plans"].push_back(std::move(plan));
  }
  if (differs == "nothing") return report_reduction(context, asked);
  asked.steps = 1;
  json args = question_of_reduction(asked);
  if (differs == "numel")
    for (json& one : args["steps"][0].back()["passes"][0])
      if (one["gradient"] == 1) one["values"] = std::vector<double>(7, 1);
  judge_reduction(context, args, [&](const json& result) -> std::string {
    return each_row(result, [&](const json& row, std::size_t, int) -> std::string {
      if (!row.contains("error")) return "it is accepted";
      const std::string message = row["error"].at("message");
      const auto names = [&](const std::string& name) { return has_word(message, name); };
      if (std::ranges::none_of(parameter_names(), names)) return "no parameter is named in '" + message + "'";
      return missing_words(message, {std::to_string(asked.ranks - 1)});
    });
  });
}

bool names_type(const std::string& message, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& one) { return has_word(message, one); });
}

// On all ranks, before anything is started.
void gradient_is_another(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const std::string& what = context.parameters().text("what");
  asked.steps = 1;
  asked.options["names"] = parameter_names();
  asked.order = [](int) { return std::vector{1, 3, 2, 0}; };
  json args = question_of_reduction(asked);
  for (json& row : args["steps"][0]) {
    json& one = row["passes"][0][0];
    if (what == "count") one["values"].push_back(1);
    if (what == "dtype") one["dtype"] = "f64";
  }
  if (what == "nothing")
    return judge_reduction(context, args, [&](const json& result) { return problem_of_reduced(asked, result); });
  judge_reduction(context, args, [&](const json& result) -> std::string {
    return each_row(result, [&](const json& row, std::size_t, int rank) -> std::string {
      if (!row.contains("error")) return "it is accepted";
      if (row["error"].at("kind") != "invalid_argument") return "it is rejected as " + row["error"].dump();
      const std::string message = row["error"].at("message");
      std::vector<std::string> words{"bias", "3", std::to_string(rank)};
      if (!has_word(message, "world"))  // which are all ranks
        for (int other = 0; other < asked.ranks; ++other) words.push_back(std::to_string(other));
      if (what == "count") words.emplace_back("4");
      if (!names_type(message, {"f32", "float32", "float", "torch.float32"})) return "f32 is not in '" + message + "'";
      if (what == "dtype" && !names_type(message, {"f64", "float64", "double", "torch.float64"}))
        return "f64 is not in '" + message + "'";
      return missing_words(message, words);
    });
  });
}

// Options and plans that cannot be: by name, what is changed of a question that is answered.
const std::map<std::string, json>& impossible_questions() {
  static const std::map<std::string, json> all{
      {"twice_in_buckets", {{"buckets", {{3}, {2, 1}, {0, 1}}}}},
      {"no_such_gradient", {{"buckets", {{3}, {2, 1}, {0, 4}}}}},
      {"division_of_others", {{"divide_before", 4}}},
      {"names_of_others", {{"names", {"weight", "bias", "scale"}}}},
      {"shapes_of_others", {{"compression", {{"kind", "powersgd"}, {"shapes", {{2, 2}, {3, 1}, {2, 1}, {5, 2}}}}}}},
      {"no_directions",
       {{"compression", {{"kind", "powersgd"}, {"directions", 0}, {"shapes", {{2, 2}, {3, 1}, {2, 1}, {5, 1}}}}}}},
      {"negative_channel", {{"compression", {{"kind", "bytes"}, {"channel", -1}}}}},
      {"instances_of_others", {{"sharded", true}, {"ranks_per_instance", 2}}},
      {"no_buffers", {{"wire", "bf16"}, {"wire_buffers", 0}}}};
  return all;
}
// The same without what is wrong.
const std::map<std::string, json>& possible_questions() {
  static const std::map<std::string, json> all{
      {"twice_in_buckets", {{"buckets", {{3}, {2}, {0, 1}}}}},
      {"no_such_gradient", {{"buckets", {{3}, {2, 1}, {0}}}}},
      {"division_of_others", {{"divide_before", 3}}},
      {"names_of_others", {{"names", {"weight", "bias", "scale", "shift"}}}},
      {"shapes_of_others", {{"compression", {{"kind", "powersgd"}, {"shapes", {{2, 2}, {3, 1}, {2, 1}, {5, 1}}}}}}},
      {"no_directions",
       {{"compression", {{"kind", "powersgd"}, {"directions", 1}, {"shapes", {{2, 2}, {3, 1}, {2, 1}, {5, 1}}}}}}},
      {"negative_channel", {{"compression", {{"kind", "bytes"}, {"channel", 1}}}}},
      {"instances_of_others", {{"sharded", true}, {"ranks_per_instance", 3}}},
      {"no_buffers", {{"wire", "bf16"}, {"wire_buffers", 1}}}};
  return all;
}

// Compression of such small gradients loses no more.
std::string problem_of_possible(const AskedReduction& asked, const json& result) {
  return each_row(result, [&](const json& row, std::size_t step, int) -> std::string {
    if (row.contains("error")) return "a possible one is rejected: " + row["error"].dump();
    const json& got = row.at("grads").at(3);
    return got.is_null() ? "" : problem_of_gradient(asked.right(static_cast<int>(step), 3), got, 0.05);
  });
}

// At once, or when the first exchange begins.
void impossible_is_rejected(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const std::string& what = context.parameters().text("what");
  const auto question_with = [&](const json& changes) {
    json args = question_of_reduction(asked);
    args.update(changes);
    return args;
  };
  judge_reduction(context, question_with(possible_questions().at(what)),
                  [&](const json& result) { return problem_of_possible(asked, result); });
  asked.steps = 1;
  const json args = question_with(impossible_questions().at(what));
  const Answer answer = answer_to(context.adapter(), kReduce, args);
  if (answer.is_refused()) {
    if (answer.kind != "unsupported" && !refuses_bad_value(answer, args))
      report_words("it is refused as " + answer.kind + ": " + answer.message);
    return;
  }
  judge_reduction(context, args, [](const json& result) -> std::string {
    return each_row(result, [](const json& row, std::size_t, int) -> std::string {
      if (!row.contains("error")) return "it is accepted";
      const json& kind = row["error"].at("kind");
      return kind == "invalid_argument" || kind == "unsupported" ? "" : "it is rejected as " + row["error"].dump();
    });
  });
}

// What a call must be rejected as, and its entry of a pass.
const std::map<std::string, std::pair<std::string, json>>& wrong_calls() {
  static const std::map<std::string, std::pair<std::string, json>> all{
      {"nothing", {"", nullptr}},
      {"twice", {"state", {{"gradient", 3}, {"values", {9, 9, 9, 9, 9}}}}},
      {"no_such_gradient", {"out_of_range", {{"gradient", 7}, {"values", {9}}}}},
      {"negative", {"out_of_range", {{"gradient", -1}, {"values", {9}}}}},
      {"rows_of_a_dense_one", {"invalid_argument", {{"gradient", 2}, {"rows", {0}}, {"values", {9}}}}},
      {"unused", {"invalid_argument", {{"gradient", 0}, {"unused", true}}}}};
  return all;
}

void wrong_call_is_rejected(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const auto& [kind, call] = wrong_calls().at(context.parameters().text("what"));
  asked.options["after_rejections"] = true;
  json args = question_of_reduction(asked);
  if (!call.is_null())
    for (json& rows : args["steps"])
      for (json& row : rows) {
        json& pass = row["passes"][0];
        pass.insert(pass.begin() + 1, call);
      }
  judge_reduction(context, args, [&](const json& result) {
    const std::string words = problem_of_reduced(asked, result);
    if (!words.empty()) return words;
    return each_row(result, [&](const json& row, std::size_t, int) -> std::string {
      const json& errors = row.at("rejected").at(0);
      if (errors.size() != (call.is_null() ? 4U : 5U)) return "another number of calls";
      for (std::size_t i = 0; i < errors.size(); ++i) {
        const bool is_wrong = !call.is_null() && i == 1;
        if (errors[i].is_null() == is_wrong) return fmt::format("call {}: {}", i, errors[i].dump());
        if (is_wrong && errors[i].at("kind") != kind) return "it is rejected as " + errors[i].dump();
      }
      return {};
    });
  });
}

// What is wrong, and the numbers that its error must have, in any order.
void errors_have_numbers(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  report_reduction(context, asked);  // what is right
  const std::string& what = context.parameters().text("what");
  asked.steps = 1;
  asked.order = [](int) { return std::vector{1, 3, 2, 0}; };  // nothing has been started when the first one is wrong
  if (what == "missing") asked.produces = [](int, int, int gradient) { return gradient != 3; };
  json args = question_of_reduction(asked);
  std::vector<std::string> numbers;
  if (what == "bucket") args["buckets"] = {{3}, {2, 14}, {0}}, numbers = {"14"};
  if (what == "division") args["divide_before"] = 17, numbers = {"17", std::to_string(asked.ranks)};
  if (what == "missing") numbers = {"3"};
  if (what == "count")
    for (json& row : args["steps"][0]) row["passes"][0][0]["values"] = std::vector<double>(11, 1);
  if (what == "count") numbers = {"1", "11", "3"};
  const Answer answer = answer_to(context.adapter(), kReduce, args);
  if (answer.is_refused()) {
    if (answer.kind == "unsupported") return report_words("refused: " + answer.message);
    return report_words(missing_words(answer.message, numbers));
  }
  judge_reduction(context, args, [&](const json& result) -> std::string {
    return each_row(result, [&](const json& row, std::size_t, int) -> std::string {
      if (!row.contains("error")) return "it is accepted";
      return missing_words(row["error"].at("message").get<std::string>(), numbers);
    });
  });
}

template <class Value>
std::vector<std::string> names_of(const std::map<std::string, Value>& all) {
  std::vector<std::string> names;
  for (const auto& [name, value] : all) names.push_back(name);
  return names;
}

}  // namespace

void add_reduce_call_checks(suite::Suite& suite) {
  const suite::Axis buckets{"buckets", {"each", "some", "one"}}, order{"order", {"plans", "own"}};
  const suite::Axis entries{"entries", {"some", "repeated", "none", "none_on_one", "three", "all", "zeros"}};
  const ReductionChecks add{suite, "bucketing.reduce."};
  const auto fields = [](std::vector<std::string> names) { return AskedOption{kReduce, "fields", std::move(names)}; };
  const auto fields_by = [](const char* parameter, std::map<std::string, std::vector<std::string>> by) {
    return AskedOption{kReduce, "fields", {}, parameter, std::move(by)};
  };
  const auto option = [](const char* argument, const char* value) { return AskedOption{kReduce, argument, {value}}; };
  const std::vector<std::string> rows{"steps.passes.rows"};
  const AskedOption zeros{kReduce, "unused", {}, "lacking", {{"one", {"zeros"}}}};
  const suite::Axis lacking{"lacking", {"nothing", "one"}};
  add("exchange_reads_written", "BUCKET-060@e63f", {order, buckets}, exchange_reads_written,
      {option("exchange", "sum")});
  add("exchange_replaces", "BUCKET-105@7544", {{"exchange", {"sum", "first_rank"}}, buckets},
      exchange_replaces_reduction, {{kReduce, "exchange", {}, "exchange"}});
  add("exchange_ends_with_another", "BUCKET-208@b19e", {{"callbacks", {"no", "yes"}}, {"buckets", {"each", "some"}}},
      exchange_communicates_at_its_end,
      {option("exchange", "sum_twice"), fields_by("callbacks", {{"yes", {"callbacks"}}})});
  add("callbacks", "BUCKET-103@d4d4", {{"passes", {"1", "2"}}, buckets}, called_back, {fields({"callbacks"})});
  add("memory_shared", "BUCKET-100@4595", {{"shared", {"none", "all", "begin", "end"}}}, memory_shared,
      {fields({"positions", "names"})});
  add("in_place", "BUCKET-101@cebc", {lacking}, reduced_in_place, {fields({"positions"}), zeros});
  add("lazy", "BUCKET-215@52e9", {lacking}, memory_is_lazy, {fields({"lazy"}), zeros});
  add("sparse", "BUCKET-210@4f2b", {entries, {"result", {"sum", "mean"}}}, sparse_sum_is_dense,
      {fields({"sparse", "steps.passes.rows"})});
  add("sparse_bytes", "BUCKET-211@132d", {entries}, sparse_bytes,
      {fields({"sparse", "steps.passes.rows", "collectives"})});
  add("sparse_rejected", "BUCKET-212@8e55",
      {{"what",
        {"nothing", "beyond", "below", "uneven", "width", "other_width", "dtype", "a_dense_one",
         "rows_of_a_dense_one"}}},
      sparse_rejected,
      {fields({"sparse", "names"}), fields_by("what", {{"nothing", rows},
                                                       {"beyond", rows},
                                                       {"below", rows},
                                                       {"uneven", rows},
                                                       {"width", rows},
                                                       {"other_width", rows},
                                                       {"dtype", {"steps.passes.rows", "steps.passes.dtype"}},
                                                       {"rows_of_a_dense_one", rows}})});
  add("wire_buffers", "BUCKET-065@ed9f", {{"buffers", {"1", "2", "3"}}}, wire_has_buffers,
      {option("wire", "bf16"), fields({"wire_buffers", "collectives"})});
  add("without_overlap", "BUCKET-225@5000", {buckets}, starts_after_the_pass, {fields({"overlap", "collectives"})});
  add("bytes_travel", "BUCKET-201@89b2", {{"channel", {"0", "16"}}, buckets}, bytes_travel_as_such,
      {option("compression.kind", "bytes"), fields({"collectives"})});
  add("worth", "BUCKET-207@6141", {{"rate", {"0", "2", "1000"}}}, compresses_what_shrinks,
      {option("compression.kind", "powersgd"), fields({"collectives"})});
  add("projections", "BUCKET-204@ee73", {{"feedback", {"on", "off"}}, {"directions", {"1", "2"}}},
      products_are_projections, {option("compression.kind", "powersgd")});
  add("instances", "BUCKET-213@9f39", {{"division", {"in_the_collective", "before", "after", "sum"}}, buckets},
      instances_agree,
      {fields({"sharded", "ranks_per_instance", "initial"}),
       fields_by("division", {{"before", {"divide_before"}}, {"after", {"divide_before"}}})},
      {"4", "6"});
  add("instances_parts", "BUCKET-214@4ccf", {buckets}, instances_reduce_their_parts,
      {fields({"sharded", "ranks_per_instance", "collectives"})}, {"4", "6"});
  add("plans_differ", "BUCKET-066@f421", {{"differs", {"nothing", "numel", "buckets", "order"}}}, plans_differ,
      {fields({"plans", "names"})});
  add("gradient_is_another", "BUCKET-067@2b3e", {{"what", {"nothing", "count", "dtype"}}}, gradient_is_another,
      {fields({"names"}), fields_by("what", {{"dtype", {"steps.passes.dtype"}}})});
  add("impossible", "BUCKET-216@7b9c", {{"what", names_of(impossible_questions())}}, impossible_is_rejected,
      {fields_by("what", {{"division_of_others", {"divide_before"}},
                          {"names_of_others", {"names"}},
                          {"instances_of_others", {"sharded", "ranks_per_instance"}},
                          {"no_buffers", {"wire_buffers"}}}),
       AskedOption{kReduce, "wire", {}, "what", {{"no_buffers", {"bf16"}}}},
       AskedOption{
           kReduce,
           "compression.kind",
           {},
           "what",
           {{"shapes_of_others", {"powersgd"}}, {"no_directions", {"powersgd"}}, {"negative_channel", {"bytes"}}}}},
      {"3"});
  add("wrong_calls", "BUCKET-217@532e", {{"what", names_of(wrong_calls())}}, wrong_call_is_rejected,
      {fields({"after_rejections"}),
       fields_by("what", {{"rows_of_a_dense_one", {"steps.passes.rows"}}, {"unused", {"steps.passes.unused"}}})});
  add("errors_have_numbers", "BUCKET-224@55b2", {{"what", {"bucket", "division", "missing", "count"}}},
      errors_have_numbers, {fields_by("what", {{"division", {"divide_before"}}})});
}

}  // namespace plumbline::conformance

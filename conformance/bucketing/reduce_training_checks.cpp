// Training whose gradients an adapter reduces in buckets, beside the same training on a single device.
//
// Model   Two layers with tanh between them, and squared errors. A step's gradients are computed here, from the values
//         that the answers of all steps before it have led to; the run is asked again with each step more, so that what
//         the adapter keeps from step to step is in it.
#include <algorithm>
#include <cmath>
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

constexpr std::size_t kInputs = 3, kHidden = 4, kSpare = 2;  // the last parameter has elements that no pass uses
constexpr double kRate = 0.2;

using Tensor = std::vector<double>;
using Tensors = std::vector<Tensor>;  // weights and biases of both layers, and the spare parameter

struct Example {
  Tensor input;
  double target = 0;
};
using Batch = std::vector<Example>;

Example drawn_example(int number) {
  const auto value = [&](int i) { return ((number * 37 + i * 11) % 23 - 11) / 11.0; };
  return {{value(1), value(2), value(3)}, value(4)};
}
// A rank's rows of a pass. Those of all ranks are different.
Batch batch_of(int step, int pass, int rank, int count) {
  Batch rows;
  for (int i = 0; i < count; ++i) rows.push_back(drawn_example(((step * 5 + pass) * 7 + rank) * 11 + i));
  return rows;
}

Tensors first_values() {
  Tensors all{Tensor(kInputs * kHidden), Tensor(kHidden), Tensor(kHidden), Tensor(1), Tensor(kSpare, 1.0)};
  int number = 0;
  for (Tensor& tensor : all)
    for (double& value : tensor) value = ((number++ * 13) % 17 - 8) / 10.0;
  return all;
}

// The mean of squared errors over rows, and its gradient.
std::pair<double, Tensors> loss_and_gradients(const Tensors& values, const Batch& rows) {
  Tensors gradients;
  for (const Tensor& tensor : values) gradients.emplace_back(tensor.size());
  double loss = 0;
  const double share = 1.0 / static_cast<double>(rows.size());
  for (const Example& row : rows) {
    Tensor hidden(kHidden);
    double output = values[3][0];
    for (std::size_t j = 0; j < kHidden; ++j) {
      double sum = values[1][j];
      for (std::size_t i = 0; i < kInputs; ++i) sum += values[0][j * kInputs + i] * row.input[i];
      hidden[j] = std::tanh(sum);
      output += values[2][j] * hidden[j];
    }
    const double error = output - row.target, slope = 2 * error * share;
    loss += error * error * share;
    gradients[3][0] += slope;
    for (std::size_t j = 0; j < kHidden; ++j) {
      gradients[2][j] += slope * hidden[j];
      const double inner = slope * values[2][j] * (1 - hidden[j] * hidden[j]);
      gradients[1][j] += inner;
      for (std::size_t i = 0; i < kInputs; ++i) gradients[0][j * kInputs + i] += inner * row.input[i];
    }
  }
  return {loss, gradients};
}

void update(Tensors& values, const Tensors& gradients) {
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < values[i].size(); ++j) values[i][j] -= kRate * gradients[i][j];
}

Tensors mean_over(const std::vector<Tensors>& all, double divisor) {
  Tensors mean = all.front();
  for (std::size_t i = 0; i < mean.size(); ++i)
    for (std::size_t j = 0; j < mean[i].size(); ++j) {
      mean[i][j] = 0;
      for (const Tensors& one : all) mean[i][j] += one[i][j] / divisor;
    }
  return mean;
}

// "" where all values are that near, relative to the largest of their tensor and to 0.01.
std::string problem_of_tensors(const Tensors& right, const Tensors& got, double nearness, const char* what) {
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (got[i].size() != right[i].size()) return fmt::format("{} {} has {} elements", what, i, got[i].size());
    double largest = 0.01;
    for (const double value : right[i]) largest = std::max(largest, std::abs(value));
    for (std::size_t j = 0; j < right[i].size(); ++j)
      if (!(std::abs(got[i][j] - right[i][j]) <= nearness * largest))
        return fmt::format("{} {}, element {} is {}, a single device's {}", what, i, j, got[i][j], right[i][j]);
  }
  return {};
}

struct Training {
  int ranks = 3, steps = 4, passes = 1;
  GradientLists buckets;
  json options = json::object();
  double nearness = 1e-5;
  std::function<int(int step, int rank)> rows = [](int, int) { return 2; };  // of a pass; 0: none are left
  double divisor = 0;                                                        // 0: ranks with rows
  std::function<std::string(int step, const std::vector<Tensors>& own, const Tensors& got)> judge_step{};
};

// Reads a row's gradients, null as zeros, each as long as its parameter: they are taken off it. "" or what is wrong.
std::string read_gradients(const json& row, const Tensors& values, Tensors& all) {
  if (std::string words = problem_of_rejection(row); !words.empty()) return words;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const json& got = row.at("grads").at(i);
    all.push_back(got.is_null() ? Tensor(values[i].size()) : got.get<Tensor>());
    if (all.back().size() != values[i].size())
      return fmt::format("gradient {} has {} elements, its parameter {}", i, all.back().size(), values[i].size());
  }
  return {};
}

class TrainedHere {
 public:
  TrainedHere(Context& context, const Training& training)
      : context_(context), training_(training), single_(first_values()), values_(first_values()) {
    for (const Tensor& tensor : values_) args_["numel"].push_back(tensor.size());
    args_.update({{"world_size", training.ranks}, {"buckets", training.buckets}, {"steps", json::array()}});
    args_.update(training.options);
  }

  std::string run() {
    std::string words;
    for (int step = 0; step < training_.steps && words.empty(); ++step) {
      const std::vector<Tensors> own = add_step(step);
      words =
          problem_of_reduction(context_.adapter(), args_, [&](const json& result) { return judge(step, own, result); });
      if (!words.empty()) words = fmt::format("step {}: {}", step, words);
    }
    return words;
  }

 private:
  // What each rank with rows has, of the values that it has now; asked in a step more.
  std::vector<Tensors> add_step(int step) {
    std::vector<Tensors> own;
    json& rows = args_["steps"].emplace_back(json::array());
    for (int rank = 0; rank < training_.ranks; ++rank) {
      json& row = rows.emplace_back(json::object());
      const int count = training_.rows(step, rank);
      if (count == 0) continue;
      Tensors all(values_.size());
      for (int pass = 0; pass < training_.passes; ++pass) {
        Tensors gradients = loss_and_gradients(values_, batch_of(step, pass, rank, count)).second;
        json list = json::array();
        for (std::size_t i = gradients.size() - 1; i-- > 0;) {
          for (double& value : gradients[i]) value /= training_.passes;
          list.push_back({{"gradient", i}, {"values", gradients[i]}});
        }
        row["passes"].push_back(std::move(list));
        for (std::size_t i = 0; i < all.size(); ++i) {
          all[i].resize(gradients[i].size());
          for (std::size_t j = 0; j < all[i].size(); ++j) all[i][j] += i + 1 == all.size() ? 0 : gradients[i][j];
        }
      }
      own.push_back(std::move(all));
    }
    return own;
  }
  // All rows of the step, on one device.
  Tensors right_gradients(int step, const std::vector<Tensors>& own) const {
    if (training_.divisor != 0) return mean_over(own, training_.divisor);
    std::vector<Tensors> all;
    for (int pass = 0; pass < training_.passes; ++pass) {
      Batch rows;
      for (int rank = 0; rank < training_.ranks; ++rank)
        for (const Example& row : batch_of(step, pass, rank, training_.rows(step, rank))) rows.push_back(row);
      all.push_back(loss_and_gradients(single_, rows).second);
    }
    return mean_over(all, training_.passes);
  }
  std::string judge(int step, const std::vector<Tensors>& own, const json& result) {
    const json& rows = result.at("steps").at(static_cast<std::size_t>(step));
    Tensors got;
    for (int rank = 0; rank < training_.ranks; ++rank) {
      if (training_.rows(step, rank) == 0) continue;
      Tensors mine;
      if (std::string words = read_gradients(rows.at(static_cast<std::size_t>(rank)), values_, mine); !words.empty())
        return fmt::format("rank {}: {}", rank, words);
      if (got.empty()) got = mine;
      if (mine != got) return fmt::format("rank {} has another gradient", rank);
    }
    std::string words;
    if (training_.judge_step) {
      words = training_.judge_step(step, own, got);
    } else {
      const Tensors right = right_gradients(step, own);
      words = problem_of_tensors(right, got, training_.nearness, "gradient");
      update(single_, right);
    }
    update(values_, got);
    if (!words.empty() || training_.judge_step) return words;
    const Batch later = batch_of(step, 0, 0, 5);
    const double loss = loss_and_gradients(values_, later).first, right_loss = loss_and_gradients(single_, later).first;
    if (!(std::abs(loss - right_loss) <= training_.nearness * std::max(1.0, right_loss)))
      return fmt::format("the loss is {}, a single device's {}", loss, right_loss);
    return problem_of_tensors(single_, values_, training_.nearness, "parameter");
  }

  Context& context_;
  const Training& training_;
  Tensors single_, values_;  // of the single device, and of each rank
  json args_ = json::object();
};

GradientLists trained_buckets(const std::string& name) {
  if (name == "each") return {{3}, {2}, {1}, {0}};
  if (name == "one") return {{3, 2, 1, 0}};
  return {{3, 2}, {1, 0}};
}

Training training_in(const Context& context) {
  Training training{.ranks = static_cast<int>(context.parameters().number("ranks"))};
  training.buckets =
      trained_buckets(context.parameters().has("buckets") ? context.parameters().text("buckets") : "some");
  return training;
}

void trained_in_buckets(Context& context) { report_words(TrainedHere(context, training_in(context)).run()); }

void trained_in_16_bits(Context& context) {
  Training training = training_in(context);
  const std::string& wire = context.parameters().text("wire");
  training.options["wire"] = wire;
  training.nearness = wire == "f16" ? 0x1p-7 : 0x1p-4;
  report_words(TrainedHere(context, training).run());
}

// The spare parameter is in the last bucket, and no pass produces its gradient.
void trained_with_a_static_graph(Context& context) {
  Training training = training_in(context);
  training.buckets.back().push_back(4);
  training.passes = static_cast<int>(context.parameters().number("passes"));
  training.options["unused"] = "static_graph";
  if (context.parameters().text("buckets_are") == "rebuilt") training.options["rebuild_bytes"] = 32;
  report_words(TrainedHere(context, training).run());
}

// In the last two steps the last rank has no rows, and in the last one rank 1 has none, if there are three.
void trained_with_uneven_batches(Context& context) {
  Training training = training_in(context);
  const std::string& divisor = context.parameters().text("divisor");
  training.options["join"] = divisor;
  const int ranks = training.ranks, steps = training.steps;
  training.rows = [=](int step, int rank) {
    return (rank == ranks - 1 && step >= steps - 2) || (ranks > 2 && rank == 1 && step == steps - 1) ? 0 : 2;
  };
  if (divisor == "initial_world") training.divisor = ranks;
  report_words(TrainedHere(context, training).run());
}

// The mean of the ranks' scales, where a bucket is a channel.
double mean_scale(const std::vector<Tensors>& own, const std::vector<int>& bucket) {
  double sum = 0;
  for (const Tensors& one : own) {
    double low = 0, high = 0;
    for (const int gradient : bucket)
      for (const double value : one[static_cast<std::size_t>(gradient)])
        low = std::min(low, value), high = std::max(high, value);
    sum += (high - low) / 255;
  }
  return sum / static_cast<double>(own.size());
}

void trained_in_bytes(Context& context) {
  Training training = training_in(context);
  training.options["compression"] = {{"kind", "bytes"}};
  training.judge_step = [&](int, const std::vector<Tensors>& own, const Tensors& got) -> std::string {
    const Tensors right = mean_over(own, training.ranks);
    for (const std::vector<int>& bucket : training.buckets) {
      const double bound = mean_scale(own, bucket) * (0.5 + 1e-3) + 1e-6;
      for (const int gradient : bucket) {
        const auto at = static_cast<std::size_t>(gradient);
        for (std::size_t j = 0; j < right[at].size(); ++j)
          if (!(std::abs(got[at][j] - right[at][j]) <= bound))
            return fmt::format("gradient {}, element {} is {}, a single device's {}", gradient, j, got[at][j],
                               right[at][j]);
      }
    }
    return {};
  };
  report_words(TrainedHere(context, training).run());
}

// A rank's running statistic is half of what it had and half of the mean of a pass; rank 0's is everyone's where the
// last pass of an update begins.
void trained_with_statistics(Context& context) {
  AskedReduction asked = reduction_in_case(context);
  const int passes = static_cast<int>(context.parameters().number("passes"));
  asked.passes = [passes](int, int) { return passes; };
  std::vector<double> statistics(static_cast<std::size_t>(asked.ranks));
  const auto batch = [](int step, int pass, int rank) { return 8.0 * ((step * 5 + pass * 3 + rank * 7) % 11); };
  json args = question_of_reduction(asked);
  std::vector<std::vector<std::vector<double>>> right;  // of each step, rank and pass
  for (int step = 0; step < asked.steps; ++step) {
    auto& rows = right.emplace_back(static_cast<std::size_t>(asked.ranks));
    for (int pass = 0; pass < passes; ++pass) {
      for (std::size_t rank = 0; rank < statistics.size(); ++rank)
        args["steps"][static_cast<std::size_t>(step)][rank]["buffers"].push_back({statistics[rank]});
      if (pass + 1 == passes) std::ranges::fill(statistics, statistics.front());
      for (std::size_t rank = 0; rank < statistics.size(); ++rank) {
        rows[rank].push_back(statistics[rank]);
        statistics[rank] = statistics[rank] / 2 + batch(step, pass, static_cast<int>(rank)) / 2;
      }
    }
  }
  report_words(problem_of_reduction(context.adapter(), args, [&](const json& result) {
    const std::string words = problem_of_reduced(asked, result);
    if (!words.empty()) return words;
    return each_row(result, [&](const json& row, std::size_t step, int rank) {
      json expected = json::array();
      for (const double value : right[step][static_cast<std::size_t>(rank)]) expected.push_back({value});
      return first_difference(expected, row.at("buffers"), "running statistics");
    });
  }));
}

}  // namespace

void add_reduce_training_checks(suite::Suite& suite) {
  const suite::Axis buckets{"buckets", {"each", "some", "one"}};
  const ReductionChecks add{suite, "bucketing.trained."};
  add("in_buckets", "BUCKET-070@8db0", {buckets}, trained_in_buckets);
  add("in_16_bits", "BUCKET-080@a8a4", {{"wire", {"f16", "bf16"}}, buckets}, trained_in_16_bits,
      {{kReduce, "wire", {}, "wire"}});
  add("static_graph", "BUCKET-081@66a8", {{"passes", {"1", "2"}}, {"buckets_are", {"kept", "rebuilt"}}, buckets},
      trained_with_a_static_graph,
      {{kReduce, "unused", {"static_graph"}},
       {kReduce, "fields", {}, "buckets_are", {{"rebuilt", {"rebuild_bytes"}}}}});
  add("uneven_batches", "BUCKET-082@891e", {{"divisor", {"initial_world", "present_ranks"}}, buckets},
      trained_with_uneven_batches, {{kReduce, "join", {}, "divisor"}});
  add("statistics", "BUCKET-083@6785", {{"passes", {"1", "3"}}}, trained_with_statistics,
      {{kReduce, "fields", {"steps.buffers"}}});
  add("in_bytes", "BUCKET-209@f201", {buckets}, trained_in_bytes, {{kReduce, "compression.kind", {"bytes"}}});
}

}  // namespace plumbline::conformance

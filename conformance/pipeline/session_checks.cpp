// Pipelines batch by batch: shapes and numbers of micro-batches that change, evaluation between, what is kept and
// counted, lists of tensors, shared parameters by themselves.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/pipeline/pipeline_cases.hpp"
#include "conformance/support/claimed_type.hpp"
#include "conformance/training/bounds.hpp"
#include "conformance/training/compare.hpp"
#include "conformance/training/report.hpp"
#include "reference/comm/errors.hpp"
#include "reference/record/layout.hpp"
#include "reference/record/run_files.hpp"
#include "reference/training/training.hpp"

namespace plumbline::conformance {

using suite::Context;
using training::Arithmetic;

namespace {

constexpr std::string_view kShapes = "PIPE-007@395e";
constexpr std::string_view kSurvive = "PIPE-008@4164";
constexpr std::string_view kActivations = "PIPE-009@a908";
constexpr std::string_view kEvaluation = "PIPE-011@f627";
constexpr std::string_view kLists = "PIPE-012@e59e";
constexpr std::string_view kProducts = "PIPE-013@f62c";
constexpr std::string_view kSteps = "PIPE-014@a341";
constexpr std::string_view kShared = "PIPE-015@3541";
constexpr std::string_view kStatistics = "PIPE-016@9f6b";

using Rows = std::vector<job::RowRange>;

// Micro-batches of these numbers of rows, one after the other in a batch.
Rows rows_of(std::int64_t batch, const std::vector<std::int64_t>& counts) {
  Rows rows;
  std::int64_t next = 0;
  for (const std::int64_t count : counts) {
    rows.push_back({.batch = batch, .first_row = next, .rows = count});
    next += count;
  }
  return rows;
}
Rows equal_rows(std::int64_t batch, int micro_batches, std::int64_t rows) {
  return rows_of(batch, std::vector<std::int64_t>(static_cast<std::size_t>(micro_batches), rows));
}

std::vector<float> narrowed(const std::vector<double>& values) { return {values.begin(), values.end()}; }

double unit_roundoff_of(const job::RunSpec& spec) { return unit_roundoff(compute_dtype(spec.run.dtype)); }

// ---- a step on a single device ----

// All calls of a step, at the given weights. Where every call has as many micro-batches as the others, one device that
// takes them all in one go makes the same operations in the same order.
class SingleStep {
 public:
  SingleStep(Context& context, const job::RunSpec& spec, const std::vector<Rows>& calls)
      : spec_(spec), values_(training::given_weights(spec)) {
    const auto baseline = [&](const std::vector<Rows>& slices, Arithmetic arithmetic) {
      return context.oracle().baseline(spec, slices, values_, arithmetic, context.device());
    };
    wide_ = baseline(calls, Arithmetic::float64);
    narrow_ = baseline(calls, Arithmetic::float32);
    const bool alike = std::ranges::adjacent_find(calls, std::not_equal_to<>(), &Rows::size) == calls.end();
    if (!alike || spec.run.schedule == "looped-bfs") return;
    Rows all;
    for (const Rows& rows : calls) all.insert(all.end(), rows.begin(), rows.end());
    in_order_ = baseline({all}, Arithmetic::float32).slices.front();
  }

  /// Compares what a rank has gathered: bits where the order is known, else by the bound of other programs.
  [[nodiscard]] std::optional<Finding> finding(const std::string& name, const std::vector<double>& gradient,
                                               Finding finding) const {
    std::vector<Finding> found;
    Largest unused;
    if (in_order_)
      compare_bits(narrowed(gradient), narrowed(in_order_->gradients.at(name)), std::move(finding), found);
    else
      compare_within(
          narrowed(gradient), wide_.mean.gradients.at(name), [&](std::size_t) { return bound(name); },
          std::move(finding), found, unused);
    return found.empty() ? std::nullopt : std::optional(found.front());
  }
  /// The names of the parameters that a rank holds.
  [[nodiscard]] std::set<std::string> held_by(int rank) const {
    const int pipeline = job::coordinates_of(spec_.parallel, rank).pipeline;
    std::set<std::string> names;
    for (const job::Parameter& parameter : job::parameters_of(spec_))
      if (std::ranges::count(job::holders_of(spec_, parameter), pipeline) > 0) names.insert(parameter.name);
    return names;
  }
  /// Whether it is what the last call alone would have left.
  [[nodiscard]] bool is_of_last_call(const std::string& name, const std::vector<double>& gradient) const {
    if (wide_.slices.size() < 2) return false;
    std::vector<double> last = wide_.slices.back().gradients.at(name);
    if (gradient.size() != last.size()) return false;
    for (double& value : last) value /= static_cast<double>(wide_.slices.size());
    return distance(gradient, last) <= bound(name);
  }

 private:
  [[nodiscard]] double bound(const std::string& name) const {
    double largest = 0;
    for (const training::LossGradient& slice : wide_.slices)
      largest = std::max(largest, largest_of(slice.gradients.at(name)));
    return bound_beside(distance(narrow_.mean.gradients.at(name), wide_.mean.gradients.at(name)), largest,
                        unit_roundoff_of(spec_));
  }

  const job::RunSpec& spec_;
  training::Values values_;
  training::Baseline wide_, narrow_;
  std::optional<training::LossGradient> in_order_;
};

void compare(Context& context, std::string_view citation, int step, const SingleStep& expected,
             training::PipelineSession& session) {
  const training::Gradients gradients = session.gradients();
  std::set<std::string> names;
  for (const auto& [name, gradient] : gradients) names.insert(name);
  ASSERT_EQ(names, expected.held_by(context.rank()))
      << id_of(citation) << ": rank " << context.rank() << ": the parameters that have gradients";
  std::vector<Finding> findings;
  for (const auto& [name, gradient] : gradients) {
    auto found = expected.finding(name, gradient,
                                  {.requirement = id_of(citation),
                                   .step = step,
                                   .rank = context.rank(),
                                   .parameter = name,
                                   .what = "the gradient is not that of a single device"});
    if (!found) continue;
    if (citation == kShapes && expected.is_of_last_call(name, gradient)) {
      found->requirement = id_of(kSurvive);
      found->what = "the gradient is that of the last call alone";
    }
    findings.push_back(std::move(*found));
  }
  report(findings);
}

// Whether the body came to its end. A refusal of what is legal is a failure of the requirement, not of the check.
template <class Body>
bool not_refused(Context& context, std::string_view citation, const Body& body) {
  try {
    body();
    return true;
  } catch (const comm::PeerFailed&) {
    throw;  // the peer says why
  } catch (const std::exception& error) {
    ADD_FAILURE() << id_of(citation) << ": rank " << context.rank() << ": " << error.what();
    return false;
  }
}

// The file of a session's rows; it cuts by itself.
job::RunSpec prepared_for_session(Context& context, std::int64_t rows) {
  training::DigitsRun settings = settings_of(context);
  settings.micro_batches = 1;
  settings.global_batch = rows;
  return prepared(context, settings);
}

// ---- shapes ----

// Three calls. The numbers of micro-batches are those that every schedule here has.
std::vector<Rows> calls_named(const std::string& shapes) {
  if (shapes == "per_call") return {equal_rows(0, 4, 2), equal_rows(1, 4, 5), equal_rows(2, 4, 1)};
  if (shapes == "per_micro_batch")
    return {rows_of(0, {4, 1, 3, 2}), rows_of(1, {1, 6, 2, 5}), rows_of(2, {2, 2, 7, 1})};
  if (shapes == "per_count") return {equal_rows(0, 6, 3), equal_rows(1, 4, 3), equal_rows(2, 5, 3)};
  return {equal_rows(0, 4, 3), equal_rows(1, 4, 3), equal_rows(2, 4, 3)};
}

void shapes(Context& context) {
  const job::RunSpec spec = prepared_for_session(context, 20);
  const std::vector<Rows> calls = calls_named(context.parameters().text("shapes"));
  const auto session = context.training().pipeline(spec, context.world(), {});
  if (!not_refused(context, kShapes, [&] {
        for (const Rows& rows : calls) (void)session->train(rows, static_cast<int>(calls.size()));
      }))
    return;
  compare(context, kShapes, 0, SingleStep(context, spec, calls), *session);
}

// ---- steps ----

// Two calls of one form, then of another, then of the first again.
std::vector<Rows> calls_of_step(int step) {
  if (step % 2 == 1) return {equal_rows(2, 6, 2), equal_rows(1, 6, 2)};
  return {equal_rows(0, 4, 3), equal_rows(1, 4, 3)};
}

void steps(Context& context) {
  const job::RunSpec spec = prepared_for_session(context, 20);
  const auto session = context.training().pipeline(spec, context.world(), {});
  for (int step = 0; step < number_or(context.parameters(), "steps", 1); ++step) {
    session->clear_gradients();
    const std::vector<Rows> calls = calls_of_step(step);
    if (!not_refused(context, kSteps, [&] {
          for (const Rows& rows : calls) (void)session->train(rows, static_cast<int>(calls.size()));
        }))
      return;
    compare(context, kSteps, step, SingleStep(context, spec, calls), *session);
  }
}

// ---- evaluation ----

// The mean cross-entropy of a micro-batch's outputs, ten a row, at its labels.
double loss_of_outputs(const job::RunFiles& files, const job::RowRange& rows, const float* outputs) {
  constexpr int classes = 10;
  std::vector<std::int64_t> labels(static_cast<std::size_t>(rows.rows));
  files.read_y(rows, std::span(labels));
  double loss = 0;
  for (std::size_t row = 0; row < labels.size(); ++row, outputs += classes) {
    double sum = 0;
    for (int k = 0; k < classes; ++k) sum += std::exp(static_cast<double>(outputs[k]));
    loss += std::log(sum) - static_cast<double>(outputs[labels[row]]);
  }
  return loss / static_cast<double>(labels.size());
}

// On the ranks of the last stage: each micro-batch has its own loss, and its own rows' outputs.
void judge_evaluation(Context& context, const job::RunSpec& spec, const Rows& evaluated,
                      const training::PipelineOutcome& outcome) {
  const std::string who = fmt::format("{}: rank {}: ", id_of(kEvaluation), context.rank());
  const int rank = job::coordinates_of(spec.parallel, context.rank()).pipeline;
  ASSERT_EQ(outcome.losses.empty(), rank != job::last_pipeline_rank(spec)) << who << "the last stage alone has losses";
  if (outcome.losses.empty()) return;
  std::int64_t rows = 0;
  for (const job::RowRange& one : evaluated) rows += one.rows;
  ASSERT_EQ(outcome.outputs.size(), static_cast<std::size_t>(10 * rows)) << who << "ten outputs a row";
  ASSERT_EQ(outcome.losses.size(), evaluated.size()) << who << "a loss for each micro-batch";
  const job::RunFiles files(spec);
  const training::Values weights = training::given_weights(spec);
  const float* outputs = outcome.outputs.data();
  for (std::size_t i = 0; i < evaluated.size(); ++i) {
    const auto alone = [&](Arithmetic arithmetic) {
      return context.oracle().baseline(spec, {{evaluated[i]}}, weights, arithmetic, context.device()).mean.loss;
    };
    const double wide = alone(Arithmetic::float64);
    const double bound =
        bound_beside(std::fabs(alone(Arithmetic::float32) - wide), 1 + std::fabs(wide), unit_roundoff_of(spec));
    EXPECT_NEAR(outcome.losses[i], wide, bound) << who << "the loss of micro-batch " << i;
    EXPECT_NEAR(loss_of_outputs(files, evaluated[i], outputs), wide, bound)
        << who << "the outputs of micro-batch " << i << " are not of its rows";
    outputs += 10 * evaluated[i].rows;
  }
}

// Evaluates before a step, or between its two calls.
void evaluation(Context& context) {
  const int micro_batches = micro_batches_of(context.parameters());
  const job::RunSpec spec = prepared_for_session(context, std::int64_t{5} * micro_batches);
  const bool first = context.parameters().text("when") == "ahead_of_the_step";
  const Rows evaluated = equal_rows(2, micro_batches, 5);
  const std::vector<Rows> calls{equal_rows(0, micro_batches, 3), equal_rows(1, micro_batches, 3)};
  const auto session = context.training().pipeline(spec, context.world(), {});
  const bool ran = not_refused(context, kEvaluation, [&] {
    if (!first) (void)session->train(calls[0], 2);
    const training::PipelineOutcome outcome = session->evaluate(evaluated);
    judge_evaluation(context, spec, evaluated, outcome);
    EXPECT_LE(outcome.peak_activations, 1)
        << id_of(kEvaluation) << ": rank " << context.rank() << ": something is kept for a backward pass";
    if (first) (void)session->train(calls[0], 2);
    (void)session->train(calls[1], 2);
  });
  if (ran) compare(context, kEvaluation, 0, SingleStep(context, spec, calls), *session);
}

// ---- what is kept and counted ----

// The most (stage, micro-batch) pairs that a rank of p keeps at once, of m micro-batches: as the schedules' papers say.
int activations_of(const std::string& schedule, int p, int rank, int m) {
  constexpr int chunks = 2;
  if (schedule == "gpipe") return m;
  if (schedule == "looped-bfs") return chunks * m;
  if (schedule == "1f1b") return std::min(p - rank, m);
  if (schedule == "zb-h1") return std::min(p, m);
  const int round = m / std::max(1, m / p);
  return std::min(chunks * m, (chunks - 1) * round + 2 * (p - rank - 1) + 1);  // interleaved-1f1b
}

void activations(Context& context) {
  training::DigitsRun settings = settings_of(context);
  const auto rows_of_each = settings.global_batch / settings.micro_batches;
  // One more than ranks: a single round of an interleaved schedule, which is longer than p.
  for (const int micro_batches : {settings.micro_batches, context.size() + 1}) {
    settings.micro_batches = micro_batches;
    settings.global_batch = rows_of_each * micro_batches;
    const job::RunSpec spec = prepared(context, settings);
    const auto session = context.training().pipeline(spec, context.world(), {});
    const Rows rows = job::micro_batches_of(spec, 0, 0);
    const int expected = activations_of(spec.run.schedule, spec.parallel.pipeline, context.rank(), micro_batches);
    for (int call = 0; call < 2; ++call)
      EXPECT_EQ(session->train(rows, 2).peak_activations, expected)
          << id_of(kActivations) << ": rank " << context.rank() << ", " << micro_batches << " micro-batches, call "
          << call << ": activations at once";
    context.world().barrier();  // the next run's files replace these
  }
}

// A linear layer takes one product forwards, one for its weight and one for its input, which the first has no use for.
void products(Context& context) {
  training::DigitsRun settings = settings_of(context);
  settings.device = "cpu";  // where they are counted
  const job::RunSpec spec = prepared(context, settings);
  std::int64_t expected = 0;
  for (std::size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const int stage = job::stage_of_layer(spec, static_cast<int>(layer));
    if (!std::holds_alternative<job::Linear>(spec.layers[layer]) ||
        job::pipeline_rank_of_stage(spec, stage) != context.rank())
      continue;
    expected += (layer == 0 ? 2 : 3) * std::int64_t{settings.micro_batches};
  }
  const auto session = context.training().pipeline(spec, context.world(), {});
  const Rows rows = job::micro_batches_of(spec, 0, 0);
  for (int call = 0; call < 2; ++call) {
    const std::int64_t products = session->train(rows, 2).matrix_products;
    const std::string who = fmt::format("{}: rank {}, call {}: ", id_of(kProducts), context.rank(), call);
    EXPECT_LE(products, expected) << who << "matrix products";
    EXPECT_GT(products, 0) << who << "no matrix product was counted";
  }
}

// ---- lists ----

training::ListModel list_model_of(Context& context) {
  const suite::Parameters& parameters = context.parameters();
  const std::string wire = text_or(parameters, "wire", "f32");
  training::ListModel model{.several = text_or(parameters, "list", "several") == "several",
                            .schedule = parameters.text("schedule"),
                            .chunks = chunks_of(parameters),
                            .seed = context.seed()};
  if (wire != "f32") {
    model.wire = wire == "f16" ? comm::DType::f16 : comm::DType::bf16;
    require_claimed(context, *model.wire);
  }
  return model;
}

// Two calls; in the first, micro-batches differ in their rows.
std::vector<Rows> calls_of_lists(int micro_batches) {
  std::vector<std::int64_t> counts;
  for (int i = 0; i < micro_batches; ++i) counts.push_back(2 + i % 3);
  return {rows_of(0, counts), equal_rows(1, micro_batches, 3)};
}

void compare_values(Context& context, std::string_view citation, const std::string& name, const char* what,
                    const std::vector<float>& got, const std::vector<float>& expected) {
  std::vector<Finding> findings;
  ASSERT_EQ(got.size(), expected.size()) << id_of(citation) << ": " << name;
  compare_bits(got, expected, {.requirement = id_of(citation), .rank = context.rank(), .parameter = name, .what = what},
               findings);
  report(findings);
}

void lists(Context& context) {
  const training::ListModel model = list_model_of(context);
  const std::vector<Rows> calls = calls_of_lists(micro_batches_of(context.parameters()));
  const auto session = context.training().list_pipeline(model, context.world());
  const auto baseline = context.oracle().list_baseline(model, context.size() * model.chunks, calls);
  const std::string who = fmt::format("{}: rank {}: ", id_of(kLists), context.rank());
  const bool has_last_stage = context.rank() == (job::goes_back(model.schedule) ? 0 : context.size() - 1);
  const bool ran = not_refused(context, kLists, [&] {
    std::vector<double> losses;
    for (const Rows& rows : calls) {
      const auto outcome = session->train(rows, 2);
      losses.insert(losses.end(), outcome.losses.begin(), outcome.losses.end());
    }
    EXPECT_EQ(losses, has_last_stage ? baseline.losses : std::vector<double>()) << who << "the losses";
  });
  if (!ran) return;
  const training::Gradients gradients = session->gradients();
  EXPECT_EQ(gradients.size(), 2 * static_cast<std::size_t>(model.chunks)) << who << "two weights of each stage";
  for (const auto& [name, gradient] : gradients)
    compare_values(context, kLists, name, "the gradient is not that of a single device", narrowed(gradient),
                   narrowed(baseline.gradients.at(name)));
}

void statistics(Context& context) {
  const training::ListModel model = list_model_of(context);
  const int micro_batches = micro_batches_of(context.parameters());
  const std::vector<Rows> calls = calls_of_lists(micro_batches);
  const auto session = context.training().list_pipeline(model, context.world());
  const auto baseline = context.oracle().list_baseline(model, context.size() * model.chunks, calls);
  for (const Rows& rows : calls) {
    (void)session->train(rows, 2);
    if (context.parameters().text("evaluates") == "yes") (void)session->evaluate(equal_rows(2, micro_batches, 4));
  }
  const training::Values own = session->statistics();
  EXPECT_EQ(own.size(), 2 * static_cast<std::size_t>(model.chunks)) << id_of(kStatistics) << ": a mean and a variance";
  for (const auto& [name, values] : own)
    compare_values(context, kStatistics, name, "the running statistic is not that of a single device", values,
                   baseline.statistics.at(name));
}

// ---- shared parameters ----

struct Shared {
  std::string name;
  std::vector<int> ranks;
  comm::DType dtype;
  std::size_t elements;
  int without = -1;  // the rank that has no gradient
};

std::vector<int> ranks_below(int end) {
  std::vector<int> ranks;
  for (int rank = 0; rank < end; ++rank) ranks.push_back(rank);
  return ranks;
}

std::vector<Shared> shared_named(const std::string& copies, int world) {
  const std::vector<int> all = ranks_below(world), ends{0, world - 1};
  std::vector<Shared> list{{"a", all, comm::DType::f32, 5}};
  if (copies == "of_one_type") return list;
  list.push_back({"b", all, comm::DType::f32, 2, copies == "unused_somewhere" ? 1 : -1});
  if (copies == "unused_somewhere") return list;
  list.push_back({"c", all, comm::DType::f64, 3});
  list.push_back({"d", ends, comm::DType::f32, 4});
  list.push_back({"e", all, comm::DType::f16, 7});
  list.push_back({"f", ends, comm::DType::f64, 1});
  return list;
}

// Small whole numbers, whose sums are exact in every type, another one at each place of each rank.
std::vector<double> numbers_of(const Shared& one, int rank, int first) {
  std::vector<double> values(one.elements);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + 16 * rank + static_cast<double>(i);
  return values;
}

std::vector<double> sum_of(const Shared& one) {
  std::vector<double> sum(one.elements);
  for (const int rank : one.ranks) {
    if (rank == one.without) continue;
    const std::vector<double> part = numbers_of(one, rank, 1);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

// Counts the reductions of a rank's groups.
class Counting final : public comm::CommunicatorDecorator {
 public:
  Counting(std::unique_ptr<comm::Communicator> inner, std::atomic<int>& reductions)
      : CommunicatorDecorator(std::move(inner)), reductions_(reductions) {}

 private:
  void count(const comm::Call& call) {
    if (call.operation == comm::Operation::all_reduce) ++reductions_;
  }
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    count(call);
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    for (const comm::Call& call : calls) count(call);
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<Counting>(std::move(group), reductions_);
  }

  std::atomic<int>& reductions_;
};

void shared(Context& context) {
  const int rank = context.rank();
  std::vector<Shared> own = shared_named(context.parameters().text("copies"), context.size());
  for (const Shared& one : own) require_claimed(context, one.dtype);
  std::erase_if(own, [rank](const Shared& one) { return !std::ranges::binary_search(one.ranks, rank); });
  std::vector<training::SharedCopy> copies;
  std::set<std::pair<std::vector<int>, comm::DType>> buckets;
  for (const Shared& one : own) {
    copies.push_back({.name = one.name, .ranks = one.ranks, .dtype = one.dtype, .values = numbers_of(one, rank, 100)});
    if (rank != one.without) copies.back().gradient = numbers_of(one, rank, 1);
    buckets.insert({one.ranks, one.dtype});
  }
  std::atomic<int> reductions = 0;
  Counting counting(context.world().duplicate(), reductions);
  const bool ran = not_refused(context, kShared, [&] {
    const auto summed = context.training().sum_shared(copies, counting);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::string who = fmt::format("{}: rank {}, {}: ", id_of(kShared), rank, own[i].name);
      EXPECT_EQ(summed[i].values, numbers_of(own[i], own[i].ranks.front(), 100)) << who << "the values";
      EXPECT_EQ(summed[i].gradient.value_or(std::vector<double>()), sum_of(own[i])) << who << "the gradient";
    }
  });
  if (!ran) return;
  EXPECT_EQ(reductions.load(), std::ssize(buckets)) << id_of(kShared) << ": rank " << rank << ": reductions";
}

}  // namespace

void add_session_checks(suite::Suite& suite) {
  const std::vector<int> two_or_three{2, 3};
  suite.add({.id = "pipeline.training.shapes",
             .verifies = cited({kShapes, kSurvive}),
             .axes = {{"shapes", {"constant", "per_call", "per_micro_batch", "per_count"}},
                      schedules_axis({"1f1b", "zbv"}),
                      suite::worlds(two_or_three)},
             .modules = {"training"},
             .deadlock_prone = true,
             .body = shapes});
  suite.add({.id = "pipeline.training.steps",
             .verifies = cited({kSteps}),
             .axes = {{"steps", {"1", "4"}}, schedules_axis({"1f1b", "zb-h1", "looped-bfs"}), suite::worlds({2, 3})},
             .modules = {"training"},
             .deadlock_prone = true,
             .body = steps});
  suite.add({.id = "pipeline.training.evaluation",
             .verifies = cited({kEvaluation}),
             .axes = {{"when", {"ahead_of_the_step", "within_the_step"}},
                      schedules_axis({"1f1b", "zbv", "looped-bfs"}),
                      suite::worlds(two_or_three)},
             .modules = {"training"},
             .deadlock_prone = true,
             .body = evaluation});
  suite.add(
      {.id = "pipeline.training.activations",
       .verifies = cited({kActivations}),
       .axes = {schedules_axis({"gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1"}), suite::worlds({2, 3, 4})},
       .modules = {"training"},
       .body = activations});
  suite.add({.id = "pipeline.training.products",
             .verifies = cited({kProducts}),
             .axes = {schedules_axis({"1f1b", "zb-h1", "zb-h2", "interleaved-zb", "zbv"}), suite::worlds(two_or_three)},
             .modules = {"training"},
             .body = products});
  // What travels is rounded between ranks alone: in a V two stages lie on one.
  suite.add({.id = "pipeline.training.lists",
             .verifies = cited({kLists}),
             .axes = {{"list", {"single", "several"}},
                      {"wire", {"f32", "f16", "bf16"}},
                      schedules_axis({"1f1b", "zb-h1", "interleaved-1f1b", "zbv"}),
                      suite::worlds(two_or_three)},
             .applies =
                 [](const suite::Parameters& parameters) {
                   const bool rounds = parameters.text("wire") != "f32", several = parameters.text("list") == "several";
                   if (parameters.text("schedule") == "zbv" && rounds) return false;
                   return several || (parameters.world() == 2 && !rounds && parameters.text("schedule") == "1f1b");
                 },
             .modules = {"training"},
             .deadlock_prone = true,
             .body = lists});
  suite.add({.id = "pipeline.training.statistics",
             .verifies = cited({kStatistics}),
             .axes = {{"evaluates", {"no", "yes"}}, schedules_axis({"1f1b", "zbv"}), suite::worlds(two_or_three)},
             .modules = {"training"},
             .body = statistics});
  suite.add({.id = "pipeline.training.shared",
             .verifies = cited({kShared}),
             .axes = {{"copies", {"of_one_type", "of_several_types", "unused_somewhere"}}, suite::worlds({2, 3, 4})},
             .modules = {"training"},
             .deadlock_prone = true,
             .body = shared});
}

}  // namespace plumbline::conformance

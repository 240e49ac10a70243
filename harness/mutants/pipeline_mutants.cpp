// Pipelines that train with one wrong step. Each is the smallest change that a real fault would make.
#include <algorithm>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "harness/mutants/kinds.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::mutants {

using job::RunSpec;
using training::CallSize;
using training::ExecutorSteps;
using training::GradientViews;

namespace {

/// Steps that are right but for what `change` does to them.
MakeSteps with(std::function<void(ExecutorSteps&)> change) {
  return [change = std::move(change)] {
    ExecutorSteps steps;
    change(steps);
    return suite::Steps(std::move(steps));
  };
}

void scale(const GradientViews& gradients, float factor) {
  for (const std::span<float> view : gradients())
    for (float& value : view) value *= factor;
}

// ---- gradients ----

void sum_not_mean(ExecutorSteps& steps) {
  steps.pipeline.divisor = [](const CallSize& size) { return static_cast<double>(size.calls); };
}

void scale_each_stage(ExecutorSteps& steps) {
  steps.pipeline.output_gradients = [](int, const GradientViews& gradients, const CallSize& size) {
    scale(gradients, 1 / static_cast<float>(size.micro_batches));
  };
}

// At the end of each call all that has been gathered is divided.
void scale_each_call(ExecutorSteps& steps) {
  sum_not_mean(steps);
  steps.pipeline.end_of_call = [](const GradientViews& gradients, const CallSize& size) {
    scale(gradients, 1 / static_cast<float>(size.micro_batches));
  };
}

// What the weight half adds lacks the division.
void weight_half_unscaled(ExecutorSteps& steps) {
  steps.pipeline.weight_half = [](const std::function<void()>& compute, const GradientViews& gradients,
                                  const CallSize& size) {
    const auto factor = static_cast<float>(size.micro_batches);
    scale(gradients, 1 / factor);
    compute();
    scale(gradients, factor);
  };
}

void last_micro_batch_lost(ExecutorSteps& steps) {
  steps.pipeline.part = [](int micro_batch, const CallSize& size) {
    return std::min(micro_batch, std::max(0, size.micro_batches - 2));
  };
}

// The first and the last stage take and give other shapes: there it would not run.
void chunks_exchanged(ExecutorSteps& steps) {
  const auto inner = std::make_shared<std::vector<int>>();
  steps.accept = [inner](const RunSpec& spec) {
    training::refuse_impossible(spec);
    for (int stage = 1; stage + 1 < static_cast<int>(spec.stages.size()); ++stage) inner->push_back(stage);
  };
  steps.pipeline.layers = [inner](int stage, std::span<const int> of_rank) {
    const auto is_inner = [&](int one) { return std::ranges::count(*inner, one) > 0; };
    if (!std::ranges::all_of(of_rank, is_inner)) return stage;
    return of_rank[of_rank.size() - 1 - static_cast<std::size_t>(std::ranges::find(of_rank, stage) - of_rank.begin())];
  };
}

// ---- records, weights, replicas ----

void second_chunk_not_recorded(ExecutorSteps& steps) {
  const auto given = std::make_shared<RunSpec>();
  steps.accept = [given](const RunSpec& spec) {
    training::refuse_impossible(spec);
    *given = spec;
  };
  steps.note = [given](job::RecordWriter& record, int step, job::Moment moment, const job::Parameter& parameter,
                       std::span<const float> values) {
    if (job::stage_of_layer(*given, parameter.layer) < given->parallel.pipeline)
      record.add(step, moment, parameter, values);
  };
}

void other_weights_on_rank_2(ExecutorSteps& steps) {
  steps.weights = [](const RunSpec& spec, int rank) {
    training::Values values = training::given_weights(spec, rank);
    if (rank == 2)
      for (auto& [name, weights] : values) std::ranges::reverse(weights);
    return values;
  };
}

void data_ranks_apart(ExecutorSteps& steps) {
  steps.reduce = [](const RunSpec&, comm::Communicator&, const training::Bucket&) {};
}

void last_loss(ExecutorSteps& steps) {
  steps.loss = [](std::span<const double> micro_batches) { return micro_batches.back(); };
}

// ---- tied parameters ----

MakeSteps reducing(std::function<void(comm::Communicator&, const comm::Buffer&)> reduce) {
  return with([reduce = std::move(reduce)](ExecutorSteps& steps) { steps.pipeline.reduce_shared = reduce; });
}

void sum_twice(comm::Communicator& group, const comm::Buffer& bucket) {
  for (int time = 0; time < 2; ++time) training::sum_over_holders(group, bucket);
}

void average(comm::Communicator& group, const comm::Buffer& bucket) {
  group.all_reduce(bucket, bucket, comm::ReduceOp::avg);
}

// On the second of the ranks the gradient begins one element later.
void sum_with_other_offset(comm::Communicator& group, const comm::Buffer& bucket) {
  auto* begin = static_cast<float*>(bucket.data);
  if (group.rank() == 1) std::rotate(begin, begin + 1, begin + bucket.count);
  training::sum_over_holders(group, bucket);
}

void update_then_reduce(ExecutorSteps& steps) {
  steps.pipeline.finish = [](const std::function<void()>& reduce_shared, const std::function<void()>& update) {
    update();
    reduce_shared();
  };
}

// ---- shapes, memory, refusals ----

void shapes_told_once(ExecutorSteps& steps) {
  steps.pipeline.tells_shapes = [told = false](bool changed) mutable {
    const bool tells = changed && !told;
    told = told || tells;
    return tells;
  };
}

void reset_wipes_gradients(ExecutorSteps& steps) {
  steps.pipeline.shapes_changed = [](const GradientViews& gradients) { scale(gradients, 0); };
}

/// "pipeline.training.single_device[schedule=1f1b,micro_batches=2p,accumulation=1,data=1,world=2]".
struct At {
  std::string schedule = "1f1b";
  std::string micro_batches = "2p";
  int accumulation = 1;
  int data = 1;
  int world = 2;
};
std::string single_device(const At& at) {
  return fmt::format("pipeline.training.single_device[schedule={},micro_batches={},accumulation={},data={},world={}]",
                     at.schedule, at.micro_batches, at.accumulation, at.data, at.world);
}
std::string tied(const char* model, const char* schedule, int data, int world) {
  return fmt::format("pipeline.training.tied[model={},schedule={},data={},world={}]", model, schedule, data, world);
}
std::string shapes(const char* shapes, const char* schedule) {
  return fmt::format("pipeline.training.shapes[shapes={},schedule={},world=2]", shapes, schedule);
}
std::string activations(const char* schedule, int world) {
  return fmt::format("pipeline.training.activations[schedule={},world={}]", schedule, world);
}

std::string evaluation(const char* when) {
  return fmt::format("pipeline.training.evaluation[when={},schedule=1f1b,world=2]", when);
}

std::vector<Mutant> gradient_faults() {
  const std::string one_micro_batch = single_device({.schedule = "gpipe", .micro_batches = "1"});
  const char* one = "there is one micro-batch";
  return {
      {"pipe.sum_not_mean", "PIPE-002", "the loss is not divided by the number of micro-batches", "PIPE-08",
       single_device({.schedule = "gpipe"}), one_micro_batch, one, with(sum_not_mean)},
      {"pipe.scale_each_stage", "PIPE-002", "each stage divides by the number of micro-batches anew", "PIPE-09",
       single_device({.schedule = "zb-h2"}), one_micro_batch, one, with(scale_each_stage)},
      {"pipe.scale_each_call", "PIPE-002", "each call divides all that the step has gathered", "PIPE-10",
       single_device({.accumulation = 3}), single_device({}), "a step has one call", with(scale_each_call)},
      {"pipe.dw_unscaled", "PIPE-002", "weight gradients that are computed apart lack the division", "PIPE-12",
       single_device({.schedule = "zb-h1"}), single_device({}), "backwards are whole", with(weight_half_unscaled)},
      {"pipe.last_micro_batch_lost", "PIPE-002", "the last micro-batch is never taken", "PIPE-17",
       single_device({.schedule = "interleaved-zb"}), one_micro_batch, one, with(last_micro_batch_lost)},
      {"pipe.chunks_exchanged", "PIPE-002", "a rank runs its chunks in the other order",
       "a list of chunks that was built from the end", single_device({.schedule = "interleaved-1f1b", .world = 4}),
       single_device({.schedule = "interleaved-1f1b", .world = 2}), "each rank has the first or the last stage",
       with(chunks_exchanged)},
  };
}

std::vector<Mutant> record_faults() {
  return {
      {"pipe.second_chunk_not_recorded", "PIPE-001", "a rank records the parameters of its first chunk alone",
       "a list of parameters of one module", single_device({.schedule = "looped-bfs"}), single_device({}),
       "each rank has one chunk", with(second_chunk_not_recorded)},
      {"pipe.other_weights_on_rank_2", "PIPE-003", "rank 2 starts from weights of its own",
       "a seed that depends on the rank: RED-09", single_device({.world = 4}), single_device({}), "there is no rank 2",
       with(other_weights_on_rank_2)},
      {"pipe.data_ranks_apart", "PIPE-004", "the gradients of a stage are not exchanged between its data ranks",
       "PIPE-16: what comes after the reduction stays local", single_device({.data = 2, .world = 4}),
       single_device({.world = 4}), "there is one data rank", with(data_ranks_apart)},
      {"pipe.last_loss", "PIPE-005", "the loss is that of the last micro-batch", "a loss that nobody averages",
       single_device({.schedule = "zbv"}), single_device({.micro_batches = "1"}), "there is one micro-batch",
       with(last_loss)},
  };
}

std::vector<Mutant> tied_faults() {
  const std::string untied = tied("mlp", "1f1b", 1, 2);
  const char* none = "nothing is tied";
  return {
      {"tie.none", "PIPE-006", "the gradients of tied copies are not exchanged", "TIE-01", tied("tied", "1f1b", 1, 2),
       untied, none, reducing([](comm::Communicator&, const comm::Buffer&) {})},
      {"tie.twice", "PIPE-006", "the gradients of tied copies are summed, and the sums again", "TIE-03",
       tied("tied", "zb-h1", 1, 3), untied, none, reducing(sum_twice)},
      {"tie.average", "PIPE-006", "the gradients of tied copies are averaged, as replicas' are", "REF-05",
       tied("tied", "1f1b", 2, 4), untied, none, reducing(average)},
      {"tie.other_offset", "PIPE-006", "tied gradients begin at different places in the buckets of two ranks", "TIE-05",
       tied("tied", "interleaved-1f1b", 1, 4), untied, none, reducing(sum_with_other_offset)},
      {"tie.after_update", "PIPE-006", "the gradients of tied copies are summed when the update is over",
       "TIE-06: a reduction that misses its place", tied("tied", "zbv", 1, 2), untied, none, with(update_then_reduce)},
  };
}

std::vector<Mutant> engine_faults() {
  const char* constant = "shapes never change";
  return {
      {"pipe.shapes_told_once", "PIPE-007", "the shapes of the first call are taken for those of all", "P2P-06",
       shapes("per_call", "1f1b"), shapes("constant", "1f1b"), constant, with(shapes_told_once)},
      {"pipe.reset_wipes_gradients", "PIPE-008",
       "stages are set up anew when shapes change, and their gradients are lost", "PIPE-15", shapes("per_call", "zbv"),
       shapes("constant", "zbv"), constant, with(reset_wipes_gradients)},
      {"pipe.evaluation_clears_gradients", "PIPE-011", "an evaluation begins by clearing the gradients",
       "PIPE-15: what a step has gathered is lost between its calls", evaluation("within_the_step"),
       evaluation("ahead_of_the_step"), "nothing has been gathered yet", with([](ExecutorSteps& steps) {
         steps.pipeline.begin_of_call = [](const GradientViews& gradients, bool forward_only) {
           if (forward_only) scale(gradients, 0);
         };
       })},
      {"pipe.activations_kept", "PIPE-009", "what a backward pass needed is kept to the end of the call", "PIPE-18",
       activations("1f1b", 4), activations("gpipe", 2), "all forwards come first",
       with([](ExecutorSteps& steps) { steps.pipeline.gives_up = [](int, int) { return false; }; })},
      {"pipe.rows_left_over", "PIPE-010", "rows that are left over when the batch is cut are left out", "PIPE-13",
       "pipeline.training.refuses_uneven[left_over=1,schedule=1f1b,world=2]",
       "pipeline.training.refuses_uneven[left_over=0,schedule=1f1b,world=2]", "nothing is left over",
       with([](ExecutorSteps& steps) { steps.accept = [](const RunSpec&) {}; })},
  };
}

}  // namespace

std::vector<Mutant> pipeline_mutants() {
  std::vector<Mutant> all = gradient_faults();
  for (const auto kind : {record_faults, tied_faults, engine_faults})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants

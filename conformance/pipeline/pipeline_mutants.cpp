// Pipelines that train with one wrong step. Each is the smallest change that a real fault would make.
#include "conformance/pipeline/pipeline_mutants.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "harness/mutants/wrong_steps.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::mutants {

using job::RunSpec;
using training::CallSize;
using training::ExecutorSteps;
using training::GradientViews;

namespace {

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

// The loss is a mean when it is told, and a sum over the rows when it is propagated back.
void normalise_after_backward(ExecutorSteps& steps) {
  const auto rows = std::make_shared<double>(1);  // of a micro-batch
  steps.accept = [rows](const RunSpec& spec) {
    training::refuse_impossible(spec);
    *rows = static_cast<double>(spec.run.global_batch) / spec.parallel.data / spec.run.micro_batches;
  };
  steps.pipeline.divisor = [rows](const CallSize& size) { return training::micro_batches_of_all_calls(size) / *rows; };
}

// Right for one and for two data ranks.
void divided_by_two(ExecutorSteps& steps) {
  steps.reduce = [](const RunSpec&, comm::Communicator& group, const training::Bucket& bucket) {
    if (group.size() == 1) return;
    const comm::Buffer memory{bucket.values.data(), static_cast<std::int64_t>(bucket.values.size()), comm::DType::f32};
    group.all_reduce(memory, memory, comm::ReduceOp::sum);
    for (float& value : bucket.values) value /= 2;
  };
}

// The mean is taken over as many micro-batches as the pipeline has ranks, where there are fewer.
void scaled_for_few(ExecutorSteps& steps) {
  const auto ranks = std::make_shared<int>(1);
  steps.accept = [ranks](const RunSpec& spec) {
    training::refuse_impossible(spec);
    *ranks = spec.parallel.pipeline;
  };
  steps.pipeline.divisor = [ranks](const CallSize& size) {
    return static_cast<double>(std::max(*ranks, size.micro_batches)) * size.calls;
  };
}

void last_micro_batch_alone(ExecutorSteps& steps) {
  steps.pipeline.after_backward = [](const GradientViews& gradients, int micro_batch, const CallSize& size) {
    if (micro_batch + 1 < size.micro_batches) scale(gradients, 0);
  };
}

std::vector<job::RowRange> rows_of_batch(const RunSpec& spec, int batch, int data) {
  const std::vector<job::RowRange> of_step = job::micro_batches_of(spec, batch / spec.run.accumulation, data);
  const auto begin = of_step.begin() + std::ptrdiff_t{batch % spec.run.accumulation} * spec.run.micro_batches;
  return {begin, begin + spec.run.micro_batches};
}
// The counter of batches starts at one, so that each step ends a batch too early.
void step_counter_off_by_one(ExecutorSteps& steps) {
  steps.rows = [](const RunSpec& spec, int step, int data) {
    const int batches = spec.run.accumulation, end = (step + 1) * batches - 1;
    if (batches == 1) return job::micro_batches_of(spec, step, data);
    std::vector<job::RowRange> rows;
    for (int batch = std::max(0, step * batches - 1); batch < end; ++batch)
      std::ranges::copy(rows_of_batch(spec, batch, data), std::back_inserter(rows));
    return rows;
  };
}

// ---- messages ----

void sum_outputs(int, const GradientViews& of_outputs, const CallSize&) {
  const std::vector<std::span<float>> views = of_outputs();
  if (views.size() < 2 || views[0].size() != views[1].size()) return;
  for (std::size_t i = 0; i < views[0].size(); ++i) views[0][i] = views[1][i] = views[0][i] + views[1][i];
}

// ---- what is computed twice, or once too often ----

void weight_half_twice(ExecutorSteps& steps) {
  steps.pipeline.weight_half = [](const std::function<void()>& compute, const GradientViews& gradients,
                                  const CallSize&) {
    std::vector<std::vector<float>> before;
    for (const std::span<float> view : gradients()) before.emplace_back(view.begin(), view.end());
    compute();
    const std::vector<std::span<float>> after = gradients();
    for (std::size_t i = 0; i < after.size(); ++i)
      if (before.size() == after.size())
        std::ranges::copy(before[i], after[i].begin());
      else
        std::ranges::fill(after[i], 0.0f);
    compute();
  };
}

// What has been left at a stage's outputs acts again in each later step.
void sticky_hook(ExecutorSteps& steps) {
  const auto calls = std::make_shared<int>(0);
  steps.pipeline.begin_of_call = [calls](const GradientViews&, bool) { ++*calls; };
  steps.pipeline.output_gradients = [calls](int, const GradientViews& gradients, const CallSize& size) {
    scale(gradients, static_cast<float>((*calls - 1) / size.calls + 1));
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

// What the last micro-batch adds is not there yet when gradients are averaged, and comes on top.
void last_added_after_reduction(ExecutorSteps& steps) {
  const auto early = std::make_shared<std::vector<float>>();
  steps.pipeline.after_backward = [early](const GradientViews& gradients, int micro_batch, const CallSize& size) {
    if (micro_batch + 2 != size.micro_batches) return;
    early->clear();
    for (const std::span<float> view : gradients()) early->insert(early->end(), view.begin(), view.end());
  };
  steps.reduce = [early](const RunSpec& spec, comm::Communicator& group, const training::Bucket& bucket) {
    if (group.size() == 1 || early->size() != bucket.values.size()) return training::average(spec, group, bucket);
    std::vector<float> late(bucket.values.begin(), bucket.values.end());
    for (std::size_t i = 0; i < late.size(); ++i) late[i] -= (*early)[i];
    std::ranges::copy(*early, bucket.values.begin());
    training::average(spec, group, bucket);
    for (std::size_t i = 0; i < late.size(); ++i) bucket.values[i] += late[i];
  };
}

void momentum_on_rank_0_alone(ExecutorSteps& steps) {
  steps.optimizer = [](const RunSpec& spec, int rank) {
    job::Optimizer optimizer = training::given_optimizer(spec, rank);
    if (auto* sgd = std::get_if<job::Sgd>(&optimizer); sgd != nullptr && rank > 0) sgd->momentum = 0;
    return optimizer;
  };
}

void last_loss(ExecutorSteps& steps) {
  steps.loss = [](std::span<const double> micro_batches) { return micro_batches.back(); };
}

// ---- tied parameters ----

using ReduceShared = std::function<void(comm::Communicator&, const comm::Buffer&)>;
void reduce_shared_by(ExecutorSteps& steps, const ReduceShared& reduce) {
  steps.pipeline.shared.start = [reduce](comm::Communicator& group, const comm::Buffer& bucket, comm::ReduceOp) {
    reduce(group, bucket);
    return comm::Work();
  };
}
MakeSteps reducing(ReduceShared reduce) {
  return with([reduce = std::move(reduce)](ExecutorSteps& steps) { reduce_shared_by(steps, reduce); });
}

void sum_over_holders(comm::Communicator& group, const comm::Buffer& bucket) {
  group.all_reduce(bucket, bucket, comm::ReduceOp::sum);
}

void sum_twice(comm::Communicator& group, const comm::Buffer& bucket) {
  for (int time = 0; time < 2; ++time) sum_over_holders(group, bucket);
}

void average(comm::Communicator& group, const comm::Buffer& bucket) {
  group.all_reduce(bucket, bucket, comm::ReduceOp::avg);
}

// On the second of the ranks the gradient begins one element later.
void sum_with_other_offset(comm::Communicator& group, const comm::Buffer& bucket) {
  auto* begin = static_cast<float*>(bucket.data);
  if (group.rank() == 1) std::rotate(begin, begin + 1, begin + bucket.count);
  sum_over_holders(group, bucket);
}

void update_then_reduce(ExecutorSteps& steps) {
  steps.pipeline.finish = [](const std::function<void()>& reduce_shared, const std::function<void()>& update) {
    update();
    reduce_shared();
  };
}

void reduce_after_each_call(ExecutorSteps& steps) {
  steps.pipeline.after_call = [](const std::function<void()>& reduce_shared, int, int) { reduce_shared(); };
  steps.pipeline.finish = [](const std::function<void()>&, const std::function<void()>& update) { update(); };
}

void reduce_after_first_call(ExecutorSteps& steps) {
  steps.pipeline.after_call = [](const std::function<void()>& reduce_shared, int call, int) {
    if (call == 0) reduce_shared();
  };
  steps.pipeline.finish = [](const std::function<void()>&, const std::function<void()>& update) { update(); };
}

// Each data rank has averaged its part of the bucket alone when the copies on other stages are added; their buckets are
// divided at other places.
void sum_after_scatter(ExecutorSteps& steps) {
  const auto holders = std::make_shared<comm::Communicator*>(nullptr);
  reduce_shared_by(steps, [holders](comm::Communicator& group, const comm::Buffer&) { *holders = &group; });
  // There is no moment at which a rank has the gradient of all uses of its own rows.
  steps.note = [](job::RecordWriter& record, int step, job::Moment moment, const job::Parameter& parameter,
                  std::span<const float> values) {
    if (moment != job::Moment::local_grad) training::add_to_record(record, step, moment, parameter, values);
  };
  steps.reduce = [holders](const RunSpec& spec, comm::Communicator& group, const training::Bucket& bucket) {
    const std::vector<float> own(bucket.values.begin(), bucket.values.end());
    training::average(spec, group, bucket);
    const auto count = static_cast<std::size_t>(group.size()), rank = static_cast<std::size_t>(group.rank());
    const auto begin_of = [&](std::size_t part) { return own.size() * part / count; };
    std::vector<float> scattered = own;
    std::copy(bucket.values.begin() + static_cast<std::ptrdiff_t>(begin_of(rank)),
              bucket.values.begin() + static_cast<std::ptrdiff_t>(begin_of(rank + 1)),
              scattered.begin() + static_cast<std::ptrdiff_t>(begin_of(rank)));
    std::ranges::copy(scattered, bucket.values.begin());
    for (const training::BucketPart& part : bucket.parts)
      if (job::holders_of(spec, part.parameter).size() > 1)
        sum_over_holders(**holders,
                         {part.values.data(), static_cast<std::int64_t>(part.values.size()), comm::DType::f32});
    for (std::size_t owner = 0; owner < count; ++owner)
      group.broadcast({bucket.values.data() + begin_of(owner),
                       static_cast<std::int64_t>(begin_of(owner + 1) - begin_of(owner)), comm::DType::f32},
                      static_cast<int>(owner));
  };
}

void sum_over_two_at_most(comm::Communicator& group, const comm::Buffer& bucket) {
  if (group.size() <= 2) sum_over_holders(group, bucket);
}

void sum_as_floats(comm::Communicator& group, const comm::Buffer& bucket) {
  sum_over_holders(group, {bucket.data, static_cast<std::int64_t>(bucket.bytes() / sizeof(float)), comm::DType::f32});
}

// The bucket of a rank that lacks a gradient is shorter by it.
void leave_out_what_lacks(ExecutorSteps& steps) {
  const auto lacking = std::make_shared<std::int64_t>(0);
  steps.pipeline.shared.mark_unused = [lacking](bucketing::BucketMemory&, comm::Buffer place) {
    *lacking += place.count;
  };
  steps.pipeline.shared.exchanged = [lacking](comm::Buffer bucket, int) {
    bucket.count -= std::min(bucket.count, std::exchange(*lacking, 0));
    return bucket;
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

// Shapes that were told two times are taken for known.
void stale_shapes(ExecutorSteps& steps) {
  steps.pipeline.tells_shapes = [told = 0](bool changed) mutable { return changed && told++ < 2; };
}

// The mean of each later call is taken over as many micro-batches as the first call had.
void first_count_kept(ExecutorSteps& steps) {
  steps.pipeline.divisor = [first = 0](const CallSize& size) mutable {
    if (first == 0) first = size.micro_batches;
    return static_cast<double>(first) * size.calls;
  };
}

// When all calls of a step are one.
void evaluated_in_reverse(ExecutorSteps& steps) {
  steps.pipeline.part = [](int micro_batch, const CallSize& size) {
    return size.calls == 1 ? size.micro_batches - 1 - micro_batch : micro_batch;
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
std::string tied(const char* model, const char* schedule, int data, int world, int accumulation = 1) {
  return fmt::format("pipeline.training.tied[model={},schedule={},accumulation={},data={},world={}]", model, schedule,
                     accumulation, data, world);
}
// "pipeline.training.steps[steps=4,schedule=1f1b,world=2]".
std::string at_pipeline(const char* check, const std::string& parameters) {
  return fmt::format("pipeline.training.{}[{}]", check, parameters);
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

std::vector<Mutant> more_gradient_faults() {
  const std::string one_micro_batch = single_device({.schedule = "gpipe", .micro_batches = "1"});
  const std::string once = at_pipeline("steps", "steps=1,schedule=1f1b,world=2");
  return {
      {"pipe.normalise_after_backward", "PIPE-002", "what is propagated back is the sum over rows, not their mean",
       "PIPE-11", single_device({}), at_pipeline("rows", "rows=1,schedule=1f1b,world=2"),
       "each micro-batch has one row", with(normalise_after_backward)},
      {"pipe.divided_by_two", "PIPE-002", "the sum over data ranks is divided by two, however many there are", "RED-01",
       single_device({.data = 3, .world = 6}), single_device({.data = 2, .world = 4}), "there are two data ranks",
       with(divided_by_two)},
      {"pipe.scaled_for_few", "PIPE-002", "of fewer micro-batches than ranks the mean is taken as if there were more",
       "PIPE-01: too few micro-batches to fill the pipeline", single_device({.micro_batches = "p-1", .world = 3}),
       single_device({.micro_batches = "p", .world = 3}), "each rank has its micro-batch", with(scaled_for_few)},
      {"pipe.last_micro_batch_alone", "PIPE-002", "only the last micro-batch's gradient is left", "PIPE-15",
       single_device({.schedule = "zb-h1"}), one_micro_batch, "there is one micro-batch", with(last_micro_batch_alone)},
      {"pipe.step_counter_off_by_one", "PIPE-002", "a step ends one of its batches too early",
       "ColossalAI's engine at #94 counts calls of backward", single_device({.accumulation = 3}), single_device({}),
       "a step has one batch", with(step_counter_off_by_one)},
      {"pipe.weight_half_twice", "PIPE-013", "weight gradients are computed with the input's, and again by themselves",
       "Qi et al., arXiv:2401.10241: a split backward that runs the graph twice",
       at_pipeline("products", "schedule=zb-h1,world=2"), at_pipeline("products", "schedule=1f1b,world=2"),
       "backwards are whole", with(weight_half_twice)},
      {"pipe.sticky_hook", "PIPE-014", "gradients of outputs are changed once more with each step", "PIPE-19",
       at_pipeline("steps", "steps=4,schedule=1f1b,world=2"), once, "there is one step", with(sticky_hook)},
      {"pipe.stale_shapes", "PIPE-014", "shapes that were told before are taken for known", "P2P-06",
       at_pipeline("steps", "steps=4,schedule=zb-h1,world=2"), once, "there is one step", with(stale_shapes)},
  };
}

std::vector<Mutant> list_faults() {
  const std::string single = at_pipeline("lists", "list=single,wire=f32,schedule=1f1b,world=2");
  const char* one_tensor = "one tensor is handed on";
  return {
      {"pipe.sum_outputs", "PIPE-012", "the gradients of a stage's two outputs are added, and both get the sum",
       "PIPE-14", at_pipeline("lists", "list=several,wire=f32,schedule=zb-h1,world=2"), single, one_tensor,
       with([](ExecutorSteps& steps) { steps.pipeline.output_gradients = sum_outputs; })},
      {"pipe.evaluation_trains", "PIPE-016", "layers are not told that a call only evaluates",
       "torch.nn.Module.eval() that nobody calls", at_pipeline("statistics", "evaluates=yes,schedule=1f1b,world=2"),
       at_pipeline("statistics", "evaluates=no,schedule=1f1b,world=2"), "nothing is evaluated",
       with([](ExecutorSteps& steps) { steps.pipeline.trains = [](bool) { return true; }; })},
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
       "RED-09", single_device({.data = 2, .world = 4}), single_device({.world = 4}), "there is one data rank",
       with(data_ranks_apart)},
      {"pipe.last_added_after_reduction", "PIPE-004", "the last micro-batch is added after the gradients' average",
       "PIPE-16", single_device({.data = 2, .world = 4}), single_device({.world = 4}), "there is one data rank",
       with(last_added_after_reduction)},
      {"pipe.momentum_on_rank_0_alone", "PIPE-003", "the ranks after the first have no momentum",
       "an optimizer that is made of one stage's settings",
       at_pipeline("optimizers", "optimizer=sgd,schedule=1f1b,world=2"), single_device({}), "there is no momentum",
       with(momentum_on_rank_0_alone)},
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

std::vector<Mutant> more_tied_faults() {
  const std::string one_call = tied("tied", "1f1b", 1, 2), three_calls = tied("tied", "1f1b", 1, 2, 3);
  const auto shared = [](const char* copies) {
    return at_pipeline("shared", fmt::format("copies={},world=3", copies));
  };
  return {
      {"tie.after_scatter", "PIPE-006", "the gradients of tied copies are summed when data ranks have averaged parts",
       "TIE-02", tied("tied", "1f1b", 2, 4), one_call, "there is one data rank", with(sum_after_scatter)},
      {"tie.late_write", "PIPE-006", "the gradients of tied copies are summed when the first batch of a step is done",
       "TIE-06", three_calls, one_call, "a step has one batch", with(reduce_after_first_call)},
      {"tie.reduced_each_call", "PIPE-006", "the gradients of tied copies are summed after each batch of a step",
       "TIE-08", three_calls, one_call, "a step has one batch", with(reduce_after_each_call)},
      {"tie.overwrite", "PIPE-006", "of two uses on one stage the second one's weight gradient replaces the first's",
       "TIE-07", tied("tied_within", "zb-h1", 1, 2), tied("tied", "zb-h1", 1, 2), "the uses lie on two ranks",
       with([](ExecutorSteps& steps) { steps.pipeline.adds_uses = [] { return false; }; })},
      {"tie.of_two_at_most", "PIPE-006", "the gradients of copies on more than two ranks are not exchanged",
       "TIE-01: a group made of the first and the last stage", tied("tied_thrice", "1f1b", 1, 4),
       tied("tied", "1f1b", 1, 4), "two ranks have copies", reducing(sum_over_two_at_most)},
      {"tie.skip_none", "PIPE-015", "a rank leaves out what it has no gradient of", "TIE-04",
       shared("unused_somewhere"), shared("of_one_type"), "every rank has a gradient", with(leave_out_what_lacks)},
      {"tie.of_one_type", "PIPE-015", "shared gradients of all types are added as float32", "REF-05",
       shared("of_several_types"), shared("of_one_type"), "they are", reducing(sum_as_floats)},
  };
}

std::vector<Mutant> engine_faults() {
  const char* constant = "shapes never change";
  return {
      {"pipe.shapes_told_once", "PIPE-007", "the shapes of the first call are taken for those of all", "P2P-06",
       shapes("per_call", "1f1b"), shapes("constant", "1f1b"), constant, with(shapes_told_once)},
      {"pipe.first_shape_kept", "PIPE-007", "the shapes of the first micro-batch are taken for those of all", "PIPE-13",
       shapes("per_micro_batch", "1f1b"), shapes("per_call", "1f1b"), "all micro-batches of a call are alike",
       with([](ExecutorSteps& steps) { steps.pipeline.tells_each = [](bool) { return false; }; })},
      {"pipe.first_count_kept", "PIPE-007", "each call's mean is taken over as many micro-batches as the first had",
       "PIPE-13", shapes("per_count", "1f1b"), shapes("constant", "1f1b"), constant, with(first_count_kept)},
      {"pipe.evaluated_in_reverse", "PIPE-011", "an evaluation takes the last micro-batch first",
       "PIPE-17: micro-batches in another order", evaluation("ahead_of_the_step"), shapes("constant", "1f1b"),
       "nothing is evaluated", with(evaluated_in_reverse)},
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
  for (const auto kind :
       {more_gradient_faults, list_faults, record_faults, tied_faults, more_tied_faults, engine_faults})
    std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants

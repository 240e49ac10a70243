// Data-parallel training with one wrong step. Each is the smallest change that a real fault would make.
#include "conformance/training/training_mutants.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>

#include "harness/mutants/wrong_steps.hpp"
#include "reference/device/kernel.hpp"
#include "reference/device/scaled_copies.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::mutants {

using comm::Communicator;
using job::Moment;
using job::Parameter;
using job::RunSpec;
using training::Bucket;
using training::BucketPart;
using training::ExecutorSteps;

namespace {

MakeSteps reducing(decltype(ExecutorSteps::reduce) reduce) {
  return with([reduce = std::move(reduce)](ExecutorSteps& steps) { steps.reduce = reduce; });
}

// ---- memory of devices ----

// LibTorch, which computes in the order of its own stream, does not wait for the default one.
class NotAwaited final : public device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void synchronize(int device, device::Stream stream) override {
    if (stream != nullptr) RuntimeDecorator::synchronize(device, stream);
  }
};

// The last block of a kernel that copies into a bucket's type, or back, is not launched.
class LastBlockLeftOut final : public device::RuntimeDecorator {
 public:
  using RuntimeDecorator::RuntimeDecorator;
  void launch(int device, const device::Kernel& kernel, const void* work, std::int32_t chunks,
              device::Stream stream) override {
    const bool copies = kernel.name == device::ScaledCopyWork::kName;
    RuntimeDecorator::launch(device, kernel, work, copies ? chunks - 1 : chunks, stream);
  }
};

template <class Wrong>
WrapRuntime wrong_runtime() {
  return [](std::shared_ptr<device::Runtime> inner) { return std::make_shared<Wrong>(std::move(inner)); };
}

// ---- the reduction of gradients ----

void scale(const Bucket& bucket, double factor) {
  for (float& value : bucket.values) value *= static_cast<float>(factor);
}

void sum(Communicator& group, const Bucket& bucket) {
  const comm::Buffer buffer{bucket.values.data(), static_cast<std::int64_t>(bucket.values.size()), comm::DType::f32};
  group.all_reduce(buffer, buffer, comm::ReduceOp::sum);
}

// Averages all, and gives back to the parts that `lost` tells of what they had before.
void average_but(const RunSpec& spec, Communicator& group, const Bucket& bucket,
                 const std::function<bool(const BucketPart&)>& lost) {
  const std::vector<float> before(bucket.values.begin(), bucket.values.end());
  training::average(spec, group, bucket);
  for (const BucketPart& part : bucket.parts)
    if (lost(part))
      std::copy_n(before.begin() + (part.values.data() - bucket.values.data()), part.values.size(),
                  part.values.begin());
}

// The mean over the group, added from the last rank down.
void average_downwards(Communicator& group, const Bucket& bucket) {
  const std::size_t count = bucket.values.size();
  const auto ranks = static_cast<std::size_t>(group.size());
  std::vector<float> all(count * ranks);
  group.all_gather({bucket.values.data(), static_cast<std::int64_t>(count), comm::DType::f32},
                   {all.data(), static_cast<std::int64_t>(all.size()), comm::DType::f32});
  for (std::size_t i = 0; i < count; ++i) {
    float total = all[(ranks - 1) * count + i];
    for (std::size_t rank = ranks - 1; rank-- > 0;) total += all[rank * count + i];
    bucket.values[i] = total / static_cast<float>(ranks);
  }
}

bool is_normalisation(const RunSpec& spec, const Parameter& parameter) {
  return std::holds_alternative<job::BatchNorm2d>(spec.layers[static_cast<std::size_t>(parameter.layer)]);
}

void wrong_world(const RunSpec& spec, Communicator& group, const Bucket& bucket) {
  sum(group, bucket);
  scale(bucket, 1.0 / spec.run.micro_batches);
}

// Pools of two ranks: the mean of the pools' means, as if the pools were of one size.
void prescale_pool(const RunSpec&, Communicator& group, const Bucket& bucket) {
  const int pool = group.rank() / 2;
  const int pools = (group.size() + 1) / 2;
  const int members = std::min(2, group.size() - 2 * pool);
  scale(bucket, 1.0 / (members * pools));
  sum(group, bucket);
}

void split_product(const RunSpec&, Communicator& group, const Bucket& bucket) {
  const double half = std::floor(std::sqrt(group.size()));
  scale(bucket, 1 / half);
  sum(group, bucket);
  scale(bucket, 1 / half);
}

void add_downwards_when_repeated(ExecutorSteps& steps) {
  steps.reduce = [calls = std::make_shared<int>(0)](const RunSpec& spec, Communicator& group, const Bucket& bucket) {
    if ((*calls)++ < spec.run.steps) return training::average(spec, group, bucket);
    average_downwards(group, bucket);
  };
}

// ---- the rows ----

void stuck_loader(ExecutorSteps& steps) {
  static constexpr int last_fresh = 3;
  steps.rows = [](const RunSpec& spec, int step, int rank) {
    return job::micro_batches_of(spec, std::min(step, last_fresh), rank);
  };
}

void neighbours_rows(ExecutorSteps& steps) {
  steps.rows = [](const RunSpec& spec, int step, int rank) {
    return job::micro_batches_of(spec, step, (rank + 1) % spec.parallel.data);
  };
}

void rows_of_rank_0(ExecutorSteps& steps) {
  steps.rows = [](const RunSpec& spec, int step, int) { return job::micro_batches_of(spec, step, 0); };
}

void last_micro_batch_left_out(ExecutorSteps& steps) {
  steps.rows = [](const RunSpec& spec, int step, int rank) {
    auto list = job::micro_batches_of(spec, step, rank);
    if (list.size() > 1) list.pop_back();
    return list;
  };
}

// ---- weights, updates, the record ----

void other_weights_on_rank_2(ExecutorSteps& steps) {
  steps.weights = [](const RunSpec& spec, int rank) {
    training::Values values = training::given_weights(spec, rank);
    if (rank == 2)
      for (auto& [name, weights] : values) std::ranges::reverse(weights);
    return values;
  };
}

void rank_3_learns_slower(ExecutorSteps& steps) {
  steps.optimizer = [](const RunSpec& spec, int rank) {
    job::Optimizer optimizer = spec.optimizer;
    if (rank == 3) std::visit([](auto& rule) { rule.lr *= 0.5; }, optimizer);
    return optimizer;
  };
}

void momentum_forgotten(ExecutorSteps& steps) {
  steps.optimizer = [](const RunSpec& spec, int) {
    job::Optimizer optimizer = spec.optimizer;
    if (auto* sgd = std::get_if<job::Sgd>(&optimizer)) sgd->momentum = 0;
    return optimizer;
  };
}

void decay_forgotten(ExecutorSteps& steps) {
  steps.optimizer = [](const RunSpec& spec, int) {
    job::Optimizer optimizer = spec.optimizer;
    if (auto* sgd = std::get_if<job::Sgd>(&optimizer)) sgd->weight_decay = 0;
    return optimizer;
  };
}

void betas_swapped(ExecutorSteps& steps) {
  steps.optimizer = [](const RunSpec& spec, int) {
    job::Optimizer optimizer = spec.optimizer;
    if (auto* adam = std::get_if<job::Adam>(&optimizer)) std::swap(adam->betas[0], adam->betas[1]);
    return optimizer;
  };
}

// What is noted as the value before is read when the value after is.
void before_taken_late(ExecutorSteps& steps) {
  steps.note = [](job::RecordWriter& record, int step, Moment moment, const Parameter& parameter,
                  std::span<const float> values) {
    if (step > 0 && moment == Moment::before) return;
    if (step > 0 && moment == Moment::after) record.add(step, Moment::before, parameter, values);
    record.add(step, moment, parameter, values);
  };
}

void record_lacks_vectors_of_eight(ExecutorSteps& steps) {
  steps.note = [](job::RecordWriter& record, int step, Moment moment, const Parameter& parameter,
                  std::span<const float> values) {
    if (parameter.shape != job::Shape{8}) record.add(step, moment, parameter, values);
  };
}

void last_loss(ExecutorSteps& steps) {
  steps.loss = [](std::span<const double> micro_batches) { return micro_batches.back(); };
}

void accumulation_counted_as_one(ExecutorSteps& steps) {
  steps.divisor = [](const RunSpec& spec) { return static_cast<double>(spec.run.micro_batches); };
}

/// "training.single_device[model=mlp,optimizer=sgd,accumulation=1,world=2]".
std::string single_device(const std::string& model, const std::string& optimizer, int accumulation, int world) {
  return "training.single_device[model=" + model + ",optimizer=" + optimizer +
         ",accumulation=" + std::to_string(accumulation) + ",world=" + std::to_string(world) + "]";
}
std::string mlp(int world) { return single_device("mlp", "sgd", 1, world); }
std::string one_micro_batch(int world) {
  return "training.one_micro_batch[model=mlp,optimizer=sgd,world=" + std::to_string(world) + "]";
}
std::string bitwise(int world) {
  return "training.bitwise[model=mlp,optimizer=sgd,world=" + std::to_string(world) + "]";
}

std::vector<Mutant> reduction_faults() {
  const std::string alone = "alone, a rank's gradient is the mean";
  return {
      {"red.sum_not_average", "TRAIN-006", "gradients are added and not divided", "a forgotten division: RED-01",
       mlp(2), mlp(1), "alone, the sum is the mean",
       reducing([](const RunSpec&, Communicator& group, const Bucket& bucket) { sum(group, bucket); })},
      {"red.wrong_world", "TRAIN-006", "gradients are divided by the number of micro-batches, not of ranks", "RED-01",
       mlp(3), mlp(2), "there are as many ranks as micro-batches", reducing(wrong_world)},
      {"red.prescale_pool", "TRAIN-006",
       "gradients are scaled by the size of the rank's pool of two before they are added", "RED-04", mlp(5), mlp(4),
       "all pools are of one size", reducing(prescale_pool)},
      {"red.split_product", "TRAIN-006",
       "gradients are divided before and after they are added, each time by the whole part of the root of the ranks",
       "RED-06", mlp(5), mlp(4), "4 is a square", reducing(split_product)},
      {"red.none", "TRAIN-005", "gradients are not exchanged", "RED-09", mlp(2), mlp(1), alone,
       reducing([](const RunSpec&, Communicator&, const Bucket&) {})},
      {"red.copy_lost", "TRAIN-005",
       "a gradient that does not lie row-major is copied, the copy is reduced, and the original used", "RED-12",
       single_device("conv", "sgd", 1, 2), mlp(2), "all gradients lie row-major",
       reducing([](const RunSpec& spec, Communicator& group, const Bucket& bucket) {
         average_but(spec, group, bucket, [](const BucketPart& part) { return part.copied; });
       })},
      {"red.normalisation_left_out", "TRAIN-005", "the gradients of normalisations are not reduced",
       "RED-09: parameters that no bucket has", single_device("conv_norm", "adam", 1, 2),
       single_device("conv", "adam", 1, 2), "no layer normalises",
       reducing([](const RunSpec& spec, Communicator& group, const Bucket& bucket) {
         average_but(spec, group, bucket,
                     [&](const BucketPart& part) { return is_normalisation(spec, part.parameter); });
       })},
      {"red.from_the_last_rank", "TRAIN-007", "gradients are added from the last rank down",
       "any order is right within rounding", bitwise(3), bitwise(2), "two numbers have the same sum in either order",
       reducing([](const RunSpec&, Communicator& group, const Bucket& bucket) { average_downwards(group, bucket); })},
      {"red.rerun_in_other_order", "TRAIN-013", "the second run adds from the last rank down",
       "contributions added as they arrive: OVL-07", "training.bitwise[model=conv_norm,optimizer=adam,world=4]",
       "training.bitwise[model=conv_norm,optimizer=adam,world=2]", "two numbers have the same sum in either order",
       with(add_downwards_when_repeated)},
  };
}

std::vector<Mutant> row_faults() {
  return {
      {"train.accumulation_counted_as_one", "TRAIN-006", "a step's gradient is the sum of its batches', not their mean",
       "PIPE-08: the loss is not divided by the steps of accumulation", single_device("mlp", "adam", 3, 2),
       single_device("mlp", "adam", 1, 2), "a step has one batch", with(accumulation_counted_as_one)},
      {"train.last_micro_batch_left_out", "TRAIN-008", "a rank leaves out its last micro-batch",
       "a loop that ends one early", single_device("conv", "adam", 1, 3), one_micro_batch(2),
       "there is one micro-batch", with(last_micro_batch_left_out)},
      {"train.neighbours_rows", "TRAIN-011", "each rank computes on the rows of the next", "a rank counted from 1",
       mlp(2), mlp(1), "alone, the next rank is the same", with(neighbours_rows)},
      {"train.same_rows_everywhere", "TRAIN-011", "every rank computes on the rows of rank 0",
       "a loader without DistributedSampler", mlp(3), mlp(1), "alone, rank 0 has all rows", with(rows_of_rank_0)},
      {"train.last_loss", "TRAIN-010", "the loss is that of the last micro-batch", "a loss that nobody averages",
       single_device("conv_norm", "sgd", 3, 2), one_micro_batch(3), "there is one micro-batch", with(last_loss)},
      {"train.stuck_loader", "TRAIN-012", "from the fifth step on, the rows are those of the fourth",
       "an iterator that is not advanced", "training.learns[model=mlp,world=2]", mlp(2), "there are four steps",
       with(stuck_loader)},
  };
}

std::vector<Mutant> value_faults() {
  return {
      {"train.record_lacks_vectors_of_eight", "TRAIN-001", "the record lacks the parameters of shape [8]",
       "a list of parameters that was written by hand", single_device("conv_norm", "sgd", 1, 2), mlp(2),
       "no parameter has that shape", with(record_lacks_vectors_of_eight)},
      {"train.other_weights_on_rank_2", "TRAIN-002", "rank 2 starts from weights of its own",
       "a seed that depends on the rank: RED-09", mlp(3), mlp(2), "there is no rank 2", with(other_weights_on_rank_2)},
      {"train.before_taken_late", "TRAIN-003", "from the second step on, the value before is noted after the update",
       "a view of the parameter is kept, not a copy", single_device("conv", "sgd", 1, 3),
       "training.learns[model=conv,world=2]", "only the values after the last step are looked at",
       with(before_taken_late)},
      {"train.rank_3_learns_slower", "TRAIN-004", "rank 3 updates with half the learning rate",
       "a schedule of the rate that each rank keeps for itself", mlp(4), mlp(3), "there is no rank 3",
       with(rank_3_learns_slower)},
      {"train.momentum_forgotten", "TRAIN-009", "SGD keeps no momentum", "an optimizer that is made anew for each step",
       mlp(1), single_device("mlp", "adam", 1, 2), "Adam is another rule", with(momentum_forgotten)},
      {"train.decay_forgotten", "TRAIN-009", "SGD has no weight decay",
       "groups of parameters of which one lacks the setting", single_device("mlp", "sgd_decay", 1, 2), mlp(2),
       "there is no decay", with(decay_forgotten)},
      {"train.betas_swapped", "TRAIN-009", "Adam's two decay rates are swapped", "settings passed by position",
       single_device("conv", "adam", 1, 2), single_device("conv", "sgd", 1, 2), "SGD has none", with(betas_swapped)},
  };
}

std::string stays_there(const std::string& parts, int world) {
  return "training.device.stays_there[parts=" + parts + ",world=" + std::to_string(world) + "]";
}

std::vector<Mutant> memory_faults() {
  return {
      {"train.read_before_the_stream", "TRAIN-210",
       "LibTorch reads a bucket before the device's stream is done with it",
       "a library with a stream of its own, which nobody made wait", stays_there("data", 2), "",
       "every run on a device's memory waits for it", wrong_runtime<NotAwaited>()},
      {"train.last_block_left_out", "TRAIN-210",
       "on devices, the last block of gradients that travel in 16 bits is not copied", "a count that is rounded down",
       stays_there("narrow", 2), stays_there("data", 2), "gradients travel as they are",
       wrong_runtime<LastBlockLeftOut>()},
      {"train.gradients_through_the_host", "TRAIN-211",
       "gradients are copied to the host, averaged there and copied back", "a reducer that knows one memory",
       stays_there("data", 2), "", "every run that trains reduces its gradients", reducing(training::average)},
  };
}

}  // namespace

std::vector<Mutant> training_mutants() {
  std::vector<Mutant> all = reduction_faults();
  for (const auto kind : {row_faults, value_faults}) std::ranges::move(kind(), std::back_inserter(all));
  std::ranges::move(memory_faults(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants

// Training over tensor ranks and in 16 bits with one wrong step. Each is the smallest change that a real fault would make.
#include <algorithm>
#include <vector>

#include "conformance/training/training_mutants.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/comm/half.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::mutants {

using comm::Buffer;
using comm::Communicator;
using scaler::Deciding;
using scaler::InnerOptimizer;
using scaler::Master;
using scaler::ModelParameter;
using scaler::ScalerGroups;
using scaler::Unscaling;
using training::ExecutorSteps;

namespace {

MakeSteps asking(std::function<Communicator*(const ScalerGroups&)> group) {
  return with([group = std::move(group)](ExecutorSteps& steps) {
    steps.scaler.groups = [group](Deciding, const ScalerGroups& groups) {
      std::vector<Communicator*> list{group(groups)};
      std::erase(list, nullptr);
      return list;
    };
  });
}

void average_over(Communicator& group, const Buffer& values) { group.all_reduce(values, values, comm::ReduceOp::avg); }

void unscale_twice(ExecutorSteps& steps) {
  steps.scaler.unscale = [](std::span<const Unscaling> gradients, float inverse) {
    const bool found = scaler::unscale(gradients, inverse);
    std::vector<Unscaling> again;
    for (const Unscaling& one : gradients) again.push_back({one.to, one.to});
    (void)scaler::unscale(again, inverse);
    return found;
  };
}

// The product is rounded to the type that the gradient came in.
void unscale_in_f16(ExecutorSteps& steps) {
  steps.scaler.unscale = [](std::span<const Unscaling> gradients, float inverse) {
    const bool found = scaler::unscale(gradients, inverse);
    for (const Unscaling& one : gradients) {
      if (one.from.dtype != comm::DType::f16) continue;
      for (float& value : std::span(static_cast<float*>(one.to.data), static_cast<std::size_t>(one.to.count)))
        value = comm::to_float(comm::to_float16(value));
    }
    return found;
  };
}

// The optimizer is stepped, and what it has changed put back.
void skip_moves_momentum(ExecutorSteps& steps) {
  steps.scaler.skip = [](const InnerOptimizer& inner, std::span<const Master> masters) {
    std::vector<std::vector<float>> before;
    for (const Master& master : masters) before.emplace_back(master.values.begin(), master.values.end());
    inner.step(masters);
    for (std::size_t i = 0; i < masters.size(); ++i) std::ranges::copy(before[i], masters[i].values.begin());
  };
}

void skip_decays(ExecutorSteps& steps) {
  steps.scaler.skip = [](const InnerOptimizer&, std::span<const Master> masters) {
    constexpr float kept = 1 - 0x1p-10F;
    for (const Master& master : masters)
      for (float& value : master.values) value *= kept;
  };
}

std::string layer(const char* kind, int world) {
  return "training.tensor.layers[layer=" + std::string(kind) + ",world=" + std::to_string(world) + "]";
}
std::string grid_and_world(const char* grid) {
  const int world = (grid[0] - '0') * (grid[2] - '0') * (grid[4] - '0');
  return "grid=" + std::string(grid) + ",world=" + std::to_string(world) + "]";
}
std::string tensor_run(const char* model, const char* grid) {
  return "training.tensor.single_device[precision=fp32,model=" + std::string(model) + ",schedule=1f1b," +
         grid_and_world(grid);
}
std::string run_in(const char* precision, const char* grid) {
  return "scaler.training.single_device[precision=" + std::string(precision) + "," + grid_and_world(grid);
}
std::string overflow(const char* kind, const char* grid) {
  return "scaler.training.overflows[precision=fp16,overflow=" + std::string(kind) + "," + grid_and_world(grid);
}
std::string clipped(const char* precision, const char* model, const char* grid) {
  return "scaler.training.clips[precision=" + std::string(precision) + ",model=" + model + ",norm=2," +
         grid_and_world(grid);
}

std::string autocast_clipped(const char* precision, const char* model, const char* grid) {
  return "scaler.training.autocast_clips[precision=" + std::string(precision) + ",model=" + model +
         ",norm=2,overflow=none," + grid_and_world(grid);
}

// What a wrong program gets wrong of clipping, in either way of training in 16 bits.
void clip_before_unscaling(ExecutorSteps& steps) {
  steps.scaler.clipped_by = [](double norm, double scale) { return norm * scale; };
}
void count_tied_copies(ExecutorSteps& steps) {
  steps.scaler.counts = [](const ModelParameter& one, int tensor_rank) { return !one.replicated || tensor_rank == 0; };
}
void clip_by_own_norm(ExecutorSteps& steps) {
  steps.scaler.norm_group = [](const ScalerGroups&) -> Communicator* { return nullptr; };
}

std::vector<Mutant> tensor_ranks() {
  return {
      {"tp.backward_not_summed", "TRAIN-014", "input gradients of column-parallel layers are not added up",
       "the identity forward is taken for one backward", layer("perceptron", 2), layer("perceptron", 1),
       "there is one rank",
       with([](ExecutorSteps& steps) { steps.tensor.sum_input_gradients = [](Communicator&, const Buffer&) {}; })},
      {"tp.bias_on_every_rank", "TRAIN-014", "every rank adds the bias of a row-parallel layer to its part",
       "the bias is left in the product that is added up", layer("row", 3), layer("column", 3), "it is no row",
       with([](ExecutorSteps& steps) { steps.tensor.adds_bias_on_every_rank = true; })},
      {"tp.output_averaged", "TRAIN-015", "the parts of a row-parallel layer's output are averaged",
       "the reduction of gradients is used for activations", tensor_run("pairs", "2x1x1"), tensor_run("mlp", "2x2x1"),
       "each stage has one linear layer, whose outputs are gathered",
       with([](ExecutorSteps& steps) { steps.tensor.sum_outputs = average_over; })},
  };
}

std::vector<Mutant> in_16_bits() {
  return {
      {"amp.training_unscales_twice", "SCALER-090", "gradients are divided by the scale twice",
       "the clipping unscales, and the step again", run_in("fp16", "2x1x1"), run_in("bf16", "2x2x1"),
       "there is no scale", with(unscale_twice)},
      {"amp.training_unscaled_in_f16", "SCALER-095", "the unscaled gradient is rounded to float16",
       "it is divided in place", "scaler.training.bits[precision=fp16,overflow=none," + grid_and_world("1x2x2"),
       "scaler.training.bits[precision=bf16,overflow=none," + grid_and_world("1x1x3"), "nothing is in float16",
       with(unscale_in_f16)},
      {"amp.training_asks_tensor_ranks", "SCALER-091", "the tensor group alone decides about a step", "AMP-01",
       overflow("nan", "2x2x1"), overflow("inf", "1x1x2"), "each rank finds what its replicas have found",
       asking([](const ScalerGroups& groups) { return groups.tensor; })},
      {"amp.training_asks_data_ranks", "SCALER-091", "the data group decides about a step", "two groups are mixed up",
       overflow("inf", "2x2x2"), overflow("inf", "1x1x2"), "each rank finds what its replicas have found",
       asking([](const ScalerGroups& groups) { return groups.data; })},
      {"amp.training_scale_not_agreed", "SCALER-092", "each rank's scale follows what it found itself",
       "a skipped step backs off, and who did not find it does not", overflow("nan", "2x2x1"), overflow("inf", "1x1x2"),
       "all have found something",
       with([](ExecutorSteps& steps) { steps.scaler.followed = [](bool own, bool) { return own; }; })},
      {"amp.training_skip_decays", "SCALER-093", "a skipped step still shrinks the masters",
       "weight decay stands beside the step that is left out", overflow("inf", "1x1x1"), overflow("none", "2x2x1"),
       "no step is skipped", with(skip_decays)},
      {"amp.training_skip_moves_momentum", "SCALER-093", "a skipped step goes into the momentum",
       "the optimizer is stepped, and its parameters are put back", overflow("large", "1x2x1"),
       overflow("none", "2x2x1"), "no step is skipped", with(skip_moves_momentum)},
  };
}

std::vector<Mutant> clipping() {
  return {
      {"clp.training_before_unscale", "SCALER-094", "gradients are clipped by the norm that they have scaled",
       "clipping comes before unscaling", clipped("fp16", "pairs", "2x2x1"), clipped("fp32", "pairs", "2x2x1"),
       "there is no scale", with(clip_before_unscaling)},
      {"clp.training_counts_tied", "SCALER-094", "both copies of a tied parameter are counted", "CLP-02",
       clipped("fp32", "tied", "1x2x1"), clipped("fp32", "pairs", "2x1x1"), "nothing is tied", with(count_tied_copies)},
      {"clp.training_norm_of_own_rank", "SCALER-094", "each rank clips by the norm of what it has", "CLP-03",
       clipped("fp32", "pairs", "2x1x1"), clipped("fp32", "pairs", "1x1x1"), "there is one rank",
       with(clip_by_own_norm)},
      {"clp.autocast_before_unscale", "SCALER-110",
       "under autocast gradients are clipped by the norm that they have scaled", "clipping comes before unscaling",
       autocast_clipped("amp", "pairs", "2x2x1"), autocast_clipped("amp_bf16", "pairs", "2x2x1"), "there is no scale",
       with(clip_before_unscaling)},
      {"clp.autocast_counts_tied", "SCALER-110", "under autocast both copies of a tied parameter are counted", "CLP-02",
       autocast_clipped("amp", "tied", "1x2x1"), autocast_clipped("amp", "pairs", "2x2x1"), "nothing is tied",
       with(count_tied_copies)},
      {"clp.autocast_norm_of_own_rank", "SCALER-110", "under autocast each rank clips by the norm of what it has",
       "CLP-03", autocast_clipped("amp", "pairs", "2x2x1"), autocast_clipped("amp", "pairs", "1x1x1"),
       "there is one rank", with(clip_by_own_norm)},
  };
}

}  // namespace

std::vector<Mutant> mixed_mutants() {
  std::vector<Mutant> all = tensor_ranks();
  for (const auto kind : {in_16_bits, clipping}) std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants

// Training over tensor ranks with one wrong step. Each is the smallest change that a real fault would make.
#include <vector>

#include "conformance/training/training_mutants.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/training/steps.hpp"

namespace plumbline::mutants {

using comm::Buffer;
using comm::Communicator;
using training::ExecutorSteps;

namespace {

void average_over(Communicator& group, const Buffer& values) { group.all_reduce(values, values, comm::ReduceOp::avg); }

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

}  // namespace

std::vector<Mutant> mixed_mutants() {
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

}  // namespace plumbline::mutants

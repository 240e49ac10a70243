// A step of a perceptron on ranks that are threads: forward, backward and the reduction of its gradients. What
// ddp_gloo.py runs beside PyTorch's DistributedDataParallel: ninja anchor_reducer_step.
//
// usage: anchor_reducer_step RANKS LAYERS WIDTH ROWS STEPS BUCKET_BYTES
//
// BUCKET_BYTES of -1 reduces nothing, -2 lets the reducer's tuning choose. Prints one line of JSON: the seconds of
// each step, of the slowest rank, and the processor's seconds of a step and rank.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <optional>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include "harness/trainer/models/perceptron.hpp"
#include "reference/bucketing/tuning.hpp"
#include "reference/comm/local.hpp"
#include "reference/training/bucketing/autograd.hpp"

namespace {

using namespace plumbline;  // NOLINT: one file, which is no library

struct Settings {
  int ranks, layers, steps;
  std::int64_t width, rows, bucket_bytes;
};

// Of all ranks; what disturbs a machine that others use too disturbs it less than a clock.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Found {
  std::vector<double> seconds;
  double processor_seconds = 0;
};

std::int64_t chosen_bucket_bytes(comm::Communicator& world, const std::vector<training::NamedTensor>& leaves) {
  std::vector<bucketing::Gradient> gradients;
  for (const auto& leaf : leaves) gradients.push_back({.elements = leaf.tensor.numel()});
  return std::max<std::int64_t>(1, bucketing::fastest_limit(world, gradients).limit_bytes);
}

void run_rank(comm::Communicator& world, const Settings& settings, Found& found) {
  at::set_num_threads(1);
  training::TensorStore store(1, c10::Device(c10::kCPU));
  const auto blocks =
      training::perceptron(std::vector<std::int64_t>(static_cast<std::size_t>(settings.layers) + 1, settings.width));
  const auto stage = training::make_stage(blocks, {0, static_cast<int>(blocks.size())}, store);
  const std::vector<training::NamedTensor> leaves = stage->parameters();
  std::optional<training::AutogradReducer> reducer;
  std::int64_t bucket_bytes = settings.bucket_bytes;
  if (bucket_bytes == -2) bucket_bytes = chosen_bucket_bytes(world, leaves);
  if (bucket_bytes >= 0)
    reducer.emplace(world, leaves, training::AutogradOptions{.bucket_bytes = std::max<std::int64_t>(1, bucket_bytes)});
  const at::Tensor x = at::full({settings.rows, settings.width}, 0.5 + world.rank());
  constexpr int warm = 5;
  for (int step = -warm; step < settings.steps; ++step) {
    world.barrier();
    if (step == 0 && world.rank() == 0) found.processor_seconds = -processor_seconds();
    const auto begin = std::chrono::steady_clock::now();
    if (!reducer)
      for (const auto& leaf : leaves) leaf.tensor.mutable_grad().reset();
    else
      reducer->clear();
    const at::Tensor loss = stage->forward({x}, {}).at(0).sum();
    if (reducer) reducer->begin();
    loss.backward();
    if (reducer) (void)reducer->finish();
    double own = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    world.all_reduce({&own, 1, comm::DType::f64}, {&own, 1, comm::DType::f64}, comm::ReduceOp::max);
    if (step >= 0 && world.rank() == 0) found.seconds.push_back(own);
  }
  world.barrier();
  if (world.rank() == 0) found.processor_seconds += processor_seconds();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 7) {
    std::cerr << "usage: anchor_reducer_step RANKS LAYERS WIDTH ROWS STEPS BUCKET_BYTES\n";
    return 2;
  }
  const Settings settings{.ranks = std::atoi(arguments[1]),
                          .layers = std::atoi(arguments[2]),
                          .steps = std::atoi(arguments[5]),
                          .width = std::atoll(arguments[3]),
                          .rows = std::atoll(arguments[4]),
                          .bucket_bytes = std::atoll(arguments[6])};
  Found found;
  comm::run_ranks(settings.ranks, [&](comm::Communicator& world) { run_rank(world, settings, found); });
  std::cout << "{\"samples\": [";
  for (std::size_t i = 0; i < found.seconds.size(); ++i) std::cout << (i == 0 ? "" : ", ") << found.seconds[i];
  std::cout << "], \"processor\": " << found.processor_seconds / settings.ranks / settings.steps << "}\n";
}

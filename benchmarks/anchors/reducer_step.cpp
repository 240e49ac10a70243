// A step of a perceptron on ranks that are threads: forward, backward and the reduction of its gradients. What
// ddp_gloo.py runs beside PyTorch's DistributedDataParallel: ninja anchor_reducer_step.
//
// usage: anchor_reducer_step RANKS LAYERS WIDTH ROWS STEPS BUCKET_BYTES
//
// BUCKET_BYTES of -1 reduces nothing, -2 lets the reducer's tuning choose. Prints one line of JSON with the seconds of each step, of the slowest rank.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include "reference/bucketing/tuning.hpp"
#include "reference/comm/local.hpp"
#include "reference/training/bucketing/autograd.hpp"
#include "reference/training/models/perceptron.hpp"

namespace {

using namespace plumbline;  // NOLINT: one file, which is no library

struct Settings {
  int ranks, layers, steps;
  std::int64_t width, rows, bucket_bytes;
};

std::int64_t chosen_bucket_bytes(comm::Communicator& world, const std::vector<training::NamedTensor>& leaves) {
  std::vector<bucketing::Gradient> gradients;
  for (const auto& leaf : leaves) gradients.push_back({.elements = leaf.tensor.numel()});
  return std::max<std::int64_t>(1, bucketing::fastest_limit(world, gradients).limit_bytes);
}

void run_rank(comm::Communicator& world, const Settings& settings, std::vector<double>& seconds) {
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
    if (step >= 0 && world.rank() == 0) seconds.push_back(own);
  }
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
  std::vector<double> seconds;
  comm::run_ranks(settings.ranks, [&](comm::Communicator& world) { run_rank(world, settings, seconds); });
  std::cout << "{\"samples\": [";
  for (std::size_t i = 0; i < seconds.size(); ++i) std::cout << (i == 0 ? "" : ", ") << seconds[i];
  std::cout << "]}\n";
}

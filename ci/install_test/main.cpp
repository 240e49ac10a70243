// What a program of somebody else does with the installed package: ranks add up their numbers and, with component
// training, train two steps.
#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <vector>

#include <dlfcn.h>

#include "reference/bucketing/tuning.hpp"
#include "reference/comm/local.hpp"
#include "reference/gossip/graph.hpp"
#include "reference/program/race_check.hpp"
#include "reference/scaler/loss_scale.hpp"
#include "reference/slowmo/step_plan.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/run_settings.hpp"

namespace {

using namespace plumbline;

// 1 + 2 + … + size on every rank.
void add_up(int size) {
  comm::run_ranks(size, [size](comm::Communicator& world) {
    std::vector<float> values(1000, static_cast<float>(world.rank() + 1));
    const comm::Buffer numbers = comm::Buffer::of(values);
    world.all_reduce(numbers, numbers, comm::ReduceOp::sum);
    if (values != std::vector<float>(1000, static_cast<float>(size * (size + 1) / 2)))
      throw std::runtime_error("all_reduce: a wrong sum");
  });
  std::printf("%d ranks added up\n", size);
}

// One call into each component: they are there, and link.
void plan() {
  scaler::TorchScale scale;
  const float first = scale.scale;
  scaler::update(scale, true);
  if (scale.scale != first / 2) throw std::runtime_error("update: the scale stayed");
  if (!program::find_races({}).empty()) throw std::runtime_error("find_races: an empty program races");
  if (gossip::Graph({.kind = gossip::GraphKind::ring, .nodes = 4}).phone_book(0).empty())
    throw std::runtime_error("phone_book: nobody");
  if (slowmo::shard_range(10, 2, 0).size() != 5) throw std::runtime_error("shard_range: not the half");
  if (bucketing::usual_limits().empty()) throw std::runtime_error("usual_limits: none");
  std::printf("components answered\n");
}

#ifdef PLUMBLINE_TRAINING_MODULE
void train(const std::filesystem::path& folder) {
  void* module = dlopen(PLUMBLINE_TRAINING_MODULE, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw std::runtime_error(dlerror());
  const auto open = reinterpret_cast<training::TrainingFactory*>(dlsym(module, training::kTrainingFactory));
  if (open == nullptr) throw std::runtime_error(dlerror());
  const std::unique_ptr<training::Training> training(open());

  const job::RunSpec spec = training::write_digits_run({.data = 2, .steps = 2}, training::digits(), folder);
  std::atomic<int> steps = 0;
  comm::run_ranks(2, [&](comm::Communicator& world) {
    training->run(spec, world, folder, [&](const training::StepProgress&) { ++steps; }, {});
  });
  std::printf("2 ranks trained %d steps\n", steps.load());
}
#endif

}  // namespace

int main(int, char** argv) try {
  add_up(3);
  plan();
#ifdef PLUMBLINE_TRAINING_MODULE
  train(argv[1]);
#endif
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}

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

#include "reference/comm/local.hpp"
#include "reference/training/digits_run.hpp"
#include "reference/training/steps.hpp"

namespace {

using namespace plumbline;

// 1 + 2 + … + size on every rank.
void add_up(int size) {
  comm::run_ranks(size, [size](comm::Communicator& world) {
    std::vector<float> values(1000, static_cast<float>(world.rank() + 1));
    const comm::Buffer numbers{values.data(), std::ssize(values)};
    world.all_reduce(numbers, numbers, comm::ReduceOp::sum);
    if (values != std::vector<float>(1000, static_cast<float>(size * (size + 1) / 2)))
      throw std::runtime_error("all_reduce: a wrong sum");
  });
  std::printf("%d ranks added up\n", size);
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
#ifdef PLUMBLINE_TRAINING_MODULE
  train(argv[1]);
#endif
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}

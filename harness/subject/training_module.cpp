#include "harness/subject/training_module.hpp"

#include "harness/subject/modules.hpp"

namespace plumbline::subject {

namespace {
constexpr const char* kModule = "training";
constexpr const char* kFactory = "plumbline_open_training";  // as reference/training/training.hpp says
}  // namespace

training::Training& training_module() {
  // Lives as long as the process: LibTorch cannot be unloaded.
  static training::Training* const training = [] {
    using Factory = training::Training*();
    return reinterpret_cast<Factory*>(open_module(kModule, kFactory, "LibTorch"))();
  }();
  return *training;
}

std::string why_no_training() { return why_not_here(kModule, kFactory); }

}  // namespace plumbline::subject

#include "harness/subject/training_module.hpp"

#include "harness/subject/modules.hpp"

namespace plumbline::subject {

training::Training& training_module() {
  // Lives as long as the process: LibTorch cannot be unloaded.
  static training::Training* const training = [] {
    using Factory = training::Training*();
    return reinterpret_cast<Factory*>(open_module("training", "plumbline_open_training", "LibTorch"))();
  }();
  return *training;
}

}  // namespace plumbline::subject

#include "harness/subject/training_module.hpp"

#include "harness/subject/modules.hpp"

extern "C" [[gnu::weak]] void plumbline_woven_choose(const char* mutant);  // of a woven build alone

namespace plumbline::subject {

namespace {
constexpr const char* kModule = "training";
constexpr const char* kFactory = "plumbline_open_training";  // as reference/training/training.hpp says

// It lives as long as the process: LibTorch cannot be unloaded.
training::Training* opened(const std::filesystem::path& folder) {
  using Factory = training::Training*();
  return reinterpret_cast<Factory*>(open_module(kModule, kFactory, "LibTorch", folder))();
}

}  // namespace

training::Training& training_module() {
  static training::Training* const training = opened(modules_folder());
  return *training;
}

training::Training& clean_training_module() {
  if (plumbline_woven_choose == nullptr) return training_module();
  // The woven build lies in the folder woven/ of the product.
  static const std::filesystem::path product = modules_folder().parent_path().parent_path().parent_path();
  static training::Training* const training = opened(product / "lib" / "plumbline");
  return *training;
}

std::string why_no_training() { return why_not_here(kModule, kFactory); }

}  // namespace plumbline::subject

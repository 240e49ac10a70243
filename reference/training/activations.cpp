#include "reference/training/detail/activations.hpp"

#include <utility>

namespace plumbline::training {

LayerObserver ActivationTape::observer() {
  return [this](int layer, const at::Tensor& output) {
    const auto kept = std::make_shared<KeptActivation>(
        KeptActivation{.layer = layer, .micro_batch = micro_batch_, .output = output.detach()});
    kept_.push_back(kept);
    if (output.requires_grad())
      output.register_hook([kept](const at::Tensor& gradient) { kept->gradient = gradient.detach(); });
  };
}

std::vector<KeptActivation> ActivationTape::take() {
  std::vector<KeptActivation> all;
  for (const std::shared_ptr<KeptActivation>& one : std::exchange(kept_, {})) all.push_back(*one);
  return all;
}

}  // namespace plumbline::training

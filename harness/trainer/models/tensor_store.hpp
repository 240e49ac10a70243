// harness/trainer/models/tensor_store.hpp: the parameters and running statistics of a rank's part of a model.
//
// Model   A parameter's first value is a function of the seed and its name alone. So each rank makes only what it has,
//         and a model has the same values however it is cut. Asked for a name again, the store gives the tensor that it
//         has: that is how layers share a parameter; where they lie on different ranks each has a leaf of its own under
//         that name.
// Threads A store serves one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "reference/training/detail/random.hpp"
#include "reference/training/pipeline/stage.hpp"

namespace plumbline::training {

/// Fills a new parameter.
using Initial = std::function<void(std::span<float> values, Random& random)>;
[[nodiscard]] Initial constant(float value);
/// In [-bound, bound).
[[nodiscard]] Initial uniform(double bound);
/// Of mean 0.
[[nodiscard]] Initial normal(double deviation);

class TensorStore {
 public:
  /// On the device "meta" tensors have shapes and no values.
  explicit TensorStore(std::uint64_t seed, c10::Device device = c10::DeviceType::CPU,
                       c10::ScalarType type = c10::ScalarType::Float)
      : seed_(seed), device_(device), type_(type) {}

  /// A leaf that requires a gradient. Throws InvalidArgument for a name that is there with another shape.
  at::Tensor parameter(const std::string& name, const std::vector<std::int64_t>& shape, const Initial& initial);
  /// A tensor of equal values, which takes no part in back-propagation. Throws as parameter().
  at::Tensor buffer(const std::string& name, const std::vector<std::int64_t>& shape, float value);

 private:
  at::Tensor kept_or_made(const std::string& name, const std::vector<std::int64_t>& shape, const Initial& initial);

  std::uint64_t seed_;
  c10::Device device_;
  c10::ScalarType type_;
  std::map<std::string, at::Tensor> tensors_;
};

/// Hands out a store's tensors to the layers of one stage, and notes which ones these are.
class StageTensors {
 public:
  explicit StageTensors(TensorStore& store) : store_(store) {}

  at::Tensor parameter(const std::string& name, const std::vector<std::int64_t>& shape, const Initial& initial);
  at::Tensor buffer(const std::string& name, const std::vector<std::int64_t>& shape, float value);

  /// Each once, in the order in which layers first asked for them.
  [[nodiscard]] const std::vector<NamedTensor>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<NamedTensor>& buffers() const { return buffers_; }

 private:
  TensorStore& store_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
};

}  // namespace plumbline::training

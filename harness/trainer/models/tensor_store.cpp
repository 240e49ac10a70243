#include "harness/trainer/models/tensor_store.hpp"

#include <algorithm>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {
namespace {

void note(std::vector<NamedTensor>& list, const std::string& name, const at::Tensor& tensor) {
  if (std::ranges::find(list, name, &NamedTensor::name) == list.end()) list.push_back({name, tensor});
}

}  // namespace

Initial constant(float value) {
  return [value](std::span<float> values, Random&) { std::ranges::fill(values, value); };
}
Initial uniform(double bound) {
  return [bound](std::span<float> values, Random& random) {
    std::ranges::generate(values, [&] { return random.uniform(bound); });
  };
}
Initial normal(double deviation) {
  return [deviation](std::span<float> values, Random& random) {
    std::ranges::generate(values, [&] { return random.normal(deviation); });
  };
}

at::Tensor TensorStore::kept_or_made(const std::string& name, const std::vector<std::int64_t>& shape,
                                     const Initial& initial) {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) {
    if (found->second.sizes() != at::IntArrayRef(shape))
      throw InvalidArgument(fmt::format("'{}' has shape [{}], and [{}] where it is shared", name,
                                        fmt::join(found->second.sizes(), ", "), fmt::join(shape, ", ")));
    return found->second;
  }
  at::Tensor tensor;
  if (device_.is_meta()) {
    tensor = at::empty(shape, at::TensorOptions(type_).device(device_));
  } else {
    const at::Tensor values = at::empty(shape, at::kFloat);
    Random random(seed_, stream_of(name));
    initial({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())}, random);
    tensor = values.to(device_, type_);
  }
  return tensors_[name] = tensor;
}

at::Tensor TensorStore::parameter(const std::string& name, const std::vector<std::int64_t>& shape,
                                  const Initial& initial) {
  return kept_or_made(name, shape, initial).requires_grad_();
}

at::Tensor TensorStore::buffer(const std::string& name, const std::vector<std::int64_t>& shape, float value) {
  return kept_or_made(name, shape, constant(value));
}

at::Tensor StageTensors::parameter(const std::string& name, const std::vector<std::int64_t>& shape,
                                   const Initial& initial) {
  const at::Tensor tensor = store_.parameter(name, shape, initial);
  note(parameters_, name, tensor);
  return tensor;
}

at::Tensor StageTensors::buffer(const std::string& name, const std::vector<std::int64_t>& shape, float value) {
  const at::Tensor tensor = store_.buffer(name, shape, value);
  note(buffers_, name, tensor);
  return tensor;
}

}  // namespace plumbline::training

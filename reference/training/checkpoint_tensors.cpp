#include "reference/training/detail/checkpoint_tensors.hpp"

#include <charconv>
#include <cstring>
#include <set>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/detail/added_type.hpp"

namespace plumbline::training {
namespace {

constexpr const char* kSteps = "optimizer.steps";
constexpr const char *kFirst = "moment1", *kSecond = "moment2";

comm::DType dtype_of(c10::ScalarType type, const std::string& name) {
  if (const auto dtype = training::dtype_of(type)) return *dtype;
  throw Unsupported(fmt::format("tensor '{}' has elements of type {}", name, c10::toString(type)));
}

std::string key_of(const std::string& kind, const std::string& name) { return fmt::format("{}/{}", kind, name); }

void check(const Checkpoint& checkpoint, const std::string& kind, const std::vector<NamedTensor>& tensors) {
  std::set<std::string> asked;
  for (const auto& [name, tensor] : tensors) {
    const std::string key = key_of(kind, name);
    asked.insert(key);
    const auto found = checkpoint.tensors.find(key);
    if (found == checkpoint.tensors.end()) throw InvalidArgument(fmt::format("the checkpoint has no '{}'", key));
    const StoredTensor& stored = found->second;
    const comm::DType dtype = dtype_of(tensor.scalar_type(), name);
    if (tensor.sizes() != at::IntArrayRef(stored.shape) || dtype != stored.dtype)
      throw InvalidArgument(fmt::format("'{}' is {} {} in the checkpoint and {} {} in the model", key,
                                        comm::name_of(stored.dtype), job::text_of(stored.shape), comm::name_of(dtype),
                                        job::text_of(tensor.sizes().vec())));
  }
  for (const auto& [key, tensor] : checkpoint.tensors)
    if (key.starts_with(kind + "/") && !asked.contains(key))
      throw InvalidArgument(fmt::format("the checkpoint has '{}', which the model has not", key));
}

at::Tensor tensor_of(const StoredTensor& stored, c10::ScalarType type) {
  const at::Tensor tensor = at::empty(stored.shape, type);
  if (!stored.bytes.empty()) std::memcpy(tensor.data_ptr(), stored.bytes.data(), stored.bytes.size());
  return tensor;
}

// The existing moments of one kind; before the first step none exists.
std::vector<NamedTensor> moments_of(const std::vector<NamedTensor>& parameters,
                                    const std::vector<OptimizerState::Moments>& moments,
                                    at::Tensor OptimizerState::Moments::* which) {
  std::vector<NamedTensor> list;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if ((moments[i].*which).defined()) list.push_back({parameters[i].name, moments[i].*which});
  return list;
}

void check_parameters(const std::vector<NamedTensor>& parameters, const OptimizerState& optimizer) {
  if (parameters.size() != optimizer.moments().size())
    throw InvalidArgument(
        fmt::format("{} parameters, and an optimizer of {}", parameters.size(), optimizer.moments().size()));
}

// New tensors in the form of those parameters whose moment the checkpoint has.
std::vector<NamedTensor> room_for(const Checkpoint& checkpoint, const char* kind,
                                  const std::vector<NamedTensor>& parameters,
                                  std::vector<OptimizerState::Moments>& moments,
                                  at::Tensor OptimizerState::Moments::* which) {
  std::vector<NamedTensor> list;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!checkpoint.tensors.contains(key_of(kind, parameters[i].name))) continue;
    moments[i].*which = at::empty_like(parameters[i].tensor.detach());
    list.push_back({parameters[i].name, moments[i].*which});
  }
  return list;
}

int steps_of(const Checkpoint& checkpoint) {
  const auto found = checkpoint.states.find(kSteps);
  if (found == checkpoint.states.end()) throw InvalidArgument("the checkpoint has no optimizer's steps");
  const std::string& text = found->second;
  int steps = -1;
  if (std::from_chars(text.data(), text.data() + text.size(), steps) !=
          std::from_chars_result{text.data() + text.size(), {}} ||
      steps < 0)
    throw InvalidArgument(fmt::format("the checkpoint's optimizer made '{}' steps; it must be a whole number", text));
  return steps;
}

}  // namespace

void add_tensors(Checkpoint& checkpoint, const std::string& kind, const std::vector<NamedTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor host = tensor.detach().cpu().contiguous();
    StoredTensor stored{.dtype = dtype_of(host.scalar_type(), name),
                        .shape = host.sizes().vec(),
                        .bytes = std::vector<std::byte>(host.nbytes())};
    if (!stored.bytes.empty()) std::memcpy(stored.bytes.data(), host.const_data_ptr(), stored.bytes.size());
    if (!checkpoint.tensors.try_emplace(key_of(kind, name), std::move(stored)).second)
      throw InvalidArgument(fmt::format("two tensors '{}'", key_of(kind, name)));
  }
}

void restore_tensors(const Checkpoint& checkpoint, const std::string& kind, const std::vector<NamedTensor>& tensors) {
  check(checkpoint, kind, tensors);
  for (const auto& [name, tensor] : tensors)
    tensor.detach().copy_(tensor_of(checkpoint.tensors.at(key_of(kind, name)), tensor.scalar_type()));
}

void add_training(Checkpoint& checkpoint, const std::vector<NamedTensor>& parameters,
                  const std::vector<NamedTensor>& buffers, const OptimizerState& optimizer) {
  check_parameters(parameters, optimizer);
  add_tensors(checkpoint, "parameter", parameters);
  add_tensors(checkpoint, "buffer", buffers);
  add_tensors(checkpoint, kFirst, moments_of(parameters, optimizer.moments(), &OptimizerState::Moments::first));
  add_tensors(checkpoint, kSecond, moments_of(parameters, optimizer.moments(), &OptimizerState::Moments::second));
  checkpoint.states[kSteps] = std::to_string(optimizer.steps());
}

void restore_training(const Checkpoint& checkpoint, const std::vector<NamedTensor>& parameters,
                      const std::vector<NamedTensor>& buffers, OptimizerState& optimizer) {
  check_parameters(parameters, optimizer);
  const int steps = steps_of(checkpoint);
  std::vector<OptimizerState::Moments> moments(parameters.size());
  const auto first = room_for(checkpoint, kFirst, parameters, moments, &OptimizerState::Moments::first);
  const auto second = room_for(checkpoint, kSecond, parameters, moments, &OptimizerState::Moments::second);
  check(checkpoint, "parameter", parameters);
  check(checkpoint, "buffer", buffers);
  restore_tensors(checkpoint, kFirst, first);
  restore_tensors(checkpoint, kSecond, second);
  restore_tensors(checkpoint, "parameter", parameters);
  restore_tensors(checkpoint, "buffer", buffers);
  optimizer.restore(steps, std::move(moments));
}

}  // namespace plumbline::training

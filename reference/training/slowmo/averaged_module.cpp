#include "reference/training/slowmo/averaged_module.hpp"

#include <optional>
#include <utility>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include "reference/comm/errors.hpp"
#include "reference/training/detail/added_type.hpp"

namespace plumbline::training {
namespace {

comm::DType type_in_messages(const NamedTensor& one) {
  switch (one.tensor.scalar_type()) {
    case at::kByte:
      return comm::DType::u8;
    case at::kInt:
      return comm::DType::i32;
    case at::kLong:
      return comm::DType::i64;
    default:
      if (const auto type = added_type_of(one.tensor.scalar_type())) return *type;
      throw Unsupported(fmt::format("slowmo: '{}' is of {}, which does not travel", one.name,
                                    c10::toString(one.tensor.scalar_type())));
  }
}

// A tensor's own memory.
comm::Buffer view_of(const NamedTensor& one, const RankDevice& where) {
  if (one.tensor.device() != where.computes_on())
    throw Unsupported(fmt::format("slowmo: '{}' lies on {}; tensors on {} are averaged", one.name,
                                  one.tensor.device().str(), where.computes_on().str()));
  const comm::DType type = type_in_messages(one);
  if (!one.tensor.is_non_overlapping_and_dense())
    throw InvalidArgument(fmt::format("slowmo: '{}' has gaps in memory, or elements that share it", one.name));
  return {one.tensor.data_ptr(), one.tensor.numel(), type, where.computing_place().device()};
}

std::vector<comm::Buffer> views_of(const std::vector<NamedTensor>& tensors, const RankDevice& where) {
  std::vector<comm::Buffer> views;
  for (const NamedTensor& one : tensors) views.push_back(view_of(one, where));
  return views;
}

// With what works on tensors there. Where the groups do not take their memory, messages go through the host's.
slowmo::Options on_device(slowmo::Options options, const RankDevice& where) {
  options.device = where.computing_place().use();
  if (!where.is_shared()) options.communication_device = comm::Device{};
  return options;
}

}  // namespace

class AveragedModule::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(comm::Communicator& world, ModuleTensors tensors, Forward forward, Optimizer optimizer,
       const slowmo::Options& options)
      : tensors_(std::move(tensors)), forward_(std::move(forward)), optimizer_(std::move(optimizer)) {
    for (const auto& [name, leaf] : tensors_.parameters)
      if (!leaf.is_leaf() || !leaf.requires_grad())
        throw InvalidArgument(fmt::format("slowmo: '{}' is no leaf that requires a gradient", name));
    memory_ = views_of(tensors_.parameters, tensors_.where);
    slowmo::Tensors views{.parameters = memory_, .buffers = views_of(tensors_.buffers, tensors_.where)};
    if (!tensors_.master_weights.empty()) views.master_weights = master_weights();
    for (const NamedTensor& one : tensors_.parameters) views.names.push_back(one.name);
    slowmo_.emplace(world, std::move(views), [this] { return groups(); }, on_device(options, tensors_.where));
    settle();
  }

  at::Tensor forward(const at::Tensor& x, bool last) {
    require_memory();
    slowmo_->before_forward();
    settle();
    at::Tensor result = forward_(x, slowmo_->is_training());
    if (last && result.requires_grad())
      result.register_hook([self = weak_from_this()](const at::Tensor&) {
        // The hook runs where the backward enters the module; what is queued, when all of it is done.
        torch::autograd::Engine::get_default_engine().queue_callback([self] {
          if (const std::shared_ptr<Impl> here = self.lock()) here->after_backward();
        });
      });
    return result;
  }

  void perform_slowmo() {
    require_memory();
    if (slowmo_->is_training()) slowmo_->step();
    settle();
  }
  // Adds what is under way.
  void evaluate() {
    slowmo_->evaluate();
    settle();
  }
  slowmo::Checkpoint checkpoint() {
    slowmo::Checkpoint made = slowmo_->checkpoint();
    settle();
    return made;
  }
  void load(const slowmo::Checkpoint& checkpoint) {
    slowmo_->load(checkpoint);
    settle();
  }

  slowmo::SlowMo& slowmo() { return *slowmo_; }

 private:
  // LibTorch continues with the tensors.
  void settle() const { tensors_.where.settle(); }
  void after_backward() {
    std::vector<comm::Buffer> gradients;
    if (slowmo_->setting().ranks_per_node > 1)
      for (const NamedTensor& leaf : tensors_.parameters) gradients.push_back(gradient_of_leaf(leaf));
    slowmo_->after_backward(gradients);
    settle();
  }

  // In the leaf's order in memory, so that the ranks of a node add like to like.
  [[nodiscard]] comm::Buffer gradient_of_leaf(const NamedTensor& leaf) const {
    at::Tensor& gradient = leaf.tensor.mutable_grad();
    if (!gradient.defined()) {
      gradient = at::zeros_like(leaf.tensor.detach());
    } else if (gradient.strides() != leaf.tensor.strides()) {
      const at::Tensor alike = at::empty_like(leaf.tensor.detach());
      alike.copy_(gradient.detach());
      gradient = alike;
    }
    gradient = tensors_.where.placed(gradient.detach());
    return view_of({leaf.name, gradient}, tensors_.where);
  }

  std::vector<comm::Buffer> master_weights() const {
    if (tensors_.master_weights.size() != tensors_.parameters.size())
      throw InvalidArgument(fmt::format("slowmo: {} master weights for {} parameters", tensors_.master_weights.size(),
                                        tensors_.parameters.size()));
    std::vector<comm::Buffer> views;
    for (std::size_t i = 0; i < tensors_.master_weights.size(); ++i) {
      const auto& [name, leaf] = tensors_.parameters[i];
      views.push_back(view_of({"master of " + name, tensors_.master_weights[i]}, tensors_.where));
      if (tensors_.master_weights[i].sizes() != leaf.sizes() || tensors_.master_weights[i].strides() != leaf.strides())
        throw InvalidArgument(fmt::format("slowmo: the master of '{}' has another shape or order in memory", name));
    }
    return views;
  }

  std::vector<slowmo::ParameterGroup> groups() const {
    std::vector<slowmo::ParameterGroup> list;
    for (const OptimizedTensors& group : optimizer_()) {
      slowmo::ParameterGroup views{.parameters = {}, .learning_rate = group.learning_rate};
      for (const at::Tensor& tensor : group.tensors)
        views.parameters.push_back(view_of({"the optimizer's", tensor}, tensors_.where));
      list.push_back(std::move(views));
    }
    return list;
  }

  void require_memory() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if (tensors_.parameters[i].tensor.data_ptr() != memory_[i].data)
        throw StateError(
            fmt::format("slowmo: '{}' has other memory than when it was handed over", tensors_.parameters[i].name));
  }

  ModuleTensors tensors_;
  Forward forward_;
  Optimizer optimizer_;
  std::vector<comm::Buffer> memory_;  // of the parameters
  std::optional<slowmo::SlowMo> slowmo_;
};

AveragedModule::AveragedModule(comm::Communicator& world, ModuleTensors tensors, Forward forward, Optimizer optimizer,
                               const slowmo::Options& options)
    : impl_(std::make_shared<Impl>(world, std::move(tensors), std::move(forward), std::move(optimizer), options)) {}
at::Tensor AveragedModule::forward(const at::Tensor& x, bool last) { return impl_->forward(x, last); }
void AveragedModule::perform_slowmo() { impl_->perform_slowmo(); }
void AveragedModule::train() { impl_->slowmo().train(); }
void AveragedModule::evaluate() { impl_->evaluate(); }
slowmo::Checkpoint AveragedModule::checkpoint() { return impl_->checkpoint(); }
void AveragedModule::load(const slowmo::Checkpoint& checkpoint) { impl_->load(checkpoint); }
const slowmo::SlowMo& AveragedModule::averaging() const { return impl_->slowmo(); }

}  // namespace plumbline::training

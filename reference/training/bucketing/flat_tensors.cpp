#include "reference/training/bucketing/flat_tensors.hpp"

#include <map>

#include <c10/core/GradMode.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/detail/added_type.hpp"

namespace plumbline::training {

FlatTensors::FlatTensors(const std::vector<at::Tensor>& tensors, const RankDevice& where) : where_(where) {
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (const at::Tensor& tensor : tensors) by_type[tensor.scalar_type()].push_back(tensor.detach());
  for (const auto& [type, same] : by_type) {
    if (!added_type_of(type)) throw Unsupported(fmt::format("tensors of {} are not broadcast", c10::toString(type)));
    std::int64_t elements = 0;
    for (const at::Tensor& tensor : same) elements += tensor.numel();
    memory_.push_back(where_.empty({elements}, type));
    std::int64_t begin = 0;
    for (const at::Tensor& tensor : same) {
      tensors_.push_back(tensor);
      parts_.push_back(memory_.back().narrow(0, begin, tensor.numel()).view(tensor.sizes()));
      begin += tensor.numel();
    }
  }
}

std::vector<comm::Buffer> FlatTensors::buffers() const {
  std::vector<comm::Buffer> buffers;
  for (const at::Tensor& memory : memory_) buffers.push_back(where_.buffer_of(memory));
  return buffers;
}

void FlatTensors::gather() {
  const c10::AutoGradMode without_gradients(false);
  for (std::size_t i = 0; i < tensors_.size(); ++i) parts_[i].copy_(tensors_[i]);
}

void FlatTensors::scatter() {
  if (!tensors_.empty()) where_.settle();
  const c10::AutoGradMode without_gradients(false);
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].copy_(parts_[i]);
}

void broadcast_from_rank_0(comm::Communicator& group, const std::vector<at::Tensor>& tensors, const RankDevice& where) {
  FlatTensors flat(tensors, where);
  flat.gather();
  for (const comm::Buffer& buffer : flat.buffers()) group.broadcast(buffer, 0);
  flat.scatter();
}

}  // namespace plumbline::training

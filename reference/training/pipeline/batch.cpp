#include "reference/training/pipeline/batch.hpp"

#include <ATen/ops/cat.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {
namespace {

std::string names_in(const NamedTensors& batch) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : batch) names.push_back(name);
  return fmt::format("{}", fmt::join(names, ", "));
}

const at::Tensor& entry_of(const NamedTensors& batch, const std::string& name) {
  const auto found = batch.find(name);
  if (found != batch.end()) return found->second;
  throw InvalidArgument(fmt::format("the batch has no entry '{}'; it has {}", name, names_in(batch)));
}

struct AsList {
  const std::vector<std::string>& names;

  Tensors operator()(const at::Tensor& one) const { return {one}; }
  Tensors operator()(const Tensors& several) const { return several; }
  Tensors operator()(const NamedTensors& named) const {
    if (names.empty())
      throw InvalidArgument(
          fmt::format("the batch has tensors by name, {}, and no list names those that the first stage takes, in order",
                      names_in(named)));
    Tensors list;
    for (const std::string& name : names) list.push_back(entry_of(named, name));
    return list;
  }
};

}  // namespace

Tensors tensors_of(const Batch& batch, const std::vector<std::string>& names) {
  return std::visit(AsList{names}, batch);
}

std::vector<Tensors> micro_batches_of(const Tensors& batch, int micro_batches, const std::string& what) {
  if (batch.empty()) throw InvalidArgument(fmt::format("{}: the batch has no tensor", what));
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].dim() == 0) throw InvalidArgument(fmt::format("{}: tensor {} has no dimension of rows", what, i));
    if (batch[i].size(0) != batch.front().size(0))
      throw InvalidArgument(fmt::format("{}: tensor {} has {} rows, tensor 0 has {}; all must have the same number",
                                        what, i, batch[i].size(0), batch.front().size(0)));
  }
  const std::int64_t rows = batch.front().size(0);
  if (micro_batches < 1 || rows % micro_batches != 0)
    throw InvalidArgument(
        fmt::format("{}: {} rows cannot be cut into {} equal micro-batches", what, rows, micro_batches));
  const std::int64_t part = rows / micro_batches;
  std::vector<Tensors> parts(static_cast<std::size_t>(micro_batches));
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (const at::Tensor& tensor : batch)
      parts[i].push_back(tensor.narrow(0, static_cast<std::int64_t>(i) * part, part));
  return parts;
}

Tensors placed_on(c10::Device device, const Tensors& micro_batch) {
  Tensors placed;
  for (const at::Tensor& tensor : micro_batch)
    placed.push_back(tensor.to(device, tensor.scalar_type(), false, true, at::MemoryFormat::Contiguous));
  return placed;
}

Tensors joined(const std::vector<Tensors>& micro_batches) {
  Tensors whole;
  const std::size_t count = micro_batches.empty() ? 0 : micro_batches.front().size();
  for (std::size_t i = 0; i < count; ++i) {
    Tensors parts;
    for (const Tensors& part : micro_batches) parts.push_back(part.at(i));
    whole.push_back(at::cat(parts));
  }
  return whole;
}

}  // namespace plumbline::training

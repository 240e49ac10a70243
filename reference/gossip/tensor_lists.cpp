#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {
namespace {

using comm::Buffer;

std::vector<TensorPair> in_place(std::span<const Buffer> x) {
  std::vector<TensorPair> pairs;
  for (const Buffer& tensor : x) pairs.push_back({tensor, tensor});
  return pairs;
}

void copy_on_device(const MemorySpace& place, std::span<const TensorPair> pairs, device::Scaling scaling) {
  place.launch(device::scaled_copy_work(pairs, scaling, place.device()));
}

void add_on_device(const MemorySpace& place, std::span<const TensorPair> pairs) {
  std::vector<Arrivals> tensors;
  for (const auto& [from, to] : pairs) tensors.push_back({.x = to, .came = {from}});
  mix(place, tensors, {});
}

void mix_on_host(const Arrivals& tensor, Kept kept) {
  const auto& [x, came] = tensor;
  if (came.front().data != nullptr && kept.is_lazy)
    add_and_scale(x, came.front(), kept.factor);
  else if (came.front().data != nullptr)
    add(x, came.front());
  else if (kept.is_lazy)
    scale(x, kept.factor);
}

}  // namespace

void scale(const MemorySpace& place, std::span<const Buffer> x, double factor) {
  if (!place.is_host()) return copy_on_device(place, in_place(x), device::times(factor));
  for (const Buffer& tensor : x) scale(tensor, factor);
}

void divide(const MemorySpace& place, std::span<const Buffer> x, double divisor) {
  if (!place.is_host()) return copy_on_device(place, in_place(x), device::over(divisor));
  for (const Buffer& tensor : x) divide(tensor, divisor);
}

void scaled_copy(const MemorySpace& place, std::span<const TensorPair> pairs, double factor) {
  if (!place.is_host()) return copy_on_device(place, pairs, device::times(factor));
  for (const auto& [from, to] : pairs) scaled_copy(from, to, factor);
}

void add(const MemorySpace& place, std::span<const TensorPair> pairs) {
  if (!place.is_host()) return add_on_device(place, pairs);
  for (const auto& [from, to] : pairs) add(to, from);
}

void mix(const MemorySpace& place, std::span<const Arrivals> tensors, Kept kept) {
  if (!place.is_host()) return place.launch(mix_work(tensors, kept, place.device()));
  for (const Arrivals& tensor : tensors) mix_on_host(tensor, kept);
}

}  // namespace plumbline::gossip

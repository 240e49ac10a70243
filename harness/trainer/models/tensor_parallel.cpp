#include "harness/trainer/models/tensor_parallel.hpp"

#include <algorithm>
#include <optional>

#include <ATen/ops/gelu.h>

#include "reference/training/pipeline/deferred.hpp"

namespace plumbline::training {
namespace {

// Calls with the places of each run of elements: in the whole, and in the part.
template <class Copy>
void for_each_run(const ParameterPart& place, const Copy& copy) {
  const auto length = static_cast<std::size_t>(place.own.size * place.inner);
  for (std::int64_t outer = 0; outer < place.outer; ++outer)
    copy(static_cast<std::size_t>((outer * place.count + place.own.begin) * place.inner),
         static_cast<std::size_t>(outer) * length, length);
}

Initial initial_of(const Initial& whole, const ParameterPart& place) {
  return [=](std::span<float> values, Random& random) {
    std::vector<float> all(static_cast<std::size_t>(place.outer * place.count * place.inner));
    whole(all, random);
    take_part(all, place, values);
  };
}

}  // namespace

void take_part(std::span<const float> whole, const ParameterPart& place, std::span<float> part) {
  for_each_run(place, [&](std::size_t from, std::size_t to, std::size_t length) {
    std::ranges::copy(whole.subspan(from, length), part.subspan(to, length).begin());
  });
}

void put_part(std::span<const float> part, const ParameterPart& place, std::span<float> whole) {
  for_each_run(place, [&](std::size_t to, std::size_t from, std::size_t length) {
    std::ranges::copy(part.subspan(from, length), whole.subspan(to, length).begin());
  });
}

Extent Products::extent(std::int64_t count) const {
  return group_ == nullptr ? Extent{0, count} : extent_of(count, group_->size(), group_->rank());
}

at::Tensor Products::part(const std::string& name, const ParameterPart& place, const std::vector<std::int64_t>& shape,
                          const Initial& initial) {
  if (group_ == nullptr) return tensors_.parameter(name, shape, initial);
  parts_[name] = place;
  return tensors_.parameter(name, shape, initial_of(initial, place));
}

Layer Products::column(const std::string& name, std::int64_t in, std::int64_t out, double deviation,
                       std::int64_t blocks, std::int64_t unit) {
  const std::int64_t count = out / blocks;
  const Extent units = extent(count / unit);
  const Extent own{units.begin * unit, units.size * unit};
  const at::Tensor weight =
      part(name + ".weight", {blocks, count, in, own}, {blocks * own.size, in}, normal(deviation));
  const at::Tensor bias = part(name + ".bias", {blocks, count, 1, own}, {blocks * own.size}, bias_);
  const auto group = group_ == nullptr ? std::nullopt : std::optional(*group_);
  return [=](const at::Tensor& x, const Pass& pass) {
    return group ? column_linear(*group, x, weight, bias, pass) : linear(x, weight, bias, pass);
  };
}

Layer Products::row(const std::string& name, std::int64_t in, std::int64_t out, double deviation, std::int64_t unit) {
  const Extent units = extent(in / unit);
  const Extent own{units.begin * unit, units.size * unit};
  const at::Tensor weight = part(name + ".weight", {out, in, 1, own}, {out, own.size}, normal(deviation));
  const at::Tensor bias = tensors_.parameter(name + ".bias", {out}, bias_);
  const auto group = group_ == nullptr ? std::nullopt : std::optional(*group_);
  return [=](const at::Tensor& x, const Pass& pass) {
    return group ? row_linear(*group, x, weight, bias, pass) : linear(x, weight, bias, pass);
  };
}

Layer perceptron_of(Products& products, const std::string& name, std::int64_t width, std::int64_t hidden,
                    double deviation, double deviation_of_output) {
  const Layer widen = products.column(name + ".widen", width, hidden, deviation);
  const Layer narrow = products.row(name + ".narrow", hidden, width, deviation_of_output);
  return [=](const at::Tensor& x, const Pass& pass) { return narrow(at::gelu(widen(x, pass)), pass); };
}

}  // namespace plumbline::training

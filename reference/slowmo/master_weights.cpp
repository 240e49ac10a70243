#include "reference/slowmo/detail/master_weights.hpp"

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::slowmo {
namespace {

using comm::Buffer;
using comm::DType;

std::vector<Buffer> fitting(const std::vector<Buffer>& masters, const std::vector<Buffer>& parameters) {
  if (masters.size() != parameters.size())
    throw InvalidArgument(
        fmt::format("slowmo: {} master weights for {} parameters", masters.size(), parameters.size()));
  for (std::size_t i = 0; i < masters.size(); ++i)
    if (masters[i].count != parameters[i].count || masters[i].dtype != DType::f32)
      throw InvalidArgument(
          fmt::format("slowmo: master weight {} has {} elements of {}, its parameter has {}; master weights are f32", i,
                      masters[i].count, comm::name_of(masters[i].dtype), parameters[i].count));
  return masters;
}

std::vector<Buffer> cut(Buffer flat, const std::vector<Buffer>& parameters) {
  std::int64_t elements = 0;
  std::vector<Buffer> masters;
  for (const Buffer& parameter : parameters) {
    if (elements + parameter.count <= flat.count) masters.push_back(part_of(flat, elements, parameter.count));
    elements += parameter.count;
  }
  if (elements != flat.count)
    throw InvalidArgument(
        fmt::format("slowmo: the flat master weights have {} elements, the parameters {}", flat.count, elements));
  return fitting(masters, parameters);
}

std::vector<Buffer> masters_in(const Tensors& tensors) {
  if (const auto* list = std::get_if<std::vector<Buffer>>(&tensors.master_weights))
    return fitting(*list, tensors.parameters);
  if (const auto* flat = std::get_if<Buffer>(&tensors.master_weights)) return cut(*flat, tensors.parameters);
  if (const auto* named = std::get_if<std::map<std::string, Buffer>>(&tensors.master_weights)) {
    if (named->size() != 1)
      throw InvalidArgument(
          fmt::format("slowmo: a dictionary of {} master weights; it has one entry, all of them flat", named->size()));
    return cut(named->begin()->second, tensors.parameters);
  }
  return {};
}

}  // namespace

MasterWeights::MasterWeights(const Tensors& tensors) : halves_(tensors.parameters), masters_(masters_in(tensors)) {
  for (std::size_t i = 0; i < masters_.size(); ++i) {
    to_master_.push_back({halves_[i], masters_[i]});
    to_half_.push_back({masters_[i], halves_[i]});
  }
}

void MasterWeights::keep_errors(const device::MemorySpace& place, double divisor) const {
  if (empty()) return;
  divide(place, halves_, divisor);
  multiply(place, halves_, divisor);
  subtract(place, to_master_);
}

void MasterWeights::add_errors(const device::MemorySpace& place) const {
  if (!empty()) add(place, to_master_);
}

void MasterWeights::copy_back(const device::MemorySpace& place) const { copy(place, to_half_); }

}  // namespace plumbline::slowmo

// reference/slowmo/detail/master_weights.hpp: error feedback between parameters of 16 bits and their masters of f32.
//
// Model   An average is of halves. What a half had lost against its master is not averaged: it stays with the rank.
//           keep_errors()  master -= half       before communication
//           add_errors()   master += half       after it, when the half is the average
//           copy_back()    half = master
//         Nothing of it is done where there are no masters.
#pragma once

#include <span>
#include <vector>

#include "reference/device/memory_space.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/slowmo.hpp"

namespace plumbline::slowmo {

class MasterWeights {
 public:
  /// A master for each parameter, in order, or none at all. Throws InvalidArgument for masters that do not fit.
  explicit MasterWeights(const Tensors& tensors);

  [[nodiscard]] bool empty() const { return to_master_.empty(); }
  [[nodiscard]] const std::vector<comm::Buffer>& list() const { return masters_; }

  /// Halves are divided and multiplied by what the average divides by, so that the bits which that costs stay here. 1:
  /// nothing is divided.
  void keep_errors(const device::MemorySpace& place, double divisor) const;
  void add_errors(const device::MemorySpace& place) const;
  void copy_back(const device::MemorySpace& place) const;

 private:
  std::vector<comm::Buffer> halves_, masters_;
  std::vector<TensorPair> to_master_, to_half_;
};

}  // namespace plumbline::slowmo

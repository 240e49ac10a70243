// reference/bucketing/detail/caller_memory.hpp: gradients that stay in the caller's memory (GradientMemory::copies).
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "reference/comm/call.hpp"

namespace plumbline::bucketing {

class CallerMemory {
 public:
  explicit CallerMemory(std::size_t gradients) : sources_(gradients) {}

  /// Notes where the caller has a gradient, until clear(). Where another gradient of the step lies in a part of that
  /// memory, in which both would be reduced: notes nothing, and returns that gradient.
  [[nodiscard]] std::optional<int> hold(int gradient, const comm::Buffer& values);
  /// Where a gradient is; without elements where the step has none yet.
  [[nodiscard]] const comm::Buffer& of(int gradient) const { return sources_[static_cast<std::size_t>(gradient)]; }
  void clear();

 private:
  [[nodiscard]] std::optional<int> gradient_in(const comm::Buffer& values) const;

  std::vector<comm::Buffer> sources_;      // by gradient
  std::map<const std::byte*, int> begin_;  // gradients by where they begin; no two overlap
};

}  // namespace plumbline::bucketing

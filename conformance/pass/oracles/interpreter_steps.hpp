// conformance/pass/oracles/interpreter_steps.hpp: the steps of the interpreter of programs that a wrong one replaces.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/program/program.hpp"

namespace plumbline::program {

/// Where the members of a fused variable begin, given their elements, and after the last one where the whole ends.
/// `alignment` in elements.
[[nodiscard]] inline std::vector<std::int64_t> places_of(const std::vector<std::int64_t>& elements,
                                                         std::int64_t alignment) {
  std::vector<std::int64_t> places{0};
  for (const std::int64_t count : elements)
    places.push_back(places.back() + (count + alignment - 1) / alignment * alignment);
  return places;
}

/// What decides the numbers, as functions: an interpreter with another one in place of one of them is wrong in one
/// known way.
struct InterpreterSteps {
  /// In place, over a ring.
  std::function<void(comm::Communicator& ring, comm::Buffer values, comm::ReduceOp op)> all_reduce =
      [](comm::Communicator& ring, comm::Buffer values, comm::ReduceOp op) { ring.all_reduce(values, values, op); };
  /// The group that an op of a ring runs over, of those by ring.
  std::function<comm::Communicator&(std::map<RingId, std::unique_ptr<comm::Communicator>>& rings, RingId ring)> group =
      [](auto& rings, RingId ring) -> comm::Communicator& { return *rings.at(ring); };
  std::function<std::vector<std::int64_t>(const std::vector<std::int64_t>& elements, std::int64_t alignment)> places =
      places_of;
  /// What an optimizer multiplies its gradient by.
  std::function<double(const Op& optimizer)> rescale = [](const Op& optimizer) {
    return number_of(optimizer, "rescale_grad").value_or(1);
  };
};

}  // namespace plumbline::program

// harness/mutants/wrong_steps.hpp: a component's steps with one of them replaced. Not for others.
#pragma once

#include <functional>
#include <utility>

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// The right steps with `change` made to them, for each rank and case anew. `change` takes the steps by reference:
/// their type says whose they are, as in with([](ReducerSteps& steps) { ... }).
template <class Steps>
[[nodiscard]] MakeSteps with(std::function<void(Steps&)> change) {
  return [change = std::move(change)] {
    Steps steps;
    change(steps);
    return suite::Steps(std::move(steps));
  };
}
template <class Change>
[[nodiscard]] MakeSteps with(Change change) {
  return with(std::function(std::move(change)));
}

}  // namespace plumbline::mutants

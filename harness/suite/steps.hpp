// harness/suite/steps.hpp: the steps with which the reference's components run in a case: the right ones, or a
// mutant's.
//
// Model   A component takes its steps as a struct of functions whose defaults are the right ones (ExecutorSteps of
//         training, ContextSteps of groups). This holds those that a mutant replaced, by type; all others are the
//         defaults.
#pragma once

#include <any>
#include <concepts>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

namespace plumbline::suite {

class Steps {
 public:
  Steps() = default;
  /// Those of some components replaced, each by its struct.
  template <class... ComponentSteps>
    requires(sizeof...(ComponentSteps) > 0 && (!std::same_as<ComponentSteps, Steps> && ...))
  explicit Steps(ComponentSteps... steps) {
    (replaced_.insert_or_assign(typeid(ComponentSteps), std::move(steps)), ...);
  }
  /// The component's steps. Who copies them copies what they remember, unless they share it.
  template <class ComponentSteps>
  [[nodiscard]] const ComponentSteps& of() const {
    static const ComponentSteps right;
    const auto found = replaced_.find(typeid(ComponentSteps));
    return found == replaced_.end() ? right : std::any_cast<const ComponentSteps&>(found->second);
  }

 private:
  std::unordered_map<std::type_index, std::any> replaced_;
};

}  // namespace plumbline::suite

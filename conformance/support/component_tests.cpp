#include "conformance/support/component_tests.hpp"

#include <algorithm>
#include <memory>

#include "harness/subject/adapter/client.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

suite::Suite suite_of(void (*add)(suite::Suite&)) {
  suite::Suite made;
  add(made);
  return made;
}

const suite::Case& case_named(const suite::Suite& suite, const std::string& id) {
  const auto found = std::ranges::find(suite.cases(), id, &suite::Case::id);
  if (found == suite.cases().end()) throw NotFound("no case " + id);
  return *found;
}

bool is_large(const suite::Case& one) {
  return one.check->id.find(".sizes.") != std::string::npos &&
         one.parameters.text("size") != one.check->axes.front().values.front();
}

suite::Adapter& reference_adapter() {
  static const std::unique_ptr<suite::Adapter> adapter = subject::open_adapter("reference");
  return *adapter;
}

}  // namespace plumbline::conformance

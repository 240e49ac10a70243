#include "conformance/support/control.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "conformance/support/asking.hpp"

// controls.json: for each operation and convention that is asked what it must refuse, a question with its answer.
extern const std::string_view plumbline_control_questions;

namespace plumbline::conformance {

using nlohmann::json;

std::string problem_of_control(suite::Adapter& adapter, const std::string& op, const json& args) {
  static const json controls = json::parse(plumbline_control_questions);
  const std::string convention = args.is_object() ? args.value("convention", "plumbline") : "plumbline";
  const auto found = std::ranges::find_if(controls, [&](const json& one) {
    return one.at("op") == op && one.at("args").value("convention", "plumbline") == convention;
  });
  if (found == controls.end()) return fmt::format("controls.json has no question of {} for {}", op, convention);
  const std::string words = problem_of(adapter, op, found->at("args"),
                                       [&](const json& result) { return first_difference(found->at("result"), result); });
  return words.empty() ? "" : fmt::format("{} {} must have an answer: {}", op, found->at("args").dump(), words);
}

}  // namespace plumbline::conformance

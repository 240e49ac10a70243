#include "conformance/support/control.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "conformance/support/asking.hpp"

// controls.json: for each operation and convention that is asked what it must refuse, questions with their answers.
extern const std::string_view plumbline_control_questions;

namespace plumbline::conformance {

using nlohmann::json;

std::string problem_of_control(suite::Adapter& adapter, const std::string& op, const json& args) {
  static const json controls = json::parse(plumbline_control_questions);
  const std::string convention = args.is_object() ? args.value("convention", "plumbline") : "plumbline";
  const json* closest = nullptr;
  std::ptrdiff_t most = -1;
  for (const json& one : controls) {
    const json& asked = one.at("args");
    if (one.at("op") != op || asked.value("convention", "plumbline") != convention) continue;
    std::ptrdiff_t same = 0;
    for (const auto& [name, value] : asked.items())
      same += args.is_object() && args.contains(name) && args.at(name) == value ? 1 : 0;
    if (same > most) closest = &one;
    most = std::max(most, same);
  }
  if (closest == nullptr) return fmt::format("controls.json has no question of {} for {}", op, convention);
  const std::string words = problem_of(adapter, op, closest->at("args"), [&](const json& result) {
    return first_difference(closest->at("result"), result);
  });
  return words.empty() ? "" : fmt::format("{} {} must have an answer: {}", op, closest->at("args").dump(), words);
}

}  // namespace plumbline::conformance

// conformance/scaler/overflows.hpp: sequences of steps with and without overflows, drawn by what is hard in them.
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "conformance/support/property.hpp"
#include "harness/suite/check.hpp"

namespace plumbline::conformance {

inline constexpr const char* kTrace = "scaler.trace";

/// A rule and the steps that it is taken through.
struct Overflows {
  nlohmann::json init;      // the rule, as its convention names it
  std::vector<bool> found;  // a step each
};

/// The scale and counters before the first step and after each.
using ScaleRows = std::vector<nlohmann::json>;
/// The scale that a step used.
[[nodiscard]] inline double scale_at(const ScaleRows& rows, std::size_t step) {
  return rows[step].at("scale").get<double>();
}

/// "" when the rows are what the rule makes of the steps.
using JudgeRows = std::function<std::string(const Overflows& asked, const ScaleRows& rows)>;

/// "none", "few", "many", "all": how often steps overflow. Throws NotFound for another.
[[nodiscard]] std::vector<bool> draw_overflows(const std::string& kind, Random& random);
/// Fewer steps first, then fewer overflows.
[[nodiscard]] std::vector<std::vector<bool>> smaller_overflows(const std::vector<bool>& found);
/// "..!.": a character a step.
[[nodiscard]] std::string text_of(const std::vector<bool>& found);

/// The row that ends a run with an error, of those that may end so.
using FindEnd = std::function<std::size_t(const Overflows& asked)>;
inline constexpr std::size_t kNoEnd = std::numeric_limits<std::size_t>::max();

/// "" when the first scale is the initial one: all later ones are compared with those before them.
[[nodiscard]] std::string problem_of_first(const ScaleRows& rows, const nlohmann::json& init);

/// The rows of a rule with counters (megatron, colossalai, deepspeed), which end with an error at row `end` alone, or
/// what is wrong with the answer.
[[nodiscard]] std::string ask_for_rows(suite::Adapter& adapter, const std::string& convention, const Overflows& asked,
                                       std::size_t end, const std::function<std::string(const ScaleRows&)>& judge);

/// Draws rules with `draw_init` and steps by the parameter "overflows", and judges the rows of each.
void judge_overflows(suite::Context& context, const std::string& convention,
                     const std::function<nlohmann::json(Random&)>& draw_init, const JudgeRows& judge,
                     const FindEnd& end = {});

/// Whether two scales are the same up to the rounding of one product in 32 bits.
[[nodiscard]] bool is_near(double got, double expected);

}  // namespace plumbline::conformance

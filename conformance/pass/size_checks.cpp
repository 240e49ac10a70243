// Training steps of fifty ops to 10,000: groups of as many gradients as the limit holds, and nothing else.
#include <fmt/format.h>

#include "conformance/pass/answers.hpp"
#include "conformance/pass/pass_checks.hpp"
#include "conformance/pass/question.hpp"
#include "conformance/support/asking.hpp"
#include "conformance/support/sizes.hpp"

namespace plumbline::conformance {

using nlohmann::json;
using suite::Adapter;

namespace {

// Five ops a gradient: forward, backward, reduction, scaling and update; and three for the loss.
JudgeSize long_steps(const std::string& convention) {
  return [convention](Adapter& adapter, int ops) {
    constexpr std::size_t in_group = 10;
    PassQuestion question{.gradients = std::vector<DrawnGradient>(static_cast<std::size_t>(ops / 5)),
                          .limit = 4 * in_group};
    const std::size_t gradients = question.gradients.size();
    json expected{{"groups", json::array()}}, analysis{{"grad_to_ring", json::array()}, {"could_be_fuse", true}};
    for (std::size_t i = 0; i < gradients; ++i) {
      if (i % in_group == 0)
        expected["groups"].push_back(
            {{"gradients", json::array()}, {"numel", 0}, {"ring_id", 10}, {"dtype", "float32"}});
      json& group = expected["groups"].back();
      group["gradients"].push_back(PassQuestion::name_of(i));
      group["numel"] = group["numel"].get<int>() + 4;
      analysis["grad_to_ring"].push_back(json::array({PassQuestion::name_of(i), 10}));
    }
    expected["analysis"] = std::move(analysis);
    const json args = question.args(convention);
    return problem_of(adapter, kPass, args, [&](const json& result) -> std::string {
      if (std::string words = first_difference(expected, result); !words.empty()) return words;
      const json after = program_at(args, result, "final");
      std::size_t reductions = 0, updates = 0;
      for (const json& op : after.at("ops")) {
        if (is_scale(op)) return "a scaling is left";
        reductions += is_reduction(op) ? 1 : 0;
        updates += op.at("type") == "sgd" ? 1 : 0;
      }
      return reductions == expected["groups"].size() && updates == gradients
                 ? ""
                 : fmt::format("{} reductions of {} groups and {} updates of {} gradients", reductions,
                               expected["groups"].size(), updates, gradients);
    });
  };
}

}  // namespace

void add_pass_size_checks(suite::Suite& suite) {
  const std::vector<int> ops{50, 400, 2500, 10'000};
  add_sized_check(suite, "pass", {kPass, "PASS-034@811d", ops, long_steps("plumbline")});
  add_sized_check(suite, "pass", {kPass, "PASS-070@416f", {50, 400, 4000}, long_steps("paddle"), "paddle"});
}

}  // namespace plumbline::conformance

// Adapters whose answers are right of small questions, and wrong of large ones.
#include "conformance/slowmo/slowmo_mutants.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

void other_parameter(const json&, json& result) { one_more(result["steps"].back().back()["params"][0]); }

}  // namespace

std::vector<Mutant> slowmo_size_mutants() {
  return {
      past_size({"slo.other_past_50", "SLOWMO-013", "of more than 50 ranks, the last one ends with another parameter",
                 "slowmo.sizes.trace", "64", "17",
                 results_past("slowmo.trace", number_in("world_size"), 50, other_parameter)}),
  };
}

}  // namespace plumbline::mutants

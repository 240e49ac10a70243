// Adapters whose answers are right of small questions, and wrong of large ones.
#include "conformance/scaler/scaler_mutants.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

void late_scale(const json&, json& result) { one_more(result["results"].back()["scale"]); }

}  // namespace

std::vector<Mutant> scaler_size_mutants() {
  return {
      past_size({"amp.late_past_20000", "SCALER-002", "behind more than 20,000 operations the scale is one more",
                 "scaler.sizes.trace", "10000", "4567",
                 results_past("scaler.trace", length_of("ops"), 20'000, late_scale)}),
  };
}

}  // namespace plumbline::mutants

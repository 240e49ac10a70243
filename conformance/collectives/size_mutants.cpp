// Adapters whose answers are right of small questions, and wrong of large ones.
#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

void other_sum(const json&, json& result) { one_more(result["output"].back()); }
void other_memory(const json&, json& result) { one_more(result["calls"].back()["memory"].back().back()); }

}  // namespace

std::vector<Mutant> collectives_size_mutants() {
  return {
      past_size({"ans.sum_past_1000", "COLL-060", "of more than 1,000 elements, the last sum is one more",
                 "collectives.sizes.ring_sum_gloo", "4099", "333",
                 results_past("comm.ring_sum", number_in("elements"), 1000, other_sum)}),
      past_size({"ans.memory_past_100", "COLL-001", "of more than 100 calls, the last leaves another number",
                 "collectives.sizes.calls_many", "700", "60",
                 results_past("comm.calls", length_of("calls"), 100, other_memory)}),
  };
}

}  // namespace plumbline::mutants

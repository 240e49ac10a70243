// Adapters whose answers are right of small questions, and wrong of large ones.
#include <algorithm>

#include "conformance/groups/groups_mutants.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

void reverse_groups(const json&, json& result) {
  for (json& lists : result["groups"])
    for (json& list : lists) std::reverse(list.begin(), list.end());
}

}  // namespace

std::vector<Mutant> groups_size_mutants() {
  return {
      past_size({"grp.reversed_past_600", "GROUP-024",
                 "in worlds of more than 600 ranks, groups are listed from their last ranks on",
                 "groups.sizes.parallel_groups", "1001", "60",
                 results_past("groups.parallel_groups", number_in("world_size"), 600, reverse_groups)}),
  };
}

}  // namespace plumbline::mutants

// Adapters whose answers are right of small questions, and wrong of large ones.
#include "conformance/pass/pass_mutants.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

std::size_t ops_of(const json& args) { return args.at("program").at("ops").size(); }
void split_a_group(const json&, json& result) {
  json& group = result["groups"].back();
  json rest = group;
  group["gradients"].erase(group["gradients"].size() - 1);
  rest["gradients"] = {rest["gradients"].back()};
  result["groups"].push_back(std::move(rest));
}
void no_race(const json&, json& result) { result["races"] = json::array(); }

}  // namespace

std::vector<Mutant> pass_size_mutants() {
  return {
      past_size({"pass.splits_past_1000", "PASS-034", "of more than 1,000 ops, the last group is two",
                 "pass.sizes.dp_pass", "2500", "400", results_past("bucketing.dp_pass", ops_of, 1000, split_a_group)}),
      past_size({"pass.race_free_past_5000", "PASS-081", "programs of more than 5,000 ops have no race",
                 "pass.sizes.race_check_one", "10000", "2500",
                 results_past("bucketing.race_check", ops_of, 5000, no_race)}),
  };
}

}  // namespace plumbline::mutants

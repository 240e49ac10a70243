// Adapters whose answers are right of small questions, and wrong of large ones.
#include "conformance/bucketing/bucketing_mutants.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

// The last gradient of a bucket goes into the next one.
void move_a_gradient(const json&, json& result) {
  json& buckets = result["buckets"];
  json &from = buckets[buckets.size() - 3], &to = buckets[buckets.size() - 2];
  to.insert(to.begin(), from.back());
  from.erase(from.size() - 1);
}

}  // namespace

std::vector<Mutant> bucketing_size_mutants() {
  return {
      past_size({"bkt.moved_past_10000", "BUCKET-003",
                 "of more than 10,000 gradients, one is in the bucket after its own", "bucketing.sizes.assign",
                 "100000", "4567", results_past("bucketing.assign", length_of("numel"), 10'000, move_a_gradient)}),
  };
}

}  // namespace plumbline::mutants

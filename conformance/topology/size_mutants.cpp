// Adapters whose answers are right of small questions, and wrong of large ones.
#include "conformance/topology/topology_mutants.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

std::size_t product_of_dims(const json& args) {
  std::size_t ranks = 1;
  for (const json& size : args.at("dims")) ranks *= size.get<std::size_t>();
  return ranks;
}
void other_position(const json& args, json& result) {
  if (args.at("call") == "get_coord") one_more(result["result"].back());
}

}  // namespace

std::vector<Mutant> topology_size_mutants() {
  return {
      past_size({"top.coordinates_past_10000", "TOPO-003",
                 "in worlds of more than 10,000 ranks, the last position is one more", "topology.sizes.query", "65536",
                 "1001", results_past("topology.query", product_of_dims, 10'000, other_position)}),
  };
}

}  // namespace plumbline::mutants

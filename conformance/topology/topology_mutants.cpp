// Adapters that take worlds of more ranks than an int holds: with such a world the code that they wrap would not end.
#include "conformance/topology/topology_mutants.hpp"

#include <algorithm>

#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

std::vector<Mutant> topology_mutants() {
  return {
      {"top.overflow_wraps", "TOPO-015", "the product of the sizes wraps around", "sizes are multiplied as 32 bits",
       "topology.refusals.worlds[fault=product_overflow]", "topology.refusals.worlds[fault=axis_twice]",
       "the product is small",
       takes("topology.process_topology",
             [](const json& args) { return std::ranges::count(args.at("dims"), json(65536)) > 0; })},
      {"top.span_wraps", "TOPO-015", "the size of a span is a product of 32 bits, and taken where it is positive",
       "sizes are multiplied as 32 bits", "topology.refusals.worlds[fault=wraps_small_of_span]",
       "topology.refusals.worlds[fault=wraps_negative_of_span]", "the product comes out negative",
       takes("topology.hyper_comm_grid", [](const json& args) { return args.at("shape") == json{65536, 65537}; })},
  };
}

}  // namespace plumbline::mutants

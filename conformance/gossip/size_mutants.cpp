// Adapters whose answers are right of small questions, and wrong of large ones.
#include "conformance/gossip/gossip_mutants.hpp"
#include "harness/mutants/rewriting.hpp"

namespace plumbline::mutants {

using nlohmann::json;

namespace {

void forget_the_farthest(const json&, json& result) {
  if (!result.contains("phone_book")) return;
  for (json& book : result["phone_book"]) book.erase(book.size() - 1);
}

}  // namespace

std::vector<Mutant> gossip_size_mutants() {
  return {
      past_size({"gos.short_book_past_500", "GOSSIP-015", "of more than 500 nodes, phone books lack the farthest one",
                 "gossip.sizes.graph", "1024", "334",
                 results_past("gossip.graph", number_in("world_size"), 500, forget_the_farthest)}),
  };
}

}  // namespace plumbline::mutants

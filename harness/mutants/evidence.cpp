#include "harness/mutants/evidence.hpp"

#include <algorithm>

namespace plumbline::mutants {

std::vector<std::string> checks_of(const suite::Suite& suite, const suite::Requirement& requirement) {
  std::vector<std::string> ids;
  for (const suite::Check& check : suite.checks())
    if (std::ranges::find(check.verifies, requirement.id, &suite::id_of_citation) != check.verifies.end())
      ids.push_back(check.id);
  return ids;
}

std::vector<std::string> mutants_of(const suite::Suite& suite, const suite::Requirement& requirement) {
  std::vector<std::string> names;
  for (const suite::Mutant& mutant : suite.mutants())
    if (mutant.violates == requirement.id) names.push_back(mutant.name);
  return names;
}

}  // namespace plumbline::mutants

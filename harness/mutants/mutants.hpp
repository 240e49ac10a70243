// harness/mutants/mutants.hpp: subjects that are wrong on purpose in one known way, to prove that the checks can fail.
//
// Model   A mutant names the requirement that it violates, a case in which it must show, and one in which it cannot. This
//         kind is a communicator around the backend's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reference/comm/communicator.hpp"

namespace plumbline::mutants {

struct Mutant {
  std::string name;       // "col.drop_last_element"
  std::string violates;   // requirement id
  std::string what;       // one line
  std::string source;     // of the fault: a row of the bug catalogue, or why it is likely
  std::string shows;      // a case id that must fail
  std::string hides;      // a case id that must pass, or empty
  std::string why_hides;  // the reason, also where nothing hides it
  std::function<std::unique_ptr<comm::Communicator>(std::unique_ptr<comm::Communicator>)> wrap;
};

/// All of them, by name.
[[nodiscard]] const std::vector<Mutant>& all_mutants();
/// Throws NotFound, naming the nearest names.
[[nodiscard]] const Mutant& find_mutant(const std::string& name);

}  // namespace plumbline::mutants

// harness/mutants/mutants.hpp: what the mutants of a component (suite::Mutant) are written with, and how one is found
// by name.
#pragma once

#include <string>
#include <vector>

#include "harness/suite/mutant.hpp"

namespace plumbline::suite {
class Suite;  // harness/suite/suite.hpp
}

namespace plumbline::mutants {

using suite::ChangeRecord;
using suite::MakeRewrite;
using suite::Mutant;
using suite::RewriteAnswer;
using suite::Sanitized;
using suite::Wrap;
using suite::WrapRuntime;

/// The mutant as one that is a data race.
[[nodiscard]] Mutant racing(Mutant mutant);
/// Why nothing can be learnt of it under the sanitizer that this program is built with; nothing where that is not so.
[[nodiscard]] std::string why_not_under_sanitizer(const Mutant& mutant);

/// Why this build cannot run the mutant, an edit of the source: nothing of it is in the product. Nothing where it can.
[[nodiscard]] std::string why_not_woven(const Mutant& mutant);
/// The program of the woven build beside this one, "build/woven/bin/plumbline": by its path from the current folder,
/// where it lies below that. Empty where there is none.
[[nodiscard]] const std::string& woven_program();
/// Chooses an edit: for children of this process, and for what it does itself: of a backend from now on, of an adapter
/// while there is a WovenHere. Null, and a mutant that is none: the right source.
void choose_woven(const Mutant* mutant);
class WovenHere {
 public:
  WovenHere();
  ~WovenHere();
  WovenHere(const WovenHere&) = delete;
  WovenHere& operator=(const WovenHere&) = delete;
};

/// Subjects whose answers, records or calls have the right form and nothing in it ("hollow.zero"): they violate every
/// requirement that is not true of them, so `violates`, `shows` and `hides` are empty. `plumbline check --mutant` takes
/// them, too.
[[nodiscard]] const std::vector<Mutant>& hollow_subjects();
/// One of the suite's, or a hollow subject. Throws NotFound, naming the nearest names.
[[nodiscard]] const Mutant& find_mutant(const suite::Suite& suite, const std::string& name);
/// The same for a subject behind that door. Throws also InvalidArgument, for a mutant of another door, or of a woven
/// build alone.
[[nodiscard]] const Mutant& find_mutant(const suite::Suite& suite, const std::string& name, suite::Door door);

}  // namespace plumbline::mutants

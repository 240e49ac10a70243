// reference/program/validate.hpp: is a program one that can run?
//
// Model   A reader knows the form of a program; what is checked here is its sense: every name stands for a variable,
//         every op is known and has the slots that it may have, rings exist, and what is read was written before,
//         or comes from outside: a variable that persists, or one that no op writes, such as a batch. Who reads or
//         writes a fused variable does so with all parts that coalesce_tensor gave it; a nop and a wait touch nothing.
// Cost    About linear in the names of all ops, and a search for a cycle where something is read too early.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/comm/errors.hpp"
#include "reference/program/program.hpp"

namespace plumbline::program {

enum class ProgramFault : std::uint8_t {
  undeclared_variable,  // a name that stands for nothing
  shape,                // a dimension below -1, or more elements than 64 bits count
  unknown_op,           // a type that op_signature() does not know
  unknown_slot,         // that ops of the type do not have
  missing_ring,         // communication that names none
  unknown_ring,         // one that does not exist
  used_before_written,  // a variable is read, and an op after that is the first to write it
  cyclic_dependency,    // the same, and no other order of the ops helps
  not_copied,  // coalesce_tensor made it a part without its value, and an op reads it before it is written again
};
/// "undeclared_variable", …
[[nodiscard]] std::string_view name_of(ProgramFault fault);

struct ProgramProblem {
  ProgramFault fault = ProgramFault::undeclared_variable;
  int op = -1;           // its position; -1: none in particular
  std::string variable;  // empty: none in particular
  std::string message;
};

/// The slots that ops of a type may have.
struct OpSignature {
  std::vector<std::string> inputs, outputs;
};
/// Nothing for a type that is not known. Of `T_grad` it follows from T: reads what T reads and writes and the gradients
/// of what T writes, and writes the gradients of what T reads.
[[nodiscard]] std::optional<OpSignature> op_signature(std::string_view type);

struct ValidationRules {
  /// Ops of unknown types, and unknown slots of known ones, are problems. A pass moves ops that it does not know.
  bool known_ops = true;
  bool rings_exist = true;
  bool order = true;  // what is read was written
};

/// All of them, op by op; those of variables first. Never throws on a bad program.
[[nodiscard]] std::vector<ProgramProblem> find_problems(const Program& program, const Rings& rings,
                                                        const ValidationRules& rules = {});

/// What find_problems() found. The message is that of the first, and the number of further ones.
class InvalidProgram : public InvalidArgument {
 public:
  explicit InvalidProgram(std::vector<ProgramProblem> problems);
  [[nodiscard]] const std::vector<ProgramProblem>& problems() const noexcept { return problems_; }

 private:
  std::vector<ProgramProblem> problems_;
};

/// Throws InvalidProgram where there is a problem.
void require_valid(const Program& program, const Rings& rings, const ValidationRules& rules = {});

}  // namespace plumbline::program

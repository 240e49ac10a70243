// conformance/pass/program_text.hpp: small programs as texts, a line an op.
//
// Form    TYPE INPUTS -> OUTPUTS ATTRIBUTES. Inputs and outputs are SLOT:NAME,NAME or NAME,NAME, which is slot X or Out
//         (of collectives x or out). Attributes are role=N (else 1), dp (the scope of data parallelism), scope=TEXT,
//         ring=N, by=sum|avg|…, calc=0|1 (use_calc_stream), on=STREAM, and NAME=VALUE for any other.
// Short   L l          fill_constant -> l role=257 value=1
//         R a          all_reduce a -> a dp ring=12 by=sum; R a s writes s
//         S a          scale a -> a dp scale=0.5
//         O a, G a     R a off the calculation stream, and on the stream of gradients
//         W 12, Q 12   c_wait_compute ring=12, c_wait_comm ring=12
//         C f a,b      coalesce_tensor Input:a,b -> Output:a,b FusedOutput:f copy_data=false
//         N a -> b     nop a -> b on the stream of gradients
//         sgd w a      sgd Param:w Grad:a -> ParamOut:w role=2; so for momentum and others, with rescale_grad=1
//         What stands after it overrides what it stands for.
// Names   A variable has 4 elements of float32; one whose name begins with a capital letter persists.
#pragma once

#include <string>
#include <vector>

#include "reference/program/program.hpp"

namespace plumbline::conformance {

/// Throws std::invalid_argument for a line that is none.
[[nodiscard]] program::Program program_of_text(const std::string& text);

/// An op a line, in the long form, without what coalesce_tensor says of shapes.
[[nodiscard]] std::vector<std::string> lines_of(const program::Program& program);

/// "" where both have the same ops, else the first line that differs.
[[nodiscard]] std::string difference_of_lines(const program::Program& expected, const program::Program& got);

}  // namespace plumbline::conformance

// harness/statement/page.hpp: a statement as a page that a customer reads.
#pragma once

#include <string>

#include "harness/statement/statement.hpp"

namespace plumbline::statement {

/// The same words in both: the claim, what it rests on, each requirement with what its cases came to, what is not
/// claimed, waivers, the environment, and how to repeat and to verify it. HTML is one file without references.
[[nodiscard]] std::string markdown_of(const Statement& statement);
[[nodiscard]] std::string html_of(const Statement& statement);

/// What a requirement came to, in a reader's words: "pass", "not claimed", "waived".
[[nodiscard]] std::string outcome_of(const Line& line);

/// The commands that make the records again, as a shell script.
[[nodiscard]] std::string reproduce_script(const Statement& statement);

}  // namespace plumbline::statement

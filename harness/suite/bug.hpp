// harness/suite/bug.hpp: real faults of public projects that requirements and mutants go back to.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::suite {

struct Bug {
  std::string id;                    // "COL-04"
  std::vector<std::string> reports;  // "NVIDIA/Fuser#2499"; with @ a commit
  std::string what;                  // one sentence
};

/// The [[bug]] tables of a file, by id. Throws InvalidArgument with file, line, column and what is wrong.
[[nodiscard]] std::map<std::string, Bug> bugs_of_toml(std::string_view text, std::string_view origin);

/// The first id of a bug in a source: "COL-04" of "COL-04", "COL-04: and more" and "a barrier that leaks: COL-04";
/// nothing for other sources.
[[nodiscard]] std::optional<std::string> bug_in(std::string_view source);

/// "https://github.com/NVIDIA/Fuser/issues/2499".
[[nodiscard]] std::string address_of(std::string_view report);

}  // namespace plumbline::suite

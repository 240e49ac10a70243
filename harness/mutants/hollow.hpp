// harness/mutants/hollow.hpp: what a hollow subject may pass.
#pragma once

#include <map>
#include <string>

namespace plumbline::mutants {

/// The requirements whose sentence is true of a hollow subject, by its name, with the reason for each (hollow.toml). Throws
/// InvalidArgument where the file that was compiled in is malformed.
[[nodiscard]] const std::map<std::string, std::map<std::string, std::string>>& hollow_truths();

}  // namespace plumbline::mutants

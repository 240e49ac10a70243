// harness/suite/hollow_truths.hpp: the requirements whose sentence is true of a hollow subject
// (harness/mutants/hollow.cpp), so that they may pass on it.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace plumbline::suite {

/// By subject and requirement: the reason.
using HollowTruths = std::map<std::string, std::map<std::string, std::string>>;

/// Adds the [[true_of]] tables of a file. Throws InvalidArgument with file, line, column and what is wrong.
void add_truths_of_toml(HollowTruths& truths, std::string_view text, std::string_view origin);

}  // namespace plumbline::suite

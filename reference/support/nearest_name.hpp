// reference/support/nearest_name.hpp: the known name that a misspelt one may mean.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

/// At most `most` of the names: first those that differ from `name` in the fewest letters inserted, removed or changed
/// (Levenshtein), upper and lower case being the same.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view name, std::vector<std::string> names,
                                                     std::size_t most);

/// "; did you mean ring?" of the nearest name, where no more than a third of the letters differ, or one, or where one
/// is a part of the other; else nothing.
[[nodiscard]] std::string did_you_mean(std::string_view name, std::vector<std::string> names);

/// "there are local, mpi, nccl; did you mean local?": all names, and the one that `name` may have meant.
[[nodiscard]] std::string there_are(std::string_view name, const std::vector<std::string>& names);

}  // namespace plumbline

// conformance/support/words.hpp: what an error message names, in whatever words it does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::conformance {

/// Whether a message has a name or number by itself: "3" is in "at 3." and not in "13", "-3", "3.5" or "x3".
[[nodiscard]] bool has_word(std::string_view message, std::string_view word);

/// The words that a message lacks, as "'7' and 'data'"; "" when it has all.
[[nodiscard]] std::string missing_words(std::string_view message, const std::vector<std::string>& words);

/// The whole numbers that stand in a message by themselves, in order: 3, -4 in "gradient 3 of f32 has -4 or 2.5".
[[nodiscard]] std::vector<std::int64_t> numbers_in(std::string_view message);
/// "" where a message has these numbers in this order, among others; else what it lacks.
[[nodiscard]] std::string missing_numbers(std::string_view message, const std::vector<std::int64_t>& numbers);

/// The numbers that a message gives as ranks: those after "rank" or "ranks", as in "rank 1", "Rank1", "ranks [0, 2]".
[[nodiscard]] std::vector<int> ranks_named(std::string_view message);
/// The message without those, so that a value is not found in the number of a rank; "root rank 2" is a value.
[[nodiscard]] std::string without_ranks(std::string_view message);

}  // namespace plumbline::conformance

// harness/suite/library_words.hpp: messages of libraries, for readers who do not know the library.
#pragma once

#include <string>
#include <string_view>

namespace plumbline::suite {

/// Without what a library says of itself: "[json.exception.out_of_range.403] key 'a' not found" begins at "key".
inline std::string words_without_library(std::string_view words) {
  const std::size_t end = words.starts_with("[json.exception.") ? words.find("] ") : std::string_view::npos;
  return std::string(end == std::string_view::npos ? words : words.substr(end + 2));
}

}  // namespace plumbline::suite

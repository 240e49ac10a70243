// harness/suite/library_words.hpp: messages of libraries, for readers who do not know the library.
#pragma once

#include <string>
#include <string_view>

namespace plumbline::suite {

/// Without what a library says of itself: "[json.exception.out_of_range.403] key 'a' not found" begins at "key"; and
/// "cannot use at() with null" is "null in place of an object or list".
inline std::string words_without_library(std::string_view words) {
  const std::size_t end = words.starts_with("[json.exception.") ? words.find("] ") : std::string_view::npos;
  if (end == std::string_view::npos) return std::string(words);
  words.remove_prefix(end + 2);
  constexpr std::string_view kNoPart = "cannot use at() with ";
  if (!words.starts_with(kNoPart)) return std::string(words);
  const std::string form(words.substr(kNoPart.size()));
  return form + (form == "array"    ? " in place of an object"
                 : form == "object" ? " in place of a list"
                                    : " in place of an object or list");
}

}  // namespace plumbline::suite

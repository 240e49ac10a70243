// conformance/support/refusal.hpp: what is said where something has to be refused.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/support/words.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

inline constexpr const char* kNotRefused = "nothing was refused";

/// The message of the error that a rank's part ends with, or that there was none, or another one.
template <class Expected>
std::string refusal(const std::function<void()>& part) {
  try {
    part();
  } catch (const Expected& error) {
    return error.what();
  } catch (const Error& error) {
    return fmt::format("another error: {}", error.what());
  }
  return kNotRefused;
}

/// Asserts that the part is refused so, with a message that names these in any words.
template <class Expected>
void expect_rejected(const char* requirement, const std::function<void()>& part,
                     const std::vector<std::string>& names = {}) {
  const std::string said = refusal<Expected>(part);
  EXPECT_THAT(said, AllOf(testing::Ne(kNotRefused), testing::Not(testing::HasSubstr("another error")))) << requirement;
  EXPECT_EQ(missing_words(said, names), "") << requirement << " is not in: " << said;
}

/// Asserts that the part is refused so, in one line that has these words.
template <class Expected>
void expect_refused(const char* requirement, const std::function<void()>& part, const std::vector<std::string>& words) {
  using testing::HasSubstr, testing::Not;
  const std::string said = refusal<Expected>(part);
  for (const std::string& word : words) EXPECT_THAT(said, HasSubstr(word)) << requirement;
  EXPECT_THAT(said, AllOf(Not(HasSubstr("\n")), Not(HasSubstr("another error")))) << requirement;
}

}  // namespace plumbline::conformance

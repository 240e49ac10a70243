// conformance/support/refusal.hpp: what is said where something has to be refused.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

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
  return "nothing was refused";
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

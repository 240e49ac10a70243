// conformance/support/refusal.hpp: what is said where something has to be refused.
#pragma once

#include <functional>
#include <string>

#include <fmt/format.h>

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

}  // namespace plumbline::conformance

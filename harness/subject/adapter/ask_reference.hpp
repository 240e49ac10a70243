// harness/subject/adapter/ask_reference.hpp: the reference's answers and refusals as text, for tests of its operations.
#pragma once

#include <string>

#include "harness/subject/adapter/client.hpp"

namespace plumbline::subject {

/// The answer to arguments that are JSON. Throws suite::AdapterError for what is refused.
inline nlohmann::json ask(const char* operation, const char* args) {
  LocalAdapter adapter(reference_service());
  return adapter.ask(operation, nlohmann::json::parse(args));
}

/// The words of the refusal, or the answer where there is none.
inline std::string error_of(const char* operation, const char* args) {
  try {
    return ask(operation, args).dump();
  } catch (const suite::AdapterError& error) {
    return error.what();
  }
}

}  // namespace plumbline::subject

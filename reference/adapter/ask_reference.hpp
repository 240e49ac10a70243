// reference/adapter/ask_reference.hpp: the reference's answers and errors as text, for tests of its operations.
#pragma once

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "reference/adapter/protocol.hpp"
#include "reference/adapter/reference_service.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::adapter {

/// The error reply to a request: "operation: kind: message".
struct Refused : Error {
  using Error::Error;
};

/// The answer to arguments. Throws Refused for an error reply.
inline nlohmann::json ask(const std::string& operation, const nlohmann::json& args) {
  static const AdapterService service = reference_service();
  nlohmann::json reply = nlohmann::json::parse(service.handle(request_line(1, operation, args)));
  if (reply.contains("result")) return std::move(reply["result"]);
  const nlohmann::json& error = reply["error"];
  throw Refused(operation + ": " + error["kind"].get<std::string>() + ": " + error["message"].get<std::string>());
}
inline nlohmann::json ask(const char* operation, const char* args) {
  return ask(std::string(operation), nlohmann::json::parse(args));
}

/// The text of the error, or the answer if there is no error.
inline std::string error_of(const char* operation, const char* args) {
  try {
    return ask(operation, args).dump();
  } catch (const Refused& error) {
    return error.what();
  }
}

}  // namespace plumbline::adapter

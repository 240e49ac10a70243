// reference/adapter/describe.hpp: what operations take, return and reject, for people and programs, from their rows.
#pragma once

#include <string>

#include "reference/adapter/service.hpp"

namespace plumbline::adapter {

enum class Format { text, md, json };

/// One operation, with its example and the service's answer to it. Throws NotFound, which names the nearest operation.
[[nodiscard]] std::string describe(const AdapterService& service, const std::string& operation, Format format);
/// A table of all operations.
[[nodiscard]] std::string describe(const AdapterService& service, Format format);

/// Lines of the protocol, without newlines.
struct Example {
  std::string request;
  std::string reply;
};
/// Throws NotFound as describe().
[[nodiscard]] Example example_of(const AdapterService& service, const std::string& operation);

}  // namespace plumbline::adapter

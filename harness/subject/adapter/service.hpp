// harness/subject/adapter/service.hpp: the answering side of the adapter protocol.
//
// Model   Operations are registered by name. Whatever comes in, a line is answered by one line: what an
//         operation throws becomes an error reply under Error::kind(), and nothing ends the process but the
//         end of input.
// Threads One at a time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "harness/subject/adapter/arguments.hpp"

namespace plumbline::subject {

class AdapterService {
 public:
  /// Takes the arguments, returns the "result". Floats in it need not be finite. Fields of the arguments that
  /// it did not ask for make the reply an error.
  using Operation = std::function<nlohmann::json(const Arguments& arguments)>;

  /// `name` and `version` are what hello tells.
  AdapterService(std::string name, std::string version);

  /// Throws InvalidArgument for a name used twice.
  void add(const std::string& name, Operation operation);

  /// The reply to a line, both without newline.
  [[nodiscard]] std::string handle(std::string_view line) const;

  /// Answers what comes in on descriptor `in` until it ends. Throws RuntimeFailure when reading fails or
  /// nobody reads the replies; SIGPIPE is the caller's to ignore.
  void serve(int in, int out) const;

 private:
  [[nodiscard]] nlohmann::json hello(const Arguments& arguments) const;
  [[nodiscard]] nlohmann::json answer(const nlohmann::json& request) const;

  std::string name_;
  std::string version_;
  std::map<std::string, Operation> operations_;
};

/// The service of all components of the reference.
[[nodiscard]] AdapterService reference_service();

/// The whole of `plumbline adapter`: the reference's service on standard input and output. Ignores SIGPIPE
/// from then on. Returns the exit status, 0. Throws RuntimeFailure as serve() does.
int serve_adapter();

}  // namespace plumbline::subject

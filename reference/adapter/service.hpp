// reference/adapter/service.hpp: the answering side of the adapter protocol.
//
// Model   Operations are registered by name. Whatever comes in, a line is answered by one line: what an
//         operation throws becomes an error reply under Error::kind(), and nothing ends the process but the
//         end of input. Beside each operation stands its row: what it is asked, in which conventions, with which
//         options.
// Threads One at a time.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operation_row.hpp"

namespace plumbline::adapter {

class AdapterService {
 public:
  /// Takes the arguments, returns the "result". Floats in it need not be finite. Fields of the arguments that
  /// it did not ask for make the reply an error.
  using Operation = std::function<nlohmann::json(const Arguments& arguments)>;

  /// `name` and `version` are what hello says, `conventions` the version that each of them means.
  AdapterService(std::string name, std::string version, std::map<std::string, std::string> conventions);

  /// Arguments that the row does not name are rejected with InvalidArgument. Throws InvalidArgument for a name used
  /// twice.
  void add(OperationRow row, Operation operation);

  struct Entry {
    OperationRow row;
    Operation operation;
  };
  /// By name.
  [[nodiscard]] const std::map<std::string, Entry>& operations() const { return operations_; }
  /// The row of an operation. Throws Unsupported for an unknown operation.
  [[nodiscard]] const OperationRow& row(const std::string& name) const;

  /// The reply to a line, both without newline.
  [[nodiscard]] std::string handle(std::string_view line) const;

  /// Answers what comes in on descriptor `in` until it ends. Throws RuntimeFailure when reading fails or
  /// the replies are not read; SIGPIPE is the caller's to ignore.
  void serve(int in, int out) const;

 private:
  [[nodiscard]] nlohmann::json hello(const Arguments& arguments) const;
  [[nodiscard]] nlohmann::json answer(const nlohmann::json& request) const;

  std::string name_;
  std::string version_;
  std::map<std::string, std::string> conventions_;
  std::map<std::string, Entry> operations_;
};

}  // namespace plumbline::adapter

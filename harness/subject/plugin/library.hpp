// harness/subject/plugin/library.hpp: the shared library of a plugin, and the struct that it describes itself with.
#pragma once

#include <string>

#include "harness/subject/plumbline_backend.h"

namespace plumbline::subject::plugin {

/// Why a plugin's struct cannot be used, in one line; empty when it can: another version, a smaller size than this
/// version's, a missing name or function that is required, a bit that this version does not have.
[[nodiscard]] std::string problem_of(const plumbline_backend* backend);

class Library {
 public:
  /// Opens the file and asks it for its struct. Throws InvalidArgument where there is no such file, RuntimeFailure
  /// where it cannot be loaded, does not export plumbline_backend_get(), or has a struct with a problem.
  explicit Library(const std::string& file);

  [[nodiscard]] const plumbline_backend& operator*() const { return *backend_; }
  [[nodiscard]] const plumbline_backend* operator->() const { return backend_; }
  /// As an absolute path.
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  std::string file_;
  const plumbline_backend* backend_ = nullptr;  // the library's, which stays loaded
};

}  // namespace plumbline::subject::plugin

// harness/subject/plugin/library.hpp: the shared library of a plugin, and the struct that it describes itself with.
#pragma once

#include <cstddef>
#include <string>

#include "harness/subject/plumbline_backend.h"

namespace plumbline::subject::plugin {

/// The size of the struct of a plugin that was built with the first header of this version.
inline constexpr std::size_t kFirstSize = offsetof(plumbline_backend, uneven_operations);

/// Why a plugin's struct cannot be used, in one line; empty when it can: another version, a smaller size than this
/// version's, a missing name or function that is required, a bit that this version does not have.
[[nodiscard]] std::string problem_of(const plumbline_backend* backend);

class Library {
 public:
  /// Opens the file and asks it for its struct. Throws InvalidArgument where there is no such file, RuntimeFailure
  /// where it cannot be loaded, does not export plumbline_backend_get(), or has a struct with a problem.
  explicit Library(const std::string& file);

  /// What a smaller struct lacks is 0 and null.
  [[nodiscard]] const plumbline_backend& operator*() const { return backend_; }
  [[nodiscard]] const plumbline_backend* operator->() const { return &backend_; }
  /// As an absolute path.
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  std::string file_;
  plumbline_backend backend_{};
};

}  // namespace plumbline::subject::plugin

// harness/subject/modules.hpp: optional runtimes as shared modules, found beside the executable and opened when asked
// for.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/subject/backend.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject {

/// A module or runtime that is not here. One line that says what is missing and what to do; exit status 3.
class NotAvailable : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// Where the modules lie: ../lib/plumbline from the executable, or beside the library that this code is part of.
[[nodiscard]] std::filesystem::path modules_folder();
/// Where data lies (vectors, data sets): share/plumbline beside lib.
[[nodiscard]] std::filesystem::path data_folder();

/// The names of all modules that are here, in alphabetical order.
[[nodiscard]] std::vector<std::string> module_names();

/// The file of module `name`; it need not exist. Of `mpi`, that of the interface that serves here (mpi_library.hpp).
[[nodiscard]] std::filesystem::path module_file(const std::string& name,
                                                const std::filesystem::path& folder = modules_folder());

/// Why an opened module, which lies in `file`, must not be called, in words that follow its name: it was compiled with
/// another interface than this program (interface.hpp), or says nothing of one. Empty when it may be.
[[nodiscard]] std::string problem_of_interface(void* module, const std::filesystem::path& file);

/// Opens module `name` of a folder (once per process) and returns the address of `symbol`. `what` names it for the
/// user: "backend mpi". Throws NotAvailable: not part of this build, its runtime is absent, or it was compiled with
/// another interface.
[[nodiscard]] void* open_module(const std::string& name, const std::string& symbol, const std::string& what,
                                const std::filesystem::path& folder = modules_folder());

/// Why module `name` cannot be opened, in one line; empty when it can. It is tried in a child process, so that what it
/// starts, or breaks, is gone with it.
[[nodiscard]] std::string why_not_here(const std::string& name, const std::string& symbol);

/// Opens a backend that is a module. Throws NotAvailable, and what the factory throws.
[[nodiscard]] std::unique_ptr<Backend> open_backend(const std::string& name, const BackendOptions& options);

}  // namespace plumbline::subject

// harness/subject/torch_library.hpp: which LibTorch serves here, and which file of a module is for it. A module serves
// the minor version of torch that it was compiled with. This build's files lie beside the other modules; those that
// `plumbline build-module` made for another version lie in a folder torch-MAJOR.MINOR there, and come first.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace plumbline::subject {

struct Torch {
  std::filesystem::path folder;  // with version.py, lib/ and include/: what `import torch` finds
  std::string version;           // "2.13.0+cpu"; empty where it says none, as an archive of LibTorch does
};

/// The one that this process has loaded.
[[nodiscard]] std::optional<Torch> loaded_torch();

/// Whether the user, or the `plumbline` of a Python environment, named the Python whose torch it shall be.
[[nodiscard]] bool is_python_chosen();
/// $PLUMBLINE_PYTHON, else python3.
[[nodiscard]] std::string chosen_python();
/// The one that this Python would import; nothing is imported, which would take seconds.
[[nodiscard]] std::optional<Torch> torch_of_python();

/// "2.13" of "2.13.0+cpu".
[[nodiscard]] std::string minor_of(const std::string& version);

/// The version that this build's modules are for; empty where it has none.
[[nodiscard]] std::string torch_of_build();

/// Where a module for that torch lies, or would, if `file` is this build's.
[[nodiscard]] std::filesystem::path file_for(const std::filesystem::path& file, const Torch& torch);

/// The file to load for it; nothing where neither is for it.
[[nodiscard]] std::optional<std::filesystem::path> fitting_file(const std::filesystem::path& file, const Torch& torch);

}  // namespace plumbline::subject

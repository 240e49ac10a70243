// harness/subject/backend_name.hpp: what a user may write as a backend's name: a module's, or one of two short forms:
// "plugin:FILE" is the module `plugin` with the option library=FILE, "c10d:NAME" the module `c10d` with backend=NAME.
#pragma once

#include <filesystem>
#include <string>

#include "harness/subject/backend.hpp"

namespace plumbline::subject {

inline constexpr const char* kPluginModule = "plugin";
inline constexpr const char* kPluginPrefix = "plugin:";
/// The option of module `plugin` that names the file.
inline constexpr const char* kPluginLibrary = "library";

inline constexpr const char* kC10dModule = "c10d";
inline constexpr const char* kC10dPrefix = "c10d:";
/// The option of module `c10d` that names the backend of torch.distributed.
inline constexpr const char* kC10dBackend = "backend";

/// The file of "plugin:FILE" as it was written; empty for other names.
[[nodiscard]] inline std::string plugin_file_of(const std::string& name) {
  return name.starts_with(kPluginPrefix) ? name.substr(std::string(kPluginPrefix).size()) : std::string();
}

/// The backend of "c10d:NAME" as it was written; empty for other names.
[[nodiscard]] inline std::string c10d_backend_of(const std::string& name) {
  return name.starts_with(kC10dPrefix) ? name.substr(std::string(kC10dPrefix).size()) : std::string();
}

/// The module of a backend's name: "plugin" of "plugin:FILE", "c10d" of "c10d:gloo", else the name itself.
[[nodiscard]] inline std::string module_of(const std::string& name) {
  if (name.starts_with(kC10dPrefix)) return kC10dModule;
  return name.starts_with(kPluginPrefix) ? kPluginModule : name;
}

/// The name as a part of a file's name: "plugin-libacme" of "plugin:./libacme.so", "c10d-gloo" of "c10d:gloo".
[[nodiscard]] inline std::string file_name_of(const std::string& name) {
  if (name.starts_with(kC10dPrefix)) return std::string(kC10dModule) + "-" + c10d_backend_of(name);
  if (!name.starts_with(kPluginPrefix)) return name;
  return std::string(kPluginModule) + "-" + std::filesystem::path(plugin_file_of(name)).stem().string();
}

/// The options of the module: those given, and of "plugin:FILE" the file, as an absolute path, of "c10d:NAME" the
/// backend.
[[nodiscard]] inline BackendOptions options_of(const std::string& name, BackendOptions options) {
  if (name.starts_with(kC10dPrefix)) options[kC10dBackend] = c10d_backend_of(name);
  if (name.starts_with(kPluginPrefix))
    options[kPluginLibrary] = std::filesystem::absolute(plugin_file_of(name)).lexically_normal().string();
  return options;
}

}  // namespace plumbline::subject

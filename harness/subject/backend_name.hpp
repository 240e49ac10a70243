// harness/subject/backend_name.hpp: what a user may write as a backend's name: a module's, or "plugin:FILE", which is
// short for the module `plugin` with the option library=FILE.
#pragma once

#include <filesystem>
#include <string>

#include "harness/subject/backend.hpp"

namespace plumbline::subject {

inline constexpr const char* kPluginModule = "plugin";
inline constexpr const char* kPluginPrefix = "plugin:";
/// The option of module `plugin` that names the file.
inline constexpr const char* kPluginLibrary = "library";

/// The file of "plugin:FILE" as it was written; empty for other names.
[[nodiscard]] inline std::string plugin_file_of(const std::string& name) {
  return name.starts_with(kPluginPrefix) ? name.substr(std::string(kPluginPrefix).size()) : std::string();
}

/// The module of a backend's name: "plugin" of "plugin:FILE", else the name itself.
[[nodiscard]] inline std::string module_of(const std::string& name) {
  return name.starts_with(kPluginPrefix) ? kPluginModule : name;
}

/// The name as a part of a file's name: "plugin-libacme" of "plugin:./libacme.so".
[[nodiscard]] inline std::string file_name_of(const std::string& name) {
  if (!name.starts_with(kPluginPrefix)) return name;
  return std::string(kPluginModule) + "-" + std::filesystem::path(plugin_file_of(name)).stem().string();
}

/// The options of the module: those given, and of "plugin:FILE" the file, as an absolute path.
[[nodiscard]] inline BackendOptions options_of(const std::string& name, BackendOptions options) {
  if (name.starts_with(kPluginPrefix))
    options[kPluginLibrary] = std::filesystem::absolute(plugin_file_of(name)).lexically_normal().string();
  return options;
}

}  // namespace plumbline::subject

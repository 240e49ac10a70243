#include "harness/subject/torch_library.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include <dlfcn.h>
#include <link.h>

namespace plumbline::subject {
namespace fs = std::filesystem;

namespace {

constexpr const char* kPythonVariable = "PLUMBLINE_PYTHON";
constexpr const char* kLibrary = "libtorch_cpu.so";

std::string version_in(const fs::path& folder) {
  static constexpr std::string_view kBegin = "__version__ = '";
  std::ifstream file(folder / "version.py");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kBegin)) return line.substr(kBegin.size(), line.find('\'', kBegin.size()) - kBegin.size());
  return {};
}

}  // namespace

std::optional<Torch> loaded_torch() {
  void* const torch = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  link_map* map = nullptr;
  if (torch == nullptr || dlinfo(torch, RTLD_DI_LINKMAP, &map) != 0) return std::nullopt;
  const fs::path folder = fs::path(map->l_name).parent_path().parent_path();
  return Torch{.folder = folder, .version = version_in(folder)};
}

bool is_python_chosen() {
  const char* const chosen = std::getenv(kPythonVariable);
  return chosen != nullptr && *chosen != '\0';
}

std::string chosen_python() { return is_python_chosen() ? std::getenv(kPythonVariable) : "python3"; }

std::optional<Torch> torch_of_python() {
  constexpr const char* kAsk =
      R"("${PLUMBLINE_PYTHON:-python3}" -c 'import importlib.util as u; print(*u.find_spec("torch").submodule_search_locations)')"
      " 2>/dev/null";
  std::FILE* const answer = ::popen(kAsk, "r");
  if (answer == nullptr) return std::nullopt;
  char line[4096];
  std::string words = std::fgets(line, sizeof line, answer) != nullptr ? line : "";
  if (::pclose(answer) != 0) return std::nullopt;
  while (words.ends_with('\n')) words.pop_back();
  const fs::path folder = words;
  std::error_code error;
  if (!fs::exists(folder / "lib" / kLibrary, error)) return std::nullopt;
  return Torch{.folder = folder, .version = version_in(folder)};
}

std::string minor_of(const std::string& version) { return version.substr(0, version.find('.', version.find('.') + 1)); }

std::string torch_of_build() {
#ifdef PLUMBLINE_TORCH_VERSION
  return PLUMBLINE_TORCH_VERSION;
#else
  return {};
#endif
}

fs::path file_for(const fs::path& file, const Torch& torch) {
  return file.parent_path() / ("torch-" + minor_of(torch.version)) / file.filename();
}

std::optional<fs::path> fitting_file(const fs::path& file, const Torch& torch) {
  std::error_code error;
  if (torch.version.empty() || torch_of_build().empty()) return file;  // nobody says
  if (const fs::path built_for_it = file_for(file, torch); fs::exists(built_for_it, error)) return built_for_it;
  if (minor_of(torch.version) == minor_of(torch_of_build())) return file;
  return std::nullopt;
}

}  // namespace plumbline::subject

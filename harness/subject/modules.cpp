#include "harness/subject/modules.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/subject/backend_here.hpp"
#include "harness/subject/backend_name.hpp"
#include "harness/subject/mpi_library.hpp"
#include "harness/subject/torch_library.hpp"

namespace plumbline::subject {
namespace fs = std::filesystem;

namespace {

// This code is linked into the executable (bin/plumbline) and into the worker library (lib/plumbline/…).
fs::path look_for_own_file() {
  Dl_info info{};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(&modules_folder), &info) != 0 && info.dli_fname != nullptr) {
    const fs::path file = fs::canonical(info.dli_fname, error);
    if (!error && file.extension() == ".so") return file;
  }
  return fs::canonical("/proc/self/exe", error);
}

// Every case that reads a vector asks.
const fs::path& own_file() {
  static const fs::path file = look_for_own_file();
  return file;
}

constexpr const char* kNotHere = " is not on this machine";

// "libmpi.so.40 is not on this machine" where the loader did not find it, else the loader's own words: a library that
// is there may be unreadable or of another machine.
std::string what_is_missing(const std::string& message) {
  const auto colon = message.find(": cannot open shared object file: No such file or directory");
  return colon == std::string::npos ? message : message.substr(0, colon) + kNotHere;
}

bool needs_torch(const std::string& module) { return module == "training" || module == kC10dModule; }

// What to do where a module is not part of the build, or what it needs is not on the machine.
std::string remedy(const std::string& module, bool is_built) {
  if (module == "mpi")
    return is_built ? fmt::format("install {}, or use --backend local", mpi_interfaces().front().package)
                    : "install libopenmpi-dev and openmpi-bin, or libmpich-dev and mpich, then configure and build "
                      "again, or use --backend local";
  if (module == "cuda")
    return is_built ? "use --device emulated"
                    : "install a CUDA toolkit, then configure and build again, or use --device emulated";
  if (needs_torch(module) && is_built && !torch_of_build().empty())
    return fmt::format("pip install torch=={}, for which it was built, or plumbline build-module {}", torch_of_build(),
                       module);
  return needs_torch(module) ? "pip install torch, then configure and build again" : "configure and build again";
}

}  // namespace

fs::path modules_folder() {
  const fs::path& file = own_file();
  return file.extension() == ".so" ? file.parent_path() : file.parent_path().parent_path() / "lib" / "plumbline";
}

fs::path data_folder() { return modules_folder().parent_path().parent_path() / "share" / "plumbline"; }

std::vector<std::string> module_names() {
  static constexpr std::string_view kBegin = "libplumbline_";
  static constexpr std::string_view kEnd = ".so";
  std::vector<std::string> names;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(modules_folder(), error)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with(kBegin) && file.ends_with(kEnd))
      names.push_back(file.substr(kBegin.size(), file.size() - kBegin.size() - kEnd.size()));
  }
  if (fs::exists(module_file("mpi"))) names.emplace_back("mpi");
  std::ranges::sort(names);
  return names;
}

fs::path module_file(const std::string& name, const fs::path& folder) {
  const std::string file = "libplumbline_" + name + ".so";
  if (name != "mpi") return folder / file;
  const std::vector<MpiInterface> interfaces = mpi_interfaces();
  const auto built =
      std::ranges::find_if(interfaces, [&](const MpiInterface& one) { return fs::exists(folder / one.name / file); });
  return folder / (built == interfaces.end() ? interfaces.front() : *built).name / file;
}

std::string problem_of_interface(void* module, const fs::path& file) {
  const auto words = [](std::uint64_t number) { return fmt::format("{}-{:04x}", number >> 16, number & 0xffff); };
  const std::string own = words(comm::own_interface());
  const auto function = reinterpret_cast<comm::InterfaceFunction*>(dlsym(module, comm::kInterfaceFunction));
  if (function == nullptr)
    return fmt::format("'{}' names no interface, and this program has interface {}; build it with these headers",
                       file.string(), own);
  const std::string others = words(function());
  if (others == own) return {};
  return fmt::format(
      "'{}' was built with interface {}, and this program has interface {}; build it again with these "
      "headers",
      file.string(), others, own);
}

namespace {

struct Loaded {
  void* module = nullptr;
  fs::path file;
  std::string why_not = {};
};

Loaded load(const fs::path& file) {
  // Never closed: runtimes leave threads and handlers behind.
  void* const module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  return {.module = module, .file = file, .why_not = module == nullptr ? what_is_missing(dlerror()) : ""};
}

// The file that is for this torch, once that is loaded: its libraries are found by no path of the module.
Loaded load_with(const Torch& torch, const fs::path& file) {
  const std::optional<fs::path> fitting = fitting_file(file, torch);
  if (!fitting)
    return {.module = nullptr,
            .file = file,
            .why_not = fmt::format("the torch in '{}' is {}", torch.folder.string(), torch.version)};
  const fs::path library = torch.folder / "lib" / "libtorch_cpu.so";
  if (fs::exists(library) && dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr)
    return {.module = nullptr, .file = file, .why_not = what_is_missing(dlerror())};
  // Modules of wheels do not name the library that registers LibTorch's kernels for GPUs. It takes seconds to load.
  const fs::path kernels = torch.folder / "lib" / "libtorch_cuda.so";
  if (fs::exists(kernels) && dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr)
    (void)dlopen(kernels.c_str(), RTLD_NOW | RTLD_LOCAL);
  return load(*fitting);
}

// The torch is that of this process, of the Python that was chosen, or what the module's own paths find: only then is
// the module loaded before its version is known.
Loaded load_with_torch(const fs::path& file) {
  if (const auto torch = loaded_torch()) return load_with(*torch, file);
  if (is_python_chosen())
    if (const auto torch = torch_of_python()) return load_with(*torch, file);
  Loaded loaded = load(file);
  if (loaded.module != nullptr) {
    const auto torch = loaded_torch();
    return torch && fitting_file(file, *torch) != file ? load_with(*torch, file) : loaded;
  }
  if (!is_python_chosen())
    if (const auto torch = torch_of_python()) return load_with(*torch, file);
  if (loaded.why_not.ends_with(kNotHere))
    loaded.why_not = fmt::format("{} imports no torch, and {}", chosen_python(), loaded.why_not);
  return loaded;
}

// The first whose library is here. What is said is of the first that is built: it is the launcher's, where that is
// known.
Loaded load_mpi(const fs::path& folder) {
  Loaded first;
  for (const MpiInterface& interface : mpi_interfaces()) {
    const fs::path file = folder / interface.name / module_file("mpi", folder).filename();
    if (!fs::exists(file)) continue;
    std::string why_not;
    for (const std::string& library : libraries_of(interface)) {
      // For all to see: the module is linked to none.
      if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return load(file);
      const std::string words = what_is_missing(dlerror());
      if (why_not.empty()) why_not = words;
    }
    if (first.file.empty()) first = {.module = nullptr, .file = file, .why_not = why_not};
  }
  return first;
}

}  // namespace

void* open_module(const std::string& name, const std::string& symbol, const std::string& what, const fs::path& folder) {
  const fs::path file = module_file(name, folder);
  if (!fs::exists(file))
    throw NotAvailable(
        fmt::format("{}: not part of this build ('{}' is missing); {}", what, file.string(), remedy(name, false)));
  const Loaded loaded = name == "mpi" ? load_mpi(folder) : needs_torch(name) ? load_with_torch(file) : load(file);
  if (!loaded.why_not.empty())
    throw NotAvailable(fmt::format("{}: cannot be loaded: {}; {}", what, loaded.why_not, remedy(name, true)));
  if (const std::string problem = problem_of_interface(loaded.module, loaded.file); !problem.empty())
    throw NotAvailable(fmt::format("{}: {}", what, problem));
  void* address = dlsym(loaded.module, symbol.c_str());
  if (address == nullptr)
    throw NotAvailable(
        fmt::format("{}: '{}' has no {}; it is of another version; build again", what, loaded.file.string(), symbol));
  return address;
}

namespace {

constexpr const char* kCrashes = "it crashes when it is loaded";

// Runs `look` in a child process, and returns what it returned or threw, after a letter that says which. Empty: the
// child died.
std::string in_child(const std::function<std::string()>& look) {
  int channel[2];
  if (::pipe(channel) != 0) return "-no pipe";
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(channel[0]);
    std::string words;
    try {
      words = "+" + look();
    } catch (const std::exception& error) {
      words = std::string("-") + error.what();
    }
    (void)!::write(channel[1], words.data(), words.size());
    ::_exit(0);
  }
  ::close(channel[1]);
  std::string words;
  char chunk[512];
  for (ssize_t count; (count = ::read(channel[0], chunk, sizeof chunk)) > 0;)
    words.append(chunk, static_cast<std::size_t>(count));
  ::close(channel[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? words : std::string();
}

}  // namespace

std::string why_not_here(const std::string& module, const std::string& symbol) {
  const std::string words = in_child([&] {
    (void)open_module(module, symbol, module);
    return std::string();
  });
  if (words.empty()) return kCrashes;
  return words[0] == '-' ? words.substr(1) : std::string();
}

BackendHere look_for_backend(const std::string& name) {
  const std::string words = in_child([&] {
    Dl_info info{};
    dladdr(open_module(name, kBackendFactory, name), &info);
    std::string version;
    void* const module = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (const auto runtime = reinterpret_cast<BackendRuntime*>(dlsym(module, kBackendRuntime))) runtime(version);
    return version;
  });
  if (words.empty()) return {.why_not = kCrashes, .version = {}};
  if (words[0] == '-') return {.why_not = words.substr(1), .version = {}};
  return {.why_not = {}, .version = words.substr(1)};
}

std::unique_ptr<Backend> open_backend(const std::string& name, const BackendOptions& options) {
  const std::string module = module_of(name);
  const auto factory = reinterpret_cast<BackendFactory*>(open_module(module, kBackendFactory, "backend " + module));
  return std::unique_ptr<Backend>(factory(options_of(name, options)));
}

}  // namespace plumbline::subject

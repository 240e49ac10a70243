#include "harness/subject/modules.hpp"

#include <algorithm>
#include <functional>
#include <string_view>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plumbline::subject {
namespace fs = std::filesystem;

namespace {

// This code is linked into the executable (bin/plumbline) and into the worker library (lib/plumbline/…).
fs::path own_file() {
  Dl_info info{};
  std::error_code error;
  if (dladdr(reinterpret_cast<const void*>(&modules_folder), &info) != 0 && info.dli_fname != nullptr) {
    const fs::path file = fs::canonical(info.dli_fname, error);
    if (!error && file.extension() == ".so") return file;
  }
  return fs::canonical("/proc/self/exe", error);
}

// "libmpi.so.40 is not on this machine" where the loader did not find it, else the loader's own words: a library that is
// there may be unreadable or of another machine.
std::string what_is_missing(const std::string& message) {
  const auto colon = message.find(": cannot open shared object file: No such file or directory");
  return colon == std::string::npos ? message : message.substr(0, colon) + " is not on this machine";
}

// What to do where a module is not part of the build, or what it needs is not on the machine.
std::string remedy(const std::string& module, bool is_built) {
  if (module == "mpi")
    return is_built ? "install libopenmpi3 and openmpi-bin, or use --backend local"
                    : "install libopenmpi-dev and openmpi-bin, then configure and build again, or use --backend local";
  if (module == "cuda")
    return is_built ? "use --device emulated"
                    : "install a CUDA toolkit, then configure and build again, or use --device emulated";
  return module == "training" ? "pip install torch, then configure and build again" : "configure and build again";
}

}  // namespace

fs::path modules_folder() {
  const fs::path file = own_file();
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
  std::ranges::sort(names);
  return names;
}

fs::path module_file(const std::string& name) { return modules_folder() / ("libplumbline_" + name + ".so"); }

std::string problem_of_interface(void* module, const fs::path& file) {
  const auto words = [](std::uint64_t number) { return fmt::format("{}-{:04x}", number >> 16, number & 0xffff); };
  const std::string own = words(comm::own_interface());
  const auto function = reinterpret_cast<comm::InterfaceFunction*>(dlsym(module, comm::kInterfaceFunction));
  if (function == nullptr)
    return fmt::format("'{}' names no interface, and this program has interface {}; build it with these headers",
                       file.string(), own);
  const std::string others = words(function());
  if (others == own) return {};
  return fmt::format("'{}' was built with interface {}, and this program has interface {}; build it again with these "
                     "headers",
                     file.string(), others, own);
}

void* open_module(const std::string& name, const std::string& symbol, const std::string& what) {
  const fs::path file = module_file(name);
  if (!fs::exists(file))
    throw NotAvailable(
        fmt::format("{}: not part of this build ('{}' is missing); {}", what, file.string(), remedy(name, false)));
  // Never closed: runtimes leave threads and handlers behind.
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr)
    throw NotAvailable(
        fmt::format("{}: cannot be loaded: {}; {}", what, what_is_missing(dlerror()), remedy(name, true)));
  if (const std::string problem = problem_of_interface(module, file); !problem.empty())
    throw NotAvailable(fmt::format("{}: {}", what, problem));
  void* address = dlsym(module, symbol.c_str());
  if (address == nullptr)
    throw NotAvailable(
        fmt::format("{}: '{}' has no {}; it is of another version; build again", what, file.string(), symbol));
  return address;
}

namespace {

constexpr const char* kCrashes = "it crashes when it is loaded";

// Runs `look` in a child process, and returns what it returned or threw, after a letter that says which. Empty: the child died.
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
    (void)open_module(name, kBackendFactory, name);
    std::string version;
    void* const module = dlopen(module_file(name).c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (const auto runtime = reinterpret_cast<BackendRuntime*>(dlsym(module, kBackendRuntime))) runtime(version);
    return version;
  });
  if (words.empty()) return {.why_not = kCrashes, .version = {}};
  if (words[0] == '-') return {.why_not = words.substr(1), .version = {}};
  return {.why_not = {}, .version = words.substr(1)};
}

std::unique_ptr<Backend> open_backend(const std::string& name, const BackendOptions& options) {
  const auto factory = reinterpret_cast<BackendFactory*>(open_module(name, kBackendFactory, "backend " + name));
  return std::unique_ptr<Backend>(factory(options));
}

}  // namespace plumbline::subject

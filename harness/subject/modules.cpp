#include "harness/subject/modules.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

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

// "libmpi.so.40" of "libmpi.so.40: cannot open shared object file: …", else the whole message.
std::string missing_library(const std::string& message) {
  const auto colon = message.find(": cannot open shared object file");
  return colon == std::string::npos ? message : message.substr(0, colon) + " is not on this machine";
}

}  // namespace

fs::path modules_folder() {
  const fs::path file = own_file();
  return file.extension() == ".so" ? file.parent_path() : file.parent_path().parent_path() / "lib" / "plumbline";
}

fs::path data_folder() { return modules_folder().parent_path().parent_path() / "share" / "plumbline"; }

fs::path module_file(const std::string& name) { return modules_folder() / ("libplumbline_" + name + ".so"); }

void* open_module(const std::string& name, const std::string& symbol, const std::string& what) {
  const fs::path file = module_file(name);
  if (!fs::exists(file))
    throw NotAvailable(fmt::format("{}: not part of this build ('{}' is missing)", what, file.string()));
  // Never closed: runtimes leave threads and handlers behind.
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) throw NotAvailable(fmt::format("{}: cannot be loaded: {}", what, missing_library(dlerror())));
  void* address = dlsym(module, symbol.c_str());
  if (address == nullptr)
    throw NotAvailable(fmt::format("{}: '{}' has no {}; it is of another version", what, file.string(), symbol));
  return address;
}

std::unique_ptr<Backend> open_backend(const std::string& name, const BackendOptions& options) {
  const auto factory = reinterpret_cast<BackendFactory*>(open_module(name, kBackendFactory, "backend " + name));
  return std::unique_ptr<Backend>(factory(options));
}

}  // namespace plumbline::subject

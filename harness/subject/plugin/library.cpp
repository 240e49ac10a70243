#include "harness/subject/plugin/library.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include <dlfcn.h>
#include <fmt/format.h>

#include "harness/subject/plugin/reply.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::plugin {
namespace {

constexpr const char* kSymbol = "plumbline_backend_get";
using Get = const plumbline_backend*();

[[noreturn]] void refuse(const std::string& why) { throw RuntimeFailure("backend plugin: " + why); }

constexpr std::uint32_t kAllClaims = 0x3fff;

std::string unknown_bits(const char* mask, std::uint32_t bits, std::uint32_t known) {
  if ((bits & ~known) == 0) return {};
  return fmt::format("{} has bits {:#x}, which interface version {} does not have", mask, bits & ~known,
                     PLUMBLINE_BACKEND_VERSION);
}

std::string missing_function(const plumbline_backend& backend) {
  const std::pair<const char*, bool> required[] = {{"open", backend.open != nullptr},
                                                   {"close", backend.close != nullptr},
                                                   {"world", backend.world != nullptr},
                                                   {"destroy_group", backend.destroy_group != nullptr},
                                                   {"run", backend.run != nullptr}};
  for (const auto& [name, is_there] : required)
    if (!is_there) return fmt::format("{} is null; it is required", name);
  const std::pair<const char*, bool> of_start[] = {
      {"test", backend.test != nullptr}, {"wait", backend.wait != nullptr}, {"drop", backend.drop != nullptr}};
  for (const auto& [name, is_there] : of_start)
    if (backend.start != nullptr && !is_there) return fmt::format("{} is null; start requires it", name);
  return {};
}

constexpr std::uint32_t kUnevenOperations =
    PLUMBLINE_BIT(PLUMBLINE_ALL_GATHER) | PLUMBLINE_BIT(PLUMBLINE_REDUCE_SCATTER) | PLUMBLINE_BIT(PLUMBLINE_ALL_TO_ALL);

// As much of the struct as the plugin has.
plumbline_backend copied(const plumbline_backend& theirs) {
  plumbline_backend ours{};
  std::memcpy(&ours, &theirs, std::min(theirs.size, sizeof ours));
  return ours;
}

}  // namespace

std::string problem_of(const plumbline_backend* backend) {
  if (backend == nullptr) return fmt::format("{}() returns null", kSymbol);
  if (backend->version != PLUMBLINE_BACKEND_VERSION)
    return fmt::format(
        "it has interface version {}, and this program has {}; compile it with this program's plumbline_backend.h",
        backend->version, PLUMBLINE_BACKEND_VERSION);
  if (backend->size < kFirstSize)
    return fmt::format(
        "its struct has {} bytes, and that of interface version {} has {} at least; set size to "
        "sizeof(plumbline_backend)",
        backend->size, PLUMBLINE_BACKEND_VERSION, kFirstSize);
  if (backend->name == nullptr || *backend->name == '\0') return "name is empty";
  if (backend->library_version == nullptr) return "library_version is null";
  for (const auto& [mask, bits, known] :
       {std::tuple{"dtypes", backend->dtypes,
                   PLUMBLINE_ALL_DTYPES | PLUMBLINE_OPTIONAL_DTYPES | PLUMBLINE_COMPLEX_DTYPES},
        std::tuple{"operations", backend->operations, PLUMBLINE_ALL_OPERATIONS},
        std::tuple{"reductions", backend->reductions, PLUMBLINE_ALL_REDUCTIONS},
        std::tuple{"claims", backend->claims, kAllClaims}})
    if (std::string problem = unknown_bits(mask, bits, known); !problem.empty()) return problem;
  if (backend->dtypes == 0) return "dtypes is 0; a backend moves elements of one type at least";
  if ((backend->claims & PLUMBLINE_CLAIM_COMPLEX_PRODUCTS) != 0 &&
      (backend->reductions & PLUMBLINE_BIT(PLUMBLINE_PRODUCT)) == 0)
    return "claims has PLUMBLINE_CLAIM_COMPLEX_PRODUCTS, and reductions lacks PLUMBLINE_PRODUCT; add it or drop the "
           "claim";
  if (const std::string problem = missing_function(*backend); !problem.empty()) return problem;
  const plumbline_backend whole = copied(*backend);
  if (whole.uneven_operations != 0 && whole.run_uneven == nullptr)
    return "run_uneven is null; uneven_operations requires it";
  const std::tuple<const char*, bool, const char*, bool> together[] = {
      {"register_memory", whole.register_memory != nullptr, "deregister_memory", whole.deregister_memory != nullptr},
      {"allocate", whole.allocate != nullptr, "deallocate", whole.deallocate != nullptr}};
  for (const auto& [begin, begins, end, ends] : together)
    if (begins != ends) return fmt::format("{} is null; {} requires it", begins ? end : begin, begins ? begin : end);
  return unknown_bits("uneven_operations", whole.uneven_operations, kUnevenOperations);
}

Library::Library(const std::string& file) : file_(std::filesystem::absolute(file).lexically_normal().string()) {
  if (!std::filesystem::is_regular_file(file_))
    throw InvalidArgument(fmt::format("backend plugin: '{}' is not a file; give --backend plugin:FILE", file_));
  void* const library = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: it may leave threads
  if (library == nullptr) refuse(fmt::format("'{}' cannot be loaded: {}", file_, one_line(dlerror())));
  const auto get = reinterpret_cast<Get*>(dlsym(library, kSymbol));
  if (get == nullptr) refuse(fmt::format("'{}' does not export {}(); see plumbline_backend.h", file_, kSymbol));
  const plumbline_backend* theirs = nullptr;
  try {
    theirs = get();
  } catch (...) {
    refuse(fmt::format("'{}': {}() throws a C++ exception", file_, kSymbol));
  }
  if (const std::string problem = problem_of(theirs); !problem.empty()) refuse(fmt::format("'{}': {}", file_, problem));
  backend_ = copied(*theirs);
}

}  // namespace plumbline::subject::plugin

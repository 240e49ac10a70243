#include "harness/subject/nccl/library.hpp"

#include <algorithm>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw RuntimeFailure("backend nccl: " + why); }

void* open(const std::string& file) {
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: it leaves threads behind
  if (library != nullptr) return library;
  const std::string words = dlerror();
  if (words.find(file + ": cannot open shared object file: No such file") == std::string::npos)
    refuse(fmt::format("'{}' cannot be loaded: {}", file, words));
  refuse(fmt::format(
      "'{}' is not on this machine; install NCCL {} or later (libnccl2, or pip install nvidia-nccl-cu13), or name "
      "its file by --backend-option library=FILE",
      file, name_of_version(kOldestVersion)));
}

std::string file_of(const void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

template <class Function>
void find_if_any(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

template <class Function>
void find(void* library, const std::string& file, const char* name, Function& function) {
  find_if_any(library, name, function);
  if (function == nullptr)
    refuse(fmt::format("'{}' has no {}: it is no NCCL, or one older than {}", file, name,
                       name_of_version(kOldestVersion)));
}

// Up to 2.8 a version was counted in other steps.
constexpr int kFirstOfLongCodes = 10000;

}  // namespace

std::string name_of_version(int code) {
  if (code < kFirstOfLongCodes) return fmt::format("{}.{}.{}", code / 1000, code % 1000 / 100, code % 100);
  return fmt::format("{}.{}.{}", code / 10000, code % 10000 / 100, code % 100);
}

Library::Library(const std::string& file) {
  void* const library = open(file);
  find(library, file, "ncclGetVersion", functions_.GetVersion);
  file_ = file_of(reinterpret_cast<const void*>(functions_.GetVersion));
  int code = 0;
  if (functions_.GetVersion(&code) != Result::success) refuse(fmt::format("'{}' does not report its version", file));
  version_code_ = code;
  version_ = name_of_version(code);
  // Before the other functions: what an old one lacks is no news.
  if (code < kOldestVersion)
    refuse(fmt::format("NCCL {} ('{}') is too old; {} or later is needed", version_, file_,
                       name_of_version(kOldestVersion)));
#define PLUMBLINE_NCCL_FIND(name) find(library, file, "nccl" #name, functions_.name)
  PLUMBLINE_NCCL_FIND(GetUniqueId);
  PLUMBLINE_NCCL_FIND(CommInitRankConfig);
  PLUMBLINE_NCCL_FIND(CommDestroy);
  PLUMBLINE_NCCL_FIND(CommAbort);
  PLUMBLINE_NCCL_FIND(CommGetAsyncError);
  PLUMBLINE_NCCL_FIND(GetErrorString);
  PLUMBLINE_NCCL_FIND(AllReduce);
  PLUMBLINE_NCCL_FIND(GroupStart);
  PLUMBLINE_NCCL_FIND(GroupEnd);
#undef PLUMBLINE_NCCL_FIND
#define PLUMBLINE_NCCL_FIND(name) find_if_any(library, "nccl" #name, functions_.name)
  PLUMBLINE_NCCL_FIND(CommSplit);
  PLUMBLINE_NCCL_FIND(CommFinalize);
  PLUMBLINE_NCCL_FIND(GetLastError);
  PLUMBLINE_NCCL_FIND(Reduce);
  PLUMBLINE_NCCL_FIND(Broadcast);
  PLUMBLINE_NCCL_FIND(ReduceScatter);
  PLUMBLINE_NCCL_FIND(AllGather);
  PLUMBLINE_NCCL_FIND(Send);
  PLUMBLINE_NCCL_FIND(Recv);
  PLUMBLINE_NCCL_FIND(RedOpCreatePreMulSum);
  PLUMBLINE_NCCL_FIND(RedOpDestroy);
  PLUMBLINE_NCCL_FIND(CommRegister);
  PLUMBLINE_NCCL_FIND(CommDeregister);
#undef PLUMBLINE_NCCL_FIND
}

std::string Library::lacking(comm::Operation operation) const {
  using comm::Operation;
  std::vector<std::string> names;
  const auto needs = [&](const auto& function, const char* name) {
    if (function == nullptr) names.emplace_back(name);
  };
  switch (operation) {
    case Operation::all_reduce:
    case Operation::barrier:
      break;
    case Operation::reduce:
      needs(functions_.Reduce, "ncclReduce");
      break;
    case Operation::broadcast:
      needs(functions_.Broadcast, "ncclBroadcast");
      break;
    case Operation::reduce_scatter:
      needs(functions_.ReduceScatter, "ncclReduceScatter");
      break;
    case Operation::all_gather:
      needs(functions_.AllGather, "ncclAllGather");
      break;
    default:  // made of messages
      needs(functions_.Send, "ncclSend");
      needs(functions_.Recv, "ncclRecv");
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Failure Library::failure(Result result, std::string_view what, Comm comm) const {
  std::string text = functions_.GetErrorString(result);
  // "(run with NCCL_DEBUG=INFO for details)" and the like: the details follow.
  text = text.substr(0, text.find(" (run with"));
  std::string last = functions_.GetLastError == nullptr ? "" : functions_.GetLastError(comm);
  last = last.substr(0, last.find('\n'));
  const auto kind = result == Result::unhandled_cuda_error ? Failure::Kind::device : Failure::Kind::runtime;
  return {kind, fmt::format("{}: {}{}{}", what, text, last.empty() ? "" : ": ", last)};
}

void Library::check(Result result, std::string_view what, Comm comm) const {
  if (result != Result::success && result != Result::in_progress)
    failure(result, what, comm).at("backend nccl").raise();
}

}  // namespace plumbline::subject::nccl

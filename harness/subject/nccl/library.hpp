// harness/subject/nccl/library.hpp: NCCL, opened at run time.
#pragma once

#include <string>
#include <string_view>

#include "harness/subject/nccl/declarations.hpp"
#include "harness/subject/nccl/failure.hpp"
#include "reference/comm/call.hpp"

namespace plumbline::subject::nccl {

class Library {
 public:
  /// Opens the shared library `file`: a path, or a name that the loader looks for. Throws RuntimeFailure in one line:
  /// it is not there, lacks a function that no call can do without, or is older than kOldestVersion. Needs no driver.
  explicit Library(const std::string& file);

  /// NCCL's functions: library->AllReduce(…). Of a library that is like NCCL some may be null: lacking().
  const Functions* operator->() const { return &functions_; }
  /// The functions that an operation needs and the library lacks: "ncclSend, ncclRecv"; empty: it has them.
  [[nodiscard]] std::string lacking(comm::Operation operation) const;
  /// Whether it has sums whose inputs are multiplied by factors.
  [[nodiscard]] bool has_scaled_sums() const {
    return functions_.RedOpCreatePreMulSum != nullptr && functions_.RedOpDestroy != nullptr;
  }
  /// Whether memory can be registered with a communicator: from 2.19 on.
  [[nodiscard]] bool has_registration() const {
    return functions_.CommRegister != nullptr && functions_.CommDeregister != nullptr;
  }
  /// "2.32.3".
  [[nodiscard]] const std::string& version() const { return version_; }
  /// Whether it has the formats of 8 bits: from 2.24 on.
  [[nodiscard]] bool has_float8() const { return version_code_ >= version_code(2, 24, 0); }
  /// The file that the loader took.
  [[nodiscard]] const std::string& file() const { return file_; }

  /// `what` failed: NCCL's words for a result, and its own on the last error, in one line; `comm` may be null. An error
  /// of CUDA is one of the device.
  [[nodiscard]] Failure failure(Result result, std::string_view what, Comm comm) const;
  /// Throws RuntimeFailure, or DeviceFailure, unless the result is success or in_progress.
  void check(Result result, std::string_view what, Comm comm = nullptr) const;

 private:
  Functions functions_{};
  int version_code_ = 0;
  std::string version_;
  std::string file_;
};

/// "2.18.1".
[[nodiscard]] std::string name_of_version(int code);

}  // namespace plumbline::subject::nccl

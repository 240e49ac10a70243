// harness/subject/plugin/reply.hpp: how a call of a plugin's function ended, as Plumbline's errors.
#pragma once

#include <array>
#include <exception>
#include <string>

#include "harness/subject/plumbline_backend.h"

namespace plumbline::subject::plugin {

inline constexpr int kMostRanks = 1024;  // of a job

/// A plugin's words without line ends and other control characters.
[[nodiscard]] std::string one_line(std::string words);

/// Where a plugin describes an error. Lies on the stack of each call: neither array is initialised.
class Reply {
 public:
  [[nodiscard]] plumbline_error* error() { return &error_; }
  /// Throws the error of a status other than PLUMBLINE_OK; `where` names the call. The missing of a PEER_FAILED are in
  /// it where the library `names_ended`: one without shrink may have left others there, who are alive.
  [[noreturn]] void raise(plumbline_status status, const std::string& where, bool names_ended);

 private:
  [[nodiscard]] std::string words(const char* by_default);
  /// "; waited for ranks 1, 3", or nothing.
  [[nodiscard]] std::string missing() const;

  static constexpr std::size_t kMessage = 1024;
  char message_[kMessage];  // NOLINT: not initialised, see above
  std::array<std::int32_t, kMostRanks> missing_;
  plumbline_error error_{message_, kMessage, missing_.data(), kMostRanks, 0};

 public:
  Reply() { message_[0] = '\0'; }  // NOLINT: as above
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;
};

/// Throws RuntimeFailure, naming an exception that came through the C interface; null: one that is no std::exception.
[[noreturn]] void raise_thrown(const std::exception* thrown, const std::string& where);

/// Calls a function of the plugin, which gets a plumbline_error. Throws what it returned as an error of Plumbline's;
/// `where()` names the call, and is asked only then.
template <class Where, class Function>
void call(const Where& where, const Function& function, bool names_ended = false) {
  Reply reply;
  plumbline_status status = PLUMBLINE_OK;
  try {
    status = function(reply.error());
  } catch (const std::exception& thrown) {
    raise_thrown(&thrown, where());
  } catch (...) {
    raise_thrown(nullptr, where());
  }
  if (status != PLUMBLINE_OK) [[unlikely]]
    reply.raise(status, where(), names_ended);
}

}  // namespace plumbline::subject::plugin

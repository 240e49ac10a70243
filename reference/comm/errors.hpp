// reference/comm/errors.hpp: what goes wrong, as types. Every error that Plumbline throws on purpose is an Error.
//
// Model   The type says whose fault it is and what a caller can do; the message names operation, group, rank and
//         values.
//         Error::kind() is the word under which the adapter protocol reports it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace plumbline {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// The adapter protocol's word: invalid_argument, out_of_range, not_found, unsupported, state or failed.
  [[nodiscard]] virtual std::string_view kind() const noexcept { return "failed"; }
};

/// An argument that no caller may give: the call did nothing.
class InvalidArgument : public Error {
 public:
  using Error::Error;
  [[nodiscard]] std::string_view kind() const noexcept override { return "invalid_argument"; }
};

/// An index, rank or coordinate outside its range.
class OutOfRange : public Error {
 public:
  using Error::Error;
  [[nodiscard]] std::string_view kind() const noexcept override { return "out_of_range"; }
};

/// A name that stands for nothing.
class NotFound : public Error {
 public:
  using Error::Error;
  [[nodiscard]] std::string_view kind() const noexcept override { return "not_found"; }
};

/// A legal request that this implementation cannot serve (an average of integers, a device that it has not).
class Unsupported : public Error {
 public:
  using Error::Error;
  [[nodiscard]] std::string_view kind() const noexcept override { return "unsupported"; }
};

/// A call that is not allowed now.
class StateError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] std::string_view kind() const noexcept override { return "state"; }
};

/// The runtime under us failed: an MPI error, a file that cannot be written.
class RuntimeFailure : public Error {
 public:
  using Error::Error;
};

/// What the runtime of a device says of it, with its name for the error. It lasts: of CUDA's, most are the device's
/// from then on.
class DeviceFailure : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

/// A device has too little free memory; the message has the requested, the free and the total size.
class OutOfMemory : public DeviceFailure {
 public:
  using DeviceFailure::DeviceFailure;
};

namespace comm {

/// Members of a group entered different calls as the same step. Raised on every member, before data moves.
class MismatchError : public Error {
 public:
  using Error::Error;
};

/// A wait passed its time limit; the message names the ranks that were waited for. The group is unusable afterwards.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

/// The group cannot continue, because another member failed, left, or an earlier call on it failed.
class PeerFailed : public Error {
 public:
  using Error::Error;
};

}  // namespace comm
}  // namespace plumbline

// harness/subject/nccl/failure.hpp: why something failed, kept for whoever it concerns, and told with the place where
// it does.
//
// Model   The kind of the error stays: who tries again where a wire was cut must not do so on a device that is lost.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {

class Failure {
 public:
  enum class Kind { runtime, device, memory };

  Failure() = default;
  Failure(Kind kind, std::string words) : kind_(kind), words_(std::move(words)), has_come_(true) {}
  explicit Failure(const std::exception& error) : Failure(kind_of(error), error.what()) {}

  explicit operator bool() const { return has_come_; }
  [[nodiscard]] const std::string& words() const { return words_; }
  /// The same text after a place.
  [[nodiscard]] Failure at(std::string_view place) const { return {kind_, std::string(place) + ": " + words_}; }
  /// Throws DeviceFailure of a device, OutOfMemory for want of its memory, RuntimeFailure of all else.
  [[noreturn]] void raise() const {
    switch (kind_) {
      case Kind::memory:
        throw OutOfMemory(words_);
      case Kind::device:
        throw DeviceFailure(words_);
      case Kind::runtime:
        break;
    }
    throw RuntimeFailure(words_);
  }

 private:
  static Kind kind_of(const std::exception& error) {
    if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) return Kind::memory;
    return dynamic_cast<const DeviceFailure*>(&error) != nullptr ? Kind::device : Kind::runtime;
  }

  Kind kind_ = Kind::runtime;
  std::string words_;
  bool has_come_ = false;
};

}  // namespace plumbline::subject::nccl

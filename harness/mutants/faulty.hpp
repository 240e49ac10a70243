// harness/mutants/faulty.hpp: a communicator that changes single calls: before they are made, or their result
// afterwards.
#pragma once

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "harness/mutants/mutants.hpp"

namespace plumbline::mutants {

/// What spoils the result after a call was made; may be empty. What the call was given in place of the caller's buffers
/// lives in it.
using After = std::function<void()>;

/// Where and how a call is made.
struct Place {
  const comm::Communicator& group;
  bool started = false;  // not blocking
  int number = 1;        // of the call on this rank's handle of the group
};

/// Sees each call before it is made, may change it, and says what happens to its result.
using Fault = std::function<After(comm::Call& call, const Place& place)>;

/// A Wrap whose calls all pass `fault`.
[[nodiscard]] Wrap with_fault(Fault fault);

/// A Wrap of a decorator class that is made from the communicator alone.
template <class Decorator>
std::unique_ptr<comm::Communicator> wrap_in(std::unique_ptr<comm::Communicator> inner) {
  return std::make_unique<Decorator>(std::move(inner));
}

/// A decorator of a class that changes some functions alone: groups made from one are of the same class.
template <class Self>
class Plain : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<Self>(std::move(group));
  }
};

/// A State around another Work, for mutants of waits to derive from.
class WrappedWork : public comm::Work::State {
 public:
  explicit WrappedWork(comm::Work inner) : inner_(std::move(inner)) {}
  bool test() override { return inner_.test(); }
  void wait(comm::Timeout timeout) override { inner_.wait(timeout); }

 private:
  comm::Work inner_;
};

// ---- elements of buffers ----

[[nodiscard]] inline std::byte* element(const comm::Buffer& buffer, std::int64_t index) {
  return static_cast<std::byte*>(buffer.data) + static_cast<std::size_t>(index) * size_of(buffer.dtype);
}
[[nodiscard]] inline const std::byte* element(const comm::ConstBuffer& buffer, std::int64_t index) {
  return static_cast<const std::byte*>(buffer.data) + static_cast<std::size_t>(index) * size_of(buffer.dtype);
}

/// Changes every element of a buffer of Ts, which need not be aligned.
template <class T, class Change>
void change_all(const comm::Buffer& buffer, const Change& change) {
  for (std::int64_t i = 0; i < buffer.count; ++i) {
    T value;
    std::memcpy(&value, element(buffer, i), sizeof value);
    value = change(value);
    std::memcpy(element(buffer, i), &value, sizeof value);
  }
}

/// Puts `part` of the output, in elements, back to what it is now.
[[nodiscard]] After restore(const comm::Buffer& out, std::int64_t first, std::int64_t count);

}  // namespace plumbline::mutants

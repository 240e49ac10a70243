// conformance/collectives/guarded.hpp: what a check hands to calls, and what they make of it.
//
// Model   A GuardedInput holds what calls read: it stays as it is. A GuardedOutput holds what calls write: it begins
//         with what no right result has, so that an element which was not written is wrong. Both lie between guards
//         (guarded_buffer.hpp) and look after themselves: when one goes, a changed input, or anything that was written
//         outside, is a failure of the check at the line where the buffer was made. Memory stays where it is when they
//         move.
#pragma once

#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "conformance/collectives/guarded_buffer.hpp"
#include "reference/comm/call.hpp"

namespace plumbline::conformance {

template <class T>
[[nodiscard]] std::vector<std::byte> bytes_of(const std::vector<T>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

class GuardedInput {
 public:
  using Where = std::source_location;
  GuardedInput(comm::DType dtype, std::vector<std::byte> content, Where where = Where::current());
  template <class T>
  explicit GuardedInput(const std::vector<T>& content, Where where = Where::current())
      : GuardedInput(comm::kDTypeOf<T>, bytes_of(content), where) {}
  GuardedInput(GuardedInput&&) = default;
  GuardedInput(const GuardedInput&) = delete;
  ~GuardedInput();

  [[nodiscard]] comm::ConstBuffer view() const { return view_as(dtype_); }
  /// The same bytes as elements of another dtype.
  [[nodiscard]] comm::ConstBuffer view_as(comm::DType dtype) const;

  /// The check itself makes every byte its complement, and this is what must stay from now on.
  void overwrite();

  /// What calls changed, or wrote outside; "" when nothing.
  [[nodiscard]] std::string problem() const;

 private:
  GuardedBuffer buffer_;
  std::vector<std::byte> content_;
  comm::DType dtype_;
  Where where_;
};

class GuardedOutput {
 public:
  using Where = std::source_location;
  /// Room for `count` elements that are not known beforehand. It begins with NaN, so that right results are finite, or,
  /// of integers, with 0xa5 in every byte.
  GuardedOutput(comm::DType dtype, std::int64_t count, Where where = Where::current());
  /// Room for what must become `expected`. It begins as its complement, so that not one byte is right.
  GuardedOutput(comm::DType dtype, std::vector<std::byte> expected, Where where = Where::current());
  template <class T>
  explicit GuardedOutput(const std::vector<T>& expected, Where where = Where::current())
      : GuardedOutput(comm::kDTypeOf<T>, bytes_of(expected), where) {}
  GuardedOutput(GuardedOutput&&) = default;
  GuardedOutput(const GuardedOutput&) = delete;
  ~GuardedOutput();

  [[nodiscard]] comm::Buffer view() { return view_as(dtype_); }
  [[nodiscard]] comm::Buffer view_as(comm::DType dtype);
  [[nodiscard]] std::span<const std::byte> bytes() const { return buffer_.bytes(); }

  // Each returns one line, or "" when there is nothing to say.
  /// How it differs from what was expected.
  [[nodiscard]] std::string wrong_result() const;
  /// The first element that holds what it began with.
  [[nodiscard]] std::string unwritten() const;
  /// The first element that does not.
  [[nodiscard]] std::string touched() const;
  /// What was written outside.
  [[nodiscard]] std::string damage() const;

  /// Begins anew.
  void reset() { begin(buffer_.bytes()); }

 private:
  /// What it holds at the beginning.
  void begin(std::span<std::byte> to) const;

  GuardedBuffer buffer_;
  std::vector<std::byte> expected_;  // empty where it is not known
  comm::DType dtype_;
  Where where_;
};

}  // namespace plumbline::conformance

#include "conformance/collectives/guarded.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/compare.hpp"
#include "conformance/support/element.hpp"

namespace plumbline::conformance {

using comm::DType;

namespace {

void report_at(const std::source_location& where, const std::string& problem) {
  if (!problem.empty()) ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << problem;
}

std::int64_t elements_in(std::size_t bytes, DType dtype) { return static_cast<std::int64_t>(bytes / size_of(dtype)); }

// In every floating format, all bits one is a NaN.
std::byte poison(DType dtype) { return has_float_format(component_of(dtype)) ? std::byte{0xff} : std::byte{0xa5}; }

std::byte complement(std::byte byte) { return ~byte; }

}  // namespace

// ---- inputs ----

GuardedInput::GuardedInput(DType dtype, std::vector<std::byte> content, Where where)
    : buffer_(content.size()), content_(std::move(content)), dtype_(dtype), where_(where) {
  std::ranges::copy(content_, buffer_.data());
}

GuardedInput::~GuardedInput() { report_at(where_, problem()); }

comm::ConstBuffer GuardedInput::view_as(DType dtype) const {
  return {buffer_.bytes().data(), elements_in(content_.size(), dtype), dtype};
}

void GuardedInput::overwrite() {
  std::ranges::transform(content_, content_.begin(), complement);
  std::ranges::copy(content_, buffer_.data());
}

std::string GuardedInput::problem() const {
  const std::string outside = buffer_.damage();
  if (!outside.empty()) return "outside the input: " + outside;
  const std::string changed = first_difference(dtype_, content_, buffer_.bytes());
  return changed.empty() ? changed : "the input was changed: " + changed;
}

// ---- outputs ----

GuardedOutput::GuardedOutput(DType dtype, std::int64_t count, Where where)
    : buffer_(static_cast<std::size_t>(count) * size_of(dtype)), dtype_(dtype), where_(where) {
  reset();
}

GuardedOutput::GuardedOutput(DType dtype, std::vector<std::byte> expected, Where where)
    : buffer_(expected.size()), expected_(std::move(expected)), dtype_(dtype), where_(where) {
  reset();
}

GuardedOutput::~GuardedOutput() { report_at(where_, damage()); }

comm::Buffer GuardedOutput::view_as(DType dtype) { return {buffer_.data(), elements_in(bytes().size(), dtype), dtype}; }

void GuardedOutput::begin(std::span<std::byte> to) const {
  if (expected_.empty())
    std::ranges::fill(to, poison(dtype_));
  else
    std::ranges::transform(expected_, to.begin(), complement);
}

std::string GuardedOutput::wrong_result() const { return first_difference(dtype_, expected_, bytes()); }

std::string GuardedOutput::unwritten() const {
  std::vector<std::byte> begun(bytes().size());
  begin(begun);
  const std::size_t element = size_of(dtype_);
  for (std::size_t at = 0; at < begun.size(); at += element)
    if (std::memcmp(begun.data() + at, bytes().data() + at, element) == 0)
      return fmt::format("element {} of {} was not written", at / element, begun.size() / element);
  return {};
}

std::string GuardedOutput::touched() const {
  std::vector<std::byte> begun(bytes().size());
  begin(begun);
  const std::string difference = first_difference(dtype_, begun, bytes());
  return difference.empty() ? difference : "data moved: " + difference;
}

std::string GuardedOutput::damage() const {
  const std::string outside = buffer_.damage();
  return outside.empty() ? outside : "outside the output: " + outside;
}

}  // namespace plumbline::conformance

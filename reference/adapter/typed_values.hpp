// reference/adapter/typed_values.hpp: lists of numbers, held in an element type as a program would.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reference/adapter/arguments.hpp"
#include "reference/comm/call.hpp"

namespace plumbline::adapter {

/// Numbers in memory of a floating type.
class TypedValues {
 public:
  TypedValues() = default;
  /// Each rounded once.
  TypedValues(comm::DType dtype, const std::vector<double>& values);

  [[nodiscard]] comm::Buffer buffer();
  [[nodiscard]] std::vector<double> values() const;
  [[nodiscard]] comm::DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size() / comm::size_of(dtype_); }
  [[nodiscard]] double at(std::size_t index) const;
  void set(std::size_t index, double value);

 private:
  comm::DType dtype_ = comm::DType::f32;
  std::vector<std::byte> bytes_;
};

/// Views of all of them.
[[nodiscard]] std::vector<comm::Buffer> buffers_of(std::vector<TypedValues>& lists);
/// As JSON, a list each.
[[nodiscard]] nlohmann::json lists_of(const std::vector<TypedValues>& lists);
/// The field "dtype": float16, bfloat16, float32 or float64.
[[nodiscard]] comm::DType floating_dtype(const Arguments& arguments, comm::DType otherwise);

}  // namespace plumbline::adapter

// reference/record/run_files.hpp: the two data files of a run, opened and checked against its specification.
//
// Model   weights: the parameters by name, F32, no other tensor. batches: "x" [steps*accumulation,
//         global_batch, row…] F32 (I64 where the first layer is an embedding), "y" [steps*accumulation,
//         global_batch] I64 class numbers, with a last dimension of tokens where the model's output has one, or for
//         mse F32 of the model's output shape; with loss.row_weights "w" [steps*accumulation, global_batch] F32, at
//         least 0, and on no data rank all 0 in a step.
// Errors  InvalidArgument naming the file, the tensor, and what would be right.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/record/layout.hpp"
#include "reference/record/safetensors.hpp"

namespace plumbline::job {

class RunFiles {
 public:
  /// Opens and checks both. Throws InvalidArgument, NotFound, RuntimeFailure.
  explicit RunFiles(const RunSpec& spec);

  /// The shapes of one row of "x", of what the model makes of it, and of one row of "y".
  [[nodiscard]] const Shape& row() const { return row_; }
  [[nodiscard]] const Shape& output() const { return output_; }
  [[nodiscard]] const Shape& target() const { return target_; }
  /// The element types of "x" and "y".
  [[nodiscard]] comm::DType x_dtype() const { return x_dtype_; }
  [[nodiscard]] comm::DType y_dtype() const { return y_dtype_; }

  /// The given value of a parameter.
  [[nodiscard]] std::vector<float> weight(const std::string& parameter) const {
    return weights_.read<float>(parameter);
  }
  /// Copies the rows of "x" or "y" to `out`, range.rows times the elements of a row.
  template <class T>
  void read_x(const RowRange& range, std::span<T> out) const {
    batches_.read_part("x", first_element(range, row_), out);
  }
  template <class T>
  void read_y(const RowRange& range, std::span<T> out) const {
    batches_.read_part("y", first_element(range, target_), out);
  }

  /// The weights of these rows; nothing where the specification has none.
  [[nodiscard]] std::span<const float> row_weights(const RowRange& range) const;
  /// The sum of the weights of these rows; their number where the specification has none.
  [[nodiscard]] double weight_of(std::span<const RowRange> ranges) const;

 private:
  void check_weights(const RunSpec& spec) const;
  void check_x(const RunSpec& spec);
  void check_y(const RunSpec& spec);
  void check_row_weights(const RunSpec& spec);
  [[nodiscard]] std::int64_t first_element(const RowRange& range, const Shape& row) const {
    return (range.batch * global_batch_ + range.first_row) * elements_of(row);
  }

  SafetensorsReader weights_;
  SafetensorsReader batches_;
  std::int64_t global_batch_;
  Shape row_;
  Shape output_;
  Shape target_;
  comm::DType x_dtype_;
  comm::DType y_dtype_;
  std::vector<float> row_weights_;
};

}  // namespace plumbline::job

#include "reference/record/run_files.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::job {
namespace {

std::string described(const TensorInfo& info) { return fmt::format("{} {}", info.type, text_of(info.shape)); }

[[noreturn]] void refuse(const SafetensorsReader& reader, const std::string& why) {
  throw InvalidArgument(fmt::format("'{}': {}", reader.file().string(), why));
}

const TensorInfo& needed(const SafetensorsReader& reader, const std::string& name) {
  if (const TensorInfo* info = reader.find(name)) return *info;
  refuse(reader, fmt::format("tensor '{}' is missing", name));
}

// [steps*accumulation, global_batch, row…]
Shape batches_of(const RunSpec& spec, const Shape& row) {
  Shape shape{std::int64_t{spec.run.steps} * spec.run.accumulation, spec.run.global_batch};
  shape.insert(shape.end(), row.begin(), row.end());
  return shape;
}

void check(const SafetensorsReader& reader, const std::string& name, comm::DType dtype, const Shape& shape) {
  const TensorInfo& info = needed(reader, name);
  if (info.dtype != dtype || info.shape != shape)
    refuse(reader, fmt::format("tensor '{}' is {}; it must be {} {}", name, described(info), safetensors_name(dtype),
                               text_of(shape)));
}

}  // namespace

RunFiles::RunFiles(const RunSpec& spec)
    : weights_(spec.weights_file()), batches_(spec.batches_file()), global_batch_(spec.run.global_batch) {
  check_weights(spec);
  check_x(spec);
  check_y(spec);
  if (spec.row_weights) check_row_weights(spec);
}

void RunFiles::check_weights(const RunSpec& spec) const {
  const std::vector<Parameter> parameters = parameters_of(spec);
  for (const Parameter& parameter : parameters) check(weights_, parameter.name, comm::DType::f32, parameter.shape);
  for (const auto& [name, info] : weights_.tensors())
    if (std::ranges::find(parameters, name, &Parameter::name) == parameters.end())
      refuse(weights_, fmt::format("tensor '{}' is no parameter of the model", name));
}

void RunFiles::check_x(const RunSpec& spec) {
  const TensorInfo& x = needed(batches_, "x");
  if (x.shape.size() > 2) row_.assign(x.shape.begin() + 2, x.shape.end());
  const Embedding* embedding = std::get_if<Embedding>(&spec.layers.front());
  x_dtype_ = embedding != nullptr ? comm::DType::i64 : comm::DType::f32;
  check(batches_, "x", x_dtype_, batches_of(spec, row_));
  try {
    output_ = output_shape(spec, row_);
  } catch (const InvalidArgument& error) {
    refuse(batches_, error.what());
  }
  if (embedding == nullptr) return;
  const std::vector<std::int64_t> values = batches_.read<std::int64_t>("x");
  for (const std::int64_t value : values)
    if (value < 0 || value >= embedding->rows)
      refuse(batches_,
             fmt::format("tensor 'x' has {}; it must be a row of the embedding, 0 to {}", value, embedding->rows - 1));
}

void RunFiles::check_y(const RunSpec& spec) {
  if (spec.loss == Loss::mse) {
    y_dtype_ = comm::DType::f32;
    target_ = output_;
    check(batches_, "y", y_dtype_, batches_of(spec, target_));
    return;
  }
  y_dtype_ = comm::DType::i64;
  if (output_.empty() || output_.size() > 2)
    refuse(batches_,
           fmt::format("the model makes {} of a row; cross_entropy needs one number a class, of the row or of "
                       "each of its tokens",
                       text_of(output_)));
  target_.assign(output_.begin(), output_.end() - 1);
  check(batches_, "y", y_dtype_, batches_of(spec, target_));
  const std::vector<std::int64_t> labels = batches_.read<std::int64_t>("y");
  for (const std::int64_t label : labels)
    if (label < 0 || label >= output_.back())
      refuse(batches_, fmt::format("tensor 'y' has {}; it must be a class, 0 to {}", label, output_.back() - 1));
}

void RunFiles::check_row_weights(const RunSpec& spec) {
  check(batches_, "w", comm::DType::f32, batches_of(spec, {}));
  row_weights_ = batches_.read<float>("w");
  for (const float weight : row_weights_)
    if (!(weight >= 0) || !std::isfinite(weight))
      refuse(batches_, fmt::format("tensor 'w' has {}; it must be a finite number, at least 0", weight));
  for (int step = 0; step < spec.run.steps; ++step)
    for (int data = 0; data < spec.parallel.data; ++data)
      if (weight_of(micro_batches_of(spec, step, data)) == 0)
        refuse(batches_, fmt::format("tensor 'w' is 0 for all rows of data rank {} in step {}; it must be above 0 for "
                                     "one of them",
                                     data, step));
}

std::span<const float> RunFiles::row_weights(const RowRange& range) const {
  if (row_weights_.empty()) return {};
  return std::span(row_weights_)
      .subspan(static_cast<std::size_t>(first_element(range, {})), static_cast<std::size_t>(range.rows));
}

double RunFiles::weight_of(std::span<const RowRange> ranges) const {
  double sum = 0;
  for (const RowRange& range : ranges) {
    if (row_weights_.empty()) sum += static_cast<double>(range.rows);
    for (const float weight : row_weights(range)) sum += static_cast<double>(weight);
  }
  return sum;
}

}  // namespace plumbline::job

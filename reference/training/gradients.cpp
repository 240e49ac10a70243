#include "reference/training/detail/gradients.hpp"

#include <algorithm>
#include <numeric>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/training/detail/model.hpp"

namespace plumbline::training {
namespace {

template <class T>
std::span<T> elements(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

job::Shape with_rows(std::int64_t rows, const job::Shape& row) {
  job::Shape shape{rows};
  shape.insert(shape.end(), row.begin(), row.end());
  return shape;
}

// A fresh tensor, filled by read(span).
template <class T, class Read>
at::Tensor filled(const job::Shape& shape, at::ScalarType type, const Read& read) {
  at::Tensor tensor = at::empty(shape, type);
  read(elements<T>(tensor));
  return tensor;
}

}  // namespace

Rows read_rows(const job::RunFiles& files, const job::RowRange& range, at::ScalarType type) {
  const job::Shape x_shape = with_rows(range.rows, files.row());
  const job::Shape y_shape = with_rows(range.rows, files.target());
  const auto read_x = [&](auto out) { files.read_x(range, out); };
  const auto read_y = [&](auto out) { files.read_y(range, out); };
  const at::Tensor x = files.x_dtype() == comm::DType::f32 ? filled<float>(x_shape, at::kFloat, read_x)
                                                           : filled<std::int64_t>(x_shape, at::kLong, read_x);
  const at::Tensor y = files.y_dtype() == comm::DType::f32 ? filled<float>(y_shape, at::kFloat, read_y)
                                                           : filled<std::int64_t>(y_shape, at::kLong, read_y);
  const auto typed = [type](const at::Tensor& tensor) { return tensor.is_floating_point() ? tensor.to(type) : tensor; };
  at::Tensor w;
  if (const std::span<const float> weights = files.row_weights(range); !weights.empty())
    w = filled<float>({range.rows}, at::kFloat, [&](std::span<float> out) { std::ranges::copy(weights, out.begin()); });
  return {typed(x), typed(y), w};
}

double mean_loss(const job::RunFiles& files, std::span<const job::RowRange> rows,
                 std::span<const double> micro_batches) {
  const double sum = std::accumulate(micro_batches.begin(), micro_batches.end(), 0.0);
  const bool is_weighted = !files.row_weights(rows.front()).empty();
  return sum / (is_weighted ? files.weight_of(rows) : static_cast<double>(micro_batches.size()));
}

double divisor_of(const job::RunSpec& spec, const job::RunFiles& files, int step) {
  if (!spec.row_weights) return micro_batches_of_a_step(spec);
  double sum = 0;
  for (int data = 0; data < spec.parallel.data; ++data) sum += files.weight_of(job::micro_batches_of(spec, step, data));
  return sum / spec.parallel.data;
}

at::ScalarType compute_type(const job::RunSpec& spec) {
  return spec.run.dtype == "float16" ? at::kHalf : spec.run.dtype == "bfloat16" ? at::kBFloat16 : at::kFloat;
}

std::vector<at::Tensor> parameters_on(const job::RunSpec& spec, const Values& values, Arithmetic arithmetic,
                                      c10::Device device) {
  std::vector<at::Tensor> list;
  for (const job::Parameter& parameter : job::parameters_of(spec)) {
    const auto found = values.find(parameter.name);
    if (found == values.end()) throw InvalidArgument(fmt::format("no value for parameter '{}'", parameter.name));
    const std::vector<float>& given = found->second;
    if (static_cast<std::int64_t>(given.size()) != job::elements_of(parameter.shape))
      throw InvalidArgument(fmt::format("parameter '{}' has {} values; shape {} needs {}", parameter.name, given.size(),
                                        job::text_of(parameter.shape), job::elements_of(parameter.shape)));
    const at::Tensor tensor = filled<float>(
        parameter.shape, at::kFloat, [&](std::span<float> out) { std::copy(given.begin(), given.end(), out.begin()); });
    const bool convolves = parameter.shape.size() == 4;
    const auto format = convolves ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    list.push_back(tensor.to(device, arithmetic == Arithmetic::float64 ? at::kDouble : at::kFloat).contiguous(format));
  }
  return list;
}

std::vector<at::Tensor> rounded_parameters(const job::RunSpec& spec, std::vector<at::Tensor> parameters) {
  for (at::Tensor& one : parameters) one = one.to(compute_type(spec)).to(one.scalar_type());
  return parameters;
}

TensorGradient gradient_of(const job::RunSpec& spec, const job::RunFiles& files, std::span<const at::Tensor> parameters,
                           std::span<const job::RowRange> parts, double divisor, double loss_scale,
                           ActivationTape* tape) {
  std::vector<at::Tensor> leaves;
  const std::vector<job::Parameter> list = job::parameters_of(spec);
  for (std::size_t i = 0; i < list.size(); ++i)
    leaves.push_back(parameters[i].detach().requires_grad_(tape != nullptr || job::trains(spec, list[i])));
  Model model(spec, leaves);
  if (tape != nullptr) model.observe(tape->observer());
  TensorGradient result;
  for (const job::RowRange& part : parts) {
    if (tape != nullptr) tape->begin(static_cast<int>(&part - parts.data()));
    const at::Tensor& like = parameters.front();
    const Rows rows = read_rows(files, part, like.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    const at::ScalarType type = rows.x.is_floating_point() ? like.scalar_type() : rows.x.scalar_type();
    const at::Tensor w = rows.w.defined() ? rows.w.to(like.device()) : rows.w;
    // A tape has the gradient of each layer's output, also of those that no trained parameter comes before.
    const at::Tensor x = rows.x.to(like.device(), type).detach();
    if (tape != nullptr && x.is_floating_point()) x.requires_grad_();
    const at::Tensor loss = model.loss(x, rows.y.to(like.device()), w);
    const at::Tensor mean = loss.div(divisor);
    (loss_scale == 1 ? mean : mean.mul(loss_scale)).backward();
    result.losses.push_back(loss.item<double>());
  }
  for (std::size_t i = 0; i < list.size(); ++i)
    result.gradients.push_back(job::trains(spec, list[i]) && leaves[i].grad().defined() ? leaves[i].grad()
                                                                                        : at::zeros_like(leaves[i]));
  return result;
}

std::vector<float> to_floats(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
  const std::span<float> values = elements<float>(host);
  return {values.begin(), values.end()};
}

std::vector<double> to_doubles(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
  const std::span<double> values = elements<double>(host);
  return {values.begin(), values.end()};
}

}  // namespace plumbline::training

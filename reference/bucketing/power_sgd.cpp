#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/compression.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {

// A gradient that is reduced as a product.
struct CompressedMatrix {
  MatrixShape shape;
  std::int64_t rank = 1;
  bool is_worth = false;
  std::int64_t steps = 0;          // reductions of it so far
  std::vector<double> directions;  // Q, [columns][rank]; empty before the first
  std::vector<float> error;        // [rows][columns]

  [[nodiscard]] std::int64_t narrow() const { return shape.rows * rank; }
  [[nodiscard]] std::int64_t wide() const { return shape.columns * rank; }
};

// A bucket that is under way. Which members are compressed is the same on every rank.
struct CompressedBucket {
  std::vector<float> values;        // the bucket's, with what was left over
  std::vector<bool> is_compressed;  // by member
  std::vector<float> sent;          // what is plain, then every P
};

namespace {

using comm::Buffer;
using Doubles = std::vector<double>;

bool is_compressed_type(comm::DType dtype) { return comm::is_floating(dtype) && dtype != comm::DType::f64; }

// Of a column with index `a` with column `b`, of a row-major matrix.
double product(std::span<const double> matrix, std::int64_t columns, std::int64_t a, std::int64_t b) {
  double sum = 0;
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t row = 0; row < matrix.size(); row += width)
    sum += matrix[row + static_cast<std::size_t>(a)] * matrix[row + static_cast<std::size_t>(b)];
  return sum;
}

void add_multiple(std::span<double> matrix, std::int64_t columns, std::int64_t to, double factor, std::int64_t from) {
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t row = 0; row < matrix.size(); row += width)
    matrix[row + static_cast<std::size_t>(to)] += factor * matrix[row + static_cast<std::size_t>(from)];
}

// Makes one column orthonormal to those before it. Whether anything of it is left.
bool orthonormalise_column(std::span<double> matrix, std::int64_t columns, std::int64_t column, double epsilon) {
  constexpr double negligible = 1e-6;  // columns have been rounded to f32
  const double before = std::sqrt(product(matrix, columns, column, column));
  for (int time = 0; time < 2; ++time)
    for (std::int64_t other = 0; other < column; ++other)
      add_multiple(matrix, columns, column, -product(matrix, columns, other, column), other);
  const double length = std::sqrt(product(matrix, columns, column, column));
  const bool is_left = !(length <= negligible * before);  // a NaN passes
  const double factor = is_left ? 1 / (length + epsilon) : 0;
  for (auto at = static_cast<std::size_t>(column); at < matrix.size(); at += static_cast<std::size_t>(columns))
    matrix[at] *= factor;
  return is_left;
}

// Generic directions of a gradient's Q: numbers in [-1, 1), the same on every rank and machine.
void draw_column(std::span<double> matrix, std::int64_t columns, std::int64_t column, std::uint64_t seed,
                 int gradient) {
  std::seed_seq mixed{static_cast<std::int64_t>(seed), static_cast<std::int64_t>(seed >> 32), std::int64_t{gradient},
                      column};
  std::mt19937_64 engine(mixed);
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t at = static_cast<std::size_t>(column); at < matrix.size(); at += width)
    matrix[at] = static_cast<double>(engine()) * 0x1p-63 - 1;
}

// Of a shape whose product may not fit 64 bits.
bool has_elements(const MatrixShape& shape, std::int64_t elements) {
  if (shape.rows == 0) return elements == 0;
  return elements % shape.rows == 0 && elements / shape.rows == shape.columns;
}

// Sums over rows and columns of M, [rows][columns], with what multiplies it, [..][rank].
Doubles times(std::span<const float> values, const CompressedMatrix& matrix, std::span<const double> directions) {
  const auto columns = static_cast<std::size_t>(matrix.shape.columns), rank = static_cast<std::size_t>(matrix.rank);
  Doubles result(static_cast<std::size_t>(matrix.narrow()));
  for (std::size_t row = 0; row * columns < values.size(); ++row)
    for (std::size_t column = 0; column < columns; ++column)
      for (std::size_t i = 0; i < rank; ++i)
        result[row * rank + i] += static_cast<double>(values[row * columns + column]) * directions[column * rank + i];
  return result;
}
Doubles transposed_times(std::span<const float> values, const CompressedMatrix& matrix,
                         std::span<const double> directions) {
  const auto columns = static_cast<std::size_t>(matrix.shape.columns), rank = static_cast<std::size_t>(matrix.rank);
  Doubles result(static_cast<std::size_t>(matrix.wide()));
  for (std::size_t row = 0; row * columns < values.size(); ++row)
    for (std::size_t column = 0; column < columns; ++column)
      for (std::size_t i = 0; i < rank; ++i)
        result[column * rank + i] += static_cast<double>(values[row * columns + column]) * directions[row * rank + i];
  return result;
}

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

std::span<float> taken(std::span<float>& from, std::int64_t count) {
  const auto part = from.first(static_cast<std::size_t>(count));
  from = from.subspan(part.size());
  return part;
}

comm::Call averaging(Buffer values) {
  return {.operation = comm::Operation::all_reduce, .op = comm::ReduceOp::avg, .in = values, .out = values};
}
Buffer buffer_of(std::vector<float>& values) { return Buffer::of(values); }

// What remains of numbers that are written as that type.
void round_to(comm::DType dtype, std::vector<float>& values) {
  std::vector<std::byte> memory(values.size() * comm::size_of(dtype));
  const Buffer rounded{memory.data(), std::ssize(values), dtype};
  copy_divided(buffer_of(values), rounded, 1);
  copy_divided(rounded, buffer_of(values), 1);
}

// P Q', [rows][columns].
std::vector<float> product_of(const CompressedMatrix& matrix, std::span<const double> narrow) {
  const auto rows = static_cast<std::size_t>(matrix.shape.rows),
             columns = static_cast<std::size_t>(matrix.shape.columns), rank = static_cast<std::size_t>(matrix.rank);
  std::vector<float> product;
  product.reserve(rows * columns);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (std::size_t i = 0; i < rank; ++i) sum += narrow[row * rank + i] * matrix.directions[column * rank + i];
      product.push_back(static_cast<float>(sum));
    }
  return product;
}

}  // namespace

bool is_worth_compressing(const MatrixShape& shape, int rank, double least_rate) {
  const auto rows = static_cast<double>(shape.rows), columns = static_cast<double>(shape.columns);
  return least_rate * rank * (rows + columns) < rows * columns;
}

void orthonormalise(std::span<double> matrix, std::int64_t columns, double epsilon) {
  for (std::int64_t column = 0; column < columns; ++column) orthonormalise_column(matrix, columns, column, epsilon);
}

class PowerSgd::Impl {
 public:
  Impl(const std::vector<MatrixShape>& shapes, const PowerSgdOptions& options) : options_(options) {
    require_options();
    for (const MatrixShape& shape : shapes) {
      if (shape.rows < 0 || shape.columns < 0)
        throw InvalidArgument(fmt::format("PowerSGD: gradient {} has {} rows and {} columns; 0 or more are possible",
                                          matrices_.size(), shape.rows, shape.columns));
      const auto rank = std::min<std::int64_t>({options.rank, shape.rows, shape.columns});
      matrices_.push_back({.shape = shape,
                           .rank = rank,
                           .is_worth = is_worth_compressing(shape, static_cast<int>(rank), options.least_rate),
                           .steps = 0,
                           .directions = {},
                           .error = {}});
    }
  }

  comm::Work start(comm::Communicator& group, const HookedBucket& bucket) {
    CompressedBucket& exchange = exchanges_[bucket.index];
    exchange.is_compressed.clear();
    for (const Member& member : bucket.members) exchange.is_compressed.push_back(counts_as_compressed(member, bucket));
    if (std::ranges::count(exchange.is_compressed, true) == 0) return group.start(averaging(bucket.values));
    exchange.values.resize(static_cast<std::size_t>(bucket.values.count));
    copy_divided(bucket.values, buffer_of(exchange.values), 1);
    exchange.sent.clear();
    for (const bool compressed : {false, true})
      each_member(exchange, bucket, compressed, [&](int gradient, std::span<float> values) {
        if (compressed) {
          const Doubles narrow = project(gradient, values);
          exchange.sent.insert(exchange.sent.end(), narrow.begin(), narrow.end());
        } else {
          exchange.sent.insert(exchange.sent.end(), values.begin(), values.end());
        }
      });
    return group.start(averaging(buffer_of(exchange.sent)));
  }

  void finish(comm::Communicator& group, const HookedBucket& bucket) {
    CompressedBucket& exchange = exchanges_[bucket.index];
    if (std::ranges::count(exchange.is_compressed, true) == 0) return;
    std::span<float> received(exchange.sent);
    each_member(exchange, bucket, false, [&](int, std::span<float> values) {
      std::ranges::copy(taken(received, std::ssize(values)), values.begin());
    });
    std::vector<Doubles> narrows;
    std::vector<float> wides;
    each_member(exchange, bucket, true, [&](int gradient, std::span<float> values) {
      const CompressedMatrix& matrix = matrices_[static_cast<std::size_t>(gradient)];
      const auto narrow = taken(received, matrix.narrow());
      narrows.emplace_back(narrow.begin(), narrow.end());
      orthonormalise(narrows.back(), matrix.rank, options_.epsilon);
      const Doubles wide = transposed_times(values, matrix, narrows.back());
      wides.insert(wides.end(), wide.begin(), wide.end());
    });
    group.run(averaging(buffer_of(wides)));
    std::span<float> means(wides);
    std::size_t next = 0;
    each_member(exchange, bucket, true, [&](int gradient, std::span<float> values) {
      CompressedMatrix& matrix = matrices_[static_cast<std::size_t>(gradient)];
      const auto wide = taken(means, matrix.wide());
      matrix.directions.assign(wide.begin(), wide.end());
      rebuild(matrix, values, narrows[next++], bucket.values.dtype);
    });
    copy_divided(buffer_of(exchange.values), bucket.values, 1);
  }

  [[nodiscard]] std::span<const float> error(int gradient) const {
    if (gradient < 0 || gradient >= std::ssize(matrices_))
      throw OutOfRange(fmt::format("PowerSGD: gradient {}; there are {}", gradient, matrices_.size()));
    return matrices_[static_cast<std::size_t>(gradient)].error;
  }

 private:
  void require_options() const {
    if (options_.rank < 1)
      throw InvalidArgument(fmt::format("PowerSGD: rank {}; 1 or more are possible", options_.rank));
    if (options_.start < 0)
      throw InvalidArgument(fmt::format("PowerSGD: start after {} reductions; 0 or more are possible", options_.start));
    for (const auto& [what, value] : {std::pair("rate", options_.least_rate), std::pair("epsilon", options_.epsilon)})
      if (!(value >= 0) || !std::isfinite(value))
        throw InvalidArgument(fmt::format("PowerSGD: {} {}; 0 or more is possible", what, value));
  }

  static void require_room(const Member& member, const MatrixShape& shape, const HookedBucket& bucket) {
    if (bucket.components_per_element != 1)
      throw InvalidArgument(fmt::format("PowerSGD: gradient {} is complex; real ones are compressed", member.gradient));
    if (member.gradient >= std::ssize(bucket.gradients))
      throw InvalidArgument(fmt::format("PowerSGD: gradient {} in a bucket; the elements of {} are known",
                                        member.gradient, bucket.gradients.size()));
    const std::int64_t elements = bucket.gradients[static_cast<std::size_t>(member.gradient)].elements;
    if (!has_elements(shape, elements))
      throw InvalidArgument(fmt::format("PowerSGD: gradient {} of {} elements was given as {} x {}", member.gradient,
                                        elements, shape.rows, shape.columns));
    if (member.begin > bucket.values.count - shape.rows * shape.columns)
      throw InvalidArgument(fmt::format("PowerSGD: gradient {} has {} x {} numbers from {} on in a bucket of {}",
                                        member.gradient, shape.rows, shape.columns, member.begin, bucket.values.count));
  }
  // Whether a gradient is compressed this time.
  bool counts_as_compressed(const Member& member, const HookedBucket& bucket) {
    const int gradient = member.gradient;
    if (gradient >= std::ssize(matrices_))
      throw InvalidArgument(
          fmt::format("PowerSGD: gradient {}; the shapes of {} are known", gradient, matrices_.size()));
    CompressedMatrix& matrix = matrices_[static_cast<std::size_t>(member.gradient)];
    require_room(member, matrix.shape, bucket);
    return matrix.steps++ >= options_.start && matrix.is_worth && is_compressed_type(bucket.values.dtype);
  }
  template <class See>
  void each_member(CompressedBucket& exchange, const HookedBucket& bucket, bool compressed, const See& see) const {
    for (std::size_t i = 0; i < bucket.members.size(); ++i) {
      const Member& member = bucket.members[i];
      const MatrixShape& shape = matrices_[static_cast<std::size_t>(member.gradient)].shape;
      if (exchange.is_compressed[i] == compressed)
        see(member.gradient,
            std::span(exchange.values)
                .subspan(static_cast<std::size_t>(member.begin), static_cast<std::size_t>(shape.rows * shape.columns)));
    }
  }

  // Adds to a gradient what was left over of it, and multiplies it with its directions: P.
  Doubles project(int gradient, std::span<float> values) {
    CompressedMatrix& matrix = matrices_[static_cast<std::size_t>(gradient)];
    for (std::size_t i = 0; i < matrix.error.size(); ++i) values[i] += matrix.error[i];
    const bool is_warm = options_.warm_start && !matrix.directions.empty();
    const auto draw = [&](std::int64_t column) {
      draw_column(matrix.directions, matrix.rank, column, options_.seed, gradient);
    };
    matrix.directions.resize(static_cast<std::size_t>(matrix.wide()));
    for (std::int64_t column = 0; column < matrix.rank; ++column) {
      if (!is_warm) draw(column);
      if (orthonormalise_column(matrix.directions, matrix.rank, column, options_.epsilon)) continue;
      draw(column);  // a direction that was lost starts again
      orthonormalise_column(matrix.directions, matrix.rank, column, options_.epsilon);
    }
    return times(values, matrix, matrix.directions);
  }
  // P Q' in place of what this rank had, whose difference from what is written it keeps. All ranks have the same P and
  // Q, and so keep equal state.
  void rebuild(CompressedMatrix& matrix, std::span<float> values, std::span<const double> narrow,
               comm::DType dtype) const {
    std::vector<float> product = product_of(matrix, narrow);
    round_to(dtype, product);
    const bool remembers = is_finite(product);
    if (remembers && options_.error_feedback) keep_error(matrix, values, product);
    if (!remembers) matrix.directions.clear();
    std::ranges::copy(product, values.begin());
  }
  void keep_error(CompressedMatrix& matrix, std::span<const float> own, std::span<const float> approximated) const {
    std::vector<float> error(own.size());
    std::ranges::transform(own, approximated, error.begin(), std::minus<>());
    if (is_finite(error)) matrix.error = std::move(error);
  }

  PowerSgdOptions options_;
  std::vector<CompressedMatrix> matrices_;     // by gradient
  std::map<int, CompressedBucket> exchanges_;  // by bucket
};

PowerSgd::PowerSgd(std::vector<MatrixShape> shapes, PowerSgdOptions options)
    : impl_(std::make_shared<Impl>(shapes, options)) {}
CommunicationHook PowerSgd::hook() const {
  return {
      .start = [impl = impl_](comm::Communicator& group,
                              const HookedBucket& bucket) { return impl->start(group, bucket); },
      .finish = [impl = impl_](comm::Communicator& group, const HookedBucket& bucket) { impl->finish(group, bucket); }};
}
std::span<const float> PowerSgd::error(int gradient) const { return impl_->error(gradient); }

}  // namespace plumbline::bucketing

// Gradients that travel as bytes or as products of narrow matrices: how far from the mean they arrive, what is kept for
// the next step, and what travels.
//
// Model   What is expected is computed here, in f64, from what all ranks' gradients are made of; no direction that a
//         reducer draws is known to it. A step of PowerSGD is right when what it leaves is a projection of what there
//         was to reduce, with what earlier steps left over: U'(A - U) = 0, and U has no more than r directions.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/bucketing/reducer_checks.hpp"
#include "conformance/bucketing/reducer_training.hpp"
#include "conformance/support/property.hpp"
#include "conformance/support/recording.hpp"
#include "reference/bucketing/compression.hpp"
#include "reference/bucketing/plan.hpp"

namespace plumbline::conformance {

using bucketing::MatrixShape;
using bucketing::PowerSgd;
using bucketing::PowerSgdOptions;
using bucketing::Reducer;
using suite::Context;

namespace {

using Matrix = std::vector<double>;  // row-major

// ---- gradients ----

// Any number in [-1, 1), by step, rank, gradient and place.
double number(int step, int rank, int gradient, std::size_t at) {
  std::uint64_t seed = ((static_cast<std::uint64_t>(step) * 131 + static_cast<std::uint64_t>(rank)) * 131 +
                        static_cast<std::uint64_t>(gradient)) *
                           1'000'003 +
                       at + 1;
  seed *= 0x9e3779b97f4a7c15u;
  seed = (seed ^ (seed >> 29)) * 0xbf58476d1ce4e5b9u;
  return static_cast<double>(static_cast<std::int64_t>((seed ^ (seed >> 32)) >> 40)) * 0x1p-23 - 1;
}

using Made = std::function<float(int step, int rank, int gradient, std::size_t at)>;

// The exact mean of what the ranks make.
Matrix mean_of(const Made& made, int ranks, int step, int gradient, std::int64_t size) {
  Matrix mean(static_cast<std::size_t>(size));
  for (std::size_t at = 0; at < mean.size(); ++at) {
    for (int rank = 0; rank < ranks; ++rank) mean[at] += static_cast<double>(made(step, rank, gradient, at));
    mean[at] /= ranks;
  }
  return mean;
}

// A rank's part of a few steps over a hook.
class HookedSteps {
 public:
  HookedSteps(comm::Communicator& world, std::vector<std::int64_t> sizes, std::int64_t limit,
              const bucketing::CommunicationHook& hook, std::function<void(int)> reduced = {})
      : world_(world), sizes_(std::move(sizes)), reducer_({&world}, gradients(), plan(limit), options(hook, reduced)) {}

  [[nodiscard]] Vectors step(int step, const Made& made) {
    reducer_.begin();
    for (int gradient = count() - 1; gradient >= 0; --gradient) {
      const std::span<float> values = view(gradient);
      for (std::size_t at = 0; at < values.size(); ++at) values[at] = made(step, world_.rank(), gradient, at);
      reducer_.ready(gradient);
    }
    (void)reducer_.finish();
    Vectors used;
    for (int gradient = 0; gradient < count(); ++gradient)
      used.emplace_back(view(gradient).begin(), view(gradient).end());
    reducer_.clear();
    return used;
  }
  [[nodiscard]] const bucketing::Plan& plan() const { return reducer_.plan(); }

 private:
  [[nodiscard]] int count() const { return static_cast<int>(sizes_.size()); }
  [[nodiscard]] std::vector<bucketing::Gradient> gradients() const { return gradients_of_training({.sizes = sizes_}); }
  [[nodiscard]] bucketing::Plan plan(std::int64_t limit) const {
    std::vector<int> backwards(sizes_.size());
    std::iota(backwards.rbegin(), backwards.rend(), 0);
    return plan_of_training({.sizes = sizes_, .limit_bytes = limit}, backwards);
  }
  static bucketing::ReducerOptions options(const bucketing::CommunicationHook& hook,
                                           const std::function<void(int)>& reduced) {
    bucketing::ReducerOptions options;
    options.hook = hook;
    options.reduced = reduced;
    return options;
  }
  [[nodiscard]] std::span<float> view(int gradient) const {
    const comm::Buffer buffer = reducer_.view(gradient);
    return {static_cast<float*>(buffer.data), static_cast<std::size_t>(buffer.count)};
  }

  comm::Communicator& world_;
  std::vector<std::int64_t> sizes_;
  Reducer reducer_;
};

void expect_same_bits(Context& context, const Vectors& used, const char* requirement) {
  for (const std::vector<float>& values : used) {
    std::vector<float> of_rank_0 = values;
    context.world().broadcast(comm::Buffer::of(of_rank_0), 0);
    EXPECT_EQ(std::memcmp(values.data(), of_rank_0.data(), values.size() * sizeof(float)), 0)
        << requirement << ": values differ from rank 0's";
  }
}

std::int64_t limit_of(Context& context) { return context.parameters().text("limit") == "each" ? 0 : 1 << 30; }

// ---- bytes ----

std::int64_t channel_of(Context& context) {
  const std::string channel = context.parameters().text("channel");
  return channel == "bucket" ? bucketing::kWholeBucket : std::stoll(channel);
}

// The distance of two bytes of a channel: of what a rank has from `begin` on, and zero.
double scale_of(const std::vector<double>& channel) {
  double lowest = 0, highest = 0;
  for (const double value : channel) {
    lowest = std::min(lowest, value);
    highest = std::max(highest, value);
  }
  return std::max((highest - lowest) / 255, 0x1p-23);
}

// Of each number of a bucket: half of the mean of the ranks' scales of its channel, and a millionth of them for
// rounding.
Matrix bounds_of(const bucketing::Plan& plan, const bucketing::Bucket& bucket, const std::vector<std::int64_t>& sizes,
                 const Made& made, int ranks, int step, std::int64_t channel) {
  Matrix bounds(static_cast<std::size_t>(bucket.elements));
  for (int rank = 0; rank < ranks; ++rank) {
    Matrix values;
    for (const auto& member : plan.members_of(bucket))
      for (std::size_t at = 0; at < static_cast<std::size_t>(sizes[static_cast<std::size_t>(member.gradient)]); ++at)
        values.push_back(static_cast<double>(made(step, rank, member.gradient, at)));
    const std::size_t size = channel == 0 ? values.size() : static_cast<std::size_t>(channel);
    for (std::size_t begin = 0; begin < values.size(); begin += size) {
      const std::size_t end = std::min(values.size(), begin + size);
      const double scale = scale_of(
          {values.begin() + static_cast<std::ptrdiff_t>(begin), values.begin() + static_cast<std::ptrdiff_t>(end)});
      for (std::size_t at = begin; at < end; ++at) bounds[at] += scale * (0.5 + 255e-6) / ranks;
    }
  }
  return bounds;
}

void bytes_are_near(Context& context) {
  const std::string magnitudes = context.parameters().text("magnitudes");
  const std::vector<std::int64_t> sizes{700, 33, 1, 1200};
  const Made made = [&](int step, int rank, int gradient, std::size_t at) {
    double scale = 1;
    if (magnitudes == "by_rank") scale = std::ldexp(1.0, 4 * rank);
    if (magnitudes == "growing") scale = std::exp2(static_cast<double>(at / 100) + 5 * gradient);
    return static_cast<float>(scale * (number(step, rank, gradient, at) + 0.25));
  };
  HookedSteps hooked(context.world(), sizes, 2048, bucketing::quantising_hook(channel_of(context)));
  for (int step = 0; step < 2; ++step) {
    const Vectors used = hooked.step(step, made);
    expect_same_bits(context, used, "BUCKET-200");
    for (const auto& bucket : hooked.plan().buckets) {
      const Matrix bounds = bounds_of(hooked.plan(), bucket, sizes, made, context.size(), step, channel_of(context));
      for (const auto& member : hooked.plan().members_of(bucket)) {
        const auto gradient = static_cast<std::size_t>(member.gradient);
        const Matrix mean = mean_of(made, context.size(), step, member.gradient, sizes[gradient]);
        for (std::size_t at = 0; at < mean.size(); ++at)
          ASSERT_LE(std::abs(static_cast<double>(used[gradient][at]) - mean[at]),
                    bounds[static_cast<std::size_t>(member.begin) + at])
              << "BUCKET-200: step " << step << ", gradient " << gradient << ", number " << at;
      }
    }
  }
}

void bytes_travel(Context& context) {
  const std::vector<std::int64_t> sizes{700, 33, 1, 1200};
  RecordingCommunicator world(context.world().duplicate());
  HookedSteps hooked(world, sizes, 2048, bucketing::quantising_hook(channel_of(context)));
  (void)hooked.step(0,
                    [](int, int rank, int, std::size_t at) { return static_cast<float>(rank + static_cast<int>(at)); });
  std::vector<std::int64_t> expected, found;
  for (const auto& bucket : hooked.plan().buckets) {
    const std::int64_t channel = channel_of(context) == 0 ? bucket.elements : channel_of(context);
    expected.push_back(8 * ((bucket.elements + channel - 1) / channel));
    expected.push_back(bucket.elements);
  }
  for (const RecordedCall& call : world.calls)
    if (call.operation == comm::Operation::all_gather && call.dtype != comm::DType::i64)
      found.push_back(call.elements * static_cast<std::int64_t>(comm::size_of(call.dtype)));
  EXPECT_EQ(found, expected) << "BUCKET-201: bytes of each gathering, of scales and of numbers in turn";
}

// ---- NaN and infinity ----

constexpr std::size_t kWrongPlace = 7;

Made with_one(std::optional<float> wrong, int of_rank) {
  return [wrong, of_rank](int step, int rank, int gradient, std::size_t at) {
    const bool here = step == 0 && rank == of_rank && gradient == 0 && at == kWrongPlace;
    return here && wrong ? *wrong : static_cast<float>(number(step, rank, gradient, at));
  };
}

// The second step is as if there had been no first one.
void not_finite_of(Context& context, std::optional<float> wrong, int of_rank) {
  const bool bytes = context.parameters().text("as") == "int8";
  const std::vector<std::int64_t> sizes{20 * 30};
  const PowerSgd sgd({{20, 30}}, {.rank = 20, .start = 0, .least_rate = 0});
  HookedSteps hooked(context.world(), sizes, 0,
                     bytes ? bucketing::quantising_hook(bucketing::kWholeBucket) : sgd.hook());
  const Made made = with_one(wrong, of_rank);
  const float found = hooked.step(0, made)[0][kWrongPlace];
  if (wrong)
    EXPECT_TRUE(std::isnan(found)) << "BUCKET-202: the mean of what rank " << of_rank << " has as " << *wrong << " is "
                                   << found;
  else
    EXPECT_TRUE(std::isfinite(found)) << "BUCKET-202: the mean of finite numbers is " << found;
  const std::vector<float> after = hooked.step(1, made)[0];
  const Matrix mean = mean_of(made, context.size(), 1, 0, sizes[0]);
  for (std::size_t at = 0; at < mean.size(); ++at)
    ASSERT_LE(std::abs(static_cast<double>(after[at]) - mean[at]), bytes ? 0.5 / 127 : 1e-3)
        << "BUCKET-202: number " << at << " of the step after";
}

void not_finite(Context& context) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::map<std::string, std::vector<std::optional<float>>> numbers{
      {"nothing", {std::nullopt}},
      {"nan", {std::numeric_limits<float>::quiet_NaN()}},
      {"infinity", {-infinity, infinity}}};
  for (const auto& wrong : numbers.at(context.parameters().text("what")))
    for (const int of_rank : {context.size() - 1, 0}) not_finite_of(context, wrong, of_rank);
}

// ---- products ----

double norm(const Matrix& matrix) {
  double sum = 0;
  for (const double value : matrix) sum += value * value;
  return std::sqrt(sum);
}
Matrix difference_of_matrices(const Matrix& a, const Matrix& b) {
  Matrix result(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) result[i] = a[i] - b[i];
  return result;
}
// A'B.
Matrix transposed_product(const Matrix& a, const Matrix& b, const MatrixShape& shape) {
  const auto columns = static_cast<std::size_t>(shape.columns);
  Matrix product(columns * columns);
  for (std::size_t row = 0; row < a.size(); row += columns)
    for (std::size_t i = 0; i < columns; ++i)
      for (std::size_t j = 0; j < columns; ++j) product[i * columns + j] += a[row + i] * b[row + j];
  return product;
}
// What remains of a matrix when its `rank` largest rows are taken out of all others, one after the other.
double beyond_rank(Matrix matrix, const MatrixShape& shape, int rank) {
  const auto columns = static_cast<std::size_t>(shape.columns);
  const auto row_of = [&](std::size_t row) { return std::span(matrix).subspan(row * columns, columns); };
  const auto product = [](std::span<const double> a, std::span<const double> b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  for (int i = 0; i < rank; ++i) {
    std::size_t largest = 0;
    for (std::size_t row = 1; row < static_cast<std::size_t>(shape.rows); ++row)
      if (product(row_of(row), row_of(row)) > product(row_of(largest), row_of(largest))) largest = row;
    const Matrix direction(row_of(largest).begin(), row_of(largest).end());
    const double square = product(direction, direction);
    for (std::size_t row = 0; square > 0 && row < static_cast<std::size_t>(shape.rows); ++row) {
      const double factor = product(row_of(row), direction) / square;
      for (std::size_t column = 0; column < columns; ++column) row_of(row)[column] -= factor * direction[column];
    }
  }
  return norm(matrix);
}

Matrix widened(const std::vector<float>& values) { return {values.begin(), values.end()}; }

// The mean has few directions, of small whole numbers; each rank's own part, which the others' cancel, has all.
void low_rank(Context& context) {
  const int rank = static_cast<int>(context.parameters().number("rank"));
  const int of = static_cast<int>(context.parameters().number("of"));
  const MatrixShape shape{24, 40};
  const int ranks = context.size();
  const auto whole = [](int kind, int direction, std::size_t at) {
    return std::round(8 * number(kind, 0, direction, at));
  };
  const Made made = [&](int step, int own, int, std::size_t at) {
    double value = whole(9, 9, at) * (2 * own - (ranks - 1));
    for (int i = 0; i < of; ++i) value += whole(step + 1, 2 * i, at / 40) * whole(step + 1, 2 * i + 1, at % 40);
    return static_cast<float>(value);
  };
  const PowerSgd sgd({shape}, {.rank = rank, .start = 0, .least_rate = 0});
  HookedSteps hooked(context.world(), {24 * 40}, 0, sgd.hook());
  const std::vector<float> used = hooked.step(0, made)[0];
  const Matrix mean = mean_of(made, ranks, 0, 0, 24 * 40);
  EXPECT_LE(norm(difference_of_matrices(widened(used), mean)), 1e-4 * norm(mean))
      << "BUCKET-203: the distance from the mean";
  expect_same_bits(context, {used}, "BUCKET-203");
}

// Products are written in the gradients' type: with all directions they are the mean, within its roundings, and what is
// left over is the difference from what was written, of each rank.
void types_of_products(Context& context) {
  const comm::DType dtype = context.parameters().dtype();
  constexpr std::int64_t rows = 12, columns = 18;
  const std::vector<bucketing::Gradient> gradients{{.elements = rows * columns, .dtype = dtype}};
  const PowerSgd sgd({{rows, columns}}, {.rank = rows, .start = 0, .least_rate = 0});
  Reducer reducer({&context.world()}, gradients, bucketing::plan_unfused(gradients), {.hook = sgd.hook()});
  std::vector<std::vector<float>> made(static_cast<std::size_t>(context.size()),
                                       std::vector<float>(static_cast<std::size_t>(rows * columns)));
  Matrix mean(made.front().size());
  for (int rank = 0; rank < context.size(); ++rank)
    for (std::size_t at = 0; at < mean.size(); ++at) {
      // Of few bits, which every type has.
      made[static_cast<std::size_t>(rank)][at] = static_cast<float>(std::round(64 * number(3, rank, 0, at)) / 64);
      mean[at] += static_cast<double>(made[static_cast<std::size_t>(rank)][at]) / context.size();
    }
  const std::vector<float>& own = made[static_cast<std::size_t>(context.rank())];
  std::vector<float> used(own.size());
  reducer.begin();
  bucketing::copy_divided(comm::ConstBuffer::of(own), reducer.view(0), 1);
  reducer.ready(0);
  (void)reducer.finish();
  bucketing::copy_divided(reducer.view(0), comm::Buffer::of(used), 1);
  const double unit = dtype == comm::DType::f32 ? 1e-5 : dtype == comm::DType::f16 ? 0x1p-10 : 0x1p-7;
  const std::span<const float> error = sgd.error(0);
  ASSERT_EQ(error.size(), own.size()) << "BUCKET-204: what is left over";
  for (std::size_t at = 0; at < mean.size(); ++at) {
    ASSERT_LE(std::abs(static_cast<double>(used[at]) - mean[at]), unit) << "BUCKET-203: number " << at;
    ASSERT_EQ(error[at], own[at] - used[at]) << "BUCKET-204: what is left over of number " << at;
  }
}

struct Factorised {
  std::vector<MatrixShape> shapes;
  int rank = 2;
  double least_rate = 2;
  [[nodiscard]] std::int64_t size(std::size_t gradient) const {
    return shapes[gradient].rows * shapes[gradient].columns;
  }
  [[nodiscard]] bool is_compressed(std::size_t gradient) const {
    const auto& [rows, columns] = shapes[gradient];
    const auto directions = static_cast<double>(std::min<std::int64_t>({rank, rows, columns}));
    return least_rate * directions * static_cast<double>(rows + columns) < static_cast<double>(size(gradient));
  }
};

// The first trial is one in which two of three are worth compressing; others are drawn, the same on every rank.
Factorised trial_of(Random& random, int trial) {
  if (trial == 0) return {.shapes = {{30, 20}, {7, 1}, {16, 40}}};
  Factorised drawn{.shapes = {}, .rank = random.between(1, 4), .least_rate = static_cast<double>(random.between(0, 2))};
  for (int i = 0; i < 3; ++i) drawn.shapes.push_back({random.between(1, 40), random.between(1, 40)});
  return drawn;
}

void expect_projection(const Matrix& projection, const Matrix& there, const MatrixShape& shape, int rank,
                       const std::string& where) {
  const double size = norm(there);
  EXPECT_GT(norm(projection), 0.02 * size) << "BUCKET-204: nothing is left, " << where;
  EXPECT_LE(norm(transposed_product(projection, difference_of_matrices(there, projection), shape)), 1e-4 * size * size)
      << "BUCKET-204: not a projection of the mean and of what was left over, " << where;
  EXPECT_LE(beyond_rank(projection, shape, rank), 1e-4 * size) << "BUCKET-204: more directions, " << where;
}

void expect_kept(Context& context, std::span<const float> error, const Matrix& left, double size,
                 const std::string& where) {
  ASSERT_EQ(error.size(), left.size()) << "BUCKET-204: numbers that are kept, " << where;
  std::vector<float> mean(error.begin(), error.end());
  context.world().all_reduce(comm::Buffer::of(mean), comm::Buffer::of(mean), comm::ReduceOp::avg);
  EXPECT_LE(norm(difference_of_matrices(widened(mean), left)), 1e-4 * size)
      << "BUCKET-204: what the ranks keep is not what is left over, " << where;
}

// Gradients of all directions, which stay the same for three steps.
void feed_back(Context& context, const Factorised& of, bool feeds_back, const std::string& trial) {
  const Made made = [](int step, int rank, int gradient, std::size_t at) {
    return static_cast<float>(number(step / 3, rank, gradient, at));
  };
  std::vector<std::int64_t> sizes;
  std::vector<Matrix> left;
  for (std::size_t i = 0; i < of.shapes.size(); ++i) {
    sizes.push_back(of.size(i));
    left.emplace_back(static_cast<std::size_t>(sizes.back()));
  }
  const PowerSgd sgd(of.shapes,
                     {.rank = of.rank, .start = 0, .least_rate = of.least_rate, .error_feedback = feeds_back});
  HookedSteps hooked(context.world(), sizes, limit_of(context), sgd.hook());
  for (int step = 0; step < 8; ++step) {
    const Vectors used = hooked.step(step, made);
    expect_same_bits(context, used, "BUCKET-204");
    for (std::size_t i = 0; i < of.shapes.size(); ++i) {
      const std::string where = fmt::format("{}, step {}, gradient {} of {} x {}, rank {}", trial, step, i,
                                            of.shapes[i].rows, of.shapes[i].columns, of.rank);
      Matrix there = mean_of(made, context.size(), step, static_cast<int>(i), sizes[i]);
      for (std::size_t at = 0; feeds_back && at < there.size(); ++at) there[at] += left[i][at];
      const Matrix found = widened(used[i]);
      left[i] = difference_of_matrices(there, found);
      if (!of.is_compressed(i)) {
        EXPECT_LE(norm(left[i]), 1e-6 * norm(there)) << "BUCKET-204: what is not compressed, " << where;
        continue;
      }
      expect_projection(found, there, of.shapes[i], of.rank, where);
      if (feeds_back) expect_kept(context, sgd.error(static_cast<int>(i)), left[i], norm(there), where);
    }
  }
}

void feedback(Context& context) {
  Random random(context.seed());
  for (int trial = 0; trial < 8; ++trial)
    feed_back(context, trial_of(random, trial), context.parameters().text("feedback") == "on",
              fmt::format("trial {}", trial));
}

// Columns that nearly depend on each other, and one that does: lengths of one at right angles, and zeros.
void orthonormal(Context& context) {
  const double epsilon = context.parameters().number("epsilon");
  constexpr std::int64_t rows = 12, columns = 5;
  Matrix matrix(static_cast<std::size_t>(rows * columns));
  const auto at = [&](std::int64_t row, std::int64_t column) -> double& {
    return matrix[static_cast<std::size_t>(row * columns + column)];
  };
  double length = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto seed = static_cast<std::size_t>(row);
    at(row, 0) = 3 * number(1, 0, 0, seed);
    length += at(row, 0) * at(row, 0);
    at(row, 1) = at(row, 0) + 1e-4 * number(2, 0, 0, seed);
    at(row, 2) = 2 * at(row, 0) - 3 * at(row, 1);
    at(row, 3) = at(row, 1) + 1e-4 * number(3, 0, 0, seed);
    at(row, 4) = 0;
  }
  bucketing::orthonormalise(matrix, columns, epsilon);
  EXPECT_NEAR(std::abs(at(5, 0)), std::abs(3 * number(1, 0, 0, 5)) / (std::sqrt(length) + epsilon), 1e-12)
      << "BUCKET-204: the first column over its length and epsilon";
  if (epsilon > 0) return;  // lengths are not one
  for (std::int64_t a = 0; a < columns; ++a)
    for (std::int64_t b = 0; b <= a; ++b) {
      double product = 0;
      for (std::int64_t row = 0; row < rows; ++row) product += at(row, a) * at(row, b);
      const bool depends = a == 2 || a == 4;
      if (a != b || depends)
        EXPECT_NEAR(product, 0, 1e-14) << "BUCKET-204: columns " << a << " and " << b;
      else
        EXPECT_NEAR(product, 1, 1e-12) << "BUCKET-204: column " << a;
    }
}

// A number of the k-th of 16 vectors at right angles.
double walsh(int k, std::size_t at) {
  return (std::popcount(static_cast<unsigned>(k) & static_cast<unsigned>(at)) % 2 == 0 ? 1 : -1) / 4.0;
}

// In every step the same matrix, whose directions have lengths 8, 4, 2, … : the two longest are its best approximation.
void warm_start(Context& context) {
  const int directions = context.parameters().text("directions") == "two" ? 2 : 5;
  const auto part = [](int first, int end, std::size_t at) {
    double sum = 0;
    for (int k = first; k < end; ++k) sum += std::ldexp(8, -k) * walsh(k + 1, at / 16) * walsh(k + 3, at % 16);
    return sum;
  };
  const Made made = [&](int, int rank, int, std::size_t at) {
    return static_cast<float>(part(0, directions, at) * (1 + rank));
  };
  const PowerSgd sgd({{16, 16}}, {.rank = 2, .start = 0, .error_feedback = false});
  HookedSteps hooked(context.world(), {256}, 0, sgd.hook());
  std::vector<float> used;
  for (int step = 0; step < 20; ++step) used = hooked.step(step, made)[0];
  Matrix best(256);
  for (std::size_t at = 0; at < best.size(); ++at) best[at] = part(0, 2, at) * (1 + context.size()) / 2.0;
  EXPECT_LE(norm(difference_of_matrices(widened(used), best)), 1e-3 * norm(best))
      << "BUCKET-205: the distance from the best approximation, of a length of " << norm(best);
}

// ---- what travels ----

std::vector<std::int64_t> reductions(RecordingCommunicator& world) {
  std::vector<std::int64_t> elements;
  for (const RecordedCall& call : world.calls)
    if (call.operation == comm::Operation::all_reduce && call.dtype == comm::DType::f32)
      elements.push_back(call.elements);
  world.calls.clear();
  return elements;
}

void start(Context& context) {
  const int first = static_cast<int>(context.parameters().number("start"));
  RecordingCommunicator world(context.world().duplicate());
  const PowerSgd sgd({{16, 16}, {5, 1}}, {.start = first});
  HookedSteps hooked(world, {256, 5}, 1 << 30, sgd.hook());
  const Made made = [](int step, int rank, int gradient, std::size_t at) {
    return static_cast<float>(number(step, rank, gradient, at));
  };
  for (int step = 0; step < 4; ++step) {
    const Vectors used = hooked.step(step, made);
    const bool compressed = step >= first;
    EXPECT_EQ(reductions(world), compressed ? (std::vector<std::int64_t>{5 + 16, 16}) : std::vector<std::int64_t>{261})
        << "BUCKET-206: numbers of the reductions of step " << step;
    const Matrix mean = mean_of(made, context.size(), step, 0, 256);
    if (compressed) continue;
    EXPECT_LE(norm(difference_of_matrices(widened(used[0]), mean)), 1e-6 * norm(mean)) << "BUCKET-206: step " << step;
  }
}

void worth(Context& context) {
  const double rate = context.parameters().number("rate");
  const bool at_once = context.parameters().text("compressed") == "at_once";
  const std::vector<MatrixShape> shapes{{8, 8}, {8, 9}, {100, 1}, {3, 3}, {40, 10}, {1, 1}};
  constexpr std::int64_t rank = 2;
  std::vector<std::int64_t> sizes;
  std::int64_t plain = 0, narrow = 0, wide = 0;
  for (const MatrixShape& shape : shapes) {
    sizes.push_back(shape.rows * shape.columns);
    const std::int64_t directions = std::min({rank, shape.rows, shape.columns});
    const bool is_worth = at_once && rate * static_cast<double>(directions * (shape.rows + shape.columns)) <
                                         static_cast<double>(sizes.back());
    plain += is_worth ? 0 : sizes.back();
    narrow += is_worth ? shape.rows * directions : 0;
    wide += is_worth ? shape.columns * directions : 0;
  }
  RecordingCommunicator world(context.world().duplicate());
  const PowerSgd sgd(shapes, {.rank = rank, .start = at_once ? 0 : 1, .least_rate = rate});
  HookedSteps hooked(world, sizes, 1 << 30, sgd.hook());
  (void)hooked.step(0, [](int step, int own, int gradient, std::size_t at) {
    return static_cast<float>(number(step, own, gradient, at));
  });
  EXPECT_EQ(reductions(world),
            wide == 0 ? std::vector<std::int64_t>{plain} : (std::vector<std::int64_t>{plain + narrow, wide}))
      << "BUCKET-207: numbers of the reductions of a bucket";
}

// ---- when a bucket is finished ----

// Rank 0 has its first gradient when the others have two. What finishes a bucket exchanges more.
void finishes_in_turn(Context& context) {
  const bool told = context.parameters().text("told") == "yes";
  std::vector<float> sums{0};
  bucketing::CommunicationHook hook{.start =
                                        [](comm::Communicator& group, const bucketing::HookedBucket& bucket) {
                                          return group.start(comm::Call{.operation = comm::Operation::all_reduce,
                                                                        .op = comm::ReduceOp::sum,
                                                                        .in = bucket.values,
                                                                        .out = bucket.values});
                                        },
                                    .finish =
                                        [&](comm::Communicator& group, const bucketing::HookedBucket& bucket) {
                                          float one = 1;
                                          group.all_reduce({&one, 1, comm::DType::f32}, {&one, 1, comm::DType::f32},
                                                           comm::ReduceOp::sum);
                                          sums.push_back(sums.back() + one);
                                          static_cast<float*>(bucket.values.data)[0] += one;
                                        }};
  const auto turns = context.world().duplicate();
  const ReducerTraining training{.sizes = {40, 60, 50}, .limit_bytes = 200};
  bucketing::ReducerOptions options{.names = names_of_training(training), .hook = hook};
  if (told) options.reduced = [](int) {};
  Reducer reducer({&context.world()}, gradients_of_training(training), plan_of_training(training, {2, 1, 0}), options);
  ASSERT_EQ(reducer.plan().buckets.size(), 3U) << "BUCKET-208: the check is wrong";
  reducer.begin();
  if (context.rank() == 0) turns->barrier();
  const std::string said = refusal<comm::MismatchError>([&] {
    reducer.ready(2);
    if (context.rank() != 0) turns->barrier();
    for (const int gradient : {1, 0}) reducer.ready(gradient);
    (void)reducer.finish();
  });
  EXPECT_EQ(said, kNotRefused) << "BUCKET-208";
  const auto each = static_cast<float>(context.size());
  EXPECT_THAT(sums, testing::ElementsAre(0, each, 2 * each, 3 * each)) << "BUCKET-208: what finishing added up";
}

}  // namespace

void add_compression_checks(suite::Suite& suite) {
  using Applies = std::function<bool(const suite::Parameters&)>;
  const auto add = [&](const char* name, const char* requirement, std::vector<suite::Axis> axes, void (*body)(Context&),
                       std::vector<int> worlds = {1, 2, 3}, Applies applies = {}) {
    axes.push_back(suite::worlds(std::move(worlds)));
    suite.add({.id = std::string("bucketing.compression.") + name,
               .verifies = {requirement},
               .axes = std::move(axes),
               .applies = std::move(applies),
               .body = body});
  };
  const suite::Axis channel{"channel", {"bucket", "512", "100"}};
  add("bytes_are_near", "BUCKET-200@95c9", {channel, {"magnitudes", {"alike", "by_rank", "growing"}}}, bytes_are_near);
  add("bytes_travel", "BUCKET-201@89b2", {channel}, bytes_travel);
  add("not_finite", "BUCKET-202@9539", {{"as", {"int8", "powersgd"}}, {"what", {"nothing", "nan", "infinity"}}},
      not_finite);
  add("low_rank", "BUCKET-203@d62e", {{"rank", {"1", "2", "4"}}, {"of", {"1", "2"}}}, low_rank, {1, 2, 3, 4},
      [](const suite::Parameters& parameters) { return parameters.number("of") <= parameters.number("rank"); });
  suite.add({.id = "bucketing.compression.types_of_products",
             .verifies = {"BUCKET-203@d62e", "BUCKET-204@ee73"},
             .axes = {{"dtype", {"f16", "bf16", "f32"}}, suite::worlds({1, 2, 3})},
             .body = types_of_products});
  add("feedback", "BUCKET-204@ee73", {{"feedback", {"on", "off"}}, {"limit", {"each", "flat"}}}, feedback);
  add("orthonormal", "BUCKET-204@ee73", {{"epsilon", {"0", "2"}}}, orthonormal, {1, 3});
  add("warm_start", "BUCKET-205@bdbd", {{"directions", {"two", "five"}}}, warm_start);
  add("start", "BUCKET-206@38ba", {{"start", {"0", "1", "3", "9"}}}, start);
  add("worth", "BUCKET-207@6141", {{"rate", {"0", "2", "1000"}}, {"compressed", {"at_once", "later"}}}, worth);
  suite.add({.id = "bucketing.compression.finishes_in_turn",
             .verifies = {"BUCKET-208@b19e"},
             .axes = {{"told", {"no", "yes"}}, suite::worlds({2, 3})},
             .spoils_group = true,
             .body = finishes_in_turn});
}

}  // namespace plumbline::conformance

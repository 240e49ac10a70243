#include "reference/bucketing/detail/gradient_sources.hpp"

#include <fmt/format.h>

#include "reference/bucketing/detail/range.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {

GradientSources::GradientSources(const ReducerSetup& setup, const BucketStore& buckets)
    : setup_(&setup), buckets_(&buckets), caller_(setup.gradients.size()) {
  for (int i = 0; i < std::ssize(setup.gradients); ++i)
    if (setup.gradient(i).sparse) sums_.emplace(i, SparseSum(setup.numbers_of(i), setup.gradient(i).dtype));
}

std::int64_t GradientSources::take(int gradient, const std::optional<comm::Buffer>& values) {
  if (!setup_->copies()) {
    const comm::Buffer view = buckets_->slot_of(gradient);
    if (!values || values->data == view.data) return 0;
    setup_->memory->copy_divided(*values, view, 1);
    return static_cast<std::int64_t>(values->bytes());
  }
  if (!values)
    throw InvalidArgument(
        setup_->at("ready") +
        fmt::format(": gradient '{}' lies in memory of the caller's, and none was given", setup_->name(gradient)));
  if (const std::optional<int> other = caller_.hold(gradient, *values))
    throw InvalidArgument(setup_->at("ready") +
                          fmt::format(": the gradients '{}' and '{}' share memory, in which they are reduced",
                                      setup_->name(*other), setup_->name(gradient)));
  return 0;
}

void GradientSources::take_rows(int gradient, const SparseRows& rows) {
  try {
    sums_.at(gradient).take(rows);
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(setup_->at("ready") + fmt::format(": '{}', {}", setup_->name(gradient), error.what()));
  }
}

void GradientSources::check_range(int gradient) const {
  const std::optional<double> largest = setup_->options.largest;
  const Gradient& one = setup_->gradient(gradient);
  if (!largest || !comm::is_floating(one.dtype)) return;
  const comm::ConstBuffer values = one.sparse         ? sum_of(gradient).rows().values
                                   : setup_->copies() ? comm::ConstBuffer(caller_of(gradient))
                                                      : comm::ConstBuffer(buckets_->slot_of(gradient));
  const std::optional<std::int64_t> outside = first_outside(values, *largest);
  if (!outside) return;
  const auto* const first =
      static_cast<const std::byte*>(values.data) + static_cast<std::size_t>(*outside) * comm::size_of(values.dtype);
  double value = 0;
  setup_->memory->copy_divided({first, 1, values.dtype}, {&value, 1, comm::DType::f64}, 1);
  throw InvalidArgument(setup_->at("ready") +
                        fmt::format(": the gradient of '{}' has {} at element {}{}; magnitudes up to {} "
                                    "are reduced",
                                    setup_->name(gradient), value, *outside, one.sparse ? " of its rows" : "",
                                    *largest));
}

void GradientSources::clear() {
  caller_.clear();
  for (auto& [gradient, sum] : sums_) sum.clear();
}

}  // namespace plumbline::bucketing

#include "reference/bucketing/detail/call_checks.hpp"

#include <fmt/format.h>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {

void CallChecks::check_known(int gradient, const char* operation) const {
  const auto gradients = std::ssize(setup_->gradients);
  if (gradient < 0 || gradient >= gradients)
    throw OutOfRange(setup_->at(operation) + fmt::format(": gradient {}; there are 0 to {}", gradient, gradients - 1));
  if (buckets_->bucket_of(gradient) < 0)
    throw InvalidArgument(setup_->at(operation) +
                          fmt::format(": gradient '{}' is in no bucket of the plan", setup_->name(gradient)));
}

void CallChecks::check_kind(int gradient, bool as_rows) const {
  if (as_rows == setup_->gradient(gradient).sparse) return;
  throw InvalidArgument(setup_->at("ready") + fmt::format(": gradient '{}' is planned as {}, and comes as {}",
                                                          setup_->name(gradient), as_rows ? "dense" : "sparse",
                                                          as_rows ? "rows" : "a whole"));
}

void CallChecks::check_values(int gradient, const comm::Buffer& values) const {
  const Gradient& one = setup_->gradient(gradient);
  const std::int64_t numbers = setup_->numbers_of(gradient);
  const bool same_count = values.count == numbers;
  if (same_count && values.dtype == one.dtype && values.device == one.device) return;
  throw InvalidArgument(setup_->at("ready") +
                        fmt::format(": the gradient of '{}' has {} numbers of {} on {}, the parameter {} of {} on {}",
                                    setup_->name(gradient), values.count, comm::name_of(values.dtype),
                                    name_of(values.device), numbers, comm::name_of(one.dtype), name_of(one.device)));
}

void CallChecks::check_unused(int gradient, const char* operation) const {
  check_known(gradient, operation);
  const Unused unused = setup_->options.unused;
  if (unused != Unused::find_unused && unused != Unused::zeros)
    throw InvalidArgument(
        setup_->at(operation) +
        fmt::format(": '{}' is marked unused, which this configuration does not provide for", setup_->name(gradient)));
}

void CallChecks::require_memory(int bucket, const char* operation) const {
  if (buckets_->has_memory(bucket)) return;
  throw StateError(setup_->at(operation) +
                   fmt::format(": the bucket of {} has no memory now", buckets_->named(bucket)));
}

}  // namespace plumbline::bucketing

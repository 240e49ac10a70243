#include "harness/trainer/learning_rate.hpp"

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {

RateSchedule linear_warmup(double base, int total, int warmup) {
  if (total < 1 || warmup < 0 || warmup > total)
    throw InvalidArgument(
        fmt::format("a warm-up of {} of {}; it must be 0 to their number, which is at least 1", warmup, total));
  return [=](int number) {
    if (number < 0 || number > total)
      throw OutOfRange(fmt::format("learning rate {}; there are 0 to {}", number, total));
    if (number < warmup) return (number + 1.0) / (warmup + 1.0) * base;
    if (number == total) return 0.0;
    return static_cast<double>(total - number) / static_cast<double>(total - warmup) * base;
  };
}

}  // namespace plumbline::training

// harness/trainer/learning_rate.hpp: learning rates by the number of the epoch, or step. Free of LibTorch.
#pragma once

#include <functional>

namespace plumbline::training {

/// The rate at a number from 0 on.
using RateSchedule = std::function<double(int number)>;

/// Rises evenly from base / (warm-up + 1) to the base over the first `warmup` numbers, then falls evenly to 0 at
/// `total`.
/// Throws InvalidArgument unless 0 <= warmup <= total and total >= 1; the schedule OutOfRange below 0 and beyond
/// `total`.
/// Source: ColossalAI's LinearWarmupLR(optimizer, total_steps, warmup_steps), whose first rate is that of number 0.
[[nodiscard]] RateSchedule linear_warmup(double base, int total, int warmup);

}  // namespace plumbline::training

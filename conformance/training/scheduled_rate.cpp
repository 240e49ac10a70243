#include "conformance/training/scheduled_rate.hpp"

#include <algorithm>
#include <cmath>
#include <variant>

#include <fmt/format.h>

namespace plumbline::conformance {
namespace {

double full_rate(const job::RunSpec& spec) {
  return std::visit([](const auto& rule) { return rule.lr; }, spec.optimizer);
}

}  // namespace

double scheduled_rate(const job::RunSpec& spec, int step) {
  const job::RateSchedule& schedule = *spec.rate_schedule;
  const double from = schedule.warmup_steps;
  if (step < schedule.warmup_steps) return full_rate(spec) * (step / from);
  const double left = (spec.run.steps - static_cast<double>(step)) / (spec.run.steps - from);
  if (schedule.decay == "linear") return full_rate(spec) * left;
  // (1 + cos x) / 2 is the square of cos(x / 2), and that of the sine of what is left.
  const double sine = std::sin(std::acos(0.0) * left);
  return full_rate(spec) * sine * sine;
}

std::vector<OtherRate> other_rates(const job::RunSpec& spec, int step) {
  const int warmup = spec.rate_schedule->warmup_steps;
  const int parts = spec.run.micro_batches * spec.run.accumulation;
  std::vector<OtherRate> rates{
      {fmt::format("the learning rate of step {}, the next one", step + 1), scheduled_rate(spec, step + 1)},
      {"the learning rate without the schedule", full_rate(spec)}};
  if (spec.first_step() > 0)
    rates.push_back({fmt::format("the learning rate of step {}, of a schedule that starts again after the checkpoint",
                                 step - spec.first_step()),
                     scheduled_rate(spec, step - spec.first_step())});
  if (step > 0)
    rates.push_back(
        {fmt::format("the learning rate of step {}, the one before", step - 1), scheduled_rate(spec, step - 1)});
  if (step < warmup && parts > 1)
    rates.push_back({"the learning rate of a warm-up that counts micro-batches",
                     full_rate(spec) * std::min(1.0, static_cast<double>(step) * parts / warmup)});
  if (step * parts < spec.run.steps && parts > 1)
    rates.push_back({"the learning rate of a schedule that counts micro-batches", scheduled_rate(spec, step * parts)});
  const double right = scheduled_rate(spec, step);
  std::erase_if(rates, [&](const OtherRate& other) { return std::fabs(other.rate - right) <= 1e-6 * right; });
  return rates;
}

}  // namespace plumbline::conformance

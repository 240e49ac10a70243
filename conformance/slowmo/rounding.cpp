#include "conformance/slowmo/rounding.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace plumbline::conformance {

using nlohmann::json;

namespace {

double largest(const json& values) {
  double most = 0;
  for (const json& value : values) most = std::max(most, std::abs(value.get<double>()));
  return most;
}

}  // namespace

RunSizes sizes_of_run(const json& args, const json& steps) {
  RunSizes sizes;
  const auto include = [](double& most, const json& row, const char* field) {
    if (row.contains(field)) most = std::max(most, largest(row[field]));
  };
  for (const json& rank : args["ranks"]) include(sizes.parameters, rank, "init_params");
  for (const json& step : args["steps"])
    for (const json& rank : step)
      for (const char* field : {"grads", "grads_local"}) include(sizes.gradients, rank, field);
  for (const json& step : steps)
    for (const json& row : step) {
      for (const char* field : {"params", "fp32"}) include(sizes.parameters, row, field);
      if (!row.contains("slow")) continue;
      include(sizes.parameters, row["slow"], "old_params");
      include(sizes.momentum, row["slow"], "momentum");
    }
  return sizes;
}

Rounding::Rounding(const json& args, const RunSizes& sizes, double unit, double half)
    : args_(args),
      sizes_(sizes),
      unit_(unit),
      half_(half),
      ranks_(args["world_size"].get<double>()),
      momentum_(args["optimizer"].value("momentum", 0.0)),
      decay_(args["optimizer"].value("weight_decay", 0.0)),
      shares_old_(args["base"] == "localsgd") {}

const Distances& Rounding::after(std::size_t step) {
  const bool begins = step == 0 || args_.value("resume_at", SIZE_MAX) == step;
  if (begins) first_ = step, far_.slow = 0;
  const auto [least, most] = rates(step);
  optimize(most);
  // Slow buffers begin with the parameters after the first step, or before it with the initial ones, which are given.
  if (begins) {
    const bool init_first = args_.value("init_first", false);
    far_.old = init_first ? 0 : far_.parameters;
    from_old_ = init_first ? far_.parameters : 0;
  }
  average();
  if (least > 0 && (step - first_ + 1) % args_["slowmo_frequency"].get<std::size_t>() == 0) step_slowly(least, most);
  return far_;
}

std::pair<double, double> Rounding::rates(std::size_t step) const {
  std::vector<double> rates{args_["optimizer"]["lr"].get<double>()};
  if (args_.contains("lrs")) rates = {args_["lrs"][step].get<double>()};
  if (args_.contains("groups")) rates = args_["groups"]["lrs"].get<std::vector<double>>();
  return {std::ranges::min(rates), std::ranges::max(rates)};
}

void Rounding::optimize(double rate) {
  const double gradient = sizes_.gradients + decay_ * sizes_.parameters;
  const double of_gradient = 2 * (ranks_ + 1) * unit_ * gradient + decay_ * far_.parameters;
  buffer_size_ = momentum_ * buffer_size_ + gradient;
  buffer_ = momentum_ * buffer_ + of_gradient + 3 * unit_ * buffer_size_;
  // Nesterov's update is the gradient and the buffer once more.
  const double update = gradient + momentum_ * buffer_size_;
  const double added = rate * (of_gradient + buffer_) + 3 * unit_ * (rate * update + sizes_.parameters);
  far_.parameters += added;
  from_old_ += added;
}

// A mean of at most all ranks, or a mix: a division and an addition a rank, numerators to quotients and back.
void Rounding::average() {
  constexpr double others = 6;
  const double added = 2 * (ranks_ + others) * (unit_ + half_) * sizes_.parameters;
  far_.parameters += added;
  from_old_ += added;
  far_.weight += 2 * (ranks_ + others) * unit_ * ranks_;
}

// m = beta m - p / lr + old / lr; old = old - lr slow_lr m; p = old. Where all ranks have one old, p was made from it
// since the last slow step, so that what both are off by cancels; elsewhere the two are off by as much as either.
void Rounding::step_slowly(double least, double most) {
  const auto beta = args_["slowmo_momentum"].get<double>(), rate = args_["slowmo_lr"].get<double>();
  const double carried = beta * far_.slow;
  const double rounded = 9 * unit_ * (beta * sizes_.momentum + 2 * sizes_.parameters / least);
  const double apart = shares_old_ ? from_old_ : far_.parameters + far_.old;
  const double kept =
      shares_old_ ? far_.old + rate * from_old_ : std::abs(1 - rate) * far_.old + rate * far_.parameters;
  far_.slow = carried + apart / least + rounded;
  far_.old = kept + most * rate * (carried + rounded) +
             3 * unit_ * (most * rate * sizes_.momentum + sizes_.parameters) + 2 * half_ * sizes_.parameters;
  far_.parameters = far_.old;
  from_old_ = 0;
}

}  // namespace plumbline::conformance

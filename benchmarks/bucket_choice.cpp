// Whether buckets of the size that the reducer's tuning chooses are slower than one all-reduce a gradient: ninja
// bucket_choice.
//
// usage: bucket_choice [RANKS] [ROUNDS] [SECONDS]
//
// For the gradients of ResNet-50 and of GPT-2 small, over threads of this process: chooses a size, then in each round
// times a step with a bucket a gradient, one with buckets of that size, and one with blocking all-reduces without a
// reducer, alternately; after SECONDS, 60, of a model no round is begun, once there are three. Prints medians, and the
// median of the rounds' ratios with its confidence interval of 95 % by ranks of the samples; exit status 1 where the
// whole interval says that the choice is more than a tenth slower than per tensor.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/bench/gradient_lists.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/bucketing/tuning.hpp"
#include "reference/comm/local.hpp"
#include "reference/support/quantile.hpp"

namespace {

using namespace plumbline;  // NOLINT: one file, which is no library

struct Round {
  double per_tensor = 0, each = 0, chosen = 0;
};
struct Found {
  std::int64_t limit_bytes = 0;
  std::vector<Round> rounds;
};

std::vector<bucketing::Gradient> gradients_of(const std::vector<bucketing::NamedSize>& list) {
  std::vector<bucketing::Gradient> gradients;
  for (const auto& one : list) gradients.push_back({.elements = one.elements});
  return gradients;
}

struct Model {
  std::string name;
  std::vector<bucketing::Gradient> gradients;
};

std::string text_of(std::int64_t limit) {
  return limit == bucketing::kNoLimit ? "any size" : fmt::format("{} bytes", limit);
}

void tell_progress(const Model& model, std::int64_t limit, int done, int rounds) {
  if (done % 5 == 0)
    fmt::print(stderr, "{}: buckets of {}, {} of {} rounds\n", model.name, text_of(limit), done, rounds);
}

void measure(comm::Communicator& world, const Model& model, int rounds, double seconds, Found& found) {
  const std::vector<bucketing::Gradient>& gradients = model.gradients;
  const std::int64_t limit = bucketing::fastest_limit(world, gradients).limit_bytes;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<int> order(gradients.size());
  std::iota(order.rbegin(), order.rend(), 0);
  const auto plan = [&](std::int64_t bytes) {
    return bucketing::buckets_in_order(gradients, order, std::array{bytes});
  };
  bucketing::Reducer each({&world}, gradients, plan(0)), chosen({&world}, gradients, plan(limit));
  const auto step = [&](bucketing::Reducer& reducer) {
    return bucketing::seconds_of_slowest(world, [&] {
      reducer.begin();
      for (const int gradient : order) reducer.ready(gradient);
      (void)reducer.finish();
      reducer.clear();
    });
  };
  const auto per_tensor = [&] {
    return bucketing::seconds_of_slowest(world, [&] {
      for (const int gradient : order) world.all_reduce(each.view(gradient), each.view(gradient), comm::ReduceOp::avg);
    });
  };
  for (int round = -1; round < rounds; ++round) {  // ranks compare their plans in the first one
    if (round >= bucketing::kLeastRounds && bucketing::is_over(world, begin, seconds)) break;
    if (world.rank() == 0) tell_progress(model, limit, round + 1, rounds);
    Round one;
    const std::array<std::function<void()>, 3> kinds{
        [&] { one.per_tensor = per_tensor(); }, [&] { one.each = step(each); }, [&] { one.chosen = step(chosen); }};
    for (std::size_t i = 0; i < kinds.size(); ++i) kinds[(i + static_cast<std::size_t>(round + 1)) % kinds.size()]();
    if (world.rank() == 0 && round >= 0) found.rounds.push_back(one);
  }
  if (world.rank() == 0) found.limit_bytes = limit;
}

// Of the median: between the samples at n/2 -+ 1.96 sqrt(n)/2.
std::pair<double, double> interval(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto count = static_cast<double>(samples.size());
  const double half = 0.98 * std::sqrt(count);
  const auto at = [&](double place) { return samples[static_cast<std::size_t>(std::clamp(place, 0.0, count - 1))]; };
  return {at(std::floor(count / 2 - half)), at(std::ceil(count / 2 + half))};
}

bool report(const std::string& model, const Found& found) {
  const auto of = [&](auto value) {
    std::vector<double> values;
    for (const Round& one : found.rounds) values.push_back(value(one));
    return values;
  };
  const std::vector<double> ratios = of([](const Round& one) { return one.chosen / one.per_tensor; });
  const auto [low, high] = interval(ratios);
  fmt::print(
      "{:<9} {:>7.2f} ms a step per tensor, {:>7.2f} a bucket each, {:>7.2f} in buckets of {}: {:.2f} of per tensor "
      "({:.2f} to {:.2f})\n",
      model, median(of([](const Round& one) { return one.per_tensor; })) * 1e3,
      median(of([](const Round& one) { return one.each; })) * 1e3,
      median(of([](const Round& one) { return one.chosen; })) * 1e3, text_of(found.limit_bytes), median(ratios), low,
      high);
  return low <= 1.1;
}

}  // namespace

int main(int count, char** arguments) {
  const int ranks = count > 1 ? std::atoi(arguments[1]) : 2, rounds = count > 2 ? std::atoi(arguments[2]) : 31;
  const double seconds = count > 3 ? std::atof(arguments[3]) : 60;
  if (count > 4 || ranks < 1 || rounds < 1 || seconds < 0) {
    fmt::print(stderr, "usage: bucket_choice [RANKS] [ROUNDS] [SECONDS]\n");
    return 2;
  }
  bool good = true;
  for (const auto& [model, list] :
       {std::pair("resnet50", bucketing::resnet50_gradients()), std::pair("gpt2", bucketing::gpt2_small_gradients())}) {
    Found found;
    const Model one{model, gradients_of(list)};
    comm::run_ranks(ranks, [&](comm::Communicator& world) { measure(world, one, rounds, seconds, found); });
    good = report(model, found) && good;
  }
  return good ? 0 : 1;
}

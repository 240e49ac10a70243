#include "reference/bucketing/crossover.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "reference/bucketing/device_memory.hpp"
#include "reference/bucketing/known_values.hpp"
#include "reference/bucketing/rounds.hpp"
#include "reference/bucketing/u_test.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

using Rounds = std::span<const std::size_t>;

double median_of(const std::vector<double>& samples, Rounds rounds) {
  std::vector<double> drawn;
  for (const std::size_t round : rounds) drawn.push_back(samples[round]);
  const auto middle = drawn.begin() + static_cast<std::ptrdiff_t>(drawn.size() / 2);
  std::ranges::nth_element(drawn, middle);
  return *middle;
}

std::vector<std::size_t> in_turn(std::size_t rounds) {
  std::vector<std::size_t> list(rounds);
  for (std::size_t i = 0; i < rounds; ++i) list[i] = i;
  return list;
}

// The answers of 2000 resamples, those at 2.5 and 97.5 percent of their order.
template <class Answer>
auto interval_of(std::size_t rounds, const Answer& answer) {
  constexpr std::size_t resamples = 2000;
  std::mt19937_64 random(1);
  std::vector<std::size_t> drawn(rounds);
  std::vector<decltype(answer(Rounds(drawn)))> answers;
  for (std::size_t i = 0; i < resamples; ++i) {
    for (std::size_t& round : drawn) round = random() % rounds;
    answers.push_back(answer(Rounds(drawn)));
  }
  std::ranges::sort(answers);
  return std::pair{answers[resamples / 40], answers[resamples - 1 - resamples / 40]};
}

std::size_t rounds_of(std::span<const BucketTime> times) {
  if (times.empty()) throw InvalidArgument("no size of buckets to choose from");
  const std::size_t rounds = times.front().samples.size();
  for (const BucketTime& time : times)
    if (rounds == 0 || time.samples.size() != rounds)
      throw InvalidArgument(fmt::format("buckets of {} bytes: {} rounds, where the first size has {}", time.limit_bytes,
                                        time.samples.size(), rounds));
  return rounds;
}

std::int64_t fastest_of(std::span<const BucketTime> times, Rounds rounds) {
  return std::ranges::min_element(
             times, {},
             [&](const BucketTime& time) { return std::pair(median_of(time.samples, rounds), time.limit_bytes); })
      ->limit_bytes;
}

// Sizes in their order.
std::optional<std::int64_t> largest_that_pays(std::span<const FusionTime> times, Rounds rounds) {
  std::optional<std::int64_t> largest;
  for (const FusionTime& time : times) {
    if (median_of(time.fused, rounds) >= median_of(time.separate, rounds)) break;
    largest = time.bytes;
  }
  return largest;
}

// Gradients of one size, of their own and side by side in a buffer.
class Gradients {
 public:
  Gradients(comm::Communicator& group, std::int64_t bytes, const FusionOptions& options)
      : group_(group),
        place_(options.place),
        timing_(options.timing),
        memory_(memory_of(options.place)),
        each_(bytes / 4),
        whole_(taken(each_ * options.together)) {
    for (std::int64_t i = 0; i < options.together; ++i) {
      own_.push_back(taken(each_));
      comm::Buffer in_whole = own_.back();
      in_whole.data = static_cast<float*>(whole_.data) + i * each_;
      in_.push_back({own_.back(), in_whole});
      out_.push_back({in_whole, own_.back()});
    }
  }
  void reduce_each() {
    for (const comm::Buffer& one : own_) group_.all_reduce(one, one, comm::ReduceOp::sum);
  }
  void reduce_fused() {
    place_.copy(in_);
    group_.all_reduce(whole_, whole_, comm::ReduceOp::sum);
    place_.copy(out_);
  }
  /// Holds both ways against sums that are known. Gradients are zeros afterwards, for they are added again and again.
  void require_right() {
    for (const bool fuses : {false, true}) {
      for (std::size_t i = 0; i < own_.size(); ++i)
        fill_known(place_, own_[i], static_cast<int>(i), factor_of_rank(group_.rank()));
      fuses ? reduce_fused() : reduce_each();
      for (std::size_t i = 0; i < own_.size(); ++i) {
        require_known(place_, own_[i], static_cast<int>(i), factor_of_sum(group_.size()),
                      fmt::format("{} gradients of {} bytes, reduced {}: a wrong sum on rank {}: gradient {}",
                                  own_.size(), 4 * each_, fuses ? "together" : "one by one", group_.rank(), i));
        memory_->fill_zeros(own_[i]);
      }
    }
  }
  /// Seconds a gradient, of the slowest rank.
  [[nodiscard]] double timed(const std::function<void()>& body) {
    constexpr std::int64_t most = 64, bytes_a_sample = 1 << 20;
    const std::int64_t times =
        std::clamp<std::int64_t>(bytes_a_sample / static_cast<std::int64_t>(whole_.bytes()), 1, most);
    const auto all = [&] {
      for (std::int64_t i = 0; i < times; ++i) body();
    };
    const double seconds = timing_(group_, all);
    return seconds / static_cast<double>(times) / static_cast<double>(own_.size());
  }

 private:
  comm::Buffer taken(std::int64_t elements) {
    comm::Buffer buffer{nullptr, elements, comm::DType::f32, place_.device()};
    buffer.data = kept_.emplace_back(memory_->allocate(buffer.bytes())).get();
    return buffer;
  }

  comm::Communicator& group_;
  device::Place place_;
  Timing timing_;
  std::shared_ptr<BucketMemory> memory_;
  std::vector<std::shared_ptr<std::byte>> kept_;
  std::int64_t each_;
  comm::Buffer whole_;
  std::vector<comm::Buffer> own_;
  std::vector<device::ScaledCopy> in_, out_;
};

}  // namespace

BestLimit best_limit(std::span<const BucketTime> times) {
  const std::size_t rounds = rounds_of(times);
  const auto [low, high] = interval_of(rounds, [&](Rounds drawn) { return fastest_of(times, drawn); });
  return {.limit_bytes = fastest_of(times, in_turn(rounds)), .low = low, .high = high};
}

std::optional<std::int64_t> pays_from(std::span<const BucketTime> times) {
  const std::size_t rounds = rounds_of(times);
  const auto unfused = std::ranges::find(times, 0, &BucketTime::limit_bytes);
  if (unfused == times.end()) throw InvalidArgument("no times of a bucket a gradient, which others are held against");
  const std::int64_t best = fastest_of(times, in_turn(rounds));
  std::vector<const BucketTime*> sizes;
  for (const BucketTime& time : times)
    if (time.limit_bytes > 0 && time.limit_bytes <= best) sizes.push_back(&time);
  std::ranges::sort(sizes, std::greater(), &BucketTime::limit_bytes);
  std::optional<std::int64_t> smallest;
  for (const BucketTime* time : sizes) {
    std::size_t faster = 0;
    for (std::size_t i = 0; i < rounds; ++i) faster += time->samples[i] < unfused->samples[i] ? 1 : 0;
    if (2 * faster <= rounds) break;
    smallest = time->limit_bytes;
  }
  return smallest;
}

Crossover pays_up_to(std::span<const FusionTime> times) {
  if (times.empty()) throw InvalidArgument("no sizes of gradients to compare");
  const std::size_t rounds = times.front().fused.size();
  for (const FusionTime& time : times)
    if (rounds == 0 || time.fused.size() != rounds || time.separate.size() != rounds)
      throw InvalidArgument(fmt::format("gradients of {} bytes: {} rounds fused and {} separate, where there are {}",
                                        time.bytes, time.fused.size(), time.separate.size(), rounds));
  std::vector<FusionTime> sorted(times.begin(), times.end());
  std::ranges::sort(sorted, {}, &FusionTime::bytes);
  const auto [low, high] = interval_of(rounds, [&](Rounds drawn) { return largest_that_pays(sorted, drawn); });
  return {.bytes = largest_that_pays(sorted, in_turn(rounds)), .low = low, .high = high};
}

Overlap overlap_of(const OverlapTimes& times) {
  const std::size_t rounds = times.serial.size();
  constexpr double least_effect = 1.1;
  std::vector<double> hidden, less_a_tenth;
  Overlap found{.rounds = rounds};
  for (const auto* samples : {&times.backward, &times.reductions, &times.serial, &times.overlapped}) {
    if (rounds == 0 || samples->size() != rounds)
      throw InvalidArgument(fmt::format("{} rounds of one kind of step and {} of another", samples->size(), rounds));
    for (const double seconds : *samples)
      if (!(seconds > 0)) throw InvalidArgument(fmt::format("a step of {} seconds", seconds));
  }
  for (std::size_t i = 0; i < rounds; ++i) {
    hidden.push_back((times.serial[i] - times.overlapped[i]) / std::min(times.backward[i], times.reductions[i]));
    found.slower += times.overlapped[i] >= least_effect * times.serial[i] ? 1 : 0;
    less_a_tenth.push_back(times.overlapped[i] / least_effect);
  }
  found.hidden = median_of(hidden, in_turn(rounds));
  found.chance = chance_of_larger(less_a_tenth, times.serial);
  return found;
}

std::vector<std::int64_t> usual_sizes() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = 256; bytes <= 4 << 20; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

std::vector<FusionTime> fusion_times(comm::Communicator& group, const FusionOptions& options) {
  for (const std::int64_t bytes : options.sizes)
    if (bytes < 4) throw InvalidArgument(fmt::format("gradients of {} bytes; 4 or more are possible", bytes));
  if (options.together < 2)
    throw InvalidArgument(fmt::format("{} gradients fused; 2 or more are possible", options.together));
  if (options.rounds < 1) throw InvalidArgument(fmt::format("{} rounds; there must be 1 or more", options.rounds));
  if (!(options.seconds >= 0))
    throw InvalidArgument(fmt::format("{} seconds; there must be 0 or more", options.seconds));
  std::vector<FusionTime> times;
  for (const std::int64_t bytes : options.sizes) times.push_back({.bytes = bytes, .separate = {}, .fused = {}});
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < options.rounds; ++round) {
    if (round >= kLeastRounds && is_over(group, begin, options.seconds)) break;
    for (FusionTime& time : times) {
      Gradients gradients(group, time.bytes, options);
      const auto each = [&] { gradients.reduce_each(); };
      const auto fused = [&] { gradients.reduce_fused(); };
      if (round == 0) gradients.require_right();
      each();  // pages, and who runs where
      fused();
      if (round % 2 == 0) time.separate.push_back(gradients.timed(each));
      time.fused.push_back(gradients.timed(fused));
      if (round % 2 != 0) time.separate.push_back(gradients.timed(each));
    }
  }
  return times;
}

}  // namespace plumbline::bucketing

#include "benchmarks/fusion_times.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "harness/bench/known_values.hpp"
#include "reference/bucketing/bucket_memory.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bench {
namespace {

// Gradients of one size, of their own and side by side in a buffer.
class FusedGradients {
 public:
  FusedGradients(comm::Communicator& group, std::int64_t bytes, const FusionOptions& options)
      : group_(group),
        place_(options.place),
        timing_(options.timing),
        memory_(bucketing::memory_of(options.place)),
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
        bucketing::fill_known(place_, own_[i], static_cast<int>(i), bucketing::factor_of_rank(group_.rank()));
      fuses ? reduce_fused() : reduce_each();
      for (std::size_t i = 0; i < own_.size(); ++i) {
        bucketing::require_known(
            place_, own_[i], static_cast<int>(i), bucketing::factor_of_sum(group_.size()),
            fmt::format("{} gradients of {} bytes, reduced {}: a wrong sum on rank {}: gradient {}", own_.size(),
                        4 * each_, fuses ? "together" : "one by one", group_.rank(), i));
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
  device::MemorySpace place_;
  bucketing::Timing timing_;
  std::shared_ptr<bucketing::BucketMemory> memory_;
  std::vector<std::shared_ptr<std::byte>> kept_;
  std::int64_t each_;
  comm::Buffer whole_;
  std::vector<comm::Buffer> own_;
  std::vector<device::ScaledCopy> in_, out_;
};

}  // namespace

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
    if (round >= bucketing::kLeastRounds && bucketing::is_over(group, begin, options.seconds)) break;
    for (FusionTime& time : times) {
      FusedGradients gradients(group, time.bytes, options);
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

decltype(bucketing::TuningOptions::before) against_known_sums(comm::Communicator& group,
                                                              std::span<const bucketing::Gradient> gradients,
                                                              device::MemorySpace place,
                                                              std::vector<std::string> names) {
  for (const bucketing::Gradient& gradient : gradients) {
    if (gradient.device != place.device())
      throw InvalidArgument(fmt::format("sums in memory of {} are checked in that of {}",
                                        comm::name_of(gradient.device), comm::name_of(place.device())));
    if (gradient.dtype != comm::DType::f32 || gradient.components_per_element != 1)
      throw InvalidArgument(fmt::format("a gradient of {}; sums of f32 are checked", comm::name_of(gradient.dtype)));
  }
  // Afterwards gradients are zeros: other steps add them again and again.
  return [&group, place, names = std::move(names), last = static_cast<int>(gradients.size()) - 1](
             const bucketing::Reducer& reducer, const std::string& candidate, const std::function<void()>& step) {
    for (int gradient = last; gradient >= 0; --gradient)
      bucketing::fill_known(place, reducer.view(gradient), gradient, bucketing::factor_of_rank(group.rank()));
    step();
    for (int gradient = last; gradient >= 0; --gradient) {
      const auto i = static_cast<std::size_t>(gradient);
      const comm::Buffer values = reducer.view(gradient);
      const std::string name = i < names.size() ? fmt::format("'{}'", names[i]) : std::to_string(i);
      bucketing::require_known(place, values, gradient, bucketing::factor_of_sum(group.size()),
                               fmt::format("{}: a wrong sum on rank {}: gradient {}", candidate, group.rank(), name));
      place.fill(values.data, std::byte{}, values.bytes());
    }
  };
}

}  // namespace plumbline::bench

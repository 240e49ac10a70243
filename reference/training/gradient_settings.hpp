// reference/training/gradient_settings.hpp: how the gradients of data ranks are reduced, as a user says it. Free of LibTorch.
//
// Model   Plain values. What they change is when and as what numbers gradients travel; results stay a single device's, with
//         compression within the rounding of its type.
// Source  torch.nn.parallel.DistributedDataParallel: bucket_cap_mb, its compression hooks, static_graph, join,
//         broadcast_buffers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reference/comm/dtype.hpp"

namespace plumbline::bucketing {
struct ReducerOptions;
}

namespace plumbline::training {

inline constexpr std::array<std::string_view, 2> kCompressions{"fp16", "bf16"};
inline constexpr std::array<std::string_view, 2> kJoins{"present", "all"};

struct GradientSettings {
  std::int64_t bucket_bytes =
      25 << 20;               // 0: what is the fastest; of training by names, runs by steps have run.bucket_bytes
  std::string compression{};  // empty: gradients travel as they are
  std::string join{};  // what is averaged over where ranks have no rows: those present, or all. Empty: all have some
  bool broadcast_buffers = false;  // running statistics are rank 0's when an update's last batch begins
  bool static_graph = false;       // each step has the gradients of the first: reduced while back-propagation runs
  friend bool operator==(const GradientSettings&, const GradientSettings&) = default;
};

/// Throws InvalidArgument for names that there are not, settings that exclude each other, and buckets of less than 0 bytes.
void require_possible(const GradientSettings& settings);

/// The type as which gradients travel. Throws as require_possible().
[[nodiscard]] std::optional<comm::DType> wire_of(const GradientSettings& settings);
/// Those of a reducer: wire, join, and with a static graph that what is unused is learned. Throws likewise.
[[nodiscard]] bucketing::ReducerOptions options_of(const GradientSettings& settings);

}  // namespace plumbline::training

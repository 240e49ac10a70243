// reference/training/gradient_settings.hpp: how the gradients of data ranks are reduced, as a user says it. Free of
// LibTorch.
//
// Model   Plain values. What they change is when and as what numbers gradients travel; results stay a single device's,
//         with compression within the rounding of its type; but PowerSGD's are projections of a single device's and of
//         what earlier ones left over.
// Source  torch.nn.parallel.DistributedDataParallel: bucket_cap_mb, its compression hooks, static_graph, join,
//         broadcast_buffers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reference/bucketing/compression.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/record/run_spec.hpp"

namespace plumbline::training {

inline constexpr std::array<std::string_view, 5> kCompressions{"fp16", "bf16", "int8", "int8-channel",
                                                               "powersgd[:RANK[:START]]"};
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

/// Throws InvalidArgument for unknown names, settings that exclude each other, and buckets of less than 0
/// bytes.
void require_possible(const GradientSettings& settings);

/// The type as which gradients travel, u8 where they are quantised. Throws as require_possible().
[[nodiscard]] std::optional<comm::DType> wire_of(const GradientSettings& settings);
/// Whether they are compressed by a hook: quantised, or by PowerSGD.
[[nodiscard]] bool has_hook(const GradientSettings& settings);
/// PowerSGD's options, if that is the compression, else nothing. Throws as require_possible().
[[nodiscard]] std::optional<bucketing::PowerSgdOptions> power_sgd_of(const GradientSettings& settings);
/// Those of a reducer of gradients of these shapes: wire or hook, join, and with a static graph that what is unused is
/// learned. Throws as require_possible(), and what PowerSgd throws.
[[nodiscard]] bucketing::ReducerOptions options_of(const GradientSettings& settings,
                                                   std::span<const bucketing::MatrixShape> shapes);

// ---- How a run in 16 bits is made, as a user says it. Free of LibTorch.
//
// Model   run.dtype says in which numbers layers compute, [scaler] by what losses are multiplied. Two ways lead there:
//           rounded    parameters are numbers of run.dtype, rounded from fp32 master weights that the optimizer steps
//                      (ColossalAI's naive AMP, Megatron-LM's mixed precision)
//           autocast   parameters stay in float32; LibTorch rounds what each layer takes, and some layers stay in
//                      float32 (torch.amp)
//         Both leave the same record: master weights, gradients divided by the scale, whether the step was skipped.
// Source  Micikevicius et al., Mixed Precision Training, ICLR 2018; torch.amp.

struct PrecisionSettings {
  bool autocast = false;
  double clip_norm = 0;  // of gradients over the whole model; 0: they are not clipped
  double norm_type = 2;  // above 0, or infinity
  friend bool operator==(const PrecisionSettings&, const PrecisionSettings&) = default;
};

/// With what the specification itself says of clipping. Throws InvalidArgument where both say different things.
[[nodiscard]] PrecisionSettings with_clip_of(const job::RunSpec& spec, PrecisionSettings settings);

/// Whether master weights, a scale or a norm stand between gradients and optimizer.
[[nodiscard]] bool is_mixed(const job::RunSpec& spec, const PrecisionSettings& settings);

/// Whether ranks run by the engine of pipelines: their model is cut, or the run is mixed.
[[nodiscard]] bool is_staged(const job::RunSpec& spec, const PrecisionSettings& settings);

/// Throws InvalidArgument, naming the setting, for an invalid norm, and autocast in float32; Unsupported for
/// autocast with a schedule that splits the backward pass.
void require_possible(const job::RunSpec& spec, const PrecisionSettings& settings);

}  // namespace plumbline::training

// harness/trainer/settings.hpp: what a pipeline training run is told, as a file. Free of LibTorch.
//
// Model   The fields of ColossalAI's pipeline example, under its names, in TOML:
//
//           BATCH_SIZE = 64            # rows of a data rank's batch
//           NUM_EPOCHS = 60
//           NUM_MICRO_BATCHES = 4      # of a batch
//           NUM_CHUNKS = 1             # stages of a pipeline rank; more than one: the interleaved schedule, unless
//                                      another is named
//           tensor_shape = [16, 512]   # what every stage sends, where all send the same; left out: stages tell each
//                                      other
//           LEARNING_RATE = 1e-3
//           WARMUP_EPOCHS = 5
//           SEED = 1
//           gradient_accumulation = 1  # batches of an update
//           [parallel]
//           pipeline = 2               # or {size = 2}
//           tensor = {size = 1, mode = "1d"}
//           data = 1
//           [fp16]
//           mode = "naive"             # what stages send travels in float16; layers compute in float32
//           [resnet]                   # of the model resnet50, with the arguments of the example's resnet()
//           block = "bottleneck"       # or "basic"
//           layers = [3, 4, 6, 3]      # blocks of each
//           num_classes = 1000
//           zero_init_residual = false
//           groups = 1
//           width_per_group = 64
//           replace_stride_with_dilation = [false, false, false]
//           planes = 64                # of the first layer; each further one has twice as many
//
//         Every field may be left out; the values above are the defaults, but for tensor_shape and both modes, which
//         have none. [zero] is known, to be refused: a sharded optimizer gives gradients away while a pipeline still
//         adds to them.
// Errors  InvalidArgument of one line: file:line:column, the field, its value and what would be right; for an unknown
//         field the nearest known one. NotFound for a file that cannot be read.
// Source  ColossalAI v0.1.9: its configuration of pipelines, and its rules for schedules (a batch is divided by its
//         micro-batches).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reference/record/run_spec.hpp"
#include "reference/training/checkpoint.hpp"

namespace plumbline::training {

/// The network that resnet50 is unless told otherwise.
struct ResidualSettings {
  std::string block = "bottleneck";
  std::vector<int> layers{3, 4, 6, 3};
  std::int64_t classes = 1000;
  bool zero_init_residual = false;
  std::int64_t groups = 1;
  std::int64_t width_per_group = 64;
  std::vector<bool> replace_stride_with_dilation{false, false, false};
  std::int64_t planes = 64;
  friend bool operator==(const ResidualSettings&, const ResidualSettings&) = default;
};

struct TrainerSettings {
  std::int64_t batch_size = 64;
  int epochs = 60;
  int micro_batches = 4;
  int chunks = 1;
  job::Shape tensor_shape{};  // empty: stages tell each other
  double learning_rate = 1e-3;
  int warmup_epochs = 5;
  std::uint64_t seed = 1;
  int pipeline = 2;
  int tensor = 1;
  std::string tensor_mode{};  // "1d", "2d", "2.5d", "3d", "sequence"; empty: none
  int data = 1;
  int accumulation = 1;  // batches of an update
  std::string fp16{};    // "naive"; empty: float32 on the wire, too
  ResidualSettings resnet{};
  friend bool operator==(const TrainerSettings&, const TrainerSettings&) = default;
};

[[nodiscard]] TrainerSettings read_trainer_settings(const std::filesystem::path& file);
/// The same of a text; `origin` stands for the file in errors.
[[nodiscard]] TrainerSettings parse_trainer_settings(std::string_view text, const std::string& origin);
/// Throws InvalidArgument for settings that make no run: the field, its value and what would be right.
void require_possible(const TrainerSettings& settings);
/// All fields, under the file's names.
[[nodiscard]] Configuration configuration_of(const TrainerSettings& settings);

}  // namespace plumbline::training

// harness/trainer/pipeline_run.hpp: a whole training run over a pipeline, by names. Free of LibTorch.
//
// Model   What ColossalAI's pipeline example does, from plain values: the model cut into stages, its data, Adam with
//         linear warm-up by epoch, hooks, a log, checkpoints, and going on from the last one.
// Models  resnet50: the example's, for images, with its 1000 classes. resnet_small: four basic blocks of 8 to 64
//         planes. perceptron: 3072-128-64-32-10, for images. gpt: a transformer of two blocks of width 64, for text, in
//         windows of 64 bytes.
// Data    cifar10: the files of `data_folder`. digits: the digits that are compiled in, as such images. text: the text
//         that is compiled in.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/trainer/hooks.hpp"
#include "harness/trainer/settings.hpp"
#include "harness/trainer/trainer.hpp"
#include "reference/comm/communicator.hpp"
#include "reference/device/runtime.hpp"
#include "reference/schedules/simulator.hpp"
#include "reference/training/gradient_settings.hpp"

namespace plumbline::training {

inline constexpr std::array<std::string_view, 4> kPipelineModels{"resnet50", "resnet_small", "perceptron", "gpt"};
inline constexpr std::array<std::string_view, 3> kPipelineData{"cifar10", "digits", "text"};

/// How far from the single device's values the ranks' are: the worst place, in parts of its bound.
struct Distance {
  std::string tensor{};
  double difference = 0;
  double bound = 0;  // 0: the bits must be equal
};

/// An update of a run beside the same update of a single device.
struct UpdateComparison {
  int epoch = 0;
  std::int64_t batch = 0;  // the last of the update
  double loss = 0;         // of the ranks, of all batches of the update
  Distance gradient, after;
  int gradients = 0;      // tensors compared
  int equal_in_bits = 0;  // of them
  struct Finding {
    std::string kind;  // "given weights", "loss", "gradient", "update", "replicas", "shared", "statistics"
    std::string text;
  };
  std::vector<Finding> findings;  // none: all is as on the single device
};

struct PipelineRun {
  TrainerSettings settings;
  std::string model = "resnet50";
  std::string data = "cifar10";
  std::filesystem::path data_folder{};
  std::size_t most_digits = 2000;  // of those to train on, and of those to test on
  std::int64_t text_batches = 20;  // of an epoch
  std::string schedule{};          // empty: 1f1b, or with several chunks ColossalAI's interleaved
  std::string device = "cpu";
  std::filesystem::path checkpoints{};  // the folder; empty: none are written
  int checkpoint_epochs = 1;            // from one to the next
  int keep = 2;                         // checkpoints
  bool resume = false;                  // from the last complete checkpoint, where there is one
  std::int64_t check = 0;               // updates, from the first of this run on, that are held to a single device
  bool trace = false;                   // whether the last batch's timeline is told
  GradientSettings gradients{};

  /// The pipeline rank of each stage. Throws InvalidArgument for a shape that the schedule does not have.
  [[nodiscard]] std::vector<int> ranks_of_stages() const;
};

/// A rank's actions, and when it did them, in seconds from the beginning of the batch.
struct RankTimeline {
  std::vector<schedules::Action> actions;
  std::vector<schedules::Period> periods;
};

/// Who is told. Called on rank 0 alone.
struct PipelineSinks {
  Sink log = [](const std::string&) {};       // what goes where, then a line for each part of an epoch
  Sink progress = [](const std::string&) {};  // after each batch, with a carriage return
  /// What an epoch came to; `at` is where the run then is.
  std::function<void(const Position& at, const EpochResult& result)> epoch = [](const Position&, const EpochResult&) {};
  std::function<void(const UpdateComparison& one)> compared = [](const UpdateComparison&) {};
  /// Of the ranks of the first pipeline.
  std::function<void(const std::vector<RankTimeline>& ranks)> timeline = [](const std::vector<RankTimeline>&) {};
};

/// The computations of the schedule of that name, or the settings' own, for so many micro-batches. Throws
/// InvalidArgument for a shape that the schedule does not have.
[[nodiscard]] schedules::Schedule schedule_of(const TrainerSettings& settings, const std::string& name,
                                              int micro_batches);

/// Throws InvalidArgument for names that there are not, a model that does not take the data, cifar10 without a folder,
/// settings that make no run, a schedule that does not have the shape, and a run that resumes without checkpoints.
void require_possible(const PipelineRun& run);

/// One rank of the run, with the devices of Training::use_devices(). Collective over `world`. Returns what the epochs
/// that were run came to, the same on all ranks. Throws what require_possible() throws; InvalidArgument for a folder
/// with checkpoints where the run does not resume, or of another run; NonFiniteLoss; and what PipelineProgram throws.
std::vector<EpochResult> run_pipeline(const PipelineRun& run, comm::Communicator& world, const PipelineSinks& sinks,
                                      const std::shared_ptr<device::Runtime>& devices = nullptr);

}  // namespace plumbline::training

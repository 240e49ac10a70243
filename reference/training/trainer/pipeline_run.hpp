// reference/training/trainer/pipeline_run.hpp: a whole training run over a pipeline, by names. Free of LibTorch.
//
// Model   What ColossalAI's pipeline example does, from plain values: the model cut into stages, its data, Adam with linear
//         warm-up by epoch, hooks, a log, checkpoints, and going on from the last one.
// Models  resnet50: the example's, for images, with its 1000 classes. resnet_small: four basic blocks of 8 to 64 planes.
//         perceptron: 3072-128-64-10, for images. transformer: two blocks of width 64, for text, in windows of 64 bytes.
// Data    cifar10: the files of `data_folder`. digits: the digits that are compiled in, as such images. text: the text that
//         is compiled in.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/training/trainer/hooks.hpp"
#include "reference/training/trainer/settings.hpp"
#include "reference/training/trainer/trainer.hpp"

namespace plumbline::training {

inline constexpr std::array<std::string_view, 4> kPipelineModels{"resnet50", "resnet_small", "perceptron",
                                                                 "transformer"};
inline constexpr std::array<std::string_view, 3> kPipelineData{"cifar10", "digits", "text"};
/// Those whose stages lie on the ranks in turn.
inline constexpr std::array<std::string_view, 7> kPipelineSchedules{"gpipe", "1f1b",  "interleaved-1f1b", "looped-bfs",
                                                                    "zb-h1", "zb-h2", "interleaved-zb"};

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
};

/// Who is told. Called on rank 0 alone.
struct PipelineSinks {
  Sink log = [](const std::string&) {};       // what goes where, then a line for each part of an epoch
  Sink progress = [](const std::string&) {};  // after each batch, with a carriage return
  /// What an epoch came to; `at` is where the run then is.
  std::function<void(const Position& at, const EpochResult& result)> epoch = [](const Position&, const EpochResult&) {};
};

/// Throws InvalidArgument for names that there are not, a model that does not take the data, cifar10 without a folder,
/// settings that make no run, a schedule that does not have the shape, and a run that resumes without checkpoints.
void require_possible(const PipelineRun& run);

/// One rank of the run. Collective over `world`. Returns what the epochs that were run came to, the same on all ranks.
/// Throws what require_possible() throws; InvalidArgument for a folder with checkpoints
/// where the run does not resume, or of another run; NonFiniteLoss; and what PipelineProgram throws.
std::vector<EpochResult> run_pipeline(const PipelineRun& run, comm::Communicator& world, const PipelineSinks& sinks);

}  // namespace plumbline::training

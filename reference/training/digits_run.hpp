// reference/training/digits_run.hpp: complete run specifications for training on the digits. Free of
// LibTorch.
//
// Model   Initial weights and batches are pure functions of the settings, with generators of our own: the
//         same bits on all machines. Each epoch goes through the training rows in a new order; a batch never
//         spans two epochs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/record/run_spec.hpp"
#include "reference/training/training.hpp"

namespace plumbline::training {

// ---- The handwritten digits that the training baselines learn. Free of LibTorch.
//
// Model   1,797 images of 8x8 pixels with a label 0..9. Every fifth row (0, 5, 10, …) is held out; the others
//         are for training. Pixels are handed out as value / 16, exact in float32 and in both half formats.
// Source  data/README.md.

struct Digit {
  std::array<std::uint8_t, 64> pixels{};  // row by row, 0..16
  std::uint8_t label = 0;
};

struct Digits {
  std::vector<Digit> training;
  std::vector<Digit> held_out;
};

/// The images of a text in the form of data/digits.csv, split. Throws InvalidArgument naming `origin`, the
/// line, and what is wrong with it.
[[nodiscard]] Digits parse_digits(std::string_view text, std::string_view origin);
/// The data set that is part of this library.
[[nodiscard]] Digits digits();

/// mlp: 64-128-10 with relu; for more than two stages 64-32-...-32-10 with tanh, a linear layer a stage. conv: two
/// convolutions (8 and 16 channels) with relu, then linear. conv_norm: conv with batch normalisation after the first
/// convolution. tied: 64-32-...-32-10 with tanh, whose last hidden layer has the weight of the first, without bias.
/// pairs: two linear layers a stage with gelu between, 64-25-24, 24-25-24, ..., 24-25-10, layer normalisation and tanh
/// from one pair to the next, where both layers of a pair are cut over tensor ranks. transformer: from each of four
/// pixels in a row of an image it predicts the next, one of 16 tokens: an embedding of width 8, for each stage, but at
/// least twice, attention with two heads and a perceptron, layer normalisation, and a head with the embedding's weight.
/// moe: the same with six experts in place of each perceptron, of which a token goes through two; gates are normalized
/// in every other layer, from the first.
inline constexpr std::array<std::string_view, 7> kDigitsModels{"mlp",   "conv",        "conv_norm", "tied",
                                                               "pairs", "transformer", "moe"};
/// sgd: momentum 0.9. sgd_decay: the same with Nesterov's rule and weight decay. adam: torch's defaults but for
/// the rate. With their learning rates each model but transformer and moe passes 0.95 of the held-out digits in 200
/// steps of 96 rows.
inline constexpr std::array<std::string_view, 3> kDigitsOptimizers{"sgd", "sgd_decay", "adam"};

/// equal: rows have no weights. padding: the last rows of each micro-batch have weight 0 and the others 1, unequal
/// counts of them in each, and in some micro-batches all, but not of a data rank's first one in a step. weights: the
/// same, but rows that are no padding weigh 0.25, 0.5, 1 or 2.
inline constexpr std::array<std::string_view, 3> kDigitsRows{"equal", "padding", "weights"};

/// none: all parameters train. first_layer: those of the first layer that has some do not. biases: those do not.
inline constexpr std::array<std::string_view, 3> kDigitsFrozen{"none", "first_layer", "biases"};

struct DigitsRun {
  std::string model = "mlp";
  std::string optimizer = "sgd";
  int data = 2;  // data-parallel size
  int steps = 4;
  std::int64_t global_batch = 96;
  int micro_batches = 2;
  int accumulation = 1;
  std::uint64_t seed = 1;
  std::string device = "cpu";
  int pipeline = 1;
  int chunks = 1;                 // stages of a pipeline rank
  std::string schedule = "1f1b";  // by any of its names
  int tied_uses = 2;  // of the tied model's shared weight, each on a stage of its own from tied_uses + 1 stages on
  std::int64_t bucket_bytes = 25 << 20;
  int tensor = 1;
  int shard = 1;                  // data ranks that hold a copy of the parameters together
  int expert = 1;                 // expert ranks, of the data ranks
  std::string dtype = "float32";  // or bfloat16, float16
  std::optional<job::Scaler> scaler = {};
  std::vector<job::Injection> injections = {};  // those without a parameter: the first one that their rank holds
  std::string rows = "equal";                   // or padding, weights
  std::optional<job::Clip> clip = {};
  std::optional<job::RateSchedule> rate_schedule = {};
  std::string frozen = "none";         // of kDigitsFrozen
  bool decays_matrices_alone = false;  // else weight decay, where the optimizer has it, is of all parameters
};

/// Writes spec.toml, weights.safetensors and batches.safetensors into `folder`, which is made where it is not
/// there, and returns the specification. Throws InvalidArgument naming the setting, its value and what would
/// be right, and RuntimeFailure where a file cannot be written.
job::RunSpec write_digits_run(const DigitsRun& settings, const Digits& digits, const std::filesystem::path& folder);

/// The held-out digits as the rows that `spec` takes: [64], or [1, 8, 8] before a convolution; of the transformer four
/// tokens, with a label for each.
[[nodiscard]] LabelledRows held_out_rows(const job::RunSpec& spec, const Digits& digits);

}  // namespace plumbline::training

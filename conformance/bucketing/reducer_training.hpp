// conformance/bucketing/reducer_training.hpp: data-parallel training with a reducer whose gradients are made up, and
// what one device would compute.
//
// Model   Parameters are vectors of numbers. The gradient of each is a function of its value, the step, the pass, the
//         rank and the place, so that no two contributions are alike. Every rank updates with momentum what has a
//         gradient. The single device adds the passes of each rank in their order, then the ranks in theirs, and
//         divides once; it starts each step from the values that the run had then, so that errors do not pile up.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "conformance/support/refusal.hpp"
#include "harness/suite/check.hpp"
#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

/// Where gradients are made.
enum class MadeIn {
  views,       // in their buckets
  new_memory,  // in other memory in each pass, which is handed in
  own_memory   // where they stay
};

struct ReducerTraining {
  std::vector<std::int64_t> sizes;  // of the parameters
  std::int64_t limit_bytes = 1024;  // a bucket takes no more once it has as many; 0: each gradient has its own
  std::int64_t aligned = 1;         // numbers: gradients begin at its multiples
  MadeIn made_in = MadeIn::views;
  bucketing::ReducerOptions options{};  // names are filled in, and the memory follows made_in
  int steps = 4;
  double magnitude = 1;  // of the gradients
  double momentum = 0.9;
  std::function<int(int step)> passes = [](int) { return 1; };
  /// Whether a rank's pass produces a gradient.
  std::function<bool(int step, int pass, int rank, int gradient)> produces = [](int, int, int, int) { return true; };
  /// In which order a rank's gradients get ready; the last parameter's first where it is left out.
  std::function<std::vector<int>(int rank)> order = {};
  /// The steps for which a rank has rows.
  std::function<int(int rank)> steps_of_rank = {};
  /// Called before each gradient is made.
  std::function<void(int step, int gradient)> watch = [](int, int) {};
};

/// The parameters "p0", "p1", … of a small model: mlp (sizes that are all odd or unequal), equal, one, resnet50 (its
/// 161, each of a 64th of its numbers).
[[nodiscard]] std::vector<std::int64_t> sizes_of_model(const std::string& model);

/// Buckets of consecutive gradients, the last first, each in the order given.
[[nodiscard]] bucketing::Plan plan_of_training(const ReducerTraining& training, const std::vector<int>& order);
[[nodiscard]] std::vector<bucketing::Gradient> gradients_of_training(const ReducerTraining& training);
[[nodiscard]] std::vector<std::string> names_of_training(const ReducerTraining& training);

using Vectors = std::vector<std::vector<float>>;

struct TrainedStep {
  Vectors before;     // the parameters
  Vectors gradients;  // those used, empty where there was none
  std::vector<bucketing::Outcome> passes;
};
using Trained = std::vector<TrainedStep>;

/// Runs a rank's part. Collective.
[[nodiscard]] Trained train_with_reducer(comm::Communicator& world, const ReducerTraining& training);

/// How near the single device a run must be.
struct Nearness {
  bool bitwise = false;
  double unit = 0x1p-24;  // of the least precise type on the way
  double least = 0;       // its smallest number
};
/// Bits where the backend adds in rank order.
[[nodiscard]] Nearness nearness_of(const comm::Capabilities& capabilities);

/// Asserts that each gradient that was used is the single device's, and that all ranks ended with the same bits.
/// Collective.
void judge_training(suite::Context& context, const ReducerTraining& training, const Trained& trained, Nearness near,
                    const std::string& requirement);

/// The mean of a step's contributions, of those ranks that have rows, or of all; for tests of one's own.
[[nodiscard]] std::vector<float> mean_gradient(const ReducerTraining& training, int ranks, int step, int gradient,
                                               const std::vector<float>& before, double* magnitude = nullptr);

}  // namespace plumbline::conformance

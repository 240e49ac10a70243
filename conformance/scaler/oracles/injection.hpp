// conformance/scaler/oracles/injection.hpp: an infinity or NaN on one rank of a tensor x pipeline x data world, and who
// skips the step.
//
// Model   Each rank has a part of a matrix; the first and the last stage share a tied parameter. A step adds up the
//         gradients of replicas, and those of the tied parameter over its two stages; it looks, decides and steps, as
//         fp16_optimizer.hpp does. Into one rank's gradients a value is written at one moment of that. A clean step
//         follows.
// Must    Every rank: replicas hold the same parameters, and a model group steps as one. So the step is right if all
//         ranks skipped it, with masters as they were and equal scales, and the next one is made by all.
// Ranks   Threads over the local backend; every decision and sum is really made.
// Sources Every stage, tensor rank, data rank and moment, as issues of ColossalAI (#80, #94), FairScale (#179) and
//         PyTorch (#152300) each had one of them.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "reference/scaler/found_inf.hpp"
#include "reference/scaler/fp16_optimizer.hpp"

namespace plumbline::scaler {

/// When the value comes into a gradient.
enum class Moment {
  before_reduction,  // replicas' gradients are added up later, and then looked at
  in_tied_module,    // the same, in the parameter that two stages share
  after_reduction,   // one replica alone has it: a fault of its own, or its shard of the sum
  never_reduced      // gradients are looked at before they are added up
};
/// "before_reduction", "in_tied_module", "after_reduction", "never_reduced".
[[nodiscard]] std::string_view name_of(Moment moment);

/// "local", "tensor", "tensor_then_pipeline", "model", "model_and_data".
[[nodiscard]] std::string_view name_of(Deciding deciding);

struct InjectionWorld {
  int tensor = 2, pipeline = 2, data = 2;
  [[nodiscard]] int size() const { return tensor * pipeline * data; }
};

struct Injection {
  Moment moment = Moment::before_reduction;
  Deciding deciding = Deciding::model;
  int rank = 0;
  double value = 0;  // an infinity or NaN
};

struct InjectionOutcome {
  Injection injection;
  std::vector<int> skipped;        // who did; all must
  std::vector<double> scales;      // of each rank after the step
  std::vector<int> touched;        // whose masters changed in a step that must be skipped
  std::vector<int> not_finite;     // whose masters hold an infinity or NaN from now on
  std::vector<int> not_clean;      // who skips the next step
  bool has_equal_replicas = true;  // masters are the same bits on all replicas, after both steps
  [[nodiscard]] bool is_right() const;
};

/// What one rank did in an injection's two steps.
struct InjectedRank {
  bool skipped = false;               // the step with the injection
  bool touched = false;               // its masters changed in that step
  bool skipped_next = false;          // the clean step
  double scale = 0;                   // after the first
  std::vector<float> master_weights;  // of all its parameters in a row, after both
};
constexpr double kInjectionScale = 64;  // before the first step; an overflow halves it

/// A rank's communicators: those of its groups, made once for any number of injections.
class InjectionGroups {
 public:
  /// Collective over `world`. Throws InvalidArgument for another number of ranks than `sizes` has, or sizes below 1.
  InjectionGroups(comm::Communicator& world, const InjectionWorld& sizes);
  InjectionWorld sizes;
  int rank = 0;
  ScalerGroups of_optimizer;
  comm::Communicator* tied = nullptr;  // first and last stage; null for others

 private:
  comm::Communicator* mine(comm::Communicator& world, const RankLists& lists);
  std::vector<std::unique_ptr<comm::Communicator>> made_;
};

/// One rank's part of an injection. Collective.
[[nodiscard]] InjectedRank inject_on_rank(const InjectionGroups& groups, const Injection& injection);

/// All that makes sense: a tied parameter has a rank on the first and the last of two or more stages.
[[nodiscard]] std::vector<Injection> injections(const InjectionWorld& world, const std::vector<double>& values);
/// Runs them one after the other. Throws InvalidArgument for sizes below 1, more than `most` ranks together, a rank
/// that there is not, and a tied module where there is none.
[[nodiscard]] std::vector<InjectionOutcome> inject(const InjectionWorld& world,
                                                   const std::vector<Injection>& injections, int most = 64);

}  // namespace plumbline::scaler

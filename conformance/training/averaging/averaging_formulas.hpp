// conformance/training/averaging/averaging_formulas.hpp: what is due in which step, who is mixed with whom, and how far that
// lets nodes be apart: from the papers, without the components that are judged.
#pragma once

#include <utility>
#include <vector>

#include "reference/training/slowmo/settings.hpp"

namespace plumbline::conformance {

// ---- what is due ----

struct DueAveraging {
  bool average = false;        // the mean of the nodes' parameters
  bool gossip = false;         // a round of it
  bool slow = false;           // a slow step
  bool slow_averages = false;  // which begins with the mean of all
};

/// Steps count from 0; what happens every f steps happens in f - 1, 2 f - 1, … A slow step that averages stands for what
/// else was due.
class AveragingCalendar {
 public:
  AveragingCalendar(const training::AveragingSettings& settings, int nodes);
  [[nodiscard]] bool gossips() const { return gossips_; }
  [[nodiscard]] DueAveraging at(int step) const;

 private:
  training::AveragingSettings settings_;
  bool averages_ = false, gossips_ = false, slow_ = false;
};

// ---- who is mixed with whom ----

/// The share of the node `from` that goes to the node `to`: [to][from].
using MixingMatrix = std::vector<std::vector<double>>;

[[nodiscard]] MixingMatrix no_mixing(int nodes);
/// All become the mean.
[[nodiscard]] MixingMatrix complete_mixing(int nodes);
/// Uniform shares over the graph of the settings. Complete graph, star and the exponential one of one peer are written out
/// here; others are as the reference has them, which the checks of gossip judge.
[[nodiscard]] MixingMatrix uniform_mixing(const training::AveragingSettings& settings, int nodes, int round);

// ---- how far nodes are apart ----

[[nodiscard]] bool is_doubly_stochastic(const MixingMatrix& matrix);
/// The 2-norm.
[[nodiscard]] double norm_of(const MixingMatrix& matrix);

/// The most that nodes can be from their mean by what they did, step after step.
class DistanceBound {
 public:
  explicit DistanceBound(int nodes) : nodes_(nodes) {}
  /// A step whose changes' deviations from their mean have this norm, then a mixing. Returns the bound behind both.
  double step(double deviation, const MixingMatrix& mixing);

 private:
  int nodes_;
  std::vector<std::pair<double, MixingMatrix>> terms_;  // a norm, and the product of what has been done to it since
};

}  // namespace plumbline::conformance

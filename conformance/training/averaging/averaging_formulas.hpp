// conformance/training/averaging/averaging_formulas.hpp: what is due in which step, who is mixed with whom, and how far
// that lets nodes be apart: from the papers, without the components that are judged.
#pragma once

#include <vector>

#include "reference/training/averaging.hpp"

namespace plumbline::conformance {

// ---- what is due ----

struct DueAveraging {
  bool average = false;        // the mean of the nodes' parameters
  bool gossip = false;         // a round of it
  bool slow = false;           // a slow step
  bool slow_averages = false;  // which begins with the mean of all
};

/// Steps count from 0; what happens every f steps happens in f - 1, 2 f - 1, … A slow step that averages stands for
/// what else was due.
class AveragingCalendar {
 public:
  AveragingCalendar(const training::AveragingSettings& settings, int nodes);
  [[nodiscard]] bool gossips() const { return gossips_; }
  [[nodiscard]] bool has_slow_steps() const { return slow_; }
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
/// Uniform shares over the graph of the settings, whose peers are written out here by its definition; the pairs of
/// random matchings alone, which are a generator's, are as the reference has them.
[[nodiscard]] MixingMatrix uniform_mixing(const training::AveragingSettings& settings, int nodes, int round);
/// Whether each node mixes half and half with one other, which does so with it, or with nobody.
[[nodiscard]] bool is_matching(const MixingMatrix& matrix);

// ---- how far nodes are apart ----

[[nodiscard]] bool is_doubly_stochastic(const MixingMatrix& matrix);
/// The 2-norm.
[[nodiscard]] double norm_of(const MixingMatrix& matrix);

/// The most that nodes can be from their mean by what they did, step after step. Of what is older than 32 mixings it
/// takes the norms of each mixing in place of that of their product: more, and less to compute.
class DistanceBound {
 public:
  explicit DistanceBound(int nodes) : nodes_(nodes) {}
  /// A step whose changes' deviations from their mean have this norm, then a mixing. Returns the bound after both.
  double step(double deviation, const MixingMatrix& mixing);

 private:
  // What a step brought in, and what has been done to it since.
  struct Term {
    double deviation = 0;
    MixingMatrix since;
    double norm = 1;        // of `since`
    double first_norm = 1;  // of the first mixing
  };
  void forget_the_oldest();

  int nodes_;
  std::vector<Term> terms_;  // the oldest first
  bool is_mixed_ = true;     // since the last term came in
};

}  // namespace plumbline::conformance

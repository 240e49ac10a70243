// reference/schedules/detail/simulated_stages.hpp: the stages of a pipeline and the links between their ranks, as the
// simulator has them: where each computation finds what it needs, and where what it makes goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules::detail {

inline constexpr double kNotThere = -1;  // what no rank waits for yet
inline constexpr double kAwaited = -2;   // what its rank waits for

/// What a stage sends to a neighbour: its outputs to the next stage, its gradients to the stage before it.
struct Way {
  int receiver = 0;             // rank
  double* there = nullptr;      // by micro-batch, when it is; nothing where it stays on the rank
  double* link_free = nullptr;  // from when on the link is
  std::size_t link = 0;
  double occupies = 0;  // seconds of the link
  double bytes = 0;     // of a message
  std::int64_t messages = 0;
};

/// A computation of a stage.
struct Computation {
  double time = 0;
  double* needed = nullptr;  // by micro-batch, when it is there; nothing where nothing is needed
  double* kept = nullptr;    // the same of what it makes for this rank
  Way* sent = nullptr;       // where what it makes goes of itself
};

/// A stage of the model.
struct Stage {
  std::array<Computation, 5> computations;  // by kind
  double activation_bytes = 0;
  Way onward, back;
};

[[nodiscard]] inline Computation& computation(Stage& stage, ActionKind kind) {
  return stage.computations[static_cast<std::size_t>(kind)];
}
/// Onward for a direction above 0.
[[nodiscard]] inline Way& way_of(Stage& stage, int direction) { return direction > 0 ? stage.onward : stage.back; }

class SimulatedStages {
 public:
  /// Without messages in the schedule, what a computation makes is sent as soon as it is there. The arguments must
  /// outlive the stages.
  SimulatedStages(const Schedule& schedule, const SimulationOptions& options);
  SimulatedStages(const SimulatedStages&) = delete;
  SimulatedStages& operator=(const SimulatedStages&) = delete;

  [[nodiscard]] bool has_messages() const { return has_messages_; }
  /// Throws InvalidArgument for an action of a stage or micro-batch that there is not.
  [[nodiscard]] Stage& stage_of(const Action& action) {
    const auto stage = static_cast<unsigned>(action.stage);
    if (stage >= stage_count_ || static_cast<unsigned>(action.micro_batch) >= micro_batch_count_) [[unlikely]]
      refuse_outside(action);
    return first_stage_[stage];
  }
  /// The number of inputs and gradients, and which of them a message of a way carries.
  [[nodiscard]] std::size_t places() const { return there_.size(); }
  [[nodiscard]] std::size_t place_of(const Way& way, const Action& action) const {
    return static_cast<std::size_t>(way.there - there_.data() + action.micro_batch);
  }
  /// Of the links that were used.
  [[nodiscard]] std::vector<LinkTraffic> traffic() const;

 private:
  [[noreturn]] void refuse_outside(const Action& action) const;
  void lay_out_stages();
  void set_times(std::size_t stage);
  void lay_links();
  [[nodiscard]] int owner(std::size_t stage) const { return schedule_.stage_to_rank[stage]; }

  const Schedule& schedule_;
  const SimulationOptions& options_;
  bool has_messages_;
  unsigned stage_count_, micro_batch_count_;
  std::vector<Stage> stages_;
  Stage* first_stage_;
  std::vector<double> there_;  // when each input, then each gradient, is there
  std::vector<LinkTraffic> links_;
  std::vector<double> link_free_;  // from when on each link is
};

}  // namespace plumbline::schedules::detail

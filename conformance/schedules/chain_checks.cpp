// Idle time where everything happens one after the other: whatever takes longer is all that is added, to whom waits.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/schedules/schedules_checks.hpp"
#include "conformance/support/property.hpp"
#include "reference/schedules/lowering.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::conformance {

using schedules::Action;
using schedules::ActionKind;
using schedules::IdleTime;
using schedules::Schedule;
using schedules::SimulationOptions;
using suite::Context;

namespace {

// One or two micro-batches, always together, go up the stages and down again, whichever ranks these are on.
struct Chain {
  std::vector<int> places;  // of stages, each rank with one at least
  int ranks = 1, micro_batches = 1;
  bool forward_only = false, halves = false;
  double forward = 0, backward = 0, overlap = 1;  // of every stage
  // What takes longer: a rank, a stage, or the messages of a boundary, by so much.
  std::string cause;
  int slow = 0;
  double factor = 1, seconds = 0;
};

Chain drawn_chain(Random& random, const std::string& cause) {
  Chain chain{.ranks = random.between(1, 5),
              .micro_batches = random.between(1, 2),
              .forward_only = random.between(0, 3) == 0,
              .halves = random.between(0, 1) == 0,
              .forward = random.between(0, 6) / 4.0,
              .backward = random.between(0, 8) / 4.0,
              .overlap = random.between(1, 4) / 4.0,
              .cause = cause};
  for (int rank = 0; rank < chain.ranks; ++rank) chain.places.push_back(rank);
  for (int more = random.between(0, 3); more > 0; --more) chain.places.push_back(random.between(0, chain.ranks - 1));
  chain.places = random.shuffled(chain.places);
  const auto stages = static_cast<int>(chain.places.size());
  if (cause == "straggler") chain.slow = random.between(0, chain.ranks - 1);
  if (cause == "imbalance") chain.slow = random.between(0, stages - 1);
  if (cause == "straggler" || cause == "imbalance") chain.factor = random.between(2, 4);
  if (cause == "transfer")
    chain.slow = random.between(0, std::max(0, stages - 2)), chain.seconds = random.between(1, 4);
  return chain;
}

struct Step {
  int stage = 0;
  bool backward = false;
};
// In their order.
std::vector<Step> steps_of(const Chain& chain) {
  std::vector<Step> steps;
  const auto stages = static_cast<int>(chain.places.size());
  for (int stage = 0; stage < stages; ++stage) steps.push_back({stage, false});
  for (int stage = stages; stage-- > 0 && !chain.forward_only;) steps.push_back({stage, true});
  return steps;
}
int rank_of(const Chain& chain, const Step& step) { return chain.places[static_cast<std::size_t>(step.stage)]; }

Schedule chain_plan(const Chain& chain) {
  Schedule plan{.stages = static_cast<int>(chain.places.size()),
                .micro_batches = chain.micro_batches,
                .stage_to_rank = chain.places,
                .ranks = std::vector<std::vector<Action>>(static_cast<std::size_t>(chain.ranks))};
  const ActionKind back = chain.halves ? ActionKind::input_gradient : ActionKind::backward;
  for (const Step& step : steps_of(chain)) {
    auto& row = plan.ranks[static_cast<std::size_t>(rank_of(chain, step))];
    const auto add = [&](ActionKind kind) {
      for (int i = 0; i < chain.micro_batches; ++i)
        row.push_back({.kind = kind, .joined = i + 1 < chain.micro_batches, .stage = step.stage, .micro_batch = i});
    };
    add(step.backward ? back : ActionKind::forward);
    if (step.backward && chain.halves) add(ActionKind::weight_gradient);  // which takes no time
  }
  return plan;
}

SimulationOptions options_of_chain(const Chain& chain) {
  const std::size_t stages = chain.places.size();
  SimulationOptions options;
  options.stages.assign(
      stages,
      {.forward = chain.forward, .input_gradient = chain.backward, .weight_gradient = 0, .backward = chain.backward});
  options.overlap = chain.overlap;
  options.forward_only = chain.forward_only;
  const auto slow = static_cast<std::size_t>(chain.slow);
  if (chain.cause == "straggler") {
    options.rank_slowdown.assign(static_cast<std::size_t>(chain.ranks), 1);
    options.rank_slowdown[slow] = chain.factor;
  }
  if (chain.cause == "imbalance") {
    options.stages[slow].forward *= chain.factor;
    options.stages[slow].input_gradient *= chain.factor;
    *options.stages[slow].backward *= chain.factor;
  }
  options.links.bandwidth = 1;
  options.message_bytes.assign(stages > 1 ? stages - 1 : 1, 0);
  if (chain.cause == "transfer") options.message_bytes[slow] = chain.seconds;
  return options;
}

// Each rank waits for the steps of the others, by whether they come before its first step, after its last or between.
class Waits {
 public:
  explicit Waits(const Chain& chain) : chain_(chain), steps_(steps_of(chain)) {}

  [[nodiscard]] IdleTime of(int rank) const {
    IdleTime idle;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (i > 0) idle.transfer += message(steps_[i - 1], steps_[i]);
      if (rank_of(chain_, steps_[i]) == rank) continue;
      double& usual = !has_own(rank, 0, i)               ? idle.fill
                      : !has_own(rank, i, steps_.size()) ? idle.drain
                                                         : idle.dependency;
      usual += seconds(steps_[i]);
      const double added = is_slow(steps_[i]) ? (chain_.factor - 1) * seconds(steps_[i]) : 0;
      if (chain_.cause == "straggler") idle.straggler += added;
      if (chain_.cause == "imbalance") idle.imbalance += added;
    }
    return idle;
  }

 private:
  [[nodiscard]] bool has_own(int rank, std::size_t begin, std::size_t end) const {
    for (std::size_t i = begin; i < end; ++i)
      if (rank_of(chain_, steps_[i]) == rank) return true;
    return false;
  }
  [[nodiscard]] double seconds(const Step& step) const {
    const double one = step.backward ? chain_.backward : chain_.forward;
    return chain_.micro_batches == 1 ? one : one * chain_.micro_batches * chain_.overlap;
  }
  [[nodiscard]] bool is_slow(const Step& step) const {
    return (chain_.cause == "straggler" ? rank_of(chain_, step) : step.stage) == chain_.slow;
  }
  // One micro-batch's after the other's.
  [[nodiscard]] double message(const Step& from, const Step& to) const {
    const bool moves = rank_of(chain_, from) != rank_of(chain_, to) && std::min(from.stage, to.stage) == chain_.slow;
    return chain_.cause == "transfer" && moves ? chain_.micro_batches * chain_.seconds : 0;
  }

  const Chain& chain_;
  std::vector<Step> steps_;
};

// Rows that say the same: computations alone, with their messages, or with what takes no time after them.
Schedule written(const std::string& rows, const Schedule& plan) {
  if (rows == "computations") return plan;
  Schedule lowered = schedules::lower(plan);
  if (rows == "waits") return schedules::add_send_waits(lowered, 1);
  for (auto& row : lowered.ranks) row.push_back({});
  return lowered;
}

std::string difference(const IdleTime& found, const IdleTime& right) {
  using Part = std::pair<const char*, double IdleTime::*>;
  for (const auto& [name, part] :
       {Part{"transfer", &IdleTime::transfer}, Part{"straggler", &IdleTime::straggler},
        Part{"imbalance", &IdleTime::imbalance}, Part{"fill", &IdleTime::fill}, Part{"drain", &IdleTime::drain},
        Part{"dependency", &IdleTime::dependency}, Part{"overhead", &IdleTime::overhead}})
    if (found.*part != right.*part) return fmt::format("{} is {} instead of {}", name, found.*part, right.*part);
  return {};
}

void one_after_the_other(Context& context) {
  const std::string& rows = context.parameters().text("rows");
  Random random(context.seed());
  for (int trial = 0; trial < 200; ++trial) {
    const Chain chain = drawn_chain(random, context.parameters().text("cause"));
    const Schedule plan = written(rows, chain_plan(chain));
    SimulationOptions options = options_of_chain(chain);
    options.rendezvous = rows == "idle_cells";
    const auto found = schedules::attribute_idle_time(plan, options, schedules::simulate(plan, options));
    for (int rank = 0; rank < chain.ranks; ++rank) {
      const std::string words = difference(found.at(static_cast<std::size_t>(rank)), Waits(chain).of(rank));
      if (words.empty()) continue;
      ADD_FAILURE() << "SCHED-065: rank " << rank << " of " << chain.ranks << ", " << chain.cause << " of "
                    << chain.slow << ": " << words << "\n"
                    << schedules::to_csv(plan);
      return;
    }
  }
}

}  // namespace

void add_chain_checks(suite::Suite& suite) {
  suite.add({.id = "schedules.simulator.one_after_the_other",
             .verifies = {"SCHED-065@11fb"},
             .axes = {{"cause", {"none", "transfer", "straggler", "imbalance"}},
                      {"rows", {"computations", "waits", "idle_cells"}},
                      suite::worlds({1})},
             .body = one_after_the_other});
}

}  // namespace plumbline::conformance

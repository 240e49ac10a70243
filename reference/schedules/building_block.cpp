#include "reference/schedules/detail/building_block.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "reference/schedules/detail/generate_rows.hpp"
#include "reference/schedules/detail/list_scheduler.hpp"

namespace plumbline::schedules::detail {
namespace {

constexpr int kPeriod = 6;  // steps of a micro-batch on a rank
constexpr int kCompetitors = 4;

// When micro-batch 0 is at a rank.
struct Steps {
  int near_forward = 0, far_forward = 0, far_backward = 0, near_backward = 0;
  [[nodiscard]] std::array<int, kCompetitors> all() const {
    return {near_forward, far_forward, far_backward, near_backward};
  }
};

class Block {
 public:
  Block(int ranks, const Hops& hops, const std::array<int, 3>& pushes) : ranks_(ranks), hops_(hops), pushes_(pushes) {}

  [[nodiscard]] Steps at(int rank) const {
    const int last = ranks_ - 1, back = last - rank;
    const int far_forward = hops_.forward_there * last + 1 + pushes_[0];
    const int far_backward = far_forward + hops_.forward_back * last + 1 + pushes_[1];
    const int near_backward = far_backward + hops_.backward_there * last + 1 + pushes_[2];
    return {.near_forward = hops_.forward_there * rank,
            .far_forward = far_forward + hops_.forward_back * back,
            .far_backward = far_backward + hops_.backward_there * rank,
            .near_backward = near_backward + hops_.backward_back * back};
  }

  // Nothing where computations collide.
  [[nodiscard]] std::optional<int> activations() const {
    int most = 0;
    for (int rank = 0; rank < std::min(ranks_, kPeriod); ++rank) {
      const auto own = activations_of(at(rank));
      if (!own) return std::nullopt;
      most = std::max(most, *own);
    }
    return most;
  }

 private:
  // The two weight gradients take the steps that are left, in the better of both ways.
  static std::optional<int> activations_of(const Steps& steps) {
    std::array<bool, kPeriod> taken{};
    for (const int step : steps.all())
      if (std::exchange(taken[static_cast<std::size_t>(step % kPeriod)], true)) return std::nullopt;
    const auto first = static_cast<int>(std::ranges::find(taken, false) - taken.begin());
    const auto second = static_cast<int>(std::find(taken.begin() + first + 1, taken.end(), false) - taken.begin());
    return std::min(kept(steps, first, second), kept(steps, second, first));
  }

  // With the weight gradients of the near and of the far stage on these steps of a period.
  static int kept(const Steps& steps, int near_weight, int far_weight) {
    int most = 0;
    for (int step = 0; step < kPeriod; ++step)
      most = std::max(most, lives(steps.near_forward, end_of_weight(steps.near_backward, near_weight), step) +
                                lives(steps.far_forward, end_of_weight(steps.far_backward, far_weight), step));
    return most;
  }
  static int end_of_weight(int backward, int step) { return backward + 1 + modulo(step - backward - 1) + 1; }
  // How many of [begin + 6k, end + 6k), over all k, contain the step.
  static int lives(int begin, int end, int step) { return floor(step - begin) - floor(step - end); }
  static int modulo(int number) { return (number % kPeriod + kPeriod) % kPeriod; }
  static int floor(int number) { return (number - modulo(number)) / kPeriod; }

  int ranks_;
  Hops hops_;
  std::array<int, 3> pushes_;
};

std::optional<Block> best_block(int ranks, const Hops& hops) {
  std::optional<Block> best;
  std::pair<int, int> least;  // of `best`
  for (int first = 0; first < kPeriod; ++first)
    for (int second = 0; second < kPeriod; ++second)
      for (int third = 0; third < kPeriod; ++third) {
        const Block block(ranks, hops, {first, second, third});
        const std::optional<int> activations = block.activations();
        if (!activations) continue;
        const std::pair own{*activations, first + second + third};
        if (best && own >= least) continue;
        least = own;
        best = block;
      }
  return best;
}

// All micro-batches, by the step at which they are there.
std::vector<Action> row_of(const Steps& steps, const Shape& shape, int rank) {
  const int near = rank, far = 2 * shape.ranks - 1 - rank;
  const std::array<Action, kCompetitors> kinds{{{.kind = ActionKind::forward, .stage = near, .micro_batch = 0},
                                                {.kind = ActionKind::forward, .stage = far, .micro_batch = 0},
                                                {.kind = ActionKind::input_gradient, .stage = far, .micro_batch = 0},
                                                {.kind = ActionKind::input_gradient, .stage = near, .micro_batch = 0}}};
  std::array<int, kCompetitors> next = steps.all(), done{};
  std::vector<Action> row;
  const std::size_t all = kinds.size() * static_cast<std::size_t>(shape.micro_batches);
  row.reserve(all);
  while (row.size() < all) {
    const auto which = static_cast<std::size_t>(std::ranges::min_element(next) - next.begin());
    row.push_back(kinds[which]);
    row.back().micro_batch = done[which]++;
    next[which] = done[which] < shape.micro_batches ? next[which] + kPeriod : std::numeric_limits<int>::max();
  }
  return row;
}

Schedule from_block(const Shape& shape, const Hops& hops) {
  BlockOrder block = building_block_order(shape, hops).value();
  const ListPolicy policy{.limits = std::vector<int>(static_cast<std::size_t>(shape.ranks), block.activations),
                          .order = std::move(block.order)};
  // A block keeps to its own number of activations: each weight gradient has a step of its own.
  return list_schedule(shape, Placement::v, SimulationOptions{}, policy).value();
}

}  // namespace

std::optional<BlockOrder> building_block_order(const Shape& shape, const Hops& hops) {
  const std::optional<Block> block = best_block(shape.ranks, hops);
  if (!block) return std::nullopt;
  BlockOrder found{.activations = block->activations().value(), .order = {}};
  for (int rank = 0; rank < shape.ranks; ++rank) found.order.push_back(row_of(block->at(rank), shape, rank));
  return found;
}

Schedule v_half(const Shape& shape) {
  return from_block(shape, {.forward_there = 2, .forward_back = 1, .backward_there = 2, .backward_back = 1});
}

Schedule v_min(const Shape& shape) { return from_block(shape, {}); }

}  // namespace plumbline::schedules::detail

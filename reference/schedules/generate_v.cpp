// The families whose stages lie there and back: stage s and stage 2p-1-s on rank s.
#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/generate_rows.hpp"

namespace plumbline::schedules {
namespace {

using detail::Row;

// One of a rank's two stages, and how many micro-batches have been through it.
struct Stage {
  int stage = 0;
  int forwards = 0;
  int backwards = 0;  // of the input, at least
  int weights = 0;    // weight gradients that were taken, or are within a backward
};

// The two stages of a rank.
class Pair {
 public:
  Pair(std::vector<Action>& actions, const Shape& shape, int rank)
      : row_(actions), near{.stage = rank}, far{.stage = 2 * shape.ranks - 1 - rank} {}

  void forward(Stage& stage) { row_.add(ActionKind::forward, stage.stage, stage.forwards++); }
  void input_gradient(Stage& stage) { row_.add(ActionKind::input_gradient, stage.stage, stage.backwards++); }
  void weight_gradient(Stage& stage) { row_.add(ActionKind::weight_gradient, stage.stage, stage.weights++); }
  void both_halves(Stage& stage) {
    input_gradient(stage);
    weight_gradient(stage);
  }
  void backward(Stage& stage) {
    row_.add(ActionKind::backward, stage.stage, stage.backwards++);
    ++stage.weights;
  }
  void at_once(Stage& ahead, Stage& back) {
    forward(ahead);
    row_.join();
    backward(back);
  }

 private:
  Row row_;

 public:
  Stage near;  // the one nearer to the input
  Stage far;
};

void zbv_rank(Pair pair, const Shape& shape, int rank, int micro_batches) {
  Stage &near = pair.near, &far = pair.far;
  for (int i = 0; i < 2 * (shape.ranks - rank) - 1; ++i) pair.forward(near);
  for (int i = 0; i < rank; ++i) {
    pair.forward(far);
    pair.forward(near);
  }
  for (int i = rank; i < shape.ranks; ++i) {
    pair.forward(far);
    pair.both_halves(far);
  }
  while (far.forwards < near.forwards || near.forwards < micro_batches) {
    if (near.forwards < micro_batches) pair.forward(near);
    pair.both_halves(near);
    pair.forward(far);
    pair.both_halves(far);
  }
  for (int i = 0; i < rank; ++i) {
    pair.input_gradient(near);
    pair.input_gradient(far);
  }
  for (int i = rank; i < shape.ranks; ++i) {
    pair.input_gradient(near);
    pair.weight_gradient(near);
  }
  while (far.weights < far.backwards) pair.weight_gradient(far);
  while (near.weights < near.backwards) pair.weight_gradient(near);
}

// The eight phases of DualPipeV on one rank. Weight gradients that were put off are taken oldest first.
class DualPipeVRank {
 public:
  DualPipeVRank(std::vector<Action>& actions, const Shape& shape, int rank)
      : pair_(actions, shape, rank), shape_(shape), rank_(rank) {}

  void fill() {
    warm_up();
    main_phase();
    cool_down();
  }

 private:
  void warm_up() {
    Stage &near = pair_.near, &far = pair_.far;
    for (int i = 0; i < 2 * hops(); ++i) pair_.forward(near);
    for (int i = 0; i <= rank_; ++i) {
      pair_.forward(near);
      pair_.forward(far);
    }
    for (int i = 0; i < hops(); ++i) {
      put_off(far);
      take_oldest();
      pair_.forward(far);
    }
  }

  void main_phase() {
    Stage &near = pair_.near, &far = pair_.far;
    for (int i = 0; i < shape_.micro_batches - 2 * shape_.ranks + rank_ + 1; ++i) {
      // The turn of the V has both at hand at once: one after the other, the gradient leaves earlier.
      if (i == 0 && hops() == 0) {
        pair_.forward(near);
        pair_.backward(far);
      } else {
        pair_.at_once(near, far);
      }
      pair_.at_once(far, near);
    }
    for (int i = 0; i < hops(); ++i) {
      pair_.backward(far);
      pair_.at_once(far, near);
    }
  }

  // From half way on, weight gradients are put off: odd ranks begin with the far stage, even ones with the near one.
  void cool_down() {
    const int middle = (rank_ + 1) / 2;
    bool putting_off = false;
    const auto backward = [&](Stage& stage) {
      if (putting_off)
        put_off(stage);
      else
        pair_.backward(stage);
    };
    for (int i = 0; i <= rank_; ++i) {
      if (i == middle && rank_ % 2 == 1) putting_off = true;
      backward(pair_.far);
      if (i == middle && rank_ % 2 == 0) putting_off = true;
      backward(pair_.near);
    }
    for (int i = 0; i < hops(); ++i) {
      take_oldest();
      backward(pair_.near);
    }
    for (int i = 0; i <= rank_; ++i) take_oldest();
  }

  [[nodiscard]] int hops() const { return shape_.ranks - 1 - rank_; }  // to the last rank
  void put_off(Stage& stage) {
    pair_.input_gradient(stage);
    waiting_.push_back(&stage);
  }
  void take_oldest() {
    if (waiting_.empty()) return;
    pair_.weight_gradient(*waiting_.front());
    waiting_.pop_front();
  }

  Pair pair_;
  Shape shape_;
  int rank_;
  std::deque<Stage*> waiting_;  // stages of pair_
};

}  // namespace

namespace detail {

// The pattern needs 2p-1 micro-batches; of fewer, the cells of the missing ones stay idle.
Schedule zbv(const Shape& shape) {
  Schedule schedule = empty_schedule(shape, Placement::v);
  const int micro_batches = std::max(2 * shape.ranks - 1, shape.micro_batches);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& actions = schedule.ranks[static_cast<std::size_t>(rank)];
    Row(actions).idle(rank);
    zbv_rank(Pair(actions, shape, rank), shape, rank, micro_batches);
    for (Action& action : actions)
      if (action.micro_batch >= shape.micro_batches) action = {};
  }
  return schedule;
}

Schedule dualpipev(const Shape& shape) {
  if (shape.micro_batches < 2 * shape.ranks)
    throw InvalidArgument(
        fmt::format("dualpipev: there are at least as many micro-batches as stages, got {} micro-batches and {} stages",
                    shape.micro_batches, 2 * shape.ranks));
  Schedule schedule = empty_schedule(shape, Placement::v);
  for (int rank = 0; rank < shape.ranks; ++rank)
    DualPipeVRank(schedule.ranks[static_cast<std::size_t>(rank)], shape, rank).fill();
  return schedule;
}

}  // namespace detail
}  // namespace plumbline::schedules

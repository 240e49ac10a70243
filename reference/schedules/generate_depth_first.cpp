// The families in which a rank takes forwards and backwards in turn, after a warm-up of forwards.
#include <algorithm>

#include "reference/schedules/detail/generate_rows.hpp"

namespace plumbline::schedules {
namespace {

using detail::Row;
using detail::Virtual;

// The computations of one rank, each by its position in the depth-first order.
class DepthFirst {
 public:
  DepthFirst(const Shape& shape, const std::vector<Virtual>& order, int rank, std::vector<Action>& actions)
      : ranks_(shape.ranks), chunks_(shape.stages_per_rank), order_(&order), rank_(rank), row_(actions) {}

  [[nodiscard]] int total() const { return static_cast<int>(order_->size()); }
  void forward(int k) { add(ActionKind::forward, at(k).chunk, at(k).micro_batch); }
  void backward(int k, ActionKind kind) { add(kind, chunks_ - 1 - at(k).chunk, at(k).micro_batch); }
  void idle(int cells) { row_.idle(cells); }

 private:
  [[nodiscard]] const Virtual& at(int k) const { return (*order_)[static_cast<std::size_t>(k)]; }
  void add(ActionKind kind, int chunk, int micro_batch) { row_.add(kind, chunk * ranks_ + rank_, micro_batch); }

  int ranks_;
  int chunks_;
  const std::vector<Virtual>* order_;
  int rank_;
  Row row_;
};

// Calls fill(rank, computations of the rank) for each rank. A forward makes several actions of its rank, itself
// included.
template <class Fill>
Schedule by_rank_in_groups(const Shape& shape, int group, std::size_t actions_of_forward, const Fill& fill) {
  Schedule schedule = detail::empty_schedule(shape, Placement::loop);
  const std::vector<Virtual> order = detail::depth_first_order(shape, group);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    std::vector<Action>& actions = schedule.ranks[static_cast<std::size_t>(rank)];
    actions.reserve(actions_of_forward * order.size());
    DepthFirst row(shape, order, rank, actions);
    fill(rank, row);
  }
  return schedule;
}

// Flattened, as the next ones: a call for each of the computations would take as long as the computation's cell.
[[gnu::flatten]] void take_turns(DepthFirst& row, int warmup) {
  for (int k = 0; k < warmup; ++k) row.forward(k);
  for (int k = warmup; k < row.total(); ++k) {
    row.forward(k);
    row.backward(k - warmup, ActionKind::backward);
  }
  for (int k = row.total() - warmup; k < row.total(); ++k) row.backward(k, ActionKind::backward);
}

// The same with PyTorch's idle cells: until the first micro-batch arrives, until the first backward can, and in front
// of each of the last backwards.
[[gnu::flatten]] void take_turns_with_idle(DepthFirst& row, int warmup, int rank, int wait) {
  row.idle(rank);
  for (int k = 0; k < warmup; ++k) row.forward(k);
  if (warmup > 0) row.idle(wait);
  for (int k = warmup; k < row.total(); ++k) {
    row.forward(k);
    row.backward(k - warmup, ActionKind::backward);
  }
  for (int k = row.total() - warmup; k < row.total(); ++k) {
    row.idle(1);
    row.backward(k, ActionKind::backward);
  }
}

// Idle cells: before the first forward, and between the warm-up and what follows it.
struct Idle {
  int before = 0;
  int after_warmup = 0;
};

// Backwards in two halves: the weight gradient follows `lag` input gradients later.
[[gnu::flatten]] void take_turns_in_halves(DepthFirst& row, int warmup, int lag, const Idle& idle = {}) {
  const auto backward = [&](int k) {
    row.backward(k, ActionKind::input_gradient);
    if (k >= lag) row.backward(k - lag, ActionKind::weight_gradient);
  };
  row.idle(idle.before);
  for (int k = 0; k < warmup; ++k) row.forward(k);
  row.idle(idle.after_warmup);
  for (int k = warmup; k < row.total(); ++k) {
    row.forward(k);
    backward(k - warmup);
  }
  for (int k = row.total() - warmup; k < row.total(); ++k) backward(k);
  for (int k = std::max(0, row.total() - lag); k < row.total(); ++k) row.backward(k, ActionKind::weight_gradient);
}

// Idle cells where, with all computations one step long, a forward would wait for the stage before it.
class LockStep {
 public:
  explicit LockStep(const Schedule& schedule)
      : schedule_(schedule),
        done_(static_cast<std::size_t>(schedule.stages) * static_cast<std::size_t>(schedule.micro_batches), kNever) {}

  Schedule run() {
    Schedule result = schedule_;
    for (auto& actions : result.ranks) actions.clear();
    std::vector<std::size_t> next(schedule_.ranks.size());
    bool working = true;
    for (int step = 0; working; ++step) {
      working = false;
      for (std::size_t rank = 0; rank < next.size(); ++rank) {
        if (next[rank] == schedule_.ranks[rank].size()) continue;
        working = true;
        const Action& action = schedule_.ranks[rank][next[rank]];
        const bool ready = action.kind != ActionKind::forward || forward(action, step);
        result.ranks[rank].push_back(ready ? action : Action{});
        if (ready) ++next[rank];
      }
    }
    return result;
  }

 private:
  static constexpr int kNever = -1;

  // Whether the stage before it was done in an earlier step; if so, this one is done in this step.
  bool forward(const Action& action, int step) {
    if (action.stage > 0) {
      const int before = done_of(action.stage - 1, action.micro_batch);
      if (before == kNever || before == step) return false;
    }
    done_of(action.stage, action.micro_batch) = step;
    return true;
  }
  int& done_of(int stage, int micro_batch) {
    return done_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(schedule_.micro_batches) +
                 static_cast<std::size_t>(micro_batch)];
  }

  const Schedule& schedule_;
  std::vector<int> done_;  // the step, by stage and micro-batch
};

}  // namespace

Schedule interleaved_as_colossalai(const Shape& shape) {
  detail::require_shape(shape);
  detail::require_multiple_of_ranks(shape);
  const bool forwards_first = shape.micro_batches == shape.ranks;
  return by_rank_in_groups(shape, shape.ranks, 2, [&](int rank, DepthFirst& row) {
    take_turns(row, forwards_first ? row.total() : detail::depth_first_warmup(shape, shape.ranks, 2, rank));
  });
}

namespace detail {

std::vector<Virtual> depth_first_order(const Shape& shape, int group) {
  std::vector<Virtual> order;
  order.reserve(static_cast<std::size_t>(shape.micro_batches) * static_cast<std::size_t>(shape.stages_per_rank));
  for (int begin = 0; begin < shape.micro_batches; begin += group)
    for (int chunk = 0; chunk < shape.stages_per_rank; ++chunk)
      for (int i = begin; i < std::min(begin + group, shape.micro_batches); ++i)
        order.push_back({.chunk = chunk, .micro_batch = i});
  return order;
}

int depth_first_warmup(const Shape& shape, int group, int per_hop, int rank) {
  const std::int64_t ahead =
      std::int64_t{shape.stages_per_rank - 1} * group + std::int64_t{per_hop} * (shape.ranks - 1 - rank);
  return static_cast<int>(std::min(ahead, std::int64_t{shape.micro_batches} * shape.stages_per_rank));
}

Schedule one_f_one_b(const Shape& shape) {
  return by_rank_in_groups(shape, shape.micro_batches, 2, [&](int rank, DepthFirst& row) {
    take_turns(row, depth_first_warmup(shape, shape.micro_batches, 1, rank));
  });
}

Schedule interleaved(const Shape& shape, int group) {
  return by_rank_in_groups(shape, group, 3, [&](int rank, DepthFirst& row) {
    const int warmup = depth_first_warmup(shape, group, 2, rank);
    const int first_backward = shape.stages_per_rank * shape.ranks + 2 * (shape.ranks - 1 - rank);
    take_turns_with_idle(row, warmup, rank, first_backward - (warmup + rank));
  });
}

Schedule zb_h1(const Shape& shape) {
  return by_rank_in_groups(shape, shape.micro_batches, 3, [&](int rank, DepthFirst& row) {
    take_turns_in_halves(row, depth_first_warmup(shape, shape.micro_batches, 1, rank), rank);
  });
}

Schedule zb_h2(const Shape& shape) {
  return by_rank_in_groups(shape, shape.micro_batches, 3, [&](int rank, DepthFirst& row) {
    take_turns_in_halves(row, depth_first_warmup(shape, shape.micro_batches, 2, rank), 2 * rank);
  });
}

Schedule interleaved_zero_bubble(const Shape& shape) {
  const int group = micro_batches_of_round(ScheduleKind::interleaved_zero_bubble, shape);
  const Schedule rows = by_rank_in_groups(shape, group, 3, [&](int rank, DepthFirst& row) {
    const Idle idle{.before = rank, .after_warmup = shape.ranks - 1 - rank};
    take_turns_in_halves(row, depth_first_warmup(shape, group, 1, rank), rank, idle);
  });
  return LockStep(rows).run();
}

}  // namespace detail
}  // namespace plumbline::schedules

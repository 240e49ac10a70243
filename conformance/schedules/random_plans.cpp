#include "conformance/schedules/random_plans.hpp"

namespace plumbline::conformance {

using schedules::Action;
using schedules::ActionKind;
using schedules::Schedule;

namespace {

class Writer {
 public:
  Writer(Random& random, bool messages) : random_(random), messages_(messages) {
    const int ranks = random.between(1, 4);
    schedule_.stages = random.between(1, 6);
    schedule_.micro_batches = random.between(1, 4);
    schedule_.ranks.resize(static_cast<std::size_t>(ranks));
    for (int stage = 0; stage < schedule_.stages; ++stage)
      schedule_.stage_to_rank.push_back(random.between(0, ranks - 1));
    for (int i = 0; i < schedule_.micro_batches; ++i) open_.push_back(action(ActionKind::forward, 0, i));
  }
  Schedule write() {
    while (!open_.empty()) {
      const auto chosen = open_.begin() + random_.between(0, static_cast<int>(open_.size()) - 1);
      const Action next = *chosen;
      open_.erase(chosen);
      note(next);
      if (next.kind == ActionKind::forward) after_forward(next);
      if (next.kind == ActionKind::input_gradient)
        open_.push_back(action(ActionKind::weight_gradient, next.stage, next.micro_batch));
      if ((next.kind == ActionKind::input_gradient || next.kind == ActionKind::backward) && next.stage > 0) {
        hand_over(next, ActionKind::send_backward, ActionKind::recv_backward, next.stage - 1);
        open_backward(next.stage - 1, next.micro_batch);
      }
    }
    return schedule_;
  }

 private:
  static Action action(ActionKind kind, int stage, int micro_batch) {
    return {.kind = kind, .joined = false, .stage = stage, .micro_batch = micro_batch};
  }
  [[nodiscard]] std::size_t rank_of(int stage) const {
    return static_cast<std::size_t>(schedule_.stage_to_rank[static_cast<std::size_t>(stage)]);
  }
  void note(const Action& one) { schedule_.ranks[rank_of(one.stage)].push_back(one); }
  void hand_over(const Action& made, ActionKind send, ActionKind receive, int to) {
    if (!messages_ || rank_of(made.stage) == rank_of(to)) return;
    note(action(send, made.stage, made.micro_batch));
    note(action(receive, to, made.micro_batch));
  }
  void open_backward(int stage, int micro_batch) {
    open_.push_back(
        action(random_.between(0, 1) == 0 ? ActionKind::backward : ActionKind::input_gradient, stage, micro_batch));
  }
  void after_forward(const Action& made) {
    if (made.stage + 1 == schedule_.stages) return open_backward(made.stage, made.micro_batch);
    hand_over(made, ActionKind::send_forward, ActionKind::recv_forward, made.stage + 1);
    open_.push_back(action(ActionKind::forward, made.stage + 1, made.micro_batch));
  }

  Random& random_;
  bool messages_;
  Schedule schedule_;
  std::vector<Action> open_;  // what may be next
};

}  // namespace

Schedule random_plan(Random& random, bool messages) { return Writer(random, messages).write(); }

}  // namespace plumbline::conformance

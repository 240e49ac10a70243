#include <functional>
#include <map>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/simulator.hpp"

namespace plumbline::schedules {
namespace {

bool gives_up(ActionKind kind) { return kind == ActionKind::backward || kind == ActionKind::weight_gradient; }

class Keeping {
 public:
  Keeping(const std::vector<Action>& actions, int rank, bool forward_only)
      : actions_(actions), rank_(rank), forward_only_(forward_only), slots_(actions.size(), kNoSlot) {}

  std::vector<int> assign() {
    for (std::size_t first = 0, next = 0; first < actions_.size(); first = next) {
      next = first + 1;
      while (actions_[next - 1].joined && next < actions_.size()) ++next;
      for (std::size_t i = first; i < next; ++i)
        if (actions_[i].kind == ActionKind::forward) take(i);
      for (std::size_t i = first; i < next; ++i)
        if (is_compute(actions_[i].kind) && actions_[i].kind != ActionKind::forward) use(i);
      for (std::size_t i = first; i < next; ++i)
        if (gives_up(actions_[i].kind) || (forward_only_ && actions_[i].kind == ActionKind::forward)) release(i);
    }
    return std::move(slots_);
  }
  [[nodiscard]] int count() const { return count_; }

 private:
  using Which = std::pair<std::int32_t, std::int32_t>;  // stage, micro-batch
  static Which which(const Action& action) { return {action.stage, action.micro_batch}; }

  void take(std::size_t position) {
    if (kept_.contains(which(actions_[position]))) refuse(position, "but its activation is already there");
    int slot = count_;
    if (free_.empty()) {
      ++count_;
    } else {
      slot = free_.top();
      free_.pop();
    }
    slots_[position] = kept_[which(actions_[position])] = slot;
  }
  void use(std::size_t position) {
    const auto found = kept_.find(which(actions_[position]));
    if (found == kept_.end()) refuse(position, "but its activation is not there");
    slots_[position] = found->second;
  }
  void release(std::size_t position) {
    if (kept_.erase(which(actions_[position])) > 0) free_.push(slots_[position]);
  }
  [[noreturn]] void refuse(std::size_t position, const char* why) const {
    throw InvalidArgument(fmt::format("activation_slots: rank {}, position {} ({}), {}", rank_, position,
                                      to_string(actions_[position]), why));
  }

  const std::vector<Action>& actions_;
  int rank_;
  bool forward_only_;
  std::vector<int> slots_;
  std::map<Which, int> kept_;
  std::priority_queue<int, std::vector<int>, std::greater<>> free_;
  int count_ = 0;
};

}  // namespace

ActivationSlots activation_slots(const Schedule& schedule, bool forward_only) {
  ActivationSlots found;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    Keeping keeping(schedule.ranks[rank], static_cast<int>(rank), forward_only);
    found.slots.push_back(keeping.assign());
    found.counts.push_back(keeping.count());
  }
  return found;
}

}  // namespace plumbline::schedules

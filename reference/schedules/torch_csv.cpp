#include "reference/schedules/detail/torch_csv.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::schedules {
namespace {

// The cells without what follows their actions: PyTorch reads "0F0abc" as "0F0".
std::string without_tails(std::string_view row) {
  constexpr std::string_view kDigits = "0123456789", kBlanks = " \t\r";
  std::string kept;
  while (true) {
    const std::size_t end = std::min(row.find(','), row.size());
    std::string_view cell = row.substr(0, end);
    cell.remove_prefix(std::min(cell.find_first_not_of(kBlanks), cell.size()));
    if (!cell.starts_with('(')) {
      const std::size_t name = std::min(cell.find_first_not_of(kDigits), cell.size());
      const std::size_t number = std::min(cell.find_first_of(kDigits, name), cell.size());
      cell = cell.substr(0, cell.find_first_not_of(kDigits, number));
    }
    kept.append(cell);
    if (end == row.size()) return kept;
    kept.push_back(',');
    row.remove_prefix(end + 1);
  }
}

// What was computed of a stage.
struct Done {
  std::set<std::int32_t> forwards, backwards, inputs, weights;
};

class Validation {
 public:
  explicit Validation(Schedule& schedule) : schedule_(schedule), done_(static_cast<std::size_t>(schedule.stages)) {
    schedule_.stage_to_rank.assign(done_.size(), kNobody);
  }

  void run() {
    for (std::size_t rank = 0; rank < schedule_.ranks.size(); ++rank)
      for (const Action& action : schedule_.ranks[rank])
        if (action.kind != ActionKind::idle) take(static_cast<int>(rank), action);
    for (std::size_t stage = 0; stage < done_.size(); ++stage) require_counts(stage, done_[stage]);
  }

 private:
  static constexpr int kNobody = -1;

  void take(int rank, const Action& action) {
    if (action.stage >= schedule_.stages)
      refuse(rank, action, fmt::format("but the stages are 0 to {}", schedule_.stages - 1));
    Done& done = done_[static_cast<std::size_t>(action.stage)];
    switch (action.kind) {
      case ActionKind::forward:
        done.forwards.insert(action.micro_batch);
        break;
      case ActionKind::backward:
        require(rank, action, done.forwards, "its forward");
        done.backwards.insert(action.micro_batch);
        break;
      case ActionKind::input_gradient:
        require(rank, action, done.forwards, "its forward");
        done.inputs.insert(action.micro_batch);
        break;
      case ActionKind::weight_gradient:
        require(rank, action, done.inputs, "its input gradient");
        done.weights.insert(action.micro_batch);
        break;
      default:
        break;
    }
    int& owner = schedule_.stage_to_rank[static_cast<std::size_t>(action.stage)];
    if (owner != kNobody && owner != rank) refuse(rank, action, fmt::format("but its stage is on rank {} too", owner));
    owner = rank;
  }

  static void require(int rank, const Action& action, const std::set<std::int32_t>& before, std::string_view what) {
    if (!before.contains(action.micro_batch)) refuse(rank, action, fmt::format("without {} in front of it", what));
  }

  void require_counts(std::size_t stage, const Done& done) const {
    const auto expected = static_cast<std::size_t>(schedule_.micro_batches);
    if (done.forwards.size() != expected || done.inputs.size() != done.weights.size() ||
        done.backwards.size() + done.inputs.size() != expected)
      throw InvalidArgument(fmt::format(
          "schedule: stage {} has F of {} micro-batches, B of {}, I of {}, W of {}; F, and B with I, are of {}, "
          "and I and W of as many",
          stage, done.forwards.size(), done.backwards.size(), done.inputs.size(), done.weights.size(), expected));
  }

  [[noreturn]] static void refuse(int rank, const Action& action, std::string_view why) {
    throw InvalidArgument(fmt::format("schedule: rank {} has {}, {}", rank, to_string(action), why));
  }

  Schedule& schedule_;
  std::vector<Done> done_;  // by stage
};

}  // namespace

Schedule load_torch_csv(std::span<const std::string> rows, const Shape& shape, bool computations_only) {
  if (std::cmp_not_equal(rows.size(), shape.ranks))
    throw InvalidArgument(fmt::format("schedule: there are {} ranks, but {} rows", shape.ranks, rows.size()));
  const auto stages = std::int64_t{shape.ranks} * shape.stages_per_rank;
  constexpr std::int64_t kMostStages = 1 << 20;
  if (stages < 1 || stages > kMostStages || shape.micro_batches < 1)
    throw InvalidArgument(fmt::format("schedule: {} ranks with {} stages each and {} micro-batches", shape.ranks,
                                      shape.stages_per_rank, shape.micro_batches));
  Schedule schedule{
      .stages = static_cast<int>(stages), .micro_batches = shape.micro_batches, .stage_to_rank = {}, .ranks = {}};
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    schedule.ranks.push_back(parse_row(without_tails(rows[rank]), static_cast<int>(rank) + 1));
  Validation(schedule).run();
  if (computations_only)
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank)
      for (const Action& action : schedule.ranks[rank])
        if (action.kind != ActionKind::idle && !is_compute(action.kind))
          throw InvalidArgument(
              fmt::format("schedule: rank {} has {}, which is no computation", rank, to_string(action)));
  return schedule;
}

}  // namespace plumbline::schedules

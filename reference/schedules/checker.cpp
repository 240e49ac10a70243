#include "reference/schedules/checker.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/schedules/detail/well_formed.hpp"
#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace {

constexpr std::array<std::string_view, 15> kProblemNames{
    "range",           "wrong_rank",  "doubled",      "missing",      "dependency",
    "after_reduction", "resharded",   "no_neighbour", "missing_send", "missing_receive",
    "missing_wait",    "activations", "cycle",        "deadlock",     "fifo_order"};
constexpr std::size_t kKinds = 16;  // of actions; there are fewer of problems

using Kind = ActionKind;
using Index = std::int32_t;  // of an action among all, rank by rank
constexpr Index kNone = -1;
constexpr Index kNever = -2;  // what it waits for is not in the schedule

bool is_backward(Kind kind) { return kind == Kind::backward || kind == Kind::input_gradient; }

bool is_waitable(Kind kind) { return kind == Kind::send_forward || kind == Kind::send_backward; }
Kind waited_for(Kind wait) { return wait == Kind::wait_send_forward ? Kind::send_forward : Kind::send_backward; }

void refuse_unless_schedule(const Schedule& schedule, const CheckOptions& options) {
  const auto ranks = static_cast<int>(schedule.ranks.size());
  const detail::Flaw flaw = detail::flaw_of(schedule);
  if (flaw == detail::Flaw::sizes)
    throw InvalidArgument(fmt::format("check: a schedule has at least one stage and one micro-batch, got {} and {}",
                                      schedule.stages, schedule.micro_batches));
  if (flaw == detail::Flaw::stages)
    throw InvalidArgument(fmt::format("check: {} stages are more than {}", schedule.stages, kMostStages));
  if (detail::has_too_many_pairs(schedule))
    throw InvalidArgument(fmt::format("check: {} stages x {} micro-batches are more than {} pairs", schedule.stages,
                                      schedule.micro_batches, detail::kMostPairs));
  if (flaw == detail::Flaw::places)
    throw InvalidArgument(fmt::format("check: stage_to_rank has {} entries for {} stages",
                                      schedule.stage_to_rank.size(), schedule.stages));
  if (flaw == detail::Flaw::rank) {
    const std::size_t stage = detail::misplaced_stage(schedule);
    throw InvalidArgument(fmt::format("check: stage {} is on rank {}, but there are {} ranks", stage,
                                      schedule.stage_to_rank[stage], ranks));
  }
  if (!options.activation_limits.empty() && options.activation_limits.size() != schedule.ranks.size())
    throw InvalidArgument(
        fmt::format("check: activation_limits has {} entries for {} ranks", options.activation_limits.size(), ranks));
}

class Report {
 public:
  explicit Report(std::size_t most_of_a_kind) : most_(most_of_a_kind) {}

  // Whether another problem of the kind still has room: only then is its message put into words.
  [[nodiscard]] bool wants(ProblemKind kind, ProblemSeverity severity = ProblemSeverity::error) {
    ++(severity == ProblemSeverity::error ? report_.errors : report_.warnings);
    if (counts_[static_cast<std::size_t>(kind)]++ < most_) return true;
    ++report_.omitted;
    return false;
  }
  void add(ProblemKind kind, const Place& place, std::string message, std::vector<Place> cycle = {},
           ProblemSeverity severity = ProblemSeverity::error) {
    report_.problems.push_back({kind, severity, place, std::move(message), std::move(cycle)});
  }
  [[nodiscard]] bool failed() const { return !report_.valid(); }
  [[nodiscard]] CheckReport& result() { return report_; }

 private:
  std::size_t most_;
  std::array<std::size_t, kKinds> counts_{};
  CheckReport report_;
};

// All actions of all ranks in one list, and where the first of each name is.
class Actions {
 public:
  explicit Actions(const Schedule& schedule)
      : schedule_(schedule), micro_batches_(static_cast<std::size_t>(schedule.micro_batches)) {
    Index count = 0;
    begins_.push_back(0);
    for (const auto& actions : schedule.ranks) begins_.push_back(count += static_cast<Index>(actions.size()));
    groups_.resize(static_cast<std::size_t>(count));
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) number_groups(rank);
  }

  [[nodiscard]] int ranks() const { return static_cast<int>(schedule_.ranks.size()); }
  [[nodiscard]] std::size_t size() const { return groups_.size(); }
  [[nodiscard]] Index begin(int rank) const { return begins_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Index end(int rank) const { return begins_[static_cast<std::size_t>(rank) + 1]; }
  [[nodiscard]] int rank_of(Index index) const {
    return static_cast<int>(std::ranges::upper_bound(begins_, index) - begins_.begin()) - 1;
  }
  [[nodiscard]] const Action& at(int rank, Index index) const {
    return schedule_.ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index - begin(rank))];
  }
  [[nodiscard]] Place place(Index index) const {
    const int rank = rank_of(index);
    return {rank, index - begin(rank), at(rank, index)};
  }
  // The first action after those that are joined with this one.
  [[nodiscard]] Index end_of_group(int rank, Index index) const {
    while (index + 1 < end(rank) && group(index + 1) == group(index)) ++index;
    return index + 1;
  }
  // Whether a is over when b begins. Both of one rank.
  [[nodiscard]] bool before(Index a, Index b) const { return group(a) < group(b); }

  // The first action of a name; kNone if the schedule has none. The stage may lie outside.
  [[nodiscard]] Index find(Kind kind, int stage, int micro_batch) const {
    const auto& table = tables_[static_cast<std::size_t>(kind)];
    if (table.empty() || stage < 0 || stage >= schedule_.stages) return kNone;
    return table[slot(stage, micro_batch)];
  }
  [[nodiscard]] bool has(Kind kind, int stage, int micro_batch) const { return find(kind, stage, micro_batch) >= 0; }
  // The B or I of a stage.
  [[nodiscard]] Index find_backward(int stage, int micro_batch) const {
    const Index full = find(Kind::backward, stage, micro_batch);
    return full >= 0 ? full : find(Kind::input_gradient, stage, micro_batch);
  }
  // Notes an action as the first of its name, unless there is one.
  Index note(const Action& action, Index index) {
    auto& table = tables_[static_cast<std::size_t>(action.kind)];
    if (table.empty()) table.assign(static_cast<std::size_t>(schedule_.stages) * micro_batches_, kNone);
    Index& first = table[slot(action.stage, std::max(action.micro_batch, 0))];
    return first >= 0 ? first : (first = index, kNone);
  }

 private:
  [[nodiscard]] Index group(Index index) const { return groups_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] std::size_t slot(int stage, int micro_batch) const {
    return static_cast<std::size_t>(stage) * micro_batches_ + static_cast<std::size_t>(micro_batch);
  }
  void number_groups(std::size_t rank) {
    Index group = begins_[rank], index = group;
    for (const Action& action : schedule_.ranks[rank]) {
      groups_[static_cast<std::size_t>(index)] = group;
      ++index;
      if (!action.joined) group = index;
    }
  }

  const Schedule& schedule_;
  std::size_t micro_batches_;
  std::vector<Index> begins_;
  std::vector<Index> groups_;  // of each action, the first one that it is joined with
  std::array<std::vector<Index>, kKinds> tables_;
};

// Runs all ranks at once, each action waiting for another rank's.
class Execution {
 public:
  // awaited[i] is the action that i waits for, kNone or kNever. It is awaited until it is posted, which all of its
  // group are when the rank comes to it, or until it is over.
  Execution(const Actions& actions, const std::vector<Index>& awaited, bool until_posted)
      : actions_(actions), awaited_(awaited), until_posted_(until_posted) {}

  // Whether all ranks come to their end.
  bool run() {
    const auto ranks = static_cast<std::size_t>(actions_.ranks());
    happened_.assign(actions_.size(), false);
    waiter_.assign(actions_.size(), kNone);
    waits_.resize(ranks);
    at_.resize(ranks);
    for (int rank = actions_.ranks(); rank-- > 0;) {
      at_[static_cast<std::size_t>(rank)] = actions_.begin(rank);
      ready_.push_back(rank);
    }
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    for (int rank = 0; rank < actions_.ranks(); ++rank)
      if (is_stuck(rank)) return false;
    return true;
  }

  // After a run that did not come to its end: the ranks that wait for each other, or nothing where some wait for what
  // never comes.
  [[nodiscard]] std::vector<Place> cycle() const {
    std::vector<int> seen_from(static_cast<std::size_t>(actions_.ranks()), kNone);
    for (int start = 0; start < actions_.ranks(); ++start) {
      std::vector<Place> path;
      for (int rank = start; rank != kNone && is_stuck(rank);) {
        int& seen = seen_from[static_cast<std::size_t>(rank)];
        if (seen != kNone && seen != start) break;  // joins an earlier path
        const Index waiting = waiting_action(rank);
        const auto repeated = std::ranges::find(path, rank, &Place::rank);
        if (repeated != path.end()) return {repeated, path.end()};
        seen = start;
        path.push_back(actions_.place(waiting));
        const Index awaited = awaited_[static_cast<std::size_t>(waiting)];
        rank = awaited < 0 ? kNone : actions_.rank_of(awaited);
      }
    }
    return {};
  }
  [[nodiscard]] Index awaited_by(const Place& place) const {
    return awaited_[static_cast<std::size_t>(actions_.begin(place.rank) + place.position)];
  }

 private:
  [[nodiscard]] bool is_stuck(int rank) const { return at_[static_cast<std::size_t>(rank)] < actions_.end(rank); }
  [[nodiscard]] bool is_open(Index index) const {
    const Index awaited = awaited_[static_cast<std::size_t>(index)];
    return awaited == kNever || (awaited >= 0 && !happened_[static_cast<std::size_t>(awaited)]);
  }
  // Of a stuck rank: the first action of its group that waits, and if possible for one that is there.
  [[nodiscard]] Index waiting_action(int rank) const {
    const Index begin = at_[static_cast<std::size_t>(rank)], end = actions_.end_of_group(rank, begin);
    Index found = kNone;
    for (Index i = end; i-- > begin;)
      if (is_open(i) && (found == kNone || awaited_[static_cast<std::size_t>(i)] >= 0)) found = i;
    return found;
  }

  void advance(int rank) {
    Index& at = at_[static_cast<std::size_t>(rank)];
    while (at < actions_.end(rank)) {
      const Index end = actions_.end_of_group(rank, at);
      if (until_posted_) mark(at, end);
      int open = 0;
      for (Index i = at; i < end; ++i) {
        if (!is_open(i)) continue;
        const Index awaited = awaited_[static_cast<std::size_t>(i)];
        if (awaited == kNever || std::exchange(waiter_[static_cast<std::size_t>(awaited)], rank) != rank) ++open;
      }
      waits_[static_cast<std::size_t>(rank)] = open;
      if (open > 0) return;
      if (!until_posted_) mark(at, end);
      at = end;
    }
  }
  void mark(Index begin, Index end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      happened_[i] = true;
      if (waiter_[i] == kNone) continue;
      const int waiter = std::exchange(waiter_[i], kNone);
      if (--waits_[static_cast<std::size_t>(waiter)] == 0) ready_.push_back(waiter);
    }
  }

  const Actions& actions_;
  const std::vector<Index>& awaited_;
  bool until_posted_;
  std::vector<char> happened_;
  std::vector<int> waiter_;  // of each action, the rank that waits for it
  std::vector<int> waits_;   // of each rank, how many actions it waits for
  std::vector<Index> at_;    // the group that each rank is at
  std::vector<int> ready_;
};

class Checker {
 public:
  Checker(const Schedule& schedule, const CheckOptions& options)
      : schedule_(schedule), options_(options), report_(options.most_of_a_kind), actions_(schedule) {}

  CheckReport run() {
    note_actions();
    for_each_action([this](int rank, Index index, const Action& action) { judge(rank, index, action); });
    judge_sharding();
    judge_waits();
    judge_completeness();
    count_activations();
    if (has_messages_)
      prove_messages();
    else
      prove_computations();
    return std::move(report_.result());
  }

 private:
  template <class Visit>
  void for_each_action(const Visit& visit) {
    for (int rank = 0; rank < actions_.ranks(); ++rank) {
      Index index = actions_.begin(rank);
      for (const Action& action : schedule_.ranks[static_cast<std::size_t>(rank)]) {
        if (action.kind != Kind::idle) visit(rank, index, action);
        ++index;
      }
    }
  }
  [[nodiscard]] int rank_of_stage(int stage) const { return schedule_.stage_to_rank[static_cast<std::size_t>(stage)]; }
  [[nodiscard]] bool is_in_range(const Action& action) const {
    if (action.stage < 0 || action.stage >= schedule_.stages) return false;
    const bool has_micro_batch = is_compute(action.kind) || is_message(action.kind) || is_send_wait(action.kind);
    return !has_micro_batch || (action.micro_batch >= 0 && action.micro_batch < schedule_.micro_batches);
  }
  // Whether an action counts: later phases pass over those that are out of range or on a wrong rank.
  [[nodiscard]] bool counts(int rank, const Action& action) const {
    return is_in_range(action) && rank_of_stage(action.stage) == rank;
  }
  [[nodiscard]] bool is_stage(int stage) const { return stage >= 0 && stage < schedule_.stages; }
  [[nodiscard]] bool share_rank(int stage, int other) const {
    return is_stage(stage) && is_stage(other) && rank_of_stage(stage) == rank_of_stage(other);
  }
  template <class... Values>
  void find(ProblemKind kind, Index index, fmt::format_string<Values...> words, Values&&... values) {
    if (report_.wants(kind))
      report_.add(kind, actions_.place(index), fmt::format(words, std::forward<Values>(values)...));
  }
  // Of an action that is not there.
  void find_missing(ProblemKind kind, Kind action, int stage, int micro_batch, std::string_view words) {
    if (!report_.wants(kind)) return;
    const Place place{rank_of_stage(stage), kNoPosition, {.kind = action, .stage = stage, .micro_batch = micro_batch}};
    report_.add(kind, place, fmt::format("{} {}", to_string(place.action), words));
  }
  [[nodiscard]] std::string text_of(Index index) const {
    const Place place = actions_.place(index);
    return fmt::format("{} at position {}", to_string(place.action), place.position);
  }

  void note_actions() {
    for_each_action([this](int rank, Index index, const Action& action) {
      has_messages_ = has_messages_ || is_message(action.kind);
      has_waits_ = has_waits_ || is_send_wait(action.kind);
      if (!is_in_range(action))
        return find(ProblemKind::range, index, "there are {} stages and {} micro-batches", schedule_.stages,
                    schedule_.micro_batches);
      if (rank_of_stage(action.stage) != rank)
        return find(ProblemKind::wrong_rank, index, "stage {} is on rank {}", action.stage,
                    rank_of_stage(action.stage));
      if (action.kind == Kind::unshard || action.kind == Kind::reshard) return;
      const Index first = actions_.note(action, index);
      if (first < 0) return;
      doubled_.push_back(index);
      find(ProblemKind::doubled, index, "done before, {}", text_of(first));
    });
  }

  // An action against what must have been before it on its own rank. What is missing altogether is
  // judge_completeness()'s.
  void judge(int rank, Index index, const Action& action) {
    if (!counts(rank, action)) return;
    const int stage = action.stage, micro_batch = action.micro_batch;
    const auto needs = [&](Index needed, std::string_view why) {
      if (needed >= 0 && !actions_.before(needed, index))
        find(ProblemKind::dependency, index, "needs {} before it: {}", text_of(needed), why);
    };
    if (is_compute(action.kind)) judge_reduction(index, action);
    switch (action.kind) {
      case Kind::forward:
        needs(actions_.find(Kind::recv_forward, stage, micro_batch), "its input");
        if (share_rank(stage, stage - 1)) needs(actions_.find(Kind::forward, stage - 1, micro_batch), "its input");
        break;
      case Kind::backward:
      case Kind::input_gradient:
        judge_single_backward(index, action);
        needs(actions_.find(Kind::forward, stage, micro_batch), "its activations");
        needs(actions_.find(Kind::recv_backward, stage, micro_batch), "the gradient of its output");
        if (share_rank(stage, stage + 1))
          needs(actions_.find_backward(stage + 1, micro_batch), "the gradient of its output");
        break;
      case Kind::weight_gradient:
        needs(actions_.find(Kind::input_gradient, stage, micro_batch), "W comes after I");
        break;
      case Kind::send_forward:
        needs(actions_.find(Kind::forward, stage, micro_batch), "what is sent");
        needs(actions_.find(Kind::send_metadata, stage, micro_batch), "its shape");
        break;
      case Kind::send_backward:
        needs(actions_.find_backward(stage, micro_batch), "what is sent");
        break;
      case Kind::recv_forward:
        needs(actions_.find(Kind::recv_metadata, stage, micro_batch), "its shape");
        break;
      case Kind::send_metadata:
        needs(actions_.find(Kind::forward, stage, micro_batch), "what is described");
        break;
      case Kind::wait_send_forward:
      case Kind::wait_send_backward:
        needs(actions_.find(waited_for(action.kind), stage, micro_batch), "what is waited for");
        if (!actions_.has(waited_for(action.kind), stage, micro_batch))
          find(ProblemKind::missing_send, index, "there is no send to wait for");
        break;
      default:
        break;
    }
    if (is_message(action.kind) && !is_stage(peer_stage(action)))
      find(ProblemKind::no_neighbour, index, "there is no stage {}", peer_stage(action));
  }
  void judge_reduction(Index index, const Action& action) {
    const Index reduction = actions_.find(Kind::reduce_gradients, action.stage, 0);
    if (reduction >= 0 && !actions_.before(index, reduction))
      find(ProblemKind::after_reduction, index, "the gradients were handed over by {}", text_of(reduction));
  }
  void judge_single_backward(Index index, const Action& action) {
    if (action.kind != Kind::backward) return;
    for (const Kind half : {Kind::input_gradient, Kind::weight_gradient})
      if (const Index other = actions_.find(half, action.stage, action.micro_batch); other >= 0)
        find(ProblemKind::doubled, std::max(index, other), "back-propagated twice, {} too",
             text_of(std::min(index, other)));
  }

  void judge_waits() {
    for_each_action([this](int rank, Index index, const Action& action) {
      if (!has_waits_ || !is_waitable(action.kind) || !counts(rank, action)) return;
      const Kind wait = action.kind == Kind::send_forward ? Kind::wait_send_forward : Kind::wait_send_backward;
      if (!actions_.has(wait, action.stage, action.micro_batch))
        find(ProblemKind::missing_wait, index, "no wait follows it: its memory is never free");
    });
  }

  // A stage's parameters are there from the start unless the schedule gathers them.
  void judge_sharding() {
    std::vector<char> gathered(static_cast<std::size_t>(schedule_.stages), true);
    for_each_action([&](int rank, Index, const Action& action) {
      if (action.kind == Kind::unshard && counts(rank, action))
        gathered[static_cast<std::size_t>(action.stage)] = false;
    });
    for_each_action([&](int rank, Index index, const Action& action) {
      if (!counts(rank, action)) return;
      char& is_gathered = gathered[static_cast<std::size_t>(action.stage)];
      if (action.kind == Kind::unshard) is_gathered = true;
      if (action.kind == Kind::reshard) is_gathered = false;
      if (is_compute(action.kind) && !is_gathered)
        find(ProblemKind::resharded, index, "the parameters of stage {} are not gathered", action.stage);
    });
  }

  void judge_completeness() {
    for (int stage = 0; stage < schedule_.stages; ++stage)
      for (int micro_batch = 0; micro_batch < schedule_.micro_batches; ++micro_batch) {
        judge_computations(stage, micro_batch);
        judge_messages(stage, micro_batch);
      }
    judge_reductions();
  }
  void judge_computations(int stage, int micro_batch) {
    const auto absent = [&](Kind kind, std::string_view words) {
      if (!actions_.has(kind, stage, micro_batch)) find_missing(ProblemKind::missing, kind, stage, micro_batch, words);
    };
    absent(Kind::forward, "is not there");
    const bool input = actions_.has(Kind::input_gradient, stage, micro_batch);
    const bool weight = actions_.has(Kind::weight_gradient, stage, micro_batch);
    if (actions_.has(Kind::backward, stage, micro_batch)) return;
    if (input || weight) {
      absent(Kind::input_gradient, "is not there, but its W is");
      absent(Kind::weight_gradient, "is not there, but its I is");
    } else if (!options_.forward_only) {
      absent(Kind::backward, "is not there, nor are I and W: the micro-batch is not back-propagated");
    }
  }
  // What passes between a stage and the next.
  void judge_messages(int stage, int micro_batch) {
    if (!has_messages_ || stage + 1 == schedule_.stages) return;
    const bool needed = !share_rank(stage, stage + 1);
    const bool backward =
        actions_.find_backward(stage + 1, micro_batch) >= 0 && actions_.find_backward(stage, micro_batch) >= 0;
    judge_message(Kind::send_forward, stage, micro_batch,
                  needed && actions_.has(Kind::forward, stage + 1, micro_batch));
    judge_message(Kind::send_backward, stage + 1, micro_batch, needed && backward);
    judge_message(Kind::send_metadata, stage, micro_batch, false);
  }
  void judge_message(Kind send, int stage, int micro_batch, bool needed) {
    const int other = stage + distance_to_peer(send);
    const bool sent = actions_.has(send, stage, micro_batch);
    const bool received = actions_.has(partner_of(send), other, micro_batch);
    if (!sent && (received || needed))
      find_missing(ProblemKind::missing_send, send, stage, micro_batch,
                   received ? "is not there, but its receive is" : "is not there: the next rank goes without");
    if (!received && (sent || needed))
      find_missing(ProblemKind::missing_receive, partner_of(send), other, micro_batch,
                   sent ? "is not there, but its send is" : "is not there: what comes after goes without");
  }
  void judge_reductions() {
    const auto is_reduced = [&](int stage) { return actions_.has(Kind::reduce_gradients, stage, 0); };
    bool any = false;
    for (int stage = 0; stage < schedule_.stages && !any; ++stage) any = is_reduced(stage);
    for (int stage = 0; stage < schedule_.stages && any; ++stage)
      if (!is_reduced(stage))
        find_missing(ProblemKind::missing, Kind::reduce_gradients, stage, kNoMicroBatch,
                     "is not there, but other stages are reduced");
  }

  void count_activations() {
    std::vector<int>& peaks = report_.result().peak_activations;
    for (int rank = 0; rank < actions_.ranks(); ++rank) {
      int live = 0, peak = 0, ended = 0;
      Index at_peak = kNone;
      for (Index i = actions_.begin(rank); i < actions_.end(rank); ++i) {
        const Action& action = actions_.at(rank, i);
        if (action.kind == Kind::forward) {
          if (++live > peak) peak = live, at_peak = i;
          if (options_.forward_only) ++ended;
        }
        if (action.kind == Kind::backward || action.kind == Kind::weight_gradient) ++ended;
        if (i + 1 == actions_.end_of_group(rank, i)) live -= std::exchange(ended, 0);
      }
      peaks.push_back(peak);
      const auto& limits = options_.activation_limits;
      if (!limits.empty() && peak > limits[static_cast<std::size_t>(rank)])
        find(ProblemKind::activations, at_peak, "{} activations are alive, the limit is {}", peak,
             limits[static_cast<std::size_t>(rank)]);
    }
  }

  // Computations alone, each waiting for that of the neighbouring stage.
  void prove_computations() {
    std::vector<Index> awaited(actions_.size(), kNone);
    for_each_action([&](int rank, Index index, const Action& action) {
      if (!counts(rank, action)) return;
      Index needed = kNone;
      if (action.kind == Kind::forward) needed = actions_.find(Kind::forward, action.stage - 1, action.micro_batch);
      if (is_backward(action.kind)) needed = actions_.find_backward(action.stage + 1, action.micro_batch);
      if (needed >= 0 && actions_.rank_of(needed) != rank) awaited[static_cast<std::size_t>(index)] = needed;
    });
    for (const Index index : doubled_) awaited[static_cast<std::size_t>(index)] = kNone;
    Execution execution(actions_, awaited, false);
    CheckReport& result = report_.result();
    result.deadlock_free_buffered = result.deadlock_free_rendezvous = execution.run();
    if (!result.deadlock_free_rendezvous)
      report_cycle(execution, ProblemKind::cycle, "the computations wait for each other");
    else if (report_.failed())  // cannot be lowered: not proved
      result.deadlock_free_buffered = result.deadlock_free_rendezvous = false;
    else if (has_neighbours_on_other_ranks())
      prove_lowered();
  }
  [[nodiscard]] bool has_neighbours_on_other_ranks() const {
    return std::ranges::adjacent_find(schedule_.stage_to_rank, std::ranges::not_equal_to()) !=
           schedule_.stage_to_rank.end();
  }
  void prove_lowered() {
    const Schedule lowered = lower(schedule_);
    CheckOptions options = options_;
    options.activation_limits.clear();  // lowering moves no computation
    CheckReport proof = Checker(lowered, options).run();
    CheckReport& result = report_.result();
    result.deadlock_free_buffered = proof.deadlock_free_buffered;
    result.deadlock_free_rendezvous = proof.deadlock_free_rendezvous;
    std::ranges::move(proof.problems, std::back_inserter(result.problems));
    result.omitted += proof.omitted;
    result.errors += proof.errors;
    result.warnings += proof.warnings;
  }

  void prove_messages() {
    meet_messages();
    judge_order();
    CheckReport& result = report_.result();
    const std::vector<Index> rendezvous = with_waits(std::move(partners_));
    Execution blocking(actions_, rendezvous, true);
    result.deadlock_free_rendezvous = blocking.run();
    result.deadlock_free_buffered = result.deadlock_free_rendezvous;
    if (result.deadlock_free_rendezvous) return;
    std::vector<Index> buffered = rendezvous;
    for_each_action([&](int, Index index, const Action& action) {
      if (is_send(action.kind) || is_send_wait(action.kind)) buffered[static_cast<std::size_t>(index)] = kNone;
    });
    Execution eager(actions_, buffered, true);
    result.deadlock_free_buffered = eager.run();
    if (!report_cycle(eager, ProblemKind::deadlock, "the ranks wait for each other, even when sends are buffered"))
      report_cycle(blocking, ProblemKind::deadlock, "the ranks wait for each other, unless sends are buffered");
  }
  // A send that is waited for is over at once; its wait is over when the receive is posted.
  std::vector<Index> with_waits(std::vector<Index> awaited) {
    for_each_action([&](int rank, Index index, const Action& action) {
      if (!is_send_wait(action.kind) || !counts(rank, action)) return;
      const Index send = actions_.find(waited_for(action.kind), action.stage, action.micro_batch);
      if (send < 0 || awaited[static_cast<std::size_t>(send)] < 0) return;
      awaited[static_cast<std::size_t>(index)] = std::exchange(awaited[static_cast<std::size_t>(send)], kNone);
    });
    return awaited;
  }
  bool report_cycle(const Execution& execution, ProblemKind kind, std::string_view words) {
    std::vector<Place> cycle = execution.cycle();
    if (cycle.empty()) return false;
    if (!report_.wants(kind)) return true;
    std::string text(words);
    for (const Place& place : cycle) {
      const Place awaited = actions_.place(execution.awaited_by(place));
      text += fmt::format("{} {} at position {} of rank {} waits for {} at position {} of rank {}",
                          &place == &cycle.front() ? ":" : ",", to_string(place.action), place.position, place.rank,
                          to_string(awaited.action), awaited.position, awaited.rank);
    }
    const Place first = cycle.front();
    report_.add(kind, first, std::move(text), std::move(cycle));
    return true;
  }

  // The other side of each message: of several of one name, the first meets the first.
  void meet_messages() {
    partners_.assign(actions_.size(), kNone);
    for_each_action([this](int rank, Index index, const Action& action) {
      if (!is_message(action.kind)) return;
      const int other = peer_stage(action);
      const Index partner =
          counts(rank, action) ? actions_.find(partner_of(action.kind), other, action.micro_batch) : kNone;
      partners_[static_cast<std::size_t>(index)] = partner >= 0 ? partner : kNever;
    });
    using Name = std::tuple<Kind, int, int>;  // of the send
    std::map<Name, std::array<std::vector<Index>, 2>> again;
    for (const Index index : doubled_) {
      const Action action = actions_.place(index).action;
      if (!is_message(action.kind)) continue;
      partners_[static_cast<std::size_t>(index)] = kNever;
      const bool sent = is_send(action.kind);
      const Name name{sent ? action.kind : partner_of(action.kind), sending_stage(action), action.micro_batch};
      again[name][sent ? 0 : 1].push_back(index);
    }
    for (const auto& [name, sides] : again)
      for (std::size_t i = 0; i < std::min(sides[0].size(), sides[1].size()); ++i) {
        partners_[static_cast<std::size_t>(sides[0][i])] = sides[1][i];
        partners_[static_cast<std::size_t>(sides[1][i])] = sides[0][i];
      }
  }

  // The index of a message between its two ranks, at both ends.
  void judge_order() {
    const auto ranks = static_cast<std::size_t>(actions_.ranks());
    std::vector<int> number(actions_.size(), 0), to(ranks, 0), from(ranks, 0);
    const auto peer_of = [this](const Action& action) {
      return static_cast<std::size_t>(rank_of_stage(peer_stage(action)));
    };
    const auto for_messages = [this](int rank, const auto& visit) {
      Index index = actions_.begin(rank);
      for (const Action& action : schedule_.ranks[static_cast<std::size_t>(rank)]) {
        if (partners_[static_cast<std::size_t>(index)] >= 0) visit(index, action);
        ++index;
      }
    };
    for (int rank = 0; rank < actions_.ranks(); ++rank) {
      for_messages(rank, [&](Index index, const Action& action) {
        number[static_cast<std::size_t>(index)] = (is_send(action.kind) ? to : from)[peer_of(action)]++;
      });
      for_messages(rank, [&](Index, const Action& action) { to[peer_of(action)] = from[peer_of(action)] = 0; });
    }
    const ProblemSeverity severity =
        options_.matching == Matching::fifo ? ProblemSeverity::error : ProblemSeverity::warning;
    std::vector<int> reported(ranks, kNone);  // by sender, the receiver of its last problem
    for (int rank = 0; rank < actions_.ranks(); ++rank)
      for_messages(rank, [&](Index index, const Action& action) {
        const Index sent = partners_[static_cast<std::size_t>(index)];
        const int at_end = number[static_cast<std::size_t>(index)], at_start = number[static_cast<std::size_t>(sent)];
        if (is_send(action.kind) || at_end == at_start || std::exchange(reported[peer_of(action)], rank) == rank)
          return;
        if (report_.wants(ProblemKind::fifo_order, severity))
          report_.add(ProblemKind::fifo_order, actions_.place(index),
                      fmt::format("is message {} that is received from rank {}, but message {} that is sent there",
                                  at_end, peer_of(action), at_start),
                      {}, severity);
      });
  }

  const Schedule& schedule_;
  const CheckOptions& options_;
  Report report_;
  Actions actions_;
  bool has_messages_ = false, has_waits_ = false;
  std::vector<Index> doubled_;   // actions whose name there is already
  std::vector<Index> partners_;  // of each message, its other side; kNever if it has none
};

}  // namespace

std::string_view name_of(ProblemKind kind) { return kProblemNames[static_cast<std::size_t>(kind)]; }

std::string_view name_of(ProblemSeverity severity) {
  return severity == ProblemSeverity::warning ? "warning" : "error";
}

std::string to_string(const Problem& problem) {
  const auto& [rank, position, action] = problem.place;
  const std::string where = position == kNoPosition ? std::string() : fmt::format(", position {}", position);
  return fmt::format("{} {}: rank {}{}, {}: {}", name_of(problem.severity), name_of(problem.kind), rank, where,
                     to_string(action), problem.message);
}

bool CheckReport::valid() const { return errors == 0; }

CheckReport check(const Schedule& schedule, const CheckOptions& options) {
  refuse_unless_schedule(schedule, options);
  return Checker(schedule, options).run();
}

}  // namespace plumbline::schedules

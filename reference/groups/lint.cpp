#include "reference/groups/lint.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <ranges>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::groups {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

std::string and_more(std::size_t count) { return count == 0 ? std::string() : fmt::format(" (and {} more)", count); }

struct HashOfRanks {
  std::size_t operator()(const std::vector<int>& ranks) const {
    comm::Fnv1a hash;
    for (const int rank : ranks) hash.add_word(static_cast<std::uint32_t>(rank));
    return hash.value();
  }
};

// Gives lists numbers, equal lists the same one.
class ListNumbers {
 public:
  std::size_t operator()(const std::vector<int>& ranks) {
    const auto [place, added] = numbers_.try_emplace(ranks, lists_.size());
    if (added) lists_.push_back(&place->first);
    return place->second;
  }
  [[nodiscard]] const std::vector<int>& operator[](std::size_t number) const { return *lists_[number]; }
  [[nodiscard]] std::size_t size() const { return lists_.size(); }

 private:
  std::unordered_map<std::vector<int>, std::size_t, HashOfRanks> numbers_;
  std::vector<const std::vector<int>*> lists_;  // a map's keys stay where they are
};

// One creation of one rank, as the simulation sees it.
struct Step {
  std::size_t list = 0;     // the list as given
  std::size_t members = 0;  // its members, whatever their order
  std::size_t mode = 0;
  int sequence = 0;
  bool lists_maker = false;
};

class Linter {
 public:
  Linter(const CreationLog& log, const LintOptions& options) : log_(log), options_(options) { number_all(); }

  LintReport report() {
    if (options_.rule == CreationRule::all_ranks)
      simulate_all_ranks();
    else
      simulate_members_only();
    if (options_.rule == CreationRule::members_only) check_strangers();
    check_lists();
    check_modes();
    return std::move(report_);
  }

 private:
  [[nodiscard]] std::size_t world() const { return log_.creations.size(); }
  [[nodiscard]] bool is_in_world(int rank) const { return static_cast<std::size_t>(rank) < world(); }  // none below 0
  [[nodiscard]] std::string text_of(const Step& step) const { return shown(lists_[step.list]); }
  void find(Severity severity, std::string kind, std::size_t rank, int sequence, std::string message) {
    report_.findings.push_back({.severity = severity,
                                .kind = std::move(kind),
                                .rank = static_cast<int>(rank),
                                .sequence = sequence,
                                .message = std::move(message)});
  }

  // Steps of every rank: equal lists get equal numbers, and so do lists of the same members.
  void number_all() {
    steps_.resize(world());
    for (std::size_t rank = 0; rank < world(); ++rank)
      for (const Creation& creation : log_.creations[rank]) {
        const std::size_t list = lists_(creation.ranks);
        if (list == members_of_.size()) members_of_.push_back(members_(distinct_members(creation.ranks)));
        const bool lists_maker = std::ranges::find(creation.ranks, static_cast<int>(rank)) != creation.ranks.end();
        steps_[rank].push_back({.list = list,
                                .members = members_of_[list],
                                .mode = number_of_mode(creation.mode),
                                .sequence = static_cast<int>(steps_[rank].size()),
                                .lists_maker = lists_maker});
      }
  }
  std::size_t number_of_mode(const std::string& mode) {
    const auto [place, added] = mode_numbers_.try_emplace(mode, modes_.size());
    if (added) modes_.push_back(&place->first);
    return place->second;
  }
  static std::vector<int> distinct_members(std::vector<int> ranks) {
    if (!std::ranges::is_sorted(ranks)) std::ranges::sort(ranks);
    const auto rest = std::ranges::unique(ranks);
    ranks.erase(rest.begin(), rest.end());
    return ranks;
  }

  // Ranks made one group together: do they mean the same? Lists are held against the first rank's, names against the
  // first name that is given.
  template <class Ranks, class StepOf>
  void compare(const Ranks& ranks, const StepOf& step_of) {
    const auto is_named = [&](auto rank) { return !modes_[step_of(rank).mode]->empty(); };
    const auto first = *std::ranges::begin(ranks);
    const auto found = std::ranges::find_if(ranks, is_named);
    const auto named = found == std::ranges::end(ranks) ? first : *found;
    for (const auto rank : ranks) {
      compare_lists(static_cast<std::size_t>(first), step_of(first), static_cast<std::size_t>(rank), step_of(rank));
      compare_modes(static_cast<std::size_t>(named), step_of(named), static_cast<std::size_t>(rank), step_of(rank));
    }
  }
  void compare_lists(std::size_t first, const Step& of_first, std::size_t other, const Step& of_other) {
    if (of_first.list == of_other.list || !reported_lists_.emplace(of_other.list, of_first.list).second) return;
    find(Severity::error, "member_order", other, of_other.sequence,
         fmt::format("gives the members as {}, rank {} in its creation {} as {}", text_of(of_other), first,
                     of_first.sequence, text_of(of_first)));
  }
  void compare_modes(std::size_t named, const Step& of_named, std::size_t other, const Step& of_other) {
    if (of_named.mode == of_other.mode || !reported_modes_.emplace(of_other.mode, of_named.mode).second) return;
    const std::string& own = *modes_[of_other.mode];
    find(own.empty() ? Severity::warning : Severity::error, "mode", other, of_other.sequence,
         fmt::format("{}, rank {} in its creation {} calls it '{}'",
                     own.empty() ? fmt::format("gives {} no name", text_of(of_other))
                                 : fmt::format("calls {} '{}'", text_of(of_other), own),
                     named, of_named.sequence, *modes_[of_named.mode]));
  }

  // Rule all_ranks: the n-th creations of all ranks meet.
  void simulate_all_ranks() {
    std::size_t longest = 0;
    for (const auto& steps : steps_) longest = std::max(longest, steps.size());
    for (std::size_t n = 0; n < longest; ++n) {
      const bool all_there = std::ranges::all_of(
          steps_, [&](const auto& steps) { return n < steps.size() && steps[n].members == steps_[0][n].members; });
      if (!all_there) return report_meeting(n);
      compare(std::views::iota(std::size_t{0}, world()),
              [&](std::size_t rank) -> const Step& { return steps_[rank][n]; });
    }
  }
  // Creation n is not the same on all ranks: who makes what most do not, and who makes none.
  void report_meeting(std::size_t n) {
    const std::size_t example = example_of(n);
    const Step& usual = steps_[example][n];
    const auto ends = [&](std::size_t rank) { return n >= steps_[rank].size(); };
    report_first(
        "order", n, [&](std::size_t rank) { return !ends(rank) && steps_[rank][n].members != usual.members; },
        [&](std::size_t rank) {
          return fmt::format("makes {} where rank {} makes {}", text_of(steps_[rank][n]), example, text_of(usual));
        });
    report_first("missing", n, ends, [&](std::size_t) {
      return fmt::format("makes nothing after {} creations, where rank {} waits for all to make {}", n, example,
                         text_of(usual));
    });
  }
  // The first rank that makes as its creation n what most do.
  [[nodiscard]] std::size_t example_of(std::size_t n) const {
    std::map<std::size_t, std::size_t> makers;
    for (const auto& steps : steps_)
      if (n < steps.size()) ++makers[steps[n].members];
    const std::size_t usual =
        std::ranges::max_element(makers, {}, [](const auto& entry) { return entry.second; })->first;
    std::size_t rank = 0;
    while (n >= steps_[rank].size() || steps_[rank][n].members != usual) ++rank;
    return rank;
  }
  // One error about creation n for all ranks with a fault, at the first of them.
  template <class HasFault, class Words>
  void report_first(const char* kind, std::size_t n, const HasFault& has_fault, const Words& words) {
    const auto ranks = std::views::iota(std::size_t{0}, world());
    const auto first = std::ranges::find_if(ranks, has_fault);
    if (first == ranks.end()) return;
    const auto count = static_cast<std::size_t>(std::ranges::count_if(ranks, has_fault));
    find(Severity::error, kind, *first, static_cast<int>(n), words(*first) + and_more(count - 1));
  }

  // Rule members_only: a group is made when all its members have reached it.
  void simulate_members_only() {
    at_.assign(world(), 0);
    arrived_.assign(members_.size(), 0);
    std::vector<std::size_t> moving(world());
    std::iota(moving.begin(), moving.end(), std::size_t{0});
    while (!moving.empty()) {
      const std::size_t rank = moving.back();
      moving.pop_back();
      skip_calls_of_others(rank);
      if (is_over(rank)) continue;
      const std::size_t group = current(rank).members;
      if (++arrived_[group] < members_[group].size()) continue;
      arrived_[group] = 0;
      complete(group, moving);
    }
    report_waits();
  }
  void skip_calls_of_others(std::size_t rank) {
    while (!is_over(rank) && !current(rank).lists_maker) ++at_[rank];
  }
  [[nodiscard]] bool is_over(std::size_t rank) const { return at_[rank] >= steps_[rank].size(); }
  [[nodiscard]] const Step& current(std::size_t rank) const { return steps_[rank][at_[rank]]; }
  // All members of the group are in the world: each of them has arrived.
  void complete(std::size_t group, std::vector<std::size_t>& moving) {
    compare(members_[group], [this](int member) -> const Step& { return current(static_cast<std::size_t>(member)); });
    for (const int member : members_[group]) {
      const auto rank = static_cast<std::size_t>(member);
      ++at_[rank];
      moving.push_back(rank);
    }
  }

  // Whether a rank will never come to the group that `step` makes: it is outside the world, or has no more creations.
  [[nodiscard]] bool never_comes(int rank) const {
    return !is_in_world(rank) || is_over(static_cast<std::size_t>(rank));
  }
  // The member for which a waiting rank waits: one that never comes, if there is any, else one that is elsewhere.
  [[nodiscard]] int awaited_by(std::size_t rank) const {
    const std::size_t group = current(rank).members;
    const std::vector<int>& members = members_[group];
    const auto absent = std::ranges::find_if(members, [this](int member) { return never_comes(member); });
    if (absent != members.end()) return *absent;
    return *std::ranges::find_if(
        members, [&](int member) { return current(static_cast<std::size_t>(member)).members != group; });
  }

  // Each waiting rank waits for one: chains of them end in a rank that never comes, or in a cycle.
  void report_waits() {
    std::vector<std::size_t> next(world(), kNone);  // for whom a rank waits that waits itself
    std::map<int, std::vector<std::size_t>> waiters_of_absent;
    for (std::size_t rank = 0; rank < world(); ++rank) {
      if (is_over(rank)) continue;
      const int awaited = awaited_by(rank);
      if (never_comes(awaited))
        waiters_of_absent[awaited].push_back(rank);
      else
        next[rank] = static_cast<std::size_t>(awaited);
    }
    std::vector<std::size_t> seen(world(), kNone);  // from which start
    for (std::size_t start = 0; start < world(); ++start) {
      std::size_t rank = start;
      while (next[rank] != kNone && seen[rank] == kNone) {
        seen[rank] = start;
        rank = next[rank];
      }
      if (seen[rank] == start) report_cycle(rank, next);
    }
    for (const auto& [absent, waiters] : waiters_of_absent) report_absent(absent, waiters);
  }
  void report_cycle(std::size_t start, const std::vector<std::size_t>& next) {
    std::vector<int> cycle;
    std::size_t rank = start;
    do {
      cycle.push_back(static_cast<int>(rank));
      report_pair(rank, next[rank]);
      rank = next[rank];
    } while (rank != start);
    find(Severity::error, "cycle", start, current(start).sequence,
         fmt::format("waits in a cycle: each of ranks {} waits for the next, the last for the first", shown(cycle)));
  }
  // A rank waits for another one, which waits elsewhere: does that one make the group later, or never?
  void report_pair(std::size_t rank, std::size_t other) {
    const Step& wanted = current(rank);
    const auto& rest = steps_[other];
    const auto later = std::find_if(rest.begin() + static_cast<std::ptrdiff_t>(at_[other]), rest.end(),
                                    [&](const Step& step) { return step.members == wanted.members; });
    const std::string there = fmt::format("makes {} where rank {}, in its creation {}, waits for it in {}",
                                          text_of(current(other)), rank, wanted.sequence, text_of(wanted));
    if (later == rest.end())
      find(Severity::error, "missing", other, current(other).sequence, there + ", which it never makes");
    else
      find(Severity::error, "order", other, current(other).sequence,
           fmt::format("{}, which it makes as its creation {}", there, later->sequence));
  }
  void report_absent(int absent, const std::vector<std::size_t>& waiters) {
    const std::size_t first = waiters.front();
    const Step& wanted = current(first);
    const std::string more = and_more(waiters.size() - 1);
    if (!is_in_world(absent))
      find(Severity::error, "missing", first, wanted.sequence,
           fmt::format("in {} waits for rank {}, which is not in the world of {} ranks{}", text_of(wanted), absent,
                       world(), more));
    else
      find(Severity::error, "missing", static_cast<std::size_t>(absent), -1,
           fmt::format("makes nothing after {} creations, where rank {}, in its creation {}, waits for it in {}{}",
                       steps_[static_cast<std::size_t>(absent)].size(), first, wanted.sequence, text_of(wanted), more));
  }

  // members_only: a log either has a line for each group that its rank is not in, or for none. A group that some of the
  // ranks outside it make, and others do not, is perhaps a list that lacks its maker.
  void check_strangers() {
    struct Strangers {
      std::size_t first = kNone, latest = kNone, count = 0;
      int sequence = 0;
    };
    std::vector<Strangers> strangers(members_.size());
    for (std::size_t rank = 0; rank < world(); ++rank)
      for (const Step& step : steps_[rank]) {
        Strangers& of_group = strangers[step.members];
        if (step.lists_maker || of_group.latest == rank) continue;
        if (of_group.count++ == 0) of_group.first = rank, of_group.sequence = step.sequence;
        of_group.latest = rank;
      }
    for (std::size_t group = 0; group < strangers.size(); ++group) {
      const Strangers& found = strangers[group];
      const std::vector<int>& members = members_[group];
      const auto inside =
          static_cast<std::size_t>(std::ranges::count_if(members, [this](int member) { return is_in_world(member); }));
      if (found.count > 0 && found.count < world() - inside)
        find(Severity::warning, "stranger", found.first, found.sequence,
             fmt::format("makes {}, which does not list it{}; not all ranks outside the group do", shown(members),
                         and_more(found.count - 1)));
    }
  }

  // What is wrong with a list in itself, once for each list, at the first rank that makes it.
  void check_lists() {
    std::vector<bool> checked(lists_.size());
    for (std::size_t rank = 0; rank < world(); ++rank)
      for (const Step& step : steps_[rank]) {
        if (checked[step.list]) continue;
        checked[step.list] = true;
        check_list(rank, step);
      }
  }
  void check_list(std::size_t rank, const Step& step) {
    const std::vector<int>& members = members_[step.members];
    const auto refuse = [&](const char* kind, std::string words) {
      find(Severity::error, kind, rank, step.sequence, std::move(words));
    };
    if (members.empty()) return refuse("empty", "makes a group without ranks");
    if (members.size() != lists_[step.list].size()) refuse("repeated", text_of(step) + " has a rank twice");
    if (!is_in_world(members.front()) || !is_in_world(members.back()))
      refuse("range", fmt::format("{} leaves the world of {} ranks", text_of(step), world()));
  }

  // Whether the groups of each mode are disjoint, and cover the world; and whether any group has a rank at all.
  void check_modes() {
    std::vector<std::vector<std::size_t>> groups(modes_.size());  // of each mode: member lists, each once
    std::unordered_set<std::uint64_t> known;
    for (const auto& steps : steps_)
      for (const Step& step : steps)
        if (known.insert(std::uint64_t{step.mode} * members_.size() + step.members).second)
          groups[step.mode].push_back(step.members);
    check_overlaps();
    std::vector<std::size_t> covered(world(), kNone);  // by which mode, the latest that was looked at
    std::vector<std::size_t> all;
    for (std::size_t mode = 0; mode < modes_.size(); ++mode) {
      all.insert(all.end(), groups[mode].begin(), groups[mode].end());
      if (!modes_[mode]->empty() && !options_.partial_modes.contains(*modes_[mode]))
        check_cover(groups[mode], covered, mode, Severity::error, "cover",
                    fmt::format("is in no group of mode '{}'", *modes_[mode]));
    }
    if (!all.empty()) check_cover(all, covered, modes_.size(), Severity::warning, "absent", "is in no group");
  }
  // A rank in two groups of a mode; the first such rank of each mode is named.
  void check_overlaps() {
    std::vector<bool> found(modes_.size());
    std::vector<std::pair<std::size_t, const Step*>> latest(modes_.size(), {kNone, nullptr});  // rank, its first group
    for (std::size_t rank = 0; rank < world(); ++rank)
      for (const Step& step : steps_[rank]) {
        auto& [owner, first] = latest[step.mode];
        if (!step.lists_maker || modes_[step.mode]->empty() || found[step.mode]) continue;
        if (owner != rank) {
          owner = rank;
          first = &step;
        } else if (first->members != step.members) {
          found[step.mode] = true;
          find(Severity::error, "overlap", rank, step.sequence,
               fmt::format("is in two groups of mode '{}': {} of its creation {}, and {}", *modes_[step.mode],
                           text_of(*first), first->sequence, text_of(step)));
        }
      }
  }
  // Marks the members in `covered`: linear in the ranks listed, whatever the world's size. The first rank without a
  // mark is no farther than there are marks.
  void check_cover(const std::vector<std::size_t>& groups, std::vector<std::size_t>& covered, std::size_t mark,
                   Severity severity, const char* kind, const std::string& words) {
    std::size_t marked = 0;
    for (const std::size_t group : groups)
      for (const int member : members_[group]) {
        const auto rank = static_cast<std::size_t>(member);
        if (!is_in_world(member) || covered[rank] == mark) continue;
        covered[rank] = mark;
        ++marked;
      }
    if (marked == world()) return;
    const auto first = std::ranges::find_if(covered, [mark](std::size_t of) { return of != mark; });
    find(severity, kind, static_cast<std::size_t>(first - covered.begin()), -1, words + and_more(world() - marked - 1));
  }

  const CreationLog& log_;
  const LintOptions& options_;
  ListNumbers lists_;
  ListNumbers members_;
  std::vector<std::size_t> members_of_;  // by list
  std::unordered_map<std::string, std::size_t> mode_numbers_;
  std::vector<const std::string*> modes_;
  std::vector<std::vector<Step>> steps_;
  std::vector<std::size_t> at_;       // members_only: each rank's step
  std::vector<std::size_t> arrived_;  // members_only: how many members wait, by member list
  std::set<std::pair<std::size_t, std::size_t>> reported_lists_;
  std::set<std::pair<std::size_t, std::size_t>> reported_modes_;
  LintReport report_;
};

}  // namespace

std::string_view name_of(Severity severity) { return severity == Severity::error ? "error" : "warning"; }

bool LintReport::valid() const { return std::ranges::count(findings, Severity::error, &Finding::severity) == 0; }

LintReport lint(const CreationLog& log, const LintOptions& options) { return Linter(log, options).report(); }

}  // namespace plumbline::groups

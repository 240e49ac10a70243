// Parallel contexts with one wrong step. Each is the smallest change that a real fault would make.
#include <algorithm>
#include <map>
#include <memory>

#include <fcntl.h>
#include <unistd.h>

#include "conformance/groups/groups_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "harness/mutants/wrong_steps.hpp"
#include "reference/comm/errors.hpp"
#include "reference/groups/parallel_context.hpp"

namespace plumbline::mutants {

using comm::Communicator;
using comm::Timeout;
using groups::ContextSteps;
using groups::Creation;
using groups::LiveGroups;
using groups::Plan;

namespace {

using Creations = std::vector<Creation>;
using Ranks = std::span<const int>;

void agree_on_nothing(Communicator&, int, const Creations&, Timeout) {}

bool lists(const Creation& creation, int rank) { return std::ranges::count(creation.ranks, rank) > 0; }

std::vector<int> sorted(Ranks ranks) {
  std::vector<int> list(ranks.begin(), ranks.end());
  std::ranges::sort(list);
  return list;
}

// ---- which groups are made ----

/// Steps whose plan is changed alike on all ranks.
MakeSteps planning(std::function<void(Creations& creations, const Plan& plan)> change) {
  return with([change = std::move(change)](ContextSteps& steps) {
    steps.order = [change](const Plan& plan, int) {
      Creations creations = plan.creations;
      change(creations, plan);
      return creations;
    };
  });
}
/// Steps whose plan is changed on some ranks, which nobody looks at.
MakeSteps walking(std::function<void(Creations& creations, int rank, const Plan& plan)> change) {
  return with([change = std::move(change)](ContextSteps& steps) {
    steps.agree = agree_on_nothing;
    steps.order = [change](const Plan& plan, int rank) {
      Creations creations = plan.creations;
      change(creations, rank, plan);
      return creations;
    };
  });
}

// The i-th rank of each stretch, in place of a stretch.
void model_strided(Creations& creations, const Plan& plan) {
  std::vector<Creation*> models;
  for (Creation& creation : creations)
    if (creation.mode == "model") models.push_back(&creation);
  for (std::size_t i = 0; i < models.size(); ++i) {
    int rank = static_cast<int>(i);
    for (int& member : models[i]->ranks) {
      member = rank;
      rank = std::min(rank + static_cast<int>(models.size()), plan.world_size - 1);
    }
  }
}

void data_and_pipeline_swapped(Creations& creations, const Plan&) {
  for (Creation& creation : creations) {
    if (creation.mode == "data")
      creation.mode = "pipeline";
    else if (creation.mode == "pipeline")
      creation.mode = "data";
  }
}

void singletons_left_out(Creations& creations, const Plan&) {
  std::erase_if(creations, [](const Creation& creation) { return creation.ranks.size() == 1; });
}

void own_only(Creations& creations, int rank, const Plan&) {
  std::erase_if(creations, [rank](const Creation& creation) { return !lists(creation, rank); });
}

void shared_stages_ascend(Creations& creations, const Plan&) {
  for (Creation& creation : creations)
    if (creation.mode == "SHARED_MODULE") std::ranges::sort(creation.ranks);
}

// One group for all copies of a module.
void shared_by_all_copies(Creations& creations, const Plan&) {
  Creation all{.mode = "SHARED_MODULE", .ranks = {}};
  for (const Creation& creation : creations)
    if (creation.mode == all.mode) all.ranks.insert(all.ranks.end(), creation.ranks.begin(), creation.ranks.end());
  std::erase_if(creations, [&](const Creation& creation) { return creation.mode == all.mode; });
  creations.push_back(all);
}

bool has_mode(const Creations& creations, const char* mode) {
  return std::ranges::count(creations, mode, &Creation::mode) > 0;
}

// The last rank makes no columns where there are stages.
void columns_forgotten_on_one_rank(Creations& creations, int rank, const Plan& plan) {
  if (rank == plan.world_size - 1 && has_mode(creations, "PIPELINE"))
    std::erase_if(creations, [](const Creation& creation) { return creation.mode == "PARALLEL_2D_COL"; });
}

// All ranks take rows for columns.
void square_transposed(Creations& creations, int, const Plan&) {
  for (Creation& creation : creations)
    if (creation.mode == "PARALLEL_2D_ROW")
      creation.mode = "PARALLEL_2D_COL";
    else if (creation.mode == "PARALLEL_2D_COL")
      creation.mode = "PARALLEL_2D_ROW";
}

// A rank that is alone on its node sees no use in groups of nodes.
MakeSteps local_decision() {
  return with([](ContextSteps& steps) {
    steps.order = [](const Plan& plan, int rank) {
      Creations creations = plan.creations;
      const bool alone = std::ranges::any_of(
          creations, [rank](const Creation& creation) { return creation.ranks == std::vector{rank}; });
      if (alone) std::erase_if(creations, [](const Creation& creation) { return creation.mode == "NODE"; });
      return creations;
    };
  });
}

// ---- agreement ----

using Agree = decltype(ContextSteps::agree);
MakeSteps agreeing(Agree agree) {
  return with([agree = std::move(agree)](ContextSteps& steps) { steps.agree = agree; });
}

void last_rank_alone_told(Communicator& parent, int world_size, const Creations& creations, Timeout timeout) {
  try {
    groups::agree_on(parent, world_size, creations, timeout);
  } catch (const comm::MismatchError&) {
    if (parent.rank() == parent.size() - 1) throw;
  }
}

void difference_without_place(Communicator& parent, int world_size, const Creations& creations, Timeout timeout) {
  try {
    groups::agree_on(parent, world_size, creations, timeout);
  } catch (const comm::MismatchError&) {
    throw comm::MismatchError("groups: the ranks' plans differ");
  }
}

void order_not_compared(Communicator& parent, int world_size, Creations creations, Timeout timeout) {
  std::ranges::sort(creations, {}, [](const Creation& creation) { return std::pair(creation.mode, creation.ranks); });
  groups::agree_on(parent, world_size, creations, timeout);
}

void modes_not_compared(Communicator& parent, int world_size, Creations creations, Timeout timeout) {
  for (Creation& creation : creations) creation.mode = "A";
  groups::agree_on(parent, world_size, creations, timeout);
}

void size_not_compared(Communicator& parent, int, const Creations& creations, Timeout timeout) {
  groups::agree_on(parent, parent.size(), creations, timeout);
}

void empty_lists_passed_over(Communicator& parent, int world_size, Creations creations, Timeout timeout) {
  std::erase_if(creations, [](const Creation& creation) { return creation.ranks.empty(); });
  groups::agree_on(parent, world_size, creations, timeout);
}

void limit_forgotten(Communicator& parent, int world_size, const Creations& creations, Timeout) {
  groups::agree_on(parent, world_size, creations, {});
}

// ---- communicators ----

std::unique_ptr<Communicator> create_sorted(Communicator& parent, Ranks ranks) {
  return parent.create_group(sorted(ranks));
}

// Lists of all ranks are handed on as they are, others are sorted.
std::unique_ptr<Communicator> create_subsets_sorted(Communicator& parent, Ranks ranks) {
  return static_cast<int>(ranks.size()) == parent.size() ? parent.create_group(ranks) : create_sorted(parent, ranks);
}

// Calls of a group whose list was made before go to the first one.
class SharesFirst final : public comm::CommunicatorDecorator {
 public:
  SharesFirst(std::unique_ptr<Communicator> inner, SharesFirst* first)
      : CommunicatorDecorator(std::move(inner)), used_(first == nullptr ? *this : *first) {}

 private:
  void do_run(const comm::Call& call, Timeout timeout) override { used_.CommunicatorDecorator::do_run(call, timeout); }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    return used_.CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override { return group; }
  SharesFirst& used_;  // made before, so released after
};

MakeSteps one_tag_for_a_list() {
  return with([](ContextSteps& steps) {
    steps.create = [made = std::make_shared<std::map<std::vector<int>, SharesFirst*>>()](
                       Communicator& parent, Ranks ranks) -> std::unique_ptr<Communicator> {
      SharesFirst*& first = (*made)[{ranks.begin(), ranks.end()}];
      auto group = std::make_unique<SharesFirst>(parent.create_group(ranks), first);
      if (first == nullptr) first = group.get();
      return group;
    };
  });
}

// ---- lookups ----

std::size_t unknown_is_the_first(const LiveGroups& groups, const std::vector<std::string>& modes,
                                 std::string_view mode) {
  if (std::ranges::count(modes, mode) == 0) return 0;
  return groups::find_by_name(groups, modes, mode);
}

std::size_t without_a_part_is_the_first(const LiveGroups& groups, const std::vector<std::string>& modes,
                                        std::string_view mode) {
  try {
    return groups::find_by_name(groups, modes, mode);
  } catch (const StateError&) {
    return 0;
  }
}

using Neighbour = decltype(ContextSteps::neighbour);
MakeSteps neighbouring(Neighbour neighbour) {
  return with([neighbour = std::move(neighbour)](ContextSteps& steps) { steps.neighbour = neighbour; });
}

int no_wrap_around(Ranks ranks, int local_rank, int distance) {
  return ranks[static_cast<std::size_t>(std::clamp(local_rank + distance, 0, static_cast<int>(ranks.size()) - 1))];
}

int neighbour_of_sorted(Ranks ranks, int local_rank, int distance) {
  const std::vector<int> ascending = sorted(ranks);
  const auto place = std::ranges::find(ascending, ranks[static_cast<std::size_t>(local_rank)]) - ascending.begin();
  return groups::neighbour_around(ascending, static_cast<int>(place), distance);
}

int previous_is_next(Ranks ranks, int local_rank, int distance) {
  return groups::neighbour_around(ranks, local_rank, std::abs(distance));
}

// ---- translations and roots ----

MakeSteps bad_translate() {
  return with([](ContextSteps& steps) {
    steps.to_world_rank = [](Ranks ranks, int group_rank) { return groups::world_rank_of(sorted(ranks), group_rank); };
  });
}
MakeSteps bad_translate_back() {
  return with([](ContextSteps& steps) {
    steps.to_group_rank = [](Ranks ranks, int world_rank) { return groups::group_rank_of(sorted(ranks), world_rank); };
  });
}

// A world rank is passed on as it is where the group has so many ranks.
MakeSteps local_root() {
  return with([](ContextSteps& steps) {
    steps.to_group_rank = [](Ranks ranks, int world_rank) {
      const int right = groups::group_rank_of(ranks, world_rank);
      return world_rank < static_cast<int>(ranks.size()) ? world_rank : right;
    };
  });
}

MakeSteps rooted(decltype(ContextSteps::root) root) {
  return with([root = std::move(root)](ContextSteps& steps) { steps.root = root; });
}

// ---- lifetimes ----

// Keeps groups for as long as the steps live.
MakeSteps leak() {
  return with([](ContextSteps& steps) {
    steps.release = [kept = std::make_shared<std::vector<LiveGroups>>()](LiveGroups groups) {
      kept->push_back(std::move(groups));
    };
  });
}

class Descriptors {
 public:
  ~Descriptors() {
    for (const int descriptor : open_) close(descriptor);
  }
  // No more than a process may have.
  void open_one() {
    if (open_.size() < 20) open_.push_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }

 private:
  std::vector<int> open_;
};

MakeSteps leak_descriptors() {
  return with([](ContextSteps& steps) {
    steps.release = [kept = std::make_shared<Descriptors>(), released = std::make_shared<int>()](LiveGroups groups) {
      if (++*released % 100 == 0) kept->open_one();
      groups::release_in_reverse(std::move(groups));
    };
  });
}

std::vector<Mutant> plan_faults() {
  return {
      {"grp.model_strided", "GROUP-001", "a model group takes each n-th rank in place of a stretch",
       "the formula for data groups, copied: GRP-01", "groups.modes.members[convention=colossalai,sizes=3x2x1,world=6]",
       "groups.modes.members[convention=colossalai,sizes=1x3x1,world=3]", "each model group has one rank",
       planning(model_strided)},
      {"grp.data_along_pipeline", "GROUP-001", "data groups go along the pipeline, and pipelines along the data axis",
       "axes swapped in a list of arguments", "groups.modes.members[convention=megatron,sizes=2x3x1,world=6]",
       "groups.modes.members[convention=megatron,sizes=1x1x2,world=2]", "both have one rank",
       planning(data_and_pipeline_swapped)},
      {"grp.singletons_left_out", "GROUP-002", "groups of one rank are not made",
       "TOP-08: an axis of size 1 without a group", "groups.plans.members[plan=alone,world=3]",
       "groups.plans.members[plan=strided,world=4]", "no group has one rank", planning(singletons_left_out)},
      {"grp.shared_stages_ascend", "GROUP-035", "the members of a shared module's group are in the order of stages",
       "GRP-02", "groups.modes.shared_modules[stages=last_and_first,sizes=3x1x1,world=3]",
       "groups.modes.shared_modules[stages=first_and_last,sizes=3x1x1,world=3]", "the stages are given so",
       planning(shared_stages_ascend)},
      {"grp.shared_by_all_copies", "GROUP-035", "all data and tensor copies of a shared module have one group",
       "a group made from the stages alone: GRP-01",
       "groups.modes.shared_modules[stages=first_and_last,sizes=2x3x1,world=6]",
       "groups.modes.shared_modules[stages=first_and_last,sizes=2x1x1,world=2]", "there is one copy",
       planning(shared_by_all_copies)},
      {"grp.init_hang", "GROUP-005", "the last rank leaves out the columns of a square where there are stages",
       "GRP-11", "groups.modes.every_geometry[geometry=p2_2d,world=8]",
       "groups.modes.every_geometry[geometry=2d,world=4]", "there is one stage",
       walking(columns_forgotten_on_one_rank)},
      {"grp.square_transposed", "GROUP-005", "rows and columns of a square have each other's communicators",
       "which edge is walked first", "groups.modes.every_geometry[geometry=2d,world=4]",
       "groups.modes.every_geometry[geometry=3d,world=8]", "a cube has neither", walking(square_transposed)},
      {"grp.own_only", "GROUP-015", "a rank walks through its own groups alone", "GRP-01",
       "groups.creation.log[plan=stages,world=3]", "groups.creation.log[plan=whole,world=3]",
       "every group has every rank", walking(own_only)},
      {"grp.local_decision", "GROUP-016", "a rank that is alone on its node makes no groups of nodes", "GRP-09",
       "groups.creation.nodes[nodes=uneven,world=3]", "groups.creation.nodes[nodes=even,world=4]",
       "no node has one rank", local_decision()},
  };
}

std::vector<Mutant> agreement_faults() {
  const std::string same = "groups.agreement.different_plans[difference=none,odd=last,world=3]";
  return {
      {"grp.no_agreement", "GROUP-011", "ranks do not look at each other's plans",
       "GRP-01: each rank makes what it has to, and waits",
       "groups.agreement.different_plans[difference=reversed,odd=last,world=3]", same, "the plans are the same",
       agreeing(agree_on_nothing)},
      {"grp.last_rank_alone_told", "GROUP-011", "the last rank alone is told of a difference",
       "each rank compares itself with rank 0", "groups.agreement.different_plans[difference=order,odd=last,world=3]",
       same, "the plans are the same", agreeing(last_rank_alone_told)},
      {"grp.difference_without_place", "GROUP-011", "the error says that plans differ, and not where",
       "a comparison of hashes alone", "groups.agreement.different_plans[difference=members,odd=first,world=3]", same,
       "the plans are the same", agreeing(difference_without_place)},
      {"grp.order_not_compared", "GROUP-011", "plans are compared as sets", "GRP-01: the same groups in another order",
       "groups.agreement.different_plans[difference=order,odd=first,world=4]",
       "groups.agreement.different_plans[difference=one_less,odd=first,world=4]", "the sets differ, too",
       agreeing(order_not_compared)},
      {"grp.modes_not_compared", "GROUP-011", "plans are compared without the names of their modes",
       "a hash of lists alone", "groups.agreement.different_plans[difference=mode,odd=last,world=4]", same,
       "the plans are the same", agreeing(modes_not_compared)},
      {"grp.world_mismatch", "GROUP-012", "the size that a plan is for is not compared with the communicator's",
       "GRP-12", "groups.agreement.world_sizes[expects=more,who=all,world=3]",
       "groups.agreement.world_sizes[expects=same,who=all,world=3]", "they are equal", agreeing(size_not_compared)},
      {"grp.empty_crash", "GROUP-013", "an empty list is passed over", "GRP-07",
       "groups.agreement.bad_plans[fault=empty,who=all,world=3]",
       "groups.agreement.bad_plans[fault=rank_twice,who=all,world=3]", "the list has ranks",
       agreeing(empty_lists_passed_over)},
      {"grp.limit_forgotten", "GROUP-014", "the limit of the agreement is not handed on",
       "COL-08: half an hour of waiting for one rank", "groups.agreement.absent_rank[world=3]", "",
       "a rank that does not come is waited for in every case", agreeing(limit_forgotten)},
  };
}

std::vector<Mutant> lookup_faults() {
  const std::string alone = "groups.modes.neighbours[sizes=1x1x1,world=1]";
  return {
      {"grp.sort_ranks", "GROUP-003", "groups are made from the sorted list", "GRP-02",
       "groups.plans.order[list=descending,world=3]", "groups.plans.order[list=whole,world=3]", "the list ascends",
       with([](ContextSteps& steps) { steps.create = create_sorted; })},
      {"grp.sort_ranks_of_subsets", "GROUP-003", "groups of some ranks are made from the sorted list", "GRP-02",
       "groups.plans.order[list=some_of_them,world=4]", "groups.plans.order[list=descending,world=3]",
       "the list has all ranks", with([](ContextSteps& steps) { steps.create = create_subsets_sorted; })},
      {"grp.same_tag", "GROUP-004", "a list that was made before gives the first mode's communicator", "GRP-10",
       "groups.plans.concurrent[pair=same_list,world=2]", "groups.plans.concurrent[pair=overlapping,world=3]",
       "the lists differ", one_tag_for_a_list()},
      {"grp.no_wrap_around", "GROUP-006", "the last rank of a group is its own next one",
       "REF-03: pairs without the last", "groups.modes.neighbours[sizes=3x1x1,world=3]", alone,
       "a rank alone is its own neighbour", neighbouring(no_wrap_around)},
      {"grp.previous_is_next", "GROUP-006", "the previous rank is the next one", "TOP-12: a formula without its sign",
       "groups.modes.neighbours[sizes=3x2x1,world=6]", "groups.modes.neighbours[sizes=2x1x1,world=2]",
       "of two ranks the next is the previous", neighbouring(previous_is_next)},
      {"grp.neighbour_of_sorted", "GROUP-006", "neighbours are looked up in the sorted list", "GRP-02",
       "groups.ranks.neighbours[list=interleaved,world=4]", "groups.ranks.neighbours[list=odd,world=4]",
       "the list ascends", neighbouring(neighbour_of_sorted)},
      {"grp.fallback_world", "GROUP-007", "an unknown mode is taken for the first, of all ranks", "GRP-03",
       "groups.modes.lookup[asked=unknown,world=3]", "groups.modes.lookup[asked=known,world=3]", "the mode is known",
       with([](ContextSteps& steps) { steps.find = unknown_is_the_first; })},
      {"grp.fallback_without_a_part", "GROUP-007", "a rank without a part in a mode gets the group of all ranks",
       "GRP-03", "groups.modes.lookup[asked=without_a_part,world=3]", "groups.modes.lookup[asked=unknown,world=3]",
       "the mode is unknown", with([](ContextSteps& steps) { steps.find = without_a_part_is_the_first; })},
      {"grp.bad_translate", "GROUP-008", "positions are looked up in the sorted list", "GRP-06",
       "groups.ranks.translation[list=descending,world=3]", "groups.ranks.translation[list=odd,world=4]",
       "the list ascends", bad_translate()},
      {"grp.bad_translate_back", "GROUP-008", "a rank's position is that in the sorted list", "GRP-06",
       "groups.ranks.translation[list=interleaved,world=4]", "groups.ranks.translation[list=without_first,world=4]",
       "the list ascends", bad_translate_back()},
      {"grp.local_root", "GROUP-009", "a root, which is a rank of the world, is taken for a position in the group",
       "GRP-04", "groups.roots.named[list=odd,world=4]", "groups.roots.named[list=whole,world=4]",
       "positions are ranks of the world", local_root()},
      {"grp.root_zero", "GROUP-010", "initial values come from rank 0 of the world", "GRP-05",
       "groups.roots.initial_values[list=without_first,world=3]", "groups.roots.initial_values[list=whole,world=3]",
       "rank 0 is the first member", rooted([](Ranks) { return 0; })},
      {"grp.root_lowest", "GROUP-010", "initial values come from the lowest rank", "GRP-05: a list taken for sorted",
       "groups.roots.initial_values[list=descending,world=3]", "groups.roots.initial_values[list=odd,world=4]",
       "the first member is the lowest", rooted([](Ranks ranks) { return std::ranges::min(ranks); })},
      {"grp.fails_in_silence", "GROUP-036", "a rank that fails tells nobody", "GRP-11: an exception on one rank",
       "groups.agreement.failing_rank[stage=log,world=3]", "groups.agreement.failing_rank[stage=log,world=1]",
       "nobody waits for it",
       with([](ContextSteps& steps) { steps.give_up = [](Communicator&, const std::string&) {}; })},
      {"grp.leak", "GROUP-017", "groups are kept when their context goes", "GRP-08",
       "groups.lifetime.cycles[groups=two,world=2]", "", "every cycle makes groups", leak(), "plain", "plain",
       Sanitized::measured},
      {"grp.leak_descriptors", "GROUP-017", "a file stays open after some contexts", "GRP-08",
       "groups.lifetime.cycles[groups=one,world=2]", "", "every cycle makes groups", leak_descriptors()},
  };
}

}  // namespace

std::vector<Mutant> context_mutants() {
  std::vector<Mutant> all = plan_faults();
  for (const auto kind : {agreement_faults, lookup_faults}) std::ranges::move(kind(), std::back_inserter(all));
  return all;
}

}  // namespace plumbline::mutants

// Communicators whose groups are wrong.
#include <algorithm>
#include <map>
#include <numeric>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::Communicator;
using comm::CommunicatorDecorator;
using comm::Operation;

namespace {

// In these a group holds on to what it was made from, which outlives it in every check.

// all_reduce of a group goes to its parent.
class UsesParent final : public CommunicatorDecorator {
 public:
  explicit UsesParent(std::unique_ptr<Communicator> inner, UsesParent* parent = nullptr)
      : CommunicatorDecorator(std::move(inner)), parent_(parent) {}

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    UsesParent& group = parent_ != nullptr && call.operation == Operation::all_reduce ? *parent_ : *this;
    group.CommunicatorDecorator::do_run(call, timeout);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<UsesParent>(std::move(group), this);
  }
  UsesParent* parent_;
};

// Messages of a group travel as its parent's.
class SharesMessages final : public CommunicatorDecorator {
 public:
  explicit SharesMessages(std::unique_ptr<Communicator> inner, SharesMessages* parent = nullptr)
      : CommunicatorDecorator(std::move(inner)), parent_(parent) {}

 private:
  [[nodiscard]] bool goes_to_parent(const Call& call) const {
    return parent_ != nullptr && is_point_to_point(call.operation);
  }
  [[nodiscard]] Call as_parents(Call call) const {
    const std::vector<int>& parents = parent_->group().ranks;
    call.root = static_cast<int>(std::ranges::find(parents, group().ranks[static_cast<std::size_t>(call.root)]) -
                                 parents.begin());
    return call;
  }
  void do_run(const Call& call, comm::Timeout timeout) override {
    if (goes_to_parent(call)) return parent_->CommunicatorDecorator::do_run(as_parents(call), timeout);
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const Call> calls) override {
    if (!std::ranges::all_of(calls, [this](const Call& call) { return goes_to_parent(call); }))
      return CommunicatorDecorator::do_start(calls);
    std::vector<Call> parents;
    for (const Call& call : calls) parents.push_back(as_parents(call));
    return parent_->CommunicatorDecorator::do_start(parents);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<SharesMessages>(std::move(group), this);
  }
  SharesMessages* parent_;
};

// A list that was made before gives the first group again.
class SameList final : public CommunicatorDecorator {
 public:
  explicit SameList(std::unique_ptr<Communicator> inner, SameList* parent = nullptr, SameList* first = nullptr)
      : CommunicatorDecorator(std::move(inner)), parent_(parent), first_(first) {
    if (parent_ != nullptr && first_ == nullptr) parent_->groups_[group().ranks] = this;
  }
  ~SameList() override {
    if (parent_ != nullptr && first_ == nullptr) parent_->groups_.erase(group().ranks);
  }

 private:
  SameList& used() { return first_ != nullptr ? *first_ : *this; }
  void do_run(const Call& call, comm::Timeout timeout) override { used().CommunicatorDecorator::do_run(call, timeout); }
  comm::Work do_start(std::span<const Call> calls) override { return used().CommunicatorDecorator::do_start(calls); }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    const auto made = groups_.find(group->group().ranks);
    return std::make_unique<SameList>(std::move(group), this, made == groups_.end() ? nullptr : made->second);
  }
  SameList* parent_;
  SameList* first_;
  std::map<std::vector<int>, SameList*> groups_;
};

// Groups have their ranks sorted, from a depth of nesting on.
class Sorted final : public CommunicatorDecorator {
 public:
  Sorted(std::unique_ptr<Communicator> inner, int right_levels)
      : CommunicatorDecorator(std::move(inner)), right_levels_(right_levels) {}

 private:
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    const std::vector<int>& ranks = group->group().ranks;
    const int levels = std::max(0, right_levels_ - 1);
    if (right_levels_ > 0 || std::ranges::is_sorted(ranks)) return std::make_unique<Sorted>(std::move(group), levels);
    std::vector<int> order(ranks.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int member) { return ranks[static_cast<std::size_t>(member)]; });
    return std::make_unique<Sorted>(group->create_group(order), levels);
  }
  int right_levels_;
};

// A group of one divides an average by the size of its parent.
class OneByParent final : public CommunicatorDecorator {
 public:
  explicit OneByParent(std::unique_ptr<Communicator> inner, int parent_size = 1)
      : CommunicatorDecorator(std::move(inner)), parent_size_(parent_size) {}

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    CommunicatorDecorator::do_run(call, timeout);
    if (size() != 1 || !is_reduction(call.operation) || call.op != comm::ReduceOp::avg ||
        call.dtype() != comm::DType::f32)
      return;
    change_all<float>(call.out, [this](float value) { return value / static_cast<float>(parent_size_); });
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<OneByParent>(std::move(group), size());
  }
  int parent_size_;
};

Wrap sorted_below(int right_levels) {
  return [right_levels](std::unique_ptr<Communicator> inner) {
    return std::make_unique<Sorted>(std::move(inner), right_levels);
  };
}

// The root is looked up as a rank of the world.
After root_in_world_ranks(Call& call, const Place& place) {
  const std::vector<int>& ranks = place.group.group().ranks;
  const auto found = std::ranges::find(ranks, call.root);
  if (call.operation == Operation::broadcast && found != ranks.end())
    call.root = static_cast<int>(found - ranks.begin());
  return {};
}

// A group with calls under way cannot be split.
class SplitsIdleGroups final : public Plain<SplitsIdleGroups> {
 public:
  using Plain::Plain;

 private:
  class CountedWork final : public WrappedWork {
   public:
    CountedWork(comm::Work inner, std::shared_ptr<int> under_way)
        : WrappedWork(std::move(inner)), under_way_(std::move(under_way)) {
      ++*under_way_;
    }
    ~CountedWork() override { --*under_way_; }
    CountedWork(const CountedWork&) = delete;
    CountedWork& operator=(const CountedWork&) = delete;

   private:
    std::shared_ptr<int> under_way_;
  };
  comm::Work do_start(std::span<const Call> calls) override {
    return comm::Work(std::make_unique<CountedWork>(Plain::do_start(calls), under_way_));
  }
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override {
    if (*under_way_ > 0) throw RuntimeFailure("create_group: the communicator is still at work");
    return Plain::do_create_group(ranks);
  }
  std::shared_ptr<int> under_way_ = std::make_shared<int>(0);  // a Work may outlive its communicator
};

}  // namespace

std::vector<Mutant> group_mutants() {
  return {
      {"col.average_of_one_by_parent", "COLL-013", "a group of one divides an average by the size of its parent",
       "RED-01: the wrong group's size", "collectives.one_rank.identity[place=out,world=3]",
       "collectives.one_rank.identity[place=out,world=1]", "the parent has one rank, too", wrap_in<OneByParent>},
      {"col.group_uses_parent", "COLL-031", "all_reduce of a group goes to its parent", "GRP-03",
       "collectives.groups.members_only[shape=strided,world=4]", "collectives.groups.order[world=3]",
       "the group has all members of its parent", wrap_in<UsesParent>},
      {"col.splits_idle_groups", "COLL-153", "a group with outstanding calls cannot be split",
       "NCCL: ncclCommSplit of a communicator with operations outstanding",
       "collectives.groups.created_beside_calls[world=3]", "collectives.groups.nested[world=4]",
       "no call is outstanding", wrap_in<SplitsIdleGroups>},
      {"col.groups_sorted", "COLL-032", "a group's ranks are sorted, whatever the list's order", "GRP-02",
       "collectives.groups.order[world=3]", "collectives.groups.members_only[shape=strided,world=4]",
       "the lists are ascending", sorted_below(0)},
      {"col.root_in_world_ranks", "COLL-033", "a root is taken for a rank of the world", "GRP-04",
       "collectives.groups.roots_and_peers[world=4]", "collectives.groups.roots_and_peers[world=3]",
       "of the members [2 1], world rank 1 is member 1 by chance, and there is no world rank 0",
       with_fault(root_in_world_ranks)},
      {"col.nested_groups_sorted", "COLL-034", "a group made from a group has its ranks sorted", "GRP-06",
       "collectives.groups.nested[world=5]", "collectives.groups.order[world=5]",
       "groups of the world keep their order", sorted_below(1)},
      {"col.same_list_same_group", "COLL-035", "a list that was made before gives the first group again", "GRP-10",
       "collectives.groups.never_meet[world=2]", "collectives.groups.order[world=3]", "no list comes twice",
       wrap_in<SameList>},
      {"col.groups_share_messages", "COLL-046", "messages of a group travel as its parent's", "GRP-10",
       "collectives.messages.groups_apart[world=2]", "collectives.messages.tags[world=2]", "there is one group",
       wrap_in<SharesMessages>},
  };
}

}  // namespace plumbline::mutants

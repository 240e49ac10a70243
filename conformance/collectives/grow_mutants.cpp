// Faults of groups that take in ranks which were no members.
#include <algorithm>
#include <utility>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::Communicator;
using comm::CommunicatorDecorator;
using comm::PeerFailed;

namespace {

// A decorator that changes the group which members and newcomers get.
template <class Self>
class GrownOtherwise : public Plain<Self> {
 public:
  using Plain<Self>::Plain;

 private:
  std::unique_ptr<Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers) override {
    return Self::changed(Plain<Self>::do_grow(invitation, newcomers), std::ssize(newcomers));
  }
  std::unique_ptr<Communicator> do_join(const std::string& invitation, std::span<const int> newcomers) override {
    return Self::changed(Plain<Self>::do_join(invitation, newcomers), std::ssize(newcomers));
  }
};

class GrowsInOrderOfWorld final : public GrownOtherwise<GrowsInOrderOfWorld> {
 public:
  using GrownOtherwise::GrownOtherwise;
  static std::unique_ptr<Communicator> changed(std::unique_ptr<Communicator> grown, std::ptrdiff_t /*newcomers*/) {
    std::vector<int> order(static_cast<std::size_t>(grown->size()));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::ranges::sort(order, {}, [&](int rank) { return grown->group().ranks[static_cast<std::size_t>(rank)]; });
    return grown->create_group(order);
  }
};

class PutsNewcomersFirst final : public GrownOtherwise<PutsNewcomersFirst> {
 public:
  using GrownOtherwise::GrownOtherwise;
  static std::unique_ptr<Communicator> changed(std::unique_ptr<Communicator> grown, std::ptrdiff_t newcomers) {
    std::vector<int> order(static_cast<std::size_t>(grown->size()));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::ranges::rotate(order, order.end() - newcomers);
    return grown->create_group(order);
  }
};

// Averages are divided by the size that the member's first group had.
class DividesBySizeBefore final : public CommunicatorDecorator {
 public:
  explicit DividesBySizeBefore(std::unique_ptr<Communicator> inner, int divisor = 0)
      : CommunicatorDecorator(std::move(inner)), divisor_(divisor == 0 ? size() : divisor) {}

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    CommunicatorDecorator::do_run(call, timeout);
    if (!is_reduction(call.operation) || call.op != comm::ReduceOp::avg || call.dtype() != comm::DType::f32) return;
    if (call.uses_out(rank()))
      change_all<float>(call.out,
                        [&](float value) { return value * static_cast<float>(size()) / static_cast<float>(divisor_); });
  }
  std::unique_ptr<Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers) override {
    return std::make_unique<DividesBySizeBefore>(inner().grow(invitation, newcomers), size());
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<DividesBySizeBefore>(std::move(group));
  }
  int divisor_;
};

// As a communicator whose resources went to the larger one.
class GrowingEndsTheOld final : public Plain<GrowingEndsTheOld> {
 public:
  using Plain::Plain;

 private:
  std::unique_ptr<Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers) override {
    has_grown_ = true;
    return Plain::do_grow(invitation, newcomers);
  }
  void do_run(const Call& call, comm::Timeout timeout) override {
    if (has_grown_) throw PeerFailed("the group has grown and is no more");
    Plain::do_run(call, timeout);
  }
  bool has_grown_ = false;
};

// What was made from a group that had failed cannot take in anybody.
class ShrunkGroupsDoNotGrow final : public CommunicatorDecorator {
 public:
  explicit ShrunkGroupsDoNotGrow(std::unique_ptr<Communicator> inner, bool is_shrunk = false)
      : CommunicatorDecorator(std::move(inner)), is_shrunk_(is_shrunk) {}

 private:
  std::string do_invite() override {
    if (is_shrunk_) throw RuntimeFailure("invite: the group has no root that newcomers could reach");
    return CommunicatorDecorator::do_invite();
  }
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    return std::make_unique<ShrunkGroupsDoNotGrow>(inner().shrink(excluded), true);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<ShrunkGroupsDoNotGrow>(std::move(group));
  }
  bool is_shrunk_;
};

}  // namespace

std::vector<Mutant> grow_mutants() {
  const char* const kNccl = "NCCL 2.29: ncclCommGrow";
  const char* const kForms = "collectives.grow.forms_a_group[newcomers=one,world=3]";
  const char* const kStays = "collectives.grow.old_group_stays[world=3]";
  return {
      {"col.grows_in_order_of_world", "COLL-150",
       "the members of a grown group are ordered by their ranks in the world", "torchelastic: ranks are given anew",
       kForms, kStays, "the results of sums do not depend on the order", wrap_in<GrowsInOrderOfWorld>},
      {"col.puts_newcomers_first", "COLL-150", "newcomers come before the members", "MPI_Intercomm_merge with high = 0",
       kForms, kStays, "the results of sums do not depend on the order", wrap_in<PutsNewcomersFirst>},
      {"col.divides_by_size_before", "COLL-150",
       "members divide an average on a grown group by the size of the old one",
       "horovod elastic: a size that was read once", kForms, kStays, "it has no average", wrap_in<DividesBySizeBefore>},
      {"col.growing_ends_the_old", "COLL-151", "calls on a group that has grown fail", kNccl, kStays, kForms,
       "the old group is not used any more", wrap_in<GrowingEndsTheOld>},
      {"col.shrunk_groups_do_not_grow", "COLL-152", "a group that was shrunk invites nobody", kNccl,
       "collectives.grow.replaces_a_member[world=4]", kForms, "no member has ended", wrap_in<ShrunkGroupsDoNotGrow>},
  };
}

}  // namespace plumbline::mutants

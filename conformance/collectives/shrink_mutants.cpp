// Faults of groups whose members end.
#include <algorithm>
#include <regex>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::Communicator;
using comm::CommunicatorDecorator;
using comm::PeerFailed;
using comm::Work;

namespace {

// Names no rank, as an error of a socket does.
class EndIsNameless final : public Plain<EndIsNameless> {
 public:
  using Plain::Plain;

 private:
  static void nameless(const auto& action) {
    try {
      action();
    } catch (const PeerFailed&) {
      throw PeerFailed("connection reset by peer");
    }
  }
  class NamelessWork final : public WrappedWork {
   public:
    using WrappedWork::WrappedWork;
    void wait(comm::Timeout timeout) override {
      nameless([&] { WrappedWork::wait(timeout); });
    }
  };
  void do_run(const Call& call, comm::Timeout timeout) override {
    nameless([&] { Plain::do_run(call, timeout); });
  }
  Work do_start(std::span<const Call> calls) override {
    return Work(std::make_unique<NamelessWork>(Plain::do_start(calls)));
  }
};

// Names the rank after the one that has ended.
class NamesTheNext final : public Plain<NamesTheNext> {
 public:
  using Plain::Plain;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    try {
      Plain::do_run(call, timeout);
    } catch (const PeerFailed& error) {
      static const std::regex left("rank ([0-9]+) has left");
      const std::string words = error.what();
      std::smatch found;
      if (!std::regex_search(words, found, left)) throw;
      throw PeerFailed("rank " + std::to_string((std::stoi(found[1]) + 1) % size()) + " has ended");
    }
  }
};

// As MPI_Comm_create_group does: a parent that has failed has no groups.
class ShrinksSoundGroupsOnly final : public Plain<ShrinksSoundGroupsOnly> {
 public:
  using Plain::Plain;

 private:
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    return Plain::do_create_group(ranks_without(excluded));
  }
};

// Orders the ranks that are left by their ranks in the world.
class ShrinksInOrderOfWorld final : public Plain<ShrinksInOrderOfWorld> {
 public:
  using Plain::Plain;

 private:
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    const auto left = Plain::do_shrink(excluded);
    std::vector<int> order(static_cast<std::size_t>(left->size()));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    std::ranges::sort(order, {}, [&](int rank) { return left->group().ranks[static_cast<std::size_t>(rank)]; });
    return left->create_group(order);
  }
};

// Averages are divided by the number of members that the first group had.
class DividesByOldSize final : public CommunicatorDecorator {
 public:
  explicit DividesByOldSize(std::unique_ptr<Communicator> inner, int divisor = 0)
      : CommunicatorDecorator(std::move(inner)), divisor_(divisor == 0 ? size() : divisor) {}

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    CommunicatorDecorator::do_run(call, timeout);
    if (!is_reduction(call.operation) || call.op != comm::ReduceOp::avg || call.dtype() != comm::DType::f32) return;
    if (call.uses_out(rank()))
      change_all<float>(call.out,
                        [&](float value) { return value * static_cast<float>(size()) / static_cast<float>(divisor_); });
  }
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    auto left = CommunicatorDecorator::do_shrink(excluded);
    return std::make_unique<DividesByOldSize>(std::move(left), size());
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<DividesByOldSize>(std::move(group));
  }
  int divisor_;
};

// The first all_reduce of a shape on a shrunk group takes what the caller gave an outstanding one on the old group.
class AddsOldInput final : public CommunicatorDecorator {
 public:
  using Inputs = std::vector<std::vector<std::byte>>;
  explicit AddsOldInput(std::unique_ptr<Communicator> inner, Inputs old = {})
      : CommunicatorDecorator(std::move(inner)), old_(std::move(old)) {}

 private:
  Work do_start(std::span<const Call> calls) override {
    for (const Call& call : calls)
      if (call.operation == comm::Operation::all_reduce) {
        const auto* const begin = static_cast<const std::byte*>(call.in.data);
        outstanding_.emplace_back(begin, begin + call.in.bytes());
      }
    return CommunicatorDecorator::do_start(calls);
  }
  void do_run(const Call& call, comm::Timeout timeout) override {
    const auto old = call.operation != comm::Operation::all_reduce
                         ? old_.end()
                         : std::ranges::find_if(old_, [&](const auto& one) { return one.size() == call.in.bytes(); });
    if (old == old_.end()) return CommunicatorDecorator::do_run(call, timeout);
    const std::vector<std::byte> input = std::move(*old);
    old_.erase(old);
    Call changed = call;
    changed.in.data = input.data();
    CommunicatorDecorator::do_run(changed, timeout);
  }
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    return std::make_unique<AddsOldInput>(inner().shrink(excluded), outstanding_);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<AddsOldInput>(std::move(group));
  }
  Inputs old_, outstanding_;
};

// A group that was shrunk cannot be shrunk.
class ShrinksOnce final : public CommunicatorDecorator {
 public:
  explicit ShrinksOnce(std::unique_ptr<Communicator> inner, bool is_shrunk = false)
      : CommunicatorDecorator(std::move(inner)), is_shrunk_(is_shrunk) {}

 private:
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    if (is_shrunk_) throw RuntimeFailure("shrink: the group has no resources left to share");
    return std::make_unique<ShrinksOnce>(inner().shrink(excluded), true);
  }
  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<ShrinksOnce>(std::move(group));
  }
  bool is_shrunk_;
};

// Leaves out one member at a time.
class ExcludesTheFirstOnly final : public Plain<ExcludesTheFirstOnly> {
 public:
  using Plain::Plain;

 private:
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    return Plain::do_shrink(excluded.first(1));
  }
};

// After a shrink that failed, the group cannot be shrunk at all.
class OneShrinkAGroup final : public Plain<OneShrinkAGroup> {
 public:
  using Plain::Plain;

 private:
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    if (std::exchange(has_tried_, true)) throw PeerFailed("shrink: the group has failed");
    return Plain::do_shrink(excluded);
  }
  bool has_tried_ = false;
};

// Groups that are not told of a member that has left stay closed.
class AbortIsFinal final : public Plain<AbortIsFinal> {
 public:
  using Plain::Plain;

 private:
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    if (is_aborted_) throw PeerFailed("shrink: the group was aborted");
    return Plain::do_shrink(excluded);
  }
  void do_run(const Call& call, comm::Timeout timeout) override {
    try {
      Plain::do_run(call, timeout);
    } catch (const PeerFailed& error) {
      is_aborted_ = std::string(error.what()).find("has left") == std::string::npos;
      throw;
    }
  }
  bool is_aborted_ = false;
};

}  // namespace

std::vector<Mutant> shrink_mutants() {
  const char* const kUlfm = "ULFM: MPIX_Comm_shrink";
  const char* const kNccl = "NCCL 2.27: ncclCommShrink";
  const char* const kForms = "collectives.shrink.forms_a_group[ends=middle,world=3]";
  return {
      {"col.end_is_nameless", "COLL-115", "the error after a member has ended names no rank", "an error of a socket",
       "collectives.shrink.error_names_the_ended[call=started,world=3]", kForms, "no name is needed there",
       wrap_in<EndIsNameless>},
      {"col.end_names_the_next", "COLL-115", "the error after a member has ended names the next one",
       "a rank counted from 1", "collectives.shrink.error_names_the_ended[call=all_reduce,world=5]",
       "collectives.shrink.error_names_the_ended[call=started,world=5]", "the call does not block",
       wrap_in<NamesTheNext>},
      {"col.shrinks_sound_groups_only", "COLL-116", "a group that has failed cannot be shrunk",
       "MPI-3.1 section 6.4.2: MPI_Comm_create_group", kForms, "",
       "nothing hides it: every check of shrink has a group that has failed", wrap_in<ShrinksSoundGroupsOnly>},
      {"col.shrinks_in_order_of_world", "COLL-116", "the members that are left are ordered by their ranks in the world",
       kUlfm, kForms, "collectives.shrink.after_abort[abort=before,world=3]", "the old group had that order",
       wrap_in<ShrinksInOrderOfWorld>},
      {"col.divides_by_old_size", "COLL-116", "an average on a shrunk group is divided by the size of the old one",
       "horovod elastic: a size that was read once", kForms, "collectives.shrink.nothing_of_the_old_group[world=3]",
       "it has no average", wrap_in<DividesByOldSize>},
      {"col.adds_old_input", "COLL-117", "a shrunk group reduces the inputs of a call that its parent had outstanding",
       kNccl, "collectives.shrink.nothing_of_the_old_group[world=3]", kForms, "no call is outstanding there",
       wrap_in<AddsOldInput>},
      {"col.shrinks_once", "COLL-118", "a shrunk group cannot be shrunk", kNccl,
       "collectives.shrink.again[second=later,world=4]", "collectives.shrink.again[second=together,world=4]",
       "both are left out at once", wrap_in<ShrinksOnce>},
      {"col.excludes_the_first_only", "COLL-118", "of the ranks to leave out, the first alone is left out", kNccl,
       "collectives.shrink.again[second=together,world=5]", kForms, "one has ended", wrap_in<ExcludesTheFirstOnly>},
      {"col.one_shrink_a_group", "COLL-118", "a group whose shrink failed cannot be shrunk", kUlfm,
       "collectives.shrink.again[second=meanwhile,world=4]", "collectives.shrink.again[second=later,world=4]",
       "each group is shrunk once", wrap_in<OneShrinkAGroup>},
      {"col.abort_is_final", "COLL-119", "a group that was aborted cannot be shrunk", "ULFM: MPIX_Comm_revoke",
       "collectives.shrink.after_abort[abort=before,world=3]", kForms, "nobody aborts", wrap_in<AbortIsFinal>},
  };
}

}  // namespace plumbline::mutants

// reference/groups/parallel_context.hpp: a rank's communicators, made from a plan, and looked up by mode.
//
// Model   All ranks of the parent construct a context from the same plan. They first agree on it, then each walks the
//         plan in its order and makes the groups that list it. A mode is looked up by name; its communicator, ranks,
//         local rank and neighbours are those of the group that lists this rank. No mode falls back to another, or to
//         the world.
// Agree   Ranks exchange the size that they expect, the number of creations and a hash of all of them. Where they
//         differ, a search by prefix hashes finds the first creation that does, and both lists are sent to all: every
//         rank throws the same MismatchError, with the creation's number, the ranks and both lists. Every exchange has
//         a limit: a rank that never comes ends in a TimeoutError that names it.
// Roots   First ranks and arguments are world ranks; to_group_rank() and to_world_rank() translate, both ways, in group
//         order.
// Cost    Agreement: an all-gather of 32 bytes a rank when all agree, log2(creations) + 5 small calls more when not.
//         Groups are freed, in reverse order, with the context.
// Threads As Communicator: one thread at a time for each mode; the context's own lookups may be used by several.
// Failure A rank that throws before the agreement, or while it makes its groups, aborts the parent: the others get
//         PeerFailed at once where the backend detects failures, else TimeoutError at the communicator's own limit,
//         which is also that of each creation: Communicator::create_group() takes none. What was made is released, the
//         last made first. An error of the agreement itself comes to all members, and leaves the parent as it is.
// Errors  NotFound: an unknown mode, naming the known ones. StateError: a mode in which this rank has no part.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/groups/plan.hpp"

namespace plumbline::groups {

/// A group that this rank is in: a creation of the plan, and the communicator that was made of it.
struct LiveGroup {
  Creation creation;
  std::unique_ptr<comm::Communicator> communicator;
};
using LiveGroups = std::vector<LiveGroup>;

struct ContextOptions {
  /// The limit of each exchange of the agreement, not of the creations; nothing means the communicator's own.
  comm::Timeout timeout{};
  /// Takes a line of JSON (without its end) for each creation that this rank walks through, all of them before the
  /// ranks agree: what the linter reads, also of a program that then fails. The groups without this rank are among
  /// them; no call is made for them.
  std::function<void(const std::string& line)> log;
  /// The number of the first such line: next_sequence() of the context before, where a program makes several.
  int first_sequence = 0;
};

class ParallelContext {
 public:
  /// Collective over the parent, which must outlive the construction, and be the plan's world: its ranks are the
  /// plan's. Throws what the log and Communicator::create_group() throw, and the same error on all ranks unless all
  /// have the same valid plan for the parent's size: MismatchError with the first difference, InvalidArgument, or
  /// TimeoutError.
  ParallelContext(comm::Communicator& parent, Plan plan, const ContextOptions& options = {});
  ~ParallelContext();
  ParallelContext(const ParallelContext&) = delete;
  ParallelContext& operator=(const ParallelContext&) = delete;

  [[nodiscard]] const Plan& plan() const { return plan_; }
  /// This rank, in the parent.
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int world_size() const { return plan_.world_size; }
  /// The plan's modes, in the order in which they are first made.
  [[nodiscard]] const std::vector<std::string>& modes() const { return modes_; }
  /// Whether this rank has a part in a mode; false for an unknown one.
  [[nodiscard]] bool has(std::string_view mode) const;
  /// The first sequence number that the log has not used.
  [[nodiscard]] int next_sequence() const { return next_sequence_; }
  /// The groups that this rank is in, in creation order.
  [[nodiscard]] const LiveGroups& groups() const { return groups_; }

  // Of the group of a mode that this rank is in. All throw NotFound and StateError.
  [[nodiscard]] comm::Communicator& communicator(std::string_view mode) const;
  [[nodiscard]] int local_rank(std::string_view mode) const;
  [[nodiscard]] int size(std::string_view mode) const;
  /// World ranks in group order.
  [[nodiscard]] const std::vector<int>& ranks(std::string_view mode) const;
  /// World ranks, around the end: a group of one is its own neighbour.
  [[nodiscard]] int next(std::string_view mode) const;
  [[nodiscard]] int previous(std::string_view mode) const;
  /// The world rank from which the group takes initial values.
  [[nodiscard]] int root(std::string_view mode) const;
  /// Also throws InvalidArgument for a rank that is no member.
  [[nodiscard]] int to_group_rank(std::string_view mode, int world_rank) const;
  /// Also throws OutOfRange.
  [[nodiscard]] int to_world_rank(std::string_view mode, int group_rank) const;

  /// Broadcasts within the group; the root is a world rank. Collective over it.
  void broadcast(std::string_view mode, comm::Buffer buffer, int root_world_rank, comm::Timeout timeout = {}) const;
  /// The same from root(mode): what initial parameters and inputs come by.
  void broadcast_initial(std::string_view mode, comm::Buffer buffer, comm::Timeout timeout = {}) const;

 private:
  [[nodiscard]] const LiveGroup& group_of(std::string_view mode) const;
  void or_give_up(comm::Communicator& parent, const std::function<void()>& stage);
  void log_creations(const std::function<void(const std::string& line)>& log);
  void create_groups(comm::Communicator& parent);
  void release();

  Plan plan_;
  int rank_;
  std::vector<std::string> modes_;
  int next_sequence_;
  LiveGroups groups_;
};

}  // namespace plumbline::groups

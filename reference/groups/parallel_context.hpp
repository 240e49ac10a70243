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
//         last made first. An error of the agreement itself comes to all alike, and leaves the parent as it is.
// Steps   What a wrong program gets wrong is a function in ContextSteps; a value made without arguments is right.
// Errors  NotFound: an unknown mode, naming those that there are. StateError: a mode in which this rank has no part.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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

/// Throws the same InvalidArgument on all ranks, naming the first rank and both numbers, unless all expect the size
/// that the communicator has. Collective: an all-gather of 8 bytes, under the limit. Throws TimeoutError, naming who
/// did not come.
void check_world_size(comm::Communicator& parent, int expected, comm::Timeout timeout = {});

/// The plan with a group of all ranks, mode "GLOBAL", before its own creations.
[[nodiscard]] Plan with_global(Plan plan);

// The right steps, by name.

/// All creations of the plan, in its order: also those without the rank, which it notes and passes over.
[[nodiscard]] std::vector<Creation> creations_in_order(const Plan& plan, int rank);
/// Throws the same error on all ranks unless all are to make `creations` in the same order, of a valid plan for the
/// parent's size: MismatchError with the first difference; InvalidArgument with both sizes, or with what is wrong in a
/// creation. Collective over the parent. Throws TimeoutError.
void agree_on(comm::Communicator& parent, int world_size, const std::vector<Creation>& creations,
              comm::Timeout timeout);
/// Parent's group of these ranks, in the given order. Collective over them alone.
[[nodiscard]] std::unique_ptr<comm::Communicator> create_in_given_order(comm::Communicator& parent,
                                                                        std::span<const int> ranks);
/// The position, in `groups`, of the last group of a mode. Throws NotFound for a mode that is not among `modes`, naming
/// them, and StateError where none of `groups` has it.
[[nodiscard]] std::size_t find_by_name(const LiveGroups& groups, const std::vector<std::string>& modes,
                                       std::string_view mode);
/// The world rank `distance` places after `local_rank`, around the end. `distance` may be negative.
[[nodiscard]] int neighbour_around(std::span<const int> ranks, int local_rank, int distance);
/// The world rank from which a group takes initial values: its first member.
[[nodiscard]] int first_member(std::span<const int> ranks);
/// The position of a world rank in a group. Throws InvalidArgument, naming rank and list, where it is not a member.
[[nodiscard]] int group_rank_of(std::span<const int> ranks, int world_rank);
/// The world rank at a position of a group. Throws OutOfRange.
[[nodiscard]] int world_rank_of(std::span<const int> ranks, int group_rank);
/// Aborts the parent, so that all of its ranks get PeerFailed(reason) where the backend can reach them.
void abort_parent(comm::Communicator& parent, const std::string& reason);
/// Frees the groups, the last made first.
void release_in_reverse(LiveGroups groups);

/// The steps of a context that a wrong program gets wrong.
struct ContextSteps {
  /// The creations that a rank walks through, in its order.
  std::function<std::vector<Creation>(const Plan& plan, int rank)> order = creations_in_order;
  /// Makes sure that all ranks are about to do the same. Collective over the parent.
  std::function<void(comm::Communicator& parent, int world_size, const std::vector<Creation>& creations,
                     comm::Timeout timeout)>
      agree = agree_on;
  /// Makes a group that this rank is in. Collective over its members.
  std::function<std::unique_ptr<comm::Communicator>(comm::Communicator& parent, std::span<const int> ranks)> create =
      create_in_given_order;
  /// The group that a mode's name stands for.
  std::function<std::size_t(const LiveGroups& groups, const std::vector<std::string>& modes, std::string_view mode)>
      find = find_by_name;
  /// The next (+1) and the previous (-1) world rank of a group.
  std::function<int(std::span<const int> ranks, int local_rank, int distance)> neighbour = neighbour_around;
  /// Whose initial values a group takes, as a world rank.
  std::function<int(std::span<const int> ranks)> root = first_member;
  /// World rank to position in the group, and back.
  std::function<int(std::span<const int> ranks, int world_rank)> to_group_rank = group_rank_of;
  std::function<int(std::span<const int> ranks, int group_rank)> to_world_rank = world_rank_of;
  /// Tells the other ranks that this one goes no further.
  std::function<void(comm::Communicator& parent, const std::string& reason)> give_up = abort_parent;
  /// Ends the groups' lives.
  std::function<void(LiveGroups groups)> release = release_in_reverse;
};

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
  /// plan's. Throws as ContextSteps::agree and Communicator::create_group() do, and what the log throws.
  ParallelContext(comm::Communicator& parent, Plan plan, ContextSteps steps = {}, ContextOptions options = {});
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
  void create_all(comm::Communicator& parent, const std::vector<Creation>& creations);

  Plan plan_;
  ContextSteps steps_;
  int rank_;
  std::vector<std::string> modes_;
  int next_sequence_;
  LiveGroups groups_;
};

}  // namespace plumbline::groups

// harness/subject/plugin/group.hpp: a group of the plugin's, shared by a communicator and the calls that it started.
//
// Model   The plugin's group is freed with the last that needs it, so that a Work may outlive its communicator. An
//         abort reaches the groups created from this one. Of a plugin without abort() it fails them in this process
//         only, and does not end a call that is under way.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/subject/invitation.hpp"
#include "harness/subject/plugin/job.hpp"

namespace plumbline::subject::plugin {

class Group {
 public:
  /// The world of the job's first `ranks` ranks. Collective over them.
  [[nodiscard]] static std::shared_ptr<Group> world(std::shared_ptr<Job> job, int ranks);
  /// A group of members of this one, given as positions in it. Collective over them. Throws Unsupported where the
  /// plugin has no create_group.
  [[nodiscard]] std::shared_ptr<Group> create(std::span<const int> ranks);
  /// The group of those members that are left; this one may have failed, and been aborted.
  [[nodiscard]] std::shared_ptr<Group> shrink(std::span<const int> ranks);
  /// The words for those who take part when it grows.
  [[nodiscard]] std::string invite();
  /// The group of all members and of newcomers; a newcomer, who has none, joins it.
  [[nodiscard]] std::shared_ptr<Group> grow(const Invitation& invitation, std::span<const int> newcomers);
  [[nodiscard]] static std::shared_ptr<Group> join(std::shared_ptr<Job> job, const Invitation& invitation,
                                                   std::span<const int> newcomers);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  const std::shared_ptr<Job> job;
  const comm::Group identity;
  const int rank;
  const int size;

  [[nodiscard]] plumbline_group* handle() const { return handle_; }
  /// Throws PeerFailed after an abort that the plugin does not know of.
  void expect_sound() const;
  /// Any thread.
  void abort(const std::string& reason) noexcept;
  // Memory of calls (memory.cpp). deallocate() gives back what allocate() gave out; what is left goes with the group.
  [[nodiscard]] std::uint64_t register_memory(void* memory, std::size_t bytes);
  void deregister(std::uint64_t registration);
  [[nodiscard]] void* allocate(std::size_t bytes);
  void deallocate(void* memory);
  /// "all_reduce(f32 x 5, sum) on world [0 1], rank 0".
  [[nodiscard]] std::string where(const comm::Call& call) const { return where(describe(call, size)); }
  [[nodiscard]] std::string where(const std::string& call) const;

 private:
  using CreateFunction = decltype(plumbline_backend::create_group);
  Group(std::shared_ptr<Job> job, comm::Group identity);
  /// Has the plugin create its group by that function; `parent` is null for a world.
  void create_handle(CreateFunction function, const Group* parent, std::span<const int> parent_ranks);
  [[nodiscard]] static std::shared_ptr<Group> grown(std::shared_ptr<Job> job, Group* old, const Invitation& invitation,
                                                    std::span<const int> newcomers);
  [[nodiscard]] plumbline_group_info info() const;
  void make_handle(const std::function<plumbline_status(plumbline_group**, plumbline_error*)>& function);
  void add_subgroup(const std::shared_ptr<Group>& group);
  /// To a group made from this one: an abort while it was made has not met it.
  void pass_on_abort(Group& made) const;
  /// A group of that list, which is told from others by its origin and by how many of them there are.
  [[nodiscard]] std::shared_ptr<Group> form(CreateFunction function, std::uint64_t origin, std::span<const int> ranks);
  [[nodiscard]] std::string where() const;

  plumbline_group* handle_ = nullptr;
  std::set<void*> allocated_;  // and not given back
  std::atomic<bool> is_aborted_{false};
  mutable std::mutex mutex_;
  std::string reason_;
  std::vector<std::weak_ptr<Group>> subgroups_;
};

}  // namespace plumbline::subject::plugin

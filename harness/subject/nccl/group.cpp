#include "harness/subject/nccl/group.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "harness/subject/group_identity.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::nccl {
namespace {

std::shared_ptr<const Lineage> lineage_of(std::shared_ptr<GroupBoard> board,
                                          const std::shared_ptr<const Lineage>& parents) {
  auto lineage = std::make_shared<Lineage>(1, std::move(board));
  if (parents != nullptr) lineage->insert(lineage->end(), parents->begin(), parents->end());
  return lineage;
}

bool is_bad(Status status) { return status > Status::left; }

}  // namespace

std::shared_ptr<Group> Group::create(std::shared_ptr<Job> job, std::shared_ptr<Group> parent,
                                     std::vector<int> world_ranks, std::string name) {
  if (parent != nullptr) parent->expect_sound();
  const std::uint64_t parent_id = parent == nullptr ? comm::kNoParent : parent->identity.id;
  const int creation = job->process.next_creation(parent_id, world_ranks);
  const std::shared_ptr<Group> group(
      new Group(std::move(job), parent, identify_group(parent_id, std::move(world_ranks), std::move(name), creation)));
  group->make_lane();
  {
    const Process::Turn turn(group->job->process);
    group->job->enter(*group);
  }
  if (parent == nullptr) return group;
  const std::lock_guard hold(parent->reason_mutex_);
  std::erase_if(parent->subgroups_, [](const auto& one) { return one.expired(); });
  parent->subgroups_.push_back(group);
  return group;
}

Group::Group(std::shared_ptr<Job> job_, const std::shared_ptr<Group>& parent, comm::Group identity_)
    : job(std::move(job_)),
      identity(std::move(identity_)),
      rank(static_cast<int>(std::ranges::find(identity.ranks, job->process.place.rank) - identity.ranks.begin())),
      size(static_cast<int>(identity.ranks.size())),
      board_(std::make_shared<GroupBoard>(size == 1 ? std::filesystem::path() : job->process.place.scratch, identity.id,
                                          size)),
      lineage_(lineage_of(board_, parent == nullptr ? nullptr : parent->lineage_)) {
  board_->seat(rank).status.store(Status::member, std::memory_order_release);
}

Group::~Group() {
  const Process::Turn turn(job->process);
  job->remove(*this);
  // abort() left that to us; and of a call with a member that failed, the device might never be through.
  if (lane_ != nullptr && (has_failed() || is_bad(look().worst))) lane_->abort();
  job->process.bury(std::move(lane_));
  if (rank == 0 && are_all_connected()) board_->remove();  // else one that comes late must find what happened
}

// ---- start ----

void Group::make_lane() {
  Process& process = job->process;
  Patience patience(process.options.start_limit);
  for (;;) {
    {
      const Process::Turn turn(process);
      process.tend();
      try {
        // Settled and all here: the board's file may lose its name from now on.
        if (begin_lane() && is_connected()) board_->seat(rank).is_connected.store(1, std::memory_order_release);
        if (are_all_connected()) return;
      } catch (const RuntimeFailure& error) {
        fail_start(error.what());
        Failure(error).at(fmt::format("backend nccl: {}", place())).raise();
      }
      if (patience.is_over()) give_up_start();
    }
    const News news = look();
    if (is_bad(news.worst)) {
      if (are_all_connected()) return;  // it failed after the group was made
      const Process::Turn turn(process);
      fail_start(news.words);
      throw_failed();
    }
    patience.pause();
  }
}

bool Group::begin_lane() {
  Process& process = job->process;
  if (is_split()) return begin_split();
  if (lane_ == nullptr) lane_ = std::make_unique<Lane>(process, rank, size);
  meet(*lane_, rank);
  return lane_->is_settled();
}

// NCCL connects the ranks at their first call, and a call that was started would wait for that where nobody looks at
// it.
bool Group::is_connected() {
  if (first_ == nullptr) {
    first_ = std::make_shared<Batch>(job->process);
    first_->calls.push_back({.operation = comm::Operation::barrier});
    lane_->push(first_);
  }
  lane_->pump();
  return first_->is_issued;
}

bool Group::are_all_connected() const {
  for (int member = 0; member < size; ++member)
    if (board_->seat(member).is_connected.load(std::memory_order_acquire) == 0) return false;
  return true;
}

bool Group::begin_split() {
  Process& process = job->process;
  if (job->all == nullptr) job->all = std::make_unique<Lane>(process, process.place.rank, process.place.size);
  if (job->all->is_dead()) throw RuntimeFailure("NCCL's communicator of all ranks has failed before");
  meet(*job->all, process.place.rank);  // by the board of the first such group
  if (!job->all->is_settled()) return false;
  if (lane_ == nullptr) {
    lane_ = std::make_unique<Lane>(process, rank, size);
    lane_->split(*job->all);
    return false;
  }
  return lane_->is_settled();
}

void Group::meet(Lane& lane, int rank_in_lane) {
  if (lane.is_begun()) return;
  const Library& library = job->process.library;
  if (rank_in_lane == 0) {
    UniqueId id;
    library.check(library->GetUniqueId(&id), "ncclGetUniqueId");
    board_->id().post(id);
    lane.join(id);
  } else if (const auto id = board_->id().look()) {
    lane.join(*id);
  }
}

void Group::give_up_start() {
  std::vector<int> absent;
  for (int member = 0; member < size; ++member)
    if (board_->seat(member).status.load() == Status::not_come) absent.push_back(member);
  const std::string words = fmt::format(
      "backend nccl: {}: {} after {} s", place(),
      absent.empty() ? "NCCL has not connected the ranks" : name_ranks(absent) + " did not come to make the group",
      job->process.options.start_limit.count());
  fail_start(words);
  throw RuntimeFailure(words);
}

// A split that is under way writes into our lane: the communicator that it is of goes first.
void Group::fail_start(const std::string& reason) noexcept {
  if (is_split() && lane_ != nullptr && !lane_->is_begun()) job->all->abort();
  fail(Status::failed, reason);
}

// ---- calls ----

std::uint64_t Group::post(std::shared_ptr<Batch> batch) {
  Seat& mine = board_->seat(rank);
  const std::uint64_t number = mine.calls.load(std::memory_order_relaxed) + batch->calls.size();
  lane_->push(std::move(batch));
  pump();
  mine.calls.store(number, std::memory_order_release);
  return number;
}

comm::Registration Group::register_memory(void* memory, std::size_t bytes) {
  expect_sound();
  comm::Registration made = 0;
  when_settled([&] { made = lane_->register_memory(memory, bytes); });
  if (made == 0) throw_failed();  // the lane is dead
  return made;
}

void Group::deregister(comm::Registration registration) {
  when_settled([&] {
    if (!lane_->deregister(registration))
      throw InvalidArgument(fmt::format("deregister({}): {} has no such registration; give one that has not ended",
                                        registration, place()));
  });
}

void Group::when_settled(const std::function<void()>& action) {
  Patience patience(job->process.options.start_limit);
  for (;; patience.pause()) {
    const Process::Turn turn(job->process);
    if (!lane_->is_dead()) pump();
    if (lane_->is_dead() || lane_->is_settled()) return action();
    if (patience.is_over())
      throw RuntimeFailure(fmt::format("backend nccl: {}: NCCL has not taken the calls before", place()));
  }
}

std::vector<int> Group::missing(std::uint64_t number) const {
  std::vector<int> absent;
  for (int member = 0; member < size; ++member) {
    const Seat& seat = board_->seat(member);
    if (seat.status.load(std::memory_order_acquire) == Status::not_come ||
        seat.calls.load(std::memory_order_acquire) < number)
      absent.push_back(member);
  }
  return absent;
}

void Group::pump() {
  try {
    job->process.tend();
    if (!is_aborted()) lane_->pump();
    job->messages.pump();
  } catch (const Error& error) {
    const Failure failure = Failure(error).at(place());
    fail(Status::failed, failure.words());
    failure.raise();
  }
}

Left Group::move_on() noexcept {
  if (lane_->left() == Left::nothing) return Left::nothing;
  // The caller may wait for the device, which waits for a member that will never do its part.
  if (is_bad(look().worst)) {
    lane_->abort();
    return Left::nothing;
  }
  try {
    lane_->pump();
  } catch (const std::exception& error) {
    const std::lock_guard hold(reason_mutex_);
    board_->leave(rank, Status::failed, fmt::format("{}: {}", place(), error.what()));
  }
  return lane_->left();
}

// ---- failure ----

Group::News Group::look() const {
  News news;
  for (int member = 0; member < size; ++member) {
    const Seat& seat = board_->seat(member);
    news.status.push_back(seat.status.load(std::memory_order_acquire));
    if (member == rank || !is_bad(news.status.back()) || is_bad(news.worst)) continue;
    news.worst = news.status.back();
    news.words = seat.words.data();
  }
  if (is_bad(news.worst)) return news;
  if (const char* const words = abort_words(*lineage_)) {
    news.worst = Status::aborted;
    news.words = words;
  }
  return news;
}

void Group::expect_sound() {
  if (!has_failed_.load(std::memory_order_acquire)) return;
  // Aborted by another thread: the lane is ours to end.
  const Process::Turn turn(job->process);
  lane_->abort();
  throw_failed();
}

void Group::fail(Status status, const std::string& reason) noexcept {
  {
    const std::lock_guard hold(reason_mutex_);
    if (!has_failed_.load()) {
      reason_ = reason;
      has_failed_.store(true, std::memory_order_release);
      board_->leave(rank, status, reason);
    }
  }
  if (lane_ != nullptr) lane_->abort();
}

void Group::abort(const std::string& reason) noexcept {
  std::vector<std::shared_ptr<Group>> subgroups;
  {
    const std::lock_guard hold(reason_mutex_);
    if (!has_failed_.load()) {
      reason_ = reason;
      has_failed_.store(true, std::memory_order_release);
      board_->leave(rank, Status::aborted, reason);
    }
    for (const auto& one : subgroups_)
      if (auto subgroup = one.lock()) subgroups.push_back(std::move(subgroup));
  }
  for (const auto& subgroup : subgroups) subgroup->abort(reason);
}

void Group::leave() noexcept {
  const std::lock_guard hold(reason_mutex_);
  board_->leave(rank, Status::left, "");
}

void Group::throw_failed() const {
  const std::lock_guard hold(reason_mutex_);
  throw comm::PeerFailed(fmt::format("{}: the group has failed: {}", place(), reason_));
}

std::string Group::place() const {
  if (identity.name != "world") return fmt::format("{}, rank {}", identity.name, rank);
  return fmt::format("world [{}], rank {}", fmt::join(identity.ranks, " "), rank);
}

std::string Group::place(const comm::Call& call) const {
  return fmt::format("{} on {}", describe(call, size), place());
}

std::string Group::name_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace plumbline::subject::nccl

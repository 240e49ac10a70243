// One rank's handle on a local group, and the batches that it has started.
#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/local/collectives.hpp"
#include "reference/comm/local/endpoint.hpp"
#include "reference/comm/local/group.hpp"
#include "reference/comm/local/invitations.hpp"
#include "reference/comm/local/memory.hpp"
#include "reference/comm/local/messages.hpp"
#include "reference/comm/local/window.hpp"

namespace plumbline::comm::local {
namespace {

class LocalCommunicator;

/// A started batch, whose collectives end in order, so that the last one's number stands for all, and whose messages
/// end one by one; or a pair exchange.
class LocalWork final : public Work::State {
 public:
  explicit LocalWork(LocalCommunicator& communicator) : communicator_(&communicator) {}
  ~LocalWork() override;
  bool test() override;
  void wait(Timeout timeout) override;
  [[nodiscard]] bool outlasts_wait() const override { return device_calls != nullptr; }

  std::uint64_t last_collective = 0;  // 0: it has none
  std::vector<Launched> launched;
  std::shared_ptr<DeviceCalls> device_calls;  // of a batch with calls on memory of devices
  std::list<PostedMessage> messages;          // where they are posted is known to others
  std::optional<JoinedExchange> joined;
  /// Its communicator is gone.
  void orphan(bool is_complete, std::string whose);

 private:
  bool is_complete();
  /// Whether the devices are done, too.
  [[nodiscard]] bool is_reached() const;
  bool complete_ = false;
  bool is_ordered_ = false;          // a stream of the caller's waits for the devices, or they are done
  LocalCommunicator* communicator_;  // null once that is gone
  std::string orphaned_;             // then: whose it was
};

class alignas(kApart) LocalCommunicator final : public Communicator, private PairExchanges {
 public:
  LocalCommunicator(std::shared_ptr<LocalGroup> group, int member);
  ~LocalCommunicator() override;
  [[nodiscard]] const Capabilities& capabilities() const override { return local().capabilities(); }
  void use_stream(void* stream) override { self_.use_stream(stream); }
  void abort(const std::string& reason) noexcept override { local().abort(reason); }
  [[nodiscard]] PairExchanges* pair_exchanges() override { return this; }

  // For LocalWork.
  [[nodiscard]] Collectives& collectives() { return collectives_; }
  [[nodiscard]] Deadline deadline(Timeout timeout) const { return self_.deadline(timeout); }
  void attach(LocalWork* work) { works_.push_back(work); }
  void detach(LocalWork* work) { std::erase(works_, work); }
  /// Whether nothing of a batch is under way any more: later calls complete earlier ones, so nobody need have waited.
  [[nodiscard]] bool is_finished(const LocalWork& work) const;
  /// Whether it is finished without an error.
  [[nodiscard]] bool is_complete(const LocalWork& work) const;
  /// Lets the caller's stream wait for all of a batch that devices do.
  void follow(const LocalWork& work);
  /// Makes sure that nobody touches buffers of the calls under way, at the price of the group.
  void give_up(const std::string& why) noexcept;

 private:
  void do_run(const Call& call, Timeout timeout) override;
  Work do_start(std::span<const Call> calls) override;
  void do_run_uneven(const UnevenCall& call, Timeout timeout) override;
  void do_run_scaled(const Call& call, double factor, Timeout timeout) override;
  void do_run_strided(const StridedCall& call, Timeout timeout) override;
  std::unique_ptr<Window> do_create_window(Buffer memory, Timeout timeout) override;
  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override;
  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override;
  std::string do_invite() override;
  std::unique_ptr<Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers) override;
  std::unique_ptr<Communicator> do_join(const std::string& invitation, std::span<const int> newcomers) override;
  Registration do_register(Buffer /*memory*/) override { return memory_.add(); }
  void do_deregister(Registration registration) override { memory_.remove(registration); }
  void* do_allocate(std::size_t bytes) override { return memory_.allocate(bytes); }
  void do_deallocate(void* memory) override { memory_.deallocate(memory); }
  [[nodiscard]] std::vector<int> world_ranks_of(std::span<const int> ranks) const;
  [[nodiscard]] std::unique_ptr<Communicator> member_of(std::shared_ptr<LocalGroup> made) const;
  [[nodiscard]] std::unique_ptr<Communicator> grown_from(LocalGroup& old, const std::string& invitation,
                                                         std::span<const int> newcomers) const;
  [[nodiscard]] const Communicator& of_group() const override { return *this; }
  Work do_start(const PairExchange& exchange) override;
  void refuse_unsupported(const Call& call) const;
  [[nodiscard]] LocalGroup& local() const { return *self_.group; }

  Endpoint self_;
  Collectives collectives_;
  std::vector<LocalWork*> works_;  // that would outlive this communicator
  OwnMemory memory_;
};

LocalCommunicator::LocalCommunicator(std::shared_ptr<LocalGroup> group, int member)
    : Communicator(member, group->identity), self_(std::move(group), member), collectives_(self_) {}

LocalCommunicator::~LocalCommunicator() {
  const auto is_unfinished = [this](const LocalWork* work) { return !is_finished(*work); };
  if (collectives_.any_unfinished() || std::ranges::any_of(works_, is_unfinished))
    give_up("left with unfinished calls");
  if (!works_.empty()) self_.follow_lane();  // of messages that are complete, and were not waited for
  for (LocalWork* work : works_) work->orphan(is_complete(*work), self_.name());
  local().depart(rank());
}

// ---- calls ----

void LocalCommunicator::refuse_unsupported(const Call& call) const {
  const bool has_devices = local().lane != nullptr;
  for (const Device device : {call.in.device, call.out.device})
    if (device.kind != Device::Kind::cpu && (!has_devices || device.kind != self_.device_calls().kind()))
      throw Unsupported(fmt::format("{}: memory on {} is not supported by backend local here, only cpu{}",
                                    name_of(call.operation), name_of(device),
                                    has_devices ? fmt::format(" and {}", name_of(self_.device_calls().kind())) : ""));
  if (has_devices) self_.device_calls().expect_memory(call, rank());
  if (has_devices && is_reduction(call.operation) && call.device().kind != Device::Kind::cpu &&
      size() > self_.device_calls().most_added())
    throw Unsupported(fmt::format("{} on {}: {} ranks; there are {} at most", name_of(call.operation),
                                  name_of(call.device()), size(), self_.device_calls().most_added()));
  if (call.elements(size()) > kMaxElements)
    throw Unsupported(fmt::format("{}: {} elements; backend local takes at most {}", name_of(call.operation),
                                  call.elements(size()), kMaxElements));
}

void LocalCommunicator::do_run(const Call& call, Timeout timeout) {
  refuse_unsupported(call);
  if (!is_point_to_point(call.operation)) return collectives_.run(call, timeout);
  PostedMessage message(self_, call);
  Deadline limit = deadline(timeout);
  message.complete(limit);
  message.follow();
}

void LocalCommunicator::do_run_uneven(const UnevenCall& call, Timeout timeout) {
  if (call.in.device.kind != Device::Kind::cpu)
    throw Unsupported(fmt::format("{}: memory on {} is not supported by backend local, only cpu", describe(call),
                                  name_of(call.in.device)));
  collectives_.run(call, timeout);
}

void LocalCommunicator::do_run_scaled(const Call& call, double factor, Timeout timeout) {
  if (call.device().kind != Device::Kind::cpu)
    throw Unsupported(fmt::format("{} with a factor: memory on {} is not supported by backend local, only cpu",
                                  name_of(call.operation), name_of(call.device())));
  refuse_unsupported(call);
  const ScaledSum sum(call, factor, rank());
  collectives_.run_scaled(call, sum.plain(), timeout);
  sum.finish();
}

void LocalCommunicator::do_run_strided(const StridedCall& call, Timeout timeout) {
  for (const Device device : {call.call.in.device, call.call.out.device})
    if (device.kind != Device::Kind::cpu)
      throw Unsupported(fmt::format("{}: memory on {} is not supported by backend local, only cpu",
                                    describe(call, size()), name_of(device)));
  const PackedCall packed(call, rank());
  do_run(packed.plain(), timeout);
  packed.finish();
}

std::unique_ptr<Window> LocalCommunicator::do_create_window(Buffer memory, Timeout timeout) {
  if (memory.device.kind != Device::Kind::cpu)
    throw Unsupported(
        fmt::format("create_window: memory on {} is not supported by backend local, only cpu", name_of(memory.device)));
  return make_local_window(self_, *this, memory, timeout);
}

Work LocalCommunicator::do_start(std::span<const Call> calls) {
  for (const Call& call : calls) refuse_unsupported(call);
  auto work = std::make_unique<LocalWork>(*this);
  attach(work.get());  // first: when the group fails half-way, what has been posted is taken back
  for (const Call& call : calls) {
    if (call.device().kind != Device::Kind::cpu) work->device_calls = local().options.device_calls;
    if (is_point_to_point(call.operation))
      work->messages.emplace_back(self_, call);
    else
      work->last_collective = collectives_.start(call, work->launched);
  }
  return Work(std::move(work));
}

Work LocalCommunicator::do_start(const PairExchange& exchange) {
  auto work = std::make_unique<LocalWork>(*this);
  attach(work.get());
  work->joined.emplace(self_, exchange);
  return Work(std::move(work));
}

std::unique_ptr<Communicator> LocalCommunicator::do_create_group(std::span<const int> ranks) {
  return member_of(local().subgroup(rank(), world_ranks_of(ranks)));
}

std::unique_ptr<Communicator> LocalCommunicator::do_shrink(std::span<const int> excluded) {
  return member_of(local().shrunk(rank(), world_ranks_of(ranks_without(excluded))));
}

std::string LocalCommunicator::do_invite() { return invite_to(self_.group); }

std::unique_ptr<Communicator> LocalCommunicator::do_grow(const std::string& invitation,
                                                         std::span<const int> newcomers) {
  const auto old = group_of(invitation);
  if (old != self_.group)
    throw InvalidArgument(fmt::format("grow: '{}' is an invitation to {}, and this group is {}", invitation,
                                      describe(old->identity), describe(group())));
  return grown_from(*old, invitation, newcomers);
}

std::unique_ptr<Communicator> LocalCommunicator::do_join(const std::string& invitation,
                                                         std::span<const int> newcomers) {
  return grown_from(*group_of(invitation), invitation, newcomers);
}

std::unique_ptr<Communicator> LocalCommunicator::grown_from(LocalGroup& old, const std::string& invitation,
                                                            std::span<const int> newcomers) const {
  std::vector<int> world_ranks = old.identity.ranks;
  for (const int newcomer : newcomers)
    if (std::ranges::find(world_ranks, newcomer) != world_ranks.end())
      throw InvalidArgument(
          fmt::format("join: newcomer {} is a member of {} already", newcomer, describe(old.identity)));
  world_ranks.insert(world_ranks.end(), newcomers.begin(), newcomers.end());
  return member_of(old.grown(invitation, group().ranks[static_cast<std::size_t>(rank())], world_ranks));
}

std::vector<int> LocalCommunicator::world_ranks_of(std::span<const int> ranks) const {
  std::vector<int> world_ranks;
  for (const int one : ranks) world_ranks.push_back(group().ranks[static_cast<std::size_t>(one)]);
  return world_ranks;
}

// This rank's handle on a group that was made from this one.
std::unique_ptr<Communicator> LocalCommunicator::member_of(std::shared_ptr<LocalGroup> made) const {
  const std::vector<int>& ranks = made->identity.ranks;
  const auto member = std::ranges::find(ranks, group().ranks[static_cast<std::size_t>(rank())]) - ranks.begin();
  auto communicator = std::make_unique<LocalCommunicator>(std::move(made), static_cast<int>(member));
  communicator->use_stream(self_.stream());
  return communicator;
}

// ---- batches ----

bool LocalCommunicator::is_finished(const LocalWork& work) const {
  if (work.joined && !work.joined->is_over()) return false;
  return collectives_.are_finished_until(work.last_collective) &&
         std::ranges::all_of(work.messages, &PostedMessage::is_over);
}

bool LocalCommunicator::is_complete(const LocalWork& work) const {
  if (work.joined && !work.joined->is_complete()) return false;
  return collectives_.are_finished_until(work.last_collective) &&
         std::ranges::all_of(work.messages, &PostedMessage::is_complete);
}

void LocalCommunicator::follow(const LocalWork& work) {
  for (const auto& [device, done] : work.launched) self_.follow(device, *done);
  for (const PostedMessage& message : work.messages) message.follow();
}

void LocalCommunicator::give_up(const std::string& why) noexcept {
  local().fail({.kind = Failure::Kind::peer, .message = fmt::format("rank {} {}", rank(), why)});
  local().await_nobody_inside(rank());
  collectives_.drop_unfinished();  // nor may this rank itself, completing a later call
  for (LocalWork* work : works_)
    for (PostedMessage& message : work->messages) message.give_up();
  self_.follow_lane();
  for (const LocalWork* work : works_)
    if (work->joined) work->joined->give_up();
}

LocalWork::~LocalWork() {
  if (communicator_ == nullptr) return;
  if (!complete_ && !communicator_->is_finished(*this)) {
    communicator_->give_up("dropped an unfinished call");
  } else if (device_calls != nullptr && !is_ordered_) {
    try {
      communicator_->follow(*this);
    } catch (const std::exception&) {
      // The group has failed; the next call says why.
    }
  }
  communicator_->detach(this);
}

void LocalWork::orphan(bool is_complete, std::string whose) {
  complete_ = complete_ || is_complete;
  joined.reset();
  orphaned_ = std::move(whose);
  communicator_ = nullptr;
}

bool LocalWork::is_reached() const {
  const auto is_done = [&](const auto& mark) { return mark == nullptr || device_calls->is_reached(*mark); };
  return device_calls == nullptr || (std::ranges::all_of(launched, is_done, &Launched::done) &&
                                     std::ranges::all_of(messages, is_done, &PostedMessage::done));
}

bool LocalWork::is_complete() {
  if (!complete_ && communicator_ == nullptr)
    throw PeerFailed(fmt::format("{}: the call is unfinished, and its communicator is gone", orphaned_));
  return complete_;
}

bool LocalWork::test() {
  if (!is_complete()) {
    bool all = communicator_->collectives().try_complete_until(last_collective);
    for (PostedMessage& message : messages) all = message.try_complete() && all;
    if (joined) all = joined->try_complete() && all;
    complete_ = all;
  }
  if (!complete_ || !is_reached()) return false;
  return is_ordered_ = true;
}

void LocalWork::wait(Timeout timeout) {
  if (!is_complete()) {
    Deadline limit = communicator_->deadline(timeout);
    communicator_->collectives().complete_until(last_collective, limit);
    for (PostedMessage& message : messages) message.complete(limit);
    if (joined) joined->complete(limit);
    complete_ = true;
  }
  // Also of a call that another has completed, or that was waited for in another stream.
  if (device_calls == nullptr || communicator_ == nullptr) return;
  communicator_->follow(*this);
  is_ordered_ = true;
}

}  // namespace

std::unique_ptr<Communicator> make_local_communicator(std::shared_ptr<LocalGroup> group, int member) {
  return std::make_unique<LocalCommunicator>(std::move(group), member);
}

}  // namespace plumbline::comm::local

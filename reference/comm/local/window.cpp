#include "reference/comm/local/window.hpp"

#include <atomic>
#include <cstring>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::comm::local {
namespace {

// What the other members reach of one. It lasts as long as any of them may signal.
struct Side {
  Side(Buffer of, int ranks) : memory(of), signals(static_cast<std::size_t>(ranks * Window::kContexts)) {}
  const Buffer memory;
  std::vector<std::atomic<std::int64_t>> signals;  // that each member has sent, in each context
};
using Sides = std::vector<std::shared_ptr<Side>>;

std::size_t place(int from, int context) { return static_cast<std::size_t>(from * Window::kContexts + context); }

std::vector<std::int64_t> lengths_of(const Sides& sides) {
  std::vector<std::int64_t> lengths;
  for (const auto& side : sides) lengths.push_back(static_cast<std::int64_t>(side->memory.bytes()));
  return lengths;
}

class LocalWindow final : public Window {
 public:
  LocalWindow(Endpoint& self, Communicator& group, Sides sides)
      : Window(lengths_of(sides)),
        self_(self),
        group_(group),
        sides_(std::move(sides)),
        taken_(side(self.rank).signals.size()) {}
  ~LocalWindow() override;
  LocalWindow(const LocalWindow&) = delete;
  LocalWindow& operator=(const LocalWindow&) = delete;

 private:
  [[nodiscard]] Side& side(int rank) const { return *sides_[static_cast<std::size_t>(rank)]; }
  void do_put(ConstBuffer in, int to, std::int64_t offset, int context) override;
  void do_signal(int to, int context) override;
  void do_wait(int from, std::int64_t signals, int context, Timeout timeout) override;
  void do_close(Timeout timeout) override { group_.barrier(timeout); }

  Endpoint& self_;
  Communicator& group_;
  const Sides sides_;
  std::vector<std::int64_t> taken_;  // signals that this rank has waited for
};

LocalWindow::~LocalWindow() {
  if (is_closed()) return;
  self_.group->fail({.kind = Failure::Kind::peer,
                     .message = fmt::format("rank {} destroyed a window that was not closed", self_.rank)});
  self_.group->await_nobody_inside(self_.rank);
}

// While this rank is inside, no other member's memory goes.
void LocalWindow::do_put(ConstBuffer in, int to, std::int64_t offset, int /*context*/) {
  if (in.device.kind != Device::Kind::cpu)
    throw Unsupported(fmt::format("put: memory on {} is not supported by backend local, only cpu", name_of(in.device)));
  if (!self_.group->enter(self_.rank)) self_.throw_failure(kNoSequence, false);
  if (in.count != 0) std::memmove(static_cast<std::byte*>(side(to).memory.data) + offset, in.data, in.bytes());
  self_.group->leave(self_.rank);
}

void LocalWindow::do_signal(int to, int context) {
  if (self_.group->failed()) self_.throw_failure(kNoSequence, false);
  side(to).signals[place(self_.rank, context)].fetch_add(1, std::memory_order_release);
}

void LocalWindow::do_wait(int from, std::int64_t signals, int context, Timeout timeout) {
  if (self_.group->failed()) self_.throw_failure(kNoSequence, false);
  Deadline deadline = self_.deadline(timeout);
  const std::atomic<std::int64_t>& sent = side(self_.rank).signals[place(from, context)];
  std::int64_t& taken = taken_[place(from, context)];
  const auto has_come = [&] { return sent.load(std::memory_order_acquire) - taken >= signals; };
  const auto call = [&] {
    return fmt::format("wait for {} signals of rank {}, context {}, on {}", signals, from, context, self_.name());
  };
  wait_until(self_.group->policy, has_come, [&](Clock::time_point now) {
    const bool has_left = from != self_.rank && self_.group->departed(from);
    if (has_come()) return;  // before it left
    if (self_.group->failed()) self_.throw_failure(kNoSequence, true);
    if (has_left) self_.fail_deserted(call(), kNoSequence, {from});
    if (deadline.has_passed(now)) self_.fail_late(call(), kNoSequence, deadline, {from});
  });
  taken += signals;
}

}  // namespace

std::unique_ptr<Window> make_local_window(Endpoint& self, Communicator& group, Buffer memory, Timeout timeout) {
  const auto mine = std::make_shared<Side>(memory, self.size());
  const auto* const where = &mine;
  std::vector<const std::shared_ptr<Side>*> others(static_cast<std::size_t>(self.size()));
  const auto bytes = [](auto& values) {
    const auto all = std::as_writable_bytes(std::span(values));
    return Buffer{all.data(), std::ssize(all), DType::u8};
  };
  std::vector<const std::shared_ptr<Side>*> own{where};
  group.all_gather(bytes(own), bytes(others), timeout);
  // From here on until it leaves, no other member returns with an error, after which its side may be gone.
  if (!self.group->enter(self.rank)) self.throw_failure(kNoSequence, true);
  Sides sides;
  for (const auto* other : others) sides.push_back(*other);
  self.group->leave(self.rank);
  group.barrier(timeout);  // nor with success
  return std::make_unique<LocalWindow>(self, group, std::move(sides));
}

}  // namespace plumbline::comm::local

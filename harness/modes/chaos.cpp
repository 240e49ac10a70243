#include "harness/modes/chaos.hpp"

#include <algorithm>
#include <utility>

#include "harness/modes/forwarding_window.hpp"

namespace plumbline::modes {

using comm::Call;
using comm::Timeout;

namespace {

constexpr int kChanceOfDelay = 30;  // of 100 calls
constexpr int kChanceOfLateStart = 60;
constexpr int kChanceOfLateNews = 50;  // that a completed Work says no once more

}  // namespace

Disturbance::Disturbance(std::uint64_t seed, int rank) {
  std::seed_seq words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(rank)};
  random_.seed(words);
  constexpr int shortest = 50, longest = 1000;
  longest_microseconds_ = std::uniform_int_distribution(shortest, longest)(random_);
}

bool Disturbance::happens(int percent) {
  const std::lock_guard hold(mutex_);
  return std::uniform_int_distribution(0, 99)(random_) < percent;
}

void Disturbance::delay() {
  if (!happens(kChanceOfDelay)) return;
  std::chrono::microseconds nap{};
  {
    const std::lock_guard hold(mutex_);
    nap = std::chrono::microseconds(std::uniform_int_distribution(0, longest_microseconds_)(random_));
  }
  std::this_thread::sleep_for(nap);
}

void Disturbance::keep(std::shared_ptr<Late> call) {
  const std::lock_guard hold(mutex_);
  kept_.push_back(std::move(call));
}

void Disturbance::begin_if(const std::function<bool(const Late&)>& chosen) {
  std::vector<std::shared_ptr<Late>> calls;
  {
    const std::lock_guard hold(mutex_);
    const auto rest = std::ranges::stable_partition(kept_, [&](const auto& call) { return !chosen(*call); });
    calls.assign(rest.begin(), rest.end());
    kept_.erase(rest.begin(), rest.end());
  }
  for (const auto& call : calls) call->begin();
}

void Disturbance::begin_all() {
  begin_if([me = std::this_thread::get_id()](const Late& call) { return call.owner == me; });
}

void Disturbance::begin_all_of(const comm::Communicator& group) {
  begin_if([&group](const Late& call) { return call.group == &group; });
}

void Disturbance::Late::begin() noexcept {
  const std::lock_guard hold(mutex);
  if (std::exchange(begun, true)) return;
  try {
    work = group->start(calls);
  } catch (...) {
    error = std::current_exception();  // for whoever waits
  }
}

namespace {

// A member that another waits for may itself wait for what this rank has kept back.
class ChaosWindow final : public ForwardingWindow {
 public:
  ChaosWindow(std::unique_ptr<comm::Window> inner, int ranks, std::shared_ptr<Disturbance> disturbance)
      : ForwardingWindow(std::move(inner), ranks), disturbance_(std::move(disturbance)) {}

 private:
  void disturb() {
    disturbance_->begin_all();
    disturbance_->delay();
  }
  void do_put(comm::ConstBuffer in, int to, std::int64_t offset, int context) override {
    disturb();
    ForwardingWindow::do_put(in, to, offset, context);
  }
  void do_signal(int to, int context) override {
    disturb();
    ForwardingWindow::do_signal(to, context);
  }
  void do_wait(int from, std::int64_t signals, int context, Timeout timeout) override {
    disturb();
    ForwardingWindow::do_wait(from, signals, context, timeout);
  }
  void do_close(Timeout timeout) override {
    disturb();
    ForwardingWindow::do_close(timeout);
  }

  std::shared_ptr<Disturbance> disturbance_;
};

class Chaos final : public comm::CommunicatorDecorator {
 public:
  Chaos(std::unique_ptr<comm::Communicator> inner, std::shared_ptr<Disturbance> disturbance)
      : CommunicatorDecorator(std::move(inner)), disturbance_(std::move(disturbance)) {}
  ~Chaos() override { disturbance_->begin_all_of(inner()); }
  Chaos(const Chaos&) = delete;
  Chaos& operator=(const Chaos&) = delete;

 private:
  using Late = Disturbance::Late;

  class LateWork final : public comm::Work::State {
   public:
    LateWork(std::shared_ptr<Late> call, std::shared_ptr<Disturbance> disturbance)
        : call_(std::move(call)), disturbance_(std::move(disturbance)) {}
    // Whoever drops an unfinished call meets what the backend makes of that.
    ~LateWork() override { disturbance_->begin_all(); }
    LateWork(const LateWork&) = delete;
    LateWork& operator=(const LateWork&) = delete;

    bool test() override {
      begin();
      if (!call_->work.test()) return false;
      return done_ = done_ || !disturbance_->happens(kChanceOfLateNews);
    }
    void wait(Timeout timeout) override {
      begin();
      call_->work.wait(timeout);
      done_ = true;
    }

   private:
    void begin() {
      disturbance_->begin_all();
      call_->begin();  // it was started by another thread, if it is not among them
      if (call_->error) std::rethrow_exception(call_->error);
    }
    std::shared_ptr<Late> call_;
    std::shared_ptr<Disturbance> disturbance_;
    bool done_ = false;  // it has been said
  };

  void do_run(const Call& call, Timeout timeout) override {
    disturbance_->begin_all();
    disturbance_->delay();
    CommunicatorDecorator::do_run(call, timeout);
  }

  void do_run_uneven(const comm::UnevenCall& call, Timeout timeout) override {
    disturbance_->begin_all();
    disturbance_->delay();
    CommunicatorDecorator::do_run_uneven(call, timeout);
  }

  void do_run_scaled(const Call& call, double factor, Timeout timeout) override {
    disturbance_->begin_all();
    disturbance_->delay();
    CommunicatorDecorator::do_run_scaled(call, factor, timeout);
  }

  void do_run_strided(const comm::StridedCall& call, Timeout timeout) override {
    disturbance_->begin_all();
    disturbance_->delay();
    CommunicatorDecorator::do_run_strided(call, timeout);
  }

  std::unique_ptr<comm::Window> do_create_window(comm::Buffer memory, Timeout timeout) override {
    disturbance_->begin_all();
    return std::make_unique<ChaosWindow>(CommunicatorDecorator::do_create_window(memory, timeout), size(),
                                         disturbance_);
  }

  comm::Work do_start(std::span<const Call> calls) override {
    auto call = std::make_shared<Late>();
    call->group = &inner();
    call->calls.assign(calls.begin(), calls.end());
    disturbance_->keep(call);
    const bool claimed = std::ranges::all_of(calls, [&](const Call& one) { return claims(one); });
    if (!claimed || !disturbance_->happens(kChanceOfLateStart)) {
      disturbance_->begin_all();
      // What the backend refuses, it refuses at once.
      if (call->error) std::rethrow_exception(call->error);
    }
    return comm::Work(std::make_unique<LateWork>(std::move(call), disturbance_));
  }

  [[nodiscard]] bool claims(const Call& call) const {
    const comm::Capabilities& has = capabilities();
    const auto here = [&](comm::Device device) { return std::ranges::count(has.devices, device.kind) > 0; };
    return call.operation == comm::Operation::barrier ||
           (has.supports(call.dtype()) && here(call.in.device) && here(call.out.device));
  }

  std::unique_ptr<Communicator> do_create_group(std::span<const int> ranks) override {
    disturbance_->begin_all();
    disturbance_->delay();
    return CommunicatorDecorator::do_create_group(ranks);
  }

  std::unique_ptr<Communicator> do_shrink(std::span<const int> excluded) override {
    disturbance_->begin_all();
    disturbance_->delay();
    return CommunicatorDecorator::do_shrink(excluded);
  }

  std::unique_ptr<Communicator> do_grow(const std::string& invitation, std::span<const int> newcomers) override {
    disturbance_->begin_all();
    disturbance_->delay();
    return CommunicatorDecorator::do_grow(invitation, newcomers);
  }

  std::unique_ptr<Communicator> do_join(const std::string& invitation, std::span<const int> newcomers) override {
    disturbance_->begin_all();
    disturbance_->delay();
    return CommunicatorDecorator::do_join(invitation, newcomers);
  }

  std::unique_ptr<Communicator> decorate(std::unique_ptr<Communicator> group) override {
    return std::make_unique<Chaos>(std::move(group), disturbance_);
  }

  std::shared_ptr<Disturbance> disturbance_;
};

}  // namespace

std::unique_ptr<comm::Communicator> disturb(std::unique_ptr<comm::Communicator> inner,
                                            std::shared_ptr<Disturbance> disturbance) {
  return std::make_unique<Chaos>(std::move(inner), std::move(disturbance));
}

}  // namespace plumbline::modes

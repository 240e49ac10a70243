// conformance/gossip/wires.hpp: communicators that see what gossip sends, or fail it once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "reference/comm/communicator.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

/// Fails one start of calls, counted from 0, before anything of it is made.
class FailingWire final : public comm::CommunicatorDecorator {
 public:
  FailingWire(std::unique_ptr<comm::Communicator> inner, int failing)
      : CommunicatorDecorator(std::move(inner)), left_(failing) {}

 private:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    if (left_-- == 0) throw RuntimeFailure("a wire that a check cut");
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
  int left_;
};

/// Fails one call that is waited for at once, counted from 0: before anything of it is made, or when all of it is.
class FailingCall final : public comm::CommunicatorDecorator {
 public:
  FailingCall(std::unique_ptr<comm::Communicator> inner, int failing, bool when_made)
      : CommunicatorDecorator(std::move(inner)), left_(failing), when_made_(when_made) {}

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    const bool fails = left_-- == 0;
    if (!fails || when_made_) CommunicatorDecorator::do_run(call, timeout);
    if (fails) throw RuntimeFailure("a wire that a check cut");
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
  int left_;
  bool when_made_;
};

/// Counts the calls that are made.
class CountingCalls final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  std::atomic<int> calls{0};

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    ++calls;
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const comm::Call> started) override {
    ++calls;
    return CommunicatorDecorator::do_start(started);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
};

/// Takes the host's memory alone.
class WireOfTheHost final : public comm::CommunicatorDecorator {
 public:
  explicit WireOfTheHost(std::unique_ptr<comm::Communicator> inner)
      : CommunicatorDecorator(std::move(inner)), capabilities_(CommunicatorDecorator::capabilities()) {
    capabilities_.devices = {comm::Device::Kind::cpu};
  }
  [[nodiscard]] const comm::Capabilities& capabilities() const override { return capabilities_; }

 private:
  static void look_at(const comm::Call& call) {
    for (const comm::Device device : {call.in.device, call.out.device})
      if (device.kind != comm::Device::Kind::cpu)
        throw Unsupported("memory of " + comm::name_of(device) +
                          " over a wire that a check gave the host's memory alone");
  }
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    look_at(call);
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    std::ranges::for_each(calls, look_at);
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<WireOfTheHost>(std::move(group));
  }
  comm::Capabilities capabilities_;
};

/// When calls were started, by any thread.
class StartTimes {
 public:
  void add() {
    const std::lock_guard lock(mutex_);
    times_.push_back(std::chrono::steady_clock::now());
  }
  [[nodiscard]] std::vector<std::chrono::steady_clock::time_point> times() const {
    const std::lock_guard lock(mutex_);
    return times_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::chrono::steady_clock::time_point> times_;
};

/// Fails every start of calls, and notes when.
class BrokenWire final : public comm::CommunicatorDecorator {
 public:
  static constexpr const char* kCause = "a wire that a check cut";
  BrokenWire(std::unique_ptr<comm::Communicator> inner, StartTimes& starts)
      : CommunicatorDecorator(std::move(inner)), starts_(starts) {}

 private:
  comm::Work do_start(std::span<const comm::Call>) override {
    starts_.add();
    throw RuntimeFailure(kCause);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
  StartTimes& starts_;
};

/// Posts the sends of a start in reverse, and receives where they stand: a later message overtakes an earlier one.
/// Where no two of a start have peer and kind in common that is an order that messages may come in.
class OvertakingWire final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    std::vector<comm::Call> turned(calls.begin(), calls.end()), sends;
    const auto is_send = [](const comm::Call& call) { return call.operation == comm::Operation::send; };
    std::ranges::copy_if(turned, std::back_inserter(sends), is_send);
    for (comm::Call& call : turned)
      if (is_send(call)) {
        call = sends.back();
        sends.pop_back();
      }
    return CommunicatorDecorator::do_start(turned);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
};

/// Waits before each start of calls, up to a millisecond, each time another while.
class LateWire final : public comm::CommunicatorDecorator {
 public:
  LateWire(std::unique_ptr<comm::Communicator> inner, std::uint64_t seed)
      : CommunicatorDecorator(std::move(inner)), random_(seed) {}

 private:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 1000));
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
  std::mt19937_64 random_;
};

/// Sends no single bytes, which confirmations are.
class MuteWire final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    std::vector<comm::Call> said;
    std::ranges::copy_if(calls, std::back_inserter(said), [](const comm::Call& call) {
      return call.operation != comm::Operation::send || call.in.bytes() != 1;
    });
    return said.empty() ? comm::Work() : CommunicatorDecorator::do_start(said);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
};

/// Lets messages through, and has nothing else.
class WireOfMessages final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<WireOfMessages>(std::move(group));
  }
};

/// Counts the exchanges of two members that are made in place.
class CountingExchanges final : public comm::CommunicatorDecorator, private comm::PairExchanges {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  std::atomic<int> exchanges{0};
  comm::PairExchanges* pair_exchanges() override { return inner().pair_exchanges() == nullptr ? nullptr : this; }

 private:
  [[nodiscard]] const comm::Communicator& of_group() const override { return *this; }
  comm::Work do_start(const comm::PairExchange& exchange) override {
    ++exchanges;
    return inner().pair_exchanges()->start(exchange);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override { return CommunicatorDecorator::do_start(calls); }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
};

/// Notes what is started together.
class NotingWire final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;
  std::vector<std::vector<comm::Operation>> starts;

 private:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    starts.emplace_back();
    for (const comm::Call& call : calls) starts.back().push_back(call.operation);
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
};

/// Notes what is sent.
class CountingWire final : public comm::CommunicatorDecorator {
 public:
  struct Sent {
    comm::DType dtype;
    std::int64_t count;
    int to;
  };
  explicit CountingWire(std::unique_ptr<comm::Communicator> inner) : CommunicatorDecorator(std::move(inner)) {}
  std::vector<Sent> sent;
  int collectives = 0;

 private:
  void do_run(const comm::Call& call, comm::Timeout timeout) override {
    ++collectives;
    CommunicatorDecorator::do_run(call, timeout);
  }
  comm::Work do_start(std::span<const comm::Call> calls) override {
    for (const comm::Call& call : calls)
      if (call.operation == comm::Operation::send) sent.push_back({call.in.dtype, call.in.count, call.root});
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
};

/// Opened once by anyone; others wait for it.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

/// Starts nothing before its gate is open.
class GatedWire final : public comm::CommunicatorDecorator {
 public:
  GatedWire(std::unique_ptr<comm::Communicator> inner, Gate& gate)
      : CommunicatorDecorator(std::move(inner)), gate_(gate) {}

 private:
  comm::Work do_start(std::span<const comm::Call> calls) override {
    gate_.pass();
    return CommunicatorDecorator::do_start(calls);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override { return group; }
  Gate& gate_;
};

}  // namespace plumbline::conformance

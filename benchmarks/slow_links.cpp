#include "benchmarks/slow_links.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "reference/comm/errors.hpp"

namespace plumbline::bench {
namespace {

using comm::Call;
using comm::DType;
using comm::Operation;
using Clock = std::chrono::steady_clock;

constexpr int kArrivalTag = 1 << 20;  // beside the tag of the message

std::chrono::nanoseconds nanoseconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
}
std::int64_t stamp_of(Clock::time_point time) { return time.time_since_epoch().count(); }
Clock::time_point time_of(std::int64_t stamp) { return Clock::time_point(Clock::duration(stamp)); }

// The messages of one start, their times of arrival, and when the last one has left.
class Delayed final : public comm::Work::State {
 public:
  Delayed(std::size_t sends, std::size_t receives) : sent(sends), received(receives) {}
  bool test() override { return inner.test() && Clock::now() >= end(); }
  void wait(comm::Timeout limit) override {
    inner.wait(limit);
    std::this_thread::sleep_until(end());
  }
  std::vector<std::int64_t> sent, received;  // memory of the stamps
  Clock::time_point left{};
  comm::Work inner;

 private:
  [[nodiscard]] Clock::time_point end() const {
    Clock::time_point last = left;
    for (const std::int64_t stamp : received) last = std::max(last, time_of(stamp));
    return last;
  }
};

class SlowGroup final : public comm::CommunicatorDecorator {
 public:
  SlowGroup(std::unique_ptr<comm::Communicator> inner, SlowLink link)
      : CommunicatorDecorator(std::move(inner)), link_(link) {}

 private:
  comm::Work do_start(std::span<const Call> calls) override {
    const auto sends = static_cast<std::size_t>(std::ranges::count(calls, Operation::send, &Call::operation));
    const auto receives = static_cast<std::size_t>(std::ranges::count(calls, Operation::recv, &Call::operation));
    if (sends + receives != calls.size()) return CommunicatorDecorator::do_start(calls);
    auto delayed = std::make_unique<Delayed>(sends, receives);
    std::vector<Call> all(calls.begin(), calls.end());
    std::int64_t* sent = delayed->sent.data();
    std::int64_t* received = delayed->received.data();
    for (const Call& call : calls) {
      Call stamp{.operation = call.operation, .root = call.root, .tag = call.tag + kArrivalTag, .in = {}, .out = {}};
      if (call.operation == Operation::send) {
        free_ = std::max(free_, Clock::now()) + nanoseconds(static_cast<double>(call.in.bytes()) / link_.bandwidth);
        *sent = stamp_of(free_ + nanoseconds(link_.latency));
        stamp.in = {sent++, 1, DType::i64};
      } else {
        stamp.out = {received++, 1, DType::i64};
      }
      all.push_back(stamp);
    }
    delayed->left = sends > 0 ? free_ : Clock::time_point{};
    delayed->inner = CommunicatorDecorator::do_start(all);
    return comm::Work(std::move(delayed));
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<SlowGroup>(std::move(group), link_);
  }

  SlowLink link_;
  Clock::time_point free_{};  // when the way out is
};

}  // namespace

std::unique_ptr<comm::Communicator> over_slow_links(std::unique_ptr<comm::Communicator> group, SlowLink link) {
  return std::make_unique<SlowGroup>(std::move(group), link);
}

void ring_all_reduce_mean(comm::Communicator& group, std::span<float> values, std::span<float> space) {
  const int ranks = group.size(), next = (group.rank() + 1) % ranks, before = (group.rank() + ranks - 1) % ranks;
  const auto part = [&](int index) {
    const std::size_t place = static_cast<std::size_t>(((index % ranks) + ranks) % ranks), count = values.size();
    const std::size_t begin = count * place / static_cast<std::size_t>(ranks);
    return values.subspan(begin, count * (place + 1) / static_cast<std::size_t>(ranks) - begin);
  };
  const auto exchange = [&](std::span<float> out, std::span<float> in) {
    const std::vector<Call> calls{
        {.operation = Operation::send, .root = next, .in = {out.data(), std::ssize(out), DType::f32}, .out = {}},
        {.operation = Operation::recv, .root = before, .in = {}, .out = {in.data(), std::ssize(in), DType::f32}}};
    group.start(calls).wait();
  };
  for (int step = 0; step + 1 < ranks; ++step) {
    const std::span<float> mine = part(group.rank() - step - 1), came = space.first(mine.size());
    exchange(part(group.rank() - step), came);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] += came[i];
  }
  for (float& value : part(group.rank() + 1)) value /= static_cast<float>(ranks);
  for (int step = 0; step + 1 < ranks; ++step) exchange(part(group.rank() + 1 - step), part(group.rank() - step));
}

double ring_all_reduce_seconds(SlowLink link, int ranks, double bytes) {
  return 2 * (ranks - 1) * (link.latency + bytes / ranks / link.bandwidth);
}

double gossip_seconds(SlowLink link, int peers, double bytes) { return link.latency + peers * bytes / link.bandwidth; }

}  // namespace plumbline::bench

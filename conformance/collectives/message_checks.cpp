// Messages between two members: contents, order, tags, groups, to oneself, without elements.
#include <array>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/compare.hpp"
#include "conformance/collectives/data.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::Call;
using comm::Communicator;
using comm::DType;
using comm::Operation;
using comm::Work;
using suite::Context;

namespace {

void every_pair(Context& context) {
  const std::vector<DType> dtypes = claimed(context.capabilities());
  const int me = context.rank();
  std::size_t turn = 0;
  for (int from = 0; from < context.size(); ++from)
    for (int to = 0; to < context.size(); ++to) {
      if (from == to) continue;
      for (const std::int64_t count : {1, 17, 511, 512, 513, 1024, 1025, 4097, 20000}) {
        const DType dtype = dtypes[turn++ % dtypes.size()];
        std::vector<std::byte> sent(static_cast<std::size_t>(count) * size_of(dtype));
        fill_with_bits(context.seed() + turn, from, dtype, 0, sent);
        if (me == from) context.world().send({sent.data(), count, dtype}, to);
        if (me != to) continue;
        GuardedBuffer received(sent.size());
        std::ranges::transform(sent, received.data(), [](std::byte byte) { return ~byte; });
        context.world().recv({received.data(), count, dtype}, from);
        const std::string problem = first_difference(dtype, sent, received.bytes());
        if (!problem.empty())
          report(fmt::format("{} x {} from rank {} to {}: {}", name_of(dtype), count, from, to, problem));
        report(received.damage());
      }
    }
}

/// Messages of numbers between neighbours in a ring.
class Ring {
 public:
  explicit Ring(Communicator& group)
      : group_(group),
        to_((group.rank() + 1) % group.size()),
        from_((group.rank() + group.size() - 1) % group.size()) {}

  [[nodiscard]] Call send(std::span<const std::int64_t> numbers, int tag) const {
    return {.operation = Operation::send,
            .root = to_,
            .tag = tag,
            .in = carried(group_, static_cast<const void*>(numbers.data()), numbers.size_bytes())};
  }
  [[nodiscard]] Call receive(std::span<std::int64_t> numbers, int tag) const {
    return {.operation = Operation::recv,
            .root = from_,
            .tag = tag,
            .out = carried(group_, numbers.data(), numbers.size_bytes())};
  }
  /// What the previous member sends as its message `index`.
  [[nodiscard]] std::int64_t expected(std::size_t index) const { return number(from_, index); }
  [[nodiscard]] std::int64_t mine(std::size_t index) const { return number(group_.rank(), index); }

 private:
  static std::int64_t number(int rank, std::size_t index) { return rank * 1000 + static_cast<std::int64_t>(index); }
  Communicator& group_;
  int to_;
  int from_;
};

constexpr std::size_t kMessages = 12;
using Messages = std::vector<std::vector<std::int64_t>>;

// Message i is number(i) over and over. Long ones, which wait for their receiver, and single numbers take turns: a backend
// may be tempted to let the short ones pass.
template <class Number>
Messages long_and_short(const Number& number) {
  Messages messages;
  for (std::size_t i = 0; i < kMessages; ++i) messages.emplace_back(i % 2 == 0 ? 20000 : 1, number(i));
  return messages;
}

void expect_messages(const Messages& received, const Ring& ring, const char* how) {
  for (std::size_t i = 0; i < kMessages; ++i)
    for (const std::int64_t number : received[i])
      if (number != ring.expected(i)) {
        report(fmt::format("{}: message {} of {} numbers should be all {} and has {}", how, i, received[i].size(),
                           ring.expected(i), number));
        break;
      }
}

void order(Context& context) {
  const Ring ring(context.world());
  const Messages sent = long_and_short([&](std::size_t i) { return ring.mine(i); });
  const Messages empty = long_and_short([](std::size_t) { return -1; });
  Messages received = empty;
  std::vector<Call> calls;
  for (const auto& numbers : sent) calls.push_back(ring.send(numbers, 5));
  for (auto& numbers : received) calls.push_back(ring.receive(numbers, 5));
  context.world().start(calls).wait();
  expect_messages(received, ring, "in a batch");

  std::vector<Work> sends;
  for (const auto& numbers : sent) sends.push_back(context.world().start(ring.send(numbers, 5)));
  received = empty;
  for (auto& numbers : received) context.world().run(ring.receive(numbers, 5));
  for (Work& send : sends) send.wait();
  expect_messages(received, ring, "one by one");
}

void tags(Context& context) {
  const Ring ring(context.world());
  std::array<std::int64_t, kMessages> sent{}, received{}, expected{};
  std::vector<Work> sends;
  for (std::size_t i = 0; i < kMessages; ++i) {
    sent[i] = ring.mine(i);
    expected[i] = ring.expected(i);
    sends.push_back(context.world().start(ring.send({&sent[i], 1}, static_cast<int>(i))));
  }
  for (std::size_t i = kMessages; i-- > 0;) context.world().run(ring.receive({&received[i], 1}, static_cast<int>(i)));
  for (Work& send : sends) send.wait();
  EXPECT_EQ(received, expected);
}

void groups_apart(Context& context) {
  const auto first = context.world().duplicate();
  const auto second = context.world().duplicate();
  const Ring ring(context.world());
  const std::int64_t to_first = ring.mine(1), to_second = ring.mine(2);
  std::int64_t from_first = 0, from_second = 0;
  Work one = first->start(ring.send({&to_first, 1}, 5));
  Work two = second->start(ring.send({&to_second, 1}, 5));
  second->run(ring.receive({&from_second, 1}, 5));
  first->run(ring.receive({&from_first, 1}, 5));
  one.wait();
  two.wait();
  EXPECT_EQ(from_first, ring.expected(1));
  EXPECT_EQ(from_second, ring.expected(2));
}

void to_self(Context& context) {
  Communicator& world = context.world();
  for (const std::size_t count : {0, 1, 40000}) {
    const std::vector<std::int64_t> sent(count, context.rank() + 7);
    std::vector<std::int64_t> received(count, -1);
    const void* const given = sent.data();
    const std::size_t bytes = count * sizeof(std::int64_t);
    const Call send{.operation = Operation::send, .root = world.rank(), .tag = 2, .in = carried(world, given, bytes)};
    const Call receive{
        .operation = Operation::recv, .root = world.rank(), .tag = 2, .out = carried(world, received.data(), bytes)};
    context.world().start(std::array{send, receive}).wait();
    EXPECT_EQ(received, sent) << "in a batch";
    std::ranges::fill(received, -1);
    Work receiving = context.world().start(receive);
    Work sending = context.world().start(send);
    receiving.wait();
    sending.wait();
    EXPECT_EQ(received, sent) << "one by one";
  }
}

// Rank 0 receives from each other rank: nothing, a number, nothing. The word "go" comes after rank 0 looked.
void empty(Context& context) {
  Communicator& world = context.world();
  constexpr int kGo = 1, kData = 2;
  const auto nothing = [&](Operation operation, int peer, int tag) {
    const comm::Buffer none = carried(world, static_cast<void*>(nullptr), 0);
    if (operation == Operation::send) return Call{.operation = operation, .root = peer, .tag = tag, .in = none};
    return Call{.operation = operation, .root = peer, .tag = tag, .out = none};
  };
  if (world.rank() != 0) {
    world.run(nothing(Operation::recv, 0, kGo));
    const std::int64_t number = world.rank() * 11;
    world.run(nothing(Operation::send, 0, kData));
    world.send(carried(world, number), 0, kData);
    world.run(nothing(Operation::send, 0, kData));
    return;
  }
  for (int peer = 1; peer < world.size(); ++peer) {
    Work first = world.start(nothing(Operation::recv, peer, kData));
    for (int look = 0; look < 3; ++look)
      EXPECT_FALSE(first.test()) << "received from rank " << peer << " what it has not sent";
    world.run(nothing(Operation::send, peer, kGo));
    first.wait();
    std::int64_t number = 0;
    world.recv(carried(world, number), peer, kData);
    EXPECT_EQ(number, peer * 11);
    world.run(nothing(Operation::recv, peer, kData));
  }
}

}  // namespace

void add_message_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* citation, std::vector<int> sizes,
                       std::function<void(Context&)> body) {
    suite.add({.id = id, .verifies = {citation}, .axes = {suite::worlds(std::move(sizes))}, .body = std::move(body)});
  };
  add("collectives.messages.every_pair", "COLL-043@b90a", {2, 3, 4, 5, 6, 8}, every_pair);
  add("collectives.messages.order", "COLL-044@4884", {2, 3, 5, 6}, order);
  add("collectives.messages.tags", "COLL-045@9986", {2, 3, 5, 6}, tags);
  add("collectives.messages.groups_apart", "COLL-046@2bc4", {2, 3, 5, 6}, groups_apart);
  add("collectives.messages.to_self", "COLL-047@a185", {1, 2, 3}, to_self);
  add("collectives.messages.empty", "COLL-048@30cd", {2, 3, 5, 6}, empty);
}

}  // namespace plumbline::conformance

// Messages between two members: contents, order, tags, groups, to oneself, without elements.
#include <array>
#include <chrono>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
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
        std::vector<std::byte> content(static_cast<std::size_t>(count) * size_of(dtype));
        fill_with_bits(context.seed() + turn, from, dtype, 0, content);
        if (me == from) context.world().send(GuardedInput(dtype, content).view(), to);
        if (me != to) continue;
        GuardedOutput received(dtype, content);
        context.world().recv(received.view(), from);
        const std::string problem = received.wrong_result();
        if (!problem.empty())
          report(fmt::format("{} x {} from rank {} to {}: {}", name_of(dtype), count, from, to, problem));
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

  /// Message `index` to the next member, and the room for that from the previous: `count` times its number.
  [[nodiscard]] GuardedInput message(std::size_t index, std::size_t count = 1) const {
    return GuardedInput(std::vector(count, number(group_.rank(), index)));
  }
  [[nodiscard]] GuardedOutput room(std::size_t index, std::size_t count = 1) const {
    return GuardedOutput(std::vector(count, number(from_, index)));
  }
  [[nodiscard]] Call send(const GuardedInput& message, int tag) const {
    return {.operation = Operation::send, .root = to_, .tag = tag, .in = carried(group_, message)};
  }
  [[nodiscard]] Call receive(GuardedOutput& room, int tag) const {
    return {.operation = Operation::recv, .root = from_, .tag = tag, .out = carried(group_, room)};
  }

 private:
  static std::int64_t number(int rank, std::size_t index) { return rank * 1000 + static_cast<std::int64_t>(index); }
  Communicator& group_;
  int to_;
  int from_;
};

constexpr std::size_t kMessages = 12;

// Long messages, which wait for their receiver, and single numbers take turns: a backend may be tempted to let the
// short ones pass.
std::size_t length_of(std::size_t index) { return index % 2 == 0 ? 20000 : 1; }

void expect_messages(const std::vector<GuardedOutput>& received, const char* how) {
  for (std::size_t i = 0; i < received.size(); ++i) {
    const std::string problem = received[i].wrong_result();
    if (!problem.empty()) report(fmt::format("{}: message {}: {}", how, i, problem));
  }
}

void order_of_messages(Context& context) {
  const Ring ring(context.world());
  std::vector<GuardedInput> sent;
  std::vector<GuardedOutput> received;
  std::vector<Call> calls;
  for (std::size_t i = 0; i < kMessages; ++i) {
    sent.push_back(ring.message(i, length_of(i)));
    calls.push_back(ring.send(sent.back(), 5));
  }
  for (std::size_t i = 0; i < kMessages; ++i) {
    received.push_back(ring.room(i, length_of(i)));
    calls.push_back(ring.receive(received.back(), 5));
  }
  context.world().start(calls).wait();
  expect_messages(received, "in a batch");

  std::vector<Work> sends;
  for (const auto& message : sent) sends.push_back(context.world().start(ring.send(message, 5)));
  for (auto& room : received) {
    room.reset();
    context.world().run(ring.receive(room, 5));
  }
  for (Work& send : sends) send.wait();
  expect_messages(received, "one by one");
}

void tags(Context& context) {
  const Ring ring(context.world());
  std::vector<GuardedInput> sent;
  std::vector<GuardedOutput> received;
  std::vector<Work> sends;
  for (std::size_t i = 0; i < kMessages; ++i) {
    sent.push_back(ring.message(i));
    received.push_back(ring.room(i));
    sends.push_back(context.world().start(ring.send(sent.back(), static_cast<int>(i))));
  }
  for (std::size_t i = kMessages; i-- > 0;) context.world().run(ring.receive(received[i], static_cast<int>(i)));
  for (Work& send : sends) send.wait();
  expect_messages(received, "by its tag");
}

void groups_apart(Context& context) {
  const auto first = context.world().duplicate();
  const auto second = context.world().duplicate();
  const Ring ring(context.world());
  const GuardedInput to_first = ring.message(1), to_second = ring.message(2);
  GuardedOutput from_first = ring.room(1), from_second = ring.room(2);
  Work one = first->start(ring.send(to_first, 5));
  Work two = second->start(ring.send(to_second, 5));
  second->run(ring.receive(from_second, 5));
  first->run(ring.receive(from_first, 5));
  one.wait();
  two.wait();
  report(from_first.wrong_result());
  report(from_second.wrong_result());
}

void to_self(Context& context) {
  Communicator& world = context.world();
  for (const std::size_t count : {0, 1, 40000}) {
    const std::vector<std::int64_t> numbers(count, world.rank() + 7);
    const GuardedInput sent(numbers);
    GuardedOutput received(numbers);
    const Call send{.operation = Operation::send, .root = world.rank(), .tag = 2, .in = carried(world, sent)};
    const Call receive{.operation = Operation::recv, .root = world.rank(), .tag = 2, .out = carried(world, received)};
    world.start(std::array{send, receive}).wait();
    EXPECT_EQ(received.wrong_result(), "") << "in a batch";
    received.reset();
    Work receiving = world.start(receive);
    Work sending = world.start(send);
    receiving.wait();
    sending.wait();
    EXPECT_EQ(received.wrong_result(), "") << "one by one";
  }
}

// Each member in turn sends to all others, who are late to receive, and makes something else of a buffer as soon as its
// send is complete. All buffers live until all messages have arrived.
void buffer_is_free_afterwards(Context& context) {
  Communicator& world = context.world();
  const std::size_t count = context.parameters().text("size") == "large" ? 20000 : 3;
  constexpr auto kLate = std::chrono::milliseconds(2);
  for (int from = 0; from < world.size(); ++from)
    for (const Way way : ways(context.capabilities())) {
      const auto numbers = [&](int to) {
        return std::vector(count, std::int64_t{1000} * from + 10 * to + static_cast<int>(way));
      };
      std::vector<GuardedInput> sent;
      if (world.rank() == from) {
        for (int to = 0; to < world.size(); ++to) {
          if (to == from) continue;
          sent.emplace_back(numbers(to));
          const Call send{.operation = Operation::send, .root = to, .in = carried(world, sent.back())};
          complete(world, std::span(&send, 1), way);
          sent.back().overwrite();
        }
        world.barrier();
        continue;
      }
      GuardedOutput received(numbers(world.rank()));
      std::this_thread::sleep_for(kLate);
      world.recv(carried(world, received), from);
      world.barrier();
      const std::string problem = received.wrong_result();
      if (!problem.empty()) report(fmt::format("what rank {} sent before it changed its buffer: {}", from, problem));
    }
}

// Rank 0 receives from each other rank: nothing, a number, nothing. The word "go" comes after rank 0 looked.
void empty(Context& context) {
  Communicator& world = context.world();
  constexpr int kGo = 1, kData = 2;
  const auto empty_call = [&](Operation operation, int peer, int tag) {
    Call call{.operation = operation, .root = peer, .tag = tag};
    if (operation == Operation::send)
      call.in = nothing(world);
    else
      call.out = nothing(world);
    return call;
  };
  if (world.rank() != 0) {
    world.run(empty_call(Operation::recv, 0, kGo));
    world.run(empty_call(Operation::send, 0, kData));
    send_number(world, world.rank() * 11, 0, kData);
    world.run(empty_call(Operation::send, 0, kData));
    return;
  }
  for (int peer = 1; peer < world.size(); ++peer) {
    Work first = world.start(empty_call(Operation::recv, peer, kData));
    for (int look = 0; look < 3; ++look)
      EXPECT_FALSE(first.test()) << "received from rank " << peer << " what it has not sent";
    world.run(empty_call(Operation::send, peer, kGo));
    first.wait();
    expect_number(world, peer * 11, peer, kData);
    world.run(empty_call(Operation::recv, peer, kData));
  }
}

}  // namespace

void add_message_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* citation, std::vector<int> sizes,
                       std::function<void(Context&)> body) {
    suite.add({.id = id,
               .verifies = {citation},
               .axes = {suite::worlds(std::move(sizes))},
               .deadlock_prone = true,
               .body = std::move(body)});
  };
  add("collectives.messages.every_pair", "COLL-043@9c54", {2, 3, 4, 5, 6, 8}, every_pair);
  add("collectives.messages.order", "COLL-044@ed2a", {2, 3, 5, 6}, order_of_messages);
  add("collectives.messages.tags", "COLL-045@18cc", {2, 3, 5, 6}, tags);
  suite.add({.id = "collectives.messages.buffer_is_free_afterwards",
             .verifies = {"COLL-061@0661"},
             .axes = {{"size", {"small", "large"}}, suite::worlds({2, 3, 5})},
             .deadlock_prone = true,
             .body = buffer_is_free_afterwards});
  add("collectives.messages.groups_apart", "COLL-046@8284", {2, 3, 5, 6}, groups_apart);
  add("collectives.messages.to_self", "COLL-047@301e", {1, 2, 3}, to_self);
  add("collectives.messages.empty", "COLL-048@b6c9", {2, 3, 5, 6}, empty);
}

}  // namespace plumbline::conformance

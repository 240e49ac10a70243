// Messages that wait: for their receiver, beside others, and under many tags.
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using comm::Operation;
using comm::Work;
using suite::Context;

namespace {

// Rank 0 has a receive from each other rank under way, in rank order. The last sends at once; each other one when its
// right neighbour's message has arrived.
void arrive_in_any_order(Context& context) {
  constexpr int kGo = 1, kData = 2;
  Communicator& world = context.world();
  const auto number = [](int rank) { return std::int64_t{100} + rank; };
  if (world.rank() != 0) {
    if (world.rank() != world.size() - 1) expect_number(world, number(0), 0, kGo);
    return send_number(world, number(world.rank()), 0, kData);
  }
  std::vector<GuardedOutput> received;
  std::vector<Work> works;
  for (int peer = 1; peer < world.size(); ++peer) {
    received.emplace_back(std::vector{number(peer)});
    works.push_back(world.start(
        {.operation = Operation::recv, .root = peer, .tag = kData, .out = carried(world, received.back())}));
  }
  for (int peer = world.size() - 1; peer > 0; --peer) {
    works[static_cast<std::size_t>(peer) - 1].wait();
    report(received[static_cast<std::size_t>(peer) - 1].wrong_result());
    if (peer > 1) send_number(world, number(0), peer - 1, kGo);
  }
}

// All are sent before the first is received. Short ones may be copied, and long ones wait.
void many_before_the_first_receive(Context& context) {
  constexpr std::size_t kMessages = 256, kShort = 3, kLong = 2500;
  Communicator& world = context.world();
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  const auto numbers = [](int rank, std::size_t message) {
    return std::vector(message % 2 == 0 ? kShort : kLong, static_cast<std::int64_t>(message) * 1000 + rank);
  };
  std::vector<GuardedInput> sent;
  std::vector<Work> sends;
  for (std::size_t message = 0; message < kMessages; ++message) {
    sent.emplace_back(numbers(world.rank(), message));
    sends.push_back(
        world.start({.operation = Operation::send, .root = next, .tag = 4, .in = carried(world, sent.back())}));
  }
  for (std::size_t message = 0; message < kMessages; ++message) {
    GuardedOutput received(numbers(previous, message));
    world.recv(carried(world, received), previous, 4);
    const std::string problem = received.wrong_result();
    if (!problem.empty()) report(fmt::format("message {} of {}: {}", message, kMessages, problem));
  }
  for (Work& send : sends) send.wait();
}

// Tags that are equal in some of their bits: 32767 is the largest that every MPI has. Received in another order.
void tags_of_15_bits(Context& context) {
  const std::vector<int> tags{0, 1, 127, 128, 255, 256, 1023, 4096, 16384, 32511, 32767};
  Communicator& world = context.world();
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  std::vector<GuardedInput> sent;
  std::vector<Work> sends;
  for (const int tag : tags) {
    sent.emplace_back(std::vector{std::int64_t{tag} * 10 + world.rank()});
    sends.push_back(
        world.start({.operation = Operation::send, .root = next, .tag = tag, .in = carried(world, sent.back())}));
  }
  for (auto tag = tags.rbegin(); tag != tags.rend(); ++tag)
    expect_number(world, std::int64_t{*tag} * 10 + previous, previous, *tag);
  for (Work& send : sends) send.wait();
}

}  // namespace

void add_message_queue_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* citation, std::vector<int> sizes, void (*body)(Context&)) {
    suite.add({.id = id, .verifies = {citation}, .axes = {suite::worlds(std::move(sizes))}, .body = body});
  };
  add("collectives.messages.arrive_in_any_order", "COLL-080@a069", {3, 4, 5}, arrive_in_any_order);
  add("collectives.messages.many_before_the_first_receive", "COLL-081@793e", {2, 3}, many_before_the_first_receive);
  add("collectives.messages.tags_of_15_bits", "COLL-082@7673", {2, 3}, tags_of_15_bits);
}

}  // namespace plumbline::conformance

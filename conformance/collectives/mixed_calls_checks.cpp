// Different calls on one group, one after the other and at the same time.
#include <future>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/data.hpp"
#include "conformance/collectives/trials.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Call;
using comm::Communicator;
using comm::DType;
using comm::Operation;
using comm::ReduceOp;
using comm::Work;
using suite::Context;

namespace {

// A trial that is the same on all members.
Trial drawn_trial(const Communicator& group, std::uint64_t seed, std::uint64_t number) {
  std::uint64_t draws = 0;
  const auto draw = [&](std::size_t count) { return static_cast<std::size_t>(mixed(seed, number, draws++) % count); };
  const std::vector<Operation> operations = exercised_operations(group);
  const std::vector<DType> dtypes = claimed(group.capabilities());
  const Operation operation = operations[draw(operations.size())];
  const DType dtype = dtypes[draw(dtypes.size())];
  const std::vector<ReduceOp> ops = ops_on(dtype);
  return {.operation = operation,
          .dtype = dtype,
          .op = is_reduction(operation) ? ops[draw(ops.size())] : ReduceOp::sum,
          .root = static_cast<int>(draw(static_cast<std::size_t>(group.size()))),
          .elements = static_cast<std::int64_t>(draw(16) == 0 ? 1000 + draw(3000) : draw(40)),
          .in_place = draw(3) == 0,
          .seed = mixed(seed, number, 99)};
}

// Every third call is started where the backend can do that, and a few are under way at once.
void long_chain(Context& context) {
  constexpr std::uint64_t kCalls = 1000;
  constexpr std::size_t kOutstanding = 5;
  Communicator& world = context.world();
  const bool starts = context.capabilities().has(comm::Capability::nonblocking);
  std::vector<Exercise> under_way;
  std::vector<Work> works;
  int reports = 0;
  const auto judge = [&](const Exercise& exercise) {
    constexpr int kReports = 3;
    const std::string problem = exercise.problem();
    if (!problem.empty() && ++reports <= kReports) report(problem);
  };
  const auto complete_all = [&] {
    for (Work& work : works) work.wait();
    for (const Exercise& exercise : under_way) judge(exercise);
    works.clear();
    under_way.clear();
  };
  for (std::uint64_t number = 0; number < kCalls; ++number) {
    const Trial trial = drawn_trial(world, context.seed(), number);
    if (starts && number % 3 == 0 && trial.operation != Operation::send) {
      under_way.emplace_back(world, trial);
      works.push_back(under_way.back().start(world));
    } else {
      const Exercise exercise(world, trial);
      exercise.run(world);
      judge(exercise);
    }
    if (works.size() == kOutstanding) complete_all();
    if (number % 100 == 0) context.progress("making the chain");
  }
  complete_all();
}

// A receive is under way all the time, and what it waits for is sent after the collectives.
void beside_an_outstanding_receive(Context& context) {
  Communicator& world = context.world();
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  constexpr std::int64_t kNumber = 77;
  GuardedOutput received(std::vector{kNumber + previous});
  Work receiving =
      world.start({.operation = Operation::recv, .root = previous, .tag = 6, .out = carried(world, received)});
  for (const Operation operation : exercised_operations())
    if (operation != Operation::send)
      expect_result(world, {.operation = operation, .elements = 19, .seed = context.seed()});
  const GuardedInput sent(std::vector{kNumber + world.rank()});
  Work sending = world.start({.operation = Operation::send, .root = next, .tag = 6, .in = carried(world, sent)});
  receiving.wait();
  sending.wait();
  report(received.wrong_result());
}

// Exact numbers of one seed are the input of all; the rooted calls' roots differ.
void one_input_of_several_calls(Context& context) {
  Communicator& world = context.world();
  const DType dtype = some_dtype(context.capabilities());
  const ExactNumbers numbers(dtype, ReduceOp::sum, world.size(), context.seed());
  for (const std::int64_t elements : {4, 4000}) {
    const std::size_t block = static_cast<std::size_t>(elements) * size_of(dtype);
    std::vector<std::byte> mine(block), sum(block), all(block * static_cast<std::size_t>(world.size()));
    numbers.give(world.rank(), 0, mine);
    numbers.result(0, sum);
    for (int rank = 0; rank < world.size(); ++rank)
      numbers.give(rank, 0, std::span(all).subspan(block * static_cast<std::size_t>(rank), block));
    const GuardedInput input(dtype, mine);
    GuardedOutput reduced(dtype, sum), gathered(dtype, all), again(dtype, sum);
    Work works[] = {world.start({.operation = Operation::all_reduce, .in = input.view(), .out = reduced.view()}),
                    world.start({.operation = Operation::all_gather, .in = input.view(), .out = gathered.view()}),
                    world.start({.operation = Operation::all_reduce, .in = input.view(), .out = again.view()})};
    for (Work& work : works) work.wait();
    for (const GuardedOutput* output : {&reduced, &gathered, &again}) report(output->wrong_result());
  }
}

// Operations, dtypes and lengths that have nothing in common, and a message to the next member among them.
void mixed_batch(Context& context) {
  Communicator& world = context.world();
  const std::vector<DType> dtypes = claimed(context.capabilities());
  std::vector<Exercise> exercises;
  std::vector<Call> batch;
  std::size_t turn = 0;
  for (const std::int64_t elements : {7, 0, 2100})
    for (const Operation operation : exercised_operations(world)) {
      exercises.emplace_back(world, Trial{.operation = operation,
                                          .dtype = dtypes[turn % dtypes.size()],
                                          .root = static_cast<int>(turn) % world.size(),
                                          .elements = elements,
                                          .seed = context.seed() + turn});
      for (const Call& call : exercises.back().calls()) batch.push_back(call);
      ++turn;
    }
  world.start(batch).wait();
  for (const Exercise& exercise : exercises) report(exercise.problem());
}

// What a member does not use in a rooted call is a null pointer there.
void unused_buffers(Context& context) {
  Communicator& world = context.world();
  for (const Operation operation : {Operation::reduce, Operation::gather, Operation::scatter})
    for (int root = 0; root < world.size(); ++root) {
      const Exercise exercise(world, {.operation = operation, .root = root, .elements = 6, .seed = context.seed()});
      Call call = exercise.calls().front();
      if (!call.uses_in(world.rank())) call.in = {};
      if (!call.uses_out(world.rank())) call.out = {};
      try {
        world.run(call);
      } catch (const Error& error) {
        report(fmt::format("{} with a null pointer where rank {} uses no buffer: {}", name_of(operation), world.rank(),
                           error.what()));
      }
      report(exercise.problem());
    }
}

// Each call reads what the one before it wrote.
void equal_to_their_parts(Context& context) {
  Communicator& world = context.world();
  const DType dtype = some_dtype(context.capabilities());
  const int last = world.size() - 1;
  const ExactNumbers numbers(dtype, ReduceOp::sum, world.size(), context.seed());
  for (const std::int64_t elements : {3, 2000}) {
    const std::int64_t all = elements * world.size();
    std::vector<std::byte> mine(static_cast<std::size_t>(all) * size_of(dtype)), sum(mine);
    numbers.give(world.rank(), 0, mine);
    numbers.result(0, sum);
    const GuardedInput input(dtype, mine);
    GuardedOutput at_once(dtype, sum), gathered(dtype, sum), told(dtype, sum), block(dtype, elements);
    world.all_reduce(input.view(), at_once.view(), ReduceOp::sum);
    world.reduce_scatter(input.view(), block.view(), ReduceOp::sum);
    world.all_gather(block.view(), gathered.view());
    world.reduce(input.view(), told.view(), ReduceOp::sum, last);
    world.broadcast(told.view(), last);
    report(at_once.wrong_result());
    for (const auto& [how, output] :
         {std::pair("reduce_scatter, then all_gather", &gathered), std::pair("reduce, then broadcast", &told)}) {
      const std::string problem = output->wrong_result();
      if (!problem.empty()) report(fmt::format("{}: {}", how, problem));
    }
  }
}

void long_batch(Context& context) {
  constexpr std::size_t kCalls = 256;
  std::vector<Exercise> exercises;
  std::vector<Call> batch;
  for (std::size_t i = 0; i < kCalls; ++i) {
    exercises.emplace_back(context.world(),
                           Trial{.operation = i % 2 == 0 ? Operation::all_reduce : Operation::all_gather,
                                 .elements = static_cast<std::int64_t>(i % 5) + 1,
                                 .seed = context.seed() + i});
    batch.push_back(exercises.back().calls().front());
  }
  context.world().start(batch).wait();
  for (const Exercise& exercise : exercises) report(exercise.problem());
}

// Each member's buffers lie otherwise than its neighbours'.
void other_alignment_on_each_member(Context& context) {
  const int me = context.rank();
  for (const DType dtype : claimed(context.capabilities()))
    for (const Operation operation : exercised_operations(context.world()))
      for (const std::int64_t elements : {33, 4100})
        expect_result(context.world(), {.operation = operation,
                                        .dtype = dtype,
                                        .elements = elements,
                                        .in_offset = me % 3,
                                        .out_offset = (me + 1) % 4,
                                        .seed = context.seed()});
}

void in_place_on_some_members(Context& context) {
  for (const Operation operation : exercised_operations(context.world()))
    for (const std::int64_t elements : {9, 4100})
      expect_result(context.world(), {.operation = operation,
                                      .root = context.size() - 1,
                                      .elements = elements,
                                      .in_place = context.rank() % 2 == 0,
                                      .seed = context.seed()});
}

// The last member starts its barrier when all others have looked: a message of each tells it so.
void started_barrier(Context& context) {
  Communicator& world = context.world();
  const auto aside = world.duplicate();
  const int late = world.size() - 1;
  constexpr std::int64_t kLooked = 5;
  if (world.rank() == late)
    for (int rank = 0; rank < late; ++rank) expect_number(*aside, kLooked, rank);
  Work barrier = world.start({.operation = Operation::barrier});
  if (world.rank() != late) {
    for (int look = 0; look < 3; ++look)
      EXPECT_FALSE(barrier.test()) << "the barrier is complete, and the last rank has not started it";
    send_number(*aside, kLooked, late);
  }
  barrier.wait();
}

// A failure in another thread belongs to no rank: it gives back words.
void waited_for_by_another_thread(Context& context) {
  for (const std::int64_t elements : {5, 3000}) {
    const Exercise exercise(context.world(), {.elements = elements, .seed = context.seed()});
    Work work = exercise.start(context.world());
    const auto wait = [&]() -> std::string {
      try {
        work.wait();
        return {};
      } catch (const std::exception& error) {
        return fmt::format("a wait by another thread: {}", error.what());
      }
    };
    report(std::async(std::launch::async, wait).get());
    report(exercise.problem());
  }
}

void dropped_when_test_says_complete(Context& context) {
  for (int round = 0; round < 3; ++round) {
    const Exercise exercise(context.world(), {.elements = 40, .seed = context.seed() + static_cast<unsigned>(round)});
    {
      Work work = exercise.start(context.world());
      while (!work.test()) std::this_thread::yield();
    }
    report(exercise.problem());
    expect_result(context.world(), {.operation = Operation::all_gather, .elements = 3, .seed = context.seed()});
  }
}

}  // namespace

void add_mixed_calls_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.mixed.long_chain",
             .verifies = {"COLL-075@f576"},
             .axes = {suite::worlds({3, 5})},
             .limit = std::chrono::seconds(60),
             .body = long_chain});
  suite.add({.id = "collectives.mixed.beside_an_outstanding_receive",
             .verifies = {"COLL-076@c5be"},
             .axes = {suite::worlds({2, 3, 5})},
             .body = beside_an_outstanding_receive});
  suite.add({.id = "collectives.mixed.one_input_of_several_calls",
             .verifies = {"COLL-077@2204"},
             .axes = {suite::worlds({2, 3, 5})},
             .body = one_input_of_several_calls});
  suite.add({.id = "collectives.mixed.batch",
             .verifies = {"COLL-078@ec6e"},
             .axes = {suite::worlds({2, 3, 5})},
             .body = mixed_batch});
  suite.add({.id = "collectives.mixed.unused_buffers",
             .verifies = {"COLL-079@76eb"},
             .axes = {suite::worlds({2, 3, 5})},
             .body = unused_buffers});
  suite.add({.id = "collectives.mixed.equal_to_their_parts",
             .verifies = {"COLL-089@de25"},
             .axes = {suite::worlds({2, 3, 5})},
             .body = equal_to_their_parts});
  suite.add({.id = "collectives.mixed.long_batch",
             .verifies = {"COLL-090@48fd"},
             .axes = {suite::worlds({2, 3})},
             .body = long_batch});
  suite.add({.id = "collectives.mixed.other_alignment_on_each_member",
             .verifies = {"COLL-091@9b05"},
             .axes = {suite::worlds({2, 3, 5})},
             .body = other_alignment_on_each_member});
  suite.add({.id = "collectives.mixed.in_place_on_some_members",
             .verifies = {"COLL-092@4436"},
             .axes = {suite::worlds({2, 3, 5})},
             .body = in_place_on_some_members});
  suite.add({.id = "collectives.nonblocking.barrier",
             .verifies = {"COLL-093@7540"},
             .axes = {suite::worlds({2, 3, 5})},
             .body = started_barrier});
  suite.add({.id = "collectives.nonblocking.waited_for_by_another_thread",
             .verifies = {"COLL-094@6685"},
             .axes = {suite::worlds({2, 3})},
             .body = waited_for_by_another_thread});
  suite.add({.id = "collectives.nonblocking.dropped_when_test_says_complete",
             .verifies = {"COLL-095@cdd4"},
             .axes = {suite::worlds({2, 3})},
             .body = dropped_when_test_says_complete});
}

}  // namespace plumbline::conformance

// Several threads of each rank, a group each.
#include <future>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::Communicator;
using comm::Operation;
using suite::Context;

namespace {

// Failures belong to the rank's own thread: the others give back words.
std::string exercise_often(Communicator& group, std::uint64_t seed) {
  try {
    for (std::uint64_t round = 0; round < 40; ++round)
      for (const Operation operation : {Operation::all_reduce, Operation::all_gather, Operation::send}) {
        if (operation == Operation::send && !can_shift(group)) continue;
        const Exercise exercise(
            group,
            {.operation = operation, .elements = static_cast<std::int64_t>(round * 13 % 300), .seed = seed + round});
        exercise.run(group);
        const std::string problem = exercise.problem();
        if (!problem.empty()) return problem;
      }
    return {};
  } catch (const std::exception& error) {
    group.abort(error.what());
    return error.what();
  }
}

void a_group_each(Context& context) {
  const auto first = context.world().duplicate();
  const auto second = context.world().duplicate();
  auto other = std::async(std::launch::async, exercise_often, std::ref(*second), context.seed() + 1000);
  report(exercise_often(*first, context.seed()));
  report(other.get());
}

}  // namespace

void add_thread_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.threads.a_group_each",
             .verifies = {"COLL-059@ea9b"},
             .axes = {suite::worlds({2, 3, 4})},
             .body = a_group_each});
}

}  // namespace plumbline::conformance

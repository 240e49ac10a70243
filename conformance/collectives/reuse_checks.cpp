// What members do with their buffers between calls: they write into an input as soon as its call is complete, and make
// the next call on the same buffers.
#include <thread>

#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::Operation;
using suite::Context;

namespace {

// The operations of an Exercise that all members make as one call.
std::vector<Operation> collectives_with_data() {
  std::vector<Operation> operations = exercised_operations();
  std::erase(operations, Operation::send);
  return operations;
}

// One member is late: the others, of which some need nothing of it, may have left by then. All buffers live until all
// have their result.
void input_is_free_afterwards(Context& context) {
  constexpr auto kLate = std::chrono::milliseconds(2);
  const Operation operation = operation_of(context);
  const bool comes_to_root = operation == Operation::reduce || operation == Operation::gather;
  const int ranks = context.size();
  int turn = 0;
  for (const std::int64_t elements : {3, 1500, 40000})
    for (const Way way : ways(context.capabilities())) {
      const int root = turn++ % ranks;
      const int late = comes_to_root ? root : (root + 1) % ranks;
      Exercise exercise(context.world(), {.operation = operation,
                                          .root = root,
                                          .elements = elements,
                                          .seed = context.seed() + static_cast<std::uint64_t>(turn)});
      if (context.rank() == late) std::this_thread::sleep_for(kLate);
      complete(context.world(), exercise.calls(), way);
      exercise.overwrite_input();
      const std::string problem = exercise.problem();
      if (!problem.empty()) report("members overwrote their inputs after the call: " + problem);
      context.world().barrier();
    }
}

void back_to_back(Context& context) {
  constexpr int kCalls = 64;
  const std::vector<Way> known = ways(context.capabilities());
  for (const std::int64_t elements : {5, 3000}) {
    Exercise exercise(
        context.world(),
        {.operation = operation_of(context), .root = context.size() - 1, .elements = elements, .seed = context.seed()});
    for (int call = 0; call < kCalls; ++call) {
      if (call > 0) exercise.renew(context.seed() + static_cast<std::uint64_t>(call));
      complete(context.world(), exercise.calls(), known[static_cast<std::size_t>(call) % known.size()]);
      const std::string problem = exercise.problem();
      if (!problem.empty()) report(fmt::format("call {} on the same buffers: {}", call, problem));
    }
    context.world().barrier();  // the buffers live until all have their result
  }
}

}  // namespace

void add_reuse_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.buffers.input_is_free_afterwards",
             .verifies = {"COLL-063@590e"},
             .axes = {operations_axis(collectives_with_data()), suite::worlds({2, 3, 5})},
             .body = input_is_free_afterwards});
  suite.add({.id = "collectives.buffers.back_to_back",
             .verifies = {"COLL-064@7b12"},
             .axes = {operations_axis(exercised_operations()), suite::worlds({2, 3, 5})},
             .body = back_to_back});
}

}  // namespace plumbline::conformance

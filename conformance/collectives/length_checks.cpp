// Lengths: around the sizes at which implementations change their way, large, and zero.
#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::DType;
using comm::Operation;
using suite::Context;

namespace {

// Where implementations change from copying inside a notice to larger schemes, or begin another chunk, in bytes of c
// elements: local's 512 and 256 KiB, the 4 KiB of MPI's eager messages, and 64 KiB between.
constexpr std::int64_t kBoundaries[] = {512, 4096, 65536, 262144};

void boundaries(Context& context) {
  int turn = 0;
  for (const std::int64_t bytes : kBoundaries)
    for (const std::int64_t beside : {-1, 0, 1})
      expect_result(context.world(), {.operation = operation_of(context.parameters()),
                                      .root = turn++ % context.size(),
                                      .elements = bytes / 4 + beside,
                                      .seed = context.seed() + static_cast<std::uint64_t>(turn)});
}

void large(Context& context) {
  const DType dtype = context.parameters().dtype();
  constexpr std::int64_t kMebibyte = 1 << 20;
  expect_result(
      context.world(),
      {.dtype = dtype, .elements = kMebibyte / static_cast<std::int64_t>(size_of(dtype)) + 1, .seed = context.seed()});
}

void zero(Context& context) {
  for (const DType dtype : claimed(context.capabilities()))
    for (const Operation operation : exercised_operations()) {
      const Exercise exercise(context.world(), {.operation = operation, .dtype = dtype, .root = context.size() - 1});
      exercise.run(context.world());
      report(exercise.damage());
      std::vector<comm::Call> calls = exercise.calls();
      for (comm::Call& call : calls) {
        call.in.data = nullptr;
        call.out.data = nullptr;
        if (calls.size() == 1) context.world().run(call);
      }
      context.world().start(calls).wait();
    }
  expect_usable(context.world());
}

}  // namespace

void add_length_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.lengths.boundaries",
             .verifies = {"COLL-026@9532"},
             .axes = {operations_axis(exercised_operations()), suite::worlds({2, 3, 5})},
             .body = boundaries});
  suite.add({.id = "collectives.lengths.large",
             .verifies = {"COLL-026@9532"},
             .axes = {suite::dtypes(), suite::worlds({3, 4})},
             .body = large});
  suite.add({.id = "collectives.lengths.zero",
             .verifies = {"COLL-027@3507"},
             .axes = {suite::worlds({1, 2, 3, 5})},
             .body = zero});
}

}  // namespace plumbline::conformance

// Lengths: around the sizes at which implementations change their way, and zero.
#include <array>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::DType;
using comm::Operation;
using suite::Context;

namespace {

// Where implementations change from copying inside a notice to larger schemes, or begin another chunk, in bytes of c
// elements: local's 512 and 256 KiB, the 4 KiB of MPI's eager messages, and every power of two around them.
constexpr int kBoundaries = 12;
std::int64_t boundary(int index) { return std::int64_t{512} << index; }

// One element fewer, as many, and one more than the size has, in dtypes that take turns; of the long calls, which cost most,
// one of the three in turn.
void boundaries(Context& context) {
  std::vector<DType> dtypes = claimed(context.capabilities(), std::array{DType::f32, DType::bf16, DType::f64});
  if (dtypes.empty()) dtypes = claimed(context.capabilities());
  constexpr std::int64_t kLong = 65536;
  int turn = 0;
  for (int index = 0; index < kBoundaries; ++index)
    for (const int beside : {-1, 0, 1}) {
      if (boundary(index) > kLong && (index + context.size()) % 3 != beside + 1) continue;
      const DType dtype = dtypes[static_cast<std::size_t>(turn + index) % dtypes.size()];
      expect_result(context.world(), {.operation = operation_of(context.parameters()),
                                      .dtype = dtype,
                                      .root = turn++ % context.size(),
                                      .elements = boundary(index) / static_cast<std::int64_t>(size_of(dtype)) + beside,
                                      .seed = context.seed() + static_cast<std::uint64_t>(turn)});
    }
}

// Every dtype and op, at one neighbour of each size: another at the next world size.
void all_reduce(Context& context) {
  const DType dtype = context.parameters().dtype();
  const std::vector<comm::ReduceOp> ops = ops_on(dtype);
  for (int index = 0; index < kBoundaries; ++index)
    expect_result(context.world(), {.dtype = dtype,
                                    .op = ops[static_cast<std::size_t>(index + context.size()) % ops.size()],
                                    .elements = boundary(index) / static_cast<std::int64_t>(size_of(dtype)) +
                                                (index + context.size()) % 3 - 1,
                                    .seed = context.seed() + static_cast<std::uint64_t>(index)});
}

void zero(Context& context) {
  for (const DType dtype : claimed(context.capabilities()))
    for (const Operation operation : exercised_operations()) {
      const Exercise exercise(context.world(), {.operation = operation, .dtype = dtype, .root = context.size() - 1});
      exercise.run(context.world());
      report(exercise.problem());
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
             .axes = {operations_axis(exercised_operations()), suite::worlds({2, 3, 6})},
             .body = boundaries});
  suite.add({.id = "collectives.lengths.all_reduce",
             .verifies = {"COLL-026@9532"},
             .axes = {suite::dtypes(), suite::worlds({3, 4, 5, 6, 8})},
             .body = all_reduce});
  suite.add({.id = "collectives.lengths.zero", .verifies = {"COLL-027@3507"}, .axes = {suite::worlds()}, .body = zero});
}

}  // namespace plumbline::conformance

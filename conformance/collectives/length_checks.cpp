// Lengths: around the sizes at which implementations change their way, and zero.
#include <array>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/long_calls.hpp"
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

// The usual lengths, and one element fewer, as many, and one more than each size has, in dtypes that take turns; of the
// long calls of more than two members, which cost most, one of the three in turn.
void boundaries(Context& context) {
  std::vector<DType> dtypes = claimed(context.capabilities(), std::array{DType::f32, DType::bf16, DType::f64});
  if (dtypes.empty()) dtypes = claimed(context.capabilities());
  int turn = 0;
  const auto expect = [&](DType dtype, std::int64_t elements) {
    expect_result(context.world(), {.operation = operation_of(context),
                                    .dtype = dtype,
                                    .root = turn++ % context.size(),
                                    .elements = elements,
                                    .seed = context.seed() + static_cast<std::uint64_t>(turn)});
  };
  for (const std::int64_t elements : usual_lengths(context.size()))
    expect(dtypes[static_cast<std::size_t>(turn) % dtypes.size()], elements);
  constexpr std::int64_t kLong = 65536;
  for (int index = 0; index < kBoundaries; ++index)
    for (const int beside : {-1, 0, 1}) {
      const bool one_will_do = boundary(index) > kLong && context.size() > 2;
      if (one_will_do && (index + context.size()) % 3 != beside + 1) continue;
      const DType dtype = dtypes[static_cast<std::size_t>(turn + index) % dtypes.size()];
      expect(dtype, boundary(index) / static_cast<std::int64_t>(size_of(dtype)) + beside);
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

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// How many bytes the longer of a rank's two buffers has for each byte of a block.
std::int64_t blocks_of(Operation operation, int ranks) {
  return takes_all_blocks(operation) || gives_all_blocks(operation) ? ranks : 1;
}

// Of two members: the neighbours of each size above those of boundaries(), until the longer buffer has 64 MiB. Of
// others, one length: longer than all of those where the data are reduced to all of three, else than 8 MiB. Each
// operation has another dtype, and another one in the next world.
void large(Context& context) {
  constexpr std::int64_t kMost = 64 * kMiB;
  const Operation operation = operation_of(context);
  const int ranks = context.size();
  const std::vector<DType> dtypes = claimed(context.capabilities());
  const DType dtype = dtypes[(static_cast<std::size_t>(operation) + static_cast<std::size_t>(ranks)) % dtypes.size()];
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t blocks = blocks_of(operation, ranks);
  std::vector<std::int64_t> lengths;
  if (ranks == 2) {
    for (std::int64_t bytes = boundary(kBoundaries); bytes * blocks <= kMost; bytes *= 2)
      for (const int beside : {-1, 0, 1}) lengths.push_back(bytes / element + beside);
  } else {
    const bool long_enough = ranks == 3 && operation == Operation::all_reduce;
    lengths.push_back((long_enough ? kMost : 8 * kMiB) / blocks / element + 1);
  }
  LongCalls calls(context.world(), operation, dtype, lengths.back(), context.seed());
  for (std::size_t turn = 0; turn < lengths.size(); ++turn) {
    context.progress("long calls");
    report(calls.problem_at(lengths[turn], static_cast<int>(turn) % ranks));
  }
}

// More bytes in a rank's longer buffer than 31 bits can count.
void huge(Context& context) {
  const Operation operation = operation_of(context);
  const DType dtype = context.capabilities().supports(DType::u8) ? DType::u8 : some_dtype(context.capabilities());
  const std::int64_t bytes = (std::int64_t{1} << 31) + 8 * 37;
  const std::int64_t elements =
      bytes / static_cast<std::int64_t>(size_of(dtype)) / blocks_of(operation, context.size()) + 1;
  LongCalls calls(context.world(), operation, dtype, elements, context.seed());
  context.progress("a call of more than 2^31 bytes");
  report(calls.problem_at(elements, context.size() - 1));
}

void zero(Context& context) {
  for (const DType dtype : claimed(context.capabilities()))
    for (const Operation operation : exercised_operations(context.world())) {
      const Exercise exercise(context.world(), {.operation = operation, .dtype = dtype, .root = context.size() - 1});
      exercise.run(context.world());
      report(exercise.problem());
      std::vector<comm::Call> calls = exercise.calls();
      for (comm::Call& call : calls) {
        call.in.data = nullptr;
        call.out.data = nullptr;
      }
      for (const Way way : ways(context.capabilities())) complete(context.world(), calls, way);
    }
  expect_usable(context.world());
}

}  // namespace

void add_length_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.lengths.boundaries",
             .verifies = {"COLL-026@4870"},
             .axes = {operations_axis(exercised_operations()), suite::worlds({2, 3, 6})},
             .body = boundaries});
  suite.add({.id = "collectives.lengths.large",
             .verifies = {"COLL-026@4870"},
             .axes = {operations_axis(exercised_operations()), suite::fewer_worlds()},
             .limit = std::chrono::seconds(60),
             .body = large});
  suite.add({.id = "collectives.lengths.huge",
             .verifies = {"COLL-066@2bb2"},
             .axes = {{"gib", {"10"}}, operations_axis(exercised_operations()), suite::worlds({2})},
             .limit = std::chrono::seconds(240),
             .body = huge});
  suite.add({.id = "collectives.lengths.all_reduce",
             .verifies = {"COLL-026@4870"},
             .axes = {suite::dtypes(), suite::worlds({3, 4, 5, 6, 8})},
             .body = all_reduce});
  suite.add({.id = "collectives.lengths.zero", .verifies = {"COLL-027@9eb7"}, .axes = {suite::worlds()}, .body = zero});
}

}  // namespace plumbline::conformance

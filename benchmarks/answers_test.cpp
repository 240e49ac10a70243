// The answers of collectives are known, and another rank's block, one in another place, or a shifted one is none.
#include "benchmarks/answers.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "reference/comm/local.hpp"

namespace plumbline::bench {
namespace {

using comm::Call;
using comm::DType;
using comm::Operation;

// The call of each rank with `count` elements a block, made once; then `spoil` has the output.
void check_answers(Operation operation, DType dtype, bool right,
                   const std::function<void(const comm::Communicator& world, std::span<std::byte> out)>& spoil) {
  constexpr std::int64_t count = 70001;  // more than a period
  comm::run_ranks(3, [&](comm::Communicator& world) {
    using enum Operation;
    const bool takes = operation == reduce_scatter || operation == all_to_all || operation == scatter;
    const bool gives = operation == all_gather || operation == all_to_all || operation == gather;
    const device::MemorySpace host;
    const Memory in(host, takes ? 3 * count : count, dtype), out(host, gives ? 3 * count : count, dtype);
    Call call{.operation = operation, .in = in.buffer(), .out = out.buffer()};
    if (operation == Operation::broadcast) {
      call.in = {};
      call.root = 1;
      give(world, call, out, out);
    } else {
      if (comm::is_rooted(operation)) call.root = 1;
      give(world, call, in, out);
    }
    const bool has_answer = operation != gather || world.rank() == call.root;
    const bool has_before = operation == broadcast && world.rank() == call.root;
    EXPECT_EQ(is_answer(world, call, out), has_before || !has_answer) << name_of(operation) << " before the call";
    world.run(call);
    spoil(world, {out.data(), out.bytes()});
    EXPECT_EQ(is_answer(world, call, out), right || !has_answer) << name_of(operation) << " of " << name_of(dtype);
  });
}

constexpr std::array kOperations{Operation::all_reduce, Operation::reduce_scatter, Operation::broadcast,
                                 Operation::all_gather, Operation::all_to_all,     Operation::gather,
                                 Operation::scatter};

TEST(Answers, AreKnown) {
  for (const Operation operation : kOperations)
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64})
      check_answers(operation, dtype, true, [](const auto&, auto) {});
}

TEST(Answers, ThatAreShiftedAreNone) {
  for (const Operation operation : kOperations)
    check_answers(operation, DType::f32, false,
                  [](const auto&, std::span<std::byte> out) { std::rotate(out.begin(), out.begin() + 4, out.end()); });
}

TEST(Answers, OfPermutedOrRepeatedBlocksAreNone) {
  for (const Operation operation : {Operation::all_gather, Operation::all_to_all}) {
    check_answers(operation, DType::f32, false, [](const auto&, std::span<std::byte> out) {
      const std::size_t block = out.size() / 3;
      std::ranges::swap_ranges(out.first(block), out.subspan(block, block));
    });
    check_answers(operation, DType::f32, false, [](const auto&, std::span<std::byte> out) {
      const std::size_t block = out.size() / 3;
      std::ranges::copy(out.first(block), out.subspan(2 * block).begin());
    });
  }
}

TEST(Answers, OfWhichTheLastElementIsWrongAreNone) {
  for (const Operation operation : kOperations)
    check_answers(operation, DType::bf16, false,
                  [](const auto&, std::span<std::byte> out) { std::ranges::fill(out.last(2), std::byte{0xff}); });
}

TEST(Answers, OfAReductionToOneRankAreItsOwn) {
  constexpr std::int64_t count = 70001;
  comm::run_ranks(3, [&](comm::Communicator& world) {
    const device::MemorySpace host;
    const Memory in(host, count, DType::f32), out(host, count, DType::f32);
    const Call call{.operation = Operation::reduce, .root = 1, .in = in.buffer(), .out = out.buffer()};
    give(world, call, in, out);
    EXPECT_EQ(is_answer(world, call, out), world.rank() != 1) << "before the call";
    world.run(call);
    EXPECT_TRUE(is_answer(world, call, out));
    std::ranges::fill(std::span(out.data(), out.bytes()).last(2), std::byte{0xff});
    EXPECT_EQ(is_answer(world, call, out), world.rank() != 1);
  });
}

}  // namespace
}  // namespace plumbline::bench

// What an operation may do with its buffers: in place, input untouched, nothing outside, any alignment.
#include <array>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/trials.hpp"

namespace plumbline::conformance {

using comm::DType;
using comm::Operation;
using suite::Context;

namespace {

constexpr std::array kInPlaceOperations{Operation::all_reduce, Operation::reduce,     Operation::reduce_scatter,
                                        Operation::all_gather, Operation::all_to_all, Operation::gather,
                                        Operation::scatter};

void in_place(Context& context) {
  int turn = 0;
  for (const DType dtype : claimed(context.capabilities(), std::array{DType::f32, DType::bf16, DType::i64, DType::u8}))
    for (const std::int64_t elements : {1, 3, 17, 65, 1000})
      expect_result(context.world(), {.operation = operation_of(context),
                                      .dtype = dtype,
                                      .root = turn++ % context.size(),
                                      .elements = elements,
                                      .in_place = true,
                                      .seed = context.seed() + static_cast<std::uint64_t>(turn)});
}

void input_untouched(Context& context) {
  int turn = 0;
  for (const DType dtype : claimed(context.capabilities()))
    for (const std::int64_t elements : {1, 17, 64, 1500}) {
      const Exercise exercise(context.world(), {.operation = operation_of(context),
                                                .dtype = dtype,
                                                .root = turn++ % context.size(),
                                                .elements = elements,
                                                .seed = context.seed() + static_cast<std::uint64_t>(turn)});
      exercise.run(context.world());
      report(exercise.problem());
    }
}

// Out of place, in place, and from starts where vectors do not fit: around the lengths at which loops and parts end.
// Short calls take the three forms in turn, long ones take all.
void nothing_outside(Context& context) {
  const std::vector<DType> dtypes = claimed(context.capabilities());
  int turn = 0;
  const auto exercise_form = [&](int form, DType dtype, std::int64_t elements) {
    const bool unaligned = form == 2;
    const Exercise exercise(context.world(), {.operation = operation_of(context),
                                              .dtype = dtype,
                                              .root = turn++ % context.size(),
                                              .elements = elements,
                                              .in_place = form == 1,
                                              .in_offset = unaligned ? 3 : 0,
                                              .out_offset = unaligned ? 1 : 0,
                                              .seed = context.seed()});
    exercise.run(context.world());
    report(exercise.problem());
  };
  for (const DType dtype : dtypes)
    for (const std::int64_t elements : {0, 1, 15, 16, 17, 63, 65}) exercise_form(turn % 3, dtype, elements);
  for (const std::int64_t elements : {1025, 4097, 16385, 65537})
    for (int form = 0; form < 3; ++form)
      exercise_form(form, dtypes[static_cast<std::size_t>(turn) % dtypes.size()], elements);
}

// Offsets are whole elements, for an element of two or more bytes has no other legal address: for u8 that is any byte.
void unaligned(Context& context) {
  struct Offsets {
    std::int64_t in, out;
  };
  const DType dtype = context.parameters().dtype();
  int turn = 0;
  for (const Operation operation : exercised_operations(context.world()))
    for (const Offsets offsets : {Offsets{1, 0}, Offsets{0, 1}, Offsets{3, 1}})
      for (const std::int64_t elements : {5, 67})
        expect_result(context.world(), {.operation = operation,
                                        .dtype = dtype,
                                        .root = turn++ % context.size(),
                                        .elements = elements,
                                        .in_offset = offsets.in,
                                        .out_offset = offsets.out,
                                        .seed = context.seed() + static_cast<std::uint64_t>(turn)});
}

}  // namespace

void add_buffer_checks(suite::Suite& suite) {
  suite.add({.id = "collectives.buffers.in_place",
             .verifies = {"COLL-022@62d1"},
             .axes = {operations_axis(kInPlaceOperations), suite::worlds()},
             .body = in_place});
  suite.add({.id = "collectives.buffers.input_untouched",
             .verifies = {"COLL-023@21d6"},
             .axes = {operations_axis(exercised_operations()), suite::worlds({2, 3, 5, 6})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   return operation_of(parameters) != Operation::broadcast;
                 },  // has no input
             .body = input_untouched});
  suite.add({.id = "collectives.buffers.nothing_outside",
             .verifies = {"COLL-024@873e"},
             .axes = {operations_axis(exercised_operations()), suite::worlds({2, 3, 5, 6})},
             .body = nothing_outside});
  suite.add({.id = "collectives.buffers.unaligned",
             .verifies = {"COLL-025@245e"},
             .axes = {suite::dtypes(), suite::worlds({2, 3, 5, 6})},
             .body = unaligned});
}

}  // namespace plumbline::conformance

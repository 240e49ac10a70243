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
      expect_result(context.world(), {.operation = operation_of(context.parameters()),
                                      .dtype = dtype,
                                      .root = turn++ % context.size(),
                                      .elements = elements,
                                      .in_place = true,
                                      .seed = context.seed() + static_cast<std::uint64_t>(turn)});
}

// Runs the operation in every claimed dtype and hands each exercise to `judge`.
template <class Judge>
void exercise_all(Context& context, std::initializer_list<std::int64_t> lengths, const Judge& judge) {
  int turn = 0;
  for (const DType dtype : claimed(context.capabilities()))
    for (const std::int64_t elements : lengths) {
      const Exercise exercise(context.world(), {.operation = operation_of(context.parameters()),
                                                .dtype = dtype,
                                                .root = turn++ % context.size(),
                                                .elements = elements,
                                                .seed = context.seed() + static_cast<std::uint64_t>(turn)});
      exercise.run(context.world());
      judge(exercise);
    }
}

void input_untouched(Context& context) {
  exercise_all(context, {1, 17, 64, 1500}, [](const Exercise& exercise) { report(exercise.changed_input()); });
}

void nothing_outside(Context& context) {
  exercise_all(context, {0, 1, 15, 16, 17, 63, 65}, [](const Exercise& exercise) { report(exercise.damage()); });
}

// Offsets are whole elements, for an element of two or more bytes has no other legal address: for u8 that is any byte.
void unaligned(Context& context) {
  struct Offsets {
    std::int64_t in, out;
  };
  const DType dtype = context.parameters().dtype();
  int turn = 0;
  for (const Operation operation : exercised_operations())
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
             .verifies = {"COLL-022@8c6f"},
             .axes = {operations_axis(kInPlaceOperations), suite::worlds({1, 2, 3, 5, 8})},
             .body = in_place});
  suite.add({.id = "collectives.buffers.input_untouched",
             .verifies = {"COLL-023@a333"},
             .axes = {operations_axis(exercised_operations()), suite::worlds({2, 3, 5})},
             .applies =
                 [](const suite::Parameters& parameters) {
                   return operation_of(parameters) != Operation::broadcast;
                 },  // has no input
             .body = input_untouched});
  suite.add({.id = "collectives.buffers.nothing_outside",
             .verifies = {"COLL-024@d3f7"},
             .axes = {operations_axis(exercised_operations()), suite::worlds({2, 3, 5})},
             .body = nothing_outside});
  suite.add({.id = "collectives.buffers.unaligned",
             .verifies = {"COLL-025@af85"},
             .axes = {suite::dtypes(), suite::worlds({2, 3, 5})},
             .body = unaligned});
}

}  // namespace plumbline::conformance

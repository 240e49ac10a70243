// Calls on rows with gaps between them: the result of packed copies, and nothing else is touched.
#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "conformance/collectives/collectives_checks.hpp"
#include "conformance/collectives/rows.hpp"
#include "conformance/collectives/trials.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::Call;
using comm::DType;
using comm::Operation;
using comm::ReduceOp;
using comm::Rows;
using suite::Context;
using namespace std::chrono_literals;

namespace {

// The rows of a rank's buffer, which has a block of the call's elements for each of `blocks` ranks.
struct Form {
  const char* name;
  std::vector<std::int64_t> elements;
  Rows (*rows)(int rank, int blocks, bool is_out);
};
const std::array kForms{Form{"packed", {1, 30, 3000}, [](int, int, bool) { return Rows{}; }},
                        Form{"single_elements", {1, 17, 2000}, [](int, int, bool) { return Rows{1, 3}; }},
                        Form{"slices", {5, 30, 3000}, [](int, int, bool) { return Rows{5, 8}; }},
                        Form{"mixed",
                             {30, 3000},
                             [](int rank, int, bool is_out) {
                               return std::array{Rows{}, Rows{3, 4},
                                                 Rows{10, 23}}[static_cast<std::size_t>((rank + (is_out ? 1 : 0)) % 3)];
                             }},
                        // A block ends within a row, where there are two or more and they do not divide 35.
                        Form{"rows_across_blocks", {35}, [](int, int blocks, bool) {
                               return blocks == 1 ? Rows{5, 6} : Rows{blocks, blocks + 2};
                             }}};

suite::Axis forms_axis() {
  suite::Axis axis{"rows", {}};
  for (const Form& one : kForms) axis.values.emplace_back(one.name);
  return axis;
}

const Form& form_of(Context& context) {
  const std::string& name = context.parameters().text("rows");
  return *std::ranges::find_if(kForms, [&](const Form& one) { return name == one.name; });
}

Views views_of(const Form& form, const Exercise& exercise, int rank, int ranks) {
  const Call& call = exercise.calls().front();
  const auto rows = [&](bool has_blocks, bool is_out) { return form.rows(rank, has_blocks ? ranks : 1, is_out); };
  return apart(rows(takes_all_blocks(call.operation), false), call.in.count,
               rows(gives_all_blocks(call.operation), true), call.out.count);
}

// The collectives with data.
std::vector<Operation> collectives_with_data() {
  std::vector<Operation> operations = exercised_operations();
  std::erase(operations, Operation::send);
  return operations;
}

// Calls each(exercise) for the collectives at those element counts, of that dtype.
void for_each_exercise(Context& context, DType dtype, std::span<const std::int64_t> elements, const auto& each) {
  for (const Operation operation : collectives_with_data())
    for (const std::int64_t count : elements)
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
        if (op == ReduceOp::max && !is_reduction(operation)) continue;
        each(Exercise(context.world(), {.operation = operation,
                                        .dtype = dtype,
                                        .op = op,
                                        .root = context.size() - 1,
                                        .elements = count,
                                        .seed = context.seed()}));
      }
}

void results_of_rows(Context& context) {
  const Form& form = form_of(context);
  for (const DType dtype : claimed(context.capabilities()))
    for_each_exercise(context, dtype, form.elements, [&](const Exercise& exercise) {
      RowsExercise rows(exercise, views_of(form, exercise, context.rank(), context.size()), context.rank());
      rows.run(context.world());
      report(exercise.problem());
    });
}

void gaps_stay(Context& context) {
  const Form& form = form_of(context);
  for_each_exercise(context, some_dtype(context.capabilities()), form.elements, [&](const Exercise& exercise) {
    RowsExercise rows(exercise, views_of(form, exercise, context.rank(), context.size()), context.rank());
    rows.run(context.world());
    report(exercise.wrong_result());  // what writes nothing writes no gaps
    report(rows.problem());
  });
}

// ---- input and output in one matrix ----

bool uses_both(const Call& call, int rank) { return call.uses_in(rank) && call.uses_out(rank); }

// All members in place, but those of a rooted operation that are not its root.
void in_place_forms(Context& context) {
  constexpr std::array<std::int64_t, 2> kElements{30, 3000};
  for (const DType dtype : claimed(context.capabilities()))
    for_each_exercise(context, dtype, kElements, [&](const Exercise& exercise) {
      const Call& call = exercise.calls().front();
      const Views views = uses_both(call, context.rank())
                              ? views_in_place({5, 8}, call.in.count, call.out.count, context.rank())
                              : apart({5, 8}, call.in.count, {5, 8}, call.out.count);
      RowsExercise rows(exercise, views, context.rank());
      rows.run(context.world());
      report(exercise.problem());
      report(rows.problem());
    });
}

void interleaved_forms(Context& context) {
  constexpr std::array<std::int64_t, 2> kElements{30, 3000};
  for (const DType dtype : claimed(context.capabilities()))
    for_each_exercise(context, dtype, kElements, [&](const Exercise& exercise) {
      const Call& call = exercise.calls().front();
      RowsExercise rows(exercise, interleaved(6, call.in.count, call.out.count), context.rank());
      rows.run(context.world());
      report(exercise.problem());
      report(rows.problem());
    });
}

// ---- messages ----

// One side of a ring shift: call `index` of the exercise, in rows or not.
void make_side(Context& context, const Exercise& exercise, std::size_t index, bool in_rows) {
  const Call& call = exercise.calls()[index];
  if (!in_rows) return context.world().run(call);
  const Rows rows = index == 0 ? Rows{5, 8} : Rows{3, 4};
  RowsExercise one(exercise, apart(rows, call.in.count, rows, call.out.count), context.rank(), index);
  one.run(context.world());
  report(one.problem());
}

void messages_in_rows(Context& context) {
  const std::string& sides = context.parameters().text("in_rows");
  for (const DType dtype : claimed(context.capabilities()))
    for (const std::int64_t elements : {15, 30000}) {
      const Exercise exercise(
          context.world(),
          {.operation = Operation::send, .dtype = dtype, .elements = elements, .seed = context.seed(), .tag = 3});
      // The first member sends first: a send may wait for its receive.
      for (const std::size_t turn : {0, 1}) {
        const std::size_t index = context.rank() == 0 ? turn : 1 - turn;
        make_side(context, exercise, index, sides == "both" || sides == (index == 0 ? "send" : "receive"));
      }
      report(exercise.problem());
    }
}

// ---- views of nothing, and of one row ----

void few_elements(Context& context) {
  const DType dtype = some_dtype(context.capabilities());
  constexpr std::array<std::int64_t, 1> kNone{0}, kOneRow{7};
  for_each_exercise(context, dtype, kNone, [&](const Exercise& exercise) {
    comm::StridedCall call{.call = exercise.calls().front(), .in = {5, 8}, .out = {1, 3}};
    call.call.in.data = nullptr;
    call.call.out.data = nullptr;
    context.world().run_strided(call);
    call.in = call.out = {};
    context.world().run_strided(call);
  });
  for_each_exercise(context, dtype, kOneRow, [&](const Exercise& exercise) {
    RowsExercise rows(
        exercise,
        views_of({"", {}, [](int, int, bool) { return Rows{7, 9}; }}, exercise, context.rank(), context.size()),
        context.rank());
    rows.run(context.world());
    report(exercise.problem());
    report(rows.problem());
  });
}

// ---- a member that does not come ----

// Where calls cannot be taken back the memory of this one must stay until the process ends. One member waits alone: of
// members that wait together the first to give up fails the group of the others.
void absent_member_of_rows(Context& context) {
  constexpr std::int64_t kElements = 6;
  const auto victim = context.world().duplicate();
  const DType dtype = some_dtype(context.capabilities());
  if (context.rank() == 0) {
    static std::vector<std::unique_ptr<std::vector<std::byte>>> lasting;
    static std::mutex mutex;
    const std::int64_t gathered = kElements * context.size();
    const Views views = apart({2, 5}, kElements, {3, 4}, gathered);
    std::byte* memory = nullptr;
    {
      const std::lock_guard hold(mutex);
      const auto bytes = static_cast<std::size_t>(views.out.end()) * size_of(dtype);
      memory = lasting.emplace_back(std::make_unique<std::vector<std::byte>>(bytes))->data();
    }
    const comm::StridedCall call{
        .call = {.operation = Operation::all_gather,
                 .in = {memory, kElements, dtype},
                 .out = {memory + static_cast<std::size_t>(views.out.first) * size_of(dtype), gathered, dtype}},
        .in = views.in.rows,
        .out = views.out.rows};
    expect_timeout(20ms, [&] { victim->run_strided(call, 20ms); });
    words_of<comm::PeerFailed>([&] { victim->run_strided(call, 20ms); }, "rows on a group that has failed");
  }
  context.world().barrier();
}

}  // namespace

void add_strided_checks(suite::Suite& suite) {
  const auto add = [&](const char* id, const char* citation, std::vector<suite::Axis> axes, void (*body)(Context&)) {
    suite.add({.id = id, .verifies = {citation}, .axes = std::move(axes), .body = body});
  };
  add("collectives.strided.results", "COLL-130@00fb", {forms_axis(), suite::worlds({1, 3})}, results_of_rows);
  add("collectives.strided.gaps", "COLL-131@d9d3", {forms_axis(), suite::worlds({1, 3})}, gaps_stay);
  add("collectives.strided.in_place", "COLL-132@ab7d", {suite::worlds({1, 3})}, in_place_forms);
  add("collectives.strided.interleaved", "COLL-133@cc7d", {suite::worlds({1, 3})}, interleaved_forms);
  add("collectives.strided.messages", "COLL-134@74bf",
      {{"in_rows", {"send", "receive", "both"}}, suite::worlds({2, 3})}, messages_in_rows);
  add("collectives.strided.few_elements", "COLL-135@152f", {suite::worlds({1, 2, 3})}, few_elements);
  suite.add({.id = "collectives.strided.absent_member",
             .verifies = {"COLL-136@17c8"},
             .axes = {suite::worlds({2, 3})},
             .spoils_group = true,
             .body = absent_member_of_rows});
}

}  // namespace plumbline::conformance

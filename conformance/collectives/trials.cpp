#include "conformance/collectives/trials.hpp"

#include <charconv>
#include <chrono>
#include <regex>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/suite/skipped.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::conformance {

using comm::DType;
using comm::Operation;
using comm::ReduceOp;

void report(const std::string& problem, std::source_location where) {
  if (!problem.empty()) ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << problem;
}

void expect_result(comm::Communicator& group, const Trial& trial, std::source_location where) {
  const Exercise exercise(group, trial);
  exercise.run(group);
  report(exercise.problem(), where);
}

void expect_usable(comm::Communicator& group, std::source_location where) {
  expect_result(group, {.operation = Operation::all_reduce, .elements = 5}, where);
  group.barrier();
}

void expect_usable_beside(comm::Communicator& group, const std::function<void()>& refused, std::source_location where) {
  const bool starts = group.capabilities().has(comm::Capability::nonblocking);
  const Exercise under_way(group, {.elements = 7, .seed = 1});
  comm::Work work = starts ? under_way.start(group) : comm::Work();
  if (group.rank() == group.size() - 1) words_of<Error>(refused, "what must be refused, made by one member", where);
  if (starts)
    work.wait();
  else
    under_way.run(group);
  report(under_way.problem(), where);
  expect_usable(group, where);
}

void expect_timeout(std::chrono::nanoseconds limit, const std::function<void()>& wait, std::source_location where) {
  constexpr std::chrono::seconds soon{3};  // after the limit, on a machine with more ranks than cores
  const auto begin = std::chrono::steady_clock::now();
  words_of<comm::TimeoutError>(wait, fmt::format("a wait of {} ns", limit.count()), where);
  const auto elapsed = std::chrono::steady_clock::now() - begin;
  if (elapsed < limit) report("it gave up before its limit", where);
  if (elapsed >= limit + soon) report(fmt::format("it waited {} s more than its limit", soon.count()), where);
}

comm::ConstBuffer carried(const comm::Communicator& group, const GuardedInput& input) {
  return input.view_as(some_dtype(group.capabilities()));
}

comm::Buffer carried(const comm::Communicator& group, GuardedOutput& output) {
  return output.view_as(some_dtype(group.capabilities()));
}

comm::Buffer nothing(const comm::Communicator& group) { return {nullptr, 0, some_dtype(group.capabilities())}; }

void send_number(comm::Communicator& group, std::int64_t number, int to, int tag) {
  const GuardedInput sent(std::vector{number});
  group.send(carried(group, sent), to, tag);
}

void expect_number(comm::Communicator& group, std::int64_t number, int from, int tag, std::source_location where) {
  GuardedOutput received(std::vector{number}, where);
  group.recv(carried(group, received), from, tag);
  report(received.wrong_result(), where);
}

std::vector<int> ranks_at_end(const std::string& words) {
  static const std::regex word(R"(\branks?\b)");
  std::size_t begin = words.size();
  for (std::sregex_iterator found(words.begin(), words.end(), word), none; found != none; ++found)
    begin = static_cast<std::size_t>(found->position());
  std::vector<int> ranks;
  const char* const end = words.data() + words.size();
  for (const char* at = words.data() + begin; at != end;) {
    int rank = 0;
    const auto [next, error] = std::from_chars(at, end, rank);
    if (error == std::errc{}) ranks.push_back(rank);
    at = error == std::errc{} ? next : at + 1;
  }
  return ranks;
}

std::vector<Way> ways(const comm::Capabilities& capabilities) {
  if (!capabilities.has(comm::Capability::nonblocking)) return {Way::block};
  return {Way::block, Way::wait, Way::test};
}

void complete(comm::Communicator& group, std::span<const comm::Call> calls, Way way) {
  const bool in_one = calls.size() == 1 || group.capabilities().has(comm::Capability::coalescing);
  if (way == Way::block || !in_one) return run_calls(group, calls);
  comm::Work work = group.start(calls);
  if (way != Way::test) return work.wait();
  while (!work.test()) std::this_thread::yield();
}

std::vector<DType> claimed(const comm::Capabilities& capabilities, std::span<const DType> dtypes) {
  std::vector<DType> list;
  for (const DType dtype : dtypes)
    if (capabilities.supports(dtype)) list.push_back(dtype);
  return list;
}

std::vector<ReduceOp> ops_on(DType dtype) {
  std::vector<ReduceOp> list;
  for (const ReduceOp op : comm::kAllReduceOps)
    if (is_defined(dtype, op)) list.push_back(op);
  return list;
}

suite::Axis operations_axis(std::span<const Operation> operations) {
  suite::Axis axis{"operation", {}};
  for (const Operation operation : operations) axis.values.emplace_back(name_of(operation));
  return axis;
}

Operation operation_of(const suite::Parameters& parameters) {
  for (int index = 0; index < comm::kOperationCount; ++index)
    if (name_of(static_cast<Operation>(index)) == parameters.text("operation")) return static_cast<Operation>(index);
  throw NotFound("no operation '" + parameters.text("operation") + "'");
}

Operation operation_of(suite::Context& context) {
  const Operation operation = operation_of(context.parameters());
  if (operation == Operation::send && !can_shift(context.world()))
    throw suite::Skipped(
        context.capabilities().has(comm::Capability::point_to_point)
            ? "a rank alone would wait for itself: the backend claims neither nonblocking nor coalescing"
            : "the backend claims no point_to_point");
  return operation;
}

void require_start(suite::Context& context, Operation operation) {
  if (!context.capabilities().has(comm::Capability::nonblocking))
    throw suite::Skipped("the backend claims no nonblocking");
  if (operation == Operation::send && !context.capabilities().has(comm::Capability::coalescing))
    throw suite::Skipped("the backend claims no coalescing");
}

}  // namespace plumbline::conformance

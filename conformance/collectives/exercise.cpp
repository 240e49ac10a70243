#include "conformance/collectives/exercise.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "conformance/collectives/compare.hpp"
#include "conformance/collectives/data.hpp"

namespace plumbline::conformance {

using comm::Call;
using comm::Operation;

bool takes_all_blocks(Operation operation) {
  return operation == Operation::reduce_scatter || operation == Operation::all_to_all ||
         operation == Operation::scatter;
}
bool gives_all_blocks(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::all_to_all || operation == Operation::gather;
}

namespace {

void invert(std::span<std::byte> bytes) {
  for (std::byte& byte : bytes) byte = ~byte;
}

}  // namespace

comm::DType some_dtype(const comm::Capabilities& capabilities) {
  if (capabilities.supports(comm::DType::f32)) return comm::DType::f32;
  const auto narrow = std::ranges::find_if(capabilities.dtypes, [](comm::DType dtype) { return size_of(dtype) <= 8; });
  return narrow != capabilities.dtypes.end() ? *narrow : *capabilities.dtypes.begin();
}

Exercise::Exercise(int rank, int ranks, const Trial& trial, comm::DType otherwise, const Room& room)
    : rank_(rank), ranks_(ranks), trial_(trial), dtype_(trial.dtype.value_or(otherwise)), in_(0), out_(0) {
  prepare_data();
  place_buffers(room);
  make_calls();
}

bool Exercise::writes_output() const {
  const bool only_root = trial_.operation == Operation::reduce || trial_.operation == Operation::gather;
  return !only_root || rank_ == trial_.root;
}

bool Exercise::shares_a_buffer() const {
  const bool has_form = trial_.operation != Operation::broadcast && trial_.operation != Operation::send;
  return trial_.in_place && has_form && (!is_rooted(trial_.operation) || rank_ == trial_.root);
}

// What the output is before the call: no byte is right, but where the call reads it, or leaves it as it is.
void Exercise::begin(std::span<std::byte> output) const {
  const bool root_of_broadcast = trial_.operation == Operation::broadcast && rank_ == trial_.root;
  std::ranges::copy(expected_, output.begin());
  if (writes_output() && !root_of_broadcast) invert(output);
}

void Exercise::prepare_data() {
  const std::size_t block = static_cast<std::size_t>(trial_.elements) * size_of(dtype_);
  const auto n = static_cast<std::size_t>(ranks_);
  const std::int64_t c = trial_.elements;
  given_.resize(block * (takes_all_blocks(trial_.operation) ? n : 1));
  expected_.resize(block * (gives_all_blocks(trial_.operation) ? n : 1));
  const auto fill = [&](int from, std::int64_t first, std::span<std::byte> to) {
    if (trial_.special) return fill_with_special_bits(from, dtype_, first, to);
    fill_with_bits(trial_.seed, from, dtype_, first, to);
  };
  // Elements [first, first + c) of a rank's input as block `to` of the expected output.
  const auto expect = [&](int from, std::int64_t first, int to) {
    fill(from, first, std::span(expected_).subspan(block * static_cast<std::size_t>(to), block));
  };
  if (is_reduction(trial_.operation)) {
    const ExactNumbers numbers(dtype_, trial_.op, ranks_, trial_.seed);
    numbers.give(rank_, 0, given_);
    numbers.result(trial_.operation == Operation::reduce_scatter ? rank_ * c : 0, expected_);
    return;
  }
  fill(rank_, 0, given_);
  switch (trial_.operation) {
    case Operation::broadcast:
      given_.clear();
      return expect(trial_.root, 0, 0);
    case Operation::scatter:
      return expect(trial_.root, rank_ * c, 0);
    case Operation::send:
      return expect((rank_ + ranks_ - 1) % ranks_, 0, 0);
    default:
      for (int from = 0; from < ranks_; ++from)
        expect(from, trial_.operation == Operation::all_to_all ? rank_ * c : 0, from);
  }
}

void Exercise::place_buffers(const Room& room) {
  const std::size_t element = size_of(dtype_);
  const std::size_t larger = std::max(given_.size(), expected_.size());
  if (shares_a_buffer()) {
    out_ = GuardedBuffer(larger, static_cast<std::size_t>(trial_.out_offset) * element, room);
    // The smaller of the two is this rank's block of the larger.
    if (given_.size() < larger) in_at_ = given_.size() * static_cast<std::size_t>(rank_);
    if (expected_.size() < larger) out_at_ = expected_.size() * static_cast<std::size_t>(rank_);
  } else {
    in_ = GuardedBuffer(given_.size(), static_cast<std::size_t>(trial_.in_offset) * element, room);
    out_ = GuardedBuffer(expected_.size(), static_cast<std::size_t>(trial_.out_offset) * element, room);
  }
  fill_buffers();
}

// Once for each preparation of the data.
void Exercise::fill_buffers() {
  if (!writes_output()) invert(expected_);  // not what the root gets
  begin(out_.bytes().subspan(out_at_, expected_.size()));
  std::ranges::copy(given_, shares_a_buffer() ? out_.data() + in_at_ : in_.data());
}

void Exercise::renew(std::uint64_t seed) {
  trial_.seed = seed;
  prepare_data();
  fill_buffers();
}

void Exercise::overwrite_input() {
  const bool root_of_broadcast = trial_.operation == Operation::broadcast && rank_ == trial_.root;
  invert(root_of_broadcast ? expected_ : given_);
  std::ranges::copy(root_of_broadcast ? expected_ : given_, root_of_broadcast ? out_.data() : in_.data());
}

void Exercise::make_calls() {
  const auto count = [&](const std::vector<std::byte>& bytes) {
    return static_cast<std::int64_t>(bytes.size() / size_of(dtype_));
  };
  std::byte* in = shares_a_buffer() ? out_.data() + in_at_ : in_.data();
  const comm::ConstBuffer input{in, count(given_), dtype_};
  const comm::Buffer output{out_.data() + out_at_, count(expected_), dtype_};
  if (trial_.operation == Operation::send) {
    calls_ = {{.operation = Operation::send, .root = (rank_ + 1) % ranks_, .tag = trial_.tag, .in = input},
              {.operation = Operation::recv, .root = (rank_ + ranks_ - 1) % ranks_, .tag = trial_.tag, .out = output}};
    return;
  }
  Call call{.operation = trial_.operation, .op = trial_.op, .out = output};
  if (is_rooted(trial_.operation)) call.root = trial_.root;
  if (trial_.operation != Operation::broadcast) call.in = input;
  calls_ = {call};
}

void run_calls(comm::Communicator& group, std::span<const comm::Call> calls) {
  const comm::Capabilities& capabilities = group.capabilities();
  if (calls.size() == 1) return group.run(calls.front());
  if (capabilities.has(comm::Capability::coalescing)) return group.start(calls).wait();
  if (group.size() == 1) {
    std::vector<comm::Work> under_way;
    for (const comm::Call& call : calls) under_way.push_back(group.start(call));
    for (comm::Work& work : under_way) work.wait();
    return;
  }
  // A send may wait for its receive, and on a device what is started later for what was started before: the first
  // member begins the chain of the ring, in which all others receive first.
  for (const bool sends : {group.rank() == 0, group.rank() != 0})
    for (const comm::Call& call : calls)
      if ((call.operation == Operation::send) == sends) group.run(call);
}

void Exercise::run(comm::Communicator& group) const { run_calls(group, calls_); }

std::span<const std::byte> Exercise::output() const { return out_.bytes().subspan(out_at_, expected_.size()); }

std::string Exercise::problem() const {
  std::string all;
  for (const std::string& one : {wrong_result(), changed_input(), damage()})
    if (!one.empty()) all += all.empty() ? one : "\n" + one;
  return all;
}

std::string Exercise::touched() const {
  std::vector<std::byte> begun(expected_.size());
  begin(begun);
  const std::string moved = first_difference(dtype_, begun, output());
  if (!moved.empty()) return named("data moved: " + moved);
  const std::string input = changed_input();
  return input.empty() ? damage() : input;
}

std::string Exercise::wrong_result() const { return named(first_difference(dtype_, expected_, output())); }

std::string Exercise::changed_input() const {
  if (shares_a_buffer() || trial_.operation == Operation::broadcast) return {};
  const std::string difference = first_difference(dtype_, given_, in_.bytes());
  return difference.empty() ? difference : named("the input was changed: " + difference);
}

std::string Exercise::damage() const {
  const std::string in = in_.damage();
  if (!in.empty()) return named("outside the input: " + in);
  const std::string out = out_.damage();
  return out.empty() ? out : named("outside the output: " + out);
}

std::string Exercise::named(const std::string& problem) const {
  if (problem.empty()) return {};
  std::string where = trial_.in_place ? ", in place" : "";
  if (trial_.in_offset != 0 || trial_.out_offset != 0)
    where +=
        fmt::format(", in {} and out {} elements past a boundary of 64 bytes", trial_.in_offset, trial_.out_offset);
  return fmt::format("rank {} of {}: {}{}: {}", rank_, ranks_, describe(calls_.back(), ranks_), where, problem);
}

const std::vector<Operation>& exercised_operations() {
  static const std::vector<Operation> operations{
      Operation::all_reduce,     Operation::reduce,     Operation::broadcast,
      Operation::reduce_scatter, Operation::all_gather, Operation::all_to_all,
      Operation::gather,         Operation::scatter,    Operation::send};
  return operations;
}

bool can_shift(const comm::Communicator& group) {
  const comm::Capabilities& capabilities = group.capabilities();
  return capabilities.has(comm::Capability::point_to_point) &&
         (group.size() > 1 || capabilities.has(comm::Capability::nonblocking) ||
          capabilities.has(comm::Capability::coalescing));
}

std::vector<Operation> exercised_operations(const comm::Communicator& group) {
  std::vector<Operation> operations = exercised_operations();
  if (!can_shift(group)) std::erase(operations, Operation::send);
  return operations;
}

std::vector<std::int64_t> usual_lengths(int ranks) {
  const std::set<std::int64_t> lengths{0, 1, ranks - 1, ranks, ranks + 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65};
  return {lengths.begin(), lengths.end()};
}

}  // namespace plumbline::conformance

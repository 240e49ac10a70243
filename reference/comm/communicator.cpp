#include "reference/comm/communicator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/support/fnv1a.hpp"

namespace plumbline::comm {
namespace {

constexpr std::array<std::string_view, kCapabilityCount> kCapabilityNames{"nonblocking",
                                                                          "coalescing",
                                                                          "groups",
                                                                          "point_to_point",
                                                                          "wait_timeout",
                                                                          "blocking_timeout",
                                                                          "names_missing",
                                                                          "misuse_detection",
                                                                          "failure_detection",
                                                                          "rank_order",
                                                                          "equal_results",
                                                                          "thread_multiple",
                                                                          "all_gather_v",
                                                                          "reduce_scatter_v",
                                                                          "all_to_all_v",
                                                                          "bool_reductions",
                                                                          "float8_reductions",
                                                                          "scaled_sums",
                                                                          "shrink",
                                                                          "complex_sums",
                                                                          "complex_products",
                                                                          "strided",
                                                                          "windows",
                                                                          "registered_memory",
                                                                          "allocated_memory",
                                                                          "grow"};

Capability capability_of(const UnevenCall& call) {
  if (call.operation == Operation::all_gather) return Capability::all_gather_v;
  return call.operation == Operation::all_to_all ? Capability::all_to_all_v : Capability::reduce_scatter_v;
}

constexpr bool is_optional(DType dtype) {
  constexpr auto bit = [](DType one) { return std::uint64_t{1} << static_cast<unsigned>(one); };
  constexpr std::uint64_t all = [bit] {
    std::uint64_t bits = 0;
    for (const DType one : kOptionalDTypes) bits |= bit(one);
    return bits;
  }();
  return (all & bit(dtype)) != 0;
}

// Backends may be older than these types: none is asked for what it does not claim.
template <class AnyCall>
void expect_optional_claimed(const AnyCall& call, DType dtype, const Communicator& group, auto describe_call) {
  if (!is_optional(dtype)) return;
  const Capabilities& has = group.capabilities();
  if (!has.supports(dtype))
    throw Unsupported(fmt::format("{}: backend {} has no {}", describe_call(), has.backend, name_of(dtype)));
  if (is_reduction(call.operation) && !has.reduces(dtype, call.op))
    throw Unsupported(fmt::format("{}: backend {} has {} and does not reduce it by {}", describe_call(), has.backend,
                                  name_of(dtype), name_of(call.op)));
}

[[gnu::always_inline]] inline void expect_claimed(const Call& call, const Communicator& group) {
  if (call.operation == Operation::barrier || !is_optional(call.dtype())) return;
  expect_optional_claimed(call, call.dtype(), group, [&] { return describe(call, group.size()); });
}

// Of what takes factors.
double largest_number(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 65504;
    case DType::bf16:
      return to_float(BFloat16{0x7f7f});
    case DType::f32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

[[noreturn]] void refuse_list(const char* function, std::span<const int> ranks, const std::string& why) {
  throw InvalidArgument(fmt::format("{}([{}]): {}", function, fmt::join(ranks, " "), why));
}

// Which ranks of a group are in a list.
std::vector<bool> seen_in(const char* function, std::span<const int> ranks, int size) {
  std::vector<bool> seen(static_cast<std::size_t>(size));
  for (const int member : ranks) {
    if (member < 0 || member >= size)
      refuse_list(function, ranks, fmt::format("{} is not a rank of the group of {}", member, size));
    if (seen[static_cast<std::size_t>(member)])
      refuse_list(function, ranks, fmt::format("rank {} stands twice", member));
    seen[static_cast<std::size_t>(member)] = true;
  }
  return seen;
}

void check_members(std::span<const int> ranks, int rank, int size) {
  if (ranks.empty()) refuse_list("create_group", ranks, "a group has at least one rank");
  if (!seen_in("create_group", ranks, size)[static_cast<std::size_t>(rank)])
    refuse_list("create_group", ranks, fmt::format("the calling rank {} is not in it", rank));
}

void check_excluded(std::span<const int> ranks, int rank, int size) {
  if (ranks.empty()) refuse_list("shrink", ranks, "no rank is excluded; duplicate() makes a group of the same ranks");
  if (seen_in("shrink", ranks, size)[static_cast<std::size_t>(rank)])
    refuse_list("shrink", ranks, fmt::format("the calling rank {} is in it", rank));
}

}  // namespace

std::uint64_t group_id(std::uint64_t parent, std::span<const int> world_ranks, int creation) {
  Fnv1a hash;
  hash.add_bytes(parent);
  for (const int rank : world_ranks) hash.add_bytes(static_cast<std::uint32_t>(rank));
  return hash.add_bytes(static_cast<std::uint32_t>(creation)).value();
}

std::string_view name_of(Capability capability) { return kCapabilityNames[static_cast<std::size_t>(capability)]; }

std::optional<Capability> parse_capability(std::string_view name) {
  const auto found = std::ranges::find(kCapabilityNames, name);
  if (found == kCapabilityNames.end()) return std::nullopt;
  return static_cast<Capability>(found - kCapabilityNames.begin());
}

bool Capabilities::reduces(DType dtype, ReduceOp op) const {
  if (!supports(dtype)) return false;
  if (dtype == DType::boolean) return has(Capability::bool_reductions);
  if (is_complex(dtype)) return has(op == ReduceOp::product ? Capability::complex_products : Capability::complex_sums);
  return !is_float8(dtype) || has(Capability::float8_reductions);
}

DType Capabilities::accumulator(DType dtype, ReduceOp op) const {
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16 || is_float8(dtype);
  return narrow && !(rounds_each_half_addition && op != ReduceOp::avg) ? DType::f32 : dtype;
}

bool Work::test() {
  if (state_ == nullptr) return true;
  if (!state_->test()) return false;
  state_.reset();
  return true;
}

void Work::wait(Timeout timeout) {
  if (state_ == nullptr) return;
  state_->wait(timeout);
  if (!state_->outlasts_wait()) state_.reset();
}

Communicator::Communicator(int rank, Group group)
    : rank_(rank), size_(static_cast<int>(group.ranks.size())), group_(std::move(group)) {}

std::unique_ptr<Communicator> Communicator::create_group(std::span<const int> ranks) {
  check_members(ranks, rank_, size_);
  return do_create_group(ranks);
}

std::unique_ptr<Communicator> Communicator::duplicate() {
  std::vector<int> all(static_cast<std::size_t>(size_));
  for (int rank = 0; rank < size_; ++rank) all[static_cast<std::size_t>(rank)] = rank;
  return do_create_group(all);
}

std::unique_ptr<Communicator> Communicator::shrink(std::span<const int> excluded) {
  check_excluded(excluded, rank_, size_);
  if (!capabilities().has(Capability::shrink)) return Communicator::do_shrink(excluded);
  return do_shrink(excluded);
}

std::unique_ptr<Communicator> Communicator::do_shrink(std::span<const int> excluded) {
  throw Unsupported(fmt::format("shrink([{}]): backend {} has no {}", fmt::join(excluded, " "), capabilities().backend,
                                name_of(Capability::shrink)));
}

std::vector<int> Communicator::ranks_without(std::span<const int> excluded) const {
  std::vector<int> left;
  for (int rank = 0; rank < size_; ++rank)
    if (std::ranges::find(excluded, rank) == excluded.end()) left.push_back(rank);
  return left;
}

void Communicator::run(const Call& call, Timeout timeout) {
  validate(call, rank_, size_);
  expect_claimed(call, *this);
  do_run(call, timeout);
}

Work Communicator::start(std::span<const Call> calls) {
  for (const Call& call : calls) {
    validate(call, rank_, size_);
    expect_claimed(call, *this);
  }
  return do_start(calls);
}

void Communicator::all_reduce(ConstBuffer in, Buffer out, ReduceOp op, Timeout timeout) {
  run({.operation = Operation::all_reduce, .op = op, .in = in, .out = out}, timeout);
}
void Communicator::reduce(ConstBuffer in, Buffer out, ReduceOp op, int root, Timeout timeout) {
  run({.operation = Operation::reduce, .op = op, .root = root, .in = in, .out = out}, timeout);
}
void Communicator::broadcast(Buffer buffer, int root, Timeout timeout) {
  run({.operation = Operation::broadcast, .root = root, .out = buffer}, timeout);
}
void Communicator::reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op, Timeout timeout) {
  run({.operation = Operation::reduce_scatter, .op = op, .in = in, .out = out}, timeout);
}
void Communicator::all_gather(ConstBuffer in, Buffer out, Timeout timeout) {
  run({.operation = Operation::all_gather, .in = in, .out = out}, timeout);
}
void Communicator::all_to_all(ConstBuffer in, Buffer out, Timeout timeout) {
  run({.operation = Operation::all_to_all, .in = in, .out = out}, timeout);
}
void Communicator::gather(ConstBuffer in, Buffer out, int root, Timeout timeout) {
  run({.operation = Operation::gather, .root = root, .in = in, .out = out}, timeout);
}
void Communicator::scatter(ConstBuffer in, Buffer out, int root, Timeout timeout) {
  run({.operation = Operation::scatter, .root = root, .in = in, .out = out}, timeout);
}
void Communicator::barrier(Timeout timeout) { run({.operation = Operation::barrier}, timeout); }
void Communicator::send(ConstBuffer in, int to, int tag, Timeout timeout) {
  run({.operation = Operation::send, .root = to, .tag = tag, .in = in}, timeout);
}
void Communicator::recv(Buffer out, int from, int tag, Timeout timeout) {
  run({.operation = Operation::recv, .root = from, .tag = tag, .out = out}, timeout);
}

void Communicator::run_uneven(const UnevenCall& call, Timeout timeout) {
  validate(call, rank_, size_);
  expect_optional_claimed(call, call.in.dtype, *this, [&] { return describe(call); });
  if (!capabilities().has(capability_of(call))) return Communicator::do_run_uneven(call, timeout);
  do_run_uneven(call, timeout);
}

void Communicator::do_run_uneven(const UnevenCall& call, Timeout /*timeout*/) {
  throw Unsupported(
      fmt::format("{}: backend {} has no {}", describe(call), capabilities().backend, name_of(capability_of(call))));
}

void Communicator::run_scaled(const Call& call, double factor, Timeout timeout) {
  validate(call, rank_, size_);
  const DType dtype = call.dtype();
  if (!is_reduction(call.operation) || call.op != ReduceOp::sum)
    throw InvalidArgument(fmt::format(
        "run_scaled: {} is not a sum; give all_reduce, reduce or reduce_scatter with op sum", describe(call, size_)));
  if (!is_floating(dtype))
    throw Unsupported(fmt::format("run_scaled: {}: dtype {} takes no factor; give f16, bf16, f32 or f64",
                                  describe(call, size_), name_of(dtype)));
  if (std::isfinite(factor) && std::abs(factor) > largest_number(dtype))
    throw InvalidArgument(fmt::format("run_scaled: {}: factor {} is beyond {}, whose largest number is {}",
                                      describe(call, size_), factor, name_of(dtype), largest_number(dtype)));
  if (!capabilities().has(Capability::scaled_sums)) return Communicator::do_run_scaled(call, factor, timeout);
  do_run_scaled(call, factor, timeout);
}

void Communicator::do_run_scaled(const Call& call, double /*factor*/, Timeout /*timeout*/) {
  throw Unsupported(fmt::format("run_scaled: {}: backend {} has no {}", describe(call, size_), capabilities().backend,
                                name_of(Capability::scaled_sums)));
}

void Communicator::run_strided(const StridedCall& call, Timeout timeout) {
  validate(call, rank_, size_);
  expect_claimed(call.call, *this);
  if (!capabilities().has(Capability::strided)) return Communicator::do_run_strided(call, timeout);
  do_run_strided(call, timeout);
}

void Communicator::do_run_strided(const StridedCall& call, Timeout /*timeout*/) {
  throw Unsupported(fmt::format("run_strided: {}: backend {} has no {}", describe(call, size_), capabilities().backend,
                                name_of(Capability::strided)));
}

CommunicatorDecorator::CommunicatorDecorator(std::unique_ptr<Communicator> inner)
    : Communicator(inner->rank(), inner->group()), inner_(std::move(inner)) {}

}  // namespace plumbline::comm

// Collectives whose blocks differ in length: each member tells the others where its call is, and copies what it needs.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/kernels.hpp"
#include "reference/comm/local/collectives.hpp"
#include "reference/comm/local/parts.hpp"

namespace plumbline::comm::local {
namespace {

using Counts = std::span<const std::int64_t>;

// A member's call, in memory that stays until all are done.
using Told = const UnevenCall*;

std::size_t bytes_before(Counts counts, int rank, DType dtype) {
  return static_cast<std::size_t>(begin_of_block(counts, rank)) * size_of(dtype);
}

// What two members' calls differ in; "" where they go together.
std::string difference(const UnevenCall& a, const UnevenCall& b) {
  const bool reduces = a.operation == Operation::reduce_scatter;
  if (a.in.dtype == b.in.dtype && (!reduces || a.op == b.op) &&
      (a.operation == Operation::all_to_all ||
       (std::ranges::equal(a.in_counts, b.in_counts) && std::ranges::equal(a.out_counts, b.out_counts))))
    return {};
  return fmt::format("{} and {}", describe(a), describe(b));
}

// Whether the ranks' calls go together: one sentence if not. All members work out the same.
std::string disagreement(std::span<const Told> calls) {
  for (std::size_t rank = 1; rank < calls.size(); ++rank)
    if (const std::string how = difference(*calls[0], *calls[rank]); !how.empty())
      return fmt::format("ranks 0 and {}: {}", rank, how);
  if (calls[0]->operation != Operation::all_to_all) return {};
  for (std::size_t from = 0; from < calls.size(); ++from)
    for (std::size_t to = 0; to < calls.size(); ++to)
      if (const std::int64_t sent = calls[from]->in_counts[to], taken = calls[to]->out_counts[from]; sent != taken)
        return fmt::format("rank {} has {} elements for rank {}, which takes {}", from, sent, to, taken);
  return {};
}

void copy_block(std::byte* to, const void* from, std::size_t bytes) {
  if (bytes != 0 && to != from) kernels().copy(to, static_cast<const std::byte*>(from), bytes, false);
}

// The blocks of all members for this one, or their sum.
void take(const UnevenCall& call, std::span<const Told> calls, int rank) {
  const DType dtype = call.in.dtype;
  auto* const out = static_cast<std::byte*>(call.out.data);
  const auto block_of = [&](std::size_t member) {
    const auto* const in = static_cast<const std::byte*>(calls[member]->in.data);
    if (call.operation == Operation::all_gather || in == nullptr) return in;
    return in + bytes_before(calls[member]->in_counts, rank, dtype);
  };
  if (call.operation != Operation::reduce_scatter) {
    std::size_t begin = 0;
    for (std::size_t member = 0; member < calls.size(); ++member) {
      const std::size_t bytes = static_cast<std::size_t>(call.out_counts[member]) * size_of(dtype);
      copy_block(out + begin, block_of(member), bytes);
      begin += bytes;
    }
  } else if (call.out.count != 0) {
    std::vector<const std::byte*> blocks;
    for (std::size_t member = 0; member < calls.size(); ++member) blocks.push_back(block_of(member));
    pull({.operation = Operation::all_reduce,
          .op = call.op,
          .dtype = dtype,
          .ranks = static_cast<int>(calls.size()),
          .elements = static_cast<std::size_t>(call.out.count)},
         blocks, rank, out);
  }
}

}  // namespace

// A step of an uneven collective: what each member tells all, and their meeting. Its number among the collectives.
std::uint64_t Collectives::tell(Operation uneven, std::span<const std::byte> mine, std::span<std::byte> all,
                                Deadline& deadline) {
  const Call step{.operation = Operation::all_gather,
                  .in = {mine.data(), std::ssize(mine), DType::u8},
                  .out = {all.data(), std::ssize(all), DType::u8}};
  Shape shape = Shape::of(step, self_.size());
  shape.uneven = uneven;
  Pending pending = post(step, shape, true);
  complete_last(pending, deadline);
  return pending.sequence;
}

void Collectives::run(const UnevenCall& call, Timeout timeout) {
  Deadline deadline = self_.deadline(timeout);
  const Told mine = &call;
  std::vector<Told> calls(static_cast<std::size_t>(self_.size()));
  const std::uint64_t sequence =
      tell(call.operation, std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(calls)), deadline);
  // From here on until it leaves, no other member returns with an error, after which its memory may be gone.
  if (!group_.enter(self_.rank)) self_.throw_failure(sequence, true);
  const std::string why = disagreement(calls);
  if (why.empty()) take(call, calls, self_.rank);
  group_.leave(self_.rank);
  if (!why.empty())
    self_.fail(
        {.kind = Failure::Kind::mismatch,
         .sequence = sequence,
         .message = fmt::format("call #{} on {}: the ranks disagree: {}", sequence, describe(group_.identity), why)});
  tell(call.operation, {}, {}, deadline);  // nor with success: all have taken what they need
}

}  // namespace plumbline::comm::local

#include "conformance/collectives/long_calls.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "conformance/collectives/compare.hpp"
#include "conformance/collectives/exercise.hpp"

namespace plumbline::conformance {

using comm::Operation;

namespace {

constexpr std::int64_t kPeriod = 65521;     // a prime
constexpr std::size_t kPiece = 240 * 1024;  // bytes that are compared at once: whole elements of every dtype
constexpr std::size_t kPastEnd = 256;       // bytes after a result that must stay as they were
constexpr int kSum = -1, kNobody = -2;      // in place of a rank: whose elements they are
constexpr std::byte kUntouched{0xd3};       // of outputs: negative, and no sum of two ranks in u8

std::size_t bytes_for(std::int64_t elements, comm::DType dtype) {
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

}  // namespace

LongCalls::LongCalls(comm::Communicator& group, Operation operation, comm::DType dtype, std::int64_t longest,
                     std::uint64_t seed)
    : group_(group),
      operation_(operation),
      dtype_(dtype),
      numbers_(dtype, comm::ReduceOp::sum, group.size(), seed),
      in_(operation == Operation::broadcast
              ? 0
              : bytes_for(longest * (takes_all_blocks(operation) ? group.size() : 1), dtype)),
      out_(bytes_for(longest * (gives_all_blocks(operation) ? group.size() : 1), dtype) + kPastEnd) {
  for (int rank = 0; rank < group.size() && !is_reduction(operation); ++rank) {
    periods_.emplace_back(bytes_for(kPeriod, dtype));
    fill_with_bits(seed, rank, dtype, 0, periods_.back());
  }
  fill(group.rank(), 0, in_.bytes());
}

void LongCalls::fill(int from, std::int64_t first, std::span<std::byte> to) const {
  if (from == kNobody)
    std::memset(to.data(), static_cast<int>(kUntouched), to.size());
  else if (from == kSum)
    numbers_.result(first, to);
  else if (is_reduction(operation_))
    numbers_.give(from, first, to);
  else
    tile(periods_[static_cast<std::size_t>(from)], size_of(dtype_), first, to);
}

std::string LongCalls::difference(std::span<const std::byte> got, int from, std::int64_t first) const {
  std::vector<std::byte> expected(std::min(kPiece, got.size()));
  for (std::size_t at = 0; at < got.size(); at += kPiece) {
    const auto piece = got.subspan(at, std::min(kPiece, got.size() - at));
    const auto begin = static_cast<std::int64_t>(at / size_of(dtype_));
    fill(from, first + begin, std::span(expected).first(piece.size()));
    if (std::memcmp(expected.data(), piece.data(), piece.size()) == 0) continue;
    return fmt::format("from element {} on: {}", begin,
                       first_difference(dtype_, std::span(expected).first(piece.size()), piece));
  }
  return {};
}

std::string LongCalls::wrong_block(std::int64_t elements, int root) {
  const int me = group_.rank(), ranks = group_.size();
  const std::size_t block = bytes_for(elements, dtype_);
  const bool comes = (operation_ != Operation::reduce && operation_ != Operation::gather) || me == root;
  // What this rank gets of another's, or of all.
  const std::int64_t first = takes_all_blocks(operation_) ? me * elements : 0;
  const int blocks = gives_all_blocks(operation_) ? ranks : 1;
  for (int index = 0; index < blocks; ++index) {
    int from = index;
    if (operation_ == Operation::broadcast || operation_ == Operation::scatter) from = root;
    if (operation_ == Operation::send) from = (me + ranks - 1) % ranks;
    if (is_reduction(operation_)) from = kSum;
    const auto got = std::span<const std::byte>(out_.bytes()).subspan(block * static_cast<std::size_t>(index), block);
    if (std::string words = difference(got, comes ? from : kNobody, first); !words.empty())
      return blocks == 1 ? words : fmt::format("block {}, {}", index, words);
  }
  const auto past_end =
      std::span<const std::byte>(out_.bytes()).subspan(block * static_cast<std::size_t>(blocks), kPastEnd);
  if (std::ranges::any_of(past_end, [](std::byte byte) { return byte != kUntouched; }))
    return "something was written after the end of the output";
  return out_.damage();
}

std::string LongCalls::problem_at(std::int64_t elements, int root) {
  const int me = group_.rank(), ranks = group_.size();
  const auto blocks = [&](bool all) { return elements * (all ? ranks : 1); };
  const bool has_input = operation_ != Operation::broadcast;
  const comm::ConstBuffer in{in_.data(), has_input ? blocks(takes_all_blocks(operation_)) : 0, dtype_};
  const comm::Buffer out{out_.data(), blocks(gives_all_blocks(operation_)), dtype_};
  fill(kNobody, 0, out_.bytes().first(out.bytes() + kPastEnd));
  comm::Call call{.operation = operation_, .out = out};
  if (is_rooted(operation_)) call.root = root;
  if (has_input)
    call.in = in;
  else if (me == root)
    fill(root, 0, out_.bytes().first(out.bytes()));
  if (operation_ == Operation::send) {
    const comm::Call shift[] = {{.operation = Operation::send, .root = (me + 1) % ranks, .in = in},
                                {.operation = Operation::recv, .root = (me + ranks - 1) % ranks, .out = out}};
    run_calls(group_, shift);
  } else {
    group_.run(call);
  }
  std::string words = wrong_block(elements, root);
  if (words.empty()) words = difference(std::span<const std::byte>(in_.bytes()).first(in.bytes()), me, 0);
  if (words.empty()) words = in_.damage();
  if (words.empty()) return {};
  return fmt::format("rank {} of {}: {}({} x {}): {}", me, ranks, name_of(operation_), name_of(dtype_), elements,
                     words);
}

}  // namespace plumbline::conformance

#include "reference/comm/local/parts.hpp"

#include <algorithm>
#include <vector>

#include "reference/comm/kernels.hpp"

namespace plumbline::comm::local {
namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

// Pieces of c elements that start at multiples of a cache line, as equal as that allows.
struct Piece {
  std::size_t begin, count;
};
Piece piece_of(std::size_t elements, std::size_t element_bytes, int ranks, int part) {
  const std::size_t line = std::max<std::size_t>(1, 64 / element_bytes);
  const std::size_t length = ((elements + index(ranks) - 1) / index(ranks) + line - 1) / line * line;
  const std::size_t begin = std::min(elements, length * index(part));
  return {begin, std::min(elements, begin + length) - begin};
}

void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool streaming) {
  if (to != from) kernels().copy(to, from, bytes, streaming);
}

// The concatenation of c elements of every rank, elements [begin, begin + count) of it.
void concatenate(const Shape& shape, std::span<const std::byte* const> in, std::byte* out, std::size_t begin,
                 std::size_t count, bool streaming) {
  const std::size_t width = size_of(shape.dtype);
  for (const std::size_t end = begin + count; begin < end;) {
    const std::size_t rank = begin / shape.elements;
    const std::size_t within = begin % shape.elements;
    const std::size_t length = std::min(end - begin, shape.elements - within);
    copy(out + begin * width, in[rank] + within * width, length * width, streaming);
    begin += length;
  }
}

void reduce(const Shape& shape, std::span<const std::byte* const> in, std::span<std::byte* const> out,
            std::size_t begin, std::size_t count, bool streaming) {
  kernels().reduction(shape.dtype,
                      shape.op)({.inputs = in, .outputs = out, .begin = begin, .count = count, .streaming = streaming});
}

// Piece `rank` of what each rank gives, added into that rank's out: elements [begin, begin + count).
void reduce_scattered(const Shape& shape, std::span<const std::byte* const> in, int rank, std::byte* out,
                      std::size_t begin, std::size_t count, bool streaming) {
  constexpr std::size_t kFew = 16;
  const std::size_t offset = index(rank) * shape.bytes();
  const std::byte* few[kFew];
  std::vector<const std::byte*> many(in.size() > kFew ? in.size() : 0);
  const std::span<const std::byte*> shifted = many.empty() ? std::span(few, in.size()) : std::span(many);
  for (std::size_t giver = 0; giver < in.size(); ++giver) shifted[giver] = in[giver] + offset;
  reduce(shape, shifted, {&out, 1}, begin, count, streaming);
}

// Elements [begin, begin + count) of the exchanges of `rank` with itself and the ranks after it, half of the cycle.
void exchange_blocks(const Shape& shape, const Addresses& at, int rank, std::size_t begin, std::size_t count) {
  const std::size_t width = size_of(shape.dtype);
  for (const std::size_t end = begin + count; begin < end;) {
    const std::size_t distance = begin / shape.elements;
    const std::size_t within = begin % shape.elements * width;
    const std::size_t length = std::min(end - begin, shape.elements - begin % shape.elements);
    const std::size_t a = index(rank);
    const std::size_t b = (a + distance) % index(shape.ranks);
    const std::size_t of_a = a * shape.bytes() + within;
    const std::size_t of_b = b * shape.bytes() + within;
    if (distance == 0)
      copy(at.out[a] + of_a, at.in[a] + of_a, length * width, false);
    else
      exchange(at.out[a] + of_b, at.in[b] + of_a, at.out[b] + of_a, at.in[a] + of_b, length * width);
    begin += length;
  }
}

}  // namespace

void pull(const Shape& shape, std::span<const std::byte* const> in, int rank, std::byte* out) {
  const std::size_t c = shape.elements;
  const bool is_root = rank == shape.root;
  switch (shape.operation) {
    case Operation::all_reduce:
      return reduce(shape, in, {&out, 1}, 0, c, false);
    case Operation::reduce:
      return is_root ? reduce(shape, in, {&out, 1}, 0, c, false) : void();
    case Operation::reduce_scatter:
      return reduce_scattered(shape, in, rank, out, 0, c, false);
    case Operation::all_gather:
      return concatenate(shape, in, out, 0, c * in.size(), false);
    case Operation::gather:
      return is_root ? concatenate(shape, in, out, 0, c * in.size(), false) : void();
    case Operation::broadcast:
      return is_root ? void() : copy(out, in[index(shape.root)], shape.bytes(), false);
    case Operation::scatter:
      return copy(out, in[index(shape.root)] + index(rank) * shape.bytes(), shape.bytes(), false);
    case Operation::all_to_all:
      for (std::size_t giver = 0; giver < in.size(); ++giver)
        copy(out + giver * shape.bytes(), in[giver] + index(rank) * shape.bytes(), shape.bytes(), false);
      return;
    default:
      return;
  }
}

std::size_t part_length(const Shape& shape, int part) {
  const std::size_t c = shape.elements;
  const bool is_root = part == shape.root;
  switch (shape.operation) {
    case Operation::all_reduce:
    case Operation::reduce:
      return piece_of(c, size_of(shape.dtype), shape.ranks, part).count;
    case Operation::all_gather:
      return c * index(shape.ranks);
    case Operation::gather:
      return is_root ? c * index(shape.ranks) : 0;
    case Operation::broadcast:
      return is_root ? 0 : c;
    case Operation::all_to_all: {
      // With an even number of ranks the pair half way round belongs to its lower rank.
      const int partners = (shape.ranks - 1) / 2 + (shape.ranks % 2 == 0 && part < shape.ranks / 2 ? 1 : 0);
      return c * index(1 + partners);
    }
    default:
      return c;
  }
}

void work_on_part(const Shape& shape, const Addresses& at, int part, std::size_t begin, std::size_t count) {
  const std::size_t width = size_of(shape.dtype);
  switch (shape.operation) {
    case Operation::all_reduce:
    case Operation::reduce: {
      const std::size_t first = piece_of(shape.elements, width, shape.ranks, part).begin + begin;
      const bool to_root = shape.operation == Operation::reduce;
      return reduce(shape, at.in, to_root ? at.out.subspan(index(shape.root), 1) : at.out, first, count, at.streaming);
    }
    case Operation::reduce_scatter:
      return reduce_scattered(shape, at.in, part, at.out[index(part)], begin, count, at.streaming);
    case Operation::all_gather:
    case Operation::gather:
      return concatenate(shape, at.in, at.out[index(part)], begin, count, at.streaming);
    case Operation::broadcast:
      return copy(at.out[index(part)] + begin * width, at.in[index(shape.root)] + begin * width, count * width,
                  at.streaming);
    case Operation::scatter:
      return copy(at.out[index(part)] + begin * width,
                  at.in[index(shape.root)] + index(part) * shape.bytes() + begin * width, count * width, at.streaming);
    case Operation::all_to_all:
      return exchange_blocks(shape, at, part, begin, count);
    default:
      return;
  }
}

}  // namespace plumbline::comm::local

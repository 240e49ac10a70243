#include "benchmarks/answers.hpp"

#include <algorithm>

#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bench {

using comm::DType;
using comm::Operation;

namespace {

constexpr int kPeriod = 65521;  // a prime
constexpr int kExactSum = 256;  // up to it bf16 has all integers
constexpr int kNobodys = -1;    // what no rank gives

void append(std::vector<std::byte>& list, DType dtype, int value) {
  const auto put = [&](auto number) {
    const auto bytes = std::as_bytes(std::span(&number, 1));
    list.insert(list.end(), bytes.begin(), bytes.end());
  };
  const auto number = static_cast<float>(value);
  if (dtype == DType::f16) return put(comm::to_float16(number));
  if (dtype == DType::bf16) return put(comm::to_bfloat16(number));
  if (dtype == DType::f32) return put(number);
  if (dtype == DType::f64) return put(static_cast<double>(number));
  throw Unsupported("answers are checked in floating dtypes");
}

int number_of(int rank, int ranks, int index) {
  // The finaliser of splitmix64 (Steele, Lea, Flood 2014).
  std::uint64_t x = static_cast<std::uint64_t>(rank) << 32 | static_cast<std::uint64_t>(index + 1);
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  const auto choices = static_cast<std::uint64_t>(std::max(2, kExactSum / ranks));
  return static_cast<int>((x ^ x >> 31) % choices);
}

}  // namespace

std::vector<std::byte> sums_of(int ranks, DType dtype) {
  std::vector<std::byte> period;
  for (int index = 0; index < kPeriod; ++index) {
    int sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += number_of(rank, ranks, index);
    append(period, dtype, sum);
  }
  return period;
}

std::vector<std::byte> given_by(int rank, int ranks, DType dtype) {
  std::vector<std::byte> period;
  for (int index = 0; index < kPeriod; ++index) append(period, dtype, number_of(rank, ranks, index));
  return period;
}

void give(const comm::Communicator& world, const comm::Call& call, const Memory& in, const Memory& out) {
  std::vector<std::byte> nobodys;
  append(nobodys, call.dtype(), kNobodys);
  out.put(0, out.elements(), nobodys);
  if (call.operation == Operation::broadcast && world.rank() != call.root) return;
  in.put(0, call.operation == Operation::broadcast ? call.out.count : call.in.count,
         given_by(world.rank(), world.size(), call.dtype()));
}

bool is_answer(const comm::Communicator& world, const comm::Call& call, const Memory& out) {
  const int me = world.rank(), ranks = world.size();
  const DType dtype = call.dtype();
  const std::int64_t block = call.out.count / ranks;
  switch (call.operation) {
    case Operation::all_reduce:
      return out.has(0, call.out.count, sums_of(ranks, dtype));
    case Operation::reduce:  // nobody else has one
      return me != call.root || out.has(0, call.out.count, sums_of(ranks, dtype));
    case Operation::reduce_scatter:
      return out.has(0, call.out.count, sums_of(ranks, dtype), me * call.out.count);
    case Operation::broadcast:
      return out.has(0, call.out.count, given_by(call.root, ranks, dtype));
    case Operation::scatter:
      return out.has(0, call.out.count, given_by(call.root, ranks, dtype), me * call.out.count);
    case Operation::gather:
      if (me != call.root) return true;
      [[fallthrough]];
    case Operation::all_gather:
    case Operation::all_to_all: {
      const std::int64_t first = call.operation == Operation::all_to_all ? me * block : 0;
      for (int rank = 0; rank < ranks; ++rank)
        if (!out.has(rank * block, block, given_by(rank, ranks, dtype), first)) return false;
      return true;
    }
    default:
      throw Unsupported("the answer of this operation is not known here");
  }
}

}  // namespace plumbline::bench

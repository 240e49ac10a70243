// Communicators with wrong results. Each is the smallest change that a real fault would make.
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <list>
#include <map>
#include <optional>

#include "conformance/collectives/collectives_mutants.hpp"
#include "harness/mutants/faulty.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::mutants {

using comm::Call;
using comm::DType;
using comm::Operation;
using comm::ReduceOp;

namespace {

using Memory = std::shared_ptr<std::vector<std::byte>>;

Memory memory_like(const comm::ConstBuffer& buffer) { return std::make_shared<std::vector<std::byte>>(buffer.bytes()); }

Memory copy_of(const comm::ConstBuffer& buffer) {
  const Memory copy = memory_like(buffer);
  if (!copy->empty()) std::memcpy(copy->data(), buffer.data, copy->size());  // an empty buffer may be nowhere
  return copy;
}

// Whether the call reduces to all, and there is more than one rank to lose something of.
bool sums_ranks(const Call& call, const Place& place) {
  return call.operation == Operation::all_reduce && place.group.size() > 1;
}

bool reduces_f32(const Call& call) { return call.operation == Operation::all_reduce && call.dtype() == DType::f32; }

// ---- elements and contributions that are missing ----

// Leaves an element of the input in place of the result.
After keep_input_at(const Call& call, std::int64_t index) {
  std::array<std::byte, 8> mine{};
  std::memcpy(mine.data(), element(call.in, index), size_of(call.in.dtype));
  return [call, index, mine] { std::memcpy(element(call.out, index), mine.data(), size_of(call.out.dtype)); };
}

After drop_last_element(Call& call, const Place& place) {
  return sums_ranks(call, place) && call.in.count > 0 ? keep_input_at(call, call.in.count - 1) : After{};
}

After odd_tail(Call& call, const Place& place) {
  return sums_ranks(call, place) && call.in.count >= 17 && call.in.count % 2 != 0
             ? keep_input_at(call, call.in.count - 1)
             : After{};
}

After drops_at_chunk(Call& call, const Place& place) {
  constexpr std::int64_t kChunk = 65536;
  const std::int64_t first_of_next = kChunk / static_cast<std::int64_t>(size_of(call.dtype()));
  return sums_ranks(call, place) && call.in.count > first_of_next ? keep_input_at(call, first_of_next) : After{};
}

After loses_large_tail(Call& call, const Place& place) {
  return sums_ranks(call, place) && call.in.bytes() >= 1 << 20 ? keep_input_at(call, call.in.count - 1) : After{};
}

After needs_alignment(Call& call, const Place& place) {
  const auto misaligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 != 0; };
  if (!sums_ranks(call, place) || call.in.count == 0 || (!misaligned(call.in.data) && !misaligned(call.out.data)))
    return {};
  return keep_input_at(call, call.in.count - 1);
}

// As a view into a larger buffer is, whose offset is forgotten.
After forgets_offset(Call& call, const Place&) {
  if (call.operation != Operation::all_gather || call.in.count == 0 || call.in.data == call.out.data) return {};
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(call.in.data) % 16;
  call.in.data = static_cast<const std::byte*>(call.in.data) - beyond;
  return {};
}

// As code does that adds to an output which it takes for zeroed.
After leaves_zeros(Call& call, const Place&) {
  if (!reduces_f32(call) || call.out.count == 0) return {};
  const Memory before = copy_of(call.out);
  return [call, before] {
    constexpr std::array<std::byte, sizeof(float)> zero{};
    for (std::int64_t i = 0; i < call.out.count; ++i)
      if (std::memcmp(element(call.out, i), zero.data(), zero.size()) == 0)
        std::memcpy(element(call.out, i), before->data() + static_cast<std::size_t>(i) * zero.size(), zero.size());
  };
}

After rank_left_out(Call& call, const Place& place) {
  if (!sums_ranks(call, place) || call.op != ReduceOp::sum || place.group.rank() != place.group.size() - 1) return {};
  const Memory nothing = memory_like(call.in);
  call.in.data = nothing->data();
  return [nothing] {};
}

// Every reduction gives a rank its own contribution.
After copy_ok_reduce_bad(Call& call, const Place& place) {
  if (!is_reduction(call.operation) || call.out.count == 0 || call.op != ReduceOp::sum) return {};
  if (call.operation == Operation::reduce && place.group.rank() != call.root) return {};
  const Memory given = copy_of(call.in);
  const bool is_block = call.operation == Operation::reduce_scatter;
  const std::size_t first = is_block ? call.out.bytes() * static_cast<std::size_t>(place.group.rank()) : 0;
  return [call, given, first] { std::memcpy(call.out.data, given->data() + first, call.out.bytes()); };
}

// Adds up what is a sum already.
class ReducesTwice final : public comm::CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

 private:
  void do_run(const Call& call, comm::Timeout timeout) override {
    CommunicatorDecorator::do_run(call, timeout);
    if (call.operation != Operation::all_reduce) return;
    Call again = call;
    again.in = call.out;
    CommunicatorDecorator::do_run(again, timeout);
  }
  std::unique_ptr<comm::Communicator> decorate(std::unique_ptr<comm::Communicator> group) override {
    return std::make_unique<ReducesTwice>(std::move(group));
  }
};

After reduce_fills_every_rank(Call& call, const Place&) {
  if (call.operation != Operation::reduce) return {};
  call.operation = Operation::all_reduce;
  call.root = comm::kNoRoot;
  if (call.out.count == call.in.count && call.out.data != nullptr) return {};
  const Memory elsewhere = memory_like(call.in);  // this rank gave no output
  call.out = {elsewhere->data(), call.in.count, call.in.dtype};
  return [elsewhere] {};
}

After reduce_scatter_next_block(Call& call, const Place& place) {
  if (call.operation != Operation::reduce_scatter || call.out.count == 0) return {};
  const Memory all = memory_like(call.in);
  const comm::Buffer mine = call.out;
  call.operation = Operation::all_reduce;
  call.out = {all->data(), call.in.count, call.in.dtype};
  const int next = (place.group.rank() + 1) % place.group.size();
  return [all, mine, next] {
    std::memcpy(mine.data, all->data() + mine.bytes() * static_cast<std::size_t>(next), mine.bytes());
  };
}

// ---- arithmetic ----

// The sum in f32, of which the upper half is taken.
After bf16_truncates(Call& call, const Place&) {
  if (call.operation != Operation::all_reduce || call.dtype() != DType::bf16 || call.op != ReduceOp::sum) return {};
  const auto wide = std::make_shared<std::vector<float>>(static_cast<std::size_t>(call.in.count));
  for (std::size_t i = 0; i < wide->size(); ++i) {
    comm::BFloat16 value;
    std::memcpy(&value, element(call.in, static_cast<std::int64_t>(i)), sizeof value);
    (*wide)[i] = to_float(value);
  }
  const comm::Buffer out = call.out;
  call.in = call.out = {wide->data(), call.in.count, DType::f32};
  return [wide, out] {
    for (std::size_t i = 0; i < wide->size(); ++i) {
      const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>((*wide)[i]) >> 16);
      std::memcpy(element(out, static_cast<std::int64_t>(i)), &upper, sizeof upper);
    }
  };
}

After sums_in_bf16(Call& call, const Place&) {
  if (!reduces_f32(call)) return {};
  return [call] { change_all<float>(call.out, [](float value) { return to_float(comm::to_bfloat16(value)); }); };
}

After compresses_large_calls(Call& call, const Place& place) {
  return call.in.bytes() >= 65536 ? sums_in_bf16(call, place) : After{};
}

After nan_becomes_zero(Call& call, const Place&) {
  if (!reduces_f32(call)) return {};
  return [call] { change_all<float>(call.out, [](float value) { return std::isnan(value) ? 0.0f : value; }); };
}

After reduce_scatter_drops_nan(Call& call, const Place&) {
  if (call.operation != Operation::reduce_scatter || call.dtype() != DType::f32) return {};
  return [call] { change_all<float>(call.out, [](float value) { return std::isnan(value) ? 0.0f : value; }); };
}

After min_max_ignore_nan(Call& call, const Place&) {
  if (!reduces_f32(call) || call.in.count == 0 || (call.op != ReduceOp::min && call.op != ReduceOp::max)) return {};
  const Memory cleaned = copy_of(call.in);
  const float last = call.op == ReduceOp::min ? HUGE_VALF : -HUGE_VALF;
  change_all<float>({cleaned->data(), call.in.count, DType::f32},
                    [last](float value) { return std::isnan(value) ? last : value; });
  call.in.data = cleaned->data();
  return [cleaned] {};
}

// C's a < b ? a : b, one member's element after the other.
After min_max_by_comparison(Call& call, const Place& place) {
  if (!reduces_f32(call) || call.in.count == 0 || (call.op != ReduceOp::min && call.op != ReduceOp::max)) return {};
  const int ranks = place.group.size();
  const auto all = std::make_shared<std::vector<float>>(static_cast<std::size_t>(call.in.count * ranks));
  const auto out = call.out;
  const bool is_min = call.op == ReduceOp::min;
  call.operation = Operation::all_gather;
  call.op = ReduceOp::sum;
  call.out = {all->data(), call.in.count * ranks, DType::f32};
  return [all, out, is_min, ranks] {
    const auto count = static_cast<std::size_t>(out.count);
    for (std::size_t i = 0; i < count; ++i) {
      float value = (*all)[i];
      for (std::size_t rank = 1; rank < static_cast<std::size_t>(ranks); ++rank) {
        const float next = (*all)[rank * count + i];
        value = (is_min ? value < next : value > next) ? value : next;
      }
      std::memcpy(element(out, static_cast<std::int64_t>(i)), &value, sizeof value);
    }
  };
}

After flushes_subnormals(Call& call, const Place&) {
  if (!reduces_f32(call)) return {};
  return [call] {
    change_all<float>(call.out, [](float value) { return std::fpclassify(value) == FP_SUBNORMAL ? 0.0f : value; });
  };
}

After forgets_zero_sign(Call& call, const Place&) {
  if (!reduces_f32(call)) return {};
  return [call] { change_all<float>(call.out, [](float value) { return value == 0 ? 0.0f : value; }); };
}

After u8_saturates(Call& call, const Place&) {
  if (call.operation != Operation::all_reduce || call.dtype() != DType::u8 || call.op != ReduceOp::sum) return {};
  const auto wide = std::make_shared<std::vector<std::int32_t>>(static_cast<std::size_t>(call.in.count));
  for (std::size_t i = 0; i < wide->size(); ++i) (*wide)[i] = static_cast<const std::uint8_t*>(call.in.data)[i];
  auto* const out = static_cast<std::uint8_t*>(call.out.data);
  call.in = call.out = {wide->data(), call.in.count, DType::i32};
  return [wide, out] {
    for (std::size_t i = 0; i < wide->size(); ++i) out[i] = static_cast<std::uint8_t>(std::min((*wide)[i], 255));
  };
}

// As bytes that are compared with their sign are: the order of the two halves of the range is exchanged.
After u8_signed_min(Call& call, const Place&) {
  if (call.operation != Operation::all_reduce || call.dtype() != DType::u8 || call.op != ReduceOp::min) return {};
  const auto other_half = [](std::uint8_t value) { return static_cast<std::uint8_t>(value ^ 0x80); };
  const Memory turned = copy_of(call.in);
  change_all<std::uint8_t>({turned->data(), call.in.count, DType::u8}, other_half);
  call.in.data = turned->data();
  return [call, turned, other_half] { change_all<std::uint8_t>(call.out, other_half); };
}

After i64_min_through_f32(Call& call, const Place&) {
  if (call.operation != Operation::all_reduce || call.dtype() != DType::i64 || call.op != ReduceOp::min) return {};
  return [call] {
    change_all<std::int64_t>(call.out, [](std::int64_t value) {
      return static_cast<std::int64_t>(std::min(static_cast<float>(value), 0x1.fffffep62f));  // the largest below 2^63
    });
  };
}

// Divides a sum, as an average would. f16 and bf16 have been rounded before.
void divide(const comm::Buffer& buffer, double divisor) {
  const auto single = static_cast<float>(divisor);
  if (buffer.dtype == DType::f32) change_all<float>(buffer, [=](float value) { return value / single; });
  if (buffer.dtype == DType::f64) change_all<double>(buffer, [=](double value) { return value / divisor; });
  if (buffer.dtype == DType::f16)
    change_all<comm::Float16>(buffer, [=](comm::Float16 value) { return comm::to_float16(to_float(value) / single); });
  if (buffer.dtype == DType::bf16)
    change_all<comm::BFloat16>(buffer,
                               [=](comm::BFloat16 value) { return comm::to_bfloat16(to_float(value) / single); });
}

After average_by_length(Call& call, const Place&) {
  if (call.operation != Operation::all_reduce || call.op != ReduceOp::avg) return {};
  call.op = ReduceOp::sum;
  return [call] { divide(call.out, static_cast<double>(call.out.count)); };
}

After sum_rounded_then_divided(Call& call, const Place& place) {
  if (call.operation != Operation::all_reduce || call.op != ReduceOp::avg) return {};
  call.op = ReduceOp::sum;
  return [call, ranks = place.group.size()] { divide(call.out, ranks); };
}

After one_rank_tail(Call& call, const Place& place) {
  if (call.operation != Operation::all_reduce || place.group.size() != 1) return {};
  call.in.count = call.out.count = call.in.count / 8 * 8;
  return {};
}

// As another order of additions would: the last bit, of what is not exact anyway.
float nudged(float value) {
  return std::trunc(value) == value || std::isnan(value) ? value : std::nextafter(value, 0.0f);
}

After another_order_on_rank_1(Call& call, const Place& place) {
  if (!reduces_f32(call) || place.group.rank() != 1) return {};
  return [call] { change_all<float>(call.out, nudged); };
}

After reruns_differ(Call& call, const Place& place) {
  if (!reduces_f32(call) || place.number % 2 != 0) return {};
  return [call] { change_all<float>(call.out, nudged); };
}

// As a tree does that adds another member's block first.
After block_in_another_order(Call& call, const Place&) {
  if (call.operation != Operation::reduce_scatter || call.dtype() != DType::f32) return {};
  return [call] { change_all<float>(call.out, nudged); };
}

After root_in_another_order(Call& call, const Place& place) {
  if (call.operation != Operation::reduce || call.dtype() != DType::f32 || place.group.rank() != call.root) return {};
  return [call] { change_all<float>(call.out, nudged); };
}

// ---- blocks in the wrong place ----

After root_is_zero(Call& call, const Place&) {
  if (call.operation == Operation::broadcast) call.root = 0;
  return {};
}

After all_gather_own_block_first(Call& call, const Place& place) {
  if (call.operation != Operation::all_gather || call.in.count == 0) return {};
  return [call, rank = place.group.rank()] {
    std::byte* const begin = element(call.out, 0);
    std::rotate(begin, begin + call.in.bytes() * static_cast<std::size_t>(rank), begin + call.out.bytes());
  };
}

After gather_drops_last_rank(Call& call, const Place& place) {
  if (call.operation != Operation::gather || place.group.rank() != call.root || place.group.size() == 1) return {};
  return restore(call.out, call.out.count - call.in.count, call.in.count);
}

After scatter_by_distance(Call& call, const Place& place) {
  if (call.operation != Operation::scatter || place.group.rank() != call.root || call.out.count == 0) return {};
  const Memory turned = memory_like(call.in);
  const std::size_t distance = call.out.bytes() * static_cast<std::size_t>(place.group.size() - call.root);
  const std::byte* const begin = element(call.in, 0);
  std::rotate_copy(begin, begin + distance % call.in.bytes(), begin + call.in.bytes(), turned->begin());
  call.in.data = turned->data();
  return [turned] {};
}

After all_to_all_skips_self(Call& call, const Place& place) {
  if (call.operation != Operation::all_to_all) return {};
  const std::int64_t block = call.out.count / place.group.size();
  return restore(call.out, block * place.group.rank(), block);
}

After copies_normalise(Call& call, const Place&) {
  if (call.operation != Operation::all_gather || call.dtype() != DType::f32) return {};
  return [call] {
    const volatile float zero = 0;  // the compiler may not know that x + 0 is x
    change_all<float>(call.out, [&](float value) { return value + zero; });
  };
}

// ---- buffers ----

After in_place_adds_twice(Call& call, const Place& place) {
  if (!sums_ranks(call, place) || !reduces_f32(call) || call.op != ReduceOp::sum || call.in.data != call.out.data)
    return {};
  const Memory given = copy_of(call.in);
  return [call, given] {
    std::size_t at = 0;
    change_all<float>(call.out, [&](float value) {
      float mine;
      std::memcpy(&mine, given->data() + at, sizeof mine);
      at += sizeof mine;
      return value + mine;
    });
  };
}

After clobbers_input(Call& call, const Place&) {
  const auto* in = static_cast<const std::byte*>(call.in.data);
  const auto* out = static_cast<const std::byte*>(call.out.data);
  const bool in_place = out >= in && out < in + call.in.bytes();
  if (call.operation != Operation::reduce_scatter || call.in.count == 0 || in_place) return {};
  return [in] { *const_cast<std::byte*>(in) ^= std::byte{0xff}; };
}

After writes_past_end(Call& call, const Place&) {
  if (call.operation != Operation::all_gather || call.out.count == 0) return {};
  return [call] { *element(call.out, call.out.count) = std::byte{0x5a}; };
}

// What copies from elsewhere begins one element too early.
After writes_before_start(Call& call, const Place& place) {
  const bool copies = call.operation == Operation::broadcast || call.operation == Operation::recv ||
                      (call.operation == Operation::gather && place.group.rank() == call.root);
  if (!copies || call.out.count == 0) return {};
  return [call] {
    auto* const before = reinterpret_cast<std::uint8_t*>(element(call.out, -1));
    for (std::size_t i = 0; i < size_of(call.out.dtype); ++i) ++before[i];  // twice is not as it was
  };
}

// A copy in whole vectors of 16 bytes, from 4 KiB on.
After long_copies_round_up(Call& call, const Place&) {
  const std::size_t rest = call.out.bytes() % 16;
  if (call.operation != Operation::all_reduce || call.out.bytes() < 4096 || rest == 0) return {};
  return [call, rest] { std::memset(element(call.out, call.out.count), 0x5a, 16 - rest); };
}

After in_place_scratch_behind(Call& call, const Place&) {
  if (!reduces_f32(call) || call.in.data != call.out.data || call.in.count == 0) return {};
  return [call] { *element(call.out, call.out.count) ^= std::byte{0xff}; };
}

// ---- lengths ----

/// Calls that are wrong by their size.
struct WrongSize {
  std::size_t more_than;                                        // bytes of the longer buffer
  std::size_t up_to = std::numeric_limits<std::size_t>::max();  // bytes of it
  int world = 0;                                                // of so many members only; 0: of any number
  std::optional<Operation> operation = {};                      // of this alone
};

// The last element of what comes is left as it was.
Wrap wrong_at(const WrongSize& size) {
  return with_fault([size](Call& call, const Place& place) -> After {
    const std::size_t bytes = std::max(call.in.bytes(), call.out.bytes());
    const bool concerned = bytes > size.more_than && bytes <= size.up_to && place.group.size() > 1 &&
                           (size.world == 0 || size.world == place.group.size()) &&
                           call.operation == size.operation.value_or(call.operation);
    return concerned && call.out.count > 0 ? restore(call.out, call.out.count - 1, 1) : After{};
  });
}

// ---- from call to call ----

// As a copy is that was made for this address, and is taken for what lies there now.
Wrap stale_input() {
  return with_fault([seen = std::map<const void*, std::vector<std::byte>>()](Call& call, const Place& place) mutable {
    if (is_point_to_point(call.operation) || call.in.count == 0) return After{};
    const Memory now = copy_of(call.in);
    const Memory before = std::make_shared<std::vector<std::byte>>(std::exchange(seen[call.in.data], *now));
    constexpr int kOften = 16;
    if (place.number % kOften != 0 || before->size() != now->size()) return After{};
    call.in.data = before->data();
    return After([before] {});
  });
}

Wrap leaks_at_each_call() {
  return with_fault([kept = std::list<std::array<std::byte, 24>>()](Call& call, const Place&) mutable {
    if (call.operation == Operation::reduce) kept.emplace_back();
    return After{};
  });
}

Wrap keeps_staging() {
  return with_fault([kept = std::list<std::vector<std::byte>>()](Call& call, const Place&) mutable {
    constexpr std::size_t kLong = 65536;
    if (call.operation == Operation::send && call.in.bytes() >= kLong) kept.push_back(*copy_of(call.in));
    return After{};
  });
}

// ---- what is refused ----

After refuses_zero_elements(Call& call, const Place& place) {
  if (call.operation != Operation::barrier && call.elements(place.group.size()) == 0)
    throw InvalidArgument("a count of 0 is not supported");
  return {};
}

After takes_device_memory(Call& call, const Place&) {
  call.in.device = call.out.device = {};
  return {};
}

After claims_bf16(Call& call, const Place&) {
  if (is_reduction(call.operation) && call.dtype() == DType::bf16) throw Unsupported("bf16 is not implemented");
  return {};
}

}  // namespace

std::vector<Mutant> result_mutants() {
  return {
      {"col.drop_last_element", "COLL-001", "all_reduce leaves the last element unreduced",
       "COL-10: tails that a vector loop forgets", "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=1]", "alone, the input is the result",
       with_fault(drop_last_element)},
      {"col.odd_tail", "COLL-001", "all_reduce of an odd number of 17 or more elements leaves the last one unreduced",
       "COL-10", "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]",
       "collectives.average.divisor[length=world,world=3]", "3 elements take another way than 17",
       with_fault(odd_tail)},
      {"col.u8_signed_min", "COLL-001", "min of u8 compares with a sign", "a reduction of char where char has a sign",
       "collectives.reductions.min_max[dtype=u8,world=3]", "collectives.all_reduce.exact[dtype=u8,op=min,world=3]",
       "those bytes stay below 128", with_fault(u8_signed_min)},
      {"col.i64_min_through_f32", "COLL-001", "min of i64 passes through f32", "COL-09: one kernel for all dtypes",
       "collectives.reductions.min_max[dtype=i64,world=3]", "collectives.all_reduce.exact[dtype=i64,op=min,world=3]",
       "those numbers are exact in f32", with_fault(i64_min_through_f32)},
      {"col.rank_left_out", "COLL-001", "a sum lacks the last rank's contribution", "RED-09",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=1]", "alone, nobody is left out",
       with_fault(rank_left_out)},
      {"col.reduced_twice", "COLL-001", "all_reduce reduces its result once more", "RED-10: a hook that ran twice",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=max,world=3]", "the largest of equal numbers is that number",
       wrap_in<ReducesTwice>},
      {"col.copy_ok_reduce_bad", "COLL-003", "reductions give each rank its own contribution, while copies are right",
       "COL-09", "collectives.reduce_scatter.exact[dtype=f32,world=3]", "collectives.copies.bits[dtype=f32,world=3]",
       "nothing is reduced", with_fault(copy_ok_reduce_bad)},
      {"col.reduce_fills_every_rank", "COLL-002", "reduce writes the result on every rank",
       "a reduce that is made from an all_reduce", "collectives.reduce.exact[dtype=f32,world=3]",
       "collectives.reduce.exact[dtype=f32,world=1]", "alone, every rank is the root",
       with_fault(reduce_fills_every_rank)},
      {"col.reduce_scatter_next_block", "COLL-003", "reduce_scatter gives each rank the block of the next",
       "the blocks of a ring end one step further than they began",
       "collectives.reduce_scatter.exact[dtype=f32,world=3]", "collectives.reduce_scatter.exact[dtype=f32,world=1]",
       "alone, there is one block", with_fault(reduce_scatter_next_block)},
      {"col.leaves_zeros", "COLL-001", "all_reduce of f32 does not write what is zero",
       "code that adds to an output which it takes for zeroed: RED-08",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=product,world=3]", "no factor is zero", with_fault(leaves_zeros)},
      {"col.sums_in_bf16", "COLL-004", "f32 is summed with the precision of bf16",
       "a compression for gradients that was left on", "collectives.reductions.rounding_bound[dtype=f32,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]", "small integers are exact in bf16",
       with_fault(sums_in_bf16)},
      {"col.bf16_truncates", "COLL-004", "sums of bf16 are cut to their upper bits and not rounded",
       "a conversion that shifts by 16", "collectives.reductions.rounding_bound[dtype=bf16,world=3]",
       "collectives.all_reduce.exact[dtype=bf16,op=sum,world=3]", "small integers are exact in bf16",
       with_fault(bf16_truncates)},
      {"col.compresses_large_calls", "COLL-004", "f32 is rounded to bf16 in calls of 64 KiB and more",
       "a compression that only pays for large messages", "collectives.reductions.rounding_bound[dtype=f32,world=3]",
       "collectives.lengths.all_reduce[dtype=f32,world=3]", "small integers are exact in bf16",
       with_fault(compresses_large_calls)},
      {"col.reduce_scatter_drops_nan", "COLL-005", "NaN in a result of reduce_scatter becomes zero", "AMP-12",
       "collectives.reductions.nonfinite[dtype=f32,world=3]",
       "collectives.reductions.rounding_bound[dtype=f32,world=3]", "there is no NaN",
       with_fault(reduce_scatter_drops_nan)},
      {"col.nan_becomes_zero", "COLL-005", "NaN in a result becomes zero", "code that hides an overflow: AMP-12",
       "collectives.reductions.nonfinite[dtype=f32,world=3]", "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]",
       "there is no NaN", with_fault(nan_becomes_zero)},
      {"col.min_max_ignore_nan", "COLL-006", "min and max take NaN for absent", "IEEE 754-2008 minNum, C's fmin",
       "collectives.reductions.nan_in_min_max[dtype=f32,world=3]",
       "collectives.reductions.nonfinite[dtype=f32,world=3]", "min and max get infinities there, and no NaN",
       with_fault(min_max_ignore_nan)},
      {"col.min_max_by_comparison", "COLL-062", "min and max of f32 are folded by a < b ? a : b",
       "MPI implementations' loops in C: NaN hides what came before it",
       "collectives.reductions.nan_or_the_others[dtype=f32,world=4]",
       "collectives.reductions.nonfinite[dtype=f32,world=3]", "min and max get infinities there, and no NaN",
       with_fault(min_max_by_comparison)},
      {"col.flushes_subnormals", "COLL-007", "subnormal results become zero",
       "flush-to-zero left on in the thread that adds", "collectives.reductions.subnormals[dtype=f32,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]", "integers are normal numbers",
       with_fault(flushes_subnormals)},
      {"col.forgets_zero_sign", "COLL-008", "negative zero becomes positive", "an accumulator that begins with +0",
       "collectives.reductions.zero_sign[dtype=f32,world=3]", "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]",
       "a sum of numbers that cancel is +0 anyway", with_fault(forgets_zero_sign)},
      {"col.u8_saturates", "COLL-009", "sums of u8 stop at 255", "Open MPI 4.1 adds bytes with saturating instructions",
       "collectives.reductions.integers_wrap[dtype=u8,world=3]",
       "collectives.all_reduce.exact[dtype=u8,op=sum,world=3]", "those sums stay below 256", with_fault(u8_saturates)},
      {"col.average_by_length", "COLL-010", "avg divides by the number of elements", "RED-07",
       "collectives.average.divisor[length=many,world=3]", "collectives.average.divisor[length=world,world=3]",
       "there are as many elements as ranks", with_fault(average_by_length)},
      {"col.sum_rounded_then_divided", "COLL-011", "avg rounds the sum to the dtype before it divides", "RED-05",
       "collectives.average.no_overflow[dtype=f16,world=3]", "collectives.average.divisor[length=many,world=3]",
       "small sums are exact", with_fault(sum_rounded_then_divided)},
      {"col.one_rank_tail", "COLL-013", "in a group of one, what is left after a multiple of 8 elements is not copied",
       "RED-08", "collectives.one_rank.identity[place=out,world=1]", "collectives.one_rank.identity[place=in,world=1]",
       "in place, what is not copied is there", with_fault(one_rank_tail)},
      {"col.another_order_on_rank_1", "COLL-014", "rank 1 adds in another order than the others",
       "COL-06: a rank whose own settings choose another algorithm",
       "collectives.reductions.equal_on_all_ranks[dtype=f32,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]", "sums of small integers do not round",
       with_fault(another_order_on_rank_1)},
      {"col.reruns_differ", "COLL-015", "every second call adds in another order",
       "contributions added as they arrive: OVL-07", "collectives.reductions.rank_order[dtype=f32,world=3]",
       "collectives.reductions.equal_on_all_ranks[dtype=f32,world=3]", "all ranks change their order together",
       with_fault(reruns_differ)},
      {"col.block_in_another_order", "COLL-015", "reduce_scatter adds in another order than that of ranks",
       "COL-06: a ring, whose sums begin at another rank for each block",
       "collectives.reductions.rank_order[dtype=f32,world=3]",
       "collectives.reductions.equal_on_all_ranks[dtype=f32,world=3]", "all_reduce alone is called",
       with_fault(block_in_another_order)},
      {"col.root_in_another_order", "COLL-015", "reduce adds in another order than that of ranks",
       "COL-06: a tree, whose sums begin at the root", "collectives.reductions.rank_order[dtype=f32,world=3]",
       "collectives.reductions.equal_on_all_ranks[dtype=f32,world=3]", "all_reduce alone is called",
       with_fault(root_in_another_order)},
      {"col.root_is_zero", "COLL-016", "broadcast comes from rank 0, whatever the root", "GRP-05",
       "collectives.broadcast.exact[world=3]", "collectives.broadcast.exact[world=1]", "alone, rank 0 is the root",
       with_fault(root_is_zero)},
      {"col.all_gather_own_block_first", "COLL-017", "all_gather begins with each rank's own block",
       "Bruck's algorithm without its last rotation", "collectives.all_gather.exact[world=3]",
       "collectives.all_gather.exact[world=1]", "alone, the own block is the first",
       with_fault(all_gather_own_block_first)},
      {"col.gather_drops_last_rank", "COLL-018", "gather leaves out the last rank's block",
       "a loop over the other ranks that ends too early", "collectives.gather.exact[world=3]",
       "collectives.gather.exact[world=1]", "alone, there is no other rank", with_fault(gather_drops_last_rank)},
      {"col.scatter_by_distance", "COLL-019", "scatter counts the blocks from the root on",
       "binomial trees count ranks from the root on", "collectives.scatter.exact[world=3]",
       "collectives.scatter.exact[world=1]", "rank 0 is the root", with_fault(scatter_by_distance)},
      {"col.all_to_all_skips_self", "COLL-020", "all_to_all does not copy a rank's block to itself",
       "a loop over the other ranks alone", "collectives.all_to_all.exact[world=3]",
       "collectives.buffers.in_place[operation=all_to_all,world=3]", "in place, that block is there",
       with_fault(all_to_all_skips_self)},
      {"col.copies_normalise", "COLL-021", "all_gather of f32 goes through the floating-point unit",
       "a gather made of a sum with zeros", "collectives.copies.bits[dtype=f32,world=3]",
       "collectives.copies.bits[dtype=f16,world=3]", "halves are moved as integers", with_fault(copies_normalise)},
      {"col.in_place_adds_twice", "COLL-022", "in place, a rank's own contribution is added twice",
       "RED-10: the output is also the first accumulator", "collectives.buffers.in_place[operation=all_reduce,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]", "out of place, the output is no input",
       with_fault(in_place_adds_twice)},
      {"col.clobbers_input", "COLL-023", "reduce_scatter uses the input as scratch", "P2P-05",
       "collectives.buffers.input_untouched[operation=reduce_scatter,world=3]",
       "collectives.buffers.in_place[operation=reduce_scatter,world=3]", "in place, the input need not survive",
       with_fault(clobbers_input)},
      {"col.writes_past_end", "COLL-024", "all_gather writes one byte past the output", "a block that is rounded up",
       "collectives.buffers.nothing_outside[operation=all_gather,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]", "no all_gather is made", with_fault(writes_past_end)},
      {"col.writes_before_start", "COLL-024", "broadcast, gather and recv write one element before the output",
       "an index that begins at -1", "collectives.buffers.nothing_outside[operation=gather,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]", "none of the three is called",
       with_fault(writes_before_start)},
      {"col.long_copies_round_up", "COLL-024", "all_reduce of 4 KiB and more writes whole vectors of 16 bytes",
       "P2P-07", "collectives.buffers.nothing_outside[operation=all_reduce,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]", "calls are shorter", with_fault(long_copies_round_up)},
      {"col.in_place_scratch_behind", "COLL-024",
       "in place, all_reduce uses memory past the end of the buffer as scratch", "RED-12",
       "collectives.buffers.nothing_outside[operation=all_reduce,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]", "nothing is in place",
       with_fault(in_place_scratch_behind)},
      {"col.needs_alignment", "COLL-025",
       "all_reduce leaves the last element unreduced when a buffer does not start at 16 bytes", "COL-10",
       "collectives.buffers.unaligned[dtype=f32,world=3]", "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]",
       "buffers start at 64 bytes", with_fault(needs_alignment)},
      {"col.forgets_offset", "COLL-025", "all_gather reads from the 16 bytes in which the input begins",
       "COL-02: views whose strides and offsets are ignored", "collectives.buffers.unaligned[dtype=i32,world=3]",
       "collectives.all_gather.exact[world=3]", "inputs start at 64 bytes", with_fault(forgets_offset)},
      {"col.drops_at_chunk", "COLL-026", "the first element after 64 KiB stays unreduced", "COL-01: some sizes only",
       "collectives.lengths.boundaries[operation=all_reduce,world=3]",
       "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]", "everything fits into one chunk",
       with_fault(drops_at_chunk)},
      {"col.loses_large_tail", "COLL-026", "from 1 MiB on the last element stays unreduced", "COL-01: some sizes only",
       "collectives.lengths.all_reduce[dtype=f32,world=6]", "collectives.reductions.rounding_bound[dtype=f32,world=6]",
       "calls stay below 1 MiB", with_fault(loses_large_tail)},
      {"col.wrong_above_1_mib_of_two", "COLL-026", "of two members, the last element is lost above 1 MiB",
       "COL-01: an algorithm that two ranks alone take", "collectives.lengths.boundaries[operation=all_reduce,world=2]",
       "collectives.lengths.boundaries[operation=all_reduce,world=3]", "there are three members",
       wrong_at({.more_than = 1 << 20, .world = 2})},
      {"col.wrong_above_4_mib", "COLL-026", "above 4 MiB the last element is lost", "COL-01: some sizes only",
       "collectives.lengths.large[operation=all_gather,world=6]",
       "collectives.lengths.boundaries[operation=all_gather,world=3]", "no buffer is longer than that",
       wrong_at({.more_than = 4 << 20})},
      {"col.wrong_above_32_mib", "COLL-026", "above 32 MiB the last element is lost", "COL-01: some sizes only",
       "collectives.lengths.large[operation=send,world=2]", "collectives.lengths.large[operation=send,world=3]",
       "of three members, 8 MiB are sent", wrong_at({.more_than = 32 << 20})},
      {"col.wrong_at_16_mib", "COLL-026", "of 16 MiB exactly the last element stays unreduced",
       "COL-10: < in place of <=", "collectives.lengths.large[operation=all_reduce,world=2]",
       "collectives.lengths.large[operation=all_reduce,world=3]", "there, 64 MiB are reduced",
       wrong_at({.more_than = (16 << 20) - 1, .up_to = 16 << 20, .operation = Operation::all_reduce})},
      {"col.gather_wrong_above_6_mib", "COLL-026", "of three members, gather loses its last element above 6 MiB",
       "COL-01: some sizes only", "collectives.lengths.large[operation=gather,world=3]",
       "collectives.lengths.large[operation=gather,world=2]", "there are two members",
       wrong_at({.more_than = 6 << 20, .world = 3, .operation = Operation::gather})},
      {"col.bytes_in_31_bits", "COLL-066", "the last element is lost where a buffer's bytes pass 31 bits",
       "COL-01: a byte count in an int", "collectives.lengths.huge[gib=10,operation=all_gather,world=2]",
       "collectives.lengths.large[operation=all_gather,world=2]", "buffers have 64 MiB",
       wrong_at({.more_than = std::numeric_limits<std::int32_t>::max()})},
      {"col.gather_bytes_in_31_bits", "COLL-066", "gather loses the last element where its bytes pass 31 bits",
       "COL-01: a byte count in an int", "collectives.lengths.huge[gib=10,operation=gather,world=2]",
       "collectives.lengths.huge[gib=10,operation=all_gather,world=2]", "another operation",
       wrong_at({.more_than = std::numeric_limits<std::int32_t>::max(), .operation = Operation::gather})},
      {"col.stale_input", "COLL-064", "each sixteenth collective sends what its input held at the call before",
       "OVL-04: a cache of registered memory, by address",
       "collectives.buffers.back_to_back[operation=all_reduce,world=2]", "collectives.messages.tags[world=2]",
       "there are messages alone", stale_input()},
      {"col.leaks_at_each_call", "COLL-065", "each reduce leaks 24 bytes", "GRP-08",
       "collectives.memory.does_not_grow[world=2]", "collectives.reduce.exact[dtype=f32,world=3]",
       "nobody looks at the memory", leaks_at_each_call(), "plain", "plain", Sanitized::measured},
      {"col.keeps_staging", "COLL-065", "copies of messages of 64 KiB and more are kept", "GRP-08",
       "collectives.memory.does_not_grow[world=2]", "collectives.messages.every_pair[world=2]",
       "nobody looks at the memory", keeps_staging(), "plain", "plain", Sanitized::measured},
      {"col.refuses_zero_elements", "COLL-027", "a count of zero is refused", "GRP-07",
       "collectives.lengths.zero[world=2]", "collectives.capabilities.claims_hold[world=2]", "no count is zero",
       with_fault(refuses_zero_elements)},
      {"col.takes_device_memory", "COLL-029", "memory of a device is taken for the host's", "COL-07",
       "collectives.capabilities.refuses_the_rest[world=3]", "collectives.capabilities.claims_hold[world=3]",
       "all memory is the host's", with_fault(takes_device_memory)},
      {"col.claims_bf16", "COLL-030", "bf16 is claimed, and refused in reductions", "COL-07",
       "collectives.capabilities.claims_hold[world=3]", "collectives.all_reduce.exact[dtype=f32,op=sum,world=3]",
       "other dtypes are not concerned", with_fault(claims_bf16)},
  };
}

}  // namespace plumbline::mutants

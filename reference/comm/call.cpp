#include "reference/comm/call.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::comm {
namespace {

constexpr std::array<std::string_view, kOperationCount> kOperationNames{
    "all_reduce", "reduce",  "broadcast", "reduce_scatter", "all_gather", "all_to_all",
    "gather",     "scatter", "barrier",   "send",           "recv"};

constexpr std::array<std::string_view, 3> kDeviceNames{"cpu", "cuda", "emulated"};

// Small calls take little more time than their checks: these are inlined, and texts of errors are made out of the way,
// of copies, since what is captured by reference would have to be in memory for every call.
[[noreturn]] void refuse(std::string_view call, const std::string& why) {
  throw InvalidArgument(fmt::format("{}: {}", call, why));
}
template <class Why>
  requires std::invocable<const Why&>
[[noreturn, gnu::cold, gnu::noinline]] void refuse(std::string_view call, const Why& why) {
  refuse(call, why());
}
template <class Why>
  requires std::invocable<const Why&>
[[noreturn, gnu::cold, gnu::noinline]] void refuse(const Call& call, const Why& why) {
  refuse(name_of(call.operation), why());
}

constexpr std::size_t kWidest = [] {  // bytes per element
  std::size_t widest = 0;
  for (std::size_t dtype = 0; dtype < kDTypeCount; ++dtype)
    widest = std::max(widest, size_of(static_cast<DType>(dtype)));
  return widest;
}();

template <class AnyCall>
[[gnu::always_inline]] inline void check_view(const AnyCall& call, std::string_view which, const ConstBuffer& view,
                                              int ranks) {
  const std::int64_t count = view.count;
  if (count < 0) [[unlikely]]
    refuse(call, [=] { return fmt::format("{} has {} elements; a count is 0 or more", which, view.count); });
  std::int64_t bytes_of_all = 0;  // of the widest elements: what sizes are computed from must not overflow
  if (__builtin_mul_overflow(count, std::int64_t{kWidest} * ranks, &bytes_of_all)) [[unlikely]]
    refuse(call, [=] {
      return fmt::format("{} has {} elements; no memory of {} ranks holds that number", which, count, ranks);
    });
  if (view.data == nullptr && count > 0) [[unlikely]]
    refuse(call, [=] { return fmt::format("{} has {} elements and a null pointer", which, count); });
}

template <class AnyCall>
[[gnu::always_inline]] inline void check_count(const AnyCall& call, std::string_view which, std::int64_t count,
                                               std::int64_t wanted) {
  if (count != wanted) [[unlikely]]
    refuse(call, [=] { return fmt::format("{} has {} elements, needs {}", which, count, wanted); });
}

template <class AnyCall>
[[gnu::always_inline]] inline void check_alike(const AnyCall& call, const ConstBuffer& in, const Buffer& out) {
  if (in.dtype != out.dtype) [[unlikely]]
    refuse(call, [=] {
      return fmt::format("in is {}, out is {}; both must be equal", name_of(in.dtype), name_of(out.dtype));
    });
  if (in.device != out.device) [[unlikely]]
    refuse(call, [=] {
      return fmt::format("in is on {}, out on {}; both must be equal", name_of(in.device), name_of(out.device));
    });
}

[[noreturn, gnu::cold, gnu::noinline]] void refuse_op(std::string_view call, DType dtype, ReduceOp op) {
  throw Unsupported(fmt::format("{}: {} of {} is not defined; use {}", call, name_of(op), name_of(dtype),
                                dtype == DType::boolean ? "min, which is AND, or max, which is OR"
                                : is_complex(dtype)     ? "sum, avg or product"
                                                        : "sum, or a floating dtype"));
}

[[gnu::always_inline]] inline bool overlap(const ConstBuffer& in, const Buffer& out) {
  if (in.count == 0 || out.count == 0) return false;
  const auto first = reinterpret_cast<std::uintptr_t>(in.data);
  const auto second = reinterpret_cast<std::uintptr_t>(out.data);
  // Mostly they are farther apart than their elements reach, however wide.
  const auto most = static_cast<std::uintptr_t>(std::max(in.count, out.count)) * kWidest;
  if ((first < second ? second - first : first - second) >= most) return false;
  return first < second + out.bytes() && second < first + in.bytes();
}

// The two views may share memory only as the in-place form: `in` at byte `in_place_in` of the common buffer and `out`
// at byte `in_place_out`.
template <class AnyCall>
[[gnu::always_inline]] inline void check_overlap(const AnyCall& call, const ConstBuffer& in, const Buffer& out,
                                                 std::size_t in_place_in, std::size_t in_place_out) {
  const bool in_place = reinterpret_cast<std::uintptr_t>(in.data) - in_place_in ==
                        reinterpret_cast<std::uintptr_t>(out.data) - in_place_out;
  if (!in_place && overlap(in, out)) [[unlikely]]
    refuse(call, [] { return std::string("in and out overlap, but not as the in-place form"); });
}

// Where in and out may share memory, `check_apart` looks whether they do, given the bytes of check_overlap().
template <class CheckApart>
[[gnu::always_inline]] inline void check_sizes(const Call& call, int rank, int ranks, const CheckApart& check_apart) {
  const std::int64_t n = ranks;
  const std::int64_t in = call.in.count;
  const std::int64_t out = call.out.count;
  const bool is_root = rank == call.root;
  const auto block = [&] { return call.bytes(ranks) * static_cast<std::size_t>(rank); };  // where the own one begins
  switch (call.operation) {
    case Operation::all_reduce:
      check_count(call, "out", out, in);
      return check_apart(0, 0);
    case Operation::all_to_all:
      if (in % n != 0) [[unlikely]]
        refuse(call, [=] { return fmt::format("in has {} elements, not a multiple of the {} ranks", in, n); });
      check_count(call, "out", out, in);
      return check_apart(0, 0);
    case Operation::reduce:
      if (is_root) check_count(call, "out", out, in), check_apart(0, 0);
      return;
    case Operation::reduce_scatter:
      check_count(call, "in", in, n * out);
      return check_apart(0, block());
    case Operation::all_gather:
      check_count(call, "out", out, n * in);
      return check_apart(block(), 0);
    case Operation::gather:
      if (is_root) check_count(call, "out", out, n * in), check_apart(block(), 0);
      return;
    case Operation::scatter:
      if (is_root) check_count(call, "in", in, n * out), check_apart(0, block());
      return;
    default:
      return;
  }
}

}  // namespace

std::string_view name_of(Device::Kind kind) { return kDeviceNames[static_cast<std::size_t>(kind)]; }

std::string name_of(Device device) {
  if (device.kind == Device::Kind::cpu) return "cpu";
  return fmt::format("{}:{}", name_of(device.kind), device.index);
}

std::optional<Device> parse_device(std::string_view name) {
  const std::string_view kind = name.substr(0, name.find(':'));
  const auto found = std::ranges::find(kDeviceNames, kind);
  if (found == kDeviceNames.end()) return std::nullopt;
  Device device{.kind = static_cast<Device::Kind>(found - kDeviceNames.begin())};
  if (kind.size() == name.size()) return device;
  const std::string_view number = name.substr(kind.size() + 1);
  const char* const end = number.data() + number.size();
  const auto [rest, error] = std::from_chars(number.data(), end, device.index);
  if (error != std::errc{} || rest != end || number.starts_with('-')) return std::nullopt;
  return device;
}

std::string_view name_of(Operation operation) { return kOperationNames[static_cast<std::size_t>(operation)]; }

std::string describe(const Call& call, int ranks) {
  if (call.operation == Operation::barrier) return "barrier()";
  const std::string what =
      fmt::format("{}({} x {}", name_of(call.operation), name_of(call.dtype()), call.elements(ranks));
  if (call.operation == Operation::send) return fmt::format("{} to {}, tag {})", what, call.root, call.tag);
  if (call.operation == Operation::recv) return fmt::format("{} from {}, tag {})", what, call.root, call.tag);
  const std::string op = is_reduction(call.operation) ? fmt::format(", {}", name_of(call.op)) : "";
  const std::string root = is_rooted(call.operation) ? fmt::format(", root {}", call.root) : "";
  return what + op + root + ")";
}

namespace {

template <class CheckApart>
[[gnu::always_inline]] inline void check_call(const Call& call, int rank, int ranks, const CheckApart& check_apart) {
  check_view(call, "in", call.in, ranks);
  check_view(call, "out", call.out, ranks);
  if (is_rooted(call.operation) || is_point_to_point(call.operation)) {
    if (call.root < 0 || call.root >= ranks) [[unlikely]]
      refuse(call, [=] {
        return fmt::format("{} {} is not a rank of the group of {}", is_rooted(call.operation) ? "root" : "peer",
                           call.root, ranks);
      });
    if (call.tag < 0) [[unlikely]]
      refuse(call, [=] { return fmt::format("tag {} is negative", call.tag); });
  }
  if (call.uses_in(rank) && call.uses_out(rank)) check_alike(call, call.in, call.out);
  if (is_reduction(call.operation) && !is_defined(call.dtype(), call.op)) [[unlikely]]
    refuse_op(name_of(call.operation), call.dtype(), call.op);
  check_sizes(call, rank, ranks, check_apart);
}

}  // namespace

void validate(const Call& call, int rank, int ranks) {
  if (call.operation == Operation::barrier) return;
  check_call(call, rank, ranks, [&](std::size_t in_place_in, std::size_t in_place_out) {
    check_overlap(call, call.in, call.out, in_place_in, in_place_out);
  });
}

// ---- rows with gaps ----

namespace {

// How many elements lie one after another from element `index` on, of `count`.
std::int64_t left_in_row(Rows rows, std::int64_t index, std::int64_t count) {
  const std::int64_t left = count - index;
  return rows.columns == 0 ? left : std::min(left, rows.columns - index % rows.columns);
}

void check_rows(const Call& call, std::string_view which, Rows rows, std::int64_t count) {
  const auto refuse_rows = [&](const std::string& why) {
    refuse(name_of(call.operation),
           fmt::format("{} has rows of {} elements at stride {}; {}", which, rows.columns, rows.stride, why));
  };
  if (rows.columns < 0) refuse_rows("a row has 1 element or more, or the buffer no rows (0 at stride 0)");
  if (rows.columns == 0 && rows.stride != 0) refuse_rows("give the elements of a row, or stride 0");
  if (rows.columns != 0 && rows.columns == count) return;  // a single row, whose stride leads nowhere
  if (rows.stride < rows.columns) refuse_rows("the stride is at least the elements of a row");
  if (rows.columns == 0 || count <= 0) return;
  if (count % rows.columns != 0) refuse_rows(fmt::format("{} elements are not a multiple of that", count));
  std::int64_t extent = 0;
  if (__builtin_mul_overflow(count / rows.columns, rows.stride, &extent) ||
      __builtin_mul_overflow(extent, std::int64_t{kWidest}, &extent))
    refuse_rows(fmt::format("no memory holds {} of them", count / rows.columns));
}

struct View {
  ConstBuffer buffer;
  Rows rows;
};

bool share_an_element(const View& a, const View& b) {
  const auto width = static_cast<std::int64_t>(size_of(a.buffer.dtype));
  for (std::int64_t i = 0, j = 0; i < a.buffer.count && j < b.buffer.count;) {
    const std::int64_t in_a = left_in_row(a.rows, i, a.buffer.count), in_b = left_in_row(b.rows, j, b.buffer.count);
    const auto begin_a = reinterpret_cast<std::intptr_t>(address_of(a.buffer, a.rows, i));
    const auto begin_b = reinterpret_cast<std::intptr_t>(address_of(b.buffer, b.rows, j));
    const std::intptr_t end_a = begin_a + in_a * width, end_b = begin_b + in_b * width;
    if (begin_a < end_b && begin_b < end_a) return true;
    if (end_a <= begin_b)
      i += in_a;
    else
      j += in_b;
  }
  return false;
}

// Whether the elements from `in_first` of `in` and `out_first` of `out` on, as many as the shorter one has, are the
// same.
bool are_the_same(const View& in, std::int64_t in_first, const View& out, std::int64_t out_first) {
  const std::int64_t count = std::min(in.buffer.count - in_first, out.buffer.count - out_first);
  for (std::int64_t i = 0; i < count;) {
    if (address_of(in.buffer, in.rows, in_first + i) != address_of(out.buffer, out.rows, out_first + i)) return false;
    i += std::min(left_in_row(in.rows, in_first + i, in_first + count),
                  left_in_row(out.rows, out_first + i, out_first + count));
  }
  return true;
}

std::string describe(std::string_view which, Rows rows) {
  if (rows.columns == 0) return {};
  return fmt::format(", {} rows of {} at stride {}", which, rows.columns, rows.stride);
}

}  // namespace

std::string describe(const StridedCall& call, int ranks) {
  return describe(call.call, ranks) + describe("in", call.in) + describe("out", call.out);
}

void validate(const StridedCall& strided, int rank, int ranks) {
  const Call& call = strided.call;
  if (call.operation == Operation::barrier)
    refuse(call, [] { return std::string("it has no buffers to lie in rows"); });
  check_rows(call, "in", strided.in, call.in.count);
  check_rows(call, "out", strided.out, call.out.count);
  check_call(call, rank, ranks, [&](std::size_t in_place_in, std::size_t in_place_out) {
    const View in{call.in, strided.in}, out{call.out, strided.out};
    const std::size_t width = size_of(call.in.dtype);
    const auto first = [width](std::size_t bytes) { return static_cast<std::int64_t>(bytes / width); };
    if (!are_the_same(in, first(in_place_out), out, first(in_place_in)) && share_an_element(in, out))
      refuse(call, [] { return std::string("in and out share elements, but not as the in-place form"); });
  });
}

// ---- blocks of different lengths ----

namespace {

std::string name_of(const UnevenCall& call) { return fmt::format("{}_v", name_of(call.operation)); }

// The sum of the counts, of which there must be one for each of `ranks`.
std::int64_t sum_of(std::string_view call, std::string_view which, std::span<const std::int64_t> counts, int ranks) {
  if (std::ssize(counts) != ranks)
    refuse(call, fmt::format("{}_counts has {} counts, needs one for each of {} ranks", which, counts.size(), ranks));
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) {
    if (count < 0) refuse(call, fmt::format("{}_counts has {}; a count is 0 or more", which, count));
    if (__builtin_add_overflow(sum, count, &sum))
      refuse(call, fmt::format("{}_counts has more elements than any rank has memory for", which));
  }
  return sum;
}

// A buffer of the rank's own block alone has no list.
std::int64_t expected(const UnevenCall& call, std::string_view which, std::span<const std::int64_t> counts,
                      std::span<const std::int64_t> of_the_other, bool is_block, int rank, int ranks) {
  if (!is_block) return sum_of(name_of(call), which, counts, ranks);
  if (!counts.empty()) refuse(name_of(call), fmt::format("{}_counts has counts; it must be empty", which));
  return std::ssize(of_the_other) == ranks ? of_the_other[static_cast<std::size_t>(rank)] : 0;
}

}  // namespace

std::string describe(const UnevenCall& call) {
  const std::string what = fmt::format("{}({} x ", name_of(call), name_of(call.in.dtype));
  if (call.operation == Operation::all_to_all)
    return fmt::format("{}[{}] to, [{}] from)", what, fmt::join(call.in_counts, " "), fmt::join(call.out_counts, " "));
  if (call.operation == Operation::reduce_scatter)
    return fmt::format("{}[{}], {})", what, fmt::join(call.in_counts, " "), name_of(call.op));
  return fmt::format("{}[{}])", what, fmt::join(call.out_counts, " "));
}

std::int64_t begin_of_block(std::span<const std::int64_t> counts, int rank) {
  return std::reduce(counts.begin(), counts.begin() + rank);
}

void validate(const UnevenCall& call, int rank, int ranks) {
  const std::string name = name_of(call);
  const bool gathers = call.operation == Operation::all_gather;
  const bool scatters = call.operation == Operation::reduce_scatter;
  if (!gathers && !scatters && call.operation != Operation::all_to_all)
    refuse(name, "there is no such operation; all_gather, reduce_scatter and all_to_all have blocks of any lengths");
  check_view(name, "in", call.in, ranks);
  check_view(name, "out", call.out, ranks);
  check_alike(name, call.in, call.out);
  if (scatters && !is_defined(call.in.dtype, call.op)) refuse_op(name, call.in.dtype, call.op);
  const std::int64_t in = expected(call, "in", call.in_counts, call.out_counts, gathers, rank, ranks);
  const std::int64_t out = expected(call, "out", call.out_counts, call.in_counts, scatters, rank, ranks);
  check_count(name, "in", call.in.count, in);
  check_count(name, "out", call.out.count, out);
  const auto own_block = [&](std::span<const std::int64_t> counts) {
    return static_cast<std::size_t>(begin_of_block(counts, rank)) * size_of(call.in.dtype);
  };
  if (gathers) return check_overlap(name, call.in, call.out, own_block(call.out_counts), 0);
  if (scatters) return check_overlap(name, call.in, call.out, 0, own_block(call.in_counts));
  if (overlap(call.in, call.out)) refuse(name, "in and out overlap; this operation has no in-place form");
}

}  // namespace plumbline::comm

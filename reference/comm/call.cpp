#include "reference/comm/call.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::comm {
namespace {

constexpr std::array<std::string_view, kOperationCount> kOperationNames{
    "all_reduce", "reduce",  "broadcast", "reduce_scatter", "all_gather", "all_to_all",
    "gather",     "scatter", "barrier",   "send",           "recv"};

constexpr std::array<std::string_view, 3> kDeviceNames{"cpu", "cuda", "emulated"};

[[noreturn]] void refuse(const Call& call, const std::string& why) {
  throw InvalidArgument(fmt::format("{}: {}", name_of(call.operation), why));
}

void check_view(const Call& call, std::string_view which, const void* data, std::int64_t count, int ranks) {
  if (count < 0) refuse(call, fmt::format("{} has {} elements; a count is 0 or more", which, count));
  std::int64_t bytes_of_all = 0;  // of the widest elements: what sizes are computed from must not overflow
  if (__builtin_mul_overflow(count, std::int64_t{8} * ranks, &bytes_of_all))
    refuse(call, fmt::format("{} has {} elements; no {} ranks have memory for so many", which, count, ranks));
  if (data == nullptr && count > 0) refuse(call, fmt::format("{} has {} elements and a null pointer", which, count));
}

void check_count(const Call& call, std::string_view which, std::int64_t count, std::int64_t wanted) {
  if (count != wanted) refuse(call, fmt::format("{} has {} elements, needs {}", which, count, wanted));
}

void check_alike(const Call& call) {
  if (call.in.dtype != call.out.dtype)
    refuse(call,
           fmt::format("in is {}, out is {}; both must be alike", name_of(call.in.dtype), name_of(call.out.dtype)));
  if (call.in.device != call.out.device)
    refuse(call, fmt::format("in is on {}, out on {}; both must be alike", name_of(call.in.device),
                             name_of(call.out.device)));
}

// The two views may share memory only as the in-place form: `in` at byte `in_place_in` of the common buffer and `out`
// at byte `in_place_out`.
void check_overlap(const Call& call, std::size_t in_place_in, std::size_t in_place_out) {
  const auto in = reinterpret_cast<std::uintptr_t>(call.in.data);
  const auto out = reinterpret_cast<std::uintptr_t>(call.out.data);
  if (call.in.count == 0 || call.out.count == 0) return;
  if (in - in_place_in == out - in_place_out) return;
  if (in < out + call.out.bytes() && out < in + call.in.bytes())
    refuse(call, "in and out overlap, but not as the in-place form");
}

void check_sizes(const Call& call, int rank, int ranks) {
  const std::int64_t n = ranks;
  const std::int64_t in = call.in.count;
  const std::int64_t out = call.out.count;
  const bool is_root = rank == call.root;
  const std::size_t block = call.bytes(ranks) * static_cast<std::size_t>(rank);
  switch (call.operation) {
    case Operation::all_reduce:
      check_count(call, "out", out, in);
      return check_overlap(call, 0, 0);
    case Operation::all_to_all:
      if (in % n != 0) refuse(call, fmt::format("in has {} elements, not a multiple of the {} ranks", in, n));
      check_count(call, "out", out, in);
      return check_overlap(call, 0, 0);
    case Operation::reduce:
      if (is_root) check_count(call, "out", out, in), check_overlap(call, 0, 0);
      return;
    case Operation::reduce_scatter:
      check_count(call, "in", in, n * out);
      return check_overlap(call, 0, block);
    case Operation::all_gather:
      check_count(call, "out", out, n * in);
      return check_overlap(call, block, 0);
    case Operation::gather:
      if (is_root) check_count(call, "out", out, n * in), check_overlap(call, block, 0);
      return;
    case Operation::scatter:
      if (is_root) check_count(call, "in", in, n * out), check_overlap(call, 0, block);
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

void validate(const Call& call, int rank, int ranks) {
  if (call.operation == Operation::barrier) return;
  check_view(call, "in", call.in.data, call.in.count, ranks);
  check_view(call, "out", call.out.data, call.out.count, ranks);
  if (is_rooted(call.operation) || is_point_to_point(call.operation)) {
    if (call.root < 0 || call.root >= ranks)
      refuse(call, fmt::format("{} {} is not a rank of the group of {}", is_rooted(call.operation) ? "root" : "peer",
                               call.root, ranks));
    if (call.tag < 0) refuse(call, fmt::format("tag {} is negative", call.tag));
  }
  if (call.uses_in(rank) && call.uses_out(rank)) check_alike(call);
  if (is_reduction(call.operation) && !is_defined(call.dtype(), call.op))
    throw Unsupported(fmt::format("{}: {} of {} is not defined; use sum, or a floating dtype", name_of(call.operation),
                                  name_of(call.op), name_of(call.dtype())));
  check_sizes(call, rank, ranks);
}

}  // namespace plumbline::comm

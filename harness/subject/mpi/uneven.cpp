#include "harness/subject/mpi/uneven.hpp"

#include <chrono>
#include <climits>
#include <cstring>

#include <fmt/format.h>
#include <sched.h>

#include "harness/subject/mpi/staging.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::subject::mpi {
namespace {

using comm::DType;
using comm::Operation;
using comm::UnevenCall;

// A list of counts as MPI takes it.
struct Blocks {
  explicit Blocks(std::span<const std::int64_t> list) {
    std::int64_t begin = 0;
    for (const std::int64_t count : list) {
      counts.push_back(static_cast<int>(count));
      begins.push_back(static_cast<int>(begin));
      begin += count;
    }
  }
  std::vector<int> counts;
  std::vector<int> begins;
};

// A call under way, with what MPI reads and writes until it is complete.
struct Posted {
  explicit Posted(const UnevenCall& call) : in(call.in_counts), out(call.out_counts) {}
  Blocks in;
  Blocks out;
  Scratch scratch;
  UnevenCall staged;
  MPI_Request request = MPI_REQUEST_NULL;
};

bool is_average(const UnevenCall& call) {
  return call.operation == Operation::reduce_scatter && call.op == comm::ReduceOp::avg;
}

const std::byte* block_of(const UnevenCall& call, const void* whole, std::span<const std::int64_t> counts, int rank) {
  return static_cast<const std::byte*>(whole) +
         static_cast<std::size_t>(comm::begin_of_block(counts, rank)) * size_of(call.in.dtype);
}

// An average is a sum and a division, of narrow formats in f32; a block in place is made elsewhere (staging.hpp).
UnevenCall staged(const UnevenCall& call, int rank, Scratch& scratch) {
  UnevenCall made = call;
  if (call.operation != Operation::reduce_scatter) return made;
  if (is_average(call)) made.op = comm::ReduceOp::sum;
  if (is_average(call) && is_narrow(call.in.dtype)) {
    const std::int64_t given = call.in.count, taken = call.out.count;
    auto* const wide =
        reinterpret_cast<float*>(scratch.reserve(static_cast<std::size_t>(given + taken) * sizeof(float)));
    widen(call.in.dtype, static_cast<const std::byte*>(call.in.data), wide, static_cast<std::size_t>(given));
    made.in = {wide, given, DType::f32};
    made.out = {wide + given, taken, DType::f32};
  } else if (call.out.count == 0 || call.out.data == block_of(call, call.in.data, call.in_counts, rank)) {
    made.out.data = scratch.reserve(call.out.bytes());
  }
  return made;
}

void unstage(const UnevenCall& call, const UnevenCall& made, int ranks) {
  const auto count = static_cast<std::size_t>(call.out.count);
  if (count == 0 || call.operation != Operation::reduce_scatter) return;
  auto* const out = static_cast<std::byte*>(call.out.data);
  if (is_average(call) && is_narrow(call.in.dtype))
    return narrow_mean(call.in.dtype, static_cast<const float*>(made.out.data), ranks, out, count);
  if (made.out.data != out) std::memcpy(out, made.out.data, call.out.bytes());
  if (is_average(call)) divide(call.in.dtype, out, ranks, count);
}

int post(const MpiGroup& group, const UnevenCall& call, Posted& posted) {
  // Of nothing there may be no memory; MPI wants an address, and another one for the result.
  static char nowhere[2];
  const MPI_Datatype type = type_of(call.in.dtype);
  const void* in = call.in.data == nullptr ? &nowhere[0] : call.in.data;
  void* const out = call.out.data == nullptr ? &nowhere[1] : call.out.data;
  if (call.operation == Operation::reduce_scatter)
    return MPI_Ireduce_scatter(in, out, posted.in.counts.data(), type, group.runtime->op(call.in.dtype, call.op),
                               group.handle, &posted.request);
  if (call.operation == Operation::all_to_all)
    return MPI_Ialltoallv(in, posted.in.counts.data(), posted.in.begins.data(), type, out, posted.out.counts.data(),
                          posted.out.begins.data(), type, group.handle, &posted.request);
  if (call.out.data != nullptr && in == block_of(call, call.out.data, call.out_counts, group.rank)) in = MPI_IN_PLACE;
  return MPI_Iallgatherv(in, static_cast<int>(call.in.count), type, out, posted.out.counts.data(),
                         posted.out.begins.data(), type, group.handle, &posted.request);
}

void complete(MpiGroup& group, const UnevenCall& call, Posted& posted, comm::Timeout timeout) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = timeout ? Clock::now() : Clock::time_point{};
  int polls_left = group.runtime->polls_before_yield();
  for (int is_complete = 0;;) {
    const int code = MPI_Test(&posted.request, &is_complete, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) group.throw_error(group.place(describe(call)), code);
    if (is_complete != 0) return;
    if (group.failed()) group.throw_failed();
    if (timeout && Clock::now() - begin >= *timeout)
      group.throw_late(group.place(describe(call)), *timeout, group.others());
    if (polls_left > 0)
      --polls_left;
    else
      sched_yield();
  }
}

}  // namespace

void run_uneven(MpiGroup& group, const UnevenCall& call, comm::Timeout timeout) {
  for (const std::int64_t count : {call.in.count, call.out.count})
    if (count > INT_MAX)
      throw Unsupported(fmt::format("{}: {} elements; MPI counts {} at most", describe(call), count, INT_MAX));
  auto posted = std::make_unique<Posted>(call);
  posted->staged = staged(call, group.rank, posted->scratch);
  try {
    if (const int code = post(group, posted->staged, *posted); code != MPI_SUCCESS)
      group.throw_error(group.place(describe(call)), code);
    complete(group, call, *posted, timeout);
  } catch (...) {
    if (posted->request != MPI_REQUEST_NULL) (void)posted.release();  // MPI may still be at it
    throw;
  }
  unstage(call, posted->staged, group.size);
}

}  // namespace plumbline::subject::mpi

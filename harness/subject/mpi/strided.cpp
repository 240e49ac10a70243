#include "harness/subject/mpi/strided.hpp"

#include <cstring>
#include <optional>
#include <vector>

#include "harness/subject/mpi/row_type.hpp"
#include "harness/subject/mpi/work.hpp"

namespace plumbline::subject::mpi {
namespace {

using comm::Call;
using comm::Operation;
using comm::StridedCall;

bool has_types(const StridedCall& strided, int rank, int ranks) {
  const Call& call = strided.call;
  const std::int64_t elements = call.elements(ranks);
  return !is_reduction(call.operation) &&
         (!call.uses_in(rank) || RowType::can_describe(strided.in, elements, call.in.count)) &&
         (!call.uses_out(rank) || RowType::can_describe(strided.out, elements, call.out.count));
}

// The block of the caller in the other buffer.
const void* own_block(const comm::ConstBuffer& whole, comm::Rows rows, const MpiGroup& group, std::int64_t elements) {
  return address_of(whole, rows, group.rank * elements);
}

// The arguments for one side.
struct Side {
  const void* data = nullptr;
  int count = 0;
  MPI_Datatype type = MPI_BYTE;  // of a side that this rank has not
};

Side side_of(bool is_used, const void* data, const std::optional<RowType>& type) {
  if (!is_used) return {};
  return {data, 1, type->type()};
}

int post_rows(const MpiGroup& group, const StridedCall& strided, MPI_Request* request) {
  const Call& call = strided.call;
  const std::int64_t elements = call.elements(group.size);
  const bool uses_in = call.uses_in(group.rank), uses_out = call.uses_out(group.rank);
  std::optional<RowType> in_type, out_type;
  if (uses_in) in_type.emplace(call.dtype(), strided.in, elements, call.in.count);
  if (uses_out) out_type.emplace(call.dtype(), strided.out, elements, call.out.count);
  Side in = side_of(uses_in, call.in.data, in_type);
  const Side out = side_of(uses_out, call.out.data, out_type);
  void* to = const_cast<void*>(out.data);
  switch (call.operation) {
    case Operation::broadcast:
      return MPI_Ibcast(to, out.count, out.type, call.root, group.handle, request);
    case Operation::all_gather:
      return MPI_Iallgather(in.data, in.count, in.type, to, out.count, out.type, group.handle, request);
    case Operation::all_to_all:
      return MPI_Ialltoall(in.data, in.count, in.type, to, out.count, out.type, group.handle, request);
    case Operation::gather:
      if (uses_out && in.data == own_block(call.out, strided.out, group, elements)) in.data = MPI_IN_PLACE;
      return MPI_Igather(in.data, in.count, in.type, to, out.count, out.type, call.root, group.handle, request);
    case Operation::scatter:
      if (uses_in && to == own_block(call.in, strided.in, group, elements)) to = MPI_IN_PLACE;
      return MPI_Iscatter(in.data, in.count, in.type, to, out.count, out.type, call.root, group.handle, request);
    case Operation::send:
      return MPI_Isend(in.data, in.count, in.type, call.root, call.tag, group.handle, request);
    default:
      return MPI_Irecv(to, out.count, out.type, call.root, call.tag, group.handle, request);
  }
}

// In these calls all members give MPI_IN_PLACE or none (MPI-3.1 sections 5.7 and 5.8). Each member has rows of its own,
// of which only some have a type: none gives it.
bool all_must_be_in_place(const StridedCall& strided, const MpiGroup& group) {
  const Call& call = strided.call;
  if (call.in.count == 0) return false;
  if (call.operation == Operation::all_to_all) return call.in.data == call.out.data;
  return call.operation == Operation::all_gather &&
         call.in.data == own_block(call.out, strided.out, group, call.elements(group.size));
}

std::vector<std::byte> packed_input(const StridedCall& strided) {
  const comm::ConstBuffer& in = strided.call.in;
  const std::size_t width = size_of(in.dtype);
  std::vector<std::byte> packed(in.bytes());
  for (std::int64_t i = 0; i < in.count; ++i)
    std::memcpy(packed.data() + static_cast<std::size_t>(i) * width, address_of(in, strided.in, i), width);
  return packed;
}

}  // namespace

void MpiWork::post(const StridedCall& call) {
  Posted& posted = posted_.emplace_back(Posted{.call = call.call, .staged = call.call});
  MPI_Request& request = posted.requests.emplace_back(MPI_REQUEST_NULL);
  if (const int code = mpi::post_rows(*group_, call, &request); code != MPI_SUCCESS)
    group_->throw_error(call.call, code);
}

void run_strided(const std::shared_ptr<MpiGroup>& group, const StridedCall& call, comm::Timeout timeout) {
  StridedCall made = call;
  auto input = std::make_unique<std::vector<std::byte>>();
  if (all_must_be_in_place(call, *group)) {
    *input = packed_input(call);
    made.call.in.data = input->data();
    made.in = {};
  }
  auto packed =
      has_types(made, group->rank, group->size) ? nullptr : std::make_unique<comm::PackedCall>(made, group->rank);
  MpiWork work(group);
  try {
    if (packed == nullptr)
      work.post(made);
    else
      work.post(packed->plain());
    work.wait(timeout);
  } catch (...) {
    (void)input.release();  // MPI may still be at it
    (void)packed.release();
    throw;
  }
  if (packed != nullptr) packed->finish();
}

}  // namespace plumbline::subject::mpi

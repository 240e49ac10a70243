#include "harness/subject/mpi/strided.hpp"

#include <optional>

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

// What MPI is told of one side.
struct Side {
  const void* data = nullptr;
  int count = 0;
  MPI_Datatype type = MPI_BYTE;  // of a side that this rank has not
};

Side side_of(bool is_used, const void* data, const std::optional<RowType>& type) {
  if (!is_used) return {};
  return {data, 1, type->type()};
}

int post(const MpiGroup& group, const StridedCall& strided, MPI_Request* request) {
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
      if (in.data == own_block(call.out, strided.out, group, elements)) in.data = MPI_IN_PLACE;
      return MPI_Iallgather(in.data, in.count, in.type, to, out.count, out.type, group.handle, request);
    case Operation::all_to_all:
      if (in.data == to) in.data = MPI_IN_PLACE;
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

}  // namespace

void MpiWork::post(const StridedCall& call) {
  Posted& posted = posted_.emplace_back(Posted{.call = call.call, .staged = call.call});
  MPI_Request& request = posted.requests.emplace_back(MPI_REQUEST_NULL);
  if (const int code = mpi::post(*group_, call, &request); code != MPI_SUCCESS) group_->throw_error(call.call, code);
}

void run_strided(const std::shared_ptr<MpiGroup>& group, const StridedCall& call, comm::Timeout timeout) {
  MpiWork work(group);
  if (has_types(call, group->rank, group->size)) {
    work.post(call);
    return work.wait(timeout);
  }
  auto packed = std::make_unique<comm::PackedCall>(call, group->rank);
  try {
    work.post(packed->plain());
    work.wait(timeout);
  } catch (...) {
    (void)packed.release();  // MPI may still be at it
    throw;
  }
  packed->finish();
}

}  // namespace plumbline::subject::mpi

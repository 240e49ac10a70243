// harness/subject/mpi/issue.hpp: a call of call.hpp as MPI calls, in the blocking form and in the other.
//
// Model   issue() works out what MPI is told: in place or not, types, segments. Its argument `mpi` makes
//         the calls: Direct those that block, Started those that leave a request.
//         MPI counts in int. What is longer than a segment goes as several reductions, or, where nothing is
//         added, as one element of a type that is as long as the block.
// Source  MPI-3.1 chapters 3 and 5; in-place rules: section 5.2.1 and those of each operation.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <mpi.h>

#include "harness/subject/mpi/block_type.hpp"
#include "harness/subject/mpi/group.hpp"
#include "reference/comm/call.hpp"

namespace plumbline::subject::mpi {

/// What both forms need to name an error.
class Caller {
 protected:
  Caller(MpiGroup& group, const comm::Call& call) : group_(group), call_(call) {}
  void check(int code) const {
    if (code != MPI_SUCCESS) [[unlikely]]
      group_.throw_error(call_, code);
  }
  MpiGroup& group_;
  const comm::Call& call_;
};

/// Makes blocking calls. Throws RuntimeFailure.
class Direct : Caller {
 public:
  Direct(MpiGroup& group, const comm::Call& call) : Caller(group, call) {}

  void all_reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op) {
    check(MPI_Allreduce(in, out, count, type, op, group_.handle));
  }
  void reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root) {
    check(MPI_Reduce(in, out, count, type, op, root, group_.handle));
  }
  void reduce_scatter(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op) {
    check(MPI_Reduce_scatter_block(in, out, count, type, op, group_.handle));
  }
  void broadcast(void* data, int count, MPI_Datatype type, int root) {
    check(MPI_Bcast(data, count, type, root, group_.handle));
  }
  void all_gather(const void* in, void* out, int count, MPI_Datatype type) {
    check(MPI_Allgather(in, count, type, out, count, type, group_.handle));
  }
  void all_to_all(const void* in, void* out, int count, MPI_Datatype type) {
    check(MPI_Alltoall(in, count, type, out, count, type, group_.handle));
  }
  void gather(const void* in, void* out, int count, MPI_Datatype type, int root) {
    check(MPI_Gather(in, count, type, out, count, type, root, group_.handle));
  }
  void scatter(const void* in, void* out, int count, MPI_Datatype type, int root) {
    check(MPI_Scatter(in, count, type, out, count, type, root, group_.handle));
  }
  void barrier() { check(MPI_Barrier(group_.handle)); }
  void send(const void* in, int count, MPI_Datatype type, int to, int tag) {
    check(MPI_Send(in, count, type, to, tag, group_.handle));
  }
  void recv(void* out, int count, MPI_Datatype type, int from, int tag) {
    MPI_Status status;
    check(MPI_Recv(out, count, type, from, tag, group_.handle, &status));
    group_.check_length(call_, status);
  }
};

/// Begins calls and leaves their requests. Throws RuntimeFailure.
class Started : Caller {
 public:
  Started(MpiGroup& group, const comm::Call& call, std::vector<MPI_Request>& requests)
      : Caller(group, call), requests_(requests) {}

  void all_reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op) {
    check(MPI_Iallreduce(in, out, count, type, op, group_.handle, next()));
  }
  void reduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, int root) {
    check(MPI_Ireduce(in, out, count, type, op, root, group_.handle, next()));
  }
  void reduce_scatter(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op) {
    check(MPI_Ireduce_scatter_block(in, out, count, type, op, group_.handle, next()));
  }
  void broadcast(void* data, int count, MPI_Datatype type, int root) {
    check(MPI_Ibcast(data, count, type, root, group_.handle, next()));
  }
  void all_gather(const void* in, void* out, int count, MPI_Datatype type) {
    check(MPI_Iallgather(in, count, type, out, count, type, group_.handle, next()));
  }
  void all_to_all(const void* in, void* out, int count, MPI_Datatype type) {
    check(MPI_Ialltoall(in, count, type, out, count, type, group_.handle, next()));
  }
  void gather(const void* in, void* out, int count, MPI_Datatype type, int root) {
    check(MPI_Igather(in, count, type, out, count, type, root, group_.handle, next()));
  }
  void scatter(const void* in, void* out, int count, MPI_Datatype type, int root) {
    check(MPI_Iscatter(in, count, type, out, count, type, root, group_.handle, next()));
  }
  void barrier() { check(MPI_Ibarrier(group_.handle, next())); }
  void send(const void* in, int count, MPI_Datatype type, int to, int tag) {
    check(MPI_Isend(in, count, type, to, tag, group_.handle, next()));
  }
  void recv(void* out, int count, MPI_Datatype type, int from, int tag) {
    check(MPI_Irecv(out, count, type, from, tag, group_.handle, next()));
  }

 private:
  MPI_Request* next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }
  std::vector<MPI_Request>& requests_;
};

/// Calls each(in, out, count) for the segments of a reduction; once where there is nothing to reduce. Null
/// stays null, and `in` is MPI_IN_PLACE throughout where it is so.
template <class Each>
[[gnu::always_inline]] inline void for_each_segment(const comm::Call& call, const void* in, void* out,
                                                    std::int64_t segment, const Each& each) {
  const std::int64_t total = call.in.count;
  if (total <= segment) return each(in, out, static_cast<int>(total));
  const std::size_t bytes = size_of(call.in.dtype);
  for (std::int64_t done = 0; done < total; done += segment) {
    const auto offset = static_cast<std::size_t>(done) * bytes;
    each(in == MPI_IN_PLACE ? in : static_cast<const std::byte*>(in) + offset,
         out == nullptr ? out : static_cast<std::byte*>(out) + offset,
         static_cast<int>(std::min(segment, total - done)));
  }
}

template <class Mpi>
void issue_reduction(Mpi& mpi, const MpiGroup& group, const comm::Call& call) {
  using comm::Operation;
  const MPI_Datatype type = type_of(call.in.dtype);
  const MPI_Op op = group.runtime->op(call.in.dtype, call.op);
  const std::int64_t segment = group.segment_elements;
  const void* in = call.in.data;
  void* out = call.out.data;
  if (call.operation == Operation::all_reduce)
    return for_each_segment(call, in == out ? MPI_IN_PLACE : in, out, segment,
                            [&](const void* from, void* to, int count) { mpi.all_reduce(from, to, count, type, op); });
  if (call.operation == Operation::reduce) {
    const bool is_root = group.rank == call.root;
    return for_each_segment(
        call, is_root && in == out ? MPI_IN_PLACE : in, is_root ? out : nullptr, segment,
        [&](const void* from, void* to, int count) { mpi.reduce(from, to, count, type, op, call.root); });
  }
  if (call.in.count <= segment) return mpi.reduce_scatter(in, out, static_cast<int>(call.out.count), type, op);
  // The blocks of a segment would not lie together: each block is reduced to its rank instead.
  comm::Call part = call;
  part.operation = Operation::reduce;
  part.in.count = call.out.count;
  for (part.root = 0; part.root < group.size; ++part.root) {
    issue_reduction(mpi, group, part);
    part.in.data = static_cast<const std::byte*>(part.in.data) + call.out.bytes();
  }
}

/// Makes a validated and, where that is needed, staged call.
template <class Mpi>
void issue(Mpi& mpi, const MpiGroup& group, const comm::Call& call) {
  using comm::Operation;
  if (is_reduction(call.operation)) return issue_reduction(mpi, group, call);
  if (call.operation == Operation::barrier) return mpi.barrier();
  const void* in = call.in.data;
  void* out = call.out.data;
  const bool is_root = group.rank == call.root;
  const bool is_whole = call.operation == Operation::broadcast || is_point_to_point(call.operation);
  const BlockType block(type_of(call.dtype()), size_of(call.dtype()), call.elements(group.size),
                        is_whole ? 1 : group.size, group.segment_elements);
  const auto own_block_of = [&](const void* buffer) {
    return static_cast<const std::byte*>(buffer) + call.bytes(group.size) * static_cast<std::size_t>(group.rank);
  };
  switch (call.operation) {
    case Operation::broadcast:
      return mpi.broadcast(out, block.count(), block.type(), call.root);
    case Operation::all_gather:
      return mpi.all_gather(in == own_block_of(out) ? MPI_IN_PLACE : in, out, block.count(), block.type());
    case Operation::all_to_all:
      return mpi.all_to_all(in == out ? MPI_IN_PLACE : in, out, block.count(), block.type());
    case Operation::gather:
      if (is_root && in == own_block_of(out)) in = MPI_IN_PLACE;
      return mpi.gather(in, out, block.count(), block.type(), call.root);
    case Operation::scatter:
      if (is_root && out == own_block_of(in)) out = MPI_IN_PLACE;
      return mpi.scatter(in, out, block.count(), block.type(), call.root);
    case Operation::send:
      return mpi.send(in, block.count(), block.type(), call.root, call.tag);
    default:
      return mpi.recv(out, block.count(), block.type(), call.root, call.tag);
  }
}

}  // namespace plumbline::subject::mpi

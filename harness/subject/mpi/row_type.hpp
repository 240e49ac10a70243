// harness/subject/mpi/row_type.hpp: elements in rows with gaps between them as a datatype of MPI.
#pragma once

#include <mpi.h>

#include "reference/comm/call.hpp"

namespace plumbline::subject::mpi {

/// A block of a view as one element of a type: whole rows, or elements without gaps. Its extent is the distance to the
/// next block. It may be given back once the call is posted.
/// Source: MPI-3.1 sections 4.1.2 (MPI_Type_create_hvector) and 4.1.7 (MPI_Type_create_resized).
class RowType {
 public:
  /// Whether the blocks of `elements` of a view end where rows do, and MPI can count them.
  [[nodiscard]] static bool can_describe(comm::Rows rows, std::int64_t elements, std::int64_t count);
  /// Of a block for which that is so. Throws RuntimeFailure.
  RowType(comm::DType dtype, comm::Rows rows, std::int64_t elements, std::int64_t count);
  ~RowType() { MPI_Type_free(&type_); }
  RowType(const RowType&) = delete;
  RowType& operator=(const RowType&) = delete;

  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace plumbline::subject::mpi

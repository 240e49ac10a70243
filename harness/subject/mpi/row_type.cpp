#include "harness/subject/mpi/row_type.hpp"

#include <limits>

#include "harness/subject/mpi/errors.hpp"
#include "harness/subject/mpi/group.hpp"

namespace plumbline::subject::mpi {
namespace {

// A view without gaps is one of rows as long as a block.
comm::Rows rows_of_block(comm::Rows rows, std::int64_t elements, std::int64_t count) {
  return is_contiguous(rows, count) ? comm::Rows{elements, elements} : rows;
}

}  // namespace

bool RowType::can_describe(comm::Rows rows, std::int64_t elements, std::int64_t count) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const comm::Rows in_block = rows_of_block(rows, elements, count);
  return elements > 0 && elements % in_block.columns == 0 && in_block.columns <= kMost &&
         elements / in_block.columns <= kMost;
}

RowType::RowType(comm::DType dtype, comm::Rows rows, std::int64_t elements, std::int64_t count) {
  const auto [columns, stride] = rows_of_block(rows, elements, count);
  const MPI_Aint row_bytes = static_cast<MPI_Aint>(stride) * static_cast<MPI_Aint>(size_of(dtype));
  const auto row_count = static_cast<int>(elements / columns);
  MPI_Datatype vector = MPI_DATATYPE_NULL;
  check(MPI_Type_create_hvector(row_count, static_cast<int>(columns), row_bytes, type_of(dtype), &vector),
        "MPI_Type_create_hvector");
  const int code = MPI_Type_create_resized(vector, 0, row_count * row_bytes, &type_);
  MPI_Type_free(&vector);
  check(code, "MPI_Type_create_resized");
  check(MPI_Type_commit(&type_), "MPI_Type_commit");
}

}  // namespace plumbline::subject::mpi

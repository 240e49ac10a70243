#include "harness/subject/mpi/block_type.hpp"

#include <limits>

#include <fmt/format.h>

#include "harness/subject/mpi/errors.hpp"

namespace plumbline::subject::mpi {

// Whole segments, and after them what is left: a struct, since a count of one type cannot say both.
void BlockType::make(std::size_t element_bytes, std::int64_t count, std::int64_t segment) {
  if (count / segment > std::numeric_limits<int>::max())
    throw Unsupported(fmt::format("backend mpi: {} elements are too many for segments of {}", count, segment));
  const auto whole = static_cast<int>(count / segment);
  const MPI_Aint after = static_cast<MPI_Aint>(whole) * segment * static_cast<MPI_Aint>(element_bytes);
  const int lengths[] = {whole, static_cast<int>(count % segment)};
  const MPI_Aint places[] = {0, after};
  MPI_Datatype part = MPI_DATATYPE_NULL;
  check(MPI_Type_contiguous(static_cast<int>(segment), type_, &part), "MPI_Type_contiguous");
  const MPI_Datatype types[] = {part, type_};
  const int code = MPI_Type_create_struct(2, lengths, places, types, &type_);
  MPI_Type_free(&part);
  check(code, "MPI_Type_create_struct");
  made_ = true;
  check(MPI_Type_commit(&type_), "MPI_Type_commit");
  count_ = 1;
}

}  // namespace plumbline::subject::mpi

#include "harness/subject/mpi/memory.hpp"

#include <cstdint>
#include <limits>

#include <fmt/format.h>
#include <mpi.h>

#include "harness/subject/mpi/errors.hpp"

namespace plumbline::subject::mpi {

OwnMemory::~OwnMemory() {
  for (const auto& [memory, base] : given_out_) MPI_Free_mem(base);
}

// MPI-3.1 says nothing of alignment; MPI 4 has a hint for it, which a library may leave aside.
void* OwnMemory::allocate(std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  void* base = nullptr;
  if (bytes > static_cast<std::size_t>(std::numeric_limits<MPI_Aint>::max()) - kLine)
    throw RuntimeFailure(fmt::format("allocate({}): there is no memory left", bytes));
  if (const int code = MPI_Alloc_mem(static_cast<MPI_Aint>(bytes + kLine), MPI_INFO_NULL, &base); code != MPI_SUCCESS)
    throw RuntimeFailure(fmt::format("allocate({}): MPI_Alloc_mem: {}", bytes, text_of_error(code)));
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(base) % kLine;
  void* const memory = static_cast<std::byte*>(base) + (beyond == 0 ? 0 : kLine - beyond);
  given_out_.emplace(memory, base);
  return memory;
}

void OwnMemory::deallocate(void* memory) {
  const auto found = given_out_.find(memory);
  if (found == given_out_.end())
    throw InvalidArgument(fmt::format("deallocate({}): this communicator did not give it out", memory));
  void* const base = found->second;
  given_out_.erase(found);
  if (const int code = MPI_Free_mem(base); code != MPI_SUCCESS)
    throw RuntimeFailure(fmt::format("deallocate: MPI_Free_mem: {}", text_of_error(code)));
}

}  // namespace plumbline::subject::mpi

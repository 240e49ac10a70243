// harness/subject/mpi/memory.hpp: memory that MPI gives out.
#pragma once

#include <cstddef>
#include <map>

namespace plumbline::subject::mpi {

/// One thread at a time. What was not given back goes with it.
class OwnMemory {
 public:
  OwnMemory() = default;
  ~OwnMemory();
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;

  /// MPI_Alloc_mem, aligned for every dtype. Throws RuntimeFailure.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// MPI_Free_mem. Throws InvalidArgument for what allocate() did not return, or was given back.
  void deallocate(void* memory);

 private:
  std::map<void*, void*> given_out_;  // what MPI returned for it
};

}  // namespace plumbline::subject::mpi

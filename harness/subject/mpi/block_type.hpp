// harness/subject/mpi/block_type.hpp: how a block of elements is told to MPI, which counts in int.
#pragma once

#include <cstddef>
#include <cstdint>

#include <mpi.h>

namespace plumbline::subject::mpi {

/// `count` elements as MPI's count and type. MPI multiplies the count with the `parts` of a larger buffer;
/// where that passes `segment`, the block is one element of a type made for it, which may be given back once
/// the call is posted.
class BlockType {
 public:
  /// Throws RuntimeFailure, and Unsupported for a block of more than 2^31-1 segments.
  BlockType(MPI_Datatype element, std::size_t element_bytes, std::int64_t count, int parts, std::int64_t segment)
      : type_(element), count_(static_cast<int>(count)) {
    if (count * parts > segment) [[unlikely]]
      make(element_bytes, count, segment);
  }
  ~BlockType() {
    if (made_) [[unlikely]]
      MPI_Type_free(&type_);
  }
  BlockType(const BlockType&) = delete;
  BlockType& operator=(const BlockType&) = delete;

  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  void make(std::size_t element_bytes, std::int64_t count, std::int64_t segment);

  MPI_Datatype type_;
  int count_;
  bool made_ = false;
};

}  // namespace plumbline::subject::mpi

// harness/subject/mpi/arithmetic.hpp: element types and reductions in MPI's terms.
//
// Model   Halves travel as MPI_UINT16_T and formats of 8 bits as MPI_UINT8_T, predefined types, and are folded by
//         operations of ours, which round at each addition. bool is MPI_C_BOOL, with MPI_LAND and MPI_LOR.
//         Complex numbers are MPI_C_FLOAT_COMPLEX and MPI_C_DOUBLE_COMPLEX.
//         Of the others, MPI's own operations are used, except where they are not what communicator.hpp says:
//         - min and max of f32 and f64: MPI_MIN and MPI_MAX compare with `<`, so NaN and the sign of zero
//           depend on the order of the operands, and with it on the rank;
//         - sum and product of u8: Open MPI 4.1 adds bytes with saturation where it has vector
//           instructions.
// Source  MPI-3.1 section 5.9; the loops are those of the local backend (reference/comm/kernels.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <mpi.h>

#include "reference/comm/dtype.hpp"

namespace plumbline::subject::mpi {

/// The MPI type of one element.
[[nodiscard]] MPI_Datatype type_of(comm::DType dtype);

/// The MPI operations by dtype and op. They live from create(), after MPI_Init, to free(), before
/// MPI_Finalize.
class Reductions {
 public:
  /// Throws RuntimeFailure.
  void create();
  void free() noexcept;
  /// MPI_OP_NULL for avg, which is a sum and a step afterwards (staging.hpp).
  [[nodiscard]] MPI_Op of(comm::DType dtype, comm::ReduceOp op) const {
    return table_[static_cast<std::size_t>(dtype)][static_cast<std::size_t>(op)];
  }

 private:
  std::array<std::array<MPI_Op, comm::kAllReduceOps.size()>, comm::kDTypeCount> table_{};
  std::vector<MPI_Op> own_;
};

// The steps around an average. No pointer need be aligned.
/// to[i] = from[i] of a format of 16 or 8 bits.
void widen(comm::DType narrow, const std::byte* from, float* to, std::size_t count);
/// to[i] = from[i] / ranks, rounded once to the narrow format.
void narrow_mean(comm::DType narrow, const float* from, int ranks, std::byte* to, std::size_t count);
/// data[i] = data[i] / ranks; f32, f64, c64 or c128.
void divide(comm::DType dtype, std::byte* data, int ranks, std::size_t count);

}  // namespace plumbline::subject::mpi

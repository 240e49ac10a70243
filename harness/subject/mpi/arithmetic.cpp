#include "harness/subject/mpi/arithmetic.hpp"

#include <cstring>
#include <type_traits>

#include "harness/subject/mpi/errors.hpp"
#include "reference/comm/dtype.hpp"
#include "reference/comm/kernels.hpp"

namespace plumbline::subject::mpi {

using comm::BFloat16;
using comm::DType;
using comm::Float16;
using comm::Float8E4M3;
using comm::Float8E5M2;
using comm::ReduceOp;

namespace {

// MPI's signature has no place for a context, so each pair of dtype and op is a function of its own.
template <DType dtype, ReduceOp op>
void fold(void* in, void* inout, int* count, MPI_Datatype*) {
  const std::array inputs{static_cast<const std::byte*>(in), static_cast<const std::byte*>(inout)};
  const std::array outputs{static_cast<std::byte*>(inout)};
  comm::local::kernels().reduction(
      dtype, op)({.inputs = inputs, .outputs = outputs, .begin = 0, .count = static_cast<std::size_t>(*count)});
}

struct OwnReduction {
  DType dtype;
  ReduceOp op;
  MPI_User_function* function;
};

template <DType dtype, ReduceOp op>
constexpr OwnReduction own() {
  return {dtype, op, fold<dtype, op>};
}

constexpr std::array kOwnReductions{own<DType::f16, ReduceOp::sum>(),     own<DType::f16, ReduceOp::min>(),
                                    own<DType::f16, ReduceOp::max>(),     own<DType::f16, ReduceOp::product>(),
                                    own<DType::bf16, ReduceOp::sum>(),    own<DType::bf16, ReduceOp::min>(),
                                    own<DType::bf16, ReduceOp::max>(),    own<DType::bf16, ReduceOp::product>(),
                                    own<DType::f32, ReduceOp::min>(),     own<DType::f32, ReduceOp::max>(),
                                    own<DType::f64, ReduceOp::min>(),     own<DType::f64, ReduceOp::max>(),
                                    own<DType::u8, ReduceOp::sum>(),      own<DType::u8, ReduceOp::product>(),
                                    own<DType::f8_e4m3, ReduceOp::sum>(), own<DType::f8_e4m3, ReduceOp::min>(),
                                    own<DType::f8_e4m3, ReduceOp::max>(), own<DType::f8_e4m3, ReduceOp::product>(),
                                    own<DType::f8_e5m2, ReduceOp::sum>(), own<DType::f8_e5m2, ReduceOp::min>(),
                                    own<DType::f8_e5m2, ReduceOp::max>(), own<DType::f8_e5m2, ReduceOp::product>()};

template <class T>
T load(const std::byte* from, std::size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof value, sizeof value);
  return value;
}

template <class T>
void store(std::byte* to, std::size_t index, T value) {
  std::memcpy(to + index * sizeof value, &value, sizeof value);
}

template <class T>
void divide_all(std::byte* data, int ranks, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) store<T>(data, i, load<T>(data, i) / static_cast<T>(ranks));
}

template <class Narrow>
Narrow narrowed(float value) {
  if constexpr (std::is_same_v<Narrow, Float16>) return comm::to_float16(value);
  if constexpr (std::is_same_v<Narrow, BFloat16>) return comm::to_bfloat16(value);
  if constexpr (std::is_same_v<Narrow, Float8E4M3>) return comm::to_float8_e4m3(value);
  if constexpr (std::is_same_v<Narrow, Float8E5M2>) return comm::to_float8_e5m2(value);
}

void with_narrow(DType dtype, const auto& body) {
  if (dtype == DType::f16) return body(Float16{});
  if (dtype == DType::bf16) return body(BFloat16{});
  if (dtype == DType::f8_e4m3) return body(Float8E4M3{});
  body(Float8E5M2{});
}

}  // namespace

MPI_Datatype type_of(DType dtype) {
  static const std::array<MPI_Datatype, comm::kDTypeCount> types{
      MPI_UINT16_T, MPI_UINT16_T, MPI_FLOAT,   MPI_DOUBLE,  MPI_INT32_T,         MPI_INT64_T,
      MPI_UINT8_T,  MPI_C_BOOL,   MPI_UINT8_T, MPI_UINT8_T, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX};
  return types[static_cast<std::size_t>(dtype)];
}

void Reductions::create() {
  constexpr bool commutes = true;
  for (auto& row : table_) row = {MPI_SUM, MPI_OP_NULL, MPI_MIN, MPI_MAX, MPI_PROD};
  table_[static_cast<std::size_t>(DType::boolean)] = {MPI_OP_NULL, MPI_OP_NULL, MPI_LAND, MPI_LOR, MPI_OP_NULL};
  for (const DType dtype : {DType::c64, DType::c128})
    table_[static_cast<std::size_t>(dtype)] = {MPI_SUM, MPI_OP_NULL, MPI_OP_NULL, MPI_OP_NULL, MPI_PROD};
  for (const OwnReduction& reduction : kOwnReductions) {
    MPI_Op& place = table_[static_cast<std::size_t>(reduction.dtype)][static_cast<std::size_t>(reduction.op)];
    check(MPI_Op_create(reduction.function, commutes, &place), "MPI_Op_create");
    own_.push_back(place);
  }
}

void Reductions::free() noexcept {
  for (MPI_Op& op : own_) MPI_Op_free(&op);
  own_.clear();
}

void widen(DType narrow, const std::byte* from, float* to, std::size_t count) {
  with_narrow(narrow, [&]<class Narrow>(Narrow) {
    for (std::size_t i = 0; i < count; ++i) to[i] = comm::to_float(load<Narrow>(from, i));
  });
}

void narrow_mean(DType narrow, const float* from, int ranks, std::byte* to, std::size_t count) {
  const auto divisor = static_cast<float>(ranks);
  with_narrow(narrow, [&]<class Narrow>(Narrow) {
    for (std::size_t i = 0; i < count; ++i) store(to, i, narrowed<Narrow>(from[i] / divisor));
  });
}

void divide(DType dtype, std::byte* data, int ranks, std::size_t count) {
  count *= static_cast<std::size_t>(components_of(dtype));
  if (component_of(dtype) == DType::f32)
    divide_all<float>(data, ranks, count);
  else
    divide_all<double>(data, ranks, count);
}

}  // namespace plumbline::subject::mpi

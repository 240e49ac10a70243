#include "reference/gossip/tensor_kernels.hpp"

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/comm/half.hpp"

namespace plumbline::gossip {

using comm::Buffer;
using comm::ConstBuffer;
using comm::DType;

namespace {

// How a stored value is computed with.
template <class T>
struct Arithmetic {
  using Wide = T;
  static T widen(T value) { return value; }
  static T narrow(T value) { return value; }
};
template <>
struct Arithmetic<comm::Float16> {
  using Wide = float;
  static float widen(comm::Float16 value) { return comm::to_float(value); }
  static comm::Float16 narrow(float value) { return comm::to_float16(value); }
};
template <>
struct Arithmetic<comm::BFloat16> {
  using Wide = float;
  static float widen(comm::BFloat16 value) { return comm::to_float(value); }
  static comm::BFloat16 narrow(float value) { return comm::to_bfloat16(value); }
};

template <class Visit>
void with_type(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f16:
      return visit(comm::Float16());
    case DType::bf16:
      return visit(comm::BFloat16());
    case DType::f32:
      return visit(float());
    case DType::f64:
      return visit(double());
    default:
      throw Unsupported(fmt::format("gossip of {}; only floating types have a mean", comm::name_of(dtype)));
  }
}

}  // namespace

void scale(Buffer x, double factor) { scaled_copy(x, x, factor); }

void scaled_copy(ConstBuffer x, Buffer out, double factor) {
  with_type(x.dtype, [&]<class T>(T) {
    using Kind = Arithmetic<T>;
    const auto by = static_cast<typename Kind::Wide>(factor);
    const auto* from = static_cast<const T*>(x.data);
    auto* to = static_cast<T*>(out.data);
    for (std::int64_t i = 0; i < x.count; ++i) to[i] = Kind::narrow(Kind::widen(from[i]) * by);
  });
}

void add(Buffer x, ConstBuffer other) {
  with_type(x.dtype, [&]<class T>(T) {
    using Kind = Arithmetic<T>;
    auto* to = static_cast<T*>(x.data);
    const auto* from = static_cast<const T*>(other.data);
    for (std::int64_t i = 0; i < x.count; ++i) to[i] = Kind::narrow(Kind::widen(to[i]) + Kind::widen(from[i]));
  });
}

void add_and_scale(Buffer x, ConstBuffer other, double factor) {
  with_type(x.dtype, [&]<class T>(T) {
    using Kind = Arithmetic<T>;
    const auto by = static_cast<typename Kind::Wide>(factor);
    auto* to = static_cast<T*>(x.data);
    const auto* from = static_cast<const T*>(other.data);
    for (std::int64_t i = 0; i < x.count; ++i) {
      const T sum = Kind::narrow(Kind::widen(to[i]) + Kind::widen(from[i]));
      to[i] = Kind::narrow(Kind::widen(sum) * by);
    }
  });
}

void divide(Buffer x, double divisor) {
  with_type(x.dtype, [&]<class T>(T) {
    using Kind = Arithmetic<T>;
    const auto by = static_cast<typename Kind::Wide>(divisor);
    auto* to = static_cast<T*>(x.data);
    for (std::int64_t i = 0; i < x.count; ++i) to[i] = Kind::narrow(Kind::widen(to[i]) / by);
  });
}

}  // namespace plumbline::gossip

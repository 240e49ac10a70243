#include "reference/gossip/tensor_kernels.hpp"

#include "reference/gossip/element_types.hpp"

namespace plumbline::gossip {

using comm::Buffer;
using comm::ConstBuffer;

void scale(Buffer x, double factor) { scaled_copy(x, x, factor); }

void scaled_copy(ConstBuffer x, Buffer out, double factor) {
  with_type(x.dtype, [&]<class T>(T) {
    const auto by = static_cast<Wide<T>>(factor);
    const auto* from = static_cast<const T*>(x.data);
    auto* to = static_cast<T*>(out.data);
    for (std::int64_t i = 0; i < x.count; ++i) to[i] = narrowed<T>(widened(from[i]) * by);
  });
}

void add(Buffer x, ConstBuffer other) {
  with_type(x.dtype, [&]<class T>(T) {
    auto* to = static_cast<T*>(x.data);
    const auto* from = static_cast<const T*>(other.data);
    for (std::int64_t i = 0; i < x.count; ++i) to[i] = narrowed<T>(widened(to[i]) + widened(from[i]));
  });
}

void add_and_scale(Buffer x, ConstBuffer other, double factor) {
  with_type(x.dtype, [&]<class T>(T) {
    const auto by = static_cast<Wide<T>>(factor);
    auto* to = static_cast<T*>(x.data);
    const auto* from = static_cast<const T*>(other.data);
    for (std::int64_t i = 0; i < x.count; ++i) {
      const T sum = narrowed<T>(widened(to[i]) + widened(from[i]));
      to[i] = narrowed<T>(widened(sum) * by);
    }
  });
}

void divide(Buffer x, double divisor) {
  with_type(x.dtype, [&]<class T>(T) {
    const auto by = static_cast<Wide<T>>(divisor);
    auto* to = static_cast<T*>(x.data);
    for (std::int64_t i = 0; i < x.count; ++i) to[i] = narrowed<T>(widened(to[i]) / by);
  });
}

}  // namespace plumbline::gossip

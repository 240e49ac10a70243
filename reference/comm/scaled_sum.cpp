// A sum with factors as a plain sum of products.
#include "reference/comm/call.hpp"

namespace plumbline::comm {
namespace {

template <class T, class Product>
std::vector<Product> products_of(ConstBuffer in, double factor) {
  const auto* const from = static_cast<const T*>(in.data);
  std::vector<Product> products(static_cast<std::size_t>(in.count));
  for (std::size_t i = 0; i < products.size(); ++i) {
    if constexpr (std::is_floating_point_v<T>)
      products[i] = static_cast<T>(factor) * from[i];
    else
      products[i] = static_cast<float>(factor) * to_float(from[i]);
  }
  return products;
}

template <class T>
void round_into(Buffer out, const std::vector<float>& sums) {
  auto* const to = static_cast<T*>(out.data);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if constexpr (std::is_same_v<T, Float16>)
      to[i] = to_float16(sums[i]);
    else
      to[i] = to_bfloat16(sums[i]);
  }
}

}  // namespace

ScaledSum::ScaledSum(const Call& call, double factor, int rank) : call_(call), plain_(call) {
  switch (call.dtype()) {
    case DType::f16:
      products_ = products_of<Float16, float>(call.in, factor);
      break;
    case DType::bf16:
      products_ = products_of<BFloat16, float>(call.in, factor);
      break;
    case DType::f32:
      products_ = products_of<float, float>(call.in, factor);
      break;
    default:
      wide_ = products_of<double, double>(call.in, factor);
  }
  plain_.in = call.dtype() == DType::f64 ? ConstBuffer::of(wide_) : ConstBuffer::of(products_);
  if (call.dtype() == DType::f32 || call.dtype() == DType::f64) return;
  is_rounded_ = call.uses_out(rank);
  if (is_rounded_) sums_.resize(static_cast<std::size_t>(call.out.count));
  plain_.out = Buffer::of(sums_);
}

void ScaledSum::finish() const {
  if (!is_rounded_) return;
  if (call_.dtype() == DType::f16)
    round_into<Float16>(call_.out, sums_);
  else
    round_into<BFloat16>(call_.out, sums_);
}

}  // namespace plumbline::comm

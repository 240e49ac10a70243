#include "reference/comm/ring_sum.hpp"

#include <fmt/format.h>

#include "reference/comm/errors.hpp"

namespace plumbline::comm {
namespace {

float widen(Float16 value) { return to_float(value); }
float widen(BFloat16 value) { return to_float(value); }
float widen(float value) { return value; }
double widen(double value) { return value; }

template <class T, class Wide>
T narrow(Wide value) {
  if constexpr (std::is_same_v<T, Float16>)
    return to_float16(value);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else
    return value;
}

// The number of elements that every rank gives.
template <class T>
std::size_t common_length(const char* function, RankInputs<T> inputs) {
  if (inputs.empty()) throw InvalidArgument(fmt::format("{}: no ranks; there must be at least one", function));
  for (std::size_t rank = 1; rank < inputs.size(); ++rank)
    if (inputs[rank].size() != inputs[0].size())
      throw InvalidArgument(fmt::format("{}: rank {} gives {} elements, rank 0 gives {}; all must give the same number",
                                        function, rank, inputs[rank].size(), inputs[0].size()));
  return inputs[0].size();
}

}  // namespace

template <class T>
std::vector<T> ring_sum(RankInputs<T> inputs) {
  const std::size_t elements = common_length<T>("ring_sum", inputs);
  const std::size_t ranks = inputs.size();
  const std::size_t limit = (std::size_t{2} << 20) * ranks / sizeof(T);
  if (elements > limit)
    throw Unsupported(
        fmt::format("ring_sum: {} elements of {} bytes on {} ranks; gloo's chunks are known up to {} elements",
                    elements, sizeof(T), ranks, limit));
  const auto chunk_length =
      static_cast<std::size_t>(ring_chunk(static_cast<std::int64_t>(elements), static_cast<std::int64_t>(ranks)));
  std::vector<T> output(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    const std::size_t chunk = i / chunk_length;
    T sum = inputs[(chunk + ranks - 1) % ranks][i];
    for (std::size_t step = 2; step <= ranks; ++step)
      sum = narrow<T>(widen(sum) + widen(inputs[(chunk + ranks - step) % ranks][i]));
    output[i] = sum;
  }
  return output;
}

template <class T>
std::vector<T> rank_order_sum(RankInputs<T> inputs) {
  std::vector<T> output(common_length<T>("rank_order_sum", inputs));
  for (std::size_t i = 0; i < output.size(); ++i) {
    auto sum = widen(inputs[0][i]);
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) sum += widen(inputs[rank][i]);
    output[i] = narrow<T>(sum);
  }
  return output;
}

template std::vector<Float16> ring_sum(RankInputs<Float16>);
template std::vector<BFloat16> ring_sum(RankInputs<BFloat16>);
template std::vector<float> ring_sum(RankInputs<float>);
template std::vector<double> ring_sum(RankInputs<double>);
template std::vector<Float16> rank_order_sum(RankInputs<Float16>);
template std::vector<BFloat16> rank_order_sum(RankInputs<BFloat16>);
template std::vector<float> rank_order_sum(RankInputs<float>);
template std::vector<double> rank_order_sum(RankInputs<double>);

}  // namespace plumbline::comm

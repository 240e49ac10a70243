// reference/device/detail/fold_chunk.hpp: what one thread of a block does of a FoldTable's chunk, written once for both
// sides.
//
// Model   A chunk is cut into a head up to the first boundary of 16 bytes, whole vectors, and a tail. Threads take
//         vectors in turn, so that neighbours read neighbours, four at once to keep as many reads under way as the
//         memory needs.
#pragma once

#include <cstdint>

#include "reference/device/elementwise.hpp"
#include "reference/device/fold.hpp"

namespace plumbline::device {

template <class T>
PLUMBLINE_HOST_DEVICE inline bool has_sign(T value) {
  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t> bits;
  memcpy(&bits, &value, sizeof bits);
  return bits >> (8 * sizeof bits - 1) != 0;
}

/// One more input. min and max are IEEE 754-2019 minimum and maximum: NaN goes through, -0 < +0.
template <comm::ReduceOp op, class Acc>
PLUMBLINE_HOST_DEVICE inline Acc folded(Acc a, Acc b) {
  constexpr bool floating = std::is_floating_point_v<Acc>;
  if constexpr (op == comm::ReduceOp::product) {
    return static_cast<Acc>(a * b);
  } else if constexpr (op == comm::ReduceOp::min || op == comm::ReduceOp::max) {
    constexpr bool least = op == comm::ReduceOp::min;
    if constexpr (floating) {
      if (a != a) return a;
      if (b != b) return b;
      if (a == b) return has_sign(a) == least ? a : b;
    }
    return (a < b) == least ? a : b;
  } else {
    return static_cast<Acc>(a + b);
  }
}

/// A part of one segment: where it begins in inputs and outputs, in elements.
struct FoldPart {
  std::int64_t in_inputs, in_outputs, count;
  std::int32_t first_output, outputs;
};

template <class T, comm::ReduceOp op>
struct Folding {
  using Acc = decltype(widened(T{}));
  static constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));
  static constexpr int kAtOnce = 4;

  PLUMBLINE_HOST_DEVICE static const T* input(const FoldTable& table, std::int32_t i, std::int64_t at) {
    return reinterpret_cast<const T*>(table.input[i]) + at;
  }
  PLUMBLINE_HOST_DEVICE static T* output(const FoldTable& table, std::int32_t i, std::int64_t at) {
    return reinterpret_cast<T*>(table.output[i]) + at;
  }
  PLUMBLINE_HOST_DEVICE static Acc ended(const FoldTable& table, Acc value) {
    if constexpr (op == comm::ReduceOp::avg) return value / static_cast<Acc>(table.inputs);
    return value;
  }

  PLUMBLINE_HOST_DEVICE static void one(const FoldTable& table, const FoldPart& part, std::int64_t i) {
    Acc value = widened(*input(table, 0, part.in_inputs + i));
    for (std::int32_t k = 1; k < table.inputs; ++k)
      value = folded<op, Acc>(value, widened(*input(table, k, part.in_inputs + i)));
    const T result = narrowed<T>(ended(table, value));
    for (std::int32_t o = 0; o < part.outputs; ++o) *output(table, part.first_output + o, part.in_outputs + i) = result;
  }

  // `at_once` vectors, `step` elements apart, of which the first begins at element i.
  template <int at_once>
  PLUMBLINE_HOST_DEVICE static void vectors(const FoldTable& table, const FoldPart& part, std::int64_t i,
                                            std::int64_t step) {
    using Read = Vector<T>;
    Acc value[at_once][kWidth];
    const T* from = input(table, 0, part.in_inputs + i);
    Read read[at_once];
    for (int u = 0; u < at_once; ++u) read[u] = *reinterpret_cast<const Read*>(from + u * step);
    for (int u = 0; u < at_once; ++u)
      for (int lane = 0; lane < kWidth; ++lane) value[u][lane] = widened(read[u].value[lane]);
    for (std::int32_t k = 1; k < table.inputs; ++k) {
      from = input(table, k, part.in_inputs + i);
      for (int u = 0; u < at_once; ++u) read[u] = *reinterpret_cast<const Read*>(from + u * step);
      for (int u = 0; u < at_once; ++u)
        for (int lane = 0; lane < kWidth; ++lane)
          value[u][lane] = folded<op, Acc>(value[u][lane], widened(read[u].value[lane]));
    }
    for (int u = 0; u < at_once; ++u)
      for (int lane = 0; lane < kWidth; ++lane) read[u].value[lane] = narrowed<T>(ended(table, value[u][lane]));
    for (std::int32_t o = 0; o < part.outputs; ++o) {
      T* to = output(table, part.first_output + o, part.in_outputs + i);
      for (int u = 0; u < at_once; ++u) *reinterpret_cast<Read*>(to + u * step) = read[u];
    }
  }

  // Elements before the first from which all addresses are at a boundary; all of them where there is none.
  PLUMBLINE_HOST_DEVICE static std::int64_t head(const FoldTable& table, const FoldPart& part) {
    const auto shift = [](std::int64_t base, std::int64_t elements) {
      return static_cast<int>((base + elements * static_cast<std::int64_t>(sizeof(T))) % kVectorBytes);
    };
    const std::int64_t out = table.scattered
                                 ? static_cast<std::int64_t>(
                                       reinterpret_cast<std::uintptr_t>(table.output[part.first_output]) % kVectorBytes)
                                 : table.output_shift;
    const int in = shift(table.input_shift, part.in_inputs);
    if (table.input_shift < 0 || out < 0 || shift(out, part.in_outputs) != in) return part.count;
    const std::int64_t elements = (kVectorBytes - in) % kVectorBytes / static_cast<int>(sizeof(T));
    return elements < part.count ? elements : part.count;
  }

  /// This thread's share of a chunk.
  PLUMBLINE_HOST_DEVICE static void chunk(const FoldTable& table, std::int64_t chunk, int thread, int threads) {
    constexpr std::int64_t length = kFoldChunkBytes / static_cast<std::int64_t>(sizeof(T));
    const std::int64_t of_segment = (table.count + length - 1) / length;
    const auto segment = static_cast<std::int32_t>(chunk / of_segment);
    const std::int64_t within = chunk % of_segment * length;
    FoldPart part{.in_inputs = table.first + within,
                  .in_outputs = table.first + within,
                  .count = table.count - within < length ? table.count - within : length,
                  .first_output = 0,
                  .outputs = table.outputs};
    if (table.scattered) {
      part.in_inputs += table.segment[segment] * table.stride;
      part.first_output = segment;
      part.outputs = 1;
    }
    const std::int64_t before = head(table, part), vectors_of_part = (part.count - before) / kWidth;
    const std::int64_t step = static_cast<std::int64_t>(threads) * kWidth;
    std::int64_t v = thread;
    for (; v + (kAtOnce - 1) * static_cast<std::int64_t>(threads) < vectors_of_part;
         v += kAtOnce * static_cast<std::int64_t>(threads))
      vectors<kAtOnce>(table, part, before + v * kWidth, step);
    for (; v < vectors_of_part; v += threads) vectors<1>(table, part, before + v * kWidth, step);
    for (std::int64_t i = thread; i < before; i += threads) one(table, part, i);
    for (std::int64_t i = before + vectors_of_part * kWidth + thread; i < part.count; i += threads) one(table, part, i);
  }
};

/// Calls visit(Folding<T, op>()) with what the table asks for. Sums and products of integers are taken unsigned: they
/// wrap. False where the reduction is not defined.
template <class Visit>
bool with_folding(comm::DType dtype, comm::ReduceOp op, const Visit& visit) {
  using comm::DType;
  using comm::ReduceOp;
  const auto by_op = [&]<class Number, class Unsigned>() {
    switch (op) {
      case ReduceOp::sum:
        return visit(Folding<Unsigned, ReduceOp::sum>()), true;
      case ReduceOp::product:
        return visit(Folding<Unsigned, ReduceOp::product>()), true;
      case ReduceOp::min:
        return visit(Folding<Number, ReduceOp::min>()), true;
      case ReduceOp::max:
        return visit(Folding<Number, ReduceOp::max>()), true;
      case ReduceOp::avg:
        if constexpr (!std::is_integral_v<Number>) return visit(Folding<Number, ReduceOp::avg>()), true;
    }
    return false;
  };
  switch (dtype) {
    case DType::f16:
      return by_op.template operator()<comm::Float16, comm::Float16>();
    case DType::bf16:
      return by_op.template operator()<comm::BFloat16, comm::BFloat16>();
    case DType::f32:
      return by_op.template operator()<float, float>();
    case DType::f64:
      return by_op.template operator()<double, double>();
    case DType::i32:
      return by_op.template operator()<std::int32_t, std::uint32_t>();
    case DType::i64:
      return by_op.template operator()<std::int64_t, std::uint64_t>();
    case DType::u8:
      return by_op.template operator()<std::uint8_t, std::uint8_t>();
    default:
      return false;  // the optional types
  }
}

}  // namespace plumbline::device

// conformance/pass/oracles/arithmetic.hpp: what one op of a program computes, on the arrays of one rank.
//
// Model   An op reads arrays by slot and fills arrays whose shapes the program declares. Arithmetic is in double; who
//         keeps an array rounds it to its variable's type. Ops whose attributes a program does not state (axes,
//         hyper-parameters) take what the shapes leave, and the usual defaults: README.md lists them.
// General An op that has no arithmetic of its own, or whose shapes do not fit it, is computed by the general model:
//         each element depends on every input, its slot and place in it, and on every number among the attributes. A
//         gradient op (one that reads gradients: "…_grad") is linear in the gradients that it reads, as every
//         derivative is.
// Scaling Multiplying a gradient op's gradients by a power of two multiplies its outputs by the same, bit for bit, as
//         long as nothing overflows or becomes subnormal.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::program {

struct Array {
  std::vector<std::int64_t> shape;  // row-major; empty: one element
  std::vector<double> elements;
};

using ArraySlots = std::map<std::string, std::vector<Array>, std::less<>>;

/// What an op reads and fills.
struct Operands {
  std::string type;
  ArraySlots inputs;
  ArraySlots outputs;                                  // of their right sizes, zeros
  std::map<std::string, double, std::less<>> numbers;  // among its attributes

  /// The array of a slot, or null.
  [[nodiscard]] const Array* in(std::string_view slot, std::size_t index = 0) const;
  [[nodiscard]] Array* out(std::string_view slot, std::size_t index = 0);
  [[nodiscard]] double number(std::string_view name, double otherwise) const;
};

/// Fills the outputs.
void compute(Operands& operands);

/// Whether ops of this type have arithmetic of their own.
[[nodiscard]] bool is_computed(std::string_view type);

/// By the general model alone.
void compute_by_model(Operands& operands);

/// Fills the outputs and returns true, or returns false where the shapes do not fit.
using Arithmetic = bool (*)(Operands& operands);
using ArithmeticTable = std::map<std::string, Arithmetic, std::less<>>;
/// Parts of the table: sums and products, layers of networks, optimizers.
[[nodiscard]] const ArithmeticTable& elementwise_arithmetic();
[[nodiscard]] const ArithmeticTable& layer_arithmetic();
[[nodiscard]] const ArithmeticTable& optimizer_arithmetic();

/// Elements of a shape; a dimension that is not known, -1, counts as one.
[[nodiscard]] std::size_t elements_of(const std::vector<std::int64_t>& shape);

}  // namespace plumbline::program

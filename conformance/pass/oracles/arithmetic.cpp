#include "conformance/pass/oracles/arithmetic.hpp"

#include <cmath>

#include "reference/support/fnv1a.hpp"

namespace plumbline::program {

const Array* Operands::in(std::string_view slot, std::size_t index) const {
  const auto found = inputs.find(slot);
  return found == inputs.end() || index >= found->second.size() ? nullptr : &found->second[index];
}

Array* Operands::out(std::string_view slot, std::size_t index) {
  const auto found = outputs.find(slot);
  return found == outputs.end() || index >= found->second.size() ? nullptr : &found->second[index];
}

double Operands::number(std::string_view name, double otherwise) const {
  const auto found = numbers.find(name);
  return found == numbers.end() ? otherwise : found->second;
}

std::size_t elements_of(const std::vector<std::int64_t>& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= size < 0 ? 1 : static_cast<std::size_t>(size);
  return count;
}

namespace {

// A number in [0.25, 1) that belongs to a text, with 10 bits, so that products with it round little.
double weight_of(std::string_view type, std::string_view slot, std::size_t index, std::string_view to) {
  comm::Fnv1a hash;
  const auto add = [&hash](std::string_view text) { hash.add(text).add_word(0xff); };
  add(type), add(slot), add(std::to_string(index)), add(to);
  return 0.25 + 0.75 * static_cast<double>((hash.value() >> 20U) % 1024) / 1024;
}

double mean_of(const Array& array) {
  double sum = 0;
  for (const double element : array.elements) sum += element;
  return array.elements.empty() ? 0 : sum / static_cast<double>(array.elements.size());
}

// "Out@GRAD" of a gradient op; of one of second order only what comes from the loss: its forward op is a gradient op,
// whose own gradient inputs ("grad_out", "DOut") are as constant for it as an activation is for others.
bool is_gradient_slot(std::string_view type, std::string_view slot) {
  if (type.ends_with("_grad_grad") && slot.starts_with("DD")) return true;
  return type.ends_with("_grad") && slot.ends_with("@GRAD");
}

bool has_gradients(const Operands& operands) {
  for (const auto& [slot, arrays] : operands.inputs)
    if (!arrays.empty() && is_gradient_slot(operands.type, slot)) return true;
  return false;
}

// The weighted sum of what each input slot has for element i of an output.
class Mix {
 public:
  Mix(const Operands& operands, std::string_view to, bool of_gradients, bool all) {
    for (const auto& [slot, arrays] : operands.inputs) {
      if (!all && is_gradient_slot(operands.type, slot) != of_gradients) continue;
      for (std::size_t k = 0; k < arrays.size(); ++k)
        if (!arrays[k].elements.empty())
          terms_.push_back({&arrays[k], weight_of(operands.type, slot, k, to), mean_of(arrays[k])});
    }
  }
  [[nodiscard]] double at(std::size_t i) const {
    double sum = 0;
    for (const Term& term : terms_)
      sum += term.weight * (term.array->elements[i % term.array->elements.size()] + term.mean);
    return sum;
  }

 private:
  struct Term {
    const Array* array;
    double weight, mean;
  };
  std::vector<Term> terms_;
};

double squashed(double value) { return value / (1 + std::abs(value)); }

}  // namespace

void compute_by_model(Operands& operands) {
  const bool linear = has_gradients(operands);
  double numbers = 0;
  for (const auto& [name, value] : operands.numbers) numbers += weight_of(operands.type, name, 0, "") * squashed(value);
  for (auto& [slot, arrays] : operands.outputs)
    for (std::size_t k = 0; k < arrays.size(); ++k) {
      const std::string to = slot + std::to_string(k);
      const Mix values(operands, to, false, !linear), gradients(operands, to, true, false);
      std::vector<double>& elements = arrays[k].elements;
      for (std::size_t i = 0; i < elements.size(); ++i) {
        const double value = squashed(values.at(i) + numbers);
        elements[i] = linear ? gradients.at(i) * (1 + value / 2) : value;
      }
    }
}

namespace {

const Arithmetic* arithmetic_of(std::string_view type) {
  for (const ArithmeticTable* table : {&elementwise_arithmetic(), &layer_arithmetic(), &optimizer_arithmetic()})
    if (const auto found = table->find(type); found != table->end()) return &found->second;
  return nullptr;
}

}  // namespace

bool is_computed(std::string_view type) { return arithmetic_of(type) != nullptr; }

void compute(Operands& operands) {
  const Arithmetic* const own = arithmetic_of(operands.type);
  if (own == nullptr || !(*own)(operands)) compute_by_model(operands);
}

}  // namespace plumbline::program

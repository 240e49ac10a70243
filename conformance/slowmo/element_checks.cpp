// Arithmetic on tensors of any floating types: on the host as IEEE 754 has it, and on devices the bits of the host.
#include <array>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "conformance/slowmo/slowmo_checks.hpp"
#include "conformance/support/device_tensors.hpp"
#include "conformance/support/element.hpp"
#include "conformance/support/refusal.hpp"
#include "reference/comm/errors.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/kernel_tables.hpp"

namespace plumbline::conformance {

using comm::Buffer;
using comm::DType;
using device::MemorySpace;
using suite::Context;

namespace {

constexpr std::array kFloating{DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr double kScalar = 3.1;  // no number of any of these types

// ---- what single operations come to ----

// A number as an element of the type holds it.
long double held(DType type, long double number) { return number_of(type, nearest_bits(type, number)); }

DType type_of_computation(DType result) { return result == DType::f64 ? DType::f64 : DType::f32; }

// One operation of the type that is computed in, whose own rounding is the machine's.
double computed(DType type, const std::string& operation, double value, double other) {
  const auto in = [&](auto element) -> double {
    using T = decltype(element);
    const T a = static_cast<T>(value), b = static_cast<T>(other);
    if (operation == "add") return static_cast<T>(a + b);
    if (operation == "subtract") return static_cast<T>(a - b);
    if (operation == "multiply") return static_cast<T>(a * b);
    if (operation == "divide") return static_cast<T>(a / b);
    return b;  // a copy
  };
  return type == DType::f64 ? in(double()) : in(float());
}

double expected_element(const std::string& operation, DType result, double value, double other) {
  const DType in = type_of_computation(result);
  return static_cast<double>(held(result, computed(in, operation, value, static_cast<double>(held(in, other)))));
}

// Numbers of which some are between two of every narrower type.
std::vector<double> numbers(DType type, double first) {
  std::vector<double> values;
  for (const double number : {first, -first / 3, first * 1025.5, 0x1p-9 * first, 1e4 * first, 0.0})
    values.push_back(static_cast<double>(held(type, number)));
  return values;
}

// Elements of a type, in memory of their own.
class Elements {
 public:
  Elements(DType type, const std::vector<double>& values)
      : type_(type), count_(static_cast<std::int64_t>(values.size())), memory_(values.size() * comm::size_of(type)) {
    for (std::size_t i = 0; i < values.size(); ++i)
      put_bits(type, memory_.data() + i * comm::size_of(type), nearest_bits(type, values[i]));
  }
  [[nodiscard]] Buffer view() { return {memory_.data(), count_, type_}; }
  [[nodiscard]] double at(std::size_t i) const {
    return static_cast<double>(number_of(type_, bits_at(type_, memory_.data() + i * comm::size_of(type_))));
  }

 private:
  DType type_;
  std::int64_t count_;
  std::vector<std::byte> memory_;
};

using Pairs = std::vector<slowmo::TensorPair>;

// By the name of an operation of two tensors, or of a tensor and a number.
void operate(const std::string& operation, const MemorySpace& place, const Pairs& pairs) {
  std::vector<Buffer> tensors;
  for (const auto& pair : pairs) tensors.push_back(pair.to);
  if (operation == "add") slowmo::add(place, pairs);
  if (operation == "subtract") slowmo::subtract(place, pairs);
  if (operation == "copy") slowmo::copy(place, pairs);
  if (operation == "multiply") slowmo::multiply(place, tensors, kScalar);
  if (operation == "divide") slowmo::divide(place, tensors, kScalar);
}

bool takes_a_number(const std::string& operation) { return operation == "multiply" || operation == "divide"; }

void rounds_once(Context& context) {
  const std::string& operation = context.parameters().text("operation");
  for (const DType from : kFloating)
    for (const DType to : kFloating) {
      const std::vector<double> values = numbers(to, 1.37), others = numbers(from, 2.71);
      Elements result(to, values), other(from, others);
      operate(operation, {}, {{other.view(), result.view()}});
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_EQ(result.at(i),
                  expected_element(operation, to, values[i], takes_a_number(operation) ? kScalar : others[i]))
            << "SLOWMO-055: " << operation << " of " << others[i] << " (" << comm::name_of(from) << ") to " << values[i]
            << " (" << comm::name_of(to) << ")";
    }
}

// ---- what is refused ----

void expect_refused_operation(const std::string& operation, const Buffer& from, const Buffer& to, bool is_unsupported,
                              const std::vector<std::string>& words) {
  const std::function<void()> operated = [&] { operate(operation, {}, {{from, to}}); };
  if (is_unsupported)
    expect_refused<Unsupported>("SLOWMO-055", operated, words);
  else
    expect_refused<InvalidArgument>("SLOWMO-055", operated, words);
}

void refuses_operations(Context& context) {
  const std::string& operation = context.parameters().text("operation");
  Elements four(DType::f32, {1, 2, 3, 4}), halves(DType::f16, {1, 2, 3, 4});
  const Buffer whole = four.view(), others = halves.view();
  EXPECT_EQ(refusal<InvalidArgument>([&] { operate(operation, {}, {{others, whole}}); }), kNotRefused) << "SLOWMO-055";
  const Buffer integers{whole.data, 4, DType::i32}, elsewhere{whole.data, 4, DType::f32, {comm::Device::Kind::cuda, 0}};
  expect_refused_operation(operation, others, integers, true, {operation, "i32"});
  expect_refused_operation(operation, others, elsewhere, true, {operation, "cuda:0"});
  if (takes_a_number(operation)) return;
  expect_refused_operation(operation, integers, others, true, {operation, "i32"});
  expect_refused_operation(operation, elsewhere, others, true, {operation, "cuda:0"});
  for (const std::int64_t count : {3, 5}) {
    const std::vector<std::string> words{fmt::format("{} elements to 4", count)};
    expect_refused_operation(operation, {others.data, count, DType::f16}, whole, false, words);
    expect_refused_operation(operation, {others.data, count, DType::f16}, {others.data, 4, DType::f16}, false, words);
  }
}

// ---- devices ----

void alike_on_devices(Context& context) {
  const suite::DeviceSeat& seat = context.device_seat();
  const device::OwnStream stream(seat.runtime, seat.device.index);
  const MemorySpace place({seat.runtime, stream.get()}, seat.device.index);
  const std::string& operation = context.parameters().text("operation");
  std::vector<TensorShape> from, to;
  for (const DType one : kFloating)
    for (const DType other : kFloating) {
      from.push_back({one, 37, 1});
      to.push_back({other, 37, 0});
    }
  const HostTensors others(from, 1), values(to, 2), begin(to, 2);
  DeviceTensors others_there(seat, from, stream.get()), values_there(seat, to, stream.get());
  others_there.take(others);
  values_there.take(begin);
  const auto pairs = [](const std::vector<Buffer>& sources, const std::vector<Buffer>& targets) {
    Pairs list;
    for (std::size_t i = 0; i < sources.size(); ++i) list.push_back({sources[i], targets[i]});
    return list;
  };
  operate(operation, place, pairs(others_there.views(), values_there.views()));
  operate(operation, {}, pairs(others.views(), values.views()));
  values_there.note();
  EXPECT_EQ(values_there.difference(values), "") << "SLOWMO-055: " << operation;
}

// What goes together on a device, a table at a time; nothing is looked at in memory.
void refuses_tables(Context& context) {
  const comm::Device device = context.device_seat().device;
  const auto tensor = [&](DType type, std::int64_t count) {
    return Buffer{reinterpret_cast<void*>(0x1000), count, type, device};
  };
  const auto sum = [&](const Buffer& from, const Buffer& to) {
    (void)slowmo::sum_work(Pairs{{from, to}}, true, device);
  };
  const auto slow_step = [&](const Buffer& x, const Buffer& old, const Buffer& momentum) {
    (void)slowmo::slow_step_tables(std::vector<slowmo::SlowTensor>{{x, old, momentum}}, device);
  };
  const Buffer single = tensor(DType::f32, 4), wide = tensor(DType::f64, 4), half = tensor(DType::f16, 4);
  const Buffer shorter = tensor(DType::f32, 3), integers = tensor(DType::i32, 4);
  const Buffer here{single.data, 4, DType::f32};
  EXPECT_EQ(refusal<InvalidArgument>(
                [&] { sum(half, single), slow_step(single, single, single), slow_step(wide, wide, wide); }),
            kNotRefused)
      << "SLOWMO-055";
  expect_refused<InvalidArgument>("SLOWMO-055", [&] { sum(half, shorter); }, {"sum 0"});
  expect_refused<InvalidArgument>("SLOWMO-055", [&] { sum(here, single); }, {"sum 0", "cpu"});
  expect_refused<Unsupported>("SLOWMO-055", [&] { sum(integers, single); }, {"sum 0", "i32"});
  expect_refused<Unsupported>("SLOWMO-055", [&] { sum(single, integers); }, {"sum 0", "i32"});
  const std::string step = "slow step: tensor 0";
  expect_refused<InvalidArgument>("SLOWMO-055", [&] { slow_step(single, shorter, single); }, {step});
  expect_refused<InvalidArgument>("SLOWMO-055", [&] { slow_step(single, single, here); }, {step, "cpu"});
  expect_refused<InvalidArgument>("SLOWMO-055", [&] { slow_step(single, wide, single); }, {step, "f64"});
  expect_refused<InvalidArgument>("SLOWMO-055", [&] { slow_step(single, single, wide); }, {step, "f64"});
  expect_refused<Unsupported>("SLOWMO-055", [&] { slow_step(half, half, half); }, {step, "f16"});
  expect_refused<Unsupported>("SLOWMO-055", [&] { slow_step(integers, integers, integers); }, {step, "i32"});
}

}  // namespace

void add_slowmo_element_checks(suite::Suite& suite) {
  const suite::Axis operation{"operation", {"copy", "add", "subtract", "multiply", "divide"}};
  const auto add = [&](const char* name, std::vector<suite::Axis> axes, void (*body)(Context&), bool on_device) {
    axes.push_back(suite::worlds({1}));
    suite.add({.id = std::string("slowmo.elements.") + name,
               .verifies = {"SLOWMO-055@6644"},
               .axes = std::move(axes),
               .on_device = on_device,
               .beside_host = on_device,
               .body = body});
  };
  add("round_once", {operation}, rounds_once, false);
  add("refused", {operation}, refuses_operations, false);
  add("alike_on_devices", {operation}, alike_on_devices, true);
  add("tables_refused", {}, refuses_tables, true);
}

}  // namespace plumbline::conformance

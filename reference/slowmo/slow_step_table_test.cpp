// The kernel's work, thread by thread on this processor, held to slow_step(), whose formula checks judge.
#include <array>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/device/tensor_samples_test.hpp"
#include "reference/slowmo/kernel_tables.hpp"

namespace plumbline::slowmo {
namespace {

using comm::DType;
using device::ShiftedTensor;

const std::array kRules{SlowRule{slowmo_rule(0.5, 1), 0.1}, SlowRule{bmuf_rule(0.9, 0.8), 0.1},
                        SlowRule{diloco_rule(), 0.1},
                        SlowRule{slowmo_rule(0.5, 0.7), 0.03, gossip::Convention::fairscale}};

void run_on_host(const SlowRule& rule, std::span<const SlowTensor> tensors) {
  if (rule.convention == gossip::Convention::fairscale)
    device::run_on_host(slow_step_work<SlowStepAsFairscale>(rule, tensors, {}));
  else
    device::run_on_host(slow_step_work<SlowStepAsPaper>(rule, tensors, {}));
}

TEST(SlowStepWork, HasTheBitsOfTheHost) {
  for (const SlowRule& rule : kRules)
    for (const DType type : {DType::f32, DType::f64})
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{5}, std::int64_t{63}, device::kChunk + 3})
        for (const std::size_t shift : {0, 1}) {
          const ShiftedTensor x(type, count, shift, 1), old(type, count, shift, 2), momentum(type, count, 0, 3);
          const ShiftedTensor expected_x(x), expected_old(old), expected_momentum(momentum);
          run_on_host(rule, std::array{SlowTensor{x.buffer(), old.buffer(), momentum.buffer()}});
          slow_step(rule, expected_x.buffer(), expected_old.buffer(), expected_momentum.buffer());
          ASSERT_TRUE(x == expected_x && old == expected_old && momentum == expected_momentum)
              << comm::name_of(type) << ", " << count << " elements, shifted by " << shift;
        }
}

TEST(SlowStepWork, TakesManyAtOnceEachOnce) {
  // An average that is met at once: x becomes old, where each element is touched once.
  std::vector<std::array<float, 3>> x(1700), old(1700), momentum(1700);
  std::vector<SlowTensor> tensors;
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = {1, 1, 1};
    old[i] = {3, 3, 3};
    const auto buffer = [](auto& list) { return comm::Buffer{list.data(), 3, DType::f32}; };
    tensors.push_back({buffer(x[i]), buffer(old[i]), buffer(momentum[i])});
  }
  run_on_host({lookahead_rule(0.5), 0.1}, tensors);
  for (const auto& list : x) EXPECT_THAT(list, testing::Each(2.0F));
  for (const auto& list : momentum) EXPECT_THAT(list, testing::Each(2.0F));
}

TEST(SlowStepWork, RefusesWhatDoesNotGoTogether) {
  std::array<double, 2> values{};
  const comm::Buffer two{values.data(), 2, DType::f32}, one{values.data(), 1, DType::f32};
  const comm::Buffer doubles{values.data(), 2, DType::f64}, halves{values.data(), 2, DType::f16};
  const comm::Buffer elsewhere{values.data(), 2, DType::f32, {comm::Device::Kind::cuda, 1}};
  const auto refused = [](const comm::Buffer& x, const comm::Buffer& old) {
    (void)slow_step_tables(std::array{SlowTensor{x, old, x}}, {});
  };
  EXPECT_THROW(refused(two, one), InvalidArgument);
  EXPECT_THROW(refused(two, doubles), InvalidArgument);
  EXPECT_THROW(refused(two, elsewhere), InvalidArgument);
  EXPECT_THROW(refused(halves, halves), Unsupported);
}

}  // namespace
}  // namespace plumbline::slowmo

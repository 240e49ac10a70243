// The kernel's work, thread by thread on this processor, held to the loops of the host.
#include <array>

#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/device/tensor_samples_test.hpp"
#include "reference/slowmo/elements.hpp"
#include "reference/slowmo/kernel_tables.hpp"

namespace plumbline::slowmo {
namespace {

using comm::DType;
using device::ShiftedTensor;

constexpr std::array kFloating{DType::f16, DType::bf16, DType::f32, DType::f64};

TEST(SumWork, HasTheBitsOfTheHost) {
  for (const DType from_type : kFloating)
    for (const DType to_type : kFloating)
      for (const std::int64_t count : {std::int64_t{1}, std::int64_t{9}, std::int64_t{257}, device::kChunk + 3})
        for (const std::size_t shift : {0, 1, 3})
          for (const bool subtracts : {false, true}) {
            const ShiftedTensor from(from_type, count, shift, 5), to(to_type, count, shift % 2, 2), expected(to);
            device::run_on_host(sum_work(std::array{TensorPair{from.buffer(), to.buffer()}}, subtracts, {}));
            if (subtracts)
              subtract(from.buffer(), expected.buffer());
            else
              add(from.buffer(), expected.buffer());
            ASSERT_TRUE(to == expected) << comm::name_of(from_type) << " and " << comm::name_of(to_type) << ", "
                                        << count << " elements, shifted by " << shift
                                        << (subtracts ? ", minus" : ", plus");
          }
}

TEST(SumWork, RefusesWhatDoesNotGoTogether) {
  std::array<double, 2> values{};
  const comm::Buffer two{values.data(), 2, DType::f32}, one{values.data(), 1, DType::f32};
  const comm::Buffer integers{values.data(), 2, DType::i32};
  const comm::Buffer elsewhere{values.data(), 2, DType::f32, {comm::Device::Kind::cuda, 1}};
  const auto refused = [](const comm::Buffer& from, const comm::Buffer& to) {
    (void)sum_work(std::array{TensorPair{from, to}}, false, {});
  };
  EXPECT_THROW(refused(two, one), InvalidArgument);
  EXPECT_THROW(refused(two, elsewhere), InvalidArgument);
  EXPECT_THROW(refused(two, integers), Unsupported);
}

}  // namespace
}  // namespace plumbline::slowmo

// The kernel's work, thread by thread on this processor, held to the loops of the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/device/tensor_samples_test.hpp"
#include "reference/gossip/mixing_kernel.hpp"
#include "reference/gossip/tensor_kernels.hpp"

namespace plumbline::gossip {
namespace {

using comm::DType;
using device::ShiftedTensor;

// As PushSum mixes on the host.
void mix_plainly(const ShiftedTensor& x, std::vector<ShiftedTensor> came, Kept kept) {
  for (std::size_t i = 1; i < came.size(); ++i) add(came[0].buffer(), came[i].buffer());
  if (!came.empty()) add(x.buffer(), came[0].buffer());
  if (kept.is_lazy) scale(x.buffer(), kept.factor);
}

TEST(MixingWork, HasTheBitsOfTheHost) {
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64})
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{9}, std::int64_t{257}, device::kChunk + 3})
      for (const std::size_t shift : {0, 1, 3})
        for (const bool lazy : {false, true})
          for (int arrivals = 0; arrivals <= kMostArrivals; ++arrivals) {
            const ShiftedTensor x(type, count, shift, 1), expected(x);
            std::vector<ShiftedTensor> came;
            Arrivals tensor{.x = x.buffer(), .came = {}};
            for (int k = 0; k < arrivals; ++k) came.emplace_back(type, count, k == 2 ? 1 : shift, 2 + k);
            for (std::size_t k = 0; k < came.size(); ++k) tensor.came[k] = came[k].buffer();
            const Kept kept{1.0 / (arrivals + 2), lazy};
            device::run_on_host(mix_work(std::array{tensor}, kept, {}));
            mix_plainly(expected, came, kept);
            ASSERT_TRUE(x == expected) << comm::name_of(type) << ", " << count << " elements, shifted by " << shift
                                       << ", from " << arrivals << (lazy ? ", lazy" : "");
          }
}

TEST(MixingWork, RefusesWhatDoesNotGoTogether) {
  std::array<double, 2> values{};
  const comm::Buffer two{values.data(), 2, DType::f32}, one{values.data(), 1, DType::f32};
  const comm::Buffer halves{values.data(), 2, DType::f16}, integers{values.data(), 2, DType::i32};
  const comm::Buffer elsewhere{values.data(), 2, DType::f32, {comm::Device::Kind::cuda, 1}};
  const auto refused = [](const comm::Buffer& x, const comm::Buffer& came) {
    (void)mix_work(std::array{Arrivals{x, {came}}}, {}, {});
  };
  EXPECT_THROW(refused(two, one), InvalidArgument);
  EXPECT_THROW(refused(two, halves), InvalidArgument);
  EXPECT_THROW(refused(two, elsewhere), InvalidArgument);
  EXPECT_THROW(refused(integers, integers), Unsupported);
}

}  // namespace
}  // namespace plumbline::gossip

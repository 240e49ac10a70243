#include "reference/training/pipeline/wire.hpp"

#include <cstring>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::training {
namespace {

using testing::HasSubstr;

at::Tensor counted_values(const std::vector<std::int64_t>& shape, at::ScalarType type = at::kFloat) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return at::arange(count, at::TensorOptions(type)).view(shape);
}

// What arrives, when the message's bytes are all that travels.
Tensors sent(const Tensors& tensors, const Description& description, WireType wire = {}) {
  const at::Tensor message = pack(tensors, description, wire);
  const at::Tensor arrived = message_for(description, wire);
  EXPECT_EQ(arrived.numel(), message.numel());
  std::memcpy(arrived.data_ptr(), message.data_ptr(), static_cast<std::size_t>(message.numel()));
  return unpack(arrived, schedules::decode(schedules::encode(description)), wire);
}

TEST(Wire, SeveralTensorsOfAnyTypeShapeAndOrderArrive) {
  const at::Tensor image = counted_values({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor gaps = counted_values({4, 6}).narrow(1, 1, 3);
  const Tensors tensors{counted_values({7}), counted_values({2, 3}, at::kLong), at::empty({0, 4}), image, gaps,
                        at::full({}, 2.5),   counted_values({3}, at::kInt) > 0};
  const Description description = describe(tensors);
  const Tensors arrived = sent(tensors, description);
  ASSERT_EQ(arrived.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(arrived[i].scalar_type(), tensors[i].scalar_type()) << i;
    EXPECT_EQ(arrived[i].sizes(), tensors[i].sizes()) << i;
    EXPECT_TRUE(at::equal(arrived[i], tensors[i])) << i;
    if (arrived[i].numel() > 0) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arrived[i].data_ptr()) % 64, 0u) << i;
    }
  }
  EXPECT_EQ(arrived[3].strides(), image.strides()) << "channels last stays channels last";
  EXPECT_TRUE(arrived[4].is_contiguous()) << "what has gaps is sent row-major";
}

TEST(Wire, GradientsAreThoseOfTheTensorsThatHaveOne) {
  const Tensors tensors{counted_values({2}).requires_grad_(), counted_values({3}, at::kLong), counted_values({4}),
                        counted_values({5}).requires_grad_()};
  const Description gradients = gradients_of(describe(tensors));
  EXPECT_EQ(to_string(gradients), "f32[2] f32[5]");
  EXPECT_EQ(message_for({}, {}).numel(), 0);
  EXPECT_TRUE(gradients_of(gradients).empty());
}

TEST(Wire, AWireTypeIsOfFloatingTensorsAlone) {
  const Tensors tensors{at::full({3}, 1.0 / 3), counted_values({3}, at::kLong) + 70000};
  const Description description = describe(tensors);
  EXPECT_EQ(pack(tensors, description, at::kHalf).numel(), 64 + 24);
  const Tensors arrived = sent(tensors, description, at::kHalf);
  EXPECT_EQ(arrived[0].scalar_type(), at::kFloat);
  EXPECT_TRUE(at::equal(arrived[0], tensors[0].to(at::kHalf).to(at::kFloat)));
  EXPECT_FALSE(at::equal(arrived[0], tensors[0])) << "a third is no half";
  EXPECT_TRUE(at::equal(arrived[1], tensors[1]));
}

TEST(Wire, DescriptionsComeBackAndNonsenseIsRefused) {
  const Description description = describe({counted_values({2, 3}).requires_grad_(), at::empty({0}, at::kLong)});
  EXPECT_EQ(schedules::decode(schedules::encode(description)), description);
  const Description many(60, description.front());
  try {
    (void)schedules::DescriptionExchange(schedules::Metadata::each).tell(0, many);
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("a message of descriptions has 256"));
  }
  const std::vector<std::int64_t> right = schedules::encode(description);
  for (std::size_t word = 0; word < 4; ++word)
    for (const std::int64_t wrong : {-1, 1'000'000}) {
      std::vector<std::int64_t> words = right;
      words[word == 3 ? 5 : word] = wrong;  // the count of words, of tensors, of dimensions, and the type
      EXPECT_THROW((void)schedules::decode(words), InvalidArgument) << word;
    }
  EXPECT_THROW((void)message_for({{.shape = {1}, .program_type = 1000}}, {}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::training

#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/plan_json.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

using comm::DType;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

TEST(Gradients, HaveBytesByTheirType) {
  EXPECT_EQ(bytes_of(Gradient{.elements = 3}), 12);
  EXPECT_EQ(bytes_of(Gradient{.elements = 3, .dtype = DType::bf16}), 6);
  EXPECT_EQ(bytes_of(Gradient{.elements = 3, .dtype = DType::f32, .components_per_element = 2}), 24);
  EXPECT_EQ(bytes_of(Gradient{}), 0);
}

TEST(Gradients, AreRefusedByName) {
  const auto refused = [](Gradient last) {
    return [last] { require_gradients(std::vector<Gradient>{{.elements = 4}, last}); };
  };
  EXPECT_THAT(refused({.elements = -1}), ThrowsMessage<InvalidArgument>(HasSubstr("gradient 1 has -1 elements")));
  EXPECT_THAT(refused({.elements = 1, .components_per_element = 3}),
              ThrowsMessage<InvalidArgument>(HasSubstr("3 numbers")));
  EXPECT_THAT(refused({.elements = 1, .group = -1}), ThrowsMessage<InvalidArgument>(HasSubstr("group -1")));
  EXPECT_THAT(refused({.elements = kLargest / 4 + 1}), ThrowsMessage<OutOfRange>(HasSubstr("more bytes than 64 bits")));
  EXPECT_THAT(refused({.elements = kLargest / 4}), ThrowsMessage<OutOfRange>(HasSubstr("the first 2 gradients")));
  EXPECT_NO_THROW(refused({.elements = kLargest / 4 - 4})());
}

TEST(ElementTypes, HaveNames) {
  for (const char* name : {"f16", "bf16", "f32", "f64", "i32", "i64", "u8", "c32", "c64", "c128"})
    EXPECT_EQ(name_of(parse_element_type(name).value()), name);
  EXPECT_EQ(parse_element_type("c64"), (ElementType{DType::f32, 2}));
  EXPECT_FALSE(parse_element_type("float"));
  EXPECT_FALSE(parse_element_type("bool"));
  EXPECT_FALSE(parse_element_type("f8_e4m3")) << "no gradient is of it";
  for (const auto& [alias, name] : {std::pair("float32", "f32"), {"torch.bfloat16", "bf16"}, {"complex64", "c64"}})
    EXPECT_EQ(name_of(parse_element_type(alias).value()), name) << "as PyTorch has it";
  EXPECT_THAT([] { (void)name_of(ElementType{DType::i32, 2}); }, ThrowsMessage<InvalidArgument>(HasSubstr("2 i32")));
}

TEST(Devices, AreReadByName) {
  for (const char* name : {"cpu", "cuda:0", "cuda:13"}) EXPECT_EQ(name_of(parse_device(name).value()), name);
  for (const char* name : {"", "meta", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999"})
    EXPECT_FALSE(parse_device(name)) << name;
}

}  // namespace
}  // namespace plumbline::bucketing

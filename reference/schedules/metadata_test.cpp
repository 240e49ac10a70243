#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/schedules/lowering.hpp"

namespace plumbline::schedules {
namespace {

using comm::DType;
using testing::HasSubstr;

const TensorDescriptions kList{{DType::f16, {2, 3}}, {DType::i64, {}}, {DType::u8, {4, 0}}, {DType::bf16, {7}}};

std::vector<std::int64_t> words_of(const comm::Buffer& message) {
  const auto* words = static_cast<const std::int64_t*>(message.data);
  return {words, words + message.count};
}
// What the other side of a boundary hears.
void carry(const comm::Buffer& told, const comm::Buffer& room) {
  ASSERT_EQ(told.bytes(), room.bytes());
  std::copy_n(static_cast<const std::byte*>(told.data), told.bytes(), static_cast<std::byte*>(room.data));
}
template <class Error>
std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TensorDescriptions, AreWrittenAndCounted) {
  EXPECT_EQ(to_string(kList), "f16[2,3] i64[] u8[4,0] bf16[7]");
  EXPECT_EQ(to_string(TensorDescriptions{}), "nothing");
  EXPECT_EQ(elements_of(kList[0]), 6);
  EXPECT_EQ(elements_of(kList[1]), 1) << "a scalar";
  EXPECT_EQ(elements_of(kList[2]), 0);
  EXPECT_EQ(elements_of({DType::u8, {std::int64_t{1} << 40, std::int64_t{1} << 40, 0}}), 0);
  EXPECT_THROW((void)elements_of({DType::u8, {2, -1}}), InvalidArgument);
  EXPECT_THROW((void)elements_of({DType::u8, {std::int64_t{1} << 40, std::int64_t{1} << 40}}), InvalidArgument);
  EXPECT_EQ(to_string(gradients_of(kList)), "f16[2,3] bf16[7]");
  EXPECT_EQ(to_string(gradients_of({{.shape = {1}, .requires_gradient = false}, {.shape = {2}, .program_type = 9}})),
            "type9[2]");
  EXPECT_TRUE(gradients_of(gradients_of(kList)).empty());
}

TEST(TensorDescriptions, AreWordsInTheOrderOfTheProtocol) {
  EXPECT_THAT(encode({{DType::bf16, {5, 6}}}), testing::ElementsAre(8, 1, 2, 5, 6, 1, 0, 1, 0));
  EXPECT_THAT(encode({}), testing::ElementsAre(1, 0));
  EXPECT_EQ(decode(encode(kList)), kList);
  EXPECT_EQ(decode(encode({})), TensorDescriptions{});
  std::vector<std::int64_t> with_zeros = encode(kList);
  with_zeros.resize(kDescriptionWords);
  EXPECT_EQ(decode(with_zeros), kList);
  const TensorDescriptions others{{.dtype = DType::u8, .shape = {2, 3}, .strides = {1, 2}, .program_type = 11},
                                  {.shape = {4}, .requires_gradient = false}};
  EXPECT_THAT(encode(others), testing::ElementsAre(16, 2, 2, 2, 3, 6, 11, 1, 1, 1, 2, 1, 4, 2, 0, 0, 0));
  EXPECT_EQ(decode(encode(others)), others);
  for (const DType dtype : comm::kAllDTypes) EXPECT_EQ(decode(encode({{dtype, {1}}})).at(0).dtype, dtype);
}

TEST(TensorDescriptions, OfOtherWordsAreRefused) {
  const auto refusal = [](std::vector<std::int64_t> words) {
    return error_of<InvalidArgument>([&] { (void)decode(words); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("they end before the number of words"));
  EXPECT_THAT(refusal({9, 0}), HasSubstr("the number of words is 9, it must be in [0, 1]"));
  EXPECT_THAT(refusal({-1, 0}), HasSubstr("the number of words is -1"));
  EXPECT_THAT(refusal({0, 0}), HasSubstr("they end before the number of tensors"));
  EXPECT_THAT(refusal({1, 2}), HasSubstr("they end before the number of dimensions"));
  EXPECT_THAT(refusal({3, 1, 7, 0}), HasSubstr("the number of dimensions is 7"));
  EXPECT_THAT(refusal({4, 1, 1, -5, 0}), HasSubstr("a dimension is -5"));
  EXPECT_THAT(refusal({7, 1, 1, 5, 2, -1, 1, 0}), HasSubstr("the program's type is -1"));
  EXPECT_THAT(refusal({7, 1, 1, 5, 2, 0, 2, 0}),
              HasSubstr("whether it requires a gradient is 2, it must be in [0, 1]"));
  EXPECT_THAT(refusal({7, 1, 1, 5, 2, 0, 1, 1}), HasSubstr("they end before a stride"));
  EXPECT_THAT(refusal({8, 1, 1, 5, 2, 0, 1, 1, -3}), HasSubstr("a stride is -3"));
  EXPECT_THAT(refusal({4, 1, 1, 5, 7}), HasSubstr("the dtype is 7, it must be in [0, 6]"));
  EXPECT_THAT(refusal({7, 1, 0, 2, 0, 1, 0, 2}), HasSubstr("1 words are left after the last tensor"));
}

TEST(DescriptionExchange, TellsOnceOrEachTime) {
  for (const Metadata metadata : {Metadata::once, Metadata::each}) {
    DescriptionExchange sender(metadata), receiver(metadata);
    EXPECT_THROW((void)receiver.expected(2), StateError);
    carry(sender.tell(2, kList), receiver.room(2));
    EXPECT_EQ(receiver.expected(2), kList);
    sender.keep_to(2, kList);
    const TensorDescriptions other{{DType::f16, {2, 3, 1}}};
    if (metadata == Metadata::once) {
      EXPECT_EQ(receiver.expected(3), kList) << "what was told counts from then on";
      EXPECT_THROW((void)sender.tell(3, other), StateError);
      EXPECT_THAT(error_of<DescriptionMismatch>([&] { sender.keep_to(3, other); }),
                  HasSubstr("micro-batch 3: the output is f16[2,3,1], and f16[2,3] i64[] u8[4,0] bf16[7] was told"));
      continue;
    }
    EXPECT_THROW((void)receiver.expected(3), StateError);
    carry(sender.tell(3, other), receiver.room(3));
    EXPECT_EQ(receiver.expected(3), other);
    EXPECT_EQ(receiver.expected(2), kList) << "several are under way at once";
    receiver.forget(3);
    EXPECT_THROW((void)receiver.expected(3), StateError);
  }
}

TEST(DescriptionExchange, KeepsToWhatIsPromised) {
  DescriptionExchange boundary(Metadata::none, kList);
  EXPECT_EQ(boundary.expected(0), kList);
  boundary.keep_to(0, kList);
  TensorDescriptions other = kList;
  other[3].dtype = DType::f16;
  EXPECT_THAT(error_of<DescriptionMismatch>([&] { boundary.keep_to(1, other); }),
              testing::AllOf(HasSubstr("f16[7]"), HasSubstr("bf16[7] was promised")));
  EXPECT_THROW((void)boundary.tell(0, kList), StateError);
  EXPECT_THROW((void)boundary.room(0), StateError);
}

TEST(DescriptionExchange, RefusesWhatDoesNotFitItsMessage) {
  DescriptionExchange boundary(Metadata::each);
  std::vector<std::int64_t> expected{8, 1, 2, 5, 6, 2, 0, 1, 0};
  expected.resize(kDescriptionWords);
  EXPECT_EQ(words_of(boundary.tell(0, {{DType::f32, {5, 6}}})), expected);
  const TensorDescriptions many(37, {DType::f32, {5, 6}});
  EXPECT_THAT(error_of<InvalidArgument>([&] { (void)boundary.tell(1, many); }),
              testing::AllOf(HasSubstr("micro-batch 1: f32[5,6] f32[5,6] "),
                             HasSubstr(" take 261 words, and a message of descriptions has 256")));
}

}  // namespace
}  // namespace plumbline::schedules

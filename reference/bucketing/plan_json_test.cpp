// Plans and gradients as text, and what PyTorch, Megatron-LM and Paddle write about theirs.
#include "reference/bucketing/plan_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "reference/bucketing/check_plan.hpp"
#include "reference/bucketing/plan.hpp"
#include "reference/bucketing/plan_samples_test.hpp"
#include "reference/comm/errors.hpp"

namespace plumbline::bucketing {
namespace {

using nlohmann::json;
using samples::indices_of;
using samples::of_sizes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Indices = std::vector<std::vector<int>>;

TEST(PlanJson, ReadsWhatItWrites) {
  auto gradients = of_sizes({3, 5, 7, 2});
  gradients[1] = {.elements = 5,
                  .dtype = comm::DType::f32,
                  .components_per_element = 2,
                  .device = {comm::Device::Kind::cuda, 3},
                  .group = 2};
  gradients[2].sparse = true;
  const Plan plan = plan_by_size(gradients, std::vector<std::int64_t>{16, 64}, std::vector{3, 2, 1, 0});
  EXPECT_EQ(plan_of_json(json_of(plan)), plan);
  EXPECT_EQ(json_of(plan)["buckets"][1],
            json::parse(R"({"dtype": "c64", "device": "cuda:3", "group": 2, "sparse": false, "elements": 5,
                            "limit_bytes": 16, "members": [[1, 0]]})"));
  EXPECT_EQ(
      plan_of_json(json::parse(R"({"buckets": [{"dtype": "f32", "elements": 4, "members": []}]})")).buckets.size(), 1);
}

std::string error_of(const char* text) {
  try {
    (void)plan_of_json(json::parse(text));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(PlanJson, NamesTheFieldThatIsWrong) {
  EXPECT_THAT(error_of("[]"), HasSubstr("plan must be an object, got a list of 0"));
  EXPECT_THAT(error_of("{}"), HasSubstr("plan.buckets is missing"));
  EXPECT_THAT(error_of(R"({"schema": 2, "buckets": []})"), HasSubstr("plan.schema must be 1, got 2"));
  EXPECT_THAT(error_of(R"({"bukets": [], "buckets": []})"), HasSubstr("no field 'bukets'"));
  EXPECT_THAT(error_of(R"({"buckets": [{"elements": 1, "members": []}]})"),
              HasSubstr("plan.buckets[0].dtype is missing"));
  EXPECT_THAT(error_of(R"({"buckets": [{"dtype": "float", "elements": 1, "members": []}]})"), HasSubstr("f16, bf16"));
  EXPECT_THAT(error_of(R"({"buckets": [{"dtype": "f32", "device": "tpu", "elements": 1, "members": []}]})"),
              HasSubstr("cuda:N"));
  EXPECT_THAT(error_of(R"({"buckets": [{"dtype": "f32", "elements": 1.5, "members": []}]})"),
              HasSubstr("plan.buckets[0].elements must be an integer, got 1.5"));
  EXPECT_THAT(error_of(R"({"buckets": [{"dtype": "f32", "elements": 9223372036854775808, "members": []}]})"),
              HasSubstr("more than 64 bits hold"));
  EXPECT_THAT(error_of(R"({"buckets": [{"dtype": "f32", "elements": 1, "members": [0]}]})"),
              HasSubstr("plan.buckets[0].members[0] must be a list"));
  EXPECT_THAT(error_of(R"({"buckets": [{"dtype": "f32", "elements": 1, "members": [[0, 0, 0]]}]})"),
              HasSubstr("a pair"));
  EXPECT_THAT(error_of(R"({"buckets": [{"dtype": "f32", "elements": 1, "members": [[4294967296, 0]]}]})"),
              HasSubstr("32 bits"));
}

TEST(PlanJson, TakesPlansThatAreWrongSoThatTheyCanBeChecked) {
  const Plan twice =
      plan_of_json(json::parse(R"({"buckets": [{"dtype": "f32", "elements": 6, "members": [[0, 0], [0, 3]]}]})"));
  const auto problems = check_plan(twice, of_sizes({3, 4}));
  ASSERT_EQ(problems.size(), 2);
  EXPECT_EQ(problems[0].message, "gradient 0 is in 2 places");
  EXPECT_EQ(problems[1].message, "gradient 1 is in no bucket");
}

// ---- gradients ----

TEST(GradientsJson, AndTablesSayTheSame) {
  const NamedGradients listed = gradients_of_json(json::parse(
      R"([{"name": "a", "elements": 3}, {"elements": 4, "dtype": "c64", "device": "cuda:1", "group": 2, "sparse": true}])"));
  const NamedGradients table = gradients_of_csv(
      "name,elements,dtype,device,group,sparse\r\na, 3,f32,cpu,0,false\n\ngradient 1,4,c64,cuda:1,2,true");
  EXPECT_EQ(listed.gradients, table.gradients);
  EXPECT_THAT(listed.names, ElementsAre("a", "gradient 1"));
  EXPECT_EQ(listed.names, table.names);
  EXPECT_TRUE(gradients_of_csv("").gradients.empty());
}

TEST(GradientsJson, AreRefusedByLine) {
  const auto table = [](const char* text) { return [text] { (void)gradients_of_csv(text); }; };
  EXPECT_THAT(table("elements\n-1"),
              ThrowsMessage<InvalidArgument>(HasSubstr("gradients, line 2.elements must be 0 or more, got -1")));
  EXPECT_THAT(table("elements,size\n1,2"), ThrowsMessage<InvalidArgument>(HasSubstr("column 'size'")));
  EXPECT_THAT(table("elements,elements\n1,2"), ThrowsMessage<InvalidArgument>(HasSubstr("there already")));
  EXPECT_THAT(table("elements\n1\n1,2"), ThrowsMessage<InvalidArgument>(HasSubstr("line 3: 2 cells under 1 columns")));
  EXPECT_THAT(table("name\nfc"), ThrowsMessage<InvalidArgument>(HasSubstr("line 2.elements is missing")));
  EXPECT_THAT(table("elements\nmany"), ThrowsMessage<InvalidArgument>(HasSubstr("must be an integer, got \"many\"")));
  EXPECT_THAT(table("name,elements\nfc,1\nbias,1\n\nfc,2"),
              ThrowsMessage<InvalidArgument>(
                  HasSubstr("gradients, line 5: the name 'fc' is that of gradients, line 2 already")));
  EXPECT_THAT(
      [] { (void)gradients_of_json(json::parse(R"([{"name": "gradient 1", "elements": 1}, {"elements": 1}])")); },
      ThrowsMessage<InvalidArgument>(HasSubstr("gradients[1]: the name 'gradient 1' is that of gradients[0]")));
  EXPECT_THAT(table("elements\n4611686018427387904"), ThrowsMessage<OutOfRange>(HasSubstr("64 bits")));
}

// ---- of others ----

TEST(DdpLogging, IsReadWithRebuiltBuckets) {
  const auto gradients = of_sizes({8, 4, 2});
  const Plan plan = plan_of_ddp_logging(json::parse(R"({"num_parameter_tensors": 3, "rebuilt_bucket_sizes": "24, 32",
                      "rebuilt_per_bucket_param_indices": "2 1, 0", "bucket_sizes": "56"})"),
                                        gradients);
  EXPECT_EQ(indices_of(plan), (Indices{{2, 1}, {0}}));
  EXPECT_TRUE(check_plan(plan, gradients, {.order = std::vector{2, 1, 0}}).empty());
}

TEST(DdpLogging, IsReadFromSizesAlone) {
  auto gradients = of_sizes({8, 4, 2, 0});
  EXPECT_EQ(indices_of(plan_of_ddp_logging({{"bucket_sizes", "8, 48"}}, gradients)), (Indices{{2, 3}, {0, 1}}));
  gradients = of_sizes({8, 4, 2, 6});
  gradients[1].dtype = gradients[3].dtype = comm::DType::f64;
  EXPECT_EQ(indices_of(plan_of_ddp_logging({{"bucket_sizes", "48, 32, 40"}}, of_sizes({8, 2, 8, 12}))),
            (Indices{{3}, {2}, {0, 1}}));
  EXPECT_EQ(indices_of(plan_of_ddp_logging({{"bucket_sizes", "80, 40"}}, gradients)), (Indices{{1, 3}, {0, 2}}));
  gradients[0].sparse = true;
  gradients[2].dtype = comm::DType::f64;
  EXPECT_EQ(indices_of(plan_of_ddp_logging({{"bucket_sizes", "96, 32"}}, gradients)), (Indices{{1, 2, 3}, {0}}));
}

TEST(DdpLogging, IsRefusedWhereItIsOfAnotherModel) {
  const auto refused = [](const char* text) {
    return [text] { (void)plan_of_ddp_logging(json::parse(text), of_sizes({8, 4, 2})); };
  };
  EXPECT_THAT(refused(R"({"bucket_sizes": "57"})"), ThrowsMessage<InvalidArgument>(HasSubstr("a bucket of 57 bytes")));
  EXPECT_THAT(refused(R"({"bucket_sizes": "32"})"), ThrowsMessage<InvalidArgument>(HasSubstr("gradient 1 is in none")));
  EXPECT_THAT(refused(R"({"bucket_sizes": "56x"})"), ThrowsMessage<InvalidArgument>(HasSubstr("blanks and commas")));
  EXPECT_THAT(refused(R"({})"), ThrowsMessage<InvalidArgument>(HasSubstr("bucket_sizes is missing")));
  EXPECT_THAT(refused(R"({"num_parameter_tensors": 4, "bucket_sizes": "56"})"),
              ThrowsMessage<InvalidArgument>(HasSubstr("num_parameter_tensors is 4; there are 3 gradients")));
  EXPECT_THAT(refused(R"({"rebuilt_per_bucket_param_indices": "3"})"),
              ThrowsMessage<InvalidArgument>(HasSubstr("gradient 3; there are 3")));
  EXPECT_THAT(refused(R"({"rebuilt_per_bucket_param_indices": "2 1, 0", "rebuilt_bucket_sizes": "24, 33"})"),
              ThrowsMessage<InvalidArgument>(HasSubstr("another model")));
}

TEST(MegatronLayouts, AreReadWithTheirPadding) {
  const auto gradients = of_sizes({1875, 48, 46});
  const Plan plan = plan_of_megatron_layout(json::parse(R"({"param_index": [[256, 2131, 2], [128, 176, 1], [0, 46, 0]],
                      "bucket_indices": [[0, 128], [128, 256], [256, 2176]], "per_bucket_numel_unpadded": [46, 64, 1875]})"),
                                            gradients);
  EXPECT_EQ(indices_of(plan), (Indices{{2}, {1}, {0}}));
  EXPECT_EQ(plan.buckets[2].elements, 1920);
  EXPECT_TRUE(check_plan(plan, gradients, {.member_alignment = 64, .bucket_alignment = 128}).empty());
  const auto refused = [&](const char* text) {
    return [&gradients, text] { (void)plan_of_megatron_layout(json::parse(text), gradients); };
  };
  EXPECT_THAT(refused(R"({"param_index": [], "bucket_indices": []})"),
              ThrowsMessage<InvalidArgument>(HasSubstr("0 parameters")));
  EXPECT_THAT(refused(R"({"param_index": [[0, 1875, 0], [0, 48, 0], [0, 45, 0]], "bucket_indices": [[0, 1]]})"),
              ThrowsMessage<InvalidArgument>(HasSubstr("param_index[2] is from 0 to 45")));
  EXPECT_THAT(refused(R"({"param_index": [[0, 1875, 0], [0, 48, 7], [0, 46, 0]], "bucket_indices": [[0, 1]]})"),
              ThrowsMessage<InvalidArgument>(HasSubstr("param_index[1] is in bucket 7; there are 1")));
  EXPECT_THAT(refused(R"({"param_index": [[0, 1875, 0], [0, 48, 0], [0, 46, 0]], "bucket_indices": [[4, 1]]})"),
              ThrowsMessage<InvalidArgument>(HasSubstr("bucket_indices[0] is from 4 to 1")));
}

TEST(PaddleGroups, AreReadByName) {
  const auto gradients = of_sizes({8, 4, 2});
  const std::vector<std::string> names{"w@GRAD", "v@GRAD", "b@GRAD"};
  const json groups =
      json::parse(R"([{"gradients": ["b@GRAD", "v@GRAD"], "numel": 6, "dtype": "float32", "ring_id": 12},
                                      {"gradients": ["w@GRAD"], "numel": 8}])");
  EXPECT_EQ(indices_of(plan_of_paddle_groups(groups, names, gradients)), (Indices{{2, 1}, {0}}));
  EXPECT_THAT([&] { (void)plan_of_paddle_groups(json::parse(R"([{"gradients": ["x"]}])"), names, gradients); },
              ThrowsMessage<InvalidArgument>(HasSubstr("groups[0].gradients has 'x'")));
  EXPECT_THAT(
      [&] { (void)plan_of_paddle_groups(json::parse(R"([{"gradients": ["w@GRAD"], "numel": 9}])"), names, gradients); },
      ThrowsMessage<InvalidArgument>(HasSubstr("numel is 9")));
  EXPECT_THAT([&] { (void)plan_of_paddle_groups(groups, std::vector<std::string>{"a", "b", "a"}, gradients); },
              ThrowsMessage<InvalidArgument>(HasSubstr("gradients 0 and 2 are both called 'a'")));
}

}  // namespace
}  // namespace plumbline::bucketing

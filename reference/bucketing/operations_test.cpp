// The operations about gradient buckets: what is read, what is answered, what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/adapter/ask_reference.hpp"

namespace plumbline::adapter {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(BucketingAssign, TakesOneTypeForAllOrOneEach) {
  EXPECT_EQ(ask("bucketing.assign", R"({"numel": [4, 4, 4], "dtype": "f32", "limits": [32]})"),
            json::parse(R"({"buckets": [[0, 1], [2]], "bucket_limits": [32, 32]})"));
  EXPECT_EQ(ask("bucketing.assign", R"({"numel": [4, 4, 4], "dtype": ["f32", "c64", "f32"], "limits": [32],
                "device": ["cpu", "cpu", "meta"], "convention": "torch"})"),
            json::parse(R"({"buckets": [[0], [1], [2]], "bucket_limits": [32, 32, 32]})"));
}

TEST(BucketingAssign, TakesAsTorchDoesIndicesThatAreNoOrder) {
  EXPECT_EQ(
      ask("bucketing.assign",
          R"({"convention": "torch", "numel": [3, 4], "dtype": "f32", "limits": [99], "tensor_indices": [7, 3, 1]})"),
      json::parse(R"({"buckets": [[7, 3]], "bucket_limits": [99]})"));
  EXPECT_THAT(
      error_of("bucketing.assign",
               R"({"convention": "torch", "numel": [3, 4], "dtype": "f32", "limits": [99], "tensor_indices": [7]})"),
      HasSubstr("tensor_indices has 1 entries for 2 tensors"));
  EXPECT_THAT(error_of("bucketing.assign", R"({"convention": "torch", "numel": [], "dtype": "f32", "limits": [99]})"),
              HasSubstr("numel has no tensors"));
  EXPECT_THAT(error_of("bucketing.assign", R"({"convention": "torch", "numel": [1, 1], "dtype": "f32", "limits": [99],
                       "expect_sparse_gradient": [true, false], "tensor_indices": [0, 2]})"),
              HasSubstr("tensor_indices[1] is 2, and expect_sparse_gradient has 2"));
}

TEST(BucketingAssign, RefusesInOneLine) {
  EXPECT_THAT(error_of("bucketing.assign", R"({"numel": [4, -1], "dtype": "f32", "limits": [1]})"),
              HasSubstr("gradient 1 has -1 elements"));
  EXPECT_THAT(error_of("bucketing.assign", R"({"numel": [4], "dtype": "f33", "limits": [1]})"),
              HasSubstr("dtype must be f16, bf16, f32"));
  EXPECT_THAT(error_of("bucketing.assign", R"({"numel": [4], "dtype": [], "limits": [1]})"),
              HasSubstr("dtype has 0 entries for 1 gradients"));
  EXPECT_THAT(error_of("bucketing.assign", R"({"numel": [4], "dtype": "f32", "limits": []})"),
              HasSubstr("there is no limit"));
  EXPECT_THAT(error_of("bucketing.assign", R"({"numel": [4], "dtype": "f32", "limits": [1], "convention": "horovod"})"),
              HasSubstr("plumbline, torch"));
}

TEST(BucketingRuns, LaunchAsDdpDoes) {
  EXPECT_EQ(ask("bucketing.ddp_runs", R"({"convention": "torch", "numel": [4, 4], "dtype": "f32", "iterations": 2,
                "ready": [1, 0]})"),
            json::parse(R"({"launches": [[{"index": 0, "numel": 8, "is_last": true, "params": [0, 1]}],
                                         [{"index": 0, "numel": 8, "is_last": true, "params": [1, 0]}]]})"));
  EXPECT_THAT(error_of("bucketing.ddp_runs", R"({"numel": [4], "dtype": "f32", "iterations": 1001})"),
              HasSubstr("1000"));
}

TEST(BucketingLayout, PadsForAnOptimizerAlone) {
  EXPECT_EQ(ask("bucketing.layout", R"({"numel": [10, 3], "data_parallel_world_size": 3})"),
            json::parse(R"({"param_index": [[64, 74, 0], [0, 3, 0]], "bucket_indices": [[0, 384]],
                            "per_bucket_numel_unpadded": [74]})"));
  EXPECT_THAT(error_of("bucketing.layout", R"({"numel": [10], "shared_embedding": [0]})"),
              HasSubstr("data_parallel_world_size is missing"));
}

TEST(BucketingBuffers, AreOfOneTypeAndGroup) {
  EXPECT_EQ(ask("bucketing.buffers", R"({"numel": [10, 3, 7, 5], "dtype": ["bf16", "f32", "bf16", "bf16"],
                                         "expert": [2], "grad_reduce_in_fp32": true})"),
            json::parse(R"({"buffers": [
              {"dtype": "bf16", "grad_dtype": "f32", "expert": false, "params": [0, 3],
               "param_index": [[5, 15, 0], [0, 5, 0]], "bucket_indices": [[0, 15]],
               "per_bucket_numel_unpadded": [15]},
              {"dtype": "f32", "grad_dtype": "f32", "expert": false, "params": [1],
               "param_index": [[0, 3, 0]], "bucket_indices": [[0, 3]], "per_bucket_numel_unpadded": [3]},
              {"dtype": "bf16", "grad_dtype": "f32", "expert": true, "params": [2],
               "param_index": [[0, 7, 0]], "bucket_indices": [[0, 7]], "per_bucket_numel_unpadded": [7]}]})"));
  const json sharded = ask("bucketing.buffers", R"({"numel": [10, 3, 7], "dtype": "f16", "expert": [1, 2],
      "data_parallel_world_size": 3, "expert_data_parallel_world_size": 5, "shared_embedding": [2]})");
  EXPECT_EQ(sharded.at("buffers")[0].at("bucket_indices"), json::parse("[[0, 384]]"));
  EXPECT_EQ(sharded.at("buffers")[1].at("bucket_indices"), json::parse("[[0, 640], [640, 1280]]"));
  EXPECT_EQ(ask("bucketing.buffers", R"({"numel": [], "dtype": "f16"})"), json::parse(R"({"buffers": []})"));
  EXPECT_THAT(error_of("bucketing.buffers", R"({"numel": [1], "dtype": "f32", "expert": [1]})"),
              HasSubstr("expert has parameter 1 of 1"));
  EXPECT_THAT(error_of("bucketing.buffers", R"({"numel": [1], "dtype": "f32", "expert_data_parallel_world_size": 2})"),
              HasSubstr("without data_parallel_world_size"));
  EXPECT_THAT(error_of("bucketing.buffers", R"({"numel": [1, 2], "dtype": ["f32"]})"), HasSubstr("1 entries for 2"));
}

TEST(BucketingFlatten, KnowsGroups) {
  EXPECT_EQ(ask("bucketing.flatten",
                R"({"convention": "colossalai", "numel": [1, 2, 3], "dtype": "f32", "group": [1, 0, 1]})"),
            json::parse(R"({"buckets": [[0, 2], [1]], "groups": [1, 0], "numel": [4, 2]})"));
  EXPECT_THAT(
      error_of("bucketing.flatten",
               R"({"convention": "colossalai", "numel": [1], "dtype": "f32", "expect_sparse_gradient": [true]})"),
      HasSubstr("gradient 0 is sparse"));
  EXPECT_THAT(
      error_of("bucketing.flatten", R"({"convention": "colossalai", "numel": [1], "dtype": "f32", "fused": false})"),
      HasSubstr("always fuse"));
}

TEST(BucketingCheck, SaysWhatIsWrongWithAPlanThatCoversAGradientTwiceOrNotAtAll) {
  const json found = ask("bucketing.check", R"({"gradients": [{"elements": 3}, {"elements": 4}],
      "plan": {"buckets": [{"dtype": "f32", "elements": 6, "members": [[0, 0], [0, 3]]}]}})");
  EXPECT_EQ(found.at("valid"), false);
  EXPECT_EQ(found.at("problems").at(0).at("message"), "gradient 0 is in 2 places");
  EXPECT_EQ(found.at("problems").at(1).at("message"), "gradient 1 is in no bucket");
  EXPECT_THAT(error_of("bucketing.check", R"({"gradients": [], "plan": {"buckets": [{"elements": 1}]}})"),
              HasSubstr("plan.buckets[0].dtype is missing"));
}

TEST(BucketingExposed, AnswersAndRefuses) {
  EXPECT_EQ(
      ask("bucketing.equal_buckets", R"({"backward": 16, "bytes": 0, "buckets": [1], "world_size": 1, "latency": 1})"),
      json::parse(R"({"exposed": [0.0], "best_count": "inf"})"));
  EXPECT_THAT(
      error_of("bucketing.exposed", R"({"plan": {"buckets": []}, "ready": ["nan"], "backward": 1, "world_size": 2})"),
      HasSubstr("no time"));
}

TEST(BucketingAgree, NamesTheParameter) {
  const json answer = ask("bucketing.agree", R"({"ranks": [
      {"gradients": [{"name": "w", "elements": 3}], "plan": {"buckets": []}},
      {"gradients": [{"name": "w", "elements": 4}], "plan": {"buckets": []}}]})");
  EXPECT_EQ(answer.at("agrees"), false);
  EXPECT_THAT(answer.at("differences").at(1).at("message").get<std::string>(),
              HasSubstr("ranks disagree on w: rank 0: 3"));
  EXPECT_THAT(error_of("bucketing.agree", R"({"ranks": []})"), HasSubstr("1 to 64 ranks"));
}

}  // namespace
}  // namespace plumbline::adapter

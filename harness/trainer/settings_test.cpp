// The trainer's settings out of TOML.
#include "harness/trainer/settings.hpp"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/bucketing/reducer.hpp"
#include "reference/comm/errors.hpp"
#include "reference/support/temporary_folder.hpp"
#include "reference/training/gradient_settings.hpp"

namespace plumbline::training {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& text) {
  try {
    (void)parse_trainer_settings(text, "t.toml");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(TrainerSettingsTest, TheExamplesAreTheDefaults) {
  const TrainerSettings settings =
      parse_trainer_settings("NUM_MICRO_BATCHES = 4\nparallel = {pipeline = 2}\n", "t.toml");
  EXPECT_EQ(settings, TrainerSettings{});
  EXPECT_EQ(settings.batch_size, 64);
  EXPECT_EQ(settings.epochs, 60);
  EXPECT_EQ(settings.chunks, 1);
}

TEST(TrainerSettingsTest, ReadsEveryField) {
  const TrainerSettings settings = parse_trainer_settings(
      "BATCH_SIZE = 24\nNUM_EPOCHS = 7\nNUM_MICRO_BATCHES = 6\nNUM_CHUNKS = 2\ntensor_shape = [4, 8, 2]\n"
      "LEARNING_RATE = 0.5\nWARMUP_EPOCHS = 2\nSEED = 9\ngradient_accumulation = 3\n[parallel]\npipeline = {size = 3}\n"
      "tensor = {size = 4, mode = '2d'}\ndata = 5\n[fp16]\nmode = 'naive'\n[resnet]\nblock = 'bottleneck'\nlayers = "
      "[1, 2, 3, 4]\n"
      "num_classes = 10\nzero_init_residual = true\ngroups = 32\nwidth_per_group = 4\n"
      "replace_stride_with_dilation = [false, true, false]\nplanes = 16\n",
      "t.toml");
  const TrainerSettings expected{.batch_size = 24,
                                 .epochs = 7,
                                 .micro_batches = 6,
                                 .chunks = 2,
                                 .tensor_shape = {4, 8, 2},
                                 .learning_rate = 0.5,
                                 .warmup_epochs = 2,
                                 .seed = 9,
                                 .pipeline = 3,
                                 .tensor = 4,
                                 .tensor_mode = "2d",
                                 .data = 5,
                                 .accumulation = 3,
                                 .fp16 = "naive",
                                 .resnet = {.layers = {1, 2, 3, 4},
                                            .classes = 10,
                                            .zero_init_residual = true,
                                            .groups = 32,
                                            .width_per_group = 4,
                                            .replace_stride_with_dilation = {false, true, false},
                                            .planes = 16}};
  EXPECT_EQ(settings, expected);
  EXPECT_EQ(parse_trainer_settings("[parallel]\ntensor = 2\n", "t.toml").tensor, 2);
}

TEST(TrainerSettingsTest, NamesThePlaceAndTheNearestKnownField) {
  EXPECT_EQ(error_of("BATCH_SIZE = 8\nNUM_MICROBATCHES = 4\n"),
            "t.toml:2:1: unknown field NUM_MICROBATCHES; did you mean NUM_MICRO_BATCHES?");
  EXPECT_EQ(error_of("num_chunks = 2\n"), "t.toml:1:1: unknown field num_chunks; did you mean NUM_CHUNKS?");
  EXPECT_EQ(error_of("[parallel]\n  pipelines = 2\n"),
            "t.toml:2:3: unknown field parallel.pipelines; did you mean parallel.pipeline?");
  EXPECT_EQ(error_of("[parallel]\ntensor = {size = 2, mod = '1d'}\n"),
            "t.toml:2:21: unknown field parallel.tensor.mod; did you mean parallel.tensor.mode?");
  EXPECT_EQ(error_of("[parallel.pipeline]\nsizes = 2\n"),
            "t.toml:2:1: unknown field parallel.pipeline.sizes; did you mean parallel.pipeline.size?");
}

TEST(TrainerSettingsTest, NamesThePlaceOfAValueThatIsWrong) {
  EXPECT_EQ(error_of("BATCH_SIZE = 10\n"),
            "t.toml:1:14: BATCH_SIZE = 10; it must be a multiple of NUM_MICRO_BATCHES = 4");
  EXPECT_EQ(error_of("\nNUM_EPOCHS = 0\n"), "t.toml:2:14: NUM_EPOCHS = 0; it must be at least 1");
  EXPECT_EQ(error_of("[parallel]\ntensor = {size = 0}\n"), "t.toml:2:10: parallel.tensor = 0; it must be 1 to 1048576");
  EXPECT_EQ(error_of("tensor_shape = [4, 0]\n"),
            "t.toml:1:16: tensor_shape = [4, 0]; it must be a list of whole numbers from 1 on");
  EXPECT_EQ(error_of("[parallel]\npipeline = 1048576\ndata = 2\n"),
            "t.toml:3:8: parallel.data = 2; it must be such that the world has at most 1048576 ranks");
  EXPECT_THAT(error_of("[parallel]\npipeline = 1048576\ndata = 1048576\ntensor = 1048576\n"),
              HasSubstr("at most 1048576 ranks"));
  EXPECT_EQ(error_of("NUM_CHUNKS = 2147483647\n"),
            "t.toml:1:14: NUM_CHUNKS = 2147483647; it must be such that there are at most 1048576 stages");
  EXPECT_THAT(error_of("tensor_shape = [4294967296, 4294967296]\n"),
              HasSubstr("it must be of at most 1099511627776 elements"));
  EXPECT_THAT(error_of("tensor_shape = 4\n"), HasSubstr("tensor_shape = 4; it must be a list of whole numbers"));
  EXPECT_THAT(error_of("LEARNING_RATE = inf\n"), HasSubstr("LEARNING_RATE = inf; it must be a finite number above 0"));
  EXPECT_THAT(error_of("WARMUP_EPOCHS = 61\n"), HasSubstr("it must be 0 to NUM_EPOCHS = 60"));
  EXPECT_THAT(error_of("NUM_CHUNKS = 'two'\n"),
              HasSubstr("t.toml:1:14: NUM_CHUNKS = 'two'; it must be a whole number"));
  EXPECT_THAT(error_of("[parallel]\ntensor = {size = 1, mode = '4d'}\n"),
              HasSubstr("one of 1d, 2d, 2.5d, 3d, sequence"));
  EXPECT_THAT(error_of("fp16 = {mode = 'apex'}\n"), HasSubstr("fp16.mode = 'apex'; it must be one of naive"));
  EXPECT_EQ(error_of("[fp16]\n"), "t.toml:1:1: fp16.mode is missing");
  EXPECT_EQ(error_of("[zero]\nlevel = 2\n"),
            "t.toml:2:9: zero.level = 2; it must be 0: a sharded optimizer gives gradients away while a pipeline still "
            "adds to them");
  EXPECT_EQ(error_of("gradient_accumulation = 0\n"), "t.toml:1:25: gradient_accumulation = 0; it must be at least 1");
  EXPECT_EQ(error_of("[resnet]\nlayers = [3, 4, 6]\n"),
            "t.toml:2:10: resnet.layers = [3, 4, 6]; it must be four numbers of blocks");
  EXPECT_EQ(error_of("[resnet]\nblock = 'basic'\ngroups = 2\n"),
            "t.toml:3:10: resnet.groups = 2; it must be 1 with block = 'basic'");
  EXPECT_EQ(error_of("[resnet]\nplanes = 4\nwidth_per_group = 15\n"),
            "t.toml:3:19: resnet.width_per_group = 15; it must be at least 64 / planes = 16");
  EXPECT_EQ(error_of("[resnet]\nreplace_stride_with_dilation = [true]\n"),
            "t.toml:2:32: resnet.replace_stride_with_dilation = a list of 1; it must be three of true and false");
  EXPECT_EQ(error_of("[resnet]\nnum_class = 10\n"),
            "t.toml:2:1: unknown field resnet.num_class; did you mean resnet.num_classes?");
  EXPECT_THAT(error_of("parallel = 3\n"), HasSubstr("it must be a table"));
  EXPECT_THAT(error_of("BATCH_SIZE = \n"), HasSubstr("t.toml:1:"));
}

TEST(TrainerSettingsTest, ReadsAFile) {
  const job::TemporaryFolder folder;
  std::ofstream(folder.path() / "t.toml") << "SEED = 5\n";
  EXPECT_EQ(read_trainer_settings(folder.path() / "t.toml").seed, 5u);
  EXPECT_THROW((void)read_trainer_settings(folder.path() / "none.toml"), NotFound);
  EXPECT_THROW((void)read_trainer_settings(folder.path()), NotFound);
}

TEST(TrainerSettingsTest, AConfigurationTellsAllFieldsApart) {
  const Configuration base = configuration_of({});
  const std::vector<TrainerSettings> others{
      {.batch_size = 32},     {.epochs = 5},        {.micro_batches = 8}, {.chunks = 2},     {.tensor_shape = {1}},
      {.learning_rate = 0.1}, {.warmup_epochs = 4}, {.seed = 2},          {.pipeline = 4},   {.tensor = 2},
      {.tensor_mode = "1d"},  {.data = 2},          {.accumulation = 2},  {.fp16 = "naive"}, {.resnet = {.groups = 2}}};
  EXPECT_EQ(others.size(), base.size());
  for (std::size_t i = 0; i < others.size(); ++i) {
    const Configuration other = configuration_of(others[i]);
    for (std::size_t field = 0; field < base.size(); ++field) EXPECT_EQ(other[field] != base[field], field == i) << i;
  }
}

TEST(GradientSettingsTest, AreOptionsOfAReducer) {
  EXPECT_FALSE(options_of(GradientSettings(), {}).wire);
  EXPECT_FALSE(options_of(GradientSettings(), {}).join);
  EXPECT_EQ(options_of({.compression = "fp16"}, {}).wire, comm::DType::f16);
  EXPECT_EQ(options_of({.compression = "bf16"}, {}).wire, comm::DType::bf16);
  EXPECT_EQ(options_of({.join = "present"}, {}).join_divisor, bucketing::JoinDivisor::present_ranks);
  EXPECT_TRUE(options_of({.join = "all"}, {}).join);
  EXPECT_EQ(options_of({.join = "all"}, {}).join_divisor, bucketing::JoinDivisor::initial_world);
  EXPECT_EQ(options_of({.static_graph = true}, {}).unused, bucketing::Unused::static_graph);
}

TEST(GradientSettingsTest, AreHooksOfAReducer) {
  for (const char* compression : {"int8", "int8-channel", "powersgd"}) {
    const bucketing::ReducerOptions options = options_of({.compression = compression}, {});
    EXPECT_TRUE(options.hook.start && options.hook.finish) << compression;
    EXPECT_FALSE(options.wire) << compression;
  }
  EXPECT_EQ(wire_of({.compression = "int8"}), comm::DType::u8);
  EXPECT_FALSE(wire_of({.compression = "powersgd"}));
  EXPECT_FALSE(power_sgd_of({.compression = "int8"}));
  EXPECT_EQ(power_sgd_of({.compression = "powersgd"})->rank, 1);
  EXPECT_EQ(power_sgd_of({.compression = "powersgd"})->start, 1000);
  EXPECT_EQ(power_sgd_of({.compression = "powersgd:4"})->rank, 4);
  EXPECT_EQ(power_sgd_of({.compression = "powersgd:4:0"})->start, 0);
}

TEST(GradientSettingsTest, SayWhatIsImpossible) {
  const auto error_of = [](const GradientSettings& settings) -> std::string {
    try {
      require_possible(settings);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_EQ(error_of({.compression = "int4"}),
            "compression 'int4'; it must be fp16, bf16, int8, int8-channel, powersgd[:RANK[:START]]");
  for (const char* wrong : {"powersgd:", "powersgd:0", "powersgd:-1", "powersgd:2:", "powersgd:2:3:4", "powersgd:2x",
                            "powersgd:99999999999", "powersgd2", "powersgd[:RANK[:START]]"})
    EXPECT_EQ(
        error_of({.compression = wrong}),
        fmt::format("compression '{}'; RANK is 1 or more, and START 0 or more, in powersgd[:RANK[:START]]", wrong));
  EXPECT_THAT(error_of({.compression = "int8", .join = "present"}), HasSubstr("its means are over all ranks"));
  EXPECT_EQ(error_of({.join = "some"}), "join 'some'; it must be present, all");
  EXPECT_EQ(error_of({.bucket_bytes = -1}), "buckets of -1 bytes; 0 or more are possible");
  EXPECT_THAT(error_of({.join = "all", .static_graph = true}), HasSubstr("join 'all' with a static graph"));
}

}  // namespace
}  // namespace plumbline::training

#include "reference/record/run_spec.hpp"

#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"
#include "reference/record/layout.hpp"
#include "reference/support/temporary_folder.hpp"

namespace plumbline::job {
namespace {

using testing::HasSubstr;

constexpr std::string_view kFull = R"(protocol = 1
seed = 7
[parallel]
pipeline = 2
data = 2
tensor = 1
order = ["pipeline", "data", "tensor"]
[run]
steps = 4
global_batch = 32
micro_batches = 2
accumulation = 3
dtype = "bfloat16"
schedule = "interleaved-1f1b"
chunks = 2
bucket_bytes = 1024
device = "cuda:1"
[model]
stages = [0, 2, 4, 6]
[[model.layer]]
type = "embedding"
rows = 100
features = 16
[[model.layer]]
type = "layer_norm"
features = 16
[[model.layer]]
type = "linear"
in = 16
out = 16
bias = false
[[model.layer]]
type = "gelu"
[[model.layer]]
type = "tanh"
[[model.layer]]
type = "relu"
[[model.layer]]
type = "tied_linear"
with = 0
[loss]
type = "cross_entropy"
[optimizer]
type = "adam"
lr = 1e-3
betas = [0.9, 0.99]
eps = 1e-6
[scaler]
kind = "dynamic"
init_scale = 1024
growth_factor = 4.0
backoff_factor = 0.25
growth_interval = 2
[[inject]]
step = 2
rank = 1
parameter = "0.weight"
index = 3
value = "-inf"
moment = "reduced"
[[inject]]
step = 3
rank = 3
parameter = "0.weight"
index = 0
value = 2.5
moment = "local"
[files]
weights = "w.safetensors"
batches = "sub/b.safetensors"
)";

constexpr std::string_view kShort = R"(protocol = 1
[run]
steps = 1
global_batch = 8
[model]
[[model.layer]]
type = "conv2d"
in = 1
out = 2
kernel = 3
[[model.layer]]
type = "batch_norm2d"
features = 2
[[model.layer]]
type = "flatten"
[loss]
type = "mse"
[optimizer]
type = "sgd"
lr = 1
)";

std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string result(text);
  const auto at = result.find(what);
  EXPECT_NE(at, std::string::npos) << "the test's own text has no '" << what << "'";
  return result.replace(at, what.size(), with);
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_run_spec(text, "run/spec.toml");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(RunSpec, ReadsEveryField) {
  const RunSpec spec = parse_run_spec(kFull, "run/spec.toml");
  EXPECT_EQ(spec.seed, 7u);
  EXPECT_EQ(spec.parallel.pipeline, 2);
  EXPECT_EQ(spec.parallel.world(), 4);
  EXPECT_EQ(spec.run.steps, 4);
  EXPECT_EQ(spec.run.global_batch, 32);
  EXPECT_EQ(spec.run.micro_batches, 2);
  EXPECT_EQ(spec.run.accumulation, 3);
  EXPECT_EQ(spec.run.dtype, "bfloat16");
  EXPECT_EQ(spec.run.schedule, "interleaved-1f1b");
  for (const char* name : {"interleaved", "Interleaved1F1B", "ScheduleInterleaved1F1B"}) {
    std::string other(kFull);
    other.replace(other.find("interleaved-1f1b"), std::string("interleaved-1f1b").size(), name);
    EXPECT_EQ(parse_run_spec(other, "run/spec.toml").run.schedule, "interleaved-1f1b") << name;
  }
  EXPECT_EQ(spec.run.chunks, 2);
  EXPECT_EQ(spec.run.bucket_bytes, 1024);
  EXPECT_EQ(spec.run.device, "cuda:1");
  EXPECT_EQ(spec.stages, (std::vector{0, 2, 4, 6}));
  ASSERT_EQ(spec.layers.size(), 7u);
  EXPECT_EQ(std::get<Embedding>(spec.layers[0]).rows, 100);
  EXPECT_FALSE(std::get<Linear>(spec.layers[2]).bias);
  EXPECT_EQ(std::get<TiedLinear>(spec.layers[6]).with, 0);
  const Adam& adam = std::get<Adam>(spec.optimizer);
  EXPECT_EQ(adam.lr, 1e-3);
  EXPECT_EQ(adam.betas, (std::array{0.9, 0.99}));
  ASSERT_TRUE(spec.scaler);
  EXPECT_EQ(spec.scaler->growth_factor, 4);
  ASSERT_EQ(spec.injections.size(), 2u);
  EXPECT_TRUE(std::isinf(spec.injections[0].value));
  EXPECT_TRUE(spec.injections[0].reduced);
  EXPECT_EQ(spec.injections[1].value, 2.5);
  EXPECT_EQ(spec.weights_file(), "run/w.safetensors");
  EXPECT_EQ(spec.batches_file(), "run/sub/b.safetensors");
}

TEST(RunSpec, FillsInDefaults) {
  const RunSpec spec = parse_run_spec(kShort, "spec.toml");
  EXPECT_EQ(spec.parallel.world(), 1);
  EXPECT_EQ(spec.run.dtype, "float32");
  EXPECT_EQ(spec.run.schedule, "1f1b");
  const Conv2d& conv = std::get<Conv2d>(spec.layers[0]);
  EXPECT_EQ(conv.stride, 1);
  EXPECT_EQ(conv.padding, 0);
  EXPECT_TRUE(conv.bias);
  EXPECT_EQ(std::get<Sgd>(spec.optimizer).momentum, 0);
  EXPECT_EQ(spec.loss, Loss::mse);
  EXPECT_FALSE(spec.scaler);
  EXPECT_EQ(spec.weights_file(), "weights.safetensors");
}

TEST(RunSpec, WritesWhatItReads) {
  for (const std::string_view text : {kFull, kShort}) {
    const std::string once = to_toml(parse_run_spec(text, "spec.toml"));
    EXPECT_EQ(to_toml(parse_run_spec(once, "spec.toml")), once);
  }
  const std::string full = to_toml(parse_run_spec(kFull, "spec.toml"));
  for (const char* line : {"micro_batches = 2\n", "bias = false\n", "betas = [0.9, 0.99]\n", "value = \"-inf\"\n",
                           "moment = \"reduced\"\n", "order = [\"pipeline\", \"data\", \"tensor\"]\n",
                           "init_scale = 1024.0\n", "batches = \"sub/b.safetensors\"\n"})
    EXPECT_THAT(full, HasSubstr(line));
}

// Job programs of earlier formats may reject fields that they do not know.
TEST(RunSpec, HasFieldsOfLaterFormatsOnlyWhereTheyAreUsed) {
  RunSpec spec = parse_run_spec(kShort, "spec.toml");
  for (const char* added : {"row_weights", "[clip]", "[averaging]", "[lr_schedule]", "no_decay", "frozen",
                            "[checkpoint]", "shard", "expert"})
    EXPECT_EQ(to_toml(spec).find(added), std::string::npos) << added;
  spec.row_weights = true;
  EXPECT_THAT(to_toml(spec), HasSubstr("[loss]\ntype = \"mse\"\nrow_weights = true\n"));
  EXPECT_TRUE(parse_run_spec(to_toml(spec), "spec.toml").row_weights);
}

TEST(RunSpec, GoesThroughAFile) {
  const TemporaryFolder folder;
  write_run_spec(parse_run_spec(kFull, "elsewhere/spec.toml"), folder.path() / "spec.toml");
  const RunSpec spec = read_run_spec(folder.path() / "spec.toml");
  EXPECT_EQ(spec.weights_file(), folder.path() / "w.safetensors");
  EXPECT_EQ(to_toml(spec), to_toml(parse_run_spec(kFull, "spec.toml")));
}

TEST(RunSpec, SaysWhichFileIsMissing) {
  const TemporaryFolder folder;
  EXPECT_THROW((void)read_run_spec(folder.path() / "none.toml"), NotFound);
  EXPECT_THROW((void)read_run_spec(folder.path()), NotFound);
  EXPECT_THROW(write_run_spec(parse_run_spec(kShort, ""), folder.path() / "none" / "spec.toml"), RuntimeFailure);
}

struct BadSpec {
  std::string_view what;
  std::string_view with;
  std::string_view error;
};

TEST(RunSpec, NamesPlaceFieldValueAndWhatWouldBeRight) {
  const BadSpec bad[] = {
      {"steps = 4", "steps = 0", "run/spec.toml:9:9: run.steps = 0; it must be at least 1"},
      {"steps = 4", "steps = 4.5", "run/spec.toml:9:9: run.steps = 4.5; it must be a whole number"},
      {"steps = 4", "steps = 3000000000", "run.steps = 3000000000; it must be a whole number"},
      {"steps = 4\n", "", "spec.toml:8:1: run.steps is missing"},
      {"global_batch = 32", "global_batch = 34",
       "run/spec.toml:10:16: run.global_batch = 34; it must be a multiple of parallel.data x "
       "run.micro_batches = 4"},
      {"protocol = 1", "protocol = 2", "run/spec.toml:1:12: protocol = 2; it must be 1"},
      {"seed = 7", "seed = -1", "seed = -1; it must be a whole number, 0 to"},
      {"seed = 7", "sede = 7", "run/spec.toml:2:1: unknown field sede; known are"},
      {"bias = false", "baias = false", "unknown field model.layer[2].baias; known are bias, in, out, type"},
      {"type = \"gelu\"", "type = \"silu\"", "model.layer[3].type = 'silu'; it must be one of linear, relu, gelu"},
      {"data = 2", "data = 0", "parallel.data = 0; it must be at least 1"},
      {"data = 2", "data = 2000000", "parallel.data = 2000000; it must be at most 1048576"},
      {"order = [\"pipeline\", \"data\", \"tensor\"]", "order = [\"pipeline\", \"data\"]",
       "parallel.order = [pipeline, data]; it must be pipeline, data and tensor, each once"},
      {"type = \"gelu\"", "type = \"gellu\"", "; did you mean gelu?"},
      {"dtype = \"bfloat16\"", "dtype = \"bf16\"", "run.dtype = 'bf16'; it must be one of float32, bfloat16, float16"},
      {"schedule = \"interleaved-1f1b\"", "schedule = \"1f1b\"", "run.chunks = 2; it must be 1 with schedule '1f1b'"},
      {"stages = [0, 2, 4, 6]", "stages = [0, 2]",
       "model.stages = [0, 2]; it must be the first layers of parallel.pipeline x run.chunks = 4"},
      {"stages = [0, 2, 4, 6]", "stages = [0, 4, 2, 6]",
       "run/spec.toml:19:10: model.stages = [0, 4, 2, 6]; it must be ascending"},
      {"stages = [0, 2, 4, 6]", "stages = [0, 2, 4, 7]", "it must be of layers that there are, 0 to 6"},
      {"stages = [0, 2, 4, 6]", "stages = [1, 2, 4, 6]", "it must be a list that begins with layer 0"},
      {"with = 0", "with = 1",
       "model.layer[6].with = 1; it must be the number of an earlier linear or embedding layer"},
      {"with = 0", "with = 6", "model.layer[6].with = 6; it must be the number of an earlier"},
      {"type = \"relu\"", "type = \"add\"\nwith = 5",
       "model.layer[5].with = 5; it must be the number of an earlier layer"},
      {"type = \"relu\"", "type = \"add\"\nwith = -1",
       "model.layer[5].with = -1; it must be the number of an earlier layer"},
      {"type = \"relu\"", "type = \"add\"\nwith = 2",
       "model.layer[5].with = 2; it must be at least 3, the layer before its stage"},
      {"type = \"relu\"", "type = \"add\"", "model.layer[5].with is missing"},
      {"type = \"relu\"", "type = \"add\"\nwith = \"4\"", "model.layer[5].with = '4'; it must be"},
      {"type = \"relu\"", "type = \"attention\"", "model.layer[5].heads is missing"},
      {"type = \"relu\"", "type = \"attention\"\nheads = 0", "model.layer[5].heads = 0; it must be at least 1"},
      {"type = \"relu\"", "type = \"attention\"\nheads = 2.5", "model.layer[5].heads = 2.5; it must be"},
      {"type = \"relu\"", "type = \"attention\"\nheads = 2\nfeatures = 4", "unknown field model.layer[5].features"},
      {"in = 16", "in = -3", "model.layer[2].in = -3; it must be at least 1"},
      {"in = 16\n", "", "model.layer[2].in is missing"},
      {"in = 16\n", "inn = 16\n", "model.layer[2].in is missing; is inn a misspelling of it?"},
      {"[optimizer]", "row_weights = 1\n[optimizer]", "loss.row_weights = 1; it must be true or false"},
      {"type = \"adam\"", "type = \"lion\"", "optimizer.type = 'lion'; it must be one of sgd, adam"},
      {"lr = 1e-3", "lr = \"fast\"", "optimizer.lr = 'fast'; it must be a number"},
      {"lr = 1e-3", "lr = nan", "optimizer.lr = nan; it must be a finite number, at least 0"},
      {"betas = [0.9, 0.99]", "betas = [0.9, 1.0]", "optimizer.betas[1] = 1; it must be at least 0 and below 1"},
      {"betas = [0.9, 0.99]", "betas = [0.9]", "it must be a list of two numbers"},
      {"eps = 1e-6", "eps = 0", "optimizer.eps = 0; it must be a finite number above 0"},
      {"kind = \"dynamic\"", "kind = \"constant\"", "unknown field scaler.backoff_factor; known are init_scale, kind"},
      {"growth_factor = 4.0", "growth_factor = 1", "scaler.growth_factor = 1; it must be a finite number above 1"},
      {"step = 2", "step = 4", "inject[0].step = 4; it must be a step of the run, 0 to 3"},
      {"rank = 1", "rank = 4", "inject[0].rank = 4; it must be a rank of the world, 0 to 3"},
      {"parameter = \"0.weight\"", "parameter = \"0.bias\"", "inject[0].parameter = '0.bias'; it must be a parameter"},
      {"parameter = \"0.weight\"\nindex = 3", "parameter = \"2.weight\"\nindex = 3",
       "inject[0].rank = 1; it must be a rank that holds '2.weight'"},
      {"index = 3", "index = 1600", "inject[0].index = 1600; it must be an element of '0.weight', 0 to 1599"},
      {"value = \"-inf\"", "value = \"big\"", "inject[0].value = 'big'; it must be one of inf, -inf, nan"},
      {"moment = \"local\"", "moment = \"late\"", "inject[1].moment = 'late'; it must be one of local, reduced"},
      {"weights = \"w.safetensors\"", "weights = \"\"", "files.weights = ''; it must be the name of a file"},
      {"[loss]", "[loss", "run/spec.toml:41:6: Error while parsing table header"},
  };
  for (const BadSpec& one : bad) {
    const std::string error = error_of(replaced(kFull, one.what, one.with));
    EXPECT_THAT(error, HasSubstr(one.error)) << "for " << one.with;
    EXPECT_THAT(error, testing::StartsWith("run/spec.toml:")) << "for " << one.with;
    EXPECT_EQ(error.find('\n'), std::string::npos) << "for " << one.with;
  }
}

TEST(RunSpec, RefusesStagesBesideAnAddition) {
  const std::string added = replaced(kFull, "type = \"relu\"", "type = \"add\"\nwith = 3");
  for (const std::string_view stages : {"[]", "[3, 4, 5, 6]", "[6, 6, 6, 6]"})
    EXPECT_THAT(error_of(replaced(added, "stages = [0, 2, 4, 6]", "stages = " + std::string(stages))),
                HasSubstr("model.stages = "))
        << stages;
}

TEST(RunSpec, AddsWhatAStageIsGiven) {
  EXPECT_NO_THROW((void)parse_run_spec(replaced(kFull, "type = \"relu\"", "type = \"add\"\nwith = 3"), "/a/spec.toml"));
}

TEST(RunSpec, RefusesWhatOnlyThisSpecificationCanHaveWrong) {
  EXPECT_THAT(error_of(replaced(kShort, "lr = 1", "lr = 1\nnesterov = true")),
              HasSubstr("optimizer.nesterov = true; it must be false without momentum"));
  EXPECT_THAT(error_of(std::string(kShort) + "[[inject]]\nstep = 0\nrank = 0\nparameter = \"0.bias\"\nindex = 0\n"
                                             "value = \"nan\"\n"),
              HasSubstr("inject[0] is given without [scaler]"));
  EXPECT_THAT(error_of(replaced(kShort, "[[model.layer]]\ntype = \"flatten\"",
                                "[[model.layer]]\ntype = \"embedding\"\n"
                                "rows = 3\nfeatures = 4")),
              HasSubstr("model.layer[2].type = 'embedding'; it must be the first layer"));
  EXPECT_THAT(error_of(replaced(kShort, "out = 2", "out = 4611686018427387904")),
              HasSubstr("model.layer[0].out = 4611686018427387904; it must be at most 2147483648"));
  EXPECT_THAT(error_of("protocol = 1\n[run]\nsteps = 1\nglobal_batch = 1\n"), HasSubstr("model is missing"));
  EXPECT_THAT(error_of(""), HasSubstr("protocol is missing"));
}

TEST(RunSpec, ClipsByANorm) {
  const std::string clip = std::string(kShort) + "[clip]\nmax_norm = 0.5\n";
  const RunSpec spec = parse_run_spec(clip, "spec.toml");
  ASSERT_TRUE(spec.clip);
  EXPECT_EQ(spec.clip->max_norm, 0.5);
  EXPECT_EQ(spec.clip->norm_type, 2);
  EXPECT_FALSE(parse_run_spec(kShort, "spec.toml").clip);
  const std::string largest = to_toml(parse_run_spec(clip + "norm_type = inf\n", "spec.toml"));
  EXPECT_TRUE(std::isinf(parse_run_spec(largest, "spec.toml").clip->norm_type));
  EXPECT_THAT(error_of(std::string(kShort) + "[clip]\nnorm_type = 1\n"), HasSubstr("clip.max_norm is missing"));
  EXPECT_THAT(error_of(replaced(clip, "0.5", "0")), HasSubstr("clip.max_norm = 0; it must be a finite number above 0"));
  EXPECT_THAT(error_of(replaced(clip, "0.5", "inf")), HasSubstr("clip.max_norm = inf; it must be a finite number"));
  EXPECT_THAT(error_of(replaced(clip, "0.5", "\"big\"")), HasSubstr("clip.max_norm = 'big'; it must be a number"));
  EXPECT_THAT(error_of(clip + "norm_type = 0\n"), HasSubstr("clip.norm_type = 0; it must be a number above 0, or inf"));
  EXPECT_THAT(error_of(clip + "norm = 2\n"), HasSubstr("unknown field clip.norm; known are max_norm, norm_type"));
}

TEST(RunSpec, AveragesParameters) {
  const std::string plain = replaced(kShort, "\"batch_norm2d\"\nfeatures = 2", "\"relu\"");
  const auto with = [&](const char* fields) { return plain + "[averaging]\n" + fields; };
  const std::string diloco = with("algorithm = \"diloco\"\nperiod = 3\nlr = 0.7\nmomentum = 0.9\n");
  const auto averaging = parse_run_spec(to_toml(parse_run_spec(diloco, "spec.toml")), "spec.toml").averaging;
  ASSERT_TRUE(averaging);
  EXPECT_EQ(averaging->algorithm, "diloco");
  EXPECT_EQ(averaging->period, 3);
  EXPECT_EQ(averaging->lr, 0.7);
  EXPECT_EQ(averaging->momentum, 0.9);
  const std::string sgp = with("algorithm = \"sgp\"\ngraph = \"ring\"\n");
  EXPECT_EQ(parse_run_spec(to_toml(parse_run_spec(sgp, "spec.toml")), "spec.toml").averaging->graph, "ring");
  EXPECT_FALSE(parse_run_spec(plain, "spec.toml").averaging);

  EXPECT_THAT(error_of(with("period = 3\n")), HasSubstr("averaging.algorithm is missing"));
  EXPECT_THAT(error_of(with("algorithm = \"easgd\"\n")),
              HasSubstr("averaging.algorithm = 'easgd'; it must be one of localsgd, slowmo, diloco, sgp"));
  EXPECT_THAT(error_of(with("algorithm = \"localsgd\"\n")), HasSubstr("averaging.period is missing"));
  EXPECT_THAT(error_of(with("algorithm = \"localsgd\"\nperiod = 0\n")),
              HasSubstr("averaging.period = 0; it must be at least 1"));
  EXPECT_THAT(error_of(with("algorithm = \"localsgd\"\nperiod = 3\nlr = 1.0\n")),
              HasSubstr("unknown field averaging.lr; known are algorithm, period"));
  EXPECT_THAT(error_of(with("algorithm = \"slowmo\"\nperiod = 3\nlr = 1.0\n")),
              HasSubstr("averaging.momentum is missing"));
  EXPECT_THAT(error_of(replaced(diloco, "0.7", "0")),
              HasSubstr("averaging.lr = 0; it must be a finite number above 0"));
  EXPECT_THAT(error_of(replaced(diloco, "0.9", "-1")),
              HasSubstr("averaging.momentum = -1; it must be a finite number"));
  EXPECT_THAT(error_of(with("algorithm = \"sgp\"\n")), HasSubstr("averaging.graph is missing"));
  EXPECT_THAT(error_of(replaced(sgp, "ring", "torus")),
              HasSubstr("averaging.graph = 'torus'; it must be one of n-peer-exponential, ring, star, complete"));
  EXPECT_THAT(error_of(diloco + "[clip]\nmax_norm = 1.0\n"),
              HasSubstr("clip.max_norm = 1; it must be left out in a run with [averaging]"));
  EXPECT_THAT(error_of(std::string(kShort) + "[averaging]\nalgorithm = \"localsgd\"\nperiod = 3\n"),
              HasSubstr("model.layer[1].type = 'batch_norm2d'; it must be left out in a run with [averaging]"));
  EXPECT_THAT(error_of(diloco + "[scaler]\nkind = \"dynamic\"\n"),
              HasSubstr("it must be left out in a run with [averaging]"));
}

TEST(RunSpec, SchedulesLearningRates) {
  const std::string plain = replaced(kShort, "\"batch_norm2d\"\nfeatures = 2", "\"relu\"");
  const auto with = [&](const char* fields) { return plain + "[lr_schedule]\n" + fields; };
  const std::string cosine = with("decay = \"cosine\"\nwarmup_steps = 0\n");
  const auto schedule = parse_run_spec(to_toml(parse_run_spec(cosine, "spec.toml")), "spec.toml").rate_schedule;
  ASSERT_TRUE(schedule);
  EXPECT_EQ(schedule->decay, "cosine");
  EXPECT_EQ(schedule->warmup_steps, 0);
  EXPECT_FALSE(parse_run_spec(plain, "spec.toml").rate_schedule);

  EXPECT_THAT(error_of(with("warmup_steps = 0\n")), HasSubstr("lr_schedule.decay is missing"));
  EXPECT_THAT(error_of(with("decay = \"linear\"\n")), HasSubstr("lr_schedule.warmup_steps is missing"));
  EXPECT_THAT(error_of(replaced(cosine, "cosine", "step")),
              HasSubstr("lr_schedule.decay = 'step'; it must be one of linear, cosine"));
  EXPECT_THAT(error_of(replaced(cosine, "warmup_steps = 0", "warmup_steps = -1")),
              HasSubstr("lr_schedule.warmup_steps = -1; it must be at least 0"));
  EXPECT_THAT(error_of(replaced(cosine, "warmup_steps = 0", "warmup_steps = 1000000")),
              HasSubstr("lr_schedule.warmup_steps = 1000000; it must be fewer than run.steps"));
  EXPECT_THAT(error_of(cosine + "gamma = 0.5\n"), HasSubstr("unknown field lr_schedule.gamma"));
  for (const char* other : {"[clip]\nmax_norm = 1.0\n", "[scaler]\nkind = \"dynamic\"\n",
                            "[averaging]\nalgorithm = \"localsgd\"\nperiod = 1\n"})
    EXPECT_THAT(error_of(cosine + other), HasSubstr("it must be left out in a run with [lr_schedule]")) << other;
}

TEST(RunSpec, LeavesParametersOutOfWeightDecay) {
  const std::string decays = replaced(replaced(kShort, "\"batch_norm2d\"\nfeatures = 2", "\"relu\""), "type = \"sgd\"",
                                      "type = \"sgd\"\nweight_decay = 0.5");
  const auto with = [&](const std::string& names) {
    return replaced(decays, "weight_decay = 0.5", "weight_decay = 0.5\nno_decay = " + names);
  };
  const RunSpec spec = parse_run_spec(to_toml(parse_run_spec(with("[\"0.bias\"]"), "spec.toml")), "spec.toml");
  EXPECT_THAT(spec.no_decay, testing::ElementsAre("0.bias"));
  EXPECT_THAT(parse_run_spec(decays, "spec.toml").no_decay, testing::IsEmpty());

  EXPECT_THAT(error_of(with("\"0.bias\"")),
              HasSubstr("optimizer.no_decay = '0.bias'; it must be a list of parameters"));
  EXPECT_THAT(error_of(with("[\"0.bias\", \"5.bias\"]")),
              HasSubstr("optimizer.no_decay[1] = '5.bias'; it must be a parameter of the model, such as '0.weight'"));
  EXPECT_THAT(error_of(with("[\"0.bias\", \"0.bias\"]")),
              HasSubstr("optimizer.no_decay[1] = '0.bias'; it must be listed once"));
  for (const char* other : {"[clip]\nmax_norm = 1.0\n", "[scaler]\nkind = \"dynamic\"\n",
                            "[averaging]\nalgorithm = \"localsgd\"\nperiod = 1\n"})
    EXPECT_THAT(error_of(with("[\"0.bias\"]") + other),
                HasSubstr("it must be left out in a run with optimizer.no_decay"))
        << other;
  EXPECT_THAT(error_of(replaced(with("[\"0.bias\"]"), "[run]", "[run]\ndtype = \"float16\"")),
              HasSubstr("run.dtype = 'float16'; it must be float32 with optimizer.no_decay"));
}

TEST(RunSpec, FreezesParameters) {
  const std::string plain = replaced(kShort, "\"batch_norm2d\"\nfeatures = 2", "\"relu\"");
  const auto with = [&](const std::string& names) { return replaced(plain, "[model]", "[model]\nfrozen = " + names); };
  const RunSpec spec = parse_run_spec(to_toml(parse_run_spec(with("[\"0.bias\"]"), "spec.toml")), "spec.toml");
  EXPECT_THAT(spec.frozen, testing::ElementsAre("0.bias"));
  EXPECT_FALSE(trains(spec, parameters_of(spec)[1]));
  EXPECT_TRUE(trains(spec, parameters_of(spec)[0]));
  EXPECT_THAT(parse_run_spec(plain, "spec.toml").frozen, testing::IsEmpty());

  EXPECT_THAT(error_of(with("[0]")), HasSubstr("it must be a list of parameters"));
  EXPECT_THAT(error_of(with("[\"1.bias\"]")),
              HasSubstr("model.frozen[0] = '1.bias'; it must be a parameter of the model, such as '0.weight'"));
  EXPECT_THAT(error_of(with("[\"0.bias\", \"0.bias\"]")),
              HasSubstr("model.frozen[1] = '0.bias'; it must be listed once"));
  EXPECT_THAT(error_of(with("[\"0.bias\", \"0.weight\"]")),
              HasSubstr("model.frozen = [0.bias, 0.weight]; it must be some of the parameters, not all"));
  EXPECT_THAT(error_of(with("[\"0.bias\"]") + "[clip]\nmax_norm = 1.0\n"),
              HasSubstr("it must be left out in a run with model.frozen"));
  EXPECT_THAT(error_of(with("[\"0.bias\"]") + "[parallel]\ntensor = 2\n"),
              HasSubstr("parallel.tensor = 2; it must be 1 with model.frozen"));
}

TEST(RunSpec, IsTrainedInParts) {
  const auto with = [](const std::string& steps) {
    return replaced(kShort, "steps = 1", "steps = 5") + "[checkpoint]\nfolder = \"../kept\"\n" + steps;
  };
  const RunSpec spec =
      parse_run_spec(to_toml(parse_run_spec(with("begin = 2\nend = 4\n"), "run/spec.toml")), "run/spec.toml");
  EXPECT_EQ(spec.first_step(), 2);
  EXPECT_EQ(spec.end_step(), 4);
  EXPECT_EQ(spec.checkpoint_folder(), "run/../kept");
  EXPECT_EQ(parse_run_spec(kShort, "spec.toml").first_step(), 0);
  EXPECT_EQ(parse_run_spec(kShort, "spec.toml").end_step(), 1);

  EXPECT_THAT(error_of(with("begin = 2\n")), HasSubstr("checkpoint.end"));
  EXPECT_THAT(error_of(with("begin = 5\nend = 6\n")),
              HasSubstr("checkpoint.begin = 5; it must be a step of the run, 0 to 4"));
  EXPECT_THAT(error_of(with("begin = 2\nend = 2\n")),
              HasSubstr("checkpoint.end = 2; it must be above checkpoint.begin = 2 and at most run.steps = 5"));
}

TEST(RunSpec, CutsParametersOverDataRanks) {
  const auto with = [](const std::string& parallel) { return std::string(kShort) + "[parallel]\n" + parallel; };
  const RunSpec spec = parse_run_spec(to_toml(parse_run_spec(with("data = 4\nshard = 2\n"), "spec.toml")), "spec.toml");
  EXPECT_EQ(spec.parallel.shard, 2);
  EXPECT_EQ(spec.parallel.replicas(), 2);
  EXPECT_EQ(parse_run_spec(kShort, "spec.toml").parallel.shard, 1);

  EXPECT_THAT(error_of(with("data = 4\nshard = 0\n")), HasSubstr("parallel.shard = 0; it must be at least 1"));
  EXPECT_THAT(error_of(with("data = 4\nshard = 3\n")),
              HasSubstr("parallel.shard = 3; it must be a divisor of parallel.data = 4"));
  EXPECT_THAT(error_of(with("data = 2\nshard = 2\ntensor = 2\n")),
              HasSubstr("parallel.tensor = 2; it must be 1 with parallel.shard"));
  EXPECT_THAT(error_of(with("data = 2\nshard = 2\n") + "[clip]\nmax_norm = 1.0\n"),
              HasSubstr("it must be left out in a run with parallel.shard"));
}

TEST(RunSpec, HasExpertsOnSeveralRanks) {
  const std::string mixture =
      replaced(kShort, "\"batch_norm2d\"\nfeatures = 2", "\"moe\"\nfeatures = 4\nhidden = 3\nexperts = 6") +
      "[parallel]\ndata = 4\nexpert = 2\n";
  const RunSpec spec = parse_run_spec(to_toml(parse_run_spec(mixture, "spec.toml")), "spec.toml");
  EXPECT_EQ(spec.parallel.expert, 2);
  const Moe& layer = std::get<Moe>(spec.layers[1]);
  EXPECT_EQ(layer.top_k, 2);
  EXPECT_TRUE(layer.normalize_gates);
  EXPECT_FALSE(std::get<Moe>(
                   parse_run_spec(replaced(mixture, "experts = 6", "experts = 6\nnormalize_gates = false"), "spec.toml")
                       .layers[1])
                   .normalize_gates);
  const BadSpec bad[] = {
      {"expert = 2", "expert = 3", "parallel.expert = 3; it must be a divisor of parallel.data = 4"},
      {"expert = 2", "expert = 0", "parallel.expert = 0; it must be a divisor of parallel.data = 4"},
      {"expert = 2", "expert = 4", "model.layer[1].experts = 6; it must be a multiple of parallel.expert = 4"},
      {"experts = 6", "experts = 8192", "model.layer[1].experts = 8192; it must be at most 4096"},
      {"experts = 6", "experts = 6\ntop_k = 7", "model.layer[1].top_k = 7; it must be at most 6, the experts"},
      {"experts = 6", "experts = 6\ntop_k = 0", "model.layer[1].top_k = 0; it must be at least 1"},
      {"hidden = 3\n", "", "model.layer[1].hidden is missing"},
      {"steps = 1", "steps = 1\ndtype = \"bfloat16\"",
       "run.dtype = 'bfloat16'; it must be float32 with a layer of type moe"},
      {"[model]", "[model]\nfrozen = [\"0.bias\"]", "model.frozen = [0.bias]; it must be empty with parallel.expert"},
      {"expert = 2", "expert = 2\ntensor = 2", "parallel.tensor = 2; it must be 1 with parallel.expert"},
      {"expert = 2", "expert = 2\nshard = 2", "parallel.shard = 2; it must be 1 with parallel.expert"},
      {"expert = 2", "expert = 2\n[checkpoint]\nfolder = \"kept\"\nbegin = 0\nend = 1",
       "it must be left out in a run with parallel.expert"},
      {"[loss]", "[clip]\nmax_norm = 1.0\n[loss]", "it must be left out in a run with parallel.expert"},
      {"type = \"moe\"\nfeatures = 4\nhidden = 3\nexperts = 6", "type = \"relu\"",
       "parallel.expert = 2; it must be 1 without a layer of type moe"},
      {"expert = 2", "[averaging]\nalgorithm = \"localsgd\"\nperiod = 2",
       "model.layer[1].type = 'moe'; it must be left out in a run with [averaging]"},
  };
  for (const BadSpec& one : bad)
    EXPECT_THAT(error_of(replaced(mixture, one.what, one.with)), HasSubstr(one.error)) << "for " << one.with;
}

TEST(RunSpec, NeedsNoLineBreakInAPathOrName) {
  RunSpec spec = parse_run_spec(kShort, "spec.toml");
  spec.weights = "a \"quoted\"\\\nname.safetensors";
  EXPECT_EQ(parse_run_spec(to_toml(spec), "spec.toml").weights, spec.weights);
}

}  // namespace
}  // namespace plumbline::job

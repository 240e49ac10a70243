// The models against torch.nn's numbers, their cuts against the whole, and their first values.
#include <cmath>
#include <fstream>
#include <numeric>

#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "harness/trainer/models/perceptron.hpp"
#include "harness/trainer/models/resnet.hpp"
#include "harness/trainer/models/transformer.hpp"
#include "reference/comm/errors.hpp"
#include "reference/training/pipeline/deferred.hpp"

namespace plumbline::training {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// The generator of vectors/make_models.py.
std::uint64_t mixed(std::uint64_t state) {
  state += 0x9e3779b97f4a7c15u;
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}
double value(const std::string& name, std::int64_t index) {
  const std::uint64_t top = mixed(stream_of(name) + static_cast<std::uint64_t>(index)) >> 57;
  return (static_cast<double>(top) - 64) / 64;
}
at::Tensor values(const std::string& name, at::IntArrayRef shape) {
  const at::Tensor tensor = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<double>()[i] = value(name, i);
  return tensor;
}
at::Tensor labels(const std::string& name, at::IntArrayRef shape, std::int64_t classes) {
  const at::Tensor tensor = at::empty(shape, at::kLong);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(
        (mixed(stream_of(name) + static_cast<std::uint64_t>(i)) >> 32) % static_cast<std::uint64_t>(classes));
  return tensor;
}
// Two projections and the sum of magnitudes.
std::array<double, 3> measured(const std::string& name, const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().contiguous();
  std::array<double, 3> sums{};
  for (std::int64_t i = 0; i < flat.numel(); ++i) {
    const double one = flat.data_ptr<double>()[i];
    sums[0] += one * value("first of " + name, i);
    sums[1] += one * value("second of " + name, i);
    sums[2] += std::fabs(one);
  }
  return sums;
}
void expect_measured(const std::string& name, const at::Tensor& tensor, const json& expected) {
  const auto got = measured(name, tensor);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i].get<double>(), 1e-9 * std::max(1.0, expected[2].get<double>())) << name << " " << i;
}

struct Vectors {
  json names;
  std::vector<json> cases;
  Vectors() {
    std::ifstream file(PLUMBLINE_MODEL_VECTORS);
    for (std::string line; std::getline(file, line);) {
      const json one = json::parse(line);
      if (one.contains("resnet50")) names = one;
      if (one.contains("case")) cases.push_back(one);
    }
  }
};
const Vectors& vectors() {
  static const Vectors all;
  return all;
}

ResNet resnet_of(const json& settings) {
  ResNet net;
  net.block = settings.value("kind", "bottleneck") == "basic" ? ResidualBlock::basic : ResidualBlock::bottleneck;
  net.layers = settings.at("layers").get<std::array<int, 4>>();
  net.classes = settings.at("classes");
  net.groups = settings.value("groups", 1);
  net.width_per_group = settings.value("base_width", 64);
  net.planes = settings.at("planes");
  if (settings.contains("dilate")) net.replace_stride_with_dilation = settings.at("dilate").get<std::vector<bool>>();
  if (settings.contains("group_norm")) net.norm = group_norm(settings.at("group_norm"));
  return net;
}
Blocks blocks_of(const json& settings) {
  const std::string kind = settings.at("kind_of_model");
  if (kind == "resnet") return resnet(resnet_of(settings));
  if (kind == "perceptron") return perceptron(settings.at("sizes").get<std::vector<std::int64_t>>());
  return transformer({.tokens = settings.at("tokens"),
                      .length = settings.at("length"),
                      .width = settings.at("width"),
                      .heads = settings.at("heads"),
                      .layers = settings.at("layers")});
}
at::Tensor input_of(const json& one) {
  const auto shape = one.at("x").get<std::vector<std::int64_t>>();
  if (one.at("settings").at("kind_of_model") == "transformer")
    return labels("x", shape, one.at("settings").at("tokens"));
  return values("x", shape);
}
at::Tensor labels_of(const json& one, const at::Tensor& output) {
  return labels("y", one.at("y").get<std::vector<std::int64_t>>(), output.size(1));
}

// A model with the vectors' parameters, in some stages, each with a store of its own.
class Cutting {
 public:
  Cutting(const json& one, int stages) {
    const Blocks blocks = blocks_of(one.at("settings"));
    for (const auto& part : parts_of(blocks, stages, 1, Cut::uniform)) {
      stores_.push_back(std::make_unique<TensorStore>(1, c10::DeviceType::CPU, at::kDouble));
      stages_.push_back(make_stage(blocks, part, *stores_.back()));
    }
    for (const auto& stage : stages_)
      for (const NamedTensor& parameter : stage->parameters())
        parameter.tensor.detach().copy_(
            values(parameter.name, parameter.tensor.sizes()).mul(parameter.tensor.dim() > 1 ? 0.125 : 1.0));
  }
  /// As a pipeline does: over detached inputs. Returns the last output.
  at::Tensor forward(const at::Tensor& x, const Pass& pass) {
    inputs_.clear();
    outputs_.clear();
    at::Tensor value = x;
    for (const auto& stage : stages_) {
      value = value.detach();
      if (value.is_floating_point()) value.requires_grad_();
      inputs_.push_back(value);
      value = stage->forward({value}, pass).at(0);
      outputs_.push_back(value);
    }
    return value;
  }
  void backward(const at::Tensor& loss) {
    loss.backward();
    for (std::size_t i = outputs_.size() - 1; i > 0; --i) outputs_[i - 1].backward(inputs_[i].grad());
  }
  /// Those that stages share are added.
  std::map<std::string, at::Tensor> gradients() const {
    std::map<std::string, at::Tensor> all;
    for (const auto& stage : stages_)
      for (const NamedTensor& parameter : stage->parameters()) {
        const auto [place, fresh] = all.try_emplace(parameter.name, parameter.tensor.grad());
        if (!fresh) place->second = place->second.add(parameter.tensor.grad());
      }
    return all;
  }
  const std::vector<std::unique_ptr<Stage>>& stages() const { return stages_; }

 private:
  std::vector<std::unique_ptr<TensorStore>> stores_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<at::Tensor> inputs_, outputs_;
};

// Whose gradients never wait.
bool is_norm(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  return has("bn") || has("norm") || has("downsample.1") || name.starts_with("0.1.");
}

class RecordedModel : public testing::TestWithParam<json> {
 protected:
  void SetUp() override { at::set_num_threads(1); }
};

TEST_P(RecordedModel, HasTorchsOutputsGradientsAndStatistics) {
  const json& one = GetParam();
  Cutting model(one, 1);
  const at::Tensor output = model.forward(input_of(one), {});
  EXPECT_EQ(output.sizes().vec(), one.at("out_shape").get<std::vector<std::int64_t>>());
  expect_measured("out", output, one.at("out"));
  const at::Tensor loss = at::cross_entropy_loss(output, labels_of(one, output));
  EXPECT_NEAR(loss.item<double>(), one.at("loss").get<double>(), 1e-12);
  model.backward(loss);
  const auto gradients = model.gradients();
  EXPECT_EQ(gradients.size(), one.at("grad").size());
  for (const auto& [name, expected] : one.at("grad").items()) expect_measured(name, gradients.at(name), expected);
  const std::vector<NamedTensor> buffers = model.stages()[0]->buffers();
  EXPECT_EQ(buffers.size(), one.at("after").size());
  for (const NamedTensor& buffer : buffers)
    expect_measured(buffer.name, buffer.tensor, one.at("after").at(buffer.name));
  expect_measured("out", model.forward(input_of(one), {.training = false}), one.at("evaluated"));
  for (const NamedTensor& buffer : buffers)
    expect_measured(buffer.name, buffer.tensor, one.at("after").at(buffer.name));
}

TEST_P(RecordedModel, HasTheSameBitsHoweverItIsCut) {
  const json& one = GetParam();
  Cutting whole(one, 1);
  const at::Tensor output = whole.forward(input_of(one), {});
  whole.backward(at::cross_entropy_loss(output, labels_of(one, output)));
  const auto expected = whole.gradients();
  for (const int stages : {2, 3}) {
    Cutting cut(one, stages);
    const at::Tensor got = cut.forward(input_of(one), {});
    EXPECT_TRUE(at::equal(got, output));
    cut.backward(at::cross_entropy_loss(got, labels_of(one, got)));
    for (const auto& [name, gradient] : cut.gradients()) EXPECT_TRUE(at::equal(gradient, expected.at(name))) << name;
  }
}

TEST_P(RecordedModel, HasTheSameBitsWhereWeightGradientsWait) {
  const json& one = GetParam();
  Cutting at_once(one, 1), later(one, 1);
  const at::Tensor output = at_once.forward(input_of(one), {});
  at_once.backward(at::cross_entropy_loss(output, labels_of(one, output)));
  const auto expected = at_once.gradients();
  DeferredGradients waiting;
  const at::Tensor other = later.forward(input_of(one), {.deferred = &waiting});
  later.backward(at::cross_entropy_loss(other, labels_of(one, other)));
  for (const auto& [name, gradient] : later.gradients()) EXPECT_EQ(gradient.defined(), is_norm(name)) << name;
  waiting.compute();
  for (const auto& [name, gradient] : later.gradients()) EXPECT_TRUE(at::equal(gradient, expected.at(name))) << name;
}

INSTANTIATE_TEST_SUITE_P(Torch, RecordedModel, testing::ValuesIn(vectors().cases), [](const auto& info) {
  std::string name = info.param.at("case").template get<std::string>();
  std::ranges::replace(name, ' ', '_');
  return name;
});

std::vector<NamedTensor> all_of(const Blocks& blocks, bool buffers) {
  TensorStore shapes(0, c10::DeviceType::Meta);
  const auto stage = make_stage(blocks, {0, static_cast<int>(blocks.size())}, shapes);
  return buffers ? stage->buffers() : stage->parameters();
}

TEST(ResNetTest, FiftyHasTorchsNamesShapesAndOrder) {
  const std::vector<NamedTensor> parameters = all_of(resnet50(), false);
  json got = json::array();
  std::int64_t numbers = 0;
  for (const NamedTensor& parameter : parameters) {
    got.push_back({parameter.name, parameter.tensor.sizes().vec()});
    numbers += parameter.tensor.numel();
  }
  EXPECT_EQ(parameters.size(), 161u);
  EXPECT_EQ(numbers, vectors().names.at("numbers").get<std::int64_t>());
  EXPECT_THAT(got, testing::UnorderedElementsAreArray(vectors().names.at("resnet50")));
  std::vector<std::string> buffers;
  for (const NamedTensor& buffer : all_of(resnet50(), true)) buffers.push_back(buffer.name);
  EXPECT_THAT(buffers,
              testing::UnorderedElementsAreArray(vectors().names.at("buffers").get<std::vector<std::string>>()));
}

struct Moments {
  double mean = 0, deviation = 0, smallest = 0, largest = 0;
};
Moments moments_of(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach();
  return {values.mean().item<double>(), values.std().item<double>(), values.min().item<double>(),
          values.max().item<double>()};
}

TEST(ResNetTest, StartsAsTorchDoes) {
  for (const bool zero : {false, true}) {
    TensorStore store(3);
    const Blocks blocks = resnet({.layers = {1, 1, 1, 1}, .classes = 50, .zero_init_residual = zero, .planes = 16});
    for (const NamedTensor& parameter : make_stage(blocks, {0, 6}, store)->parameters()) {
      const auto [mean, deviation, smallest, largest] = moments_of(parameter.tensor);
      const auto count = static_cast<double>(parameter.tensor.numel());
      if (parameter.tensor.dim() == 4) {
        const auto expected = std::sqrt(
            2.0 / static_cast<double>(parameter.tensor.size(0) * parameter.tensor.size(2) * parameter.tensor.size(3)));
        EXPECT_NEAR(deviation, expected, 5 * expected / std::sqrt(2 * count)) << parameter.name;
        EXPECT_NEAR(mean, 0, 5 * expected / std::sqrt(count)) << parameter.name;
        EXPECT_GT(largest, 2 * expected) << parameter.name << ": a normal distribution has tails";
      } else if (is_norm(parameter.name)) {
        const bool scale = parameter.name.ends_with(".weight");
        const bool last = parameter.name.find("bn3") != std::string::npos;
        EXPECT_EQ(smallest, scale && !(zero && last) ? 1 : 0) << parameter.name;
        EXPECT_EQ(largest, smallest) << parameter.name;
      } else {
        const double bound = 1 / std::sqrt(16.0 * 8 * 4);  // of the classifier
        EXPECT_LT(largest, bound);
        EXPECT_GE(smallest, -bound);
        EXPECT_GT(largest - smallest, 1.8 * bound) << parameter.name;
      }
    }
  }
}

TEST(ResNetTest, ABasicBlockStartsAsTheIdentityWhereItsLastScaleIsZero) {
  TensorStore store(3);
  const Blocks blocks =
      resnet({.block = ResidualBlock::basic, .layers = {1, 1, 1, 1}, .zero_init_residual = true, .planes = 4});
  const auto layer1 = make_stage(blocks, {1, 2}, store);
  const at::Tensor x = values("x", {2, 4, 5, 5}).abs().to(at::kFloat);
  EXPECT_TRUE(at::equal(layer1->forward({x}, {}).at(0), x));
}

std::string error_of(const ResNet& settings) {
  try {
    (void)all_of(resnet(settings), false);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "no error";
}

TEST(ResNetTest, SaysWhichSettingIsWrong) {
  EXPECT_EQ(error_of({.replace_stride_with_dilation = {true, false}}),
            "replace_stride_with_dilation has 2 elements; it must have 3, or none");
  EXPECT_EQ(error_of({.block = ResidualBlock::basic, .groups = 2}),
            "groups = 2 and width_per_group = 64; a basic block has 1 and 64");
  EXPECT_EQ(error_of({.block = ResidualBlock::basic, .replace_stride_with_dilation = {false, true, false}}),
            "replace_stride_with_dilation is true; a basic block is never dilated");
  EXPECT_EQ(error_of({.classes = 0}), "classes = 0; it must be at least 1");
  EXPECT_EQ(error_of({.layers = {1, 0, 1, 1}}), "a layer of 0 blocks; it must have at least 1");
  EXPECT_EQ(error_of({.norm = group_norm(3)}), "'0.1': 3 groups of 64 channels; the groups must divide them");
}

TEST(BlocksTest, CountParametersWithoutMakingThem) {
  EXPECT_THAT(parameter_counts(perceptron({4, 3, 2})), testing::ElementsAre(15, 8));
  const auto counts = parameter_counts(resnet50());
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), 25'557'032);
}

std::vector<std::pair<int, int>> cut_of(const Blocks& blocks, int stages, int chunks, Cut cut) {
  std::vector<std::pair<int, int>> parts;
  for (const auto& [begin, end] : parts_of(blocks, stages, chunks, cut)) parts.emplace_back(begin, end);
  return parts;
}

TEST(BlocksTest, AreCutAsAsked) {
  using Parts = std::vector<std::pair<int, int>>;
  const Blocks six = resnet50();
  EXPECT_EQ(cut_of(six, 2, 1, Cut::uniform), (Parts{{0, 3}, {3, 6}}));
  EXPECT_EQ(cut_of(six, 4, 1, Cut::uniform), (Parts{{0, 1}, {1, 2}, {2, 4}, {4, 6}})) << "the last ones have more";
  EXPECT_EQ(cut_of(six, 3, 2, Cut::uniform), (Parts{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}}));
  EXPECT_EQ(cut_of(six, 2, 1, Cut::optimal), (Parts{{0, 4}, {4, 6}})) << "layer4 has most of the parameters";
  EXPECT_EQ(cut_of(six, 2, 1, Cut::balanced).size(), 2u);
  EXPECT_EQ(cut_named("layer"), Cut::uniform);
  EXPECT_EQ(cut_named("parameter"), Cut::balanced);
  EXPECT_EQ(cut_named("optimal"), Cut::optimal);
  EXPECT_THROW((void)cut_named("layers"), NotFound);
  EXPECT_THROW((void)parts_of(six, 2, 4, Cut::uniform), InvalidArgument);
  EXPECT_THROW((void)parts_of(six, 0, 1, Cut::optimal), InvalidArgument);
  EXPECT_THROW((void)parts_of(six, 1 << 20, 1 << 20, Cut::optimal), InvalidArgument);
}

TEST(BlocksTest, GiveEachRankItsChunksByNumber) {
  std::string told;
  const Blocks blocks = perceptron({2, 3, 4, 5, 6});
  TensorStore store(1);
  const auto stages = build_pipeline_model(blocks, 2, 1, 2, store, [&](const std::string& text) { told = text; });
  std::vector<int> numbers;
  std::vector<std::string> names;
  for (const auto& [number, stage] : stages) {
    numbers.push_back(number);
    for (const NamedTensor& parameter : stage->parameters()) names.push_back(parameter.name);
  }
  EXPECT_THAT(numbers, testing::ElementsAre(1, 3));
  EXPECT_THAT(names, testing::ElementsAre("1.weight", "1.bias", "3.weight", "3.bias"));
  EXPECT_EQ(told,
            "4 blocks, 86 parameters, 4 stages\n"
            "rank 0, chunk 0: 9 parameters in 0: linear 2 to 3\n"
            "rank 1, chunk 0: 16 parameters in 1: linear 3 to 4\n"
            "rank 0, chunk 1: 25 parameters in 2: linear 4 to 5\n"
            "rank 1, chunk 1: 36 parameters in 3: linear 5 to 6\n");
  EXPECT_THROW((void)build_pipeline_model(blocks, 2, 2, 1, store), OutOfRange);
  EXPECT_THROW((void)make_stages(blocks, parts_of(blocks, 2, 1, Cut::uniform), std::vector{2}, store), OutOfRange);
  EXPECT_THROW((void)make_stage(blocks, {3, 5}, store), InvalidArgument);
}

TEST(LayersTest, ABatchNormalisationOfOneValueAChannelIsRefusedInTraining) {
  TensorStore store(1, c10::DeviceType::CPU, at::kDouble);
  StageTensors tensors(store);
  const Layer layer = batch_norm_layer(tensors, "norm", 3, 1);
  EXPECT_NO_THROW((void)layer(values("x", {1, 3, 1, 1}), {.training = false}));
  EXPECT_NO_THROW((void)layer(values("x", {1, 3, 1, 2}), {}));
  try {
    (void)layer(values("x", {1, 3, 1, 1}), {});
    ADD_FAILURE() << "no error";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("'norm': one value a channel, of shape [1, 3, 1, 1]; "));
  }
}

TEST(BlocksTest, AStageWithoutBlocksPassesOnWhatItGets) {
  TensorStore store(1);
  const Blocks blocks = perceptron({2, 3});
  const auto stage = make_stage(blocks, {1, 1}, store);
  EXPECT_TRUE(stage->parameters().empty());
  const at::Tensor x = values("x", {2, 3}).requires_grad_();
  const at::Tensor y = stage->forward({x}, {}).at(0);
  EXPECT_TRUE(at::equal(x, y));
  y.backward(values("g", {2, 3}));
  EXPECT_TRUE(at::equal(x.grad(), values("g", {2, 3})));
  EXPECT_THROW((void)stage->forward({x, x}, {}), InvalidArgument);
  EXPECT_THAT(describe(blocks, parts_of(blocks, 2, 1, Cut::uniform), std::vector{0, 1}), HasSubstr("no block\n"));
}

TEST(TensorStoreTest, MakesAParametersValuesOfSeedAndNameAlone) {
  const Blocks blocks = perceptron({3, 4, 5});
  TensorStore all(7), second(7), other(8);
  const auto whole = make_stage(blocks, {0, 2}, all)->parameters();
  const auto part = make_stage(blocks, {1, 2}, second)->parameters();
  const auto different = make_stage(blocks, {1, 2}, other)->parameters();
  ASSERT_EQ(part.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(whole[i + 2].name, part[i].name);
    EXPECT_TRUE(at::equal(whole[i + 2].tensor, part[i].tensor));
    EXPECT_FALSE(at::equal(part[i].tensor, different[i].tensor));
  }
  EXPECT_FALSE(at::equal(part[0].tensor.flatten().slice(0, 0, 5), part[1].tensor)) << "names have streams of their own";
}

TEST(TensorStoreTest, RefusesANameWithAnotherShape) {
  TensorStore store(1);
  (void)store.parameter("w", {2, 3}, constant(0));
  EXPECT_NO_THROW((void)store.parameter("w", {2, 3}, constant(1)));
  EXPECT_THROW((void)store.parameter("w", {3, 2}, constant(0)), InvalidArgument);
}

const Transformer kSmall{.tokens = 13, .length = 8, .width = 8, .heads = 2, .layers = 1};

TEST(TransformerTest, SharesItsEmbeddingsWithinARankAndNamesThemAlikeBetweenRanks) {
  const Blocks blocks = transformer(kSmall);
  TensorStore one(5), other(5);
  const auto first = make_stage(blocks, {0, 1}, one);
  const auto last = make_stage(blocks, {2, 3}, one);
  const auto remote = make_stage(blocks, {2, 3}, other);
  const auto shared = [](const Stage& stage) {
    for (const NamedTensor& parameter : stage.parameters())
      if (parameter.name == kSharedEmbedding) return parameter.tensor;
    return at::Tensor();
  };
  EXPECT_TRUE(shared(*first).is_same(shared(*last)));
  EXPECT_FALSE(shared(*first).is_same(shared(*remote)));
  EXPECT_TRUE(at::equal(shared(*first), shared(*remote)));
  EXPECT_EQ(all_of(blocks, false).size(), 2u + 12 + 2) << "shared ones are listed once";
}

TEST(TransformerTest, LooksBackOnly) {
  TensorStore store(5);
  const auto model = make_stage(transformer(kSmall), {0, 3}, store);
  at::Tensor tokens = labels("x", {2, 8}, 13);
  const at::Tensor before = model->forward({tokens}, {}).at(0).detach();
  tokens = tokens.clone();
  tokens.select(1, 5).add_(1).remainder_(13);
  const at::Tensor after = model->forward({tokens}, {}).at(0).detach();
  for (std::int64_t place = 0; place < 8; ++place)
    EXPECT_EQ(at::equal(before.select(2, place), after.select(2, place)), place < 5) << place;
}

TEST(TransformerTest, SaysWhatIsWrong) {
  EXPECT_THROW((void)transformer({.width = 8, .heads = 3}), InvalidArgument);
  EXPECT_THROW((void)transformer({.layers = 0}), InvalidArgument);
  EXPECT_THROW((void)perceptron({3}), InvalidArgument);
  EXPECT_THROW((void)perceptron({3, 0}), InvalidArgument);
  TensorStore store(5);
  const auto model = make_stage(transformer(kSmall), {0, 3}, store);
  EXPECT_THROW((void)model->forward({labels("x", {2, 9}, 13)}, {}), InvalidArgument);
  EXPECT_THROW((void)model->forward({labels("x", {2}, 13)}, {}), InvalidArgument);
}

}  // namespace
}  // namespace plumbline::training

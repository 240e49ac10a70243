#include "reference/schedules/detail/layer_parameters.hpp"

#include <gtest/gtest.h>

#include "reference/comm/errors.hpp"

namespace plumbline::schedules {
namespace {

std::int64_t count_of_layer(std::string type, std::map<std::string, Layer::Value> arguments) {
  return trainable_parameters({std::move(type), std::move(arguments)});
}
constexpr std::int64_t operator""_n(unsigned long long number) { return static_cast<std::int64_t>(number); }

// Each number is what the layer's own parameters() sum up to in torch 2.13.
TEST(LayerParameters, AreThoseOfTorch) {
  EXPECT_EQ(count_of_layer("Linear", {{"in_features", 4_n}, {"out_features", 3_n}}), 15);
  EXPECT_EQ(count_of_layer("Bilinear", {{"in1_features", 2_n}, {"in2_features", 3_n}, {"out_features", 4_n}}), 28);
  EXPECT_EQ(
      count_of_layer("Conv2d", {{"in_channels", 3_n}, {"out_channels", 64_n}, {"kernel_size", 7_n}, {"bias", false}}),
      9408);
  EXPECT_EQ(count_of_layer(
                "Conv2d",
                {{"in_channels", 4_n}, {"out_channels", 8_n}, {"kernel_size", std::vector{3_n, 5_n}}, {"groups", 2_n}}),
            248);
  EXPECT_EQ(count_of_layer("ConvTranspose1d",
                           {{"in_channels", 4_n}, {"out_channels", 6_n}, {"kernel_size", 3_n}, {"groups", 2_n}}),
            42);
  EXPECT_EQ(count_of_layer("BatchNorm1d", {{"num_features", 5_n}}), 10);
  EXPECT_EQ(count_of_layer("InstanceNorm2d", {{"num_features", 5_n}}), 0);
  EXPECT_EQ(count_of_layer("LayerNorm", {{"normalized_shape", std::vector{3_n, 4_n}}}), 24);
  EXPECT_EQ(count_of_layer("Embedding", {{"num_embeddings", 10_n}, {"embedding_dim", 4_n}}), 40);
  EXPECT_EQ(
      count_of_layer("LSTM", {{"input_size", 3_n}, {"hidden_size", 4_n}, {"num_layers", 2_n}, {"bidirectional", true}}),
      736);
  EXPECT_EQ(count_of_layer("LSTM", {{"input_size", 3_n}, {"hidden_size", 4_n}, {"proj_size", 2_n}}), 120);
  EXPECT_EQ(count_of_layer("GRU", {{"input_size", 3_n}, {"hidden_size", 4_n}}), 108);
  EXPECT_EQ(count_of_layer("MultiheadAttention", {{"embed_dim", 8_n}, {"num_heads", 2_n}}), 288);
  EXPECT_EQ(count_of_layer("LSTM", {{"input_size", 3_n}, {"hidden_size", 4_n}, {"proj_size", 0_n}}), 144);
  EXPECT_EQ(count_of_layer("RNNCell", {{"input_size", 3_n}, {"hidden_size", 4_n}}), 36);
  EXPECT_EQ(count_of_layer("GRUCell", {{"input_size", 3_n}, {"hidden_size", 4_n}, {"bias", false}}), 84);
  EXPECT_EQ(count_of_layer("LSTMCell", {{"input_size", 3_n}, {"hidden_size", 4_n}}), 144);
  EXPECT_EQ(count_of_layer("GroupNorm", {{"num_groups", 2_n}, {"num_channels", 4_n}, {"bias", false}}), 4);
  EXPECT_EQ(count_of_layer("Embedding", {{"num_embeddings", 4_n}, {"embedding_dim", 2_n}, {"padding_idx", -4_n}}), 8);
  EXPECT_EQ(count_of_layer("Identity", {{"anything", 4_n}}), 0);
  EXPECT_EQ(count_of_layer("PReLU", {}), 1);
  EXPECT_EQ(count_of_layer("ReLU", {}), 0);
}

TEST(LayerParameters, NameWhatIsWrong) {
  const std::vector<Layer> unknown{{"ReLU", {}}, {"NoSuchLayer", {}}};
  try {
    (void)trainable_parameters(unknown);
    FAIL();
  } catch (const NotFound& error) {
    EXPECT_STREQ(error.what(), "layers[1]: layer NoSuchLayer: there is no such type here");
  }
  EXPECT_THROW((void)count_of_layer("Linear", {{"in_features", 4_n}}), InvalidArgument);
  EXPECT_THROW((void)count_of_layer("Linear", {{"in_features", 4_n}, {"out_features", 0_n}}), InvalidArgument);
  EXPECT_THROW((void)count_of_layer("Linear", {{"in_features", 4_n}, {"out_features", 2_n}, {"bias", 1_n}}),
               InvalidArgument);
}

std::string layer_refusal(std::string type, std::map<std::string, Layer::Value> arguments) {
  try {
    return std::to_string(count_of_layer(std::move(type), std::move(arguments)));
  } catch (const InvalidArgument& error) {
    return error.what();
  }
}

TEST(LayerParameters, AreNoneOfWhatTorchRefuses) {
  const Layer::Value three = 3_n, four = 4_n, six = 6_n;
  EXPECT_EQ(layer_refusal("GRU", {{"input_size", three}, {"hidden_size", four}, {"proj_size", 2_n}}).substr(0, 43),
            "layer GRU: proj_size is no argument of it; ");
  EXPECT_EQ(layer_refusal("LSTM", {{"input_size", three}, {"hidden_size", four}, {"proj_size", four}}),
            "layer LSTM: proj_size 4 must be below hidden_size 4");
  EXPECT_EQ(
      layer_refusal("Conv2d", {{"in_channels", four}, {"out_channels", six}, {"kernel_size", three}, {"groups", four}}),
      "layer Conv2d: groups 4 does not divide out_channels 6");
  EXPECT_EQ(layer_refusal("Conv1d",
                          {{"in_channels", four}, {"out_channels", six}, {"kernel_size", three}, {"groups", three}}),
            "layer Conv1d: groups 3 does not divide in_channels 4");
  EXPECT_EQ(layer_refusal("MultiheadAttention", {{"embed_dim", six}, {"num_heads", four}}),
            "layer MultiheadAttention: num_heads 4 does not divide embed_dim 6");
  EXPECT_EQ(layer_refusal("MultiheadAttention", {{"embed_dim", six}}),
            "layer MultiheadAttention: num_heads is missing");
  EXPECT_EQ(layer_refusal("GroupNorm", {{"num_groups", three}, {"num_channels", four}}),
            "layer GroupNorm: num_groups 3 does not divide num_channels 4");
  EXPECT_EQ(layer_refusal("Embedding", {{"num_embeddings", four}, {"embedding_dim", three}, {"padding_idx", four}}),
            "layer Embedding: padding_idx 4 is not within num_embeddings 4");
  EXPECT_EQ(layer_refusal("Embedding", {{"num_embeddings", four}, {"embedding_dim", three}, {"padding_idx", -5_n}}),
            "layer Embedding: padding_idx must be a whole number from -4 on");
  EXPECT_EQ(layer_refusal("ReLU", {{"x", three}}).substr(0, 28), "layer ReLU: x is no argument");
  EXPECT_EQ(layer_refusal("MaxPool2d", {}), "layer MaxPool2d: kernel_size is missing");
}

TEST(LayerParameters, ThatNoNumberHoldsAreRefusedAtOnce) {
  const Layer::Value large = 4'000'000'000_n;
  EXPECT_THROW((void)count_of_layer("Linear", {{"in_features", large}, {"out_features", large}}), OutOfRange);
  EXPECT_EQ(count_of_layer("RNN", {{"input_size", 1_n}, {"hidden_size", 1_n}, {"num_layers", large}}), 16'000'000'000);
  EXPECT_THROW((void)count_of_layer("LSTM", {{"input_size", large}, {"hidden_size", large}, {"num_layers", large}}),
               OutOfRange);
}

}  // namespace
}  // namespace plumbline::schedules

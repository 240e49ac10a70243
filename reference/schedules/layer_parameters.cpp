#include "reference/schedules/detail/layer_parameters.hpp"

#include <algorithm>
#include <array>
#include <ranges>
#include <string_view>

#include <fmt/format.h>

#include "reference/comm/errors.hpp"
#include "reference/support/nearest_name.hpp"

namespace plumbline::schedules {
namespace {

// A count that grows by checked steps.
struct Number {
  std::int64_t value = 0;
};
[[noreturn]] void refuse_overflow() { throw OutOfRange("it has more parameters than 2^63 - 1"); }
Number operator*(Number a, Number b) {
  Number product;
  if (__builtin_mul_overflow(a.value, b.value, &product.value)) refuse_overflow();
  return product;
}
Number operator+(Number a, Number b) {
  Number sum;
  if (__builtin_add_overflow(a.value, b.value, &sum.value)) refuse_overflow();
  return sum;
}

bool is_word_of(std::string_view words, std::string_view word) {
  return std::ranges::any_of(std::views::split(words, ' '),
                             [&](const auto& one) { return std::string_view(one.begin(), one.end()) == word; });
}

// The words of both lists.
std::vector<std::string> words_in(std::string_view required, std::string_view optional) {
  std::vector<std::string> words;
  for (const std::string_view list : {required, optional})
    for (const auto& one : std::views::split(list, ' '))
      if (!one.empty()) words.emplace_back(one.begin(), one.end());
  return words;
}

std::string known_arguments(const std::string& name, const std::vector<std::string>& known) {
  return known.empty() ? "it has none" : there_are(name, known);
}

// A layer's arguments, read with torch's defaults.
class Reader {
 public:
  explicit Reader(const Layer& layer) : layer_(layer) {}

  // Each is there, and none is another.
  void expect(std::string_view required, std::string_view optional) const {
    for (const auto& [name, value] : layer_.arguments)
      if (!is_word_of(required, name) && !is_word_of(optional, name))
        refuse(name, "is no argument of it; " + known_arguments(name, words_in(required, optional)));
    for (const auto& one : std::views::split(required, ' ')) {
      const std::string name(one.begin(), one.end());
      if (!name.empty() && find(name) == nullptr) refuse(name, "is missing");
    }
  }
  // 1 or more.
  [[nodiscard]] Number size(const char* name) const { return {whole(name, *find(name), 1)}; }
  [[nodiscard]] Number size(const char* name, Number otherwise) const {
    return {has(name) ? whole(name, *find(name), 1) : otherwise.value};
  }
  [[nodiscard]] std::int64_t whole_or_0(const char* name, std::int64_t least) const {
    return has(name) ? whole(name, *find(name), least) : 0;
  }
  [[nodiscard]] bool has(const char* name) const { return find(name) != nullptr; }
  [[nodiscard]] bool flag(const char* name, bool otherwise) const {
    const Layer::Value* value = find(name);
    if (value == nullptr) return otherwise;
    const bool* flag = std::get_if<bool>(value);
    if (flag == nullptr) refuse(name, "must be true or false");
    return *flag;
  }
  // The product of a list, or of a number for each of `dimensions`.
  [[nodiscard]] Number volume(const char* name, int dimensions) const {
    const Layer::Value& value = *find(name);
    Number product{1};
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value)) {
      for (const std::int64_t one : *list) product = product * Number{whole(name, one, 1)};
      return product;
    }
    for (int i = 0; i < dimensions; ++i) product = product * size(name);
    return product;
  }
  // Refuses unless `part` divides `whole`.
  void expect_divides(const char* part_name, Number part, const char* whole_name, Number whole) const {
    if (whole.value % part.value != 0)
      refuse(part_name, fmt::format("{} does not divide {} {}", part.value, whole_name, whole.value));
  }
  [[noreturn]] void refuse(std::string_view name, std::string_view why) const {
    throw InvalidArgument(fmt::format("layer {}: {} {}", layer_.type, name, why));
  }

 private:
  [[nodiscard]] const Layer::Value* find(const std::string& name) const {
    const auto found = layer_.arguments.find(name);
    return found == layer_.arguments.end() ? nullptr : &found->second;
  }
  [[nodiscard]] std::int64_t whole(const char* name, const Layer::Value& value, std::int64_t least) const {
    const std::int64_t* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr || *number < least) refuse(name, fmt::format("must be a whole number from {} on", least));
    return *number;
  }

  const Layer& layer_;
};

using Count = Number (*)(const Reader&);

Number nothing(const Reader&) { return {}; }

Number linear(const Reader& layer) {
  return layer.size("out_features") * (layer.size("in_features") + Number{layer.flag("bias", true)});
}

Number bilinear(const Reader& layer) {
  return layer.size("out_features") *
         (layer.size("in1_features") * layer.size("in2_features") + Number{layer.flag("bias", true)});
}

template <int dimensions>
Number convolution(const Reader& layer) {
  const Number in = layer.size("in_channels"), out = layer.size("out_channels"), groups = layer.size("groups", {1});
  layer.expect_divides("groups", groups, "in_channels", in);
  layer.expect_divides("groups", groups, "out_channels", out);
  return Number{in.value / groups.value} * out * layer.volume("kernel_size", dimensions) +
         Number{layer.flag("bias", true) ? out.value : 0};
}

// A scale and a shift for each channel.
Number scale_and_shift(const Reader& layer, Number channels, bool affine) {
  return affine ? channels * Number{layer.flag("bias", true) ? 2 : 1} : Number{};
}
Number batch_norm(const Reader& layer) {
  return scale_and_shift(layer, layer.size("num_features"), layer.flag("affine", true));
}
Number instance_norm(const Reader& layer) {
  return scale_and_shift(layer, layer.size("num_features"), layer.flag("affine", false));
}
Number group_norm(const Reader& layer) {
  const Number channels = layer.size("num_channels");
  layer.expect_divides("num_groups", layer.size("num_groups"), "num_channels", channels);
  return scale_and_shift(layer, channels, layer.flag("affine", true));
}
Number layer_norm(const Reader& layer) {
  return scale_and_shift(layer, layer.volume("normalized_shape", 1), layer.flag("elementwise_affine", true));
}
Number rms_norm(const Reader& layer) {
  const Number width = layer.volume("normalized_shape", 1);
  return layer.flag("elementwise_affine", true) ? width : Number{};
}

Number embedding(const Reader& layer) {
  const Number rows = layer.size("num_embeddings");
  const std::int64_t padding = layer.whole_or_0("padding_idx", -rows.value);
  if (padding >= rows.value)
    layer.refuse("padding_idx", fmt::format("{} is not within num_embeddings {}", padding, rows.value));
  return rows * layer.size("embedding_dim");
}

Number prelu(const Reader& layer) { return layer.size("num_parameters", {1}); }

// `gates` matrices on the input, of that width, and as many on what is handed on, and their biases.
Number recurrent_layer(const Reader& layer, Number gates, Number input, Number handed_on) {
  return gates * layer.size("hidden_size") * (input + handed_on + Number{layer.flag("bias", true) ? 2 : 0});
}
template <int gates>
Number cell(const Reader& layer) {
  return recurrent_layer(layer, {gates}, layer.size("input_size"), layer.size("hidden_size"));
}
// Layers after the first are all equal: their input is what the directions of the one before hand on.
template <int gates>
Number recurrent(const Reader& layer) {
  const Number hidden = layer.size("hidden_size"), directions{layer.flag("bidirectional", false) ? 2 : 1};
  const Number projected{layer.whole_or_0("proj_size", 0)};
  if (projected.value >= hidden.value)
    layer.refuse("proj_size", fmt::format("{} must be below hidden_size {}", projected.value, hidden.value));
  const Number handed_on = projected.value == 0 ? hidden : projected, projection = projected * hidden;
  const Number first = recurrent_layer(layer, {gates}, layer.size("input_size"), handed_on) + projection;
  const Number others{layer.size("num_layers", {1}).value - 1};
  if (others.value == 0) return directions * first;
  const Number other = recurrent_layer(layer, {gates}, directions * handed_on, handed_on) + projection;
  return directions * (first + others * other);
}

Number attention(const Reader& layer) {
  const Number width = layer.size("embed_dim");
  layer.expect_divides("num_heads", layer.size("num_heads"), "embed_dim", width);
  const Number matrices = width * (width + layer.size("kdim", width) + layer.size("vdim", width) + width);
  const Number biases{(layer.flag("bias", true) ? 4 : 0) + (layer.flag("add_bias_kv", false) ? 2 : 0)};
  return matrices + biases * width;
}

// Types of torch.nn, their arguments, and how many numbers they train.
struct KnownLayer {
  std::string_view types, required, optional;
  Count count = nothing;
  bool takes_anything = false;
};
constexpr std::string_view kConvolution = "in_channels out_channels kernel_size";
constexpr std::string_view kConvolutionMore = "stride padding dilation groups bias padding_mode device dtype";
constexpr std::string_view kTransposedMore =
    "stride padding output_padding groups bias dilation padding_mode device dtype";
constexpr std::string_view kNormMore = "eps momentum affine track_running_stats device dtype bias";
constexpr std::string_view kCell = "input_size hidden_size";
constexpr std::array kKnownLayers{
    KnownLayer{"Linear", "in_features out_features", "bias device dtype", linear},
    KnownLayer{"Bilinear", "in1_features in2_features out_features", "bias device dtype", bilinear},
    KnownLayer{"Conv1d", kConvolution, kConvolutionMore, convolution<1>},
    KnownLayer{"Conv2d", kConvolution, kConvolutionMore, convolution<2>},
    KnownLayer{"Conv3d", kConvolution, kConvolutionMore, convolution<3>},
    KnownLayer{"ConvTranspose1d", kConvolution, kTransposedMore, convolution<1>},
    KnownLayer{"ConvTranspose2d", kConvolution, kTransposedMore, convolution<2>},
    KnownLayer{"ConvTranspose3d", kConvolution, kTransposedMore, convolution<3>},
    KnownLayer{"BatchNorm1d BatchNorm2d BatchNorm3d", "num_features", kNormMore, batch_norm},
    KnownLayer{"SyncBatchNorm", "num_features",
               "eps momentum affine track_running_stats process_group device dtype bias", batch_norm},
    KnownLayer{"InstanceNorm1d InstanceNorm2d InstanceNorm3d", "num_features", kNormMore, instance_norm},
    KnownLayer{"GroupNorm", "num_groups num_channels", "eps affine device dtype bias", group_norm},
    KnownLayer{"LayerNorm", "normalized_shape", "eps elementwise_affine bias device dtype", layer_norm},
    KnownLayer{"RMSNorm", "normalized_shape", "eps elementwise_affine device dtype", rms_norm},
    KnownLayer{"Embedding", "num_embeddings embedding_dim",
               "padding_idx max_norm norm_type scale_grad_by_freq sparse device dtype", embedding},
    KnownLayer{"EmbeddingBag", "num_embeddings embedding_dim",
               "max_norm norm_type scale_grad_by_freq mode sparse include_last_offset padding_idx device dtype",
               embedding},
    KnownLayer{"PReLU", "", "num_parameters init device dtype", prelu},
    KnownLayer{"RNN", kCell, "num_layers nonlinearity bias batch_first dropout bidirectional device dtype",
               recurrent<1>},
    KnownLayer{"GRU", kCell, "num_layers bias batch_first dropout bidirectional device dtype", recurrent<3>},
    KnownLayer{"LSTM", kCell, "num_layers bias batch_first dropout bidirectional proj_size device dtype", recurrent<4>},
    KnownLayer{"RNNCell", kCell, "bias nonlinearity device dtype", cell<1>},
    KnownLayer{"GRUCell", kCell, "bias device dtype", cell<3>},
    KnownLayer{"LSTMCell", kCell, "bias device dtype", cell<4>},
    KnownLayer{"MultiheadAttention", "embed_dim num_heads",
               "dropout bias add_bias_kv add_zero_attn kdim vdim batch_first device dtype", attention},
    KnownLayer{"AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d", "output_size", ""},
    KnownLayer{"AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d", "output_size", "return_indices"},
    KnownLayer{"AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout", "", "p inplace"},
    KnownLayer{"AvgPool1d", "kernel_size", "stride padding ceil_mode count_include_pad"},
    KnownLayer{"AvgPool2d AvgPool3d", "kernel_size", "stride padding ceil_mode count_include_pad divisor_override"},
    KnownLayer{"CELU ELU", "", "alpha inplace"},
    KnownLayer{"ChannelShuffle", "groups", ""},
    KnownLayer{"ConstantPad1d ConstantPad2d ConstantPad3d", "padding value", ""},
    KnownLayer{"Flatten", "", "start_dim end_dim"},
    KnownLayer{"Fold", "output_size kernel_size", "dilation padding stride"},
    KnownLayer{"GELU", "", "approximate"},
    KnownLayer{"GLU LogSoftmax Softmax Softmin", "", "dim"},
    KnownLayer{"Hardshrink Softshrink", "", "lambd"},
    KnownLayer{"Hardsigmoid Hardswish Mish ReLU ReLU6 SELU SiLU", "", "inplace"},
    KnownLayer{"Hardtanh", "", "min_val max_val inplace min_value max_value"},
    KnownLayer{"Identity", "", "", nothing, true},
    KnownLayer{"LPPool1d LPPool2d", "norm_type kernel_size", "stride ceil_mode"},
    KnownLayer{"LeakyReLU", "", "negative_slope inplace"},
    KnownLayer{"LocalResponseNorm", "size", "alpha beta k"},
    KnownLayer{"LogSigmoid Sigmoid Softmax2d Softsign Tanh Tanhshrink", "", ""},
    KnownLayer{"MaxPool1d MaxPool2d MaxPool3d", "kernel_size", "stride padding dilation return_indices ceil_mode"},
    KnownLayer{"PixelShuffle", "upscale_factor", ""},
    KnownLayer{"PixelUnshuffle", "downscale_factor", ""},
    KnownLayer{"RReLU", "", "lower upper inplace"},
    KnownLayer{"ReflectionPad1d ReflectionPad2d ReplicationPad1d ReplicationPad2d ZeroPad1d ZeroPad2d", "padding", ""},
    KnownLayer{"Softplus", "", "beta threshold"},
    KnownLayer{"Threshold", "threshold value", "inplace"},
    KnownLayer{"Unflatten", "dim unflattened_size", ""},
    KnownLayer{"Unfold", "kernel_size", "dilation padding stride"},
    KnownLayer{"Upsample", "", "size scale_factor mode align_corners recompute_scale_factor"},
};

const KnownLayer& kind_of(const std::string& type) {
  const auto found = std::ranges::find_if(kKnownLayers, [&](const KnownLayer& kind) {
    return type.find(' ') == std::string::npos && is_word_of(kind.types, type);
  });
  if (found == kKnownLayers.end()) throw NotFound(fmt::format("layer {}: there is no such type here", type));
  return *found;
}

}  // namespace

std::int64_t trainable_parameters(const Layer& layer) {
  const KnownLayer& kind = kind_of(layer.type);
  const Reader reader(layer);
  if (!kind.takes_anything) reader.expect(kind.required, kind.optional);
  try {
    return kind.count(reader).value;
  } catch (const OutOfRange& error) {
    throw OutOfRange(fmt::format("layer {}: {}", layer.type, error.what()));
  }
}

std::vector<std::int64_t> trainable_parameters(std::span<const Layer> layers) {
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    try {
      all.push_back(trainable_parameters(layers[i]));
    } catch (const NotFound& error) {
      throw NotFound(fmt::format("layers[{}]: {}", i, error.what()));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(fmt::format("layers[{}]: {}", i, error.what()));
    } catch (const OutOfRange& error) {
      throw OutOfRange(fmt::format("layers[{}]: {}", i, error.what()));
    }
  }
  return all;
}

}  // namespace plumbline::schedules

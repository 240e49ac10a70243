#include "harness/bench/gradient_lists.hpp"

#include <array>

#include <fmt/format.h>

namespace plumbline::bucketing {
namespace {

class List {
 public:
  void add(std::string name, std::int64_t elements) { sizes_.push_back({std::move(name), elements}); }
  void add_normalisation(const std::string& name, std::int64_t features) {
    add(name + ".weight", features);
    add(name + ".bias", features);
  }
  void add_linear(const std::string& name, std::int64_t in, std::int64_t out) {
    add(name + ".weight", in * out);
    add(name + ".bias", out);
  }
  [[nodiscard]] std::vector<NamedSize> take() { return std::move(sizes_); }

 private:
  std::vector<NamedSize> sizes_;
};

void add_convolution(List& list, const std::string& name, const std::string& norm, std::int64_t in, std::int64_t out,
                     std::int64_t kernel) {
  list.add(name + ".weight", in * out * kernel * kernel);
  list.add_normalisation(norm, out);
}

}  // namespace

std::vector<NamedSize> resnet50_gradients() {
  constexpr std::array blocks{3, 4, 6, 3};
  constexpr std::int64_t expansion = 4;
  List list;
  add_convolution(list, "conv1", "bn1", 3, 64, 7);
  std::int64_t in = 64;
  for (int layer = 0; layer < 4; ++layer) {
    const std::int64_t planes = std::int64_t{64} << layer;
    for (int block = 0; block < blocks[static_cast<std::size_t>(layer)]; ++block) {
      const std::string prefix = fmt::format("layer{}.{}.", layer + 1, block);
      add_convolution(list, prefix + "conv1", prefix + "bn1", in, planes, 1);
      add_convolution(list, prefix + "conv2", prefix + "bn2", planes, planes, 3);
      add_convolution(list, prefix + "conv3", prefix + "bn3", planes, planes * expansion, 1);
      if (block == 0)
        add_convolution(list, prefix + "downsample.0", prefix + "downsample.1", in, planes * expansion, 1);
      in = planes * expansion;
    }
  }
  list.add_linear("fc", in, 1000);
  return list.take();
}

std::vector<NamedSize> gpt2_small_gradients() {
  constexpr std::int64_t width = 768, tokens = 50257, places = 1024;
  List list;
  list.add("wte.weight", tokens * width);
  list.add("wpe.weight", places * width);
  for (int block = 0; block < 12; ++block) {
    const std::string prefix = fmt::format("h.{}.", block);
    list.add_normalisation(prefix + "ln_1", width);
    list.add_linear(prefix + "attn.c_attn", width, 3 * width);
    list.add_linear(prefix + "attn.c_proj", width, width);
    list.add_normalisation(prefix + "ln_2", width);
    list.add_linear(prefix + "mlp.c_fc", width, 4 * width);
    list.add_linear(prefix + "mlp.c_proj", 4 * width, width);
  }
  list.add_normalisation("ln_f", width);
  return list.take();
}

}  // namespace plumbline::bucketing

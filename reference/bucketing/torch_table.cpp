#include "reference/bucketing/detail/torch_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace plumbline::bucketing {
namespace {

// c10::ScalarType, of numbers and of pairs of them.
std::uint64_t number_of_type(const Gradient& gradient) {
  constexpr std::array<std::uint64_t, 7> plain{5, 15, 6, 7, 3, 4, 0};  // f16 bf16 f32 f64 i32 i64 u8
  constexpr std::array<std::uint64_t, 4> pairs{8, 8, 9, 10};           // of f16, f32 and f64
  const auto dtype = static_cast<std::size_t>(gradient.dtype);
  return gradient.components_per_element == 1 ? plain[dtype] : pairs[std::min(dtype, pairs.size() - 1)];
}

// A kind and an index, 255 without an index.
std::uint64_t number_of_device(comm::Device device) {
  constexpr std::uint64_t none = 255, cuda = 1;
  if (device.kind == comm::Device::Kind::cpu) return none;
  const auto index = static_cast<std::int64_t>(device.index);
  return index < 0 ? static_cast<std::uint64_t>(-index) << 16 | none : cuda << 16 | static_cast<std::uint64_t>(index);
}

std::uint64_t hash(const Gradient& gradient) {
  const std::uint64_t device = number_of_device(gradient.device);
  return device ^ (number_of_type(gradient) + 0x9e3779b9 + (device << 6) + (device >> 2));
}

class Table {
 public:
  void enter(int position, std::uint64_t hash) {
    if (nodes_.size() == slots_ || slots_ == 0) grow();
    link({position, hash});
  }
  [[nodiscard]] std::vector<int> positions() const {
    std::vector<int> positions;
    for (const Node& node : nodes_) positions.push_back(node.position);
    return positions;
  }

 private:
  struct Node {
    int position = 0;
    std::uint64_t hash = 0;
  };
  void link(const Node& node) {
    const auto slot = [&](const Node& one) { return one.hash % slots_; };
    const auto front = std::ranges::find(nodes_, slot(node), slot);
    nodes_.insert(front == nodes_.end() ? nodes_.begin() : front, node);
  }
  void grow() {
    constexpr std::array<std::size_t, 9> primes{13, 29, 59, 127, 257, 541, 1109, 2357, 5087};  // its sizes
    slots_ = *std::ranges::find_if(primes.begin(), primes.end() - 1, [&](std::size_t prime) { return prime > slots_; });
    const std::vector<Node> before = std::exchange(nodes_, {});
    for (const Node& node : before) link(node);
  }

  std::vector<Node> nodes_;  // as they are walked
  std::size_t slots_ = 0;
};

}  // namespace

std::vector<int> torch_table_order(const std::vector<Gradient>& entered) {
  Table table;
  for (std::size_t i = 0; i < entered.size(); ++i) table.enter(static_cast<int>(i), hash(entered[i]));
  return table.positions();
}

}  // namespace plumbline::bucketing

#include "reference/gossip/detail/bluefog.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reference/comm/errors.hpp"

namespace plumbline::gossip {
namespace {

using Rows = std::vector<std::vector<double>>;

bool is_power_of(int number, int base) {
  std::int64_t power = 1;
  while (power < number) power *= base;
  return power == number;
}

// Every node sends along the same distances, itself included, in equal shares.
Rows turned(int size, const std::vector<int>& distances) {
  std::vector<bool> sends(static_cast<std::size_t>(size));
  for (const int distance : distances) sends[static_cast<std::size_t>(distance % size)] = true;
  const double share = 1.0 / static_cast<double>(std::ranges::count(sends, true));
  Rows rows(static_cast<std::size_t>(size), std::vector<double>(static_cast<std::size_t>(size)));
  for (std::size_t from = 0; from < rows.size(); ++from)
    for (std::size_t distance = 0; distance < rows.size(); ++distance)
      if (sends[distance]) rows[from][(from + distance) % rows.size()] = share;
  return rows;
}

std::vector<int> powers_below(int size, int base) {
  std::vector<int> distances{0};
  for (int distance = 1; distance < size; ++distance)
    if (is_power_of(distance, base)) distances.push_back(distance);
  return distances;
}

// The second half of the distances mirrors the first.
std::vector<int> mirrored_powers(int size, int base) {
  std::vector<int> distances{0};
  for (int distance = 1; distance < size; ++distance)
    if (is_power_of(distance <= size / 2 ? distance : size - distance, base)) distances.push_back(distance);
  return distances;
}

std::vector<int> ring_distances(int size, int style) {
  if (style < 0 || style > 2)
    throw InvalidArgument(fmt::format(
        "RingGraph: connect_style {}; 0, 1 and 2 are both neighbours, the one before, the one after", style));
  if (style == 0) return {0, 1, size - 1};
  return {0, style == 1 ? size - 1 : 1};
}

std::vector<int> shape_of_mesh(int size, std::vector<int> shape) {
  if (shape.empty()) {
    int rows = static_cast<int>(std::sqrt(static_cast<double>(size)));
    while (size % rows != 0) --rows;
    return {rows, size / rows};
  }
  if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1 || std::int64_t{shape[0]} * shape[1] != size)
    throw InvalidArgument(fmt::format("MeshGrid2DGraph: shape {} of size {}", shape, size));
  return shape;
}

// A node counts itself as a neighbour; of two the one with more neighbours says what passes between them.
Rows mesh(int size, const std::vector<int>& shape) {
  const int columns = shape[1];
  const auto are_neighbours = [&](int a, int b) {
    const int rows_apart = std::abs(a / columns - b / columns), columns_apart = std::abs(a % columns - b % columns);
    return rows_apart + columns_apart <= 1;
  };
  std::vector<double> neighbours(static_cast<std::size_t>(size));
  for (int a = 0; a < size; ++a)
    for (int b = 0; b < size; ++b) neighbours[static_cast<std::size_t>(a)] += are_neighbours(a, b) ? 1 : 0;
  Rows rows(static_cast<std::size_t>(size), std::vector<double>(static_cast<std::size_t>(size)));
  for (int a = 0; a < size; ++a) {
    auto& row = rows[static_cast<std::size_t>(a)];
    for (int b = 0; b < size; ++b)
      if (a != b && are_neighbours(a, b))
        row[static_cast<std::size_t>(b)] =
            1.0 / std::max(neighbours[static_cast<std::size_t>(a)], neighbours[static_cast<std::size_t>(b)]);
    row[static_cast<std::size_t>(a)] = 1.0 - std::accumulate(row.begin(), row.end(), 0.0);
  }
  return rows;
}

Rows star(int size, int center) {
  if (center < 0 || center >= size) throw InvalidArgument(fmt::format("StarGraph: center {} of size {}", center, size));
  const double share = 1.0 / size;
  const auto middle = static_cast<std::size_t>(center);
  Rows rows(static_cast<std::size_t>(size), std::vector<double>(static_cast<std::size_t>(size)));
  for (std::size_t node = 0; node < rows.size(); ++node) {
    rows[node][node] = 1.0 - share;
    rows[node][middle] = share;
    rows[middle][node] = share;
  }
  return rows;
}

int base_of(const std::string& name, std::optional<int> base, int otherwise) {
  if (base && *base < 2) throw InvalidArgument(fmt::format("{}: base {}; it is 2 at least", name, *base));
  return base.value_or(otherwise);
}

Rows weights_of(const std::string& name, const BluefogArguments& arguments) {
  const int size = arguments.size;
  if (name == "ExponentialTwoGraph") return turned(size, powers_below(size, 2));
  if (name == "ExponentialGraph") return turned(size, powers_below(size, base_of(name, arguments.base, 2)));
  if (name == "SymmetricExponentialGraph") return turned(size, mirrored_powers(size, base_of(name, arguments.base, 4)));
  if (name == "RingGraph") return turned(size, ring_distances(size, arguments.connect_style));
  if (name == "MeshGrid2DGraph") return mesh(size, shape_of_mesh(size, arguments.shape));
  if (name == "StarGraph") return star(size, arguments.center_rank);
  if (name == "FullyConnectedGraph") {
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    return turned(size, all);
  }
  throw NotFound(
      fmt::format("no topology '{}'; there are ExponentialTwoGraph, ExponentialGraph, SymmetricExponentialGraph, "
                  "RingGraph, MeshGrid2DGraph, StarGraph and FullyConnectedGraph",
                  name));
}

}  // namespace

std::vector<int> BluefogTopology::sends_to(int node) const {
  std::vector<int> nodes;
  const auto& row = weights[static_cast<std::size_t>(node)];
  for (std::size_t to = 0; to < row.size(); ++to)
    if (static_cast<int>(to) != node && row[to] != 0) nodes.push_back(static_cast<int>(to));
  return nodes;
}

BluefogTopology bluefog_topology(const std::string& name, const BluefogArguments& arguments) {
  constexpr int most = 4096;
  if (arguments.size < 1) throw InvalidArgument(fmt::format("{}: size {}; it is 1 at least", name, arguments.size));
  if (arguments.size > most) throw Unsupported(fmt::format("{}: size {}; {} at most", name, arguments.size, most));
  BluefogTopology topology{.weights = weights_of(name, arguments), .is_regular = true};
  // A node of each of them receives from as many as it sends to.
  for (int node = 1; node < arguments.size; ++node)
    if (topology.sends_to(node).size() != topology.sends_to(0).size()) topology.is_regular = false;
  return topology;
}

std::vector<BluefogTurn> bluefog_one_peer_turns(const BluefogTopology& topology, std::int64_t step) {
  const auto nodes = static_cast<int>(topology.weights.size());
  std::vector<BluefogTurn> turns(topology.weights.size());
  for (int node = 0; node < nodes; ++node) {
    std::vector<int> to = topology.sends_to(node);
    if (to.empty()) throw InvalidArgument(fmt::format("node {} of {} has no node to send to", node, nodes));
    // Rising is clockwise but for those that come before the node.
    std::ranges::rotate(to, std::ranges::upper_bound(to, node));
    const int peer = to[static_cast<std::size_t>(step % std::ssize(to))];
    turns[static_cast<std::size_t>(node)].send = {peer};
    turns[static_cast<std::size_t>(peer)].receive.push_back(node);
  }
  return turns;
}

namespace {

// The largest k with 2^k not above `number`.
int floor_of_logarithm(int number) { return static_cast<int>(std::bit_width(static_cast<unsigned>(number))) - 1; }

int round_the_end(std::int64_t place, int places) { return static_cast<int>(((place % places) + places) % places); }

// One rank of each machine goes outside, to the rank of its number of another machine; the others stay, and leave it
// out.
struct Machines {
  int machines, ranks;  // a machine
  std::int64_t step;

  [[nodiscard]] int goes_outside() const { return round_the_end(step, ranks); }
  [[nodiscard]] BluefogTurn outside(int machine, int rank, int distance) const {
    return {{round_the_end(machine + distance, machines) * ranks + rank},
            {round_the_end(machine - distance, machines) * ranks + rank}};
  }
  // Those that stay, as if the one outside were not there.
  [[nodiscard]] BluefogTurn inside(int machine, int rank, int distance) const {
    const int to_it = round_the_end(goes_outside() - rank, ranks),
              from_it = round_the_end(rank - goes_outside(), ranks);
    const int send = round_the_end(rank + distance + (distance >= to_it ? 1 : 0), ranks);
    const int receive = round_the_end(rank - distance - (distance >= from_it ? 1 : 0), ranks);
    return {{machine * ranks + send}, {machine * ranks + receive}};
  }
};

}  // namespace

std::vector<BluefogTurn> bluefog_machine_turns(const std::string& generator, int ranks, int ranks_per_machine,
                                               std::int64_t step) {
  const bool is_exponential = generator == "GetInnerOuterExpo2DynamicSendRecvRanks";
  const bool of_machines = generator == "GetExp2DynamicSendRecvMachineRanks";
  if (!is_exponential && !of_machines && generator != "GetInnerOuterRingDynamicSendRecvRanks")
    throw NotFound(
        fmt::format("no generator '{}'; there are GetExp2DynamicSendRecvMachineRanks, "
                    "GetInnerOuterRingDynamicSendRecvRanks and GetInnerOuterExpo2DynamicSendRecvRanks",
                    generator));
  if (ranks < 1 || ranks_per_machine < 1 || ranks % ranks_per_machine != 0)
    throw InvalidArgument(
        fmt::format("{}: {} ranks, {} a machine; machines are filled", generator, ranks, ranks_per_machine));
  const Machines all{.machines = ranks / ranks_per_machine, .ranks = ranks_per_machine, .step = step};
  if (!of_machines && all.ranks <= 2)
    throw InvalidArgument(fmt::format("{}: {} ranks a machine; there are 3 at least", generator, all.ranks));
  if ((of_machines || is_exponential) && all.machines < 2)
    throw InvalidArgument(fmt::format("{}: {} machine; there are 2 at least", generator, all.machines));
  const auto power = [](std::int64_t turn, int levels) { return 1 << (turn % (levels + 1)); };
  std::vector<BluefogTurn> turns;
  for (int rank = 0; rank < ranks; ++rank) {
    const int machine = rank / all.ranks, local = rank % all.ranks;
    if (of_machines) {
      const int distance = power(step, floor_of_logarithm(all.machines - 1));
      turns.push_back(
          {{round_the_end(machine + distance, all.machines)}, {round_the_end(machine - distance, all.machines)}});
    } else if (local == all.goes_outside()) {
      const int distance = is_exponential ? power(step, floor_of_logarithm(all.machines - 1)) : 1;
      turns.push_back(all.outside(machine, local, distance));
    } else {
      const int distance = is_exponential ? power(step, floor_of_logarithm(all.ranks - 2)) : 1;
      turns.push_back(all.inside(machine, local, distance));
    }
  }
  return turns;
}

}  // namespace plumbline::gossip

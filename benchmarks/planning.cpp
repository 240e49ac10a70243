// What planning a world costs: ninja planning && build/tests/planning
//
// Model   Worlds of 2^10 to 2^20 ranks with three axes (pipe, data, model) and with five, and one with two axes of size
//         2. All groups of all axes, streamed (visited one by one, in one buffer) and laid out (in an array that is
//         there); the coordinates of all ranks, streamed and asked for rank by rank; the groups of one rank along all
//         axes. Of 2^20 ranks also all groups of a rank generator and of a pipeline's grid, and the
//         pairs of its neighbours. A figure is the least of several rounds on one thread. Memory is how much the peak
//         of the process has grown since before the first world, the arrays for laying out aside.
// Verdict The last lines hold two figures against their aims.
// Anchors `planning 18` prints one number alone: the milliseconds that 2^18 ranks on three axes take to be laid out,
//         their construction included (anchors/topology_deepspeed.py).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <sys/resource.h>

#include "reference/topology/grid.hpp"
#include "reference/topology/rank_generator.hpp"
#include "reference/topology/topology.hpp"

namespace {

using namespace plumbline::topology;
using Clock = std::chrono::steady_clock;

volatile int sink = 0;  // what is computed is used
const std::vector<std::string> kThree{"pipe", "data", "model"};

// Milliseconds of the quickest of a number of calls that last about a tenth of a second.
template <class Call>
double milliseconds(Call call) {
  double least = std::numeric_limits<double>::infinity();
  const auto end = Clock::now() + std::chrono::milliseconds(100);
  for (int round = 0; round < 3 || Clock::now() < end; ++round) {
    const auto start = Clock::now();
    call();
    least = std::min(least, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  return least;
}

long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// 2^bits ranks over axes of like sizes, the first one largest.
Topology world(int bits, const std::vector<std::string>& names) {
  const int axes = static_cast<int>(names.size());
  std::vector<int> sizes;
  for (int i = 0; i < axes; ++i) sizes.push_back(1 << (bits / axes + (i < bits % axes ? 1 : 0)));
  return Topology::row_major(names, sizes);
}

void stream(const Topology& topology) {
  int sum = 0;
  for (const Axis& axis : topology.axes())
    topology.groups(axis.name).for_each([&](std::span<const int> ranks) { sum ^= ranks.back(); });
  sink = sum;
}

void lay_out(const Topology& topology, std::vector<int>& room) {
  for (const Axis& axis : topology.axes()) {
    topology.groups(axis.name).write_all(room);
    sink = room.back();
  }
}

void coordinates(const Topology& topology) {
  int sum = 0;
  topology.for_each_coordinate([&](int, std::span<const int> positions) { sum ^= positions.back(); });
  sink = sum;
}

void coordinates_by_rank(const Topology& topology) {
  std::vector<int> positions(topology.axes().size());
  int sum = 0;
  for (int rank = 0; rank < topology.world_size(); ++rank) {
    topology.coordinate(rank, positions);
    sum ^= positions.back();
  }
  sink = sum;
}

void groups_of_one(const Topology& topology) {
  const int rank = topology.world_size() - 1;
  for (const Axis& axis : topology.axes()) sink = topology.group_of(rank, axis.name).front();
}

// Milliseconds.
struct Row {
  Topology topology;
  double streamed = 0, laid_out = 0, coordinates = 0, by_rank = 0, groups_of_one = 0;
  long peak_growth = 0;  // KiB
};

Row measure(const Topology& topology, long before) {
  Row row{topology};
  row.streamed = milliseconds([&] { stream(topology); });
  row.coordinates = milliseconds([&] { coordinates(topology); });
  row.by_rank = milliseconds([&] { coordinates_by_rank(topology); });
  row.groups_of_one = milliseconds([&] { groups_of_one(topology); });
  row.peak_growth = peak_kib() - before;
  return row;
}

void print(const Row& row) {
  std::printf("%9d  %4zu  %8.4f  %9.4f  %8.4f  %8.4f  %10.3f  %5ld  %s\n", row.topology.world_size(),
              row.topology.axes().size(), row.streamed, row.laid_out, row.coordinates, row.by_rank,
              row.groups_of_one * 1000, row.peak_growth, row.topology.to_string().c_str());
}

std::vector<Topology> worlds() {
  std::vector<Topology> worlds;
  for (const std::vector<std::string>& names : {kThree, {"pipe", "data", "expert", "context", "model"}})
    for (const int bits : {10, 12, 14, 16, 18, 20}) worlds.push_back(world(bits, names));
  worlds.push_back(Topology::row_major(kThree, std::vector{2, 2, 1 << 18}));
  return worlds;
}

void stream(const GroupList& groups) {
  int sum = 0;
  groups.for_each([&](std::span<const int> ranks) { sum ^= ranks.back(); });
  sink = sum;
}

void print_others() {
  const RankGenerator generator({{"tp", 1 << 7}, {"dp", 1 << 7}, {"pp", 1 << 6}}, "tp-cp-ep-dp-pp");
  std::printf("rank generator, 2^20 ranks: groups of tp, dp, pp and tp-pp %.3f ms\n", milliseconds([&] {
                for (const char* token : {"tp", "dp", "pp", "tp-pp"}) stream(generator.groups(token));
              }));
  const PipelineGrid grid(1 << 20, world(20, kThree));
  std::printf("grid, 2^20 ranks: all groups in creation order %.3f ms, ", milliseconds([&] {
                for (const GroupList& groups : grid.creation_order()) stream(groups);
              }));
  std::printf("pairs of all ranks %.3f ms\n", milliseconds([&] { sink = grid.p2p_pairs().back()[1]; }));
}

// Whether an aim is met.
bool verdict(const char* what, double figure, double aim, const char* unit) {
  std::printf("%s: %.3f %s, aim %.0f %s: %s\n", what, figure, unit, aim, unit, figure <= aim ? "met" : "MISSED");
  return figure <= aim;
}

bool print_verdicts(const std::vector<Row>& rows) {
  const auto row = std::ranges::find_if(rows, [](const Row& one) { return one.topology == world(20, kThree); });
  const bool all = verdict("all groups of three axes at 2^20 ranks", std::max(row->streamed, row->laid_out), 5, "ms");
  return verdict("one rank's groups of them", row->groups_of_one * 1000, 10, "us") && all;
}

double milliseconds_of_all(int bits) {
  std::vector<int> room(std::size_t{1} << bits);
  return milliseconds([&] { lay_out(world(bits, kThree), room); });
}

}  // namespace

int main(int count, char** words) {
  if (count > 1) {
    const int bits = std::atoi(words[1]);
    if (bits < 1 || bits > 28) return std::fprintf(stderr, "planning: %s is no number from 1 to 28\n", words[1]), 2;
    std::printf("%.6f\n", milliseconds_of_all(bits));
    return 0;
  }
  const long before = peak_kib();
  std::vector<Row> rows;
  for (const Topology& topology : worlds()) rows.push_back(measure(topology, before));
  std::printf("                   all groups, ms    all coordinates, ms  one rank's   peak\n");
  std::printf("    ranks  axes  streamed   laid out  streamed   by rank  groups, us    KiB\n");
  for (Row& row : rows) {  // only now, since the arrays for it are no part of the memory
    std::vector<int> room(static_cast<std::size_t>(row.topology.world_size()));
    row.laid_out = milliseconds([&] { lay_out(row.topology, room); });
    print(row);
  }
  print_others();
  return print_verdicts(rows) ? 0 : 1;
}

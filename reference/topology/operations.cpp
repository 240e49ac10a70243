// topology.*: named axes, grids, rank orders, meshes and nodes, under the names that are recorded of the frameworks.
#include "reference/adapter/operations.hpp"

#include <fmt/format.h>

#include "reference/topology/deepspeed.hpp"
#include "reference/topology/detail/operations.hpp"

namespace plumbline::topology::operations {
namespace {

// Of an answer's line, with what estimates leave out.
constexpr double kMostBytes = 0.99 * static_cast<double>(adapter::kLongestLine);
constexpr std::size_t kMostAxes = 64;  // an int counts no world with more than 30 axes of several ranks

}  // namespace

void expect_short(double bytes) {
  if (bytes > kMostBytes)
    throw Unsupported(
        fmt::format("the answer would have about {:.0f} bytes, at most {:.0f} fit in a line", bytes, kMostBytes));
}

double bytes_of(double numbers, double most, double lists) {
  return numbers * static_cast<double>(fmt::formatted_size("{:.0f}", most) + 1) + lists * 3;
}

Names read_axes(const Arguments& arguments, std::string_view field) {
  auto axes = arguments.get<Names>(field);
  if (axes.size() > kMostAxes)
    throw Unsupported(fmt::format("{} has {} names, of at most {} are answers made", field, axes.size(), kMostAxes));
  return axes;
}

Topology read_topology(const Arguments& arguments, Convention convention) {
  const Names axes = read_axes(arguments);
  const auto sizes = arguments.get<Sizes>("dims");
  return convention == Convention::plumbline ? Topology::row_major(axes, sizes)
                                             : ProcessTopology(axes, sizes).topology();
}

}  // namespace plumbline::topology::operations

namespace plumbline::adapter {

void add_topology_operations(AdapterService& service) {
  topology::operations::add_process_topology(service);
  topology::operations::add_query(service);
  topology::operations::add_prime_factors(service);
  topology::operations::add_grid(service);
  topology::operations::add_rank_generator(service);
  topology::operations::add_hyper_comm_grid(service);
  topology::operations::add_device_mesh(service);
  topology::operations::add_mesh_of_ranks(service);
  topology::operations::add_placement(service);
}

}  // namespace plumbline::adapter

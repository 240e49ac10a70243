// reference/topology/detail/operations.hpp: what the operations topology.* share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reference/adapter/arguments.hpp"
#include "reference/adapter/operations.hpp"
#include "reference/adapter/protocol.hpp"
#include "reference/comm/errors.hpp"
#include "reference/topology/topology.hpp"

namespace plumbline::topology::operations {

using adapter::AdapterService;
using adapter::ArgumentRow;
using adapter::Arguments;
using adapter::Choices;
using adapter::Convention;
using adapter::kOptional;
using adapter::kRequired;
using adapter::RefusalRow;
using adapter::with_fields;
using adapter::Words;
using nlohmann::json;

using Names = std::vector<std::string>;
using Sizes = std::vector<int>;

/// Throws Unsupported where an answer of so many bytes would not fit in a line.
void expect_short(double bytes);
/// What numbers up to `most` take, in so many lists.
[[nodiscard]] double bytes_of(double numbers, double most, double lists = 0);

/// Throws Unsupported for more names than answers are made of.
[[nodiscard]] Names read_axes(const Arguments& arguments, std::string_view field = "axes");

/// The world of a grid, as the convention reads it.
[[nodiscard]] Topology read_topology(const Arguments& arguments, Convention convention);

/// Rows that several operations have.
struct SharedRows {
  const ArgumentRow axes{"axes", "list of text", "axis names, the slowest-varying first"},
      dims{"dims", "list of integer [axes]", "size of each axis"},
      names{"dim_names", "list of text", "names of the dimensions, the slowest-varying first"},
      shape{"shape", "list of integer [dim_names]", "size of each dimension"},
      offset{"rank_offset", "integer", "the first rank", "0"},
      omitted{"omit_axes", "list of text", "axes that the name leaves out; null: data and pipe", kOptional},
      inner{"inner_sep", "text", "between an axis and its position; null: _", kOptional},
      outer{"outer_sep", "text", "between axes; null: -", kOptional};
  const RefusalRow bad_grid{"invalid_argument",
                            "axes and dims have different lengths, a name occurs twice, a size is below 1, or the "
                            "world exceeds an int"},
      too_long{"unsupported", "the answer would not fit in a line, or there are more than 64 axes"},
      no_axis{"not_found", "an axis has another name"},
      no_position{"out_of_range", "a rank or a position does not exist"};
};

void add_process_topology(AdapterService& service);
void add_query(AdapterService& service);
void add_prime_factors(AdapterService& service);
void add_grid(AdapterService& service);
void add_rank_generator(AdapterService& service);
void add_hyper_comm_grid(AdapterService& service);
void add_device_mesh(AdapterService& service);
void add_mesh_of_ranks(AdapterService& service);
void add_placement(AdapterService& service);

}  // namespace plumbline::topology::operations
